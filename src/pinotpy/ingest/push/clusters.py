"""Which controllers belong to one cluster, and calls to a cluster of which one controller may be down.

A job names controllers, not clusters. Those that see the same instances, two or more controllers among them, are of one
cluster: a segment goes to it once, by whichever of them answers. Every other controller is a cluster of its own, and
gets the push, too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar
from urllib.parse import urlsplit

from pinotpy.client.controller import ControllerClient
from pinotpy.client.http_calls import Access
from pinotpy.errors import RemoteError, ServerUnreachableError, UserError
from pinotpy.names import split_instance_id

T = TypeVar("T")
LOOK_TIMEOUT_S = 10.0


@dataclass(slots=True)
class Cluster:
    """The controllers of one cluster. Shared between threads; `_lock` guards `_at`, the one that answered last."""

    clients: tuple[ControllerClient, ...]
    _at: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def urls(self) -> tuple[str, ...]:
        return tuple(client.url for client in self.clients)

    def once(self, call: Callable[[ControllerClient], T]) -> T:
        """One call to one controller; if it cannot be reached, the next call goes to the next one."""
        with self._lock:
            index = self._at
        try:
            return call(self.clients[index])
        except ServerUnreachableError:
            with self._lock:
                if self._at == index:
                    self._at = (index + 1) % len(self.clients)
            raise

    def ask(self, call: Callable[[ControllerClient], T]) -> T:
        """A call that may be repeated, to the first controller that can be reached."""
        for _ in self.clients[1:]:
            try:
                return self.once(call)
            except ServerUnreachableError:
                continue
        return self.once(call)

    def close(self) -> None:
        for client in self.clients:
            client.close()


@dataclass(frozen=True, slots=True)
class Unreachable:
    """A controller of which nothing is known but that it did not answer."""

    url: str
    cause: str


def find_clusters(
    urls: Sequence[str], access: Access | None, waits_s: Iterator[float], pause: Callable[[float], object]
) -> tuple[list[Cluster], list[Unreachable]]:
    """The clusters behind controllers, in the order of their first URL.

    A controller that is down is left out if another one's cluster has it; else it is asked again after each of the
    waits, and is then among the unreachable.
    """
    if not urls:
        raise UserError("a push needs a controller: give its URL, such as http://localhost:9000")
    distinct_urls = list(dict.fromkeys(text.strip().rstrip("/") for text in urls))
    for url in distinct_urls:
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).netloc:
            raise UserError(f"'{url[:200]}' is no URL of a controller: expected http://host:port")
    seen: dict[str, frozenset[str]] = {}
    while True:
        silent = [_look(url, access, seen) for url in distinct_urls if url not in seen]
        lost = [
            entry
            for entry in silent
            if entry is not None and not any(_has_controller(instances, entry.url) for instances in seen.values())
        ]
        wait_s = next(waits_s, None) if lost else None
        if wait_s is None:
            return _grouped(distinct_urls, seen, access), lost
        pause(wait_s)


def _look(url: str, access: Access | None, seen: dict[str, frozenset[str]]) -> Unreachable | None:
    with ControllerClient(url, access, timeout_s=LOOK_TIMEOUT_S) as client:
        try:
            seen[url] = frozenset(client.instances())
        except RemoteError as error:
            return Unreachable(url, error.message)
    return None


def _grouped(wanted: Sequence[str], seen: Mapping[str, frozenset[str]], access: Access | None) -> list[Cluster]:
    by_cluster: dict[object, list[ControllerClient]] = {}
    for url in wanted:
        if url in seen:
            has_others = sum(name.startswith("Controller_") for name in seen[url]) > 1
            by_cluster.setdefault(seen[url] if has_others else url, []).append(ControllerClient(url, access))
    return [Cluster(tuple(clients)) for clients in by_cluster.values()]


def _has_controller(instances: frozenset[str], url: str) -> bool:
    parts = urlsplit(url)
    for name in instances:
        role, host, port = split_instance_id(name) if name.startswith("Controller_") else ("", "", 0)
        if role and (host, port) == (parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)):
            return True
    return False
