"""MemoryChannel: the in-memory twin of the gRPC channel, with faults to inject: for tests and simulations."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from pinotpy.errors import PinotError, ServerNotRespondingError, ServerUnreachableError
from pinotpy.rpc.channel import ServerAddress
from pinotpy.rpc.dispatch import Dispatcher
from pinotpy.rpc.faults import decode_fault, encode_fault


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to calls. `refuse`: no connection; `lose_reply`: the server does its work, then the connection
    breaks; `silent`: no answer ever; `error`: the server reports it. `times`: so many calls, then all is well."""

    refuse: bool = False
    lose_reply: bool = False
    silent: bool = False
    error: PinotError | None = None
    times: int = 1 << 30


class MemoryChannel:
    """Calls dispatchers of this process; each runs on a thread of its own, as on a real server. Used from one event
    loop.
    """

    def __init__(self, *, cluster_token: str | None = None) -> None:
        self._token = cluster_token.encode() if cluster_token else None
        self._servers: dict[str, Dispatcher] = {}
        self._faults: dict[str, Fault] = {}
        self._closed = False

    def add_server(self, server: ServerAddress, dispatcher: Dispatcher) -> None:
        """Let `server` be answered by `dispatcher`."""
        self._servers[server.instance] = dispatcher

    def remove_server(self, server: ServerAddress) -> None:
        """From now on its connections are refused."""
        self._servers.pop(server.instance, None)

    def inject(self, server: ServerAddress, fault: Fault | None) -> None:
        """Make the next calls to `server` meet `fault`; None = all is well again."""
        if fault is None:
            self._faults.pop(server.instance, None)
        else:
            self._faults[server.instance] = fault

    async def call(self, server: ServerAddress, request: bytes, timeout_s: float) -> bytes:
        fault = self._next_fault(server)
        dispatcher = self._servers.get(server.instance)
        if self._closed or dispatcher is None or fault.refuse:
            raise ServerUnreachableError(f"connection to {server} refused", server=server.instance)
        try:
            async with asyncio.timeout(timeout_s):
                if fault.silent:
                    await asyncio.Event().wait()
                if fault.error is not None:
                    raise decode_fault(encode_fault(fault.error), server.instance)
                answer = await self._serve(dispatcher, server, request, timeout_s)
        except TimeoutError:
            raise ServerNotRespondingError(
                f"{server} did not answer within {timeout_s * 1000:.0f} ms", server=server.instance
            ) from None
        if fault.lose_reply:
            raise ServerUnreachableError(f"connection to {server} broke before its answer", server=server.instance)
        return answer

    async def close(self) -> None:
        self._closed = True

    async def _serve(self, dispatcher: Dispatcher, server: ServerAddress, request: bytes, timeout_s: float) -> bytes:
        work = asyncio.ensure_future(
            asyncio.to_thread(dispatcher.serve, request, token=self._token, deadline_s=timeout_s, peer="memory")
        )
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            # The caller is gone (or its time is up): the server learns of it, as from a broken stream.
            work.add_done_callback(lambda done: done.cancelled() or done.exception())
            dispatcher.disconnected(request)
            raise
        except PinotError as problem:
            # Through the bytes and back, so that nothing crosses that a wire would not carry.
            raise decode_fault(encode_fault(problem), server.instance) from None

    def _next_fault(self, server: ServerAddress) -> Fault:
        fault = self._faults.get(server.instance)
        if fault is None:
            return Fault()
        if fault.times <= 1:
            del self._faults[server.instance]
        else:
            self._faults[server.instance] = Fault(
                fault.refuse, fault.lose_reply, fault.silent, fault.error, fault.times - 1
            )
        return fault
