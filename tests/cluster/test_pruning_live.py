"""Proves on real processes that changed segments lose no row to pruning: clients ask all the time for rows that every
version of a segment has, while its versions get wider, another one narrower, and a server is killed and comes back.
Others ask random questions, with pruning and without, while segments are refreshed, replaced and moved: each answer is
of contents that were served while it was asked.

The rows of a version are known: an answer is right if it has all rows of the days that all versions have, and, from the
moment on at which the broker asks for the new rows and both replicas serve them, those, too. In the end segments are
pruned by their new records, and a segment that was refreshed prunes again.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pyarrow as pa
import pytest
from live_cluster import LiveCluster, wait_until
from moving_table import CONFIG as PROOF_CONFIG
from moving_table import FIRST_DAY, Groups, Row, Truth, batches_of, condition
from moving_table import SCHEMA as PROOF_SCHEMA
from moving_table import rows_of as rows_of_edition
from thinning import cases

from pinotpy.cluster.paths import ClusterPaths
from pinotpy.cluster.table_changes import AssignSegments
from pinotpy.cluster.table_state import apply
from pinotpy.cluster.zookeeper import ZooKeeperStore

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
    live = LiveCluster(tmp_path_factory.mktemp("cluster"), num_servers=3)
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


class Prover:
    """A client that asks random questions in both dialects, with pruning and without, and compares each answer with
    what the table may have been meanwhile.
    """

    def __init__(self, broker: str, truth: Truth, seed: int) -> None:
        self._broker, self._truth, self._dice = broker, truth, random.Random(seed)
        self.asked: Counter[tuple[str, str]] = Counter()
        self.num_pruned = 0
        self.wrong: list[str] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self._thread.start()

    def _ask(self) -> None:
        with httpx.Client(base_url=self._broker, timeout=120, trust_env=False) as client:
            while not self._stopping.is_set():
                dialect, is_pruned = self._dice.choice(["sql", "pql"]), self._dice.random() < 0.6
                asked = condition(self._dice)
                text = f"SELECT COUNT(*), SUM(amount) FROM proof WHERE {asked.text} GROUP BY part, edition "
                body = {"pql": f"{text} TOP 100", "queryOptions": "" if is_pruned else "skipBrokerPruning=true"}
                if dialect == "sql":
                    text = text.replace("SELECT ", "SELECT part, edition, ")
                    body = {"sql": f"{text} LIMIT 100 {'' if is_pruned else 'OPTION(skipBrokerPruning=true)'}"}
                begun_s = time.monotonic()
                answer = client.post("/query/sql" if dialect == "sql" else "/query", json=body).json()
                ended_s = time.monotonic()
                self.asked[dialect, "pruned" if is_pruned else "whole"] += 1
                self.num_pruned += answer.get("numSegmentsPrunedByBroker", 0)
                fault = str(answer["exceptions"] or "") or self._truth.fault(
                    groups_of(answer), asked.passes, begun_s, ended_s
                )
                if not fault and not is_pruned and answer.get("numSegmentsPrunedByBroker", 0):
                    fault = "pruned although it was not to be"
                if fault:
                    self.wrong.append(f"{body}: {fault}; {answer}")

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(180)
        assert not self._thread.is_alive(), "a query is not answered"


def groups_of(answer: dict[str, Any]) -> Groups:
    if "resultTable" in answer:
        return {(row[0], row[1]): (row[2], int(row[3])) for row in answer["resultTable"]["rows"]}
    counts, sums = ({tuple(each["group"]): each["value"] for each in one["groupByResult"]}
                    for one in answer["aggregationResults"])  # fmt: skip
    assert counts.keys() == sums.keys()
    return {(part, int(edition)): (int(counts[part, edition]), int(float(sums[part, edition])))
            for part, edition in counts}  # fmt: skip


class Scene:
    """Changes of the table `proof`, each told to the truth."""

    def __init__(self, cluster: LiveCluster) -> None:
        self.cluster, self.truth = cluster, Truth()
        self._store, self._paths = ZooKeeperStore(cluster.zk_address), ClusterPaths("TestCluster")
        daemons = cluster.processes.daemons.values()
        self._urls = {each.ready["instance"]: each.ready["url"] for each in daemons if each.name.startswith("server-")}
        self.moved = Counter[str]()
        self._edition = 0

    def close(self) -> None:
        self._store.close()

    def next_edition(self) -> int:
        self._edition += 1
        return self._edition

    def upload(self, part: str, edition: int, rows: list[Row], segment: str = "") -> None:
        self.cluster.upload(PROOF_SCHEMA, PROOF_CONFIG, segment or part, batches_of(part, edition, rows))

    def refresh(self, part: str, days: range, partitions: range) -> None:
        edition = self.next_edition()
        rows = rows_of_edition(edition, days, partitions)
        self.truth.begin(part, edition, rows)
        self.upload(part, edition, rows)
        wait_until(lambda: self._is_everywhere(part), 180, f"edition {edition} of {part} is served")
        self.truth.is_served(part, edition)

    def replace(self, old: list[str]) -> list[str]:
        """The two segments of the part `stock` by two of other days; their names."""
        edition, controller = self.next_edition(), self.cluster.controller
        rows = rows_of_edition(edition, range(50 + edition % 5, 54 + edition % 7), range(edition % 3 + 1))
        names = [f"stock_{edition}_{number}" for number in range(2)]
        self.truth.begin("stock", edition, rows)
        entry = controller.start_replace_segments("proof", old, names)
        for number, name in enumerate(names):
            self.upload("stock", edition, rows[number::2], name)
        controller.end_replace_segments("proof", entry, timeout_s=120)
        # There is one broker, which does not go back to what it knew before.
        wait_until(lambda: self.editions("stock") == {edition}, 180, f"edition {edition} of stock is asked for")
        self.truth.is_served("stock", edition)
        return names

    def move(self, segment: str, meanwhile: Callable[[], None] | None = None) -> None:
        """From one of its two servers to the third, as an operator moves it: first there are three."""
        here = self._replicas(segment)
        target = next(each for each in sorted(self._urls) if each not in here)
        self._assign(segment, {*here, target})
        if meanwhile is not None:
            meanwhile()
        self.cluster.controller.wait_until_online("proof", segments=[segment], timeout_s=180)
        stay = {target, sorted(here)[self.moved[segment] % 2]}
        self._assign(segment, stay)
        wait_until(lambda: self._view(segment) == stay, 180, f"{segment} left a server")
        self.moved[segment] += 1

    def _assign(self, segment: str, servers: set[str]) -> None:
        apply(self._store, self._paths, "proof_OFFLINE", AssignSegments({segment: dict.fromkeys(servers, "ONLINE")}))

    def _replicas(self, segment: str) -> set[str]:
        return set(self.cluster.controller.ideal_state("proof")["OFFLINE"][segment])

    def _view(self, segment: str) -> set[str]:
        return set(self.cluster.controller.external_view("proof")["OFFLINE"].get(segment, {}))

    def _is_everywhere(self, segment: str) -> bool:
        """Whether each server that has the segment, or is to have it, has the content of its record."""
        crc = self.cluster.controller.segment_records("proof")[segment]["segment.crc"]
        urls = [self._urls[each] for each in self._replicas(segment) | self._view(segment)]
        shown = [httpx.get(f"{url}/tables/proof_OFFLINE/segments/crc", trust_env=False, timeout=60) for url in urls]
        return all(str(answer.json().get(segment)) == crc for answer in shown)

    def editions(self, part: str) -> set[int]:
        text = f"SELECT edition, COUNT(*) FROM proof WHERE part = '{part}' GROUP BY edition LIMIT 10"
        return {row[0] for row in self.cluster.query(text, "sql")["resultTable"]["rows"]}


@pytest.mark.full
def test_answers_are_of_a_moment_while_segments_are_refreshed_replaced_and_moved(cluster: LiveCluster) -> None:
    wanted = cases(5_000)
    cluster.controller.add_schema(PROOF_SCHEMA)
    cluster.controller.add_table(PROOF_CONFIG)
    scene, still = Scene(cluster), [f"still_{number}" for number in range(3)]
    for number, name in enumerate(still):
        rows = rows_of_edition(0, range(100 + number, 101 + number), range(number, number + 1))
        scene.truth.begin(name, 0, rows)
        scene.upload(name, 0, rows)
    for name in ("wide", "other"):
        scene.refresh(name, range(1), range(1))
    stock = scene.replace([])
    cluster.controller.wait_until_online("proof", timeout_s=120)
    wait_until(lambda: all(scene.editions(name) for name in (*still, "wide", "other")), 120, "all are asked for")
    provers = [Prover(cluster.broker_url, scene.truth, seed) for seed in range(6)]
    rounds = 0
    while rounds < 5 or sum(sum(each.asked.values()) for each in provers) < wanted:
        width = 1 + rounds * 3 % 10  # wider and narrower
        scene.refresh("wide", range(width), range(rounds % 4 + 1))
        scene.move("other", lambda width=width: scene.refresh("other", range(20 - width), range(4)))  # type: ignore[misc]
        scene.move(still[rounds % 3])
        stock = scene.replace(stock)
        rounds += 1
        assert all(not each.wrong for each in provers), next(each.wrong[0] for each in provers if each.wrong)
    for each in provers:
        each.stop()
    scene.close()
    asked = sum((each.asked for each in provers), Counter[tuple[str, str]]())
    wrong = [text for each in provers for text in each.wrong]
    pruned = sum(each.num_pruned for each in provers)
    print(f"{asked.total()} answers of {wanted} wanted, {len(wrong)} wrong, {dict(asked)}, {pruned} segments pruned, "
          f"{2 * rounds} refreshes, {rounds} replacements, {sum(scene.moved.values())} moves")  # fmt: skip
    assert not wrong, wrong[0]
    assert asked.total() >= wanted and len(asked) == 4 and pruned > 0
