"""Proves on a real ZooKeeper with real processes and SIGKILL: a restarted server is ONLINE again within 30 s (a few,
where the machine is quiet) although its old session would live 60 s; a new leader takes over and the old one's epoch is
fenced; a graceful end is seen at once.
"""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pinotpy.cluster.cluster_setup import create_cluster
from pinotpy.cluster.leader import LeaderElection, leader_instance
from pinotpy.cluster.paths import ClusterPaths
from pinotpy.cluster.pipeline import TransitionPipeline
from pinotpy.cluster.property_store import table_config_record
from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.cluster.spectator import Spectator
from pinotpy.cluster.store import Check
from pinotpy.cluster.table_changes import AddSegments, CreateTable
from pinotpy.cluster.table_state import apply, new_table_ideal_state
from pinotpy.cluster.zookeeper import ZooKeeperStore
from pinotpy.errors import NotLeaderError

pytestmark = [pytest.mark.zookeeper, pytest.mark.cluster]

TABLE = "flights_OFFLINE"
LONG_SESSION_S = 60.0  # the longest that the tests' ZooKeeper gives
SOON_S = 30.0  # so that nothing here can come from an expiry
NUM_SEGMENTS = 20
_clusters = itertools.count()
Eventually = Callable[..., float]


class Cluster:
    """A cluster of its own on the shared ZooKeeper, with child processes."""

    def __init__(self, address: str, eventually: Eventually) -> None:
        self.address, self.eventually = address, eventually
        self.paths = ClusterPaths(f"Failover{next(_clusters)}")
        self.store = ZooKeeperStore(address, session_timeout_s=LONG_SESSION_S)
        create_cluster(self.store, self.paths)
        self.spectator = Spectator(self.store, self.paths)
        self.spectator.start()
        self.children: list[subprocess.Popen[str]] = []

    def spawn(self, instance: str, session_timeout_s: float = LONG_SESSION_S) -> subprocess.Popen[str]:
        script = Path(__file__).with_name("member_process.py")
        command = [sys.executable, str(script), self.address, self.paths.cluster, instance, str(session_timeout_s)]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.children.append(child)
        return child

    def wait_ready(self, child: subprocess.Popen[str]) -> None:
        assert child.stdout is not None
        assert child.stdout.readline().strip() == "ready"

    def states(self) -> list[dict[str, str]]:
        view = self.spectator.view.external_views.get(TABLE)
        return list(view.partitions.values()) if view else []

    def all_are(self, expected: dict[str, str]) -> bool:
        states = self.states()
        return len(states) == NUM_SEGMENTS and all(each == expected for each in states)

    def add_table(self, instances: list[str], fences: tuple[Check, ...] = ()) -> None:
        config = table_config_record(TABLE, {"tableName": TABLE, "tableType": "OFFLINE"})
        apply(
            self.store,
            self.paths,
            TABLE,
            CreateTable(config, new_table_ideal_state(TABLE, len(instances)), ()),
            fences=fences,
        )
        replicas = dict.fromkeys(instances, "ONLINE")
        segments = [
            SegmentZkMetadata(f"s{i}", TABLE, crc=i, total_docs=1, creation_time_ms=1) for i in range(NUM_SEGMENTS)
        ]
        apply(self.store, self.paths, TABLE, AddSegments(tuple((each, replicas) for each in segments)), fences=fences)

    def close(self) -> None:
        for child in self.children:
            child.kill()
            child.communicate()
        self.spectator.stop()
        self.store.close()


@pytest.fixture
def cluster(zookeeper: str, eventually: Eventually) -> Iterator[Cluster]:
    cluster = Cluster(zookeeper, eventually)
    yield cluster
    cluster.close()


@pytest.fixture
def led_cluster(cluster: Cluster) -> Iterator[Cluster]:
    """With a controller in this process."""
    store = ZooKeeperStore(cluster.address, session_timeout_s=LONG_SESSION_S)
    pipeline = TransitionPipeline(
        store, cluster.paths, LeaderElection(store, cluster.paths, "Controller_test_1"), source="Controller_test_1"
    )
    pipeline.start()
    yield cluster
    pipeline.stop()
    store.close()


def test_a_killed_server_started_again_is_online_before_its_old_session_ends(
    led_cluster: Cluster, record_property: Callable[[str, object], None]
) -> None:
    cluster, servers = led_cluster, ["Server_localhost_1", "Server_localhost_2"]
    children = [cluster.spawn(server) for server in servers]
    for child in children:
        cluster.wait_ready(child)
    cluster.add_table(servers)
    both, one_left = dict.fromkeys(servers, "ONLINE"), {"Server_localhost_1": "ONLINE"}
    cluster.eventually(lambda: cluster.all_are(both), what="both ONLINE")
    old_session = cluster.spectator.view.live_instances["Server_localhost_2"].session_id
    children[1].send_signal(signal.SIGKILL)
    # Not reaped on purpose: a zombie is as gone as can be. The session outlives it by a minute, so the view still shows
    # it.
    started = time.monotonic()
    again = cluster.spawn("Server_localhost_2")
    seen_without = []

    def is_back() -> bool:
        seen_without.append(cluster.all_are(one_left))
        live = cluster.spectator.view.live_instances.get("Server_localhost_2")
        return live is not None and live.session_id != old_session and cluster.all_are(both)

    cluster.eventually(is_back, timeout_s=SOON_S, what="the restarted server ONLINE")
    took_s = time.monotonic() - started
    record_property("restart_to_online_s", round(took_s, 2))
    print(f"SIGKILL, start again, {NUM_SEGMENTS} segments ONLINE: {took_s:.2f} s")
    cluster.wait_ready(again)
    sessions = cluster.store.children(cluster.paths.current_state_sessions("Server_localhost_2"))
    assert len(sessions) == 1 and old_session not in sessions
    assert all("Server_localhost_1" in each for each in cluster.states()), "the other replica stayed"


def test_a_paused_server_is_not_taken_over(led_cluster: Cluster, zookeeper: str) -> None:
    """SIGSTOP is not death: the second process of the same instance id must wait."""
    cluster = led_cluster
    first = cluster.spawn("Server_localhost_1")
    cluster.wait_ready(first)
    live = cluster.paths.live_instance("Server_localhost_1")
    cluster.eventually(lambda: cluster.store.exists(live), what="joined")
    owner = cluster.store.get(live)[1].ephemeral_owner
    first.send_signal(signal.SIGSTOP)
    second = cluster.spawn("Server_localhost_1")
    # The second one has come as far as announcing itself when its states' folder is there.
    sessions = cluster.paths.current_state_sessions("Server_localhost_1")
    cluster.eventually(lambda: len(cluster.store.children(sessions)) == 2, what="the second process announcing itself")
    assert cluster.store.get(live)[1].ephemeral_owner == owner
    first.send_signal(signal.SIGKILL)
    cluster.eventually(
        lambda: cluster.store.get(live)[1].ephemeral_owner != owner, timeout_s=SOON_S, what="taken over after its death"
    )
    cluster.wait_ready(second)


def test_another_controller_takes_the_lead_of_a_killed_one_and_finishes_its_work(
    cluster: Cluster, record_property: Callable[[str, object], None]
) -> None:
    first, server = cluster.spawn("Controller_localhost_1"), cluster.spawn("Server_localhost_1")
    cluster.wait_ready(first)
    cluster.wait_ready(server)
    cluster.eventually(
        lambda: leader_instance(cluster.store, cluster.paths) == "Controller_localhost_1", what="the first leads"
    )
    stat = cluster.store.exists(cluster.paths.leader_epoch)
    assert stat is not None
    old_fence = (Check(cluster.paths.leader_epoch, stat.version),)
    second = cluster.spawn("Controller_localhost_2")
    cluster.wait_ready(second)
    assert leader_instance(cluster.store, cluster.paths) == "Controller_localhost_1"
    started = time.monotonic()
    first.send_signal(signal.SIGKILL)
    # Written while nobody leads: the ideal state is what the next leader works off.
    cluster.add_table(["Server_localhost_1"])
    cluster.eventually(
        lambda: cluster.all_are({"Server_localhost_1": "ONLINE"}),
        timeout_s=SOON_S,
        what="done by the second leader",
    )
    took_s = time.monotonic() - started
    record_property("leader_failover_s", round(took_s, 2))
    print(
        f"leader SIGKILLed, {NUM_SEGMENTS} segments ONLINE by the next one: {took_s:.2f} s (sessions of "
        f"{LONG_SESSION_S} s)"
    )
    assert leader_instance(cluster.store, cluster.paths) == "Controller_localhost_2"
    late = AddSegments(
        ((SegmentZkMetadata("late", TABLE, crc=1, total_docs=1, creation_time_ms=1), {"Server_localhost_1": "ONLINE"}),)
    )
    with pytest.raises(NotLeaderError):
        apply(cluster.store, cluster.paths, TABLE, late, fences=old_fence)
    assert cluster.all_are({"Server_localhost_1": "ONLINE"})


def test_a_dead_server_leaves_the_view_with_its_session(led_cluster: Cluster) -> None:
    cluster, servers = led_cluster, ["Server_localhost_1", "Server_localhost_2"]
    children = [cluster.spawn(server, session_timeout_s=3.0) for server in servers]
    for child in children:
        cluster.wait_ready(child)
    cluster.add_table(servers)
    cluster.eventually(lambda: cluster.all_are(dict.fromkeys(servers, "ONLINE")), what="both ONLINE")
    children[0].send_signal(signal.SIGKILL)
    cluster.eventually(
        lambda: cluster.all_are({"Server_localhost_2": "ONLINE"}),
        what="the dead one gone from the view",
    )


def test_a_graceful_end_says_so_first_and_leaves_nothing(led_cluster: Cluster) -> None:
    cluster = led_cluster
    child = cluster.spawn("Server_localhost_1")
    cluster.wait_ready(child)
    cluster.add_table(["Server_localhost_1"])
    cluster.eventually(lambda: cluster.all_are({"Server_localhost_1": "ONLINE"}), what="ONLINE")
    child.communicate()
    assert child.returncode == 0
    cluster.eventually(lambda: cluster.states() == [], timeout_s=SOON_S, what="gone from the view")
    cluster.eventually(
        lambda: not cluster.spectator.view.instance_configs["Server_localhost_1"].takes_queries,
        what="shutdownInProgress",
    )
    assert cluster.store.children(cluster.paths.current_state_sessions("Server_localhost_1")) == []
