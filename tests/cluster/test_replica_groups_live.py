"""Proves on real processes that a query of a table with replica groups asks servers of one group, that both groups are
asked, that answers stay whole when a server of one group is killed, and that a broker with adaptive selection keeps
away from a group with a server that stands still, shows why, and asks it again when it runs.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import httpx
import pyarrow as pa
import pytest
from live_cluster import LiveCluster, wait_until

from pinotpy.cli.asking import ask

pytestmark = pytest.mark.cluster

SCHEMA: dict[str, Any] = {"schemaName": "r", "metricFieldSpecs": [{"name": "n", "dataType": "INT"}]}
GROUPS = {"replicaGroupBased": True, "numReplicaGroups": 2, "numInstancesPerReplicaGroup": 2}
CONFIG: dict[str, Any] = {
    "tableName": "r",
    "tableType": "OFFLINE",
    "segmentsConfig": {"replication": "2"},
    "tableIndexConfig": {},
    "routing": {"instanceSelectorType": "strictReplicaGroup"},
    "instanceAssignmentConfigMap": {
        "OFFLINE": {"tagPoolConfig": {"tag": "DefaultTenant_OFFLINE"}, "replicaGroupPartitionConfig": GROUPS}
    },
}
NUM_SEGMENTS, NUM_ROWS = 6, 10
SQL = "SELECT COUNT(*), SUM(n) FROM r"


class Scene:
    """A cluster of four servers with two brokers, one of which prefers servers."""

    def __init__(self, cluster: LiveCluster, adaptive_url: str) -> None:
        self.cluster, self.adaptive_url = cluster, adaptive_url
        self.num_queried: list[int] = []
        answer = httpx.get(f"{cluster.controller_url}/tables/r/instancePartitions", trust_env=False).json()
        lists = answer["OFFLINE"]["partitionToInstancesMap"]
        self.groups = [set(lists[f"0_{number}"]) for number in range(2)]
        daemons = cluster.processes.daemons
        self.names = {daemon.ready["instance"]: name for name, daemon in daemons.items() if name.startswith("server-")}

    def answer(self, url: str, *, may_fail: bool = False) -> set[str]:
        """The servers that the broker would ask now, after an answer that must be right; may_fail: or must say that it
        is not.
        """
        answer = ask(url, SQL, "sql")
        if may_fail and answer["exceptions"]:
            return set()
        assert not answer["exceptions"], answer
        assert answer["resultTable"]["rows"] == [[NUM_SEGMENTS * NUM_ROWS, NUM_SEGMENTS * sum(range(NUM_ROWS))]]
        self.num_queried.append(answer["numServersQueried"])
        return self.routed(url)

    def routed(self, url: str) -> set[str]:
        shown = httpx.get(f"{url}/debug/routingTable/sql", params={"query": SQL}, trust_env=False, timeout=60).json()
        return set(shown["r_OFFLINE"])

    def slowest(self, url: str) -> str:
        """By what the broker shows of its measurements."""
        shown = httpx.get(f"{url}/debug/serverRoutingStats", trust_env=False, timeout=60).json()
        assert shown["type"] == "LATENCY" and shown["statsCollection"] is True
        latencies = {name: values["adaptiveServerLatencyEma"] for name, values in shown["servers"].items()}
        return max(latencies, key=latencies.__getitem__)

    def queries_of(self, instance: str) -> float:
        """That a server has answered."""
        url = self.cluster.processes.daemons[self.names[instance]].ready["url"]
        lines = httpx.get(f"{url}/metrics", trust_env=False, timeout=60).text.splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith("pinot_server_queries_total{"))


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("cluster")
    live = LiveCluster(folder, num_servers=4)
    try:
        settings = folder / "adaptive.properties"
        settings.write_text(
            "pinot.broker.adaptive.server.selector.type=LATENCY\n"
            "pinot.broker.adaptive.server.selector.autodecay.window.ms=2000\n"
        )
        options = ("--zk-address", live.zk_address, "--cluster-name", "TestCluster", "--config-file", str(settings))
        adaptive = live.processes.start("adaptive", "start-broker", *options, "--broker-port", "0")
        rows = [pa.RecordBatch.from_pydict({"n": pa.array(range(NUM_ROWS), pa.int32())})]
        live.add_table(SCHEMA, CONFIG, [rows] * NUM_SEGMENTS)
        yield Scene(live, adaptive.ready["url"])
    finally:
        live.close()


def test_queries_go_to_one_group_each_and_to_both_in_turn(scene: Scene) -> None:
    url = scene.cluster.broker_url
    wait_until(lambda: scene.routed(url) in scene.groups, 180, "the broker has the groups of the table")
    before = {instance: scene.queries_of(instance) for instance in scene.names}
    for _ in range(40):
        scene.answer(url)
    # A group has two servers. Of one that is silent for a second the segments are asked of another one as well.
    assert scene.num_queried.count(2) >= 30, scene.num_queried
    asked = {instance: scene.queries_of(instance) - before[instance] for instance in scene.names}
    assert all(count >= 10 for count in asked.values()), asked


def test_adaptive_selection_avoids_a_group_with_a_server_that_stands_still(scene: Scene) -> None:
    url, stopped = scene.adaptive_url, min(scene.groups[0])
    wait_until(lambda: scene.routed(url) in scene.groups, 180, "the broker has the groups of the table")
    pid = scene.cluster.processes.daemons[scene.names[stopped]].pid
    os.kill(pid, signal.SIGSTOP)
    try:
        # Whoever is asked of it waits until the other group is asked too.
        wait_until(
            lambda: scene.answer(url, may_fail=True) == scene.groups[1] and scene.slowest(url) == stopped,
            180,
            "the other group is preferred, as this server is the slowest",
        )
        metrics = httpx.get(f"{url}/metrics", trust_env=False).text
        assert f'pinot_broker_adaptiveServerLatencyEma{{server="{stopped}"}}' in metrics
    finally:
        os.kill(pid, signal.SIGCONT)
    before = scene.queries_of(stopped)

    def is_asked_again() -> bool:
        scene.answer(url, may_fail=True)
        return scene.queries_of(stopped) > before + 3

    wait_until(is_asked_again, 300, "it is tried again after its average fell")


def test_answers_are_whole_when_a_server_of_a_group_is_killed(scene: Scene) -> None:
    url, killed = scene.cluster.broker_url, min(scene.groups[0])
    scene.cluster.processes.kill(scene.names[killed])
    for _ in range(30):
        answer = ask(url, SQL, "sql")
        assert not answer["exceptions"], answer
        assert answer["resultTable"]["rows"] == [[NUM_SEGMENTS * NUM_ROWS, NUM_SEGMENTS * sum(range(NUM_ROWS))]]
    wait_until(lambda: scene.routed(url) == scene.groups[1], 180, "the broker sees that it is gone")
    for _ in range(10):
        assert scene.answer(url) == scene.groups[1]
