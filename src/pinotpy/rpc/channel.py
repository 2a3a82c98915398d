"""The QueryChannel interface: how a broker calls a server.

`frame_channel.FrameChannel` is the fast transport, `grpc_channel.GrpcChannel` the other one, an extra,
`memory.MemoryChannel` their twin; `preferring_channel.PreferringChannel` chooses by what a server advertises.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

ANSWER_MAX_BYTES = 512 << 20
IN_FLIGHT_MAX = 256
CHANNELS_MAX = 1024


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """A server instance and its query port. frame_port: its port for frames, None if it has none. features: the bits of
    wire.py that it advertises.
    """

    instance: str
    host: str
    port: int
    frame_port: int | None = None
    features: int = 0

    def __str__(self) -> str:
        return f"{self.instance} at {f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


class QueryChannel(Protocol):
    """Calls to servers, from one event loop."""

    async def call(self, server: ServerAddress, request: bytes, timeout_s: float) -> bytes:
        """Send `request` (see wire.py) and return the answer's bytes.

        Raises ServerUnreachableError (425: refused or broken connection, may be tried on another replica at once),
        ServerNotRespondingError (427: no answer within `timeout_s`), AccessDeniedError (no cluster identity),
        OutOfCapacityError (211: too many calls), or whatever PinotError the server reported. A cancelled task cancels
        the call, and the server ends the query.
        """
        ...

    async def close(self) -> None:
        """Close all connections. Calls in flight fail with ServerUnreachableError."""
        ...
