"""Questions to servers over their admin REST, many at once, each with a deadline."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx
import orjson

from pinotpy.controller.call_board import ServerLeftAloneError
from pinotpy.controller.context import Controller

LOG = logging.getLogger(__name__)

# Of one server, and of all together: below what clients wait for an answer.
SERVER_TIMEOUT_S = 4.0
ALL_SERVERS_TIMEOUT_S = 4.5
ANSWER_BYTES_MAX = 64 << 20


@dataclass(frozen=True, slots=True)
class ServerAnswer:
    """What a server said: a document, nothing to say about it (404), or why there is no answer.

    is_silent: it could not be reached, or did not answer in time.
    """

    document: dict[str, Any] | None = None
    failure: str = ""
    is_silent: bool = False


def ask_servers(
    controller: Controller, servers: Iterable[str], path: str, *, deadline_s: float = ALL_SERVERS_TIMEOUT_S
) -> dict[str, ServerAnswer]:
    """Server → its answer to GET `path`, in the order of `servers`; those that did not answer before may not be asked.

    deadline_s: of all together; a server that has not answered by then counts as one that does not.
    """
    clock = controller.clock
    end_ns = clock.monotonic_ns() + int(deadline_s * 1e9)
    calls: dict[str, Future[ServerAnswer] | ServerAnswer] = {}
    for server in servers:
        # Not until the deadline of who asks: that others wait for less long does not make a server a silent one.
        call = partial(_ask, controller, server, path, SERVER_TIMEOUT_S)
        try:
            calls[server] = controller.calls.ask(server, path, call, is_silence=_is_silent)
        except ServerLeftAloneError as reason:
            calls[server] = ServerAnswer(failure=str(reason))
    answers = {}
    for server, asked in calls.items():
        if isinstance(asked, ServerAnswer):
            answers[server] = asked
            continue
        try:
            answers[server] = asked.result(max((end_ns - clock.monotonic_ns()) / 1e9, 0))
        except TimeoutError:
            answers[server] = ServerAnswer(failure=f"no answer within the {deadline_s:g} s that there are")
    return answers


def _is_silent(answer: ServerAnswer) -> bool:
    return answer.is_silent


def _ask(controller: Controller, server: str, path: str, timeout_s: float) -> ServerAnswer:
    config = controller.catalog.instance(server)
    port = config.port_of("adminPort") if config is not None else None
    if config is None or port is None:
        return ServerAnswer(failure="the cluster knows no admin port of it")
    url = f"{controller.scheme}://{config.host}:{port}{path}"
    try:
        status, content = _get(controller, url, timeout_s)
        if status == httpx.codes.NOT_FOUND:
            return ServerAnswer()
        if status >= httpx.codes.BAD_REQUEST:
            return ServerAnswer(failure=f"it answered with status {status}")
        document = orjson.loads(content)
    except (httpx.HTTPError, orjson.JSONDecodeError) as error:
        LOG.warning("server does not answer server=%s path=%s error=%s", server, path, type(error).__name__)
        failure = f"{type(error).__name__}: {error}"[:300]
        return ServerAnswer(failure=failure, is_silent=isinstance(error, httpx.TransportError))
    if not isinstance(document, dict):
        return ServerAnswer(failure=f"expected a JSON object, found {type(document).__name__}")
    return ServerAnswer(document)


def _get(controller: Controller, url: str, timeout_s: float) -> tuple[int, bytes]:
    """Status and body. Raises httpx.HTTPError, also for a body that does not end in time or is too long."""
    end_ns = controller.clock.monotonic_ns() + int(timeout_s * 1e9)
    body = bytearray()
    with controller.peers.stream("GET", url, timeout=timeout_s) as answer:
        for piece in answer.iter_bytes():
            body += piece
            if controller.clock.monotonic_ns() > end_ns or len(body) > ANSWER_BYTES_MAX:
                raise httpx.ReadTimeout(f"{len(body)} bytes came in {timeout_s:g} s, and not the whole answer")
    return answer.status_code, bytes(body)
