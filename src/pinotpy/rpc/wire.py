"""Requests between broker and server, as bytes: a fixed head, then what varies. Little-endian; no pickle, no class
names.

offset  bytes  what
 0       4     magic "PQR1"
 4       1     protocol version: a server refuses one that it does not speak
 5       1     kind: 1 query, 2 cancel, 3 ping
 6       2     flags: 1 trace the stages, 2 this server's result is final (it is the whole answer), 4 the caller reads
               compact rows
 8       4     feature bits that the sender may use (a broker sends only what a server advertises)
12       8     request id
20       4     time left in milliseconds (relative: clocks of two machines differ)
24       4     number of segments
28       2     length of broker id
30       2     length of principal
32       2     length of table name with type
34       2     number of consuming segments: so many names at the end of the list are members of partitions' chains
               (server/tables/consuming_view.py); a sender with any has feature bit 3
36       4     length of segment names (joined by line feeds; names cannot hold one)
40       4     length of query context
44       …     broker id, principal, table, segment names, context
 …       4     with feature bit 4: length of the rows that the request brings
 …       …     … and those rows (rpc/given_rows.py): the query is over them, as one segment, and not over the server's
               own

A *bound* query (kind 4, feature bit 0) names a template instead of carrying its context: the bytes of an ordinary query
with number, time and names left out, whose context has 0 for every literal of its filter; and brings the literals.

 0       24    as above
24      16     BLAKE2b of the template
40       2     length of broker id
42       2     length of principal
44       4     length of literals (JSON list, query.model.literals)
48       4     length of template; 0: the server has it
52       …     broker id, principal, literals, template

A server that does not have the template answers with the 4 bytes "PQU1", and gets all again with it.

A request must be exactly as long as its lengths say. Answers are the bytes of a PartialResult as they are; errors
travel beside them as (code, message, context), see `faults.py`.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from enum import IntEnum

from pinotpy.errors import DataError, UnsupportedVersionError

MAGIC = b"PQR1"
PROTOCOL_VERSION = 1
# Bits of `features`: what a server can do besides protocol 1; published in its instance record.
FEATURE_TEMPLATES = 1  # bound queries
FEATURE_FINAL = 2  # FLAG_FINAL
FEATURE_COMPACT_ROWS = 4  # FLAG_COMPACT_ROWS
FEATURE_CONSUMING = 8  # requests that name consuming segments
FEATURE_GIVEN_ROWS = 16  # requests that bring the rows that they ask about
FEATURES_SUPPORTED = FEATURE_TEMPLATES | FEATURE_FINAL | FEATURE_COMPACT_ROWS | FEATURE_CONSUMING | FEATURE_GIVEN_ROWS
UNKNOWN_TEMPLATE = b"PQU1"

REQUEST_MAX_BYTES = 16 << 20
SEGMENTS_MAX = 100_000
CONTEXT_MAX_BYTES = 4 << 20
TIMEOUT_MAX_MS = 24 * 3600 * 1000

_HEAD = struct.Struct("<4sBBHIQIIHHHHII")
assert _HEAD.size == 44
_GIVEN_LENGTH = struct.Struct("<I")
_BOUND_HEAD = struct.Struct("<4sBBHIQI16sHHII")
assert _BOUND_HEAD.size == 52
KIND_OFFSET = 5
_MAX_U16 = 0xFFFF


class RequestKind(IntEnum):
    """What is asked."""

    QUERY = 1
    CANCEL = 2
    PING = 3
    BOUND = 4


FLAG_TRACE = 1
# This server is asked for all segments of the query: it may drop groups that the answer cannot show, and reduce states
# to what the answer reads (percentiles to one value, distinct counts to the count). A server that misses one of the
# segments must not, because its groups are then merged with those of others.
FLAG_FINAL = 2
# The caller reads answers of form "PPR2" (query/result/partial.py).
FLAG_COMPACT_ROWS = 4
# A server ends a query this long before its caller stops waiting, and reports it; only one that does not even do that
# is "not responding".
LAST_WORD_S = 0.2
FLAGS_KNOWN = FLAG_TRACE | FLAG_FINAL | FLAG_COMPACT_ROWS


@dataclass(frozen=True, slots=True)
class ServerRequest:
    """One request. For CANCEL, (`broker_id`, `request_id`) name the query to end, and the rest is empty.

    `timeout_ms`: time left when it was sent. `principal`: whom the broker answers, for the server's log.
    `context`: bytes of query.model.context_codec. `literals`: what fills the literals of its filter
    (query.model.literals); None: nothing does. `num_consuming`: so many of `segment_names`, at their end, are consuming
    segments. `given_rows`: what the query is about instead of segments of the server; empty: nothing.
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
    literals: bytes | None = None
    num_consuming: int = 0
    given_rows: bytes = b""


def encode_request(request: ServerRequest) -> bytes:
    """The request's bytes. DataError if it is over a limit, or a query with literals (`encode_bound` writes those)."""
    if request.kind is RequestKind.BOUND or request.literals is not None:
        raise DataError("a query with literals is written as a bound one")
    broker_id, principal, table = (
        request.broker_id.encode(),
        request.principal.encode(),
        request.table_name_with_type.encode(),
    )
    segments = "\n".join(request.segment_names).encode()
    num_segments = len(request.segment_names)
    if max(len(broker_id), len(principal), len(table)) > _MAX_U16:
        raise DataError(f"a name of the request is over {_MAX_U16} bytes")
    if segments.count(b"\n") != max(0, num_segments - 1) or (num_segments == 1 and not segments):
        raise DataError("a segment name is empty or holds a line feed")
    given = _GIVEN_LENGTH.pack(len(request.given_rows)) + request.given_rows if request.given_rows else b""
    size = _HEAD.size + sum(map(len, (broker_id, principal, table, segments, request.context, given)))
    if num_segments > SEGMENTS_MAX or len(request.context) > CONTEXT_MAX_BYTES or size > REQUEST_MAX_BYTES:
        raise DataError(
            f"a request of {num_segments} segments and {size} bytes is over the limits of {SEGMENTS_MAX} segments, "
            f"{CONTEXT_MAX_BYTES} bytes of query, {REQUEST_MAX_BYTES} bytes in all"
        )
    if not 0 <= request.num_consuming <= min(num_segments, _MAX_U16):
        raise DataError(f"{request.num_consuming} of {num_segments} segments cannot be consuming")
    timeout_ms = min(max(request.timeout_ms, 0), TIMEOUT_MAX_MS)
    features = request.features | (FEATURE_CONSUMING if request.num_consuming else 0)
    features |= FEATURE_GIVEN_ROWS if given else 0
    head = _HEAD.pack(
        MAGIC, PROTOCOL_VERSION, request.kind, request.flags, features, request.request_id, timeout_ms,
        num_segments,
        len(broker_id), len(principal), len(table), request.num_consuming, len(segments), len(request.context),
    )  # fmt: skip
    return b"".join((head, broker_id, principal, table, segments, request.context, given))


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
    num_consuming: int = 0
    given_bytes: int = 0


def decode_head(content: bytes) -> RequestHead:
    """Read and check the fixed part. DataError for bytes that are no request, UnsupportedVersionError for another
    protocol.
    """
    if len(content) < _HEAD.size or content[:4] != MAGIC:
        raise DataError(
            f"{len(content)} bytes are no request: expected magic '{MAGIC.decode()}' and at least {_HEAD.size} bytes, "
            f"found {content[:4]!r}"
        )
    version = content[4]
    if version != PROTOCOL_VERSION:
        raise UnsupportedVersionError("protocol of a request", found=version, supported=PROTOCOL_VERSION)
    if content[KIND_OFFSET] == RequestKind.BOUND:
        flags, request_id, timeout_ms, _ = _bound_head(content)
        return RequestHead(RequestKind.BOUND, flags, FEATURE_TEMPLATES, request_id, timeout_ms, 0, (0, 0, 0, 0, 0))
    (
        _,
        _,
        kind,
        flags,
        features,
        request_id,
        timeout_ms,
        num_segments,
        broker,
        principal,
        table,
        num_consuming,
        segments,
        context,
    ) = _HEAD.unpack_from(content)
    num_allowed = num_segments if features & FEATURE_CONSUMING else 0
    if kind not in (1, 2, 3) or flags & ~FLAGS_KNOWN or num_consuming > num_allowed:
        raise DataError(
            f"a request of unknown kind {kind}, flags {flags:#x}, or with {num_consuming} consuming segments of "
            f"{num_segments}"
        )
    if features & ~FEATURES_SUPPORTED:
        raise UnsupportedVersionError("features of a request", found=hex(features), supported=hex(FEATURES_SUPPORTED))
    lengths = (broker, principal, table, segments, context)
    size, given_bytes = _HEAD.size + sum(lengths), 0
    if features & FEATURE_GIVEN_ROWS and len(content) >= size + _GIVEN_LENGTH.size:
        (given_bytes,) = _GIVEN_LENGTH.unpack_from(content, size)
        size += _GIVEN_LENGTH.size + given_bytes
    if len(content) != size:
        raise DataError(f"a request of {len(content)} bytes says that it has {size}")
    if features & FEATURE_GIVEN_ROWS and not given_bytes:
        raise DataError("a request says that it brings rows and has none")
    if num_segments > SEGMENTS_MAX or context > CONTEXT_MAX_BYTES or len(content) > REQUEST_MAX_BYTES:
        raise DataError(f"a request of {num_segments} segments and {len(content)} bytes is over the limits")
    return RequestHead(
        RequestKind(kind), flags, features, request_id, min(timeout_ms, TIMEOUT_MAX_MS), num_segments, lengths,
        num_consuming, given_bytes,
    )  # fmt: skip


def decode_request(content: bytes, head: RequestHead | None = None) -> ServerRequest:
    """Read a whole request, checking every length. DataError or UnsupportedVersionError."""
    head = head or decode_head(content)
    if head.kind is RequestKind.BOUND:
        raise DataError("a bound query where a whole one is expected")
    parts = []
    position = _HEAD.size
    for length in head.lengths:
        parts.append(content[position : position + length])
        position += length
    try:
        broker_id, principal, table, segments = (name.decode() for name in parts[:4])
    except UnicodeDecodeError:
        raise DataError("a name of the request is not UTF-8") from None
    segment_names = tuple(segments.split("\n")) if head.num_segments else ()
    if len(segment_names) != head.num_segments or (not head.num_segments and segments) or not all(segment_names):
        raise DataError(f"a request says that it names {head.num_segments} segments and names {len(segment_names)}")
    return ServerRequest(
        head.kind,
        head.request_id,
        head.timeout_ms,
        broker_id,
        principal,
        table,
        segment_names,
        parts[4],
        head.flags,
        head.features,
        num_consuming=head.num_consuming,
        given_rows=content[len(content) - head.given_bytes :] if head.given_bytes else b"",
    )


# --- bound queries -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BoundRequest:
    """A bound query. `template`: the bytes of the template, empty if the server has it."""

    request_id: int
    timeout_ms: int
    flags: int
    digest: bytes
    broker_id: str
    principal: str
    literals: bytes
    template: bytes


def template_of(request: ServerRequest) -> bytes:
    """The bytes of the template of a query with literals."""
    return encode_request(
        ServerRequest(
            RequestKind.QUERY,
            0,
            0,
            table_name_with_type=request.table_name_with_type,
            segment_names=request.segment_names,
            context=request.context,
            num_consuming=request.num_consuming,
        )
    )


def template_digest(template: bytes) -> bytes:
    """What names a template."""
    return hashlib.blake2b(template, digest_size=16).digest()


def encode_bound(request: ServerRequest, digest: bytes, template: bytes = b"") -> bytes:
    """A query with literals as a bound one; with its template for a server that may not have it. DataError if it is
    over a limit.
    """
    broker_id, principal, literals = request.broker_id.encode(), request.principal.encode(), request.literals or b"[]"
    if (
        max(len(broker_id), len(principal)) > _MAX_U16
        or len(literals) + len(template) > REQUEST_MAX_BYTES - 2 * _MAX_U16
    ):
        raise DataError(f"a request of {len(literals)} bytes of literals or one of its names is over its limit")
    head = _BOUND_HEAD.pack(
        MAGIC, PROTOCOL_VERSION, RequestKind.BOUND, request.flags, FEATURE_TEMPLATES, request.request_id,
        min(max(request.timeout_ms, 0), TIMEOUT_MAX_MS), digest, len(broker_id), len(principal), len(literals),
            len(template),
    )  # fmt: skip
    return b"".join((head, broker_id, principal, literals, template))


def decode_bound(content: bytes) -> BoundRequest:
    """Read a bound query, checking every length. DataError or UnsupportedVersionError."""
    flags, request_id, timeout_ms, (start, names, values, end) = _bound_head(content)
    try:
        broker_id, principal_name = content[start:names].decode(), content[names:values].decode()
    except UnicodeDecodeError:
        raise DataError("a name of the request is not UTF-8") from None
    digest = content[24:40]
    return BoundRequest(
        request_id, timeout_ms, flags, digest, broker_id, principal_name, content[values:end], content[end:]
    )


def _bound_head(content: bytes) -> tuple[int, int, int, tuple[int, int, int, int]]:
    """Flags, request id, milliseconds left, and where broker id, principal, literals and template begin."""
    if len(content) < _BOUND_HEAD.size or content[:4] != MAGIC:
        raise DataError(
            f"{len(content)} bytes are no request: expected magic '{MAGIC.decode()}' and at least {_BOUND_HEAD.size} "
            f"bytes, found {content[:4]!r}"
        )
    _, version, kind, flags, features, request_id, timeout_ms, _, broker, principal, literals, template = (
        _BOUND_HEAD.unpack_from(content)
    )
    if version != PROTOCOL_VERSION:
        raise UnsupportedVersionError("protocol of a request", found=version, supported=PROTOCOL_VERSION)
    if features & ~FEATURES_SUPPORTED:
        raise UnsupportedVersionError("features of a request", found=hex(features), supported=hex(FEATURES_SUPPORTED))
    if kind != RequestKind.BOUND or flags & ~FLAGS_KNOWN:
        raise DataError(f"a request of unknown kind {kind} or flags {flags:#x}")
    start = _BOUND_HEAD.size
    names, values = start + broker, start + broker + principal
    end = values + literals
    if len(content) != end + template or len(content) > REQUEST_MAX_BYTES:
        raise DataError(f"a request of {len(content)} bytes says that it has {end + template}")
    return flags, request_id, min(timeout_ms, TIMEOUT_MAX_MS), (start, names, values, end)


def bound_digest(content: bytes) -> bytes:
    """The digest of a bound query's template, without any check."""
    return content[24:40]
