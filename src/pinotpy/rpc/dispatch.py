"""What a server does with the bytes of one call, in any transport: check identity and version, take a slot, run the
handler.

The gRPC server and the in-memory channel call `Dispatcher.serve`, which waits for a slot on the thread of the call; the
frame server, whose calls wait without a thread, uses `places` itself and then calls `answer`.
"""

from __future__ import annotations

import hmac
import logging
import secrets
import threading
import time
from collections.abc import Callable

from pinotpy.errors import (
    AccessDeniedError,
    DataError,
    OutOfCapacityError,
    PinotError,
    QueryCancelledError,
    QueryTimeoutError,
)
from pinotpy.rpc.faults import ServerFaultError
from pinotpy.rpc.places import Places, Visit
from pinotpy.rpc.wire import (
    KIND_OFFSET,
    PROTOCOL_VERSION,
    RequestHead,
    RequestKind,
    decode_bound,
    decode_head,
    decode_request,
)

# (request bytes, seconds left, peer) → answer bytes. Runs on a thread of its own call; may raise PinotError.
Handler = Callable[[bytes, float, str], bytes]
# (broker id, request id): end that query if it runs.
Canceller = Callable[[str, int], None]
# As Handler, of a query that takes less time than handing it to another thread and back; None, and nothing has
# happened: of any other.
QuickHandler = Callable[[bytes, float, str], bytes | None]
# Whether it is over so little that it may use the places for small ones; may raise DataError.
IsSmall = Callable[[bytes], bool]

CONCURRENT_CALLS_MAX = 64
# Calls of `serve` that wait for a place, each on its thread.
WAITING_THREADS_MAX = 32

_BOUND = bytes([RequestKind.BOUND])

_log = logging.getLogger(__name__)


class Dispatcher:
    """Serves calls from many threads at once; queries among them need a place, cancels and pings always pass."""

    def __init__(
        self,
        handler: Handler,
        cancel: Canceller,
        *,
        cluster_token: str | None = None,
        concurrent_max: int = CONCURRENT_CALLS_MAX,
        small_max: int = 0,
        waiting_max: int = 0,
        quickly: QuickHandler | None = None,
        is_small: IsSmall | None = None,
    ) -> None:
        self._handler = handler
        self._cancel = cancel
        self._token = cluster_token.encode() if cluster_token else None
        self._quickly = quickly
        self._is_small = is_small
        self.places = Places(concurrent_max, small_max=small_max, waiting_max=waiting_max)
        # Threads that `serve` may need for queries, those that wait among them.
        self.threads_max = concurrent_max + small_max + min(waiting_max, WAITING_THREADS_MAX)
        # Of calls of `serve` that wait: request → its visit. The lock guards it.
        self._waiting: dict[bytes, Visit] = {}
        self._lock = threading.Lock()

    def serve(self, request: bytes, *, token: bytes | None, deadline_s: float, peer: str) -> bytes:
        """Answer one call when it has a slot. Raises only PinotError: unexpected errors of the handler are logged with
        an id.
        """
        self.check_identity(token, peer)
        head = decode_head(request)
        if head.kind in (RequestKind.PING, RequestKind.CANCEL):
            return self.answer(request, token=token, deadline_s=deadline_s, peer=peer)
        start_s = time.monotonic()
        visit = self._wait_for_place(request, min(deadline_s, head.timeout_ms / 1000))
        try:
            return self.answer(request, token=token, deadline_s=deadline_s - (time.monotonic() - start_s), peer=peer)
        finally:
            self.places.leave(visit)

    def answer(self, request: bytes, *, token: bytes | None, deadline_s: float, peer: str) -> bytes:
        """Answer one call that already has its slot, if it needs one. Raises PinotError, as `serve`."""
        self.check_identity(token, peer)
        head = decode_head(request)
        match head.kind:
            case RequestKind.PING:
                return b"%d" % PROTOCOL_VERSION
            case RequestKind.CANCEL:
                self._cancel(decode_request(request, head).broker_id, head.request_id)
                return b""
            case RequestKind.QUERY | RequestKind.BOUND:
                answer = self._answer_query(self._handler, request, head, deadline_s, peer)
                assert answer is not None, "a handler answers"
                return answer

    def answer_quickly(self, request: bytes, *, token: bytes | None, deadline_s: float, peer: str) -> bytes | None:
        """Answer one call inline, on a thread that must not block: cancels, pings, and queries that the server's inline
        handler accepts; None for any other call, of which nothing was done. Raises PinotError, as `serve`.
        """
        if len(request) > KIND_OFFSET and request[KIND_OFFSET] in (RequestKind.CANCEL, RequestKind.PING):
            return self.answer(request, token=token, deadline_s=deadline_s, peer=peer)
        if self._quickly is None:
            return None
        self.check_identity(token, peer)
        return self._answer_query(self._quickly, request, decode_head(request), deadline_s, peer)

    def disconnected(self, request: bytes) -> None:
        """The caller of `request` has disconnected: end the query, or its wait for a slot."""
        with self._lock:
            visit = self._waiting.get(request)
        if visit is not None and self.places.give_up(visit):
            visit.start()  # wakes the thread that waits, which finds that it was given up
            return
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

    def is_small(self, request: bytes) -> bool:
        """Whether a query may use the places for small ones. Raises DataError for bytes that are no request."""
        return self._is_small is not None and self._is_small(request)

    def check_identity(self, token: bytes | None, peer: str) -> None:
        """Raise AccessDeniedError unless the caller is a daemon of our cluster."""
        if self._token is not None and not hmac.compare_digest(self._token, token or b""):
            _log.warning("call without cluster identity refused peer=%s", peer)
            raise AccessDeniedError("this server answers only to daemons of its cluster: wrong or no cluster token")

    def _wait_for_place(self, request: bytes, timeout_s: float) -> Visit:
        woken = threading.Event()
        visit = Visit(woken.set)
        with self._lock:
            self._waiting[request] = visit
        try:
            if self.places.take(visit, lambda: self.is_small(request)):
                return visit
            if len(self._waiting) > WAITING_THREADS_MAX and self.places.give_up(visit):
                raise OutOfCapacityError(f"{WAITING_THREADS_MAX} calls wait for a place already: try again later")
            woken.wait(max(timeout_s, 0.0))
            if self.places.give_up(visit):
                raise waited_too_long()
        finally:
            with self._lock:
                self._waiting.pop(request, None)
        if not visit.has_place:
            raise QueryCancelledError("the caller hung up before its query had a place")
        return visit

    def _answer_query(
        self, handler: QuickHandler, request: bytes, head: RequestHead, deadline_s: float, peer: str
    ) -> bytes | None:
        deadline_s = min(deadline_s, head.timeout_ms / 1000)
        if deadline_s <= 0:
            raise QueryTimeoutError("the time of the query was up before it reached the server: lower the load")
        try:
            return handler(request, deadline_s, peer)
        except PinotError as problem:
            if problem.http_status >= 500:
                # The caller reads it without paths of this machine; the operator finds all of it here.
                _log.warning(
                    "call failed error=%s code=%d context=%s request_id=%d peer=%s",
                    problem,
                    problem.code,
                    problem.context,
                    head.request_id,
                    peer,
                )
            raise
        except Exception as problem:
            error_id = secrets.token_hex(6)
            _log.exception(
                "call failed unexpectedly error_id=%s request_id=%d peer=%s", error_id, head.request_id, peer
            )
            raise ServerFaultError(f"internal error {error_id} of the server: its log has the details") from problem


def waited_too_long() -> QueryTimeoutError:
    return QueryTimeoutError("the query waited on the server for a place until its time was up: lower the load")
