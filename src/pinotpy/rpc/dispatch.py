"""What a server does with the bytes of one call, whatever carried them: identity, version, capacity, then the handler.

Both the gRPC server and the in-memory channel call `Dispatcher.serve`, so that the twin behaves like the real one.
"""

from __future__ import annotations

import hmac
import logging
import secrets
import threading
from collections.abc import Callable

from pinotpy.errors import AccessDeniedError, DataError, OutOfCapacityError, PinotError, QueryTimeoutError
from pinotpy.rpc.faults import ServerFaultError
from pinotpy.rpc.wire import KIND_OFFSET, PROTOCOL_VERSION, RequestHead, RequestKind, decode_bound, decode_head, decode_request

# (request bytes, seconds left, peer) → answer bytes. Runs on a thread of its own call; may raise PinotError.
Handler = Callable[[bytes, float, str], bytes]
# (broker id, request id): end that query if it runs.
Canceller = Callable[[str, int], None]
# Whether the query of these request bytes takes less time than handing it to another thread and back.
IsQuick = Callable[[bytes], bool]

CONCURRENT_CALLS_MAX = 64

_BOUND = bytes([RequestKind.BOUND])

_log = logging.getLogger(__name__)


class Dispatcher:
    """Serves calls from many threads at once; a semaphore bounds the queries among them, cancels and pings always pass."""

    def __init__(
        self,
        handler: Handler,
        cancel: Canceller,
        *,
        cluster_token: str | None = None,
        concurrent_max: int = CONCURRENT_CALLS_MAX,
        is_quick: IsQuick | None = None,
    ) -> None:
        self._handler = handler
        self._cancel = cancel
        self._token = cluster_token.encode() if cluster_token else None
        self.concurrent_max = concurrent_max
        self._is_quick = is_quick
        self._slots = threading.BoundedSemaphore(concurrent_max)

    def serve(self, request: bytes, *, token: bytes | None, deadline_s: float, peer: str) -> bytes:
        """Answer one call. Raises PinotError, nothing else: what the handler did not foresee is logged with an id."""
        self.check_identity(token, peer)
        head = decode_head(request)
        match head.kind:
            case RequestKind.PING:
                return b"%d" % PROTOCOL_VERSION
            case RequestKind.CANCEL:
                self._cancel(decode_request(request, head).broker_id, head.request_id)
                return b""
            case RequestKind.QUERY | RequestKind.BOUND:
                return self._serve_query(request, head, deadline_s, peer)

    def disconnected(self, request: bytes) -> None:
        """The caller of `request` is gone before its answer: end the query."""
        try:
            if request[KIND_OFFSET : KIND_OFFSET + 1] == _BOUND:
                bound = decode_bound(request)
                self._cancel(bound.broker_id, bound.request_id)
                return
            decoded = decode_request(request)
        except DataError:
            return
        if decoded.kind is RequestKind.QUERY:
            self._cancel(decoded.broker_id, decoded.request_id)

    def is_quick(self, request: bytes) -> bool:
        """Whether `serve` may run on a thread that others wait for: cancels, pings, and queries that the server calls quick."""
        if len(request) > KIND_OFFSET and request[KIND_OFFSET] in (RequestKind.CANCEL, RequestKind.PING):
            return True
        return self._is_quick is not None and self._is_quick(request)

    def check_identity(self, token: bytes | None, peer: str) -> None:
        """Raise AccessDeniedError unless the caller is a daemon of our cluster."""
        if self._token is not None and not hmac.compare_digest(self._token, token or b""):
            _log.warning("call without cluster identity refused peer=%s", peer)
            raise AccessDeniedError("this server answers only to daemons of its cluster: wrong or no cluster token")

    def _serve_query(self, request: bytes, head: RequestHead, deadline_s: float, peer: str) -> bytes:
        deadline_s = min(deadline_s, head.timeout_ms / 1000)
        if deadline_s <= 0:
            raise QueryTimeoutError("the time of the query was up before it reached the server")
        if not self._slots.acquire(blocking=False):
            raise OutOfCapacityError(f"the server answers {self.concurrent_max} queries already: try again later")
        try:
            return self._handler(request, deadline_s, peer)
        except PinotError as problem:
            if problem.http_status >= 500:
                # The caller reads it without paths of this machine; the operator finds all of it here.
                _log.warning("call failed error=%s code=%d context=%s request_id=%d peer=%s", problem, problem.code, problem.context, head.request_id, peer)
            raise
        except Exception as problem:
            error_id = secrets.token_hex(6)
            _log.exception("call failed unexpectedly error_id=%s request_id=%d peer=%s", error_id, head.request_id, peer)
            raise ServerFaultError(f"internal error {error_id} of the server: its log has the details") from problem
        finally:
            self._slots.release()
