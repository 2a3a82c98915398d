"""uvicorn's HTTP/1.1 protocol with limits on what a stranger may hold: headers, time to send, time to read.

httptools puts no limit on headers and uvicorn none on the time they take. Nothing is added per request but two numbers:
`sweep`, called once a second for all connections, does the rest.
"""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

# Where a request's scope holds its connection.
CONNECTION_KEY = "pinotpy.connection"
HEADER_MAX_BYTES = 64 << 10
HEADERS_MAX = 100
# From connect (or the first byte after an answer) to the end of the headers.
HEADER_TIMEOUT_S = 10.0
# A body may take this long, plus a second for each KiB that has arrived.
BODY_GRACE_S = 30.0
BODY_MIN_BYTES_PER_S = 1024
# At stop, an idle TLS connection is cut off if its client has not answered our good-bye by then (asyncio would wait for 30 s).
GOODBYE_S = 0.5
# A client that reads nothing of its answer for so long is cut off.
READ_TIMEOUT_S = 60.0


class GuardedHttpProtocol(HttpToolsProtocol):
    """One connection."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._in_headers = True
        self._header_bytes = 0
        self._num_headers = 0
        self._body_bytes = 0
        # Loop time at which the client began to send what is not complete yet; 0.0 = nothing is awaited.
        self._awaited_since = 0.0
        self._in_body = False
        self._unread_bytes = 0
        self._unread_since = 0.0
        # The task that answers on this connection, while it lets itself be ended when the client leaves.
        self.answering: asyncio.Task[Any] | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self.answering is not None:
            self.answering.cancel()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._awaited_since = self.loop.time()

    def data_received(self, data: bytes) -> None:
        if self._in_headers:
            if self._awaited_since == 0.0:
                self._awaited_since = self.loop.time()
            self._header_bytes += len(data)
        elif self._in_body:
            self._body_bytes += len(data)
        super().data_received(data)
        if self._in_headers and self._header_bytes > HEADER_MAX_BYTES:
            self._refuse(431, f"the headers are over {HEADER_MAX_BYTES} bytes")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope[CONNECTION_KEY] = self  # type: ignore[literal-required]
        self._num_headers = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        self._num_headers += 1
        if self._num_headers <= HEADERS_MAX:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_headers, self._in_body = False, True
        self._body_bytes = 0
        if self._num_headers > HEADERS_MAX:
            self._refuse(431, f"more than {HEADERS_MAX} headers")
            return
        # What came with the last piece may be body already: count exactly, but only when it can matter.
        if self._header_bytes > HEADER_MAX_BYTES and len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > HEADER_MAX_BYTES:
            self._refuse(431, f"the headers are over {HEADER_MAX_BYTES} bytes")
            return
        self._awaited_since = self.loop.time()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if self.cycle is not None:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_headers, self._in_body = True, False
        self._header_bytes = 0
        self._awaited_since = 0.0
        if self.cycle is not None:
            super().on_message_complete()

    def sweep(self, now: float) -> None:
        """Cut the connection off if its client is too slow to send or to read. `now` in loop time."""
        if self.transport is None or self.transport.is_closing():
            return
        if self._awaited_since:
            limit_s = HEADER_TIMEOUT_S if self._in_headers else BODY_GRACE_S + self._body_bytes / BODY_MIN_BYTES_PER_S
            is_waiting_for_us = self.cycle is not None and self.cycle.response_complete and self._in_headers and self._header_bytes == 0
            if now - self._awaited_since > limit_s and not is_waiting_for_us:
                self._refuse(408, "the request came too slowly")
                return
        unread_bytes = self.transport.get_write_buffer_size()
        if unread_bytes == 0 or unread_bytes < self._unread_bytes or self._unread_since == 0.0:
            self._unread_since = now
        elif now - self._unread_since > READ_TIMEOUT_S:
            self.transport.abort()
        self._unread_bytes = unread_bytes

    def shutdown(self) -> None:
        """The server stops: close when the running answer is out, at once if there is none."""
        is_idle = self.cycle is None or self.cycle.response_complete
        super().shutdown()
        if is_idle:
            self.loop.call_later(GOODBYE_S, self.transport.abort)

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "this is not HTTP/1.1 as it should be")

    def _refuse(self, status: int, text: str) -> None:
        # After headers were handed on, the application may already be answering: then only hang up.
        if self.transport.is_closing():
            return
        is_answering = self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete
        if not is_answering:
            body = orjson.dumps({"code": status, "error": text})
            self.transport.write(
                b"HTTP/1.1 %d Refused\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % (status, len(body)) + body
            )
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()
