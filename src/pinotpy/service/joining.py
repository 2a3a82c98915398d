"""Connecting to the cluster: a session with ZooKeeper, and waiting for a cluster that is only just being created."""

from __future__ import annotations

import threading

from pinotpy.clock import Clock
from pinotpy.cluster.paths import ClusterPaths
from pinotpy.cluster.store import ClusterStore, SessionEvent, SessionState
from pinotpy.cluster.zookeeper import ZooKeeperStore
from pinotpy.config.settings import ProcessSettings
from pinotpy.service.errors import StartError
from pinotpy.service.metrics import Metrics

_POLL_S = 0.05


def connect(settings: ProcessSettings, metrics: Metrics) -> ZooKeeperStore:
    """A session, whose successors are counted; raises ConnectionLostError when ZooKeeper does not answer in time."""
    store = ZooKeeperStore(
        settings.zk_address, session_timeout_s=settings.zk_session_timeout_ms / 1000, connect_timeout_s=settings.zk_connect_timeout_ms / 1000
    )
    count_new_sessions(store, metrics)
    return store


def count_new_sessions(store: ClusterStore, metrics: Metrics) -> None:
    """Count sessions after the present one as `zookeeperReconnects`."""
    known = {store.session_id}

    def note(event: SessionEvent) -> None:
        if event.state is SessionState.CONNECTED and event.session_id not in known:
            known.clear()
            known.add(event.session_id)
            metrics.count("zookeeperReconnects")

    store.add_session_listener(note)


def await_cluster(store: ClusterStore, paths: ClusterPaths, clock: Clock, timeout_s: float) -> None:
    """Wait until a controller has created the cluster: daemons may be started in any order. Raises StartError."""
    deadline_ns = clock.monotonic_ns() + int(timeout_s * 1e9)
    never = threading.Event()
    while store.exists(paths.cluster_config) is None:
        if clock.monotonic_ns() > deadline_ns:
            raise StartError(f"cluster '{paths.cluster}' does not exist in this ZooKeeper: start a controller with this cluster name first")
        clock.wait(never, _POLL_S)
