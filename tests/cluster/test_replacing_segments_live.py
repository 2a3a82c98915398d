"""Proves on real processes that a table is replaced under continuous queries without anybody seeing it happen.

Two brokers are asked all the time, by two clients each, while three-segment snapshots replace each other, the lead
controller is killed with SIGKILL between the steps and during the last one, a replacement is reverted, and what was
replaced is deleted. Every row carries the number of its snapshot, snapshots have different numbers of rows: an answer
is right if all its rows are of one snapshot and all of that snapshot's rows are there, and a client never goes back to
an older snapshot, but for the revert.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pyarrow as pa
import pytest
from live_cluster import LiveCluster, wait_until

from pinotpy.client.controller import ControllerClient
from pinotpy.service.ports import free_port

pytestmark = pytest.mark.cluster

PARTS = 3
SCHEMA: dict[str, Any] = {
    "schemaName": "stock",
    "dimensionFieldSpecs": [{"name": "item", "dataType": "STRING"}, {"name": "snapshot", "dataType": "INT"}],
    "metricFieldSpecs": [{"name": "amount", "dataType": "LONG"}],
}
CONFIG: dict[str, Any] = {
    "tableName": "stock",
    "tableType": "OFFLINE",
    "segmentsConfig": {"replication": "2", "segmentPushType": "REFRESH", "replacedSegmentsRetentionPeriod": "1s"},
    "tenants": {},
    "tableIndexConfig": {},
    "metadata": {},
}
QUERY = "SELECT COUNT(*), MIN(snapshot), MAX(snapshot), SUM(amount) FROM stock"


def rows_of(snapshot: int) -> int:
    """Of each of its segments."""
    return 100 + 7 * snapshot


def rows(snapshot: int) -> list[pa.RecordBatch]:
    count = rows_of(snapshot)
    columns = {
        "item": pa.array([f"i{n}" for n in range(count)]),
        "snapshot": pa.array([snapshot] * count, pa.int32()),
        "amount": pa.array([2] * count, pa.int64()),
    }
    return [pa.RecordBatch.from_pydict(columns)]


def names(snapshot: int) -> list[str]:
    return [f"stock_{snapshot}_{part}" for part in range(PARTS)]


@dataclass
class Asker:
    """One client of one broker: asks until it is told to stop."""

    broker: str
    answers: list[dict[str, Any]] = field(default_factory=list)
    stopping: threading.Event = field(default_factory=threading.Event)
    thread: threading.Thread | None = None

    def start(self) -> Asker:
        self.thread = threading.Thread(target=self._ask, daemon=True)
        self.thread.start()
        return self

    def _ask(self) -> None:
        with httpx.Client(base_url=self.broker, timeout=120, trust_env=False) as client:
            while not self.stopping.is_set():
                try:
                    self.answers.append(client.post("/query/sql", json={"sql": QUERY}).json())
                except httpx.HTTPError as error:
                    self.answers.append({"exceptions": [repr(error)]})
                    return

    def snapshots(self) -> list[int]:
        """The snapshots it saw, one after the other; fails on an answer that is no whole snapshot."""
        assert self.thread is not None
        self.stopping.set()
        self.thread.join(120)
        found: list[int] = []
        for answer in self.answers:
            assert answer["exceptions"] == [], answer
            count, low, high, total = answer["resultTable"]["rows"][0]
            assert low == high and (count, total) == (PARTS * rows_of(int(low)), 2 * PARTS * rows_of(int(low))), (
                f"a mixture or a hole: {answer}"
            )
            assert answer["totalDocs"] == count and answer["numSegmentsQueried"] == PARTS, answer
            found += [int(low)] if not found or found[-1] != int(low) else []
        return found


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    live = LiveCluster(tmp_path_factory.mktemp("cluster"))
    try:
        common = ("--zk-address", live.zk_address, "--cluster-name", "TestCluster")
        live.processes.start("broker-2", "start-broker", *common, "--broker-port", str(free_port()))
        folder = str(live.directory / "deep-store-2")
        live.processes.start(
            "controller-2", "start-controller", *common, "--controller-port", str(free_port()), "--data-dir", folder
        )
        live.controller.add_schema(SCHEMA)
        live.controller.add_table(CONFIG)
        yield live
    finally:
        live.close()


def upload(cluster: LiveCluster, snapshot: int) -> None:
    for name in names(snapshot):
        cluster.upload(SCHEMA, CONFIG, name, rows(snapshot))


def visible(cluster: LiveCluster) -> list[str]:
    answer = httpx.get(
        f"{cluster.controller.url}/segments/stock",
        params={"type": "OFFLINE", "excludeReplacedSegments": "true"},
        trust_env=False,
    ).json()
    return list(answer[0]["OFFLINE"])


def replace(cluster: LiveCluster, old: int, new: int) -> str:
    controller = cluster.controller
    entry_id = controller.start_replace_segments("stock", names(old), names(new))
    upload(cluster, new)
    controller.end_replace_segments("stock", entry_id, timeout_s=60)
    return entry_id


def see(cluster: LiveCluster, askers: list[Asker], snapshot: int) -> None:
    def is_seen() -> bool:
        return all(asker.answers and asker.answers[-1]["resultTable"]["rows"][0][1] == snapshot for asker in askers)

    wait_until(is_seen, 120, f"both brokers answer from snapshot {snapshot}")


def test_nobody_sees_a_table_being_replaced(cluster: LiveCluster) -> None:
    processes, controller = cluster.processes, cluster.controller
    first = controller.start_replace_segments("stock", [], names(0))
    upload(cluster, 0)
    assert cluster.query("SELECT COUNT(*) FROM stock")["aggregationResults"][0]["value"] == "0", (
        "nothing is seen before the end"
    )
    controller.end_replace_segments("stock", first, timeout_s=60)
    for name in ("broker", "broker-2"):
        url = processes.daemons[name].ready["url"]
        wait_until(
            lambda url=url: (
                httpx.post(f"{url}/query/sql", json={"sql": QUERY}, trust_env=False).json().get("totalDocs")
                == PARTS * rows_of(0)
            ),
            120,
            name,
        )  # type: ignore[misc]
    askers = [Asker(processes.daemons[name].ready["url"]).start() for name in ("broker", "broker-2") for _ in range(2)]

    replace(cluster, 0, 1)
    see(cluster, askers, 1)

    # The leader dies between two steps: the other controller goes on where the record is.
    entry_id = controller.start_replace_segments("stock", names(1), names(2))
    upload(cluster, 2)
    controller.wait_until_online("stock", segments=names(2), timeout_s=60)
    processes.kill("controller")
    cluster.controller = ControllerClient(processes.daemons["controller-2"].ready["url"])
    cluster.controller.end_replace_segments("stock", entry_id, timeout_s=60)
    see(cluster, askers, 2)
    processes.restart("controller")

    # The leader dies during a step: the client repeats it, and it is done once.
    entry_id = cluster.controller.start_replace_segments("stock", names(2), names(3))
    controller = ControllerClient(processes.daemons["controller"].ready["url"])
    leader, cluster.controller = cluster.controller, controller
    upload(cluster, 3)
    ending = threading.Thread(target=lambda: controller.end_replace_segments("stock", entry_id, timeout_s=90))
    ending.start()
    processes.kill("controller-2")
    ending.join(90)
    assert visible(cluster) == names(3), "ended by the controller that leads now"
    leader.close()
    see(cluster, askers, 3)
    entries = controller.list_lineage("stock")["lineageEntries"]
    assert [entry["state"] for entry in entries.values()] == ["COMPLETED"] * 4

    # Back to the old snapshot, and on.
    controller.revert_replace_segments("stock", entry_id)
    see(cluster, askers, 2)
    replace(cluster, 2, 4)
    see(cluster, askers, 4)

    # What was replaced goes, under the same queries.
    def is_clean() -> bool:
        httpx.post(
            f"{controller.url}/periodictask/run",
            params={"taskname": "RetentionManager", "tableName": "stock_OFFLINE"},
            trust_env=False,
        )
        return controller.segments("stock") == {"OFFLINE": names(4)}

    wait_until(is_clean, 120, "replaced and reverted segments are deleted")
    seen = [asker.snapshots() for asker in askers]
    print(f"{[len(asker.answers) for asker in askers]} answers, snapshots {seen}")
    for found in seen:
        assert found[-1] == 4 and 3 in found and found.count(2) <= 2
        forth, back = found[: found.index(3) + 1], found[found.index(3) + 1 :]
        assert forth == sorted(forth) and back in ([2, 4], [4]), found


def test_show_cluster_info_tells_what_queries_see(cluster: LiveCluster, capsys: pytest.CaptureFixture[str]) -> None:
    import json

    from pinotpy.cli.main import main

    cluster.controller.start_replace_segments("stock", names(4), ["stock_new"])
    cluster.upload(SCHEMA, CONFIG, "stock_new", rows(9))
    with pytest.raises(SystemExit) as ended:
        main(["show-cluster-info", "--controller-url", cluster.controller.url, "--json"])
    printed = capsys.readouterr()
    assert not ended.value.code, printed.err
    table = json.loads(printed.out)["tables"]["stock_OFFLINE"]
    assert (table["segments"], table["hidden"], table["replacementsInProgress"]) == (PARTS + 1, 1, 1)
