"""FrameChannel: calls as frames over one plain connection per server; many calls are multiplexed on it.

A call costs a broker 160 to 220 µs of CPU through gRPC, 6 to 13 through frames (docs/adr/0008-frames-beside-grpc.md).
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import OrderedDict
from math import inf
from typing import cast

from pinotpy.errors import DataError, OutOfCapacityError, PinotError, ServerNotRespondingError, ServerUnreachableError
from pinotpy.memory.budget import Claim, ProcessBudget, process_memory_error
from pinotpy.rpc.channel import ANSWER_MAX_BYTES, CHANNELS_MAX, IN_FLIGHT_MAX, ServerAddress
from pinotpy.rpc.faults import decode_fault
from pinotpy.rpc.frames import (
    FRAME_MAX_BYTES,
    HEAD,
    HELLO_MAX_BYTES,
    MAGIC,
    PIECE_BYTES,
    FrameKind,
    FrameReader,
    client_tls,
    frame,
)
from pinotpy.rpc.security import RpcSecurity
from pinotpy.rpc.wire import TIMEOUT_MAX_MS

CONNECT_TIMEOUT_S = 2.0
# A server that vanished without a word is noticed after so long, whether something was sent to it or not.
VANISHED_AFTER_S = 12
KEEPALIVE_AFTER_S = 10
# Timers may come so much early.
TIMER_UNIT_S = 0.001


class NoConnectionError(ServerUnreachableError):
    """No connection could be established: the call was not sent."""


class FrameChannel:
    """Used from one event loop, the one that runs when the first call is made. `memory`: what pieces of long answers
    are reserved of until the answer is whole; one for which there is none is refused (ProcessMemoryError).
    """

    def __init__(
        self,
        security: RpcSecurity | None = None,
        *,
        in_flight_max: int = IN_FLIGHT_MAX,
        answer_max_bytes: int = ANSWER_MAX_BYTES,
        memory: ProcessBudget | None = None,
    ) -> None:
        self._memory = memory or ProcessBudget(0)
        self._security = security or RpcSecurity()
        self._tls = client_tls(self._security)
        self._in_flight_max = in_flight_max
        self._answer_max_bytes = answer_max_bytes
        # Least recently used first: instances that left the cluster fall out.
        self._connections: OrderedDict[tuple[str, int], _Connection] = OrderedDict()
        self._opening: dict[tuple[str, int], asyncio.Task[_Connection]] = {}
        self._closed = False

    async def call(self, server: ServerAddress, request: bytes, timeout_s: float) -> bytes:
        """See QueryChannel.call. Raises NoConnectionError (425) when no connection comes about."""
        key = (server.host, server.frame_port or server.port)
        connection = self._connections.get(key)
        if connection is None or connection.is_closed:
            if self._closed:
                raise ServerUnreachableError(f"connection to {server} was closed", server=server.instance)
            loop = asyncio.get_running_loop()
            start_s = loop.time()
            connection = await self._open(server, key, timeout_s)
            timeout_s -= loop.time() - start_s
        else:
            self._connections.move_to_end(key)
        if len(connection.calls) >= self._in_flight_max:
            raise OutOfCapacityError(
                f"{self._in_flight_max} calls to {server} are in flight already", server=server.instance
            )
        if len(request) > FRAME_MAX_BYTES:
            message = (
                f"a message between broker and {server} is over its limit: {len(request)} bytes, at most "
                f"{FRAME_MAX_BYTES} are sent"
            )
            raise DataError(message, server=server.instance)
        if timeout_s <= 0:
            raise _late(server, timeout_s)
        return await connection.call(server, request, timeout_s)

    async def close(self) -> None:
        self._closed = True
        for task in self._opening.values():
            task.cancel()
        connections = list(self._connections.values())
        self._connections.clear()
        for connection in connections:
            connection.close()

    async def _open(self, server: ServerAddress, key: tuple[str, int], timeout_s: float) -> _Connection:
        """The connection to a server; calls that need it at the same time wait for the same attempt."""
        task = self._opening.get(key)
        if task is None:
            task = self._opening[key] = asyncio.ensure_future(self._connect(server, key))
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            async with asyncio.timeout(timeout_s):
                return await asyncio.shield(task)
        except TimeoutError:
            raise _late(server, timeout_s) from None
        except asyncio.CancelledError:
            if task.cancelled():
                raise ServerUnreachableError(f"connection to {server} was closed", server=server.instance) from None
            raise

    async def _connect(self, server: ServerAddress, key: tuple[str, int]) -> _Connection:
        loop = asyncio.get_running_loop()
        connection = _Connection(self._answer_max_bytes, self._memory)
        name = (self._security.server_name or server.host) if self._tls is not None else None
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await loop.create_connection(lambda: connection, *key, ssl=self._tls, server_hostname=name)
                await connection.hello(server, (self._security.cluster_token or "").encode())
        except TimeoutError:
            connection.close()
            raise NoConnectionError(
                f"connection to {server} did not come about within {CONNECT_TIMEOUT_S:.0f} s", server=server.instance
            ) from None
        except (OSError, ssl.SSLError) as problem:
            connection.close()
            raise NoConnectionError(
                f"connection to {server} refused or broken: {str(problem)[:300]}", server=server.instance
            ) from None
        except BaseException:
            connection.close()
            raise
        finally:
            self._opening.pop(key, None)
        self._connections[key] = connection
        if len(self._connections) > CHANNELS_MAX:
            idle = next((old for old, other in self._connections.items() if not other.calls and old != key), None)
            if idle is not None:
                self._connections.pop(idle).close()
        return connection


class _Call:
    """One call that waits for its answer."""

    __slots__ = ("answer", "claim", "content", "deadline_s", "server", "timeout_s")

    def __init__(
        self, answer: asyncio.Future[bytes], server: ServerAddress, timeout_s: float, deadline_s: float
    ) -> None:
        self.answer = answer
        self.server = server
        self.timeout_s = timeout_s
        self.deadline_s = deadline_s  # in loop time
        # What came of a long answer. It grows in place: joined pieces would be in memory twice, and both new to the
        # kernel.
        self.content = bytearray()
        self.claim: Claim | None = None  # memory of the content


class _Connection(asyncio.Protocol):
    """`calls` by number. Answers to unknown (abandoned) numbers are dropped."""

    def __init__(self, answer_max_bytes: int, memory: ProcessBudget) -> None:
        self._memory = memory
        self.calls: dict[int, _Call] = {}
        self._answer_max_bytes = answer_max_bytes
        self._reader = FrameReader(HELLO_MAX_BYTES)
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._last_number = 0
        # One timer for all calls, at the first deadline that there was when it was set: most calls end long before
        # theirs.
        self._timer: asyncio.TimerHandle | None = None
        self._timer_s = inf
        self.is_closed = False
        self._greeted: asyncio.Future[None] = self._loop.create_future()

    async def hello(self, server: ServerAddress, token: bytes) -> None:
        """Send the greeting; returns when the server accepts our calls. Raises PinotError if it does not."""
        assert self._transport is not None
        self._transport.write(frame(FrameKind.HELLO, 0, MAGIC + token))
        try:
            await self._greeted
        except PinotError as problem:
            if isinstance(problem, ServerUnreachableError):
                raise NoConnectionError(f"connection to {server}: {problem.message}", server=server.instance) from None
            raise type(problem)(problem.message, **{**problem.context, "server": server.instance}) from None

    async def call(self, server: ServerAddress, request: bytes, timeout_s: float) -> bytes:
        """Send one request and wait for its answer."""
        transport = self._transport
        if transport is None or self.is_closed:
            raise ServerUnreachableError(f"connection to {server} was closed", server=server.instance)
        self._last_number = number = self._last_number + 1
        future: asyncio.Future[bytes] = self._loop.create_future()
        deadline_s = self._loop.time() + timeout_s
        self.calls[number] = _Call(future, server, timeout_s, deadline_s)
        if deadline_s < self._timer_s:
            self._look_at(deadline_s)
        timeout_ms = min(int(timeout_s * 1000) + 1, TIMEOUT_MAX_MS)
        transport.write(frame(FrameKind.CALL, number, request, timeout_ms))
        try:
            return await future
        except asyncio.CancelledError:
            self._give_up(number)
            raise

    def close(self) -> None:
        """Calls in flight fail."""
        self._end("was closed")
        if self._transport is not None:
            self._transport.abort()

    # --- asyncio.Protocol --------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transports are no subclasses
        notice_vanished_peer(transport)

    def data_received(self, data: bytes) -> None:
        try:
            for kind, number, _, payload in self._reader.feed(data):
                self._take(kind, number, payload)
        except DataError as problem:
            self._end(f"broke: {problem.message}")
            assert self._transport is not None
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(f"broke: {exc or 'the server hung up'}")

    # --- frames ------------------------------------------------------------------------------------------------------

    def _take(self, kind: int, number: int, payload: bytes) -> None:
        if not self._greeted.done():
            self._take_greeting(kind, payload)
            return
        call = self.calls.get(number)
        if call is None or call.answer.done():
            return
        if kind == FrameKind.ANSWER and not call.content:
            del self.calls[number]
            call.answer.set_result(payload)
            return
        if kind == FrameKind.FAULT:
            self._ended(self.calls.pop(number))
            call.answer.set_exception(decode_fault(payload, call.server.instance))
            return
        if kind not in (FrameKind.ANSWER, FrameKind.PIECE):
            raise DataError(f"a server sent a frame of kind {kind}")
        if len(call.content) + len(payload) > self._answer_max_bytes:
            message = (
                f"a message between broker and {call.server} is over its limit: larger than "
                f"{self._answer_max_bytes} bytes"
            )
            call.answer.set_exception(DataError(message, server=call.server.instance))
            self._give_up(number)
            return
        if call.claim is None:
            call.claim = Claim(f"for the answer of {call.server}")
        if not self._memory.take(call.claim, len(payload)):
            message = (
                f"{len(call.content)} bytes of the answer of {call.server} are here, and there is no room for more"
            )
            call.answer.set_exception(process_memory_error(message, self._memory))
            self._give_up(number)
            return
        call.content += payload
        if kind == FrameKind.ANSWER:
            self._ended(self.calls.pop(number))
            call.answer.set_result(cast(bytes, call.content))  # read as bytes are, and nobody else has it

    def _take_greeting(self, kind: int, payload: bytes) -> None:
        if kind == FrameKind.FAULT:
            self._greeted.set_exception(decode_fault(payload, ""))
        elif kind == FrameKind.HELLO and payload == MAGIC:
            self._reader.payload_max = PIECE_BYTES
            self._greeted.set_result(None)
        else:
            raise DataError("what listens there greets with other bytes than a server of this protocol")

    def _look_at(self, when_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_s = self._loop.call_at(when_s, self._expire), when_s

    def _expire(self) -> None:
        """Fail calls whose deadline has passed, and schedule the next check."""
        now_s = self._loop.time() + TIMER_UNIT_S
        self._timer, self._timer_s = None, inf
        for number, call in list(self.calls.items()):
            if call.deadline_s <= now_s:
                if not call.answer.done():
                    call.answer.set_exception(_late(call.server, call.timeout_s))
                self._give_up(number)
        if self.calls:
            self._look_at(min(call.deadline_s for call in self.calls.values()))

    def _ended(self, call: _Call) -> None:
        """Whoever takes the answer reserves memory for it anew."""
        if call.claim is not None:
            self._memory.release(call.claim)

    def _give_up(self, number: int) -> None:
        call = self.calls.pop(number, None)
        if call is None:
            return
        self._ended(call)
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(HEAD.pack(0, FrameKind.CANCEL, b"\0\0\0", number, 0))

    def _end(self, reason: str) -> None:
        self.is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        if not self._greeted.done():
            self._greeted.set_exception(ServerUnreachableError(f"the connection {reason}"))
            self._greeted.exception()  # nobody may be waiting
        calls, self.calls = self.calls, {}
        for call in calls.values():
            self._ended(call)
            if not call.answer.done():
                call.answer.set_exception(
                    ServerUnreachableError(f"connection to {call.server} {reason}", server=call.server.instance)
                )


def _late(server: ServerAddress, timeout_s: float) -> ServerNotRespondingError:
    return ServerNotRespondingError(f"{server} did not answer within {timeout_s * 1000:.0f} ms", server=server.instance)


def notice_vanished_peer(transport: asyncio.BaseTransport) -> None:
    """Disable Nagle's algorithm, and break the connection if the peer has vanished."""
    connection = transport.get_extra_info("socket")
    if connection is None or connection.family not in (socket.AF_INET, socket.AF_INET6):
        return
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", KEEPALIVE_AFTER_S),
        ("TCP_KEEPINTVL", 1),
        ("TCP_KEEPCNT", 2),
        ("TCP_USER_TIMEOUT", VANISHED_AFTER_S * 1000),
    ):
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
