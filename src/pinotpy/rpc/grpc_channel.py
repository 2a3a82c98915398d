"""GrpcChannel: calls over grpc.aio with bytes in and bytes out, one channel a server.

The options are for correctness (reference measurements: none of the others changed speed): a server that comes back is
found within half a second, one that vanished without a word is noticed by keepalive, and channels share no connections.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio

from pinotpy.errors import (
    AccessDeniedError,
    DataError,
    OutOfCapacityError,
    PinotError,
    ServerNotRespondingError,
    ServerUnreachableError,
)
from pinotpy.rpc.channel import ANSWER_MAX_BYTES, CHANNELS_MAX, IN_FLIGHT_MAX, ServerAddress
from pinotpy.rpc.faults import ServerFaultError, decode_fault
from pinotpy.rpc.security import CLUSTER_TOKEN_KEY, FAULT_KEY, RpcSecurity

METHOD = "/pinotpy.QueryServer/Call"
METADATA_MAX_BYTES = 16 << 10
CLOSE_GRACE_S = 1.0


def channel_options(answer_max_bytes: int) -> list[tuple[str, int | str]]:
    """Options of a client channel."""
    return [
        ("grpc.max_receive_message_length", answer_max_bytes),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_metadata_size", METADATA_MAX_BYTES),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.enable_retries", 0),
        ("grpc.enable_http_proxy", 0),
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 500),
        ("grpc.keepalive_time_ms", 10_000),
        ("grpc.keepalive_timeout_ms", 2_000),
        ("grpc.http2.max_pings_without_data", 0),
    ]


@dataclass(slots=True)
class _Connection:
    channel: Any
    method: Any
    in_flight: int = 0


class GrpcChannel:
    """Used from one event loop, the one that runs when the first call is made."""

    def __init__(
        self,
        security: RpcSecurity | None = None,
        *,
        in_flight_max: int = IN_FLIGHT_MAX,
        answer_max_bytes: int = ANSWER_MAX_BYTES,
    ) -> None:
        security = security or RpcSecurity()
        self._in_flight_max = in_flight_max
        self._options = channel_options(answer_max_bytes)
        if security.server_name is not None:
            self._options.append(("grpc.ssl_target_name_override", security.server_name))
        self._metadata = ((CLUSTER_TOKEN_KEY, security.cluster_token),) if security.cluster_token else None
        self._credentials = (
            grpc.ssl_channel_credentials(security.ca, security.key, security.certificate)
            if security.is_encrypted
            else None
        )
        # Least recently used first: instances that left the cluster fall out.
        self._connections: OrderedDict[tuple[str, int], _Connection] = OrderedDict()
        self._closed = False

    async def call(self, server: ServerAddress, request: bytes, timeout_s: float) -> bytes:
        connection = await self._connection(server)
        if connection.in_flight >= self._in_flight_max:
            raise OutOfCapacityError(
                f"{self._in_flight_max} calls to {server} are in flight already", server=server.instance
            )
        connection.in_flight += 1
        try:
            answer: bytes = await connection.method(request, timeout=max(timeout_s, 0.0), metadata=self._metadata)
            return answer
        except grpc.aio.AioRpcError as problem:
            raise _translate(problem, server, timeout_s) from None
        except grpc.aio.UsageError as problem:
            raise ServerUnreachableError(f"connection to {server} was closed", server=server.instance) from problem
        except asyncio.CancelledError:
            # Our caller's wish, or the channel was closed below this call: only the first may go on as a cancellation.
            task = asyncio.current_task()
            if self._closed and (task is None or not task.cancelling()):
                raise ServerUnreachableError(f"connection to {server} was closed", server=server.instance) from None
            raise
        finally:
            connection.in_flight -= 1

    async def close(self) -> None:
        self._closed = True
        connections = list(self._connections.values())
        self._connections.clear()
        await asyncio.gather(*(connection.channel.close(CLOSE_GRACE_S) for connection in connections))

    async def _connection(self, server: ServerAddress) -> _Connection:
        if self._closed:
            raise ServerUnreachableError(f"connection to {server} was closed", server=server.instance)
        key = (server.host, server.port)
        connection = self._connections.get(key)
        if connection is None:
            connection = self._connections[key] = self._open(server)
            if len(self._connections) > CHANNELS_MAX:
                idle = next(
                    (old for old, other in self._connections.items() if other.in_flight == 0 and old != key), None
                )
                if idle is not None:
                    await self._connections.pop(idle).channel.close(None)
        else:
            self._connections.move_to_end(key)
        return connection

    def _open(self, server: ServerAddress) -> _Connection:
        target = f"{f'[{server.host}]' if ':' in server.host else server.host}:{server.port}"
        if self._credentials is None:
            channel = grpc.aio.insecure_channel(target, options=self._options)
        else:
            channel = grpc.aio.secure_channel(target, self._credentials, options=self._options)
        # No serializers: bytes go as they are, at half the cost of a protobuf envelope (200 KB answers).
        return _Connection(channel, channel.unary_unary(METHOD))


def _translate(problem: Any, server: ServerAddress, timeout_s: float) -> PinotError:
    code, detail = problem.code(), (problem.details() or "")[:300]
    for key, value in problem.trailing_metadata() or ():
        if key == FAULT_KEY:
            return decode_fault(value, server.instance)
    match code:
        case grpc.StatusCode.UNAVAILABLE:
            return ServerUnreachableError(f"connection to {server} refused or broken: {detail}", server=server.instance)
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return ServerNotRespondingError(
                f"{server} did not answer within {timeout_s * 1000:.0f} ms", server=server.instance
            )
        case grpc.StatusCode.CANCELLED:
            return ServerUnreachableError(f"the call to {server} was broken off", server=server.instance)
        case grpc.StatusCode.RESOURCE_EXHAUSTED if "larger than max" in detail:
            return DataError(
                f"a message between broker and {server} is over its limit: {detail}", server=server.instance
            )
        case grpc.StatusCode.RESOURCE_EXHAUSTED:
            return OutOfCapacityError(f"{server} takes no more calls: {detail}", server=server.instance)
        case grpc.StatusCode.UNAUTHENTICATED | grpc.StatusCode.PERMISSION_DENIED:
            return AccessDeniedError(f"{server} refuses us: {detail}", server=server.instance)
    return ServerFaultError(f"{server} failed: {code.name} {detail}", server=server.instance)
