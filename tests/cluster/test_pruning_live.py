"""Proves on real processes that refreshed segments lose no row to pruning: clients ask all the time for rows that every
version of a segment has, while its versions get wider, another one narrower, and a server is killed and comes back.

The rows of a version are known: an answer is right if it has all rows of the days that all versions have, and, from the
moment on at which the broker asks for the new rows and both replicas serve them, those, too. In the end segments are
pruned by their new records, and a segment that was refreshed prunes again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pyarrow as pa
import pytest
from live_cluster import LiveCluster, wait_until

pytestmark = pytest.mark.cluster

ROWS_A_DAY = 10
SCHEMA: dict[str, Any] = {
    "schemaName": "moves",
    "dimensionFieldSpecs": [{"name": "item", "dataType": "STRING"}],
    "dateTimeFieldSpecs": [{"name": "day", "dataType": "INT", "format": "1:DAYS:EPOCH", "granularity": "1:DAYS"}],
}
CONFIG: dict[str, Any] = {
    "tableName": "moves",
    "tableType": "OFFLINE",
    "segmentsConfig": {"replication": "2", "timeColumnName": "day"},
    "tenants": {},
    "tableIndexConfig": {},
    "metadata": {},
}
# Days of the tests are counted from this one.
FIRST_DAY = 18_000
FIXED_DAYS = range(100, 104)


def rows_of(days: range) -> list[pa.RecordBatch]:
    values = [day for day in days for _ in range(ROWS_A_DAY)]
    columns = {
        "item": pa.array([f"i{day}" for day in values]),
        "day": pa.array([FIRST_DAY + day for day in values], pa.int32()),
    }
    return [pa.RecordBatch.from_pydict(columns)]


class Asker:
    """A client that counts the rows of one day again and again; every answer has to have them all."""

    def __init__(self, broker: str, day: int) -> None:
        self._broker, self._day = broker, day
        self.num_asked = 0
        self.wrong: list[dict[str, Any]] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self._thread.start()

    def _ask(self) -> None:
        with httpx.Client(base_url=self._broker, timeout=120, trust_env=False) as client:
            while not self._stopping.is_set():
                sql = f"SELECT COUNT(*) FROM moves WHERE day = {FIRST_DAY + self._day}"
                answer = client.post("/query/sql", json={"sql": sql}).json()
                self.num_asked += 1
                if answer["exceptions"] or answer["resultTable"]["rows"] != [[ROWS_A_DAY]]:
                    self.wrong.append(answer)

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(120)
        assert self.num_asked and not self.wrong, f"{len(self.wrong)} of {self.num_asked} wrong, first {self.wrong[0]}"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    live = LiveCluster(tmp_path_factory.mktemp("cluster"))
    try:
        live.add_table(SCHEMA, CONFIG, [rows_of(range(day, day + 1)) for day in FIXED_DAYS])
        live.upload(SCHEMA, CONFIG, "wide", rows_of(range(1)))
        live.upload(SCHEMA, CONFIG, "narrow", rows_of(range(50, 60)))
        live.controller.wait_until_online("moves", timeout_s=120)
        yield live
    finally:
        live.close()


def count(cluster: LiveCluster, day: int, options: str = "") -> dict[str, Any]:
    return cluster.query(f"SELECT COUNT(*) FROM moves WHERE day = {FIRST_DAY + day}{options}", "sql")


def asked_for(cluster: LiveCluster, day: int) -> set[str]:
    """The segments that the broker asks for rows of a day."""
    params = {"query": f"SELECT COUNT(*) FROM moves WHERE day = {FIRST_DAY + day}"}
    answer = httpx.get(f"{cluster.broker_url}/debug/routingTable/sql", params=params, trust_env=False).json()
    return {name for servers in answer.values() for names in servers.values() for name in names}


def wait_until_served(cluster: LiveCluster, segment: str, day: int) -> None:
    """Until the broker asks for rows of a day, and both replicas, which it asks in turn, have them."""

    def is_served() -> bool:
        whole = [count(cluster, day, " OPTION(skipBrokerPruning=true)") for _ in range(6)]
        return segment in asked_for(cluster, day) and all(
            not answer["exceptions"] and answer["resultTable"]["rows"] == [[ROWS_A_DAY]] for answer in whole
        )

    wait_until(is_served, 180, f"both replicas serve day {day} of {segment}")


def wait_until_pruned_to(cluster: LiveCluster, day: int, names: set[str]) -> None:
    wait_until(lambda: asked_for(cluster, day) == names, 180, f"only {names} is asked for day {day}")


def test_refreshes_lose_no_row_to_pruning(cluster: LiveCluster) -> None:
    wait_until_pruned_to(cluster, FIXED_DAYS[1], {"moves_1"})
    wait_until_pruned_to(cluster, 0, {"wide"})
    wait_until_pruned_to(cluster, 55, {"narrow"})
    answer = count(cluster, FIXED_DAYS[1])
    assert (answer["numSegmentsPrunedByBroker"], answer["numServersQueried"]) == (5, 1)
    askers = [Asker(cluster.broker_url, day) for day in (0, FIXED_DAYS[1], 55)]
    for last in range(1, 5):
        cluster.upload(SCHEMA, CONFIG, "wide", rows_of(range(last + 1)))
        if last == 3:
            cluster.processes.kill("server-1")
            cluster.processes.restart("server-1")
            cluster.controller.wait_until_online("moves", timeout_s=180)
        wait_until_served(cluster, "wide", last)
        askers.append(Asker(cluster.broker_url, last))
    cluster.upload(SCHEMA, CONFIG, "narrow", rows_of(range(55, 56)))
    # The new record excludes day 52 when both replicas serve what it describes.
    wait_until(lambda: "narrow" not in asked_for(cluster, 52), 180, "the narrow segment is pruned by its new record")
    assert count(cluster, 52, " OPTION(skipBrokerPruning=true)")["resultTable"]["rows"] == [[0]]
    for asker in askers:
        asker.stop()
    wait_until_pruned_to(cluster, 4, {"wide"})
    wait_until_pruned_to(cluster, FIXED_DAYS[1], {"moves_1"})
    assert count(cluster, 4)["totalDocs"] == ROWS_A_DAY * (len(FIXED_DAYS) + 5 + 1)


def test_the_routing_of_a_query_is_shown_in_both_dialects(cluster: LiveCluster) -> None:
    by_table = {"moves_OFFLINE"}
    params = {"pql": f"SELECT COUNT(*) FROM moves WHERE day = {FIRST_DAY + FIXED_DAYS[0]}"}
    shown = httpx.get(f"{cluster.broker_url}/debug/routingTable", params=params, trust_env=False)
    assert shown.status_code == 200 and set(shown.json()) == by_table
    assert list(shown.json()["moves_OFFLINE"].values()) == [["moves_0"]]
    whole = httpx.get(f"{cluster.broker_url}/debug/routingTable/moves", trust_env=False).json()
    assert sum(map(len, whole["moves_OFFLINE"].values())) == len(FIXED_DAYS) + 2
    for path, parameters in (
        ("/sql", {}),
        ("/sql", {"query": "SELECT nothing"}),
        ("", {"pql": "SELECT * FROM nobody"}),
    ):
        refused = httpx.get(f"{cluster.broker_url}/debug/routingTable{path}", params=parameters, trust_env=False)
        assert 400 <= refused.status_code < 500, refused.text
