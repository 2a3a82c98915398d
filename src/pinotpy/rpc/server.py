"""The gRPC server of a query port: bytes in, bytes out, a bounded pool of threads that decode and wait.

A port belongs to one server: with gRPC's default, two processes may silently share a port, and a stale one gets part of
the calls. `so_reuseport=0` makes the second fail.
"""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from pinotpy.errors import AccessDeniedError, OutOfCapacityError, PinotError, QueryTimeoutError
from pinotpy.rpc.dispatch import CONCURRENT_CALLS_MAX, Canceller, Dispatcher, Handler, IsSmall, QuickHandler
from pinotpy.rpc.faults import encode_fault
from pinotpy.rpc.grpc_channel import METADATA_MAX_BYTES, METHOD
from pinotpy.rpc.listening import STOP_TIMEOUT_S, PortUnavailableError
from pinotpy.rpc.security import CLUSTER_TOKEN_KEY, FAULT_KEY, RpcSecurity
from pinotpy.rpc.wire import REQUEST_MAX_BYTES

# Threads that cancels and pings find free while all query threads wait.
CONTROL_THREADS = 2
# A call without a deadline of its own gets this one.
DEADLINE_MAX_S = 3600.0

_log = logging.getLogger(__name__)


class RpcServer:
    """Serves `handler` on a port. `start` and `stop` are called from one thread."""

    def __init__(
        self,
        handler: Handler,
        cancel: Canceller,
        *,
        host: str,
        port: int,
        security: RpcSecurity | None = None,
        concurrent_max: int = CONCURRENT_CALLS_MAX,
        small_max: int = 0,
        waiting_max: int = 0,
        quickly: QuickHandler | None = None,
        is_small: IsSmall | None = None,
    ) -> None:
        self.host, self.port = host, port
        self._security = security or RpcSecurity()
        # What listens for frames shares it.
        self.dispatcher = Dispatcher(
            handler,
            cancel,
            cluster_token=self._security.cluster_token,
            concurrent_max=concurrent_max,
            small_max=small_max,
            waiting_max=waiting_max,
            quickly=quickly,
            is_small=is_small,
        )
        threads = self.dispatcher.threads_max + CONTROL_THREADS
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="rpc")
        self._server = grpc.server(
            self._pool,
            handlers=(_Handlers(self.dispatcher),),
            options=[
                ("grpc.so_reuseport", 0),
                ("grpc.max_receive_message_length", REQUEST_MAX_BYTES),
                ("grpc.max_send_message_length", -1),
                ("grpc.max_metadata_size", METADATA_MAX_BYTES),
                ("grpc.max_concurrent_streams", 4 * threads),
                # Brokers ping every 10 s on quiet connections; gRPC's default takes that for abuse.
                ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
                ("grpc.keepalive_permit_without_calls", 1),
            ],
            # Calls beyond the pool wait in a queue inside gRPC; beyond that they are refused at once.
            maximum_concurrent_rpcs=2 * threads,
        )

    def start(self) -> int:
        """Listen and serve; return the port. Raises PortUnavailableError if the port is taken or TLS files are bad."""
        address = f"{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"
        try:
            if self._security.certificate is not None:
                self.port = self._server.add_secure_port(address, _server_credentials(self._security))
            else:
                self.port = self._server.add_insecure_port(address)
        except (RuntimeError, ValueError) as problem:
            self._pool.shutdown(wait=False)
            raise PortUnavailableError(
                f"cannot listen for queries on {address}: the port is in use or not ours; stop what listens there or "
                "choose another (0 picks a free one)"
            ) from problem
        if self.port == 0:
            raise PortUnavailableError(f"cannot listen for queries on {address}: the port is in use or not ours")
        self._server.start()
        return self.port

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Accept no new calls, let running ones finish within `timeout_s`, then abort them."""
        if not self._server.stop(timeout_s).wait(timeout_s + 1.0):
            _log.error("gRPC server did not stop in time port=%d", self.port)
        self._pool.shutdown(wait=False, cancel_futures=True)


class _Handlers(grpc.GenericRpcHandler):  # type: ignore[misc]
    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._method = grpc.unary_unary_rpc_method_handler(self._call)

    def service(self, details: Any) -> Any:
        return self._method if details.method == METHOD else None

    def _call(self, request: bytes, context: Any) -> bytes:
        answered = False

        def ended() -> None:
            if not answered:
                self._dispatcher.disconnected(request)

        remaining_s = context.time_remaining()
        token = next((value for key, value in context.invocation_metadata() if key == CLUSTER_TOKEN_KEY), None)
        try:
            if not context.add_callback(ended):
                return b""  # the caller is gone already
            deadline_s = DEADLINE_MAX_S if remaining_s is None else min(remaining_s, DEADLINE_MAX_S)
            return self._dispatcher.serve(
                request, token=token.encode() if token else None, deadline_s=deadline_s, peer=context.peer()
            )
        except PinotError as problem:
            context.set_trailing_metadata(((FAULT_KEY, encode_fault(problem)),))
            context.set_code(_status(problem))
            context.set_details(f"code {problem.code}")
            return b""
        finally:
            answered = True


def _status(problem: PinotError) -> Any:
    match problem:
        case OutOfCapacityError():
            return grpc.StatusCode.RESOURCE_EXHAUSTED
        case AccessDeniedError():
            return grpc.StatusCode.PERMISSION_DENIED
        case QueryTimeoutError():
            return grpc.StatusCode.DEADLINE_EXCEEDED
    return grpc.StatusCode.ABORTED


def _server_credentials(security: RpcSecurity) -> Any:
    if security.key is None:
        raise ValueError("a certificate without its key")
    return grpc.ssl_server_credentials(
        ((security.key, security.certificate),), security.ca, security.client_certificates
    )
