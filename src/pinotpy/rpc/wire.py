"""Requests between broker and server, as bytes: a fixed head, then what varies. Little-endian; no pickle, no class names.

offset  bytes  what
 0       4     magic "PQR1"
 4       1     protocol version: a server refuses one that it does not speak
 5       1     kind: 1 query, 2 cancel, 3 ping
 6       2     flags
 8       4     feature bits that the sender may use (a broker sends only what a server advertises)
12       8     request id
20       4     time left in milliseconds (relative: clocks of two machines differ)
24       4     number of segments
28       2     length of broker id
30       2     length of principal
32       2     length of table name with type
34       2     reserved, 0
36       4     length of segment names (joined by line feeds; names cannot hold one)
40       4     length of query context
44       …     broker id, principal, table, segment names, context

A request must be exactly as long as its lengths say. Answers are the bytes of a PartialResult as they are; errors travel
beside them as (code, message, context), see `faults.py`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

from pinotpy.errors import DataError, UnsupportedVersionError

MAGIC = b"PQR1"
PROTOCOL_VERSION = 1
# Bits of `features`: what a server can do besides protocol 1; published in its instance record. None so far.
FEATURES_SUPPORTED = 0

REQUEST_MAX_BYTES = 16 << 20
SEGMENTS_MAX = 100_000
CONTEXT_MAX_BYTES = 4 << 20
TIMEOUT_MAX_MS = 24 * 3600 * 1000

_HEAD = struct.Struct("<4sBBHIQIIHHHHII")
assert _HEAD.size == 44
KIND_OFFSET = 5
_MAX_U16 = 0xFFFF


class RequestKind(IntEnum):
    """What is asked."""

    QUERY = 1
    CANCEL = 2
    PING = 3


FLAG_TRACE = 1
# A server ends a query so long before its caller stops waiting, and says so; only one that does not even say that is "not
# responding".
LAST_WORD_S = 0.2
FLAGS_KNOWN = FLAG_TRACE


@dataclass(frozen=True, slots=True)
class ServerRequest:
    """One request. For CANCEL, (`broker_id`, `request_id`) name the query to end, and the rest is empty.

    `timeout_ms`: time left when it was sent. `principal`: whom the broker answers, for the server's log.
    `context`: bytes of query.context_codec.
    """

    kind: RequestKind
    request_id: int
    timeout_ms: int
    broker_id: str = ""
    principal: str = ""
    table_name_with_type: str = ""
    segment_names: tuple[str, ...] = ()
    context: bytes = b""
    flags: int = 0
    features: int = 0


def encode_request(request: ServerRequest) -> bytes:
    """The request's bytes. DataError if it is over a limit."""
    broker_id, principal, table = request.broker_id.encode(), request.principal.encode(), request.table_name_with_type.encode()
    segments = "\n".join(request.segment_names).encode()
    num_segments = len(request.segment_names)
    if max(len(broker_id), len(principal), len(table)) > _MAX_U16:
        raise DataError(f"a name of the request is over {_MAX_U16} bytes")
    if segments.count(b"\n") != max(0, num_segments - 1) or (num_segments == 1 and not segments):
        raise DataError("a segment name is empty or holds a line feed")
    size = _HEAD.size + len(broker_id) + len(principal) + len(table) + len(segments) + len(request.context)
    if num_segments > SEGMENTS_MAX or len(request.context) > CONTEXT_MAX_BYTES or size > REQUEST_MAX_BYTES:
        raise DataError(
            f"a request of {num_segments} segments and {size} bytes is over the limits of {SEGMENTS_MAX} segments, "
            f"{CONTEXT_MAX_BYTES} bytes of query, {REQUEST_MAX_BYTES} bytes in all"
        )
    timeout_ms = min(max(request.timeout_ms, 0), TIMEOUT_MAX_MS)
    head = _HEAD.pack(
        MAGIC, PROTOCOL_VERSION, request.kind, request.flags, request.features, request.request_id, timeout_ms, num_segments,
        len(broker_id), len(principal), len(table), 0, len(segments), len(request.context),
    )  # fmt: skip
    return b"".join((head, broker_id, principal, table, segments, request.context))


@dataclass(frozen=True, slots=True)
class RequestHead:
    """The fixed part, enough to refuse, to cancel and to count."""

    kind: RequestKind
    flags: int
    features: int
    request_id: int
    timeout_ms: int
    num_segments: int
    lengths: tuple[int, int, int, int, int]


def decode_head(content: bytes) -> RequestHead:
    """Read and check the fixed part. DataError for bytes that are no request, UnsupportedVersionError for another protocol."""
    if len(content) < _HEAD.size or content[:4] != MAGIC:
        raise DataError(f"{len(content)} bytes are no request: expected magic '{MAGIC.decode()}' and at least {_HEAD.size} bytes, found {content[:4]!r}")
    version = content[4]
    if version != PROTOCOL_VERSION:
        raise UnsupportedVersionError("protocol of a request", found=version, supported=PROTOCOL_VERSION)
    _, _, kind, flags, features, request_id, timeout_ms, num_segments, broker, principal, table, reserved, segments, context = _HEAD.unpack_from(content)
    if kind not in (1, 2, 3) or flags & ~FLAGS_KNOWN or reserved:
        raise DataError(f"a request of unknown kind {kind}, flags {flags:#x} or reserved {reserved:#x}")
    if features & ~FEATURES_SUPPORTED:
        raise UnsupportedVersionError("features of a request", found=hex(features), supported=hex(FEATURES_SUPPORTED))
    lengths = (broker, principal, table, segments, context)
    if len(content) != _HEAD.size + sum(lengths):
        raise DataError(f"a request of {len(content)} bytes says that it has {_HEAD.size + sum(lengths)}")
    if num_segments > SEGMENTS_MAX or context > CONTEXT_MAX_BYTES or len(content) > REQUEST_MAX_BYTES:
        raise DataError(f"a request of {num_segments} segments and {len(content)} bytes is over the limits")
    return RequestHead(RequestKind(kind), flags, features, request_id, min(timeout_ms, TIMEOUT_MAX_MS), num_segments, lengths)


def decode_request(content: bytes, head: RequestHead | None = None) -> ServerRequest:
    """Read a whole request, checking every length. DataError or UnsupportedVersionError."""
    head = head or decode_head(content)
    parts = []
    position = _HEAD.size
    for length in head.lengths:
        parts.append(content[position : position + length])
        position += length
    try:
        broker_id, principal, table, segments = (part.decode() for part in parts[:4])
    except UnicodeDecodeError:
        raise DataError("a name of the request is not UTF-8") from None
    segment_names = tuple(segments.split("\n")) if head.num_segments else ()
    if len(segment_names) != head.num_segments or (not head.num_segments and segments) or not all(segment_names):
        raise DataError(f"a request says that it names {head.num_segments} segments and names {len(segment_names)}")
    return ServerRequest(head.kind, head.request_id, head.timeout_ms, broker_id, principal, table, segment_names, parts[4], head.flags, head.features)


def encode_cancel(broker_id: str, request_id: int) -> bytes:
    """The request that ends another one."""
    return encode_request(ServerRequest(RequestKind.CANCEL, request_id, 0, broker_id))
