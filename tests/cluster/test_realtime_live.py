"""Proves consuming tables on a real cluster: every answer has exactly the records up to the offsets that it names,
before, while and after segments are sealed, on two replicas. One record in twenty is hostile: each is the row or the
counted fault that hostile_events says, alike on both, and their readers live on.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import hostile_events
import httpx
import pytest
from events_table import SCHEMA, table_config
from live_cluster import LiveCluster, wait_until
from stream_asking import Producing
from stream_truth import question
from worker_processes import READS, processes_of

pytestmark = [pytest.mark.cluster, pytest.mark.zookeeper]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("realtime")


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[LiveCluster]:
    started = LiveCluster(folder)
    try:
        yield started
    finally:
        started.close()


def test_every_answer_has_exactly_the_records_up_to_its_offsets(cluster: LiveCluster, folder: Path) -> None:
    producing = Producing.files(folder / "topics", events=hostile_events)
    cluster.controller.add_schema(SCHEMA)
    cluster.controller.add_table(table_config(folder / "topics", rows=1_000))
    done = threading.Event()

    def produce() -> None:
        for _ in range(100):
            producing.append()
            done.wait(0.05)
        done.set()

    writer = threading.Thread(target=produce)
    writer.start()
    compared = 0

    def compare() -> int:
        nonlocal compared
        response = cluster.query(question(), "sql")
        rows = producing.truth.compare(response)
        if rows < 0:
            return 0
        assert rows == response["totalDocs"]
        compared += 1
        return rows

    def readers() -> list[list[int]]:
        return [sorted(processes_of(cluster, server, READS)) for server in ("server-0", "server-1")]

    wait_until(lambda: compare() > 0 and all(readers()), 300, "first rows are answered")
    first_readers = readers()
    while not done.is_set():
        compare()
    writer.join(60)
    expected = producing.stop()
    wait_until(lambda: compare() == expected, 300, "all rows are answered")
    assert compared > 10

    def num_done() -> int:
        found = cluster.controller.segment_records("events", table_type="REALTIME")
        return sum(each.get("segment.realtime.status") == "DONE" for each in found.values())

    wait_until(lambda: num_done() >= 2 * 9, 300, "segments are done")
    url = f"{cluster.controller_url}/debug/tables/events"
    replicas: dict[int, list[dict[str, Any]]] = {}

    def have_read_all() -> bool:
        (half,) = httpx.get(url, timeout=60).raise_for_status().json()
        replicas.clear()
        for each in half["partitions"]:
            if (each["currentOffset"], each["failure"]) == ("10000", ""):
                replicas.setdefault(each["partition"], []).append(each["records"])
        return sorted((partition, len(ledgers)) for partition, ledgers in replicas.items()) == [(0, 2), (1, 2)]

    wait_until(have_read_all, 300, "both servers have read both partitions")
    for partition, ledgers in replicas.items():
        for ledger in ledgers:
            # A server that was so slow that it was taken for dead may have read from a later segment on.
            counted = hostile_events.ledger(partition, 10_000 - ledger["records"], 10_000)
            found = {name: ledger[name] for name in counted}
            assert found | {"causes": hostile_events.short_causes(ledger["causes"])} == counted
            assert len(ledger["samples"]) == min(10, counted["rejected"])
        one, other = ledgers
        assert one == other or one["records"] != other["records"]
    assert readers() == first_readers, "no reader died"
    # The other server may answer, and have read less by now.
    wait_until(lambda: compare() == expected, 300, "all rows are answered again")


@pytest.mark.full
def test_a_table_is_disabled_enabled_deleted_and_made_again_while_it_consumes(
    cluster: LiveCluster, folder: Path
) -> None:
    """Nothing is lost, nothing of the table before is seen, and nothing is left behind on the servers."""
    producing = Producing.files(folder / "topics", "again")
    config = table_config(folder / "topics", rows=1_000)
    config |= {"tableName": "again"}
    del config["segmentsConfig"]["schemaName"]
    config["tableIndexConfig"]["streamConfigs"]["stream.file.topic.name"] = "again"

    def rows() -> int:
        """Of an exact answer, which is compared with the topic; -1 if rows are missing."""
        return producing.truth.compare(cluster.query(question("again"), "sql"))

    def has_more_than(count: int) -> bool:
        return rows() > count

    def is_disabled() -> bool:
        answer = cluster.query("SELECT COUNT(*) FROM again", "sql")
        return 191 in [each["errorCode"] for each in answer["exceptions"]]

    def switch(state: str) -> None:
        params = {"state": state, "type": "REALTIME"}
        httpx.put(f"{cluster.controller_url}/tables/again/state", params=params, timeout=120).raise_for_status()

    def made() -> bool:
        answer = httpx.post(f"{cluster.controller_url}/tables", json=config, timeout=120)
        assert answer.status_code in (200, 409), answer.text  # servers still drop what was before
        return answer.status_code == 200

    cluster.controller.add_schema(SCHEMA | {"schemaName": "again"})
    producing.start()
    try:
        for _ in range(2):
            wait_until(made, 300, "the table is made")
            wait_until(lambda: rows() > 2_000, 300, "its rows are answered")
            before = rows()
            switch("disable")
            wait_until(is_disabled, 120, "it is disabled")
            switch("enable")
            wait_until(partial(has_more_than, before), 300, "it is read on")
            cluster.controller.delete_table("again")
        wait_until(made, 300, "the table is made again")
    finally:
        expected = producing.stop()
    wait_until(lambda: rows() == expected, 300, "all rows are answered")
    cluster.controller.delete_table("again")
    wait_until(lambda: not _left_behind(folder), 300, "nothing is left")


def _left_behind(folder: Path) -> list[str]:
    """Files of the table that servers have."""
    found = (os.path.join(at, name) for at, _, names in os.walk(folder) for name in names)  # folders go meanwhile
    return [path for path in found if "again_REALTIME" in path]
