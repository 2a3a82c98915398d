"""Brokers as the cluster itself knows them: `/<cluster>/EXTERNALVIEW/brokerResource` says which broker serves which
table.

A watch tells when that changes, and the next query reads it again; as watches are hints, it is read once a minute
anyway. When ZooKeeper is away, the brokers known keep answering.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from pinotpy.client.brokers import ALL_TABLES, broker_url, chosen
from pinotpy.errors import ConnectionLostError, NotFoundError, UserError
from pinotpy.names import raw_table_name, split_instance_id

if TYPE_CHECKING:
    from pinotpy.cluster.records import ZNRecord
    from pinotpy.cluster.store import ClusterStore
    from pinotpy.cluster.watched_cache import WatchedCache

# Address of the ensemble and seconds to wait for it → the store; ConnectionLostError.
OpenStore = Callable[[str, float], "ClusterStore"]

logger = logging.getLogger(__name__)

VIEW_FRESH_S = 60.0
CONNECT_TIMEOUT_S = 10.0
_SERVING = "ONLINE"


class ZooKeeperBrokers:
    """`address`: `host:port[,host:port…]/[chroot/]cluster`. Connects with the first query; the session ends with
    `close`.
    """

    def __init__(self, address: str, scheme: str = "http", *, open_store: OpenStore | None = None) -> None:
        self._ensemble, self._cluster = split_address(address)
        self._open_store = open_store or _open_zookeeper
        self._scheme = scheme
        self._lock = threading.Lock()
        self._store: ClusterStore | None = None
        self._cache: WatchedCache | None = None
        self._record: ZNRecord | None = None
        self._by_table: Mapping[str, Sequence[str]] = {}
        self._until = 0.0
        self._closed = False

    def urls(self, table: str, ends: float, *, refresh: bool = False) -> Sequence[str]:
        cache = self._cache
        if refresh or cache is None or not cache.is_clean or time.monotonic() >= self._until:
            if not self._lock.acquire(timeout=min(max(0.0, ends - time.monotonic()), threading.TIMEOUT_MAX)):
                raise ConnectionLostError(
                    f"ZooKeeper at '{self._ensemble}' did not tell the brokers of cluster '{self._cluster}' in time"
                )
            try:
                self._read(ends, refresh=refresh)
            except ConnectionLostError as problem:
                if not self._by_table:
                    raise
                logger.warning(
                    "keeping the brokers known, since ZooKeeper cannot be reached address=%s cause=%s",
                    self._ensemble,
                    problem,
                )
            finally:
                self._lock.release()
        return chosen(self._by_table, table)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            store, self._store, self._cache = self._store, None, None
        if store is not None:
            store.close()

    def _read(self, ends: float, *, refresh: bool) -> None:
        from pinotpy.cluster.paths import BROKER_RESOURCE, ClusterPaths
        from pinotpy.cluster.store import SessionState

        if self._closed:
            raise UserError("the connection is closed")
        store, cache = self._open(ends)
        if store.state is not SessionState.CONNECTED and self._by_table:
            return
        if refresh or time.monotonic() >= self._until:
            cache.invalidate_all()
        path = ClusterPaths(self._cluster).external_view(BROKER_RESOURCE)
        record = cache.read_resources([path])[0]
        cache.end_pass()
        if record is None:
            raise NotFoundError(
                f"no '{path}' in ZooKeeper at '{self._ensemble}': is '{self._cluster}' the cluster's name (the last "
                "part of the address), and has it a table?"
            )
        if record is not self._record:
            self._by_table = brokers_of_view(record.map_fields, self._scheme)
            self._record = record
        self._until = time.monotonic() + VIEW_FRESH_S

    def _open(self, ends: float) -> tuple[ClusterStore, WatchedCache]:
        from pinotpy.cluster.watched_cache import WatchedCache

        if self._store is None or self._cache is None:
            left_s = max(0.1, min(CONNECT_TIMEOUT_S, ends - time.monotonic()))
            self._store = self._open_store(self._ensemble, left_s)
            # The cache notes by itself that it is stale; queries look.
            self._cache = WatchedCache(self._store, lambda: None)
        return self._store, self._cache


def _open_zookeeper(ensemble: str, connect_timeout_s: float) -> ClusterStore:
    from pinotpy.cluster.zookeeper import ZooKeeperStore

    return ZooKeeperStore(ensemble, connect_timeout_s=connect_timeout_s)


def split_address(address: str) -> tuple[str, str]:
    """`host:2181,other:2181/pinot/MyCluster` → (`host:2181,other:2181/pinot`, `MyCluster`). UserError without a
    cluster's name.
    """
    hosts, _, path = address.strip().rstrip("/").partition("/")
    chroot, _, cluster = path.rpartition("/")
    if not hosts or not cluster or "://" in address:
        raise UserError(
            f"'{address[:200]}' is no address of a cluster in ZooKeeper: expected host:port[,host:port…]/[path/]cluster"
        )
    return (f"{hosts}/{chroot}" if chroot else hosts), cluster


def brokers_of_view(view: Mapping[str, Mapping[str, str]], scheme: str) -> dict[str, list[str]]:
    """Table with type → instance → state, as URLs by raw table name; "" = those of all tables. What is no broker is
    left out.
    """
    by_table: dict[str, set[str]] = {}
    for table, instances in view.items():
        table_urls = by_table.setdefault(raw_table_name(table), set())
        for instance, state in instances.items():
            if state != _SERVING:
                continue
            try:
                _, host, port = split_instance_id(instance)
            except UserError as problem:
                logger.warning("leaving out a broker whose id cannot be read table=%s cause=%s", table, problem)
                continue
            table_urls.add(broker_url(host, port, scheme))
    return {
        **{table: sorted(urls) for table, urls in by_table.items()},
        ALL_TABLES: sorted(set().union(*by_table.values())),
    }
