"""PreferringChannel: frames to servers that advertise them, gRPC to all others, and where no frames get through."""

from __future__ import annotations

import asyncio

from pinotpy.rpc.channel import QueryChannel, ServerAddress
from pinotpy.rpc.frame_channel import NoConnectionError

# A server whose frame port is shut (a firewall that knows the gRPC port only) is asked over gRPC for so long.
SHUT_S = 30.0


class PreferringChannel:
    """Used from one event loop."""

    def __init__(self, frames: QueryChannel, grpc: QueryChannel) -> None:
        self._frames = frames
        self._grpc = grpc
        self._shut_until: dict[tuple[str, int], float] = {}

    async def call(self, server: ServerAddress, request: bytes, timeout_s: float) -> bytes:
        """See QueryChannel.call."""
        if server.frame_port is None:
            return await self._grpc.call(server, request, timeout_s)
        key = (server.host, server.frame_port)
        if self._shut_until and key in self._shut_until:
            if asyncio.get_running_loop().time() < self._shut_until[key]:
                return await self._grpc.call(server, request, timeout_s)
            del self._shut_until[key]
        loop = asyncio.get_running_loop()
        start_s = loop.time()
        try:
            return await self._frames.call(server, request, timeout_s)
        except NoConnectionError:
            # Nothing was sent: gRPC may still get through. If it does not either, the server is gone.
            answer = await self._grpc.call(server, request, timeout_s - (loop.time() - start_s))
        self._shut_until[key] = loop.time() + SHUT_S
        return answer

    async def close(self) -> None:
        await asyncio.gather(self._frames.close(), self._grpc.close())
