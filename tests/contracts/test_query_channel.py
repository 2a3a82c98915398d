"""The contract of rpc.channel.QueryChannel, run over the in-memory twin, over gRPC and over frames on loopback: what a
broker may rely on when a server answers, refuses, breaks, is slow, is full, or speaks another protocol.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from cancel_request import encode_cancel

from pinotpy.errors import (
    AccessDeniedError,
    OutOfCapacityError,
    PinotError,
    QueryExecutionError,
    QueryTimeoutError,
    RemoteError,
    ServerNotRespondingError,
    ServerUnreachableError,
    UnknownColumnError,
)
from pinotpy.rpc.channel import QueryChannel, ServerAddress
from pinotpy.rpc.dispatch import Canceller, Dispatcher, Handler
from pinotpy.rpc.faults import ServerFaultError
from pinotpy.rpc.frame_channel import FrameChannel
from pinotpy.rpc.frame_server import FrameServer
from pinotpy.rpc.grpc_channel import GrpcChannel
from pinotpy.rpc.memory import MemoryChannel
from pinotpy.rpc.places import Places
from pinotpy.rpc.security import RpcSecurity
from pinotpy.rpc.server import RpcServer
from pinotpy.rpc.wire import RequestKind, ServerRequest, decode_request, encode_request

CALL_S = 60.0  # of a call that gets its answer, or its refusal
WAIT_S = 120.0


def query(
    request_id: int = 1, *, context: bytes = b"q", timeout_ms: int = 120_000, segments: tuple[str, ...] = ("s0", "s1")
) -> bytes:
    return encode_request(
        ServerRequest(
            RequestKind.QUERY, request_id, timeout_ms, "Broker_a_1", "alice", "flights_OFFLINE", segments, context
        )
    )


@dataclass
class Calls:
    """A handler that can be told what to do, and what it saw."""

    answer: Callable[[bytes], bytes] = lambda request: b"answer"
    seen: list[ServerRequest] = field(default_factory=list)
    deadlines_s: list[float] = field(default_factory=list)
    cancelled: list[tuple[str, int]] = field(default_factory=list)
    cancel_seen: threading.Event = field(default_factory=threading.Event)

    def handle(self, request: bytes, deadline_s: float, peer: str) -> bytes:
        self.seen.append(decode_request(request))
        self.deadlines_s.append(deadline_s)
        return self.answer(request)

    def cancel(self, broker_id: str, request_id: int) -> None:
        self.cancelled.append((broker_id, request_id))
        self.cancel_seen.set()


class MemoryWorld:
    def __init__(self) -> None:
        self.channels: list[MemoryChannel] = []
        self.servers: dict[ServerAddress, Dispatcher] = {}

    def channel(self, token: str | None = None) -> QueryChannel:
        channel = MemoryChannel(cluster_token=token)
        for address, dispatcher in self.servers.items():
            channel.add_server(address, dispatcher)
        self.channels.append(channel)
        return channel

    def serve(
        self, handler: Handler, cancel: Canceller, *, token: str | None = None, concurrent_max: int = 8, **places: Any
    ) -> ServerAddress:
        address = ServerAddress(f"Server_m_{len(self.servers)}", "m", len(self.servers))
        self.servers[address] = Dispatcher(
            handler, cancel, cluster_token=token, concurrent_max=concurrent_max, **places
        )
        return address

    def places(self, address: ServerAddress) -> Places:
        return self.servers[address].places

    def kill(self, address: ServerAddress) -> None:
        for channel in self.channels:
            channel.remove_server(address)

    def close(self) -> None: ...


class GrpcWorld:
    def __init__(self) -> None:
        self.servers: dict[ServerAddress, RpcServer] = {}

    def channel(self, token: str | None = None) -> QueryChannel:
        return GrpcChannel(RpcSecurity(cluster_token=token))

    def serve(
        self, handler: Handler, cancel: Canceller, *, token: str | None = None, concurrent_max: int = 8, **places: Any
    ) -> ServerAddress:
        security = RpcSecurity(cluster_token=token)
        server = RpcServer(
            handler, cancel, host="127.0.0.1", port=0, security=security, concurrent_max=concurrent_max, **places
        )
        address = ServerAddress("Server_127.0.0.1_x", "127.0.0.1", server.start())
        self.servers[address] = server
        return address

    def places(self, address: ServerAddress) -> Places:
        return self.servers[address].dispatcher.places

    def kill(self, address: ServerAddress) -> None:
        self.servers.pop(address).stop(0.0)

    def close(self) -> None:
        for address in list(self.servers):
            self.kill(address)


class FrameWorld:
    """`quick`: the server answers on the thread that reads (only what never waits may)."""

    def __init__(self) -> None:
        self.servers: dict[ServerAddress, FrameServer] = {}

    def channel(self, token: str | None = None) -> QueryChannel:
        return FrameChannel(RpcSecurity(cluster_token=token))

    def serve(
        self, handler: Handler, cancel: Canceller, *, token: str | None = None, concurrent_max: int = 8, **places: Any
    ) -> ServerAddress:
        dispatcher = Dispatcher(handler, cancel, cluster_token=token, concurrent_max=concurrent_max, **places)
        server = FrameServer(dispatcher, host="127.0.0.1", port=0, security=RpcSecurity(cluster_token=token))
        address = ServerAddress("Server_127.0.0.1_x", "127.0.0.1", 1, frame_port=server.start())
        self.servers[address] = server
        return address

    def places(self, address: ServerAddress) -> Places:
        return self.servers[address].dispatcher.places

    def kill(self, address: ServerAddress) -> None:
        self.servers.pop(address).stop(0.0)

    def close(self) -> None:
        for address in list(self.servers):
            self.kill(address)


World = MemoryWorld | GrpcWorld | FrameWorld


@pytest.fixture(params=[MemoryWorld, GrpcWorld, FrameWorld], ids=["memory", "grpc", "frames"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    made: World = request.param()
    yield made
    made.close()


def run(world: World, work: Callable[[QueryChannel], Awaitable[object]], token: str | None = None) -> None:
    async def with_channel() -> None:
        channel = world.channel(token)
        try:
            async with asyncio.timeout(WAIT_S):
                await work(channel)
        finally:
            await channel.close()

    asyncio.run(with_channel())


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():
            await asyncio.sleep(0.005)


def test_the_request_arrives_whole_and_the_answer_comes_back(world: World) -> None:
    calls = Calls(answer=lambda request: bytes(range(256)) * 100)
    server = world.serve(calls.handle, calls.cancel)

    async def work(channel: QueryChannel) -> None:
        assert await channel.call(server, query(7, context=b"\x00\xff\n"), CALL_S) == bytes(range(256)) * 100
        assert calls.seen[0] == ServerRequest(
            RequestKind.QUERY, 7, 120_000, "Broker_a_1", "alice", "flights_OFFLINE", ("s0", "s1"), b"\x00\xff\n"
        )
        assert 0 < calls.deadlines_s[0] < 90, "that of the call: 60 s of 120, by a clock that may be coarse"

    run(world, work)


def test_an_empty_answer_is_an_answer(world: World) -> None:
    calls = Calls(answer=lambda request: b"")
    server = world.serve(calls.handle, calls.cancel)

    async def work(channel: QueryChannel) -> None:
        assert await channel.call(server, query(), CALL_S) == b""

    run(world, work)


def test_answers_over_four_megabytes_pass(world: World) -> None:
    calls = Calls(answer=lambda request: b"x" * (6 << 20))
    server = world.serve(calls.handle, calls.cancel)

    async def work(channel: QueryChannel) -> None:
        assert len(await channel.call(server, query(), CALL_S)) == 6 << 20

    run(world, work)


def test_the_deadline_is_the_lesser_of_call_and_request(world: World) -> None:
    calls = Calls()
    server = world.serve(calls.handle, calls.cancel)

    async def work(channel: QueryChannel) -> None:
        await channel.call(server, query(timeout_ms=20_000), CALL_S)
        assert 0 < calls.deadlines_s[0] < 40, "that of the request: 20 s of 60, by a clock that may be coarse"

    run(world, work)


def test_a_refused_connection_is_unreachable_and_another_server_still_answers(world: World) -> None:
    calls = Calls()
    dead, alive = world.serve(calls.handle, calls.cancel), world.serve(calls.handle, calls.cancel)

    async def work(channel: QueryChannel) -> None:
        world.kill(dead)
        with pytest.raises(ServerUnreachableError) as caught:
            await channel.call(dead, query(), CALL_S)
        assert caught.value.code == 425 and caught.value.retriable
        assert await channel.call(alive, query(), CALL_S) == b"answer"

    run(world, work)


def test_a_slow_server_is_not_responding_and_learns_that_nobody_waits(world: World) -> None:
    release = threading.Event()

    def slow(request: bytes) -> bytes:
        if decode_request(request).request_id == 42:
            release.wait(WAIT_S)
        return b"late"

    calls = Calls(answer=slow)
    server = world.serve(calls.handle, calls.cancel)

    async def work(channel: QueryChannel) -> None:
        try:
            assert await channel.call(server, query(1), CALL_S) == b"late"
            for timeout_s in (0.2, 2.0, 20.0):  # a slow machine may not bring the request there in the first
                with pytest.raises(ServerNotRespondingError) as caught:
                    await channel.call(server, query(42), timeout_s)
                assert caught.value.code == 427
                if any(request.request_id == 42 for request in calls.seen):
                    break
            await until(calls.cancel_seen.is_set)
            assert set(calls.cancelled) == {("Broker_a_1", 42)}
        finally:
            release.set()

    run(world, work)


def test_a_cancelled_task_ends_the_query_on_the_server(world: World) -> None:
    release = threading.Event()
    calls = Calls(answer=lambda request: b"late" if release.wait(WAIT_S) else b"never")
    server = world.serve(calls.handle, calls.cancel)

    async def work(channel: QueryChannel) -> None:
        task = asyncio.ensure_future(channel.call(server, query(9), CALL_S))
        try:
            await until(lambda: bool(calls.seen))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await until(calls.cancel_seen.is_set)
            assert calls.cancelled == [("Broker_a_1", 9)]
        finally:
            release.set()

    run(world, work)


def test_an_answered_query_is_not_cancelled(world: World) -> None:
    calls = Calls()
    server = world.serve(calls.handle, calls.cancel)

    async def work(channel: QueryChannel) -> None:
        for request_id in range(20):
            await channel.call(server, query(request_id), CALL_S)

    run(world, work)
    assert calls.cancelled == []


def test_a_cancel_call_names_broker_and_request_even_when_all_query_threads_are_busy(world: World) -> None:
    release = threading.Event()
    calls = Calls(answer=lambda request: b"done" if release.wait(WAIT_S) else b"never")
    server = world.serve(calls.handle, calls.cancel, concurrent_max=2)

    async def work(channel: QueryChannel) -> None:
        busy = [asyncio.ensure_future(channel.call(server, query(i), CALL_S)) for i in range(2)]
        try:
            await until(lambda: len(calls.seen) == 2)
            assert await channel.call(server, encode_cancel("Broker_a_1", 1), CALL_S) == b""
            assert calls.cancelled == [("Broker_a_1", 1)]
        finally:
            release.set()
        assert await asyncio.gather(*busy) == [b"done", b"done"]

    run(world, work)


def test_calls_beyond_the_capacity_are_refused_with_211_and_the_others_answered(world: World) -> None:
    release = threading.Event()
    calls = Calls(answer=lambda request: b"done" if release.wait(WAIT_S) else b"never")
    server = world.serve(calls.handle, calls.cancel, concurrent_max=2)

    async def work(channel: QueryChannel) -> None:
        busy = [asyncio.ensure_future(channel.call(server, query(i), CALL_S)) for i in range(2)]
        try:
            await until(lambda: len(calls.seen) == 2)
            with pytest.raises(OutOfCapacityError) as caught:
                await channel.call(server, query(3), CALL_S)
            assert caught.value.code == 211
        finally:
            release.set()
        assert await asyncio.gather(*busy) == [b"done", b"done"]
        assert await channel.call(server, query(4), CALL_S) == b"done"

    run(world, work)


def test_calls_beyond_the_places_wait_for_one_and_those_that_are_given_up_never_begin(world: World) -> None:
    release = threading.Event()
    calls = Calls(answer=lambda request: b"done" if release.wait(WAIT_S) else b"never")
    server = world.serve(calls.handle, calls.cancel, concurrent_max=2, waiting_max=3)
    places = world.places(server)

    async def work(channel: QueryChannel) -> None:
        busy = [asyncio.ensure_future(channel.call(server, query(i), CALL_S)) for i in range(2)]
        try:
            await until(lambda: len(calls.seen) == 2)
            waiting = [asyncio.ensure_future(channel.call(server, query(i), CALL_S)) for i in (2, 3, 4)]
            await until(lambda: places.waiting == 3)
            with pytest.raises(OutOfCapacityError) as caught:
                await channel.call(server, query(5), CALL_S)
            assert caught.value.code == 211
            waiting[0].cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting[0]
            await until(lambda: places.waiting == 2)
            later = asyncio.ensure_future(channel.call(server, query(6), CALL_S))
            await until(lambda: places.waiting == 3)
            assert not later.done() and len(calls.seen) == 2
        finally:
            release.set()
        assert await asyncio.gather(*busy, waiting[1], waiting[2], later) == [b"done"] * 5

    run(world, work)
    assert sorted(request.request_id for request in calls.seen) == [0, 1, 3, 4, 6]
    assert (places.working, places.waiting) == (0, 0)


def test_a_call_that_waits_until_its_time_is_up_is_told_so(world: World) -> None:
    release = threading.Event()
    calls = Calls(answer=lambda request: b"done" if release.wait(WAIT_S) else b"never")
    server = world.serve(calls.handle, calls.cancel, concurrent_max=1, waiting_max=3)

    async def work(channel: QueryChannel) -> None:
        busy = asyncio.ensure_future(channel.call(server, query(0), CALL_S))
        try:
            await until(lambda: len(calls.seen) == 1)
            with pytest.raises(QueryTimeoutError, match="waited on the server"):
                await channel.call(server, query(1, timeout_ms=200), CALL_S)
        finally:
            release.set()
        assert await busy == b"done"
        assert await channel.call(server, query(2), CALL_S) == b"done"

    run(world, work)
    assert len(calls.seen) == 2


def test_small_calls_pass_the_large_ones_that_hold_all_other_places(world: World) -> None:
    release = threading.Event()

    def is_small(request: bytes) -> bool:
        return decode_request(request).request_id >= 100

    calls = Calls(
        answer=lambda request: b"tile" if is_small(request) else b"done" if release.wait(WAIT_S) else b"never"
    )
    server = world.serve(calls.handle, calls.cancel, concurrent_max=2, small_max=1, waiting_max=5, is_small=is_small)

    async def work(channel: QueryChannel) -> None:
        busy = [asyncio.ensure_future(channel.call(server, query(i), CALL_S)) for i in range(4)]
        try:
            await until(lambda: len(calls.seen) == 2)
            for number in range(100, 105):
                assert await channel.call(server, query(number), CALL_S) == b"tile"
        finally:
            release.set()
        assert await asyncio.gather(*busy) == [b"done"] * 4

    run(world, work)


def test_errors_cross_as_code_message_and_context(world: World) -> None:
    def fail(request: bytes) -> bytes:
        raise UnknownColumnError("no column 'pricee' in table 'orders'", table="orders", secret=object())

    calls = Calls(answer=fail)
    server = world.serve(calls.handle, calls.cancel)

    async def work(channel: QueryChannel) -> None:
        with pytest.raises(UnknownColumnError) as caught:
            await channel.call(server, query(), CALL_S)
        assert (caught.value.code, caught.value.message) == (710, "no column 'pricee' in table 'orders'")
        assert caught.value.context == {"table": "orders", "server": server.instance}

    run(world, work)


def test_an_error_with_a_huge_message_is_cut_not_lost(world: World) -> None:
    def fail(request: bytes) -> bytes:
        raise QueryExecutionError("é€" * 100_000, detail="x" * 100)

    calls = Calls(answer=fail)
    server = world.serve(calls.handle, calls.cancel)

    async def work(channel: QueryChannel) -> None:
        with pytest.raises(QueryExecutionError) as caught:
            await channel.call(server, query(), CALL_S)
        assert caught.value.code == 200 and 300 <= len(caught.value.message) <= 2000

    run(world, work)


def test_an_unforeseen_fault_shows_an_id_and_no_internals(world: World) -> None:
    def fail(request: bytes) -> bytes:
        raise ZeroDivisionError("/secret/path")

    calls = Calls(answer=fail)
    server = world.serve(calls.handle, calls.cancel)

    async def work(channel: QueryChannel) -> None:
        with pytest.raises(ServerFaultError, match=r"internal error [0-9a-f]{12}") as caught:
            await channel.call(server, query(), CALL_S)
        assert "/secret" not in str(caught.value) and not caught.value.retriable
        assert isinstance(caught.value, RemoteError)

    run(world, work)


@pytest.mark.parametrize("token", [None, "b" * 32], ids=["none", "wrong"])
def test_without_the_cluster_token_a_server_answers_nothing(world: World, token: str | None) -> None:
    calls = Calls()
    server = world.serve(calls.handle, calls.cancel, token="a" * 32)

    async def work(channel: QueryChannel) -> None:
        for request in (query(), encode_cancel("Broker_a_1", 1)):
            with pytest.raises(AccessDeniedError):
                await channel.call(server, request, CALL_S)

    run(world, work, token=token)
    assert calls.seen == [] and calls.cancelled == []


def test_with_the_cluster_token_a_server_answers(world: World) -> None:
    calls = Calls()
    server = world.serve(calls.handle, calls.cancel, token="a" * 32)

    async def work(channel: QueryChannel) -> None:
        assert await channel.call(server, query(), CALL_S) == b"answer"

    run(world, work, token="a" * 32)


@pytest.mark.parametrize(
    ("request_bytes", "expected"),
    [
        (b"PQR1\x02" + query()[5:], "found version 2, supported 1"),
        (b"", "no request"),
        (b"GET / HTTP/1.1\r\n\r\n" + bytes(40), "no request"),
        (query()[:-1], "says that it has"),
        (query() + b"x", "says that it has"),
    ],
    ids=["other protocol", "empty", "foreign", "short", "long"],
)
def test_what_is_no_request_of_this_protocol_is_refused_by_name(
    world: World, request_bytes: bytes, expected: str
) -> None:
    calls = Calls()
    server = world.serve(calls.handle, calls.cancel)

    async def work(channel: QueryChannel) -> None:
        with pytest.raises(PinotError, match=expected):
            await channel.call(server, request_bytes, CALL_S)
        assert await channel.call(server, query(), CALL_S) == b"answer"

    run(world, work)
    assert len(calls.seen) == 1


def test_calls_on_a_closed_channel_are_unreachable(world: World) -> None:
    calls = Calls()
    server = world.serve(calls.handle, calls.cancel)

    async def work(channel: QueryChannel) -> None:
        await channel.close()
        with pytest.raises(ServerUnreachableError):
            await channel.call(server, query(), CALL_S)

    run(world, work)


def test_many_calls_at_once_each_get_their_own_answer(world: World) -> None:
    calls = Calls(answer=lambda request: decode_request(request).context)
    server = world.serve(calls.handle, calls.cancel, concurrent_max=200)

    async def work(channel: QueryChannel) -> None:
        answers = await asyncio.gather(*(channel.call(server, query(i, context=b"%d" % i), 8.0) for i in range(200)))
        assert answers == [b"%d" % i for i in range(200)]

    run(world, work)
