"""Proves what frames add to the contract of channels: frames are cut right however bytes arrive, foreign bytes and
callers without the token get nothing, short answers pass long ones, quick calls run on the reading thread, a given-up
call's late answer harms nobody, and servers whose frame port is shut are asked over gRPC.
"""

from __future__ import annotations

import asyncio
import random
import socket
import threading
import time

import pytest

from pinotpy.errors import AccessDeniedError, DataError, ServerNotRespondingError, ServerUnreachableError
from pinotpy.rpc.channel import QueryChannel, ServerAddress
from pinotpy.rpc.dispatch import Dispatcher
from pinotpy.rpc.frame_channel import FrameChannel
from pinotpy.rpc.frame_server import FrameServer
from pinotpy.rpc.frames import HEAD, HELLO_MAX_BYTES, MAGIC, FrameKind, FrameReader, frame
from pinotpy.rpc.preferring_channel import PreferringChannel
from pinotpy.rpc.security import RpcSecurity
from pinotpy.rpc.wire import RequestKind, ServerRequest, decode_request, encode_request

WAIT_S = 60.0


def query(context: bytes = b"q") -> bytes:
    return encode_request(ServerRequest(RequestKind.QUERY, 1, 10_000, "Broker_a_1", "", "t_OFFLINE", ("s",), context))


class Served:
    """A frame server for one `with`; `answer` gets the request's context."""

    def __init__(self, answer, *, token: str | None = None, quickly=None, concurrent_max: int = 8) -> None:
        self.cancelled: list[int] = []
        dispatcher = Dispatcher(
            lambda request, deadline_s, peer: answer(decode_request(request).context),
            lambda broker, number: self.cancelled.append(number),
            cluster_token=token,
            concurrent_max=concurrent_max,
            quickly=quickly,
        )
        self.server = FrameServer(dispatcher, host="127.0.0.1", port=0)

    def __enter__(self) -> ServerAddress:
        return ServerAddress("Server_a_1", "127.0.0.1", 1, frame_port=self.server.start())

    def __exit__(self, *_: object) -> None:
        self.server.stop(0.0)


def run(work, channel: QueryChannel | None = None) -> None:
    async def with_channel() -> None:
        used = channel or FrameChannel()
        try:
            async with asyncio.timeout(WAIT_S):
                await work(used)
        finally:
            await used.close()

    asyncio.run(with_channel())


@pytest.mark.parametrize("seed", range(20))
def test_frames_are_cut_right_however_their_bytes_arrive(seed: int) -> None:
    rng = random.Random(seed)
    sent = [
        (
            rng.choice(list(FrameKind)),
            rng.getrandbits(64),
            rng.getrandbits(32),
            rng.randbytes(rng.choice([0, 1, 19, 20, 21, 500])),
        )
        for _ in range(30)
    ]
    stream = b"".join(frame(kind, number, payload, timeout_ms) for kind, number, timeout_ms, payload in sent)
    reader, got, position = FrameReader(500), [], 0
    while position < len(stream):
        size = rng.choice([1, 2, 19, 20, 40, 700])
        got += reader.feed(stream[position : position + size])
        position += size
    assert got == [(int(kind), number, timeout_ms, payload) for kind, number, timeout_ms, payload in sent]


@pytest.mark.parametrize(
    "content",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        HEAD.pack(501, 2, b"\0\0\0", 1, 0),
        HEAD.pack(5, 7, b"\0\0\0", 1, 0),
        HEAD.pack(5, 2, b"\0\1\0", 1, 0),
    ],
    ids=["http", "too long", "unknown kind", "reserved"],
)
def test_bytes_that_are_no_frame_are_refused_before_their_payload_is_kept(content: bytes) -> None:
    with pytest.raises(DataError, match="no frame"):
        list(FrameReader(500).feed(content))


@pytest.mark.parametrize(
    "first",
    [b"GET / HTTP/1.1\r\n\r\n" + bytes(40), frame(FrameKind.CALL, 1, query()), frame(FrameKind.HELLO, 0, b"XXXX")],
)
def test_who_does_not_greet_is_hung_up_on(first: bytes) -> None:
    with (
        Served(lambda context: b"secret") as address,
        socket.create_connection((address.host, address.frame_port), timeout=WAIT_S) as connection,
    ):
        connection.sendall(first)
        received = b""
        while piece := connection.recv(4096):
            received += piece
        assert b"secret" not in received


def test_a_caller_with_a_wrong_token_cannot_make_the_server_keep_more_than_a_greeting() -> None:
    with (
        Served(lambda context: b"secret", token="a" * 32) as address,
        socket.create_connection((address.host, address.frame_port), timeout=WAIT_S) as connection,
    ):
        connection.sendall(HEAD.pack(HELLO_MAX_BYTES + 1, FrameKind.HELLO, b"\0\0\0", 0, 0) + MAGIC)
        with pytest.raises((ConnectionError, StopIteration)):
            while connection.recv(4096):
                pass
            raise StopIteration


def test_refused_callers_may_try_again_with_the_right_token() -> None:
    with Served(lambda context: b"answer", token="a" * 32) as address:

        async def refused(channel: QueryChannel) -> None:
            for _ in range(3):
                with pytest.raises(AccessDeniedError) as caught:
                    await channel.call(address, query(), WAIT_S)
                assert caught.value.context["server"] == "Server_a_1"

        async def answered(channel: QueryChannel) -> None:
            assert await channel.call(address, query(), WAIT_S) == b"answer"

        run(refused, FrameChannel(RpcSecurity("b" * 32)))
        run(answered, FrameChannel(RpcSecurity("a" * 32)))


def test_what_listens_there_and_is_no_server_of_ours_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as foreign:
        port = foreign.getsockname()[1]

        def greet() -> None:
            connection, _ = foreign.accept()
            connection.sendall(b"220 smtp.example ESMTP ready, what do you want from me?\r\n")
            connection.recv(100)
            connection.close()

        thread = threading.Thread(target=greet)
        thread.start()

        async def work(channel: QueryChannel) -> None:
            with pytest.raises(ServerUnreachableError):
                await channel.call(ServerAddress("Server_a_1", "127.0.0.1", 1, frame_port=port), query(), WAIT_S)

        run(work)
        thread.join()


def test_short_answers_pass_long_ones() -> None:
    long = bytes(range(256)) * (256 << 10)  # 64 MiB
    with Served(lambda context: long if context == b"long" else b"short") as address:

        async def work(channel: QueryChannel) -> None:
            first = asyncio.ensure_future(channel.call(address, query(b"long"), WAIT_S))
            passed = 0
            while not first.done():
                assert await channel.call(address, query(b"short"), WAIT_S) == b"short"
                passed += not first.done()
            assert await first == long and passed > 0

        run(work)


def test_quick_calls_run_on_the_reading_thread_and_others_do_not() -> None:
    def name(context: bytes) -> bytes:
        return threading.current_thread().name.encode()

    def quickly(request: bytes, deadline_s: float, peer: str) -> bytes | None:
        context = decode_request(request).context
        return name(context) if context == b"quick" else None

    with Served(name, quickly=quickly) as address:

        async def work(channel: QueryChannel) -> None:
            assert await channel.call(address, query(b"quick"), WAIT_S) == b"frames-loop"
            assert (await channel.call(address, query(b"slow"), WAIT_S)).startswith(b"frames_")

        run(work)


def test_the_late_answer_of_a_call_given_up_harms_nobody() -> None:
    release = threading.Event()

    def answer(context: bytes) -> bytes:
        if context == b"slow":
            release.wait(WAIT_S)
        return context

    served = Served(answer)
    with served as address:

        async def work(channel: QueryChannel) -> None:
            assert await channel.call(address, query(b"first"), WAIT_S) == b"first"  # the connection is there
            with pytest.raises(ServerNotRespondingError):
                await channel.call(address, query(b"slow"), 0.05)
            release.set()
            for i in range(50):
                assert await channel.call(address, query(b"%d" % i), WAIT_S) == b"%d" % i
            deadline = time.monotonic() + WAIT_S
            while served.server.in_flight:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.005)

        run(work)
    assert served.cancelled == [1]


class Recorded:
    """A channel that answers with its name."""

    def __init__(self) -> None:
        self.calls = 0

    async def call(self, server: ServerAddress, request: bytes, timeout_s: float) -> bytes:
        self.calls += 1
        return b"grpc"

    async def close(self) -> None: ...


def test_servers_without_frames_and_those_whose_frame_port_is_shut_are_asked_over_grpc() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        shut = taken.getsockname()[1]
    with Served(lambda context: b"frames") as address:
        grpc = Recorded()

        async def work(channel: QueryChannel) -> None:
            assert await channel.call(ServerAddress("Server_a_1", "127.0.0.1", 1), query(), WAIT_S) == b"grpc"
            for _ in range(3):
                assert (
                    await channel.call(ServerAddress("Server_a_1", "127.0.0.1", 1, frame_port=shut), query(), WAIT_S)
                    == b"grpc"
                )
            assert grpc.calls == 4
            assert await channel.call(address, query(), WAIT_S) == b"frames"
            assert grpc.calls == 4

        run(work, PreferringChannel(FrameChannel(), lambda: grpc))
