"""Questions to servers over their admin REST, many at once, each with a deadline."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import httpx
import orjson

from pinotpy.controller.context import Controller

LOG = logging.getLogger(__name__)

SERVER_TIMEOUT_S = 10.0
SERVERS_AT_ONCE_MAX = 16


@dataclass(frozen=True, slots=True)
class ServerAnswer:
    """What a server said: a document, nothing to say about it (404), or why there is no answer."""

    document: dict[str, Any] | None = None
    failure: str = ""


def ask_servers(
    controller: Controller, servers: Iterable[str], path: str, *, deadline_s: float | None = None
) -> dict[str, ServerAnswer]:
    """Server → its answer to GET `path`, in the order of `servers`.

    deadline_s: of all together; a server whose turn comes later counts as one that does not answer. Without it each has
        SERVER_TIMEOUT_S.
    """
    asked = list(servers)
    if not asked:
        return {}
    clock = controller.clock
    end_ns = None if deadline_s is None else clock.monotonic_ns() + int(deadline_s * 1e9)

    def ask(server: str) -> ServerAnswer:
        timeout_s = SERVER_TIMEOUT_S
        if end_ns is not None:
            timeout_s = min(timeout_s, (end_ns - clock.monotonic_ns()) / 1e9)
        if timeout_s <= 0:
            return ServerAnswer(failure=f"it was not asked: others took the {deadline_s:g} s that there are")
        return _ask(controller, server, path, timeout_s)

    with ThreadPoolExecutor(min(SERVERS_AT_ONCE_MAX, len(asked)), thread_name_prefix="ask-servers") as pool:
        return dict(zip(asked, pool.map(ask, asked), strict=True))


def _ask(controller: Controller, server: str, path: str, timeout_s: float) -> ServerAnswer:
    config = controller.catalog.instance(server)
    port = config.port_of("adminPort") if config is not None else None
    if config is None or port is None:
        return ServerAnswer(failure="the cluster knows no admin port of it")
    try:
        answer = controller.peers.get(f"{controller.scheme}://{config.host}:{port}{path}", timeout=timeout_s)
        if answer.status_code == httpx.codes.NOT_FOUND:
            return ServerAnswer()
        answer.raise_for_status()
        document = orjson.loads(answer.content)
    except (httpx.HTTPError, orjson.JSONDecodeError) as error:
        LOG.warning("server does not answer server=%s path=%s error=%s", server, path, type(error).__name__)
        return ServerAnswer(failure=f"{type(error).__name__}: {error}"[:300])
    if not isinstance(document, dict):
        return ServerAnswer(failure=f"expected a JSON object, found {type(document).__name__}")
    return ServerAnswer(document)
