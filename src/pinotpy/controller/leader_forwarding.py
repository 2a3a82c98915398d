"""Mutating requests belong to the lead controller: any other controller passes them on, once, with an idempotency key.
What the leader alone knows is asked of it as well, and answered without where nobody leads.

An ASGI layer around the controller's app. A request is checked here as it would be there (who asks, their rights, its
size) before its body is read. It keeps its credentials, and the leader is told whose it is: it decides, counts failed
logins and writes the audit trail by who asked. Uploads and queries are not passed on (upload bytes land where they
arrive, queries go to brokers).
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import random
import uuid
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Protocol
from urllib.parse import parse_qs

import httpx

from pinotpy.cluster.completion_messages import MessageKind
from pinotpy.controller.asking_leader import ask_leader
from pinotpy.controller.idempotency import IdempotentAnswers, KeptAnswer
from pinotpy.errors import NotLeaderError, PayloadTooLargeError, PinotError, UserError
from pinotpy.service.foreign_pages import refuse_foreign, refuse_loads, without_page
from pinotpy.service.forwarded_peers import FORWARDED_FOR, KEY_HEADER, ForwardedPeers
from pinotpy.service.http_errors import error_answer

LOG = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

FORWARDED_BY = b"pinotpy-forwarded-by"
BODY_BYTES_MAX = 16 << 20  # schemas, configs, lists of segment names; uploads do not come this way
ATTEMPTS_MAX = 4
PAUSE_S = 0.25  # times the attempt, with jitter: a new leader is there within a few of these
FIND_LEADER_S = 4.5  # in all, so that clients hear within 5 s that nobody leads

READING = frozenset({"GET", "HEAD", "OPTIONS"})
LOCAL_PATHS = frozenset(
    {"/sql", "/pql", "/segments", "/v2/segments", "/schemas/validate", "/tables/validate", "/tableConfigs/validate"}
    # Of segment completion: files stay where they arrive, and servers find the leader themselves.
    | {f"/{kind.value}" for kind in MessageKind}
)
HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization te trailer transfer-encoding upgrade host "
    b"content-length".split(),
)


class Leadership(Protocol):
    """Who leads, as this controller knows it now."""

    def is_leader(self) -> bool: ...

    def leader_url(self) -> str | None:
        """Base URL of the lead controller's REST, None while there is none."""
        ...


def changes_state(scope: Scope) -> bool:
    """Whether a request has to be decided by the leader."""
    path = scope["path"].rstrip("/") or "/"
    if path in LOCAL_PATHS:
        return False
    if scope["method"] not in READING:
        return True
    # GET /tables/{t}?state=disable is how 0.x clients switch a table off.
    is_one_table = path.startswith("/tables/") and path.count("/") == 2
    return is_one_table and scope["method"] == "GET" and b"state" in parse_qs(scope.get("query_string", b""))


def is_known_to_leader(scope: Scope) -> bool:
    """Whether the leader can answer a reading request better than others: it keeps what streams failed with."""
    return scope["method"] in READING and scope["path"].startswith("/debug/tables/")


class Admitted(Protocol):
    """A request whose head was checked."""

    @property
    def peer(self) -> str:
        """The address of who sent it."""
        ...


class LeaderForwarding:
    """The layer. Shared by all requests of one event loop.

    Args:
        admit: checks the head of a request, raises PinotError; None: the app has no route for it.
        forwarded: tells the leader who asked; None: this cluster has no token to prove it with.
    """

    def __init__(
        self,
        app: App,
        leadership: Leadership,
        answers: IdempotentAnswers,
        *,
        admit: Callable[[Scope], Awaitable[Admitted | None]],
        forwarded: ForwardedPeers | None,
        instance: Callable[[], str],
        client: httpx.AsyncClient,
        pause_s: float = PAUSE_S,
    ) -> None:
        self._app, self._leadership, self._answers = app, leadership, answers
        self._admit, self._forwarded = admit, forwarded
        self._instance, self._client, self._pause_s = instance, client, pause_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not (changes_state(scope) or is_known_to_leader(scope)):
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        is_forwarded, leads = FORWARDED_BY in headers, self._leadership.is_leader()
        only_reads = is_known_to_leader(scope)
        if (leads and (only_reads or KEY_HEADER not in headers)) or (only_reads and is_forwarded):
            await self._app(scope, receive, send)
            return
        try:
            if not leads:
                # The leader cannot tell: for it the host is its own.
                (refuse_loads if scope["method"] in READING else refuse_foreign)(scope["headers"])
                if is_forwarded:
                    raise NotLeaderError(
                        "this controller does not lead any more: ask the lead controller",
                        forwarded_by=headers[FORWARDED_BY].decode("latin-1"),
                    )
            admitted = await self._admit(scope)
            if admitted is None:
                await self._app(scope, receive, send)  # which says what there is
                return
            if leads:
                await self._answer_once(scope, receive, send, headers[KEY_HEADER])
                return
            body = b"" if only_reads else await _read_body(receive)
            answer = await self._forward(scope, body, admitted.peer)
        except NotLeaderError as error:
            if only_reads:
                LOG.info("answered without the leader path=%s", scope["path"])
                await self._app(scope, receive, send)
                return
            answer = _error_answer(error)
        except PinotError as error:
            answer = _error_answer(error)
        await _send_answer(send, answer)

    async def _answer_once(self, scope: Scope, receive: Receive, send: Send, key: bytes) -> None:
        body = await _read_body(receive)
        fingerprint = _fingerprint(scope, body)
        answer = await self._answers.earlier(key, fingerprint)
        if answer is None:
            collected: KeptAnswer | None = None
            try:
                collected = await _collect(self._app, scope, body)
            finally:
                self._answers.finish(key, collected)
            answer = collected
        await _send_answer(send, answer)

    async def _forward(self, scope: Scope, body: bytes, peer: str) -> KeptAnswer:
        left_out = {*HOP_BY_HOP, FORWARDED_FOR}
        headers = [(name, value) for name, value in without_page(scope["headers"]) if name not in left_out]
        headers.append((FORWARDED_BY, self._instance().encode()))
        key = dict(headers).get(KEY_HEADER)
        if key is None:
            key = uuid.uuid4().hex.encode()
            headers.append((KEY_HEADER, key))
        if self._forwarded is not None:
            headers.append(self._forwarded.header(peer, key))
        path = scope.get("raw_path") or scope["path"].encode()
        query = scope.get("query_string", b"")
        target = (path + b"?" + query if query else path).decode("latin-1")
        reason, until_s = "no controller leads", asyncio.get_running_loop().time() + FIND_LEADER_S
        for attempt in range(ATTEMPTS_MAX):
            if attempt:
                await asyncio.sleep(self._pause_s * attempt * random.uniform(0.5, 1.5))
            left_s = until_s - asyncio.get_running_loop().time()
            if left_s <= 0:
                break
            try:
                base = await asyncio.wait_for(asyncio.to_thread(self._leadership.leader_url), left_s)
            except TimeoutError:
                reason = "ZooKeeper does not say in time who leads"
                break
            if base is None:
                continue
            try:
                response = await ask_leader(self._client, scope["method"], base, target, headers=headers, content=body)
            except httpx.HTTPError as error:
                reason = f"the lead controller at {base} cannot be reached ({type(error).__name__})"
                LOG.warning(
                    "request to the lead controller failed leader=%s attempt=%d error=%s",
                    base,
                    attempt,
                    type(error).__name__,
                )
                continue
            if response.status_code == NotLeaderError.http_status and FORWARDED_BY in dict(response.headers.raw):
                reason = f"the controller at {base} does not lead any more"
                continue
            forwarded_headers = tuple(
                (name.lower(), value)
                for name, value in response.headers.raw
                if name.lower() not in HOP_BY_HOP | {b"content-encoding"}
            )
            return KeptAnswer(response.status_code, forwarded_headers, response.content)
        raise NotLeaderError(f"{reason}; nothing is known to be changed: try again")


def _fingerprint(scope: Scope, body: bytes) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    authorization = dict(scope["headers"]).get(b"authorization", b"")
    for piece in (
        scope["method"].encode(),
        scope["path"].encode(),
        scope.get("query_string", b""),
        authorization,
        body,
    ):
        digest.update(len(piece).to_bytes(8, "little"))
        digest.update(piece)
    return digest.digest()


async def _read_body(receive: Receive) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise UserError("the client left before its body was whole")
        body += message.get("body", b"")
        if len(body) > BODY_BYTES_MAX:
            raise PayloadTooLargeError(f"the body is longer than {BODY_BYTES_MAX} bytes", limit_bytes=BODY_BYTES_MAX)
        if not message.get("more_body", False):
            return bytes(body)


async def _collect(app: App, scope: Scope, body: bytes) -> KeptAnswer:
    """Run the app on a body that is read already and keep its whole answer."""
    sent = False
    status, parts = 500, bytearray()
    headers: tuple[tuple[bytes, bytes], ...] = ()

    async def receive() -> MutableMapping[str, Any]:
        nonlocal sent
        if not sent:
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}
        await asyncio.Event().wait()  # the answer does not depend on the client staying
        raise AssertionError("never reached")

    async def send(message: MutableMapping[str, Any]) -> None:
        nonlocal status, headers
        if message["type"] == "http.response.start":
            status, headers = message["status"], tuple(message.get("headers", ()))
        elif message["type"] == "http.response.body":
            parts.extend(message.get("body", b""))

    await app(scope, receive, send)
    return KeptAnswer(status, headers, bytes(parts))


def _error_answer(error: PinotError) -> KeptAnswer:
    status, body, headers = error_answer(error)
    mark = ((FORWARDED_BY, b"not-leader"),) if isinstance(error, NotLeaderError) else ()
    return KeptAnswer(status, ((b"content-type", b"application/json"), *headers, *mark), body)


async def _send_answer(send: Send, answer: KeptAnswer) -> None:
    headers = [pair for pair in answer.headers if pair[0] != b"content-length"] + [
        (b"content-length", str(len(answer.body)).encode())
    ]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})
