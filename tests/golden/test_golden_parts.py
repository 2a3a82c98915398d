"""Replays what brokers of both releases answered on the partitioned table `parts` while all its servers lived: rows and
all counters that were recorded. Where one differs, the rule **broker-pruning** has to explain it.

The rows were not recorded. Those here have what records and answers say of them: ids 0 to 998 in the segment of
partition 0 and the odd ones in the other, 500 docs each, their days, and 144 times the name 'n1'. Independent: the
reference's answers.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from golden_comparison import Answer, difference
from golden_recordings import REPOSITORY
from golden_rules import rule_for
from in_process import InProcessCluster

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.pql.ast import Dialect

FOLDER = REPOSITORY / "tests" / "golden" / "rest"
SEGMENTS = {"parts_18000_18004_0": 18_000, "parts_18010_18014_1": 18_010}
NUM_ROWS = 500
RULE = "broker-pruning"
# Left out: texts at the path of the other dialect, halves of the table, and options (no time, nonsense) say nothing of
# pruning.
DIALECT_OF = {"/query": "pql", "/query/sql": "sql"}
HEALTHY = ("partitioned table, filter on partition", "partitioned table", "all up")


def recorded(version: str) -> list[dict[str, Any]]:
    with gzip.open(FOLDER / f"{version}_broker.jsonl.gz", "rt", encoding="utf-8") as lines:
        exchanges = [json.loads(line) for line in lines]
    return [each for each in exchanges if each["phase"] in HEALTHY and is_replayed(version, each)]


def is_replayed(version: str, exchange: dict[str, Any]) -> bool:
    body, dialect = exchange["request_body"], DIALECT_OF.get(exchange["path"], "")
    if exchange["status"] != 200 or not isinstance(body, dict) or not body.keys() <= {dialect, "trace"}:
        return False
    words = str(body.get(dialect)).split()
    # 0.6.0 knows columns in their own letter case only, also in SQL, of which it is not the reference.
    return "parts" in words and not (version == "v060" and "NAME='n1'" in words)


def document(version: str, key: str) -> dict[str, Any]:
    """What the recording's client created: the schema or the table config of `parts`."""
    with gzip.open(FOLDER / f"{version}_rest.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            exchange = json.loads(line)
            body = exchange["request_body"]
            if exchange["method"] == "POST" and isinstance(body, dict) and body.get(key) == "parts":
                found: dict[str, Any] = body
                return found
    raise AssertionError(f"{version}: no document with {key} 'parts'")


def rows(partition: int, first_day: int) -> list[pa.RecordBatch]:
    ids = range(partition, 2 * NUM_ROWS, 2)
    columns = {
        "id": pa.array(ids, pa.int32()),
        "name": pa.array([f"n{place % 7}" for place in range(NUM_ROWS)]),
        "amount": pa.array([id * 3 for id in ids], pa.int64()),
        "day": pa.array([first_day + id % 5 for id in ids], pa.int32()),
    }
    return [pa.RecordBatch.from_pydict(columns)]


def counters(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in answer.items() if name.startswith("num") or name == "totalDocs"}


@pytest.mark.parametrize("version", ["v060", "v151"])
def test_recorded_answers_of_a_partitioned_table(
    version: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster, counts = InProcessCluster(tmp_path, num_servers=2, null_handling=False, prunes=True), Counter[str]()
    schema = Schema.from_json(document(version, "schemaName"))
    config = TableConfig.from_json(document(version, "tableName"))
    try:
        cluster.add_table(
            schema,
            config,
            [rows(partition, day) for partition, day in enumerate(SEGMENTS.values())],
            segment_names=list(SEGMENTS),
        )
        for exchange in recorded(version):
            dialect = DIALECT_OF[exchange["path"]]
            text, theirs = exchange["request_body"][dialect], json.loads(exchange["response"])
            ours = cluster.ask(text, Dialect(dialect.upper()))
            line = {dialect: text}
            where = f"{version} [{exchange['step']}] {text}"
            wanted, found = counters(theirs), counters(ours)
            differing = {name for name, value in wanted.items() if found.get(name) != value}
            why = difference(Answer(200, theirs), Answer(200, ours), line, check_order=True)
            if why is None and not differing:
                counts["equal"] += 1
                continue
            assert rule_for(dialect, text, Answer(200, theirs), Answer(200, ours)) == RULE, (where, why, differing)
            # What the rule may explain is this alone: the docs of segments that nobody was asked for.
            assert differing == {"totalDocs"} and found["totalDocs"] == NUM_ROWS * len(SEGMENTS), (where, differing)
            assert wanted["totalDocs"] == NUM_ROWS and found["numSegmentsPrunedByBroker"] == 1, where
            counts[RULE] += 1
    finally:
        cluster.close()
    with capsys.disabled():
        print(f"\nparts {version}: {dict(counts)}")
    assert counts["equal"] >= 1 and counts[RULE] == 1
