"""Proves on real processes what tests/property/test_reload_histories.py proves in one: after every reload all columns
of all rows read as before, in both null modes, and again after the server was killed and started anew. One table a
history, their segments mapped or in memory.
"""

from __future__ import annotations

import json
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from live_cluster import LiveCluster
from random_queries import our_value
from reload_histories import Questions, ReloadHistory

from pinotpy.cli.asking import PATHS

pytestmark = pytest.mark.cluster

SEEDS = range(3_000_000, 3_000_020)
ROWS = 700
RELOADS = 2


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    live = LiveCluster(tmp_path_factory.mktemp("cluster"), num_servers=1)
    try:
        yield live
    finally:
        live.close()


def test_reload_histories_keep_every_row_on_a_live_server(cluster: LiveCluster) -> None:
    histories = {seed: ReloadHistory(seed, f"r{seed}", num_rows=ROWS) for seed in SEEDS}
    questions = {
        seed: [Questions(history, null_handling=null_handling) for null_handling in (False, True)]
        for seed, history in histories.items()
    }
    said: dict[int, list[str]] = {seed: [] for seed in SEEDS}

    def check_all(after: str) -> None:
        for seed, history in histories.items():
            try:
                settled(lambda history=history: check_rows(cluster, history))  # type: ignore[misc]
                for asked in questions[seed]:
                    asked.ask(1, lambda *question: query(cluster, *question))
            except AssertionError as error:
                steps = "\n  ".join(said[seed])
                raise AssertionError(f"seed {seed}, after {after}:\n  {steps}\n{error}") from error

    for history in histories.values():
        cluster.add_table(history.schema(), history.config(), history.splits(), wait=False)
    for history in histories.values():
        cluster.controller.wait_until_online(history.name, timeout_s=60)
    for number in range(RELOADS):
        jobs = []
        for seed, history in histories.items():
            said[seed].append(history.change())
            cluster.controller.update_schema(history.name, history.schema())
            cluster.controller.update_table(history.name, history.config())
            jobs += cluster.controller.reload_segments(history.name)["reloadJobIds"]
        for job in jobs:
            status = cluster.controller.wait_until_reloaded(job, timeout_s=120)
            # Columns that stay raw, or with a dictionary, need a new build: then the job does not say COMPLETED.
            expected = "COMPLETED_WITH_ERRORS" if status["rebuildSegments"] else "COMPLETED"
            assert (status["status"], status["failureCount"]) == (expected, 0), status
        check_all(f"reload {number + 1}")
    cluster.processes.kill("server-0")
    cluster.processes.restart("server-0")
    check_all("the restart")
    for both in questions.values():
        for asked in both:
            asked.close()


def check_rows(cluster: LiveCluster, history: ReloadHistory) -> None:
    columns = history.read_columns()
    text = f"SELECT {', '.join(column.name for column in columns)} FROM {history.name} LIMIT {10 * ROWS}"
    for null_handling in (False, True):
        answer = query(cluster, "sql", text, f"enableNullHandling={str(null_handling).lower()}")
        assert not answer["exceptions"], answer["exceptions"]
        found: Counter[tuple[Any, ...]] = Counter()
        for row in answer["resultTable"]["rows"]:
            found[tuple(our_value(column, value) for column, value in zip(columns, row, strict=True))] += 1
        expected = history.shown_rows(null_handling=null_handling)
        surplus, lacking = (found - expected).most_common(2), (expected - found).most_common(2)
        assert not surplus and not lacking, (
            f"{text}, null handling {null_handling}: surplus {surplus}, lacking {lacking}"
        )


def query(cluster: LiveCluster, dialect: str, text: str, options: str) -> dict[str, Any]:
    body = json.dumps({dialect: text, "queryOptions": options}).encode()
    asked = urllib.request.Request(cluster.broker_url + PATHS[dialect], body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked, timeout=60) as answer:
        found: dict[str, Any] = json.load(answer)
        return found


def settled(check: Callable[[], None], timeout_s: float = 60.0) -> None:
    """Until brokers see the documents and segments of now, answers are those of before, or partial."""
    end = time.monotonic() + timeout_s
    while True:
        try:
            return check()
        except AssertionError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
