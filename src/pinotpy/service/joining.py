"""Connecting to the cluster and leaving it: a session with ZooKeeper, waiting for a cluster that is only just being
created, and the word to all others that an instance goes.
"""

from __future__ import annotations

import logging
import threading

from pinotpy.clock import Clock
from pinotpy.cluster.participant import Participant
from pinotpy.cluster.paths import ClusterPaths
from pinotpy.cluster.store import ClusterStore, SessionEvent, SessionState
from pinotpy.cluster.zookeeper import ZooKeeperStore
from pinotpy.config.settings import ProcessSettings
from pinotpy.errors import ClusterError
from pinotpy.service.errors import StartError
from pinotpy.service.metrics import Metrics

_POLL_S = 0.05
# Brokers leave a server, and clients that look brokers up in ZooKeeper leave a broker, within about 80 ms of its
# shutdownInProgress; queries that were sent before that still come.
NOTICE_S = 0.25
# Of the part that ends the session: its own limits, and the callbacks that are still to be delivered.
ZOOKEEPER_STOP_S = 7.0

_log = logging.getLogger(__name__)


def connect(settings: ProcessSettings, metrics: Metrics) -> ZooKeeperStore:
    """A session, whose successors are counted; raises ConnectionLostError when ZooKeeper does not answer in time."""
    store = ZooKeeperStore(
        settings.zk_address,
        session_timeout_s=settings.zk_session_timeout_ms / 1000,
        connect_timeout_s=settings.zk_connect_timeout_ms / 1000,
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
            raise StartError(
                f"cluster '{paths.cluster}' does not exist in this ZooKeeper: start a controller with this cluster "
                "name first"
            )
        clock.wait(never, _POLL_S)


def give_notice(participant: Participant, clock: Clock) -> None:
    """Announce that this instance leaves, and let the others turn elsewhere. Whom no word reaches learns it from the
    session's end.
    """
    if not participant.is_live:
        return
    try:
        participant.announce_shutdown()
    except ClusterError as error:
        _log.info("leaving was not announced instance=%s cause=%s", participant.instance, error)
        return
    clock.wait(threading.Event(), NOTICE_S)
