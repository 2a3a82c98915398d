"""Proves what only real transports can show, of gRPC and of frames: ports are not shared, TLS and mutual TLS, servers
that come back, message limits, stops that let calls end, and a client-side bound on calls in flight.
"""

from __future__ import annotations

import asyncio
import subprocess
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pinotpy.errors import DataError, OutOfCapacityError, ServerNotRespondingError, ServerUnreachableError
from pinotpy.rpc.channel import QueryChannel, ServerAddress
from pinotpy.rpc.dispatch import Dispatcher
from pinotpy.rpc.frame_channel import FrameChannel
from pinotpy.rpc.frame_server import FrameServer
from pinotpy.rpc.grpc_channel import GrpcChannel
from pinotpy.rpc.listening import PortUnavailableError
from pinotpy.rpc.memory import Fault, MemoryChannel
from pinotpy.rpc.security import RpcSecurity
from pinotpy.rpc.server import RpcServer
from pinotpy.rpc.wire import RequestKind, ServerRequest, encode_request

QUERY = encode_request(ServerRequest(RequestKind.QUERY, 1, 60_000, "Broker_a_1", "", "t_OFFLINE", ("s",), b"q"))
PING = encode_request(ServerRequest(RequestKind.PING, 1, 60_000))
WAIT_S = 60.0


@dataclass
class Grpc:
    """Servers and channels of one transport."""

    servers: list[RpcServer | FrameServer] = field(default_factory=list)

    def channel(self, security: RpcSecurity | None, **options: Any) -> QueryChannel:
        return GrpcChannel(security, **options)

    def start(
        self, answer: Callable[[], bytes] = lambda: b"answer", port: int = 0, host: str = "127.0.0.1", **options: Any
    ) -> tuple[RpcServer | FrameServer, ServerAddress]:
        server = RpcServer(
            lambda request, deadline_s, peer: answer(), lambda broker, request_id: None, host=host, port=port, **options
        )
        port = server.start()
        self.servers.append(server)
        return server, ServerAddress("Server_a_1", "127.0.0.1", port)

    def run(
        self, work: Callable[[QueryChannel], Awaitable[None]], security: RpcSecurity | None = None, **options: Any
    ) -> None:
        async def with_channel() -> None:
            channel = self.channel(security, **options)
            try:
                async with asyncio.timeout(WAIT_S):
                    await work(channel)
            finally:
                await channel.close()

        asyncio.run(with_channel())


class Frames(Grpc):
    def channel(self, security: RpcSecurity | None, **options: Any) -> QueryChannel:
        return FrameChannel(security, **options)

    def start(
        self, answer: Callable[[], bytes] = lambda: b"answer", port: int = 0, host: str = "127.0.0.1", **options: Any
    ) -> tuple[RpcServer | FrameServer, ServerAddress]:
        token = options["security"].cluster_token if "security" in options else None
        dispatcher = Dispatcher(
            lambda request, deadline_s, peer: answer(), lambda broker, request_id: None, cluster_token=token
        )
        server = FrameServer(dispatcher, host=host, port=port, **options)
        port = server.start()
        self.servers.append(server)
        return server, ServerAddress("Server_a_1", "127.0.0.1", port, frame_port=port)


@pytest.fixture(params=[Grpc, Frames], ids=["grpc", "frames"])
def transport(request: pytest.FixtureRequest) -> Iterator[Grpc]:
    made: Grpc = request.param()
    yield made
    for server in made.servers:
        server.stop(0.0)


def test_a_second_server_on_the_port_fails_to_start(transport: Grpc) -> None:
    _, address = transport.start()
    with pytest.raises(PortUnavailableError, match=f"127.0.0.1:{address.port}"):
        transport.start(port=address.port)


def test_a_port_of_somebody_elses_host_fails_to_start(transport: Grpc) -> None:
    with pytest.raises(PortUnavailableError):
        transport.start(host="203.0.113.7")


def test_a_server_that_comes_back_is_found_again(transport: Grpc) -> None:
    server, address = transport.start()

    async def work(channel: QueryChannel) -> None:
        assert await channel.call(address, QUERY, WAIT_S) == b"answer"
        server.stop(0.0)
        for _ in range(3):
            with pytest.raises(ServerUnreachableError):
                await channel.call(address, QUERY, WAIT_S)
        transport.start(lambda: b"back", port=address.port)
        while True:
            try:
                assert await channel.call(address, QUERY, WAIT_S) == b"back"
                break
            except ServerUnreachableError:  # until WAIT_S is over
                await asyncio.sleep(0.02)

    transport.run(work)


def test_a_server_that_is_killed_in_a_call_is_unreachable_at_once(transport: Grpc) -> None:
    asked, release = threading.Event(), threading.Event()

    def slow() -> bytes:
        asked.set()
        release.wait(WAIT_S)
        return b"late"

    server, address = transport.start(slow)

    async def work(channel: QueryChannel) -> None:
        call = asyncio.ensure_future(channel.call(address, QUERY, WAIT_S))
        await asyncio.to_thread(asked.wait, WAIT_S)
        await asyncio.to_thread(server.stop, 0.0)
        with pytest.raises(ServerUnreachableError):
            await call
        release.set()

    transport.run(work)


def test_a_stop_lets_a_running_call_end(transport: Grpc) -> None:
    asked, release = threading.Event(), threading.Event()

    def slow() -> bytes:
        asked.set()
        release.wait(WAIT_S)
        return b"in time"

    server, address = transport.start(slow)

    async def work(channel: QueryChannel) -> None:
        call = asyncio.ensure_future(channel.call(address, QUERY, WAIT_S))
        await asyncio.to_thread(asked.wait, WAIT_S)
        stopping = asyncio.ensure_future(asyncio.to_thread(server.stop, WAIT_S))
        release.set()
        assert await call == b"in time"
        await stopping

    transport.run(work)


def test_an_answer_over_the_limit_names_the_limit(transport: Grpc) -> None:
    _, address = transport.start(lambda: bytes(200_000))

    async def work(channel: QueryChannel) -> None:
        with pytest.raises(DataError, match="over its limit"):
            await channel.call(address, QUERY, WAIT_S)

    transport.run(work, answer_max_bytes=100_000)


def test_a_request_over_the_limit_is_refused_by_the_server(transport: Grpc) -> None:
    _, address = transport.start()

    async def work(channel: QueryChannel) -> None:
        with pytest.raises(DataError, match="over its limit"):
            await channel.call(address, bytes(17 << 20), WAIT_S)
        assert await channel.call(address, QUERY, WAIT_S) == b"answer"

    transport.run(work)


def test_calls_in_flight_to_one_server_are_bounded(transport: Grpc) -> None:
    release = threading.Event()

    def slow() -> bytes:
        release.wait(WAIT_S)
        return b"done"

    _, address = transport.start(slow)

    async def work(channel: QueryChannel) -> None:
        calls = [asyncio.ensure_future(channel.call(address, QUERY, WAIT_S)) for _ in range(2)]
        await asyncio.sleep(0)  # both have begun
        with pytest.raises(OutOfCapacityError, match="in flight"):
            await channel.call(address, QUERY, WAIT_S)
        release.set()
        assert await asyncio.gather(*calls) == [b"done", b"done"]
        assert await channel.call(address, QUERY, WAIT_S) == b"done"

    transport.run(work, in_flight_max=2)


def test_a_ping_tells_the_protocol(transport: Grpc) -> None:
    _, address = transport.start()

    async def work(channel: QueryChannel) -> None:
        assert await channel.call(address, PING, WAIT_S) == b"1"

    transport.run(work)


# --- TLS -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("pem")

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True, timeout=120)

    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    for ca in ("ca", "foreign"):
        openssl(
            "req", "-x509", *curve, "-keyout", f"{ca}_key.pem", "-out", f"{ca}.pem", "-days", "2", "-subj", f"/CN={ca}"
        )
    for name, host in (("daemon", "IP:127.0.0.1,DNS:pinotpy"), ("other", "DNS:elsewhere.example")):
        openssl("req", *curve, "-keyout", f"{name}_key.pem", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        (folder / f"{name}.ext").write_text(f"subjectAltName={host}\n")
        openssl(
            "x509",
            "-req",
            "-in",
            f"{name}.csr",
            "-CA",
            "ca.pem",
            "-CAkey",
            "ca_key.pem",
            "-CAcreateserial",
            "-days",
            "2",
            "-extfile",
            f"{name}.ext",
            "-out",
            f"{name}.pem",
        )
    return {file.stem: file.read_bytes() for file in Path(folder).glob("*.pem")}


def test_tls_with_the_right_ca_answers_and_with_a_foreign_one_not(transport: Grpc, pem: dict[str, bytes]) -> None:
    _, address = transport.start(security=RpcSecurity("t" * 32, pem["daemon"], pem["daemon_key"]))

    async def answered(channel: QueryChannel) -> None:
        assert await channel.call(address, QUERY, WAIT_S) == b"answer"

    async def refused(channel: QueryChannel) -> None:
        with pytest.raises(ServerUnreachableError):
            await channel.call(address, QUERY, WAIT_S)

    transport.run(answered, RpcSecurity("t" * 32, ca=pem["ca"]))
    transport.run(refused, RpcSecurity("t" * 32, ca=pem["foreign"]))
    transport.run(refused, RpcSecurity("t" * 32))  # plain text to a TLS port


def test_a_certificate_of_another_host_is_refused_unless_its_name_is_expected(
    transport: Grpc, pem: dict[str, bytes]
) -> None:
    _, address = transport.start(security=RpcSecurity(None, pem["other"], pem["other_key"]))

    async def refused(channel: QueryChannel) -> None:
        with pytest.raises(ServerUnreachableError):
            await channel.call(address, QUERY, WAIT_S)

    async def answered(channel: QueryChannel) -> None:
        assert await channel.call(address, QUERY, WAIT_S) == b"answer"

    transport.run(refused, RpcSecurity(ca=pem["ca"]))
    transport.run(answered, RpcSecurity(ca=pem["ca"], server_name="elsewhere.example"))


def test_mutual_tls_refuses_callers_without_certificate(transport: Grpc, pem: dict[str, bytes]) -> None:
    _, address = transport.start(
        security=RpcSecurity(None, pem["daemon"], pem["daemon_key"], pem["ca"], client_certificates=True)
    )

    async def refused(channel: QueryChannel) -> None:
        with pytest.raises(ServerUnreachableError):
            await channel.call(address, QUERY, WAIT_S)

    async def answered(channel: QueryChannel) -> None:
        assert await channel.call(address, QUERY, WAIT_S) == b"answer"

    transport.run(refused, RpcSecurity(ca=pem["ca"]))
    transport.run(answered, RpcSecurity(ca=pem["ca"], certificate=pem["daemon"], key=pem["daemon_key"]))


def test_secrets_do_not_show_in_a_repr(pem: dict[str, bytes]) -> None:
    shown = repr(RpcSecurity("t" * 32, pem["daemon"], pem["daemon_key"]))
    assert "t" * 32 not in shown and "PRIVATE" not in shown


# --- faults of the twin --------------------------------------------------------------------------------------------


def test_the_twin_refuses_loses_replies_and_stays_silent_as_told() -> None:
    served: list[bytes] = []
    address = ServerAddress("Server_m_1", "m", 1)
    channel = MemoryChannel()
    channel.add_server(
        address,
        Dispatcher(
            lambda request, deadline_s, peer: served.append(request) or b"answer", lambda broker, request_id: None
        ),
    )

    async def work() -> None:
        channel.inject(address, Fault(refuse=True, times=2))
        for _ in range(2):
            with pytest.raises(ServerUnreachableError):
                await channel.call(address, QUERY, WAIT_S)
        assert served == []
        channel.inject(address, Fault(lose_reply=True, times=1))
        with pytest.raises(ServerUnreachableError, match="before its answer"):
            await channel.call(address, QUERY, WAIT_S)
        assert len(served) == 1
        assert await channel.call(address, QUERY, WAIT_S) == b"answer"
        channel.inject(address, Fault(error=OutOfCapacityError("full")))
        with pytest.raises(OutOfCapacityError):
            await channel.call(address, QUERY, WAIT_S)
        channel.inject(address, Fault(silent=True))
        with pytest.raises(ServerNotRespondingError):
            await channel.call(address, QUERY, 0.02)
        channel.inject(address, None)
        assert await channel.call(address, QUERY, WAIT_S) == b"answer"

    asyncio.run(work())
