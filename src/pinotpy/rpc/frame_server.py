"""The frame server of a query port: one event loop reads and writes all connections; a bounded pool of threads runs
queries.

A call that the dispatcher accepts inline is answered on the loop's own thread: a thread hand-over would cost more than
the query. Any other waits for a slot (places.py), then for a thread. Long answers are sent in pieces, interleaved with
the short answers of their connection.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import cast

from pinotpy.errors import AccessDeniedError, DataError, OutOfCapacityError, PinotError
from pinotpy.memory.descriptors import backlog_limit, frame_connections_limit
from pinotpy.rpc.dispatch import Dispatcher, waited_too_long
from pinotpy.rpc.faults import ServerFaultError, encode_fault
from pinotpy.rpc.frame_channel import notice_vanished_peer
from pinotpy.rpc.frames import (
    FRAME_MAX_BYTES,
    HELLO_MAX_BYTES,
    MAGIC,
    PIECE_BYTES,
    FrameKind,
    FrameReader,
    frame,
    head,
    server_tls,
)
from pinotpy.rpc.listening import STOP_TIMEOUT_S, PortUnavailableError
from pinotpy.rpc.places import Visit
from pinotpy.rpc.security import RpcSecurity
from pinotpy.rpc.wire import decode_head

CONNECTIONS_MAX = 1024
# From connect to HELLO.
HELLO_TIMEOUT_S = 5.0
# Refusals that a caller leaves unread before it is cut off.
UNREAD_FRAMES_MAX = 4096
_START_TIMEOUT_S = 15.0

_log = logging.getLogger(__name__)


class FrameServer:
    """Serves `dispatcher` on a port. `start` and `stop` are called from one thread."""

    def __init__(self, dispatcher: Dispatcher, *, host: str, port: int, security: RpcSecurity | None = None) -> None:
        self.host, self.port = host, port
        self.dispatcher = dispatcher
        self.connections: set[_Connection] = set()
        self.in_flight = 0
        places = dispatcher.places
        self._num_threads = threads = places.working_max + places.small_max
        # Those that wait, those that are worked on, and as many whose long answers go out.
        self.in_flight_max = 2 * threads + places.waiting_max
        self.is_stopping = False
        self.connections_max = min(CONNECTIONS_MAX, frame_connections_limit())
        self._security = security or RpcSecurity()
        self.pool = ThreadPoolExecutor(threads, thread_name_prefix="frames")
        self.loop = _new_loop()
        self._thread = threading.Thread(target=self._run, name="frames-loop", daemon=True)
        self._listener: asyncio.Server | None = None

    def start(self) -> int:
        """Listen and serve; return the port. Raises PortUnavailableError if the port is taken or TLS files are bad."""
        self._start_threads()
        self._thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self._listen(), self.loop).result(_START_TIMEOUT_S)
        except (OSError, ValueError, ssl.SSLError) as problem:
            self._end()
            raise PortUnavailableError(
                f"cannot listen for queries on {self.host}:{self.port}: the port is in use or not ours; stop what "
                "listens there or choose another "
                "(0 picks a free one)"
            ) from problem
        return self.port

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Accept no new calls, let running ones finish within `timeout_s`, then abort them."""
        if self._thread.is_alive():
            try:
                asyncio.run_coroutine_threadsafe(self._drain(timeout_s), self.loop).result(timeout_s + 1.0)
            except TimeoutError:
                _log.error("frame server did not stop in time port=%d", self.port)
        self._end()

    def _start_threads(self) -> None:
        """All of the pool's now: the loop would wait for each, long where running queries leave it little time, and
        cancels behind it.
        """
        begun = threading.Event()
        for _ in range(self._num_threads):
            self.pool.submit(begun.wait)
        begun.set()

    def work_on(self, work: Callable[[], None]) -> None:
        """Run a call that has a place; from any thread."""
        try:
            self.pool.submit(work)
        except RuntimeError:
            return  # the server stops: nobody waits

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    async def _listen(self) -> None:
        tls = server_tls(self._security)
        host = self.host.strip("[]")
        self._listener = await self.loop.create_server(
            lambda: _Connection(self), host, self.port, ssl=tls, reuse_port=False, backlog=min(256, backlog_limit())
        )
        self.port = self._listener.sockets[0].getsockname()[1]

    async def _drain(self, timeout_s: float) -> None:
        self.is_stopping = True
        if self._listener is not None:
            self._listener.close()
        deadline = self.loop.time() + timeout_s
        while self.in_flight and self.loop.time() < deadline:
            await asyncio.sleep(0.01)
        for connection in list(self.connections):
            connection.hang_up()
        await asyncio.sleep(0)

    def _end(self) -> None:
        self.pool.shutdown(wait=False, cancel_futures=True)
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(1.0)
        if not self.loop.is_running():
            self.loop.close()


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        _log.info("queries are read by asyncio's event loop; pip install 'pinotpy[uvloop]' brings a faster one")
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


class _Call:
    """One call in flight. `visit` None: it was quick, and its long answer goes out."""

    __slots__ = ("deadline_s", "number", "request", "timer", "visit")

    def __init__(self, number: int, request: bytes, deadline_s: float) -> None:
        self.number = number
        self.request = request
        self.deadline_s = deadline_s  # in loop time
        self.visit: Visit | None = None
        self.timer: asyncio.TimerHandle | None = None


class _Connection(asyncio.Protocol):
    """One caller. Used on the loop's thread; only `_work` runs elsewhere."""

    def __init__(self, server: FrameServer) -> None:
        self._server = server
        self._reader = FrameReader(HELLO_MAX_BYTES)
        self._transport: asyncio.Transport | None = None
        self._token: bytes | None = None
        self._is_known = False
        self._peer = ""
        self._running: dict[int, _Call] = {}
        self._short: deque[bytes] = deque()
        self._long: deque[tuple[int, memoryview]] = deque()
        self._is_paused = False
        self._hello_timer: asyncio.TimerHandle | None = None

    # --- asyncio.Protocol --------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transports are no subclasses
        self._peer = str((transport.get_extra_info("peername") or ("",))[0])
        if self._server.is_stopping or len(self._server.connections) >= self._server.connections_max:
            self._transport.abort()
            return
        self._server.connections.add(self)
        notice_vanished_peer(transport)
        self._hello_timer = self._server.loop.call_later(HELLO_TIMEOUT_S, self._hello_is_late)

    def data_received(self, data: bytes) -> None:
        try:
            for kind, number, timeout_ms, payload in self._reader.feed(data):
                if not self._is_known:
                    self._greet(kind, payload)
                elif kind == FrameKind.CALL:
                    self._call(number, timeout_ms, payload)
                elif kind == FrameKind.CANCEL:
                    self._nobody_waits(number)
                else:
                    raise DataError(f"a caller sent a frame of kind {kind}")
        except DataError as problem:
            _log.warning("connection dropped error=%s peer=%s", problem, self._peer)
            self._refuse(problem)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.connections.discard(self)
        if self._hello_timer is not None:
            self._hello_timer.cancel()
        self._short.clear()
        for number, _ in self._long:
            self._running.pop(number, None)
            self._server.in_flight -= 1
        self._long.clear()
        for number in list(self._running):
            self._nobody_waits(number)

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        self._pump()

    # --- frames ------------------------------------------------------------------------------------------------------

    def _greet(self, kind: int, payload: bytes) -> None:
        assert self._transport is not None
        if kind != FrameKind.HELLO or payload[:4] != MAGIC:
            raise DataError("expected a greeting of a daemon of this cluster")
        self._token = payload[4:] or None
        try:
            self._server.dispatcher.check_identity(self._token, self._peer)
        except AccessDeniedError as problem:
            self._refuse(problem)
            return
        self._is_known = True
        self._reader.payload_max = FRAME_MAX_BYTES
        if self._hello_timer is not None:
            self._hello_timer.cancel()
        self._transport.write(frame(FrameKind.HELLO, 0, MAGIC))

    def _hello_is_late(self) -> None:
        if not self._is_known and self._transport is not None:
            self._transport.abort()

    def _refuse(self, problem: PinotError) -> None:
        assert self._transport is not None
        self._transport.write(frame(FrameKind.FAULT, 0, encode_fault(problem)))
        self._transport.close()

    def _call(self, number: int, timeout_ms: int, request: bytes) -> None:
        server = self._server
        if server.is_stopping:
            self.hang_up()
            return
        quick = self._answered(server.dispatcher.answer_quickly, request, timeout_ms / 1000)
        if quick is not None:
            self._send(number, *quick)
            return
        if server.in_flight >= server.in_flight_max or number in self._running:
            problem = OutOfCapacityError(f"the server has {server.in_flight} calls already: try again later")
            self._send(number, FrameKind.FAULT, encode_fault(problem))
            return
        call = _Call(number, request, server.loop.time() + timeout_ms / 1000)
        call.visit = Visit(partial(server.work_on, partial(self._work, call, call.deadline_s)))
        try:
            # The query's own time: the caller waits a little longer, to be told that it was up.
            timeout_ms = min(timeout_ms, decode_head(request).timeout_ms)
            has_place = server.dispatcher.places.take(call.visit, partial(server.dispatcher.is_small, request))
        except PinotError as problem:
            self._send(number, FrameKind.FAULT, encode_fault(problem))
            return
        server.in_flight += 1
        self._running[number] = call
        if not has_place:
            call.timer = server.loop.call_later(timeout_ms / 1000, self._waited_too_long, call)

    def _waited_too_long(self, call: _Call) -> None:
        assert call.visit is not None
        if self._server.dispatcher.places.give_up(call.visit):
            self._done(call.number, FrameKind.FAULT, encode_fault(waited_too_long()))

    def _work(self, call: _Call, deadline_s: float) -> None:
        assert call.visit is not None
        try:
            # What nobody waits for any more is not begun.
            answered = (
                None
                if call.visit.is_gone
                else self._answered(self._server.dispatcher.answer, call.request, deadline_s - self._server.loop.time())
            )
        finally:
            self._server.dispatcher.places.leave(call.visit)
        try:
            self._server.loop.call_soon_threadsafe(self._done, call.number, *(answered or (FrameKind.FAULT, b"")))
        except RuntimeError:
            return  # the loop is closed: nobody waits

    def _answered(
        self, answer: Callable[..., bytes | None], request: bytes, deadline_s: float
    ) -> tuple[FrameKind, bytes] | None:
        try:
            content = answer(request, token=self._token, deadline_s=deadline_s, peer=self._peer)
            return None if content is None else (FrameKind.ANSWER, content)
        except PinotError as problem:
            return FrameKind.FAULT, encode_fault(problem)
        except Exception:
            # The dispatcher raises nothing else; a thread or the loop must not end with it.
            _log.exception("call failed unexpectedly peer=%s", self._peer)
            return FrameKind.FAULT, encode_fault(
                ServerFaultError("internal error of the server: its log has the details")
            )

    def _done(self, number: int, kind: FrameKind, content: bytes) -> None:
        if len(content) > PIECE_BYTES and number in self._running:
            self._long.append((number, memoryview(content)))  # stays in flight until its last piece is out
            self._pump()
            return
        self._server.in_flight -= 1
        call = self._running.pop(number, None)
        if call is not None:
            if call.timer is not None:
                call.timer.cancel()
            self._send(number, kind, content)

    def _nobody_waits(self, number: int) -> None:
        call = self._running.pop(number, None)
        if call is None:
            return
        if call.timer is not None:
            call.timer.cancel()
        waiting = len(self._long)
        self._long = deque(entry for entry in self._long if entry[0] != number)
        if len(self._long) < waiting or (call.visit is not None and self._server.dispatcher.places.give_up(call.visit)):
            self._server.in_flight -= 1
        else:
            self._server.dispatcher.disconnected(call.request)

    # --- sending -----------------------------------------------------------------------------------------------------

    def _send(self, number: int, kind: FrameKind, content: bytes) -> None:
        assert self._transport is not None
        if self._transport.is_closing():
            return
        if len(content) > PIECE_BYTES:
            self._server.in_flight += 1
            self._running[number] = _Call(number, b"", 0.0)
            self._done(number, kind, content)
        elif not self._is_paused:
            self._transport.write(frame(kind, number, content))
        elif len(self._short) < UNREAD_FRAMES_MAX:
            self._short.append(frame(kind, number, content))
        else:
            self._transport.abort()

    def _pump(self) -> None:
        """Write what waits, short answers first, until the connection takes no more."""
        assert self._transport is not None
        while not self._is_paused and not self._transport.is_closing():
            if self._short:
                self._transport.write(self._short.popleft())
            elif self._long:
                number, rest = self._long.popleft()
                is_last, piece = len(rest) <= PIECE_BYTES, rest[:PIECE_BYTES]
                if is_last:
                    self._running.pop(number, None)
                    self._server.in_flight -= 1
                else:
                    self._long.append((number, rest[PIECE_BYTES:]))
                self._transport.writelines(
                    (head(FrameKind.ANSWER if is_last else FrameKind.PIECE, number, piece), piece)
                )
            else:
                return

    def hang_up(self) -> None:
        """Close the connection; the caller asks another replica."""
        if self._transport is not None:
            self._transport.close()
