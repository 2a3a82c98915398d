"""uvicorn's HTTP/1.1 protocol with limits on what a stranger may hold: headers, time to send, time to read.

Requests of fast routes (the broker's queries) are answered here, without ASGI's messages between server and
application.

httptools puts no limit on headers and uvicorn none on the time they take. Nothing is added per request but two numbers:
`sweep`, called once a second for all connections, does the rest.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, cast

import orjson
from starlette.types import Scope
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from pinotpy.service.body_rate import BODY_GRACE_S, least_body_bytes
from pinotpy.service.connections import Connections, Place
from pinotpy.service.http_guard import is_of_cluster
from pinotpy.service.known_heads import KnownHead
from pinotpy.service.routes import FastResponse, Route, StreamedResponse
from pinotpy.service.streaming import ReaderTooSlowError, write_chunks

# Where a request's scope holds its connection.
CONNECTION_KEY = "pinotpy.connection"
HEADER_MAX_BYTES = 64 << 10
HEADERS_MAX = 100
# From connect (or the first byte after an answer) to the end of the headers.
HEADER_TIMEOUT_S = 10.0
# Requests that are answered on the reserve, whoever sends them.
HEALTH_PATH = b"/health"
# At stop, an idle TLS connection is cut off if its client has not answered our good-bye by then (asyncio would wait for
# 30 s).
GOODBYE_S = 0.5
# A client that reads nothing of its answer for so long is cut off.
READ_TIMEOUT_S = 60.0


# Larger bodies, and those of unsaid length, are read after the caller is known.
WHOLE_BODY_MAX_BYTES = 64 << 10
JOINED_BODY_MAX_BYTES = 64 << 10

_log = logging.getLogger(__name__)
_default_lines: dict[str, tuple[Any, bytes]] = {}


class _WholeRequest:
    """A request of a fast route, with what the protocol asks of a RequestResponseCycle."""

    __slots__ = (
        "body",
        "disconnected",
        "is_begun",
        "keep_alive",
        "message_event",
        "more_body",
        "response_complete",
        "response_started",
        "route",
        "whole",
    )

    def __init__(self, route: Route, keep_alive: bool) -> None:
        self.route = route
        self.keep_alive = keep_alive
        self.body = bytearray()
        self.whole: bytes | None = None  # all bytes of the request, if they came in one piece with nothing else
        self.more_body = True
        self.is_begun = False
        self.disconnected = self.response_started = self.response_complete = False
        self.message_event = _NoEvent


class _NoEvent:
    """Nobody waits for pieces of a whole request."""

    @staticmethod
    def set() -> None: ...


class GuardedHttpProtocol(HttpToolsProtocol):
    """One connection, on a place of `places`."""

    def __init__(self, places: Connections, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._places = places
        self._place: Place | None = None
        self._closing_since = self._swept_at = 0.0
        self._in_headers = True
        self._in_message = False
        self._piece: bytes | None = None  # what is being read, where it began with a request
        self._idle_since = 0.0
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
        app = self.config.loaded_app
        self._refusal = getattr(app, "refusal", None)
        app = getattr(app, "app", app)
        self._front = app if hasattr(app, "answer_whole") else None

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._place is not None:
            self._place.leave()
        if self.answering is not None:
            self.answering.cancel()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._awaited_since = self.loop.time()
        self._place = self._places.take(self, self.client[0] if self.client else "")
        if self._place is None:
            self._refuse_for_now()

    def data_received(self, data: bytes) -> None:
        front = self._front
        if front is not None and not self._in_message:
            known = front.known_heads.find(data)
            if known is not None and self._is_free():
                self._answer_known(*known)
                return
            self._piece = data
        if self._in_headers:
            if self._awaited_since == 0.0:
                self._awaited_since = self.loop.time()
            self._header_bytes += len(data)
        elif self._in_body:
            self._body_bytes += len(data)
        super().data_received(data)
        self._piece = None
        if isinstance(self.cycle, _WholeRequest) and not self.cycle.is_begun and not self.transport.is_closing():
            self._go_on_in_pieces(self.cycle)
        if self._in_headers and self._header_bytes > HEADER_MAX_BYTES:
            self._refuse(431, f"the headers are over {HEADER_MAX_BYTES} bytes")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope[CONNECTION_KEY] = self  # type: ignore[literal-required]
        self._num_headers = 0
        self._in_message = True

    def on_header(self, name: bytes, value: bytes) -> None:
        self._num_headers += 1
        if self._num_headers <= HEADERS_MAX:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_headers, self._in_body = False, True
        self._body_bytes = 0
        if not self._may_be_answered():
            self._refuse_for_now()
            return
        if self._num_headers > HEADERS_MAX:
            self._refuse(431, f"more than {HEADERS_MAX} headers")
            return
        # What came with the last piece may be body already: count exactly, but only when it can matter.
        if (
            self._header_bytes > HEADER_MAX_BYTES
            and len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > HEADER_MAX_BYTES
        ):
            self._refuse(431, f"the headers are over {HEADER_MAX_BYTES} bytes")
            return
        self._awaited_since = self.loop.time()
        if self._front is None or not self._begin_whole():
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        cycle = self.cycle
        if cycle is None:
            return
        if isinstance(cycle, _WholeRequest) or cycle.body or cycle.response_complete or self.parser.should_upgrade():
            held: Any = cycle.body
            if isinstance(held, bytes):
                cycle.body = bytearray(held)
            super().on_body(body)
            return
        # What comes first after the application has asked, of an upload everything: kept as it is, to be handed on
        # without two copies.
        cycle.body = cast(bytearray, body)
        if len(body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
        cycle.message_event.set()

    def on_message_complete(self) -> None:
        self._in_headers, self._in_body = True, False
        self._in_message = False
        self._header_bytes = 0
        self._awaited_since = 0.0
        if self.cycle is None:
            return
        super().on_message_complete()
        if isinstance(self.cycle, _WholeRequest) and not self.cycle.is_begun:
            piece, length = self._piece, len(self.cycle.body)
            # Two requests in one piece: only the whole of one is learned from.
            if piece is not None and piece.find(b"\r\n\r\n") + 4 + length == len(piece):
                self.cycle.whole = piece
            self._answer_whole(self.cycle)
            self._piece = None

    # --- fast routes -------------------------------------------------------------------------------------------------

    def _begin_whole(self) -> bool:
        """Whether this request is one of a fast route whose body is small and said to be: then it is answered as a
        whole.
        """
        if self.expect_100_continue or not self._is_free():
            return False
        path, _, query_string = self.url.partition(b"?")
        if not path.startswith(b"/") or b"%" in path or b"#" in self.url or not path.isascii():
            return False
        parser, scope = self.parser, self.scope
        if parser.get_http_version() != "1.1" or parser.should_upgrade():
            return False
        assert self._front is not None
        method = parser.get_method().decode("ascii")
        route = self._front.fast_route(method, path.decode("ascii"))
        if route is None:
            return False
        length = b"0" if method == "GET" else None
        for name, value in self.headers:
            if name == b"content-length":
                length = value
            elif name == b"transfer-encoding":
                return False
        if length is None or not length.isdigit() or len(length) > 6 or int(length) > WHOLE_BODY_MAX_BYTES:
            return False
        scope["method"], scope["path"], scope["raw_path"] = method, path.decode("ascii"), path
        scope["query_string"] = query_string
        self.cycle = cast(RequestResponseCycle, _WholeRequest(route, parser.should_keep_alive()))
        return True

    def _is_free(self) -> bool:
        """Whether a request that comes now is answered at once."""
        if (
            self.pipeline
            or (self.cycle is not None and not self.cycle.response_complete)
            or self.transport.is_closing()
        ):
            return False
        place = self._place
        return place is not None and place.is_admitted and len(self.tasks) < self._places.places_max

    def _may_be_answered(self) -> bool:
        """The head of a request is complete: whether there is room for it."""
        place = self._place
        if place is None:
            return False
        place.work()
        if place.is_admitted or place.admit():
            return True
        is_for_reserve = self.url.startswith(HEALTH_PATH) or (
            self._front is not None and is_of_cluster(self._front.access, self.headers)
        )
        if not is_for_reserve:
            place.refuse()
        return is_for_reserve

    def may_be_given_up(self) -> bool:
        """Whether nobody would miss an answer if this connection ended now."""
        return self.transport.get_write_buffer_size() == 0

    def give_up(self) -> None:
        """End a connection at rest, so that another one has its place."""
        # A good-bye over TLS would wait for its client.
        self.transport.abort()

    def _answer_known(self, head: KnownHead, body: bytes) -> None:
        """As the parser and `_answer_whole` would, of a head that they know."""
        self._awaited_since = 0.0
        if self._place is not None:
            self._place.work()
        request = _WholeRequest(head.route, True)
        request.is_begun, request.more_body = True, False
        self.cycle = cast(RequestResponseCycle, request)
        scope = {**head.scope, "client": self.client, "server": self.server, CONNECTION_KEY: self}
        self._begin(self._answered(request, scope, body))

    def _begin(self, answering: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(answering)
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)

    def _go_on_in_pieces(self, request: _WholeRequest) -> None:
        """The body is not here yet: the application learns who asks before it reads on."""
        self.cycle = cast(RequestResponseCycle, None)
        super().on_headers_complete()
        if request.body:
            super().on_body(bytes(request.body))

    def _answer_whole(self, request: _WholeRequest) -> None:
        request.is_begun = True
        self._begin(self._answered(request, cast(Any, self.scope), None))

    async def _answered(self, request: _WholeRequest, scope: Scope, known_body: bytes | None) -> None:
        """`known_body`: the body, where the head is known; None: it is in the request, and nothing is known."""
        front = self._front
        assert front is not None
        is_known = known_body is not None
        refusal = None if is_known or self._refusal is None else self._refusal(scope["headers"])
        answer: FastResponse | StreamedResponse
        try:
            if refusal is not None:
                status, content = refusal
                answer = FastResponse(content, status)
            else:
                answer = await front.answer_whole(
                    request.route, scope, bytes(request.body) if known_body is None else known_body, is_known=is_known
                )
                if request.whole is not None and request.keep_alive and answer.status == 200:
                    left_out = ("client", "server", CONNECTION_KEY)
                    front.known_heads.learn(
                        request.whole,
                        request.route,
                        {key: value for key, value in scope.items() if key not in left_out},
                    )
        except Exception:
            # The client hung up, or a fault that answer_whole did not foresee and that is logged there.
            if not request.disconnected:
                _log.exception("a request broke off path=%s", scope["path"][:200])
            request.response_complete = True
            self.transport.close()
            return
        if self.flow.write_paused and not request.disconnected:
            await self.flow.drain()
        if request.disconnected or self.transport.is_closing():
            return
        if isinstance(answer, StreamedResponse):
            await self._stream(request, answer, scope["path"])
            return
        body = answer.body
        head = self._head(request, answer, b"\r\ncontent-length: %d\r\n" % len(body))
        request.response_started = request.response_complete = True
        if len(body) <= JOINED_BODY_MAX_BYTES:
            head.append(body)
            self.transport.write(b"".join(head))
        else:
            self.transport.write(b"".join(head))
            self.transport.write(body)
        if not request.keep_alive:
            self.transport.close()
        self.on_response_complete()

    def _head(self, request: _WholeRequest, answer: FastResponse | StreamedResponse, framing: bytes) -> list[bytes]:
        head = [STATUS_LINE[answer.status], self._default_lines(), b"content-type: ", answer.content_type, framing]
        for name, value in answer.headers:
            head += (name, b": ", value, b"\r\n")
        if not request.keep_alive:
            head.append(b"connection: close\r\n")
        head.append(b"\r\n")
        return head

    async def _stream(self, request: _WholeRequest, answer: StreamedResponse, path: str) -> None:
        request.response_started = True
        self.transport.write(b"".join(self._head(request, answer, b"\r\ntransfer-encoding: chunked\r\n")))
        try:
            await write_chunks(self, answer)
        except Exception as problem:
            self.break_off(path, problem)
        request.response_complete = True
        if not request.keep_alive:
            self.transport.close()
        self.on_response_complete()

    def has_written(self) -> None:
        """A piece of an answer went to a client that takes it: `sweep` begins to wait anew."""
        self._unread_since = self.loop.time()

    def break_off(self, path: str, problem: Exception) -> None:
        """End the connection in the middle of an answer, so that the client sees that it is not whole."""
        if isinstance(problem, ReaderTooSlowError):
            _log.info("answer given up, its client reads too slowly path=%s", path[:200])
        else:
            _log.error("answer broke off path=%s", path[:200], exc_info=problem)
        self.transport.abort()

    def on_response_complete(self) -> None:
        # As the server does it, but for the timer that would end an idle connection: `sweep` does.
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self._idle_since = self.loop.time()
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        elif self._place is not None:
            self._place.rest()

    def _default_lines(self) -> bytes:
        """The headers of every answer; the server makes a new list of them when the date changes."""
        headers = self.server_state.default_headers
        cached = _default_lines.get("last")
        if cached is None or cached[0] is not headers:
            cached = _default_lines["last"] = headers, b"".join([b"%s: %s\r\n" % header for header in headers])
        return cached[1]

    def sweep(self, now: float) -> None:
        """Cut the connection off if its client is too slow to send or to read. `now` in loop time."""
        if self.transport is None:
            return
        if self.transport.is_closing():
            # What was written before it closed is read by nobody.
            self._closing_since = self._closing_since or now
            if now - self._closing_since > READ_TIMEOUT_S:
                self.transport.abort()
            return
        is_idle = not self._in_message and not self.pipeline and (self.cycle is None or self.cycle.response_complete)
        if is_idle and self._idle_since and now - self._idle_since > self.timeout_keep_alive:
            self.transport.close()
            return
        if self._awaited_since:
            if self._in_body and self._swept_at and self.flow.read_paused:
                self._awaited_since += now - self._swept_at  # we do not read
            awaited_s = now - self._awaited_since
            is_late = (
                awaited_s > HEADER_TIMEOUT_S
                if self._in_headers
                else awaited_s > BODY_GRACE_S and self._body_bytes < least_body_bytes(awaited_s - BODY_GRACE_S)
            )
            is_waiting_for_us = (
                self.cycle is not None and self.cycle.response_complete and self._in_headers and self._header_bytes == 0
            )
            if is_late and not is_waiting_for_us:
                self._refuse(408, "the request came too slowly")
                return
        self._swept_at = now
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

    def _refuse_for_now(self) -> None:
        self._refuse(503, "too many connections: try again in a moment", b"retry-after: 1\r\n")

    def _refuse(self, status: int, text: str, lines: bytes = b"") -> None:
        # After headers were handed on, the application may already be answering: then only hang up.
        if self.transport.is_closing():
            return
        is_answering = self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete
        if not is_answering:
            body = orjson.dumps({"code": status, "error": text})
            self.transport.write(
                b"HTTP/1.1 %d Refused\r\ncontent-type: application/json\r\n%scontent-length: %d\r\nconnection: "
                b"close\r\n\r\n" % (status, lines, len(body)) + body
            )
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()
