"""Answers in pieces: written no faster than the client reads, and given up when it reads too slowly.

Beyond the answer itself, a client costs the piece that it is being sent. One that reads nothing is cut off by the
connection's sweep; one that reads a little now and then, to hold what it was promised, by the pace that an answer must
keep as a whole.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, Protocol

from starlette.types import Send
from uvicorn.protocols.http.flow_control import FlowControl

from pinotpy.service.routes import StreamedResponse

# An answer may take this long, plus a second for each 128 KiB that was sent.
STREAM_GRACE_S: Final = 60.0
STREAM_MIN_BYTES_PER_S: Final = 128 << 10
_LAST_CHUNK: Final = b"0\r\n\r\n"


class Connection(Protocol):
    """What an answer in pieces asks of the connection on which it goes out."""

    @property
    def transport(self) -> asyncio.Transport: ...
    @property
    def flow(self) -> FlowControl: ...
    def has_written(self) -> None:
        """A piece went to a client that takes it."""


class ReaderTooSlowError(Exception):
    """The client takes the answer too slowly."""


class Pace:
    """When the next piece must be out, at the latest."""

    def __init__(self) -> None:
        self._began_s = asyncio.get_running_loop().time()
        self._num_bytes = 0

    def sent(self, piece: bytes | memoryview) -> None:
        """A piece was handed on."""
        self._num_bytes += len(piece)

    @property
    def deadline_s(self) -> float:
        """In loop time."""
        return self._began_s + STREAM_GRACE_S + self._num_bytes / STREAM_MIN_BYTES_PER_S


async def write_chunks(connection: Connection, answer: StreamedResponse) -> None:
    """Write the body to the connection itself; its head is out. Returns early when the client is gone.

    Raises: ReaderTooSlowError; whatever a piece raises. Then the answer is not whole, and the connection must break
    off.
    """
    transport, pace = connection.transport, Pace()
    for piece in answer.pieces:
        if transport.is_closing():
            return
        size = len(piece)
        if not size:
            continue
        transport.write(b"%x\r\n" % size)
        transport.write(piece)
        transport.write(b"\r\n")
        pace.sent(piece)
        if connection.flow.write_paused:
            await _in_time(connection.flow.drain(), pace)
        else:
            await asyncio.sleep(0)  # others get their turn, however fast this client reads
        connection.has_written()
    if not transport.is_closing():
        transport.write(_LAST_CHUNK)


async def send_pieces(send: Send, answer: StreamedResponse, connection: Connection | None, *, has_chunks: bool) -> None:
    """The same through ASGI. `has_chunks`: the client knows HTTP/1.1; else it gets all in one, with its length.

    Raises: as `write_chunks`.
    """
    start: dict[str, Any] = {
        "type": "http.response.start",
        "status": answer.status,
        "headers": [(b"content-type", answer.content_type), *answer.headers],
    }
    if not has_chunks:
        body = b"".join(answer.pieces)
        start["headers"].append((b"content-length", b"%d" % len(body)))
        await send(start)
        await send({"type": "http.response.body", "body": body})
        return
    await send(start)
    pace = Pace()
    for piece in answer.pieces:
        if connection is not None and connection.transport.is_closing():
            return
        await _in_time(send({"type": "http.response.body", "body": bytes(piece), "more_body": True}), pace)
        pace.sent(piece)
        if connection is not None:
            connection.has_written()
    await _in_time(send({"type": "http.response.body", "body": b""}), pace)


async def _in_time(work: Any, pace: Pace) -> None:
    try:
        async with asyncio.timeout_at(pace.deadline_s):
            await work
    except TimeoutError:
        raise ReaderTooSlowError from None
