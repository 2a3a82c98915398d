"""PreferringChannel: frames to servers that advertise them, gRPC to all others, and where no frames get through."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pinotpy.errors import ServerUnreachableError
from pinotpy.rpc.channel import QueryChannel, ServerAddress
from pinotpy.rpc.frame_channel import NoConnectionError

# A server whose frame port is shut (a firewall that knows the gRPC port only) is asked over gRPC for so long.
SHUT_S = 30.0


class PreferringChannel:
    """Used from one event loop.

    Args:
        open_grpc: makes the channel of gRPC, at the first call that needs it: its library takes 8 MB. None where it is
            not installed.
    """

    def __init__(self, frames: QueryChannel, open_grpc: Callable[[], QueryChannel] | None) -> None:
        self._frames = frames
        self._open_grpc = open_grpc
        self._grpc: QueryChannel | None = None
        self._shut_until: dict[tuple[str, int], float] = {}

    async def call(self, server: ServerAddress, request: bytes, timeout_s: float) -> bytes:
        """See QueryChannel.call."""
        if server.frame_port is None:
            return await self._over_grpc(server, request, timeout_s)
        key = (server.host, server.frame_port)
        if self._shut_until and key in self._shut_until:
            if asyncio.get_running_loop().time() < self._shut_until[key]:
                return await self._over_grpc(server, request, timeout_s)
            del self._shut_until[key]
        loop = asyncio.get_running_loop()
        start_s = loop.time()
        try:
            return await self._frames.call(server, request, timeout_s)
        except NoConnectionError:
            if self._open_grpc is None:
                raise
            # Nothing was sent: gRPC may still get through. If it does not either, the server is gone.
            answer = await self._over_grpc(server, request, timeout_s - (loop.time() - start_s))
        self._shut_until[key] = loop.time() + SHUT_S
        return answer

    async def close(self) -> None:
        await asyncio.gather(*(channel.close() for channel in (self._frames, self._grpc) if channel is not None))

    async def _over_grpc(self, server: ServerAddress, request: bytes, timeout_s: float) -> bytes:
        if self._grpc is None:
            if self._open_grpc is None:
                raise ServerUnreachableError(
                    f"{server} takes gRPC only, which this broker lacks: pip install 'pinotpy[grpc]' here, or set "
                    "pinot.server.frames.enabled=true there",
                    server=server.instance,
                )
            self._grpc = self._open_grpc()
        return await self._grpc.call(server, request, timeout_s)
