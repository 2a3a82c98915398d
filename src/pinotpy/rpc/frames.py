"""Frames: how requests and answers lie on a plain connection between broker and server. Little-endian.

offset  bytes  what
 0       4     length of the payload
 4       1     kind, below
 5       3     reserved, 0
 8       8     number of the call, chosen by the caller; 0 in HELLO
16       4     CALL: milliseconds until the caller stops waiting; else 0
20       …     payload

HELLO   both ways, once, first: magic "PQF1", then (caller only) the cluster token. A server that refuses answers
        FAULT 0.
CALL    caller: the bytes of a request (wire.py)
ANSWER  server: the answer's bytes, or the last piece of them
PIECE   server: a piece of an answer that is longer than `PIECE_BYTES`, so that short answers pass long ones
FAULT   server: an error (faults.py) instead of an answer
CANCEL  caller: nobody waits for the call any more; no answer needs to come
"""

from __future__ import annotations

import ssl
import struct
import tempfile
from collections.abc import Iterator
from enum import IntEnum

from pinotpy.errors import DataError
from pinotpy.rpc.security import RpcSecurity
from pinotpy.rpc.wire import REQUEST_MAX_BYTES

MAGIC = b"PQF1"
HEAD = struct.Struct("<IB3sQI")
PIECE_BYTES = 128 << 10
HELLO_MAX_BYTES = 4 << 10
FRAME_MAX_BYTES = REQUEST_MAX_BYTES
_NOTHING = b"\0\0\0"


class FrameKind(IntEnum):
    """What a frame is."""

    HELLO = 1
    CALL = 2
    ANSWER = 3
    PIECE = 4
    FAULT = 5
    CANCEL = 6


def frame(kind: FrameKind, number: int, payload: bytes | memoryview, timeout_ms: int = 0) -> bytes:
    """The bytes of one frame."""
    return HEAD.pack(len(payload), kind, _NOTHING, number, timeout_ms) + payload


def head(kind: FrameKind, number: int, payload: bytes | memoryview) -> bytes:
    """What stands before `payload` in a frame; long payloads are written after it without a copy."""
    return HEAD.pack(len(payload), kind, _NOTHING, number, 0)


class FrameReader:
    """Cuts what arrives into frames. `payload_max` bounds the payload of a frame, so that nobody makes us keep more."""

    def __init__(self, payload_max: int) -> None:
        self.payload_max = payload_max
        self._rest = b""  # less than a head
        # Of the frame whose head is here and whose payload is not: pieces of it are joined once, however many they are.
        self._head = (0, 0, 0)
        self._parts: list[bytes | memoryview] = []
        self._missing_bytes = 0

    def feed(self, data: bytes) -> Iterator[tuple[int, int, int, bytes]]:
        """(kind, number, timeout_ms, payload) of every frame that is whole now. DataError for bytes that are no frames;
        nothing more can be read from the connection then."""
        position = 0
        if self._missing_bytes:
            if len(data) < self._missing_bytes:
                self._parts.append(data)
                self._missing_bytes -= len(data)
                return
            position, self._missing_bytes = self._missing_bytes, 0
            self._parts.append(memoryview(data)[:position])
            payload = b"".join(self._parts)
            self._parts.clear()
            yield *self._head, payload
        elif self._rest:
            data, self._rest = self._rest + data, b""
        size = len(data)
        while size - position >= HEAD.size:
            length, kind, reserved, number, timeout_ms = HEAD.unpack_from(data, position)
            if length > self.payload_max or reserved != _NOTHING or not 1 <= kind <= 6:
                raise DataError(
                    f"bytes that are no frame: length {length} of at most {self.payload_max}, kind {kind}, reserved "
                    f"{reserved.hex()}"
                )
            position += HEAD.size
            if position + length > size:
                self._head = kind, number, timeout_ms
                self._missing_bytes = position + length - size
                self._parts.append(data[position:])
                return
            yield kind, number, timeout_ms, data[position : position + length]
            position += length
        self._rest = data[position:]


def client_tls(security: RpcSecurity) -> ssl.SSLContext | None:
    """How a caller encrypts; None if it does not."""
    if not security.is_encrypted:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if security.ca is None:
        context.load_default_certs()
    return _with_files(context, security)


def server_tls(security: RpcSecurity) -> ssl.SSLContext | None:
    """How a server encrypts; None if it does not. ValueError or OSError for PEM bytes that are none."""
    if security.certificate is None:
        return None
    if security.key is None:
        raise ValueError("a certificate without its key")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if security.client_certificates:
        context.verify_mode = ssl.CERT_REQUIRED
    return _with_files(context, security)


def _with_files(context: ssl.SSLContext, security: RpcSecurity) -> ssl.SSLContext:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if security.ca is not None:
        context.load_verify_locations(cadata=security.ca.decode("ascii"))
    if security.certificate is not None and security.key is not None:
        # OpenSSL reads certificates of our own from files only; this one is ours alone and gone at once.
        with tempfile.NamedTemporaryFile(suffix=".pem") as file:
            file.write(security.certificate + b"\n" + security.key)
            file.flush()
            context.load_cert_chain(file.name)
    return context
