"""Proves that servers and brokers work without gRPC: none of their modules imports it, the query port speaks frames,
and what cannot be had without it is refused with what to install.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from pinotpy.config.settings import ServerSettings
from pinotpy.errors import ServerUnreachableError
from pinotpy.rpc import listening
from pinotpy.rpc.channel import ServerAddress
from pinotpy.rpc.frame_channel import FrameChannel
from pinotpy.rpc.preferring_channel import PreferringChannel
from pinotpy.rpc.security import RpcSecurity
from pinotpy.rpc.wire import RequestKind, ServerRequest, encode_request
from pinotpy.server import query_port
from pinotpy.server.query_port import QueryPort
from pinotpy.service.errors import StartError

REQUEST = encode_request(ServerRequest(RequestKind.QUERY, 1, 60_000, "Broker_a_1", "", "t_OFFLINE", ("s",), b"q"))
_WITHOUT = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition('.')[0] in ('grpc', 'fastavro', 'prompt_toolkit', 'uvloop'):
            raise ImportError(name)
sys.meta_path.insert(0, Refuse())
import pinotpy.broker.service, pinotpy.server.service, pinotpy.controller.service, pinotpy.cli.main
"""


@pytest.fixture
def without_grpc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_port, "has_grpc", lambda: False)


@pytest.fixture
def opened(request: pytest.FixtureRequest) -> Iterator[QueryPort]:
    queries: Any = SimpleNamespace(
        handle=lambda request, deadline_s, peer: b"answer",
        cancel=lambda broker, number: None,
        handle_quickly=lambda request, deadline_s, peer: None,
        is_small=lambda request: False,
    )
    port = QueryPort(queries, ServerSettings(port=0, **getattr(request, "param", {})), RpcSecurity())
    port.start()
    yield port
    port.stop(5.0)


def ask(port: QueryPort) -> bytes:
    async def call() -> bytes:
        channel = PreferringChannel(FrameChannel(), None)
        try:
            return await channel.call(ServerAddress("Server_a_1", "127.0.0.1", port.port, port.frame_port), REQUEST, 60)
        finally:
            await channel.close()

    return asyncio.run(call())


def test_daemons_import_none_of_the_extras() -> None:
    subprocess.run([sys.executable, "-c", _WITHOUT], check=True, timeout=300)


@pytest.mark.usefixtures("without_grpc")
class TestWithoutGrpc:
    def test_the_query_port_speaks_frames(self, opened: QueryPort) -> None:
        assert opened.port and opened.frame_port == opened.port
        assert ask(opened) == b"answer"

    @pytest.mark.parametrize("opened", [{"advertised_port": 7}], indirect=True)
    def test_frames_are_advertised_where_the_query_port_is(self, opened: QueryPort) -> None:
        assert opened.port != 7 and opened.frame_port == 7

    def test_without_frames_nothing_is_left_to_listen_with(self) -> None:
        queries: Any = SimpleNamespace(handle=None, cancel=None, handle_quickly=None, is_small=None)
        with pytest.raises(StartError, match=r"pip install 'pinotpy\[grpc\]'"):
            QueryPort(queries, ServerSettings(frames=False), RpcSecurity()).start()

    def test_a_server_that_takes_grpc_only_cannot_be_reached(self) -> None:
        server = ServerAddress("Server_a_1", "127.0.0.1", 1)
        with pytest.raises(ServerUnreachableError, match=r"pip install 'pinotpy\[grpc\]'"):
            asyncio.run(PreferringChannel(FrameChannel(), None).call(server, REQUEST, 5.0))


def test_with_grpc_frames_have_a_port_of_their_own(opened: QueryPort) -> None:
    assert listening.has_grpc() and opened.frame_port not in (None, opened.port)
    assert ask(opened) == b"answer"
