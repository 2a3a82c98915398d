"""Proves that counters and EXPLAIN speak of segments, whatever pieces their rows lie in: a consuming segment of several
chunks, segments of the log that have ended, one without rows, and sealed ones beside them; in both dialects.

ids are twice the number of the row, so that a range may lie within a piece and select nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from consuming_registry import ReadLog, filled_log
from in_process import InProcessCluster

from pinotpy.broker.catalog import Half, Target
from pinotpy.broker.routing.table_routing import TableRouting
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig

TABLE = "t_OFFLINE"
SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [{"name": "kind", "dataType": "STRING"}, {"name": "half", "dataType": "STRING"}],
        "metricFieldSpecs": [{"name": "id", "dataType": "LONG"}],
    }
)
CONFIG = TableConfig.from_json(
    {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1", "schemaName": "t"},
        "tenants": {},
        "tableIndexConfig": {"noDictionaryColumns": ["id"]},
        "metadata": {},
    }
)
CHUNK_ROWS = 100
SEALED = 200  # rows in two files, before the log
ENDS = (450, 580, 580)  # of segments of the log; the one that begins last takes rows, and the one before has none
NUM_ROWS = 755


def name(sequence: int) -> str:
    return f"t__0__{sequence}__20260101T0000Z"


LOG = {name(2): (SEALED, 450), name(3): (450, 580), name(4): (580, 580), name(5): (580, NUM_ROWS)}


def pieces() -> list[tuple[str, int, int]]:
    """(segment, first and end row) of everything that is pruned or read as one."""
    found = [("sealed", 0, 100), ("sealed too", 100, SEALED)]
    for segment, (first, end) in LOG.items():
        for begin in range(SEALED, NUM_ROWS, CHUNK_ROWS):
            low, high = max(first, begin), min(end, begin + CHUNK_ROWS)
            found += [(segment, low, high)] if low < high else []
    return found


def batch(first: int, end: int) -> pa.RecordBatch:
    rows = range(first, end)
    return pa.RecordBatch.from_pydict(
        {
            "kind": pa.array([f"k{row % 7}" for row in rows]),
            "half": pa.array(["late" if row >= 650 else "early" for row in rows]),
            "id": pa.array([2 * row for row in rows], pa.int64()),
        }
    )


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCluster]:
    cluster = InProcessCluster(tmp_path_factory.mktemp("counters"), threads=2)
    (server,) = cluster.registries
    sealed = cluster.add_table(SCHEMA, CONFIG, [[batch(0, 100)], [batch(100, SEALED)]])
    log = filled_log(
        SCHEMA, CONFIG, [batch(SEALED, NUM_ROWS)], chunk_rows=CHUNK_ROWS, batch_rows=60, segment_name=name(2)
    )
    for sequence, end in enumerate(ENDS, 3):
        log.seal(2 * (end - SEALED), name(sequence))
    read = ReadLog(log, TABLE)
    cluster.registries[server].partitions = lambda table: {0: read} if table == TABLE else {}
    routing = dict.fromkeys([*sealed, *LOG], (server,))
    cluster.catalog.targets["t"] = Target("t", SCHEMA, (Half(TableRouting(TABLE, routing, (tuple(LOG),))),))
    view = read.piece_view()
    assert len(view.frozen) + len(view.tail) == len(pieces()) - 2 and len(view.tail) == 1
    yield cluster
    cluster.close()


def ask(cluster: InProcessCluster, text: str, dialect: str) -> dict[str, Any]:
    answer = (cluster.pql if dialect == "pql" else cluster.sql)(text)
    assert not answer["exceptions"], answer
    return answer


def counters(answer: dict[str, Any]) -> tuple[int, int, int, int]:
    """queried, processed, matched, pruned; all that must hold of any answer is checked."""
    assert answer["numSegmentsQueried"] == 6 and answer["totalDocs"] == NUM_ROWS
    assert answer["numConsumingSegmentsQueried"] == 4
    found = tuple(answer[f"numSegments{what}"] for what in ("Queried", "Processed", "Matched", "PrunedByServer"))
    queried, processed, matched, pruned = found
    assert processed + pruned == queried and matched <= processed
    return queried, processed, matched, pruned


def of_range(low: int, high: int) -> tuple[int, int]:
    """Segments with a piece whose ids overlap, and of which some id lies in the range."""
    processed = {segment for segment, first, end in pieces() if 2 * first <= high and low <= 2 * (end - 1)}
    matched = {segment for segment, first, end in pieces() if any(low <= 2 * row <= high for row in range(first, end))}
    return len(processed), len(matched)


@pytest.mark.parametrize("dialect", ["pql", "sql"])
@pytest.mark.parametrize(
    ("low", "high"),
    [
        (0, 2 * NUM_ROWS),  # everything
        (-5, -1),  # nothing
        (601, 601),  # within a piece, selects nothing
        (799, 799),  # between two pieces
        (640, 820),  # two pieces of one segment
        (890, 910),  # the seam of two segments
        (1_400, 1_450),  # the tail alone
        (1_300, 1_450),  # a frozen piece and the tail, of one segment
        (190, 420),  # sealed segments and the first of the log
    ],
)  # fmt: skip
def test_segments_are_counted_once(cluster: InProcessCluster, dialect: str, low: int, high: int) -> None:
    processed, matched = of_range(low, high)
    for text in (
        f"SELECT SUM(id) FROM t WHERE id BETWEEN {low} AND {high}",
        f"SELECT kind, COUNT(*) FROM t WHERE id BETWEEN {low} AND {high} GROUP BY kind",
    ):
        answer = ask(cluster, text, dialect)
        assert counters(answer) == (6, processed, matched, 6 - processed), text
    if dialect == "sql":
        sealed = {segment for segment, first, end in pieces()[:2] if 2 * first <= high and low <= 2 * (end - 1)}
        assert answer["numConsumingSegmentsProcessed"] == processed - len(sealed)
        assert answer["numConsumingSegmentsMatched"] <= matched


@pytest.mark.parametrize("dialect", ["pql", "sql"])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # All but the one without rows.
        ("SELECT COUNT(*) FROM t", (6, 5, 5, 1)),
        ("SELECT MIN(id), MAX(id) FROM t", (6, 5, 5, 1)),
        ("SELECT COUNT(*) FROM t WHERE kind = 'k3'", (6, 5, 5, 1)),
        ("SELECT COUNT(*) FROM t WHERE kind = 'nobody'", (6, 0, 0, 6)),
        ("SELECT COUNT(*) FROM t WHERE half = 'late'", (6, 1, 1, 5)),
        ("SELECT COUNT(*) FROM t WHERE id > 0 AND MOD(id, 1000000) = 1", (6, 5, 0, 1)),
        ("SELECT id, kind FROM t ORDER BY id DESC LIMIT 3", (6, 5, 1, 1)),
        ("SELECT id, kind FROM t ORDER BY id LIMIT 250", (6, 5, 3, 1)),
        ("SELECT DISTINCT half FROM t ORDER BY half LIMIT 5", (6, 5, 5, 1)),
        ("SELECT id FROM t LIMIT 3", (6, 1, 1, 5)),
        ("SELECT id FROM t LIMIT 500", (6, 4, 4, 2)),
        ("SELECT id FROM t LIMIT 0", (6, 5, 0, 1)),
    ],
)
def test_every_kind_of_query_counts_segments(
    cluster: InProcessCluster, dialect: str, text: str, expected: tuple[int, ...]
) -> None:
    if dialect == "pql" and "DISTINCT" in text:
        text = "SELECT DISTINCT(half) FROM t ORDER BY half LIMIT 5"
    assert counters(ask(cluster, text, dialect)) == expected, text


def test_virtual_columns_number_the_docs_of_segments(cluster: InProcessCluster) -> None:
    rows = ask(
        cluster,
        "SELECT $segmentName, COUNT(*), MIN($docId), MAX($docId), MIN(id) FROM t GROUP BY $segmentName "
        "ORDER BY MIN(id) LIMIT 10",
        "sql",
    )["resultTable"]["rows"]
    expected = [[segment, end - first, 0.0, end - first - 1.0, 2.0 * first]
                for segment, (first, end) in LOG.items() if first < end]  # fmt: skip
    assert rows[2:] == expected and len(rows) == 5


def plans(answer: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = answer["explain"]["plans"]
    assert sum(group["segments"] for group in found) == answer["numSegmentsQueried"] == 6
    assert sorted(each for group in found for each in group["names"]) == sorted(
        set(LOG) | {each for group in found for each in group["names"] if "__" not in each}
    )
    pruned = sum(group["segments"] for group in found if "pruned" in group)
    assert answer["numSegmentsPrunedByServer"] == pruned
    return found


@pytest.mark.parametrize("dialect", ["pql", "sql"])
def test_explain_says_one_thing_of_each_segment(cluster: InProcessCluster, dialect: str) -> None:
    def explained(text: str) -> dict[str, Any]:
        return ask(cluster, f"EXPLAIN PLAN FOR {text}", dialect)

    answer = explained("SELECT SUM(id) FROM t WHERE id BETWEEN 1300 AND 1450")
    groups = {each: group for group in plans(answer) for each in group["names"]}
    assert "pruned" not in groups[name(5)] and groups[name(5)]["docs"] == [175, 175]
    assert groups[name(5)]["toRead"] == [155, 155], "of the pieces that are read"
    assert groups[name(4)]["pruned"]["rule"] == "no docs" and groups[name(4)]["docs"] == [0, 0]
    assert groups[name(3)]["pruned"]["values"]["id"] == [[0, 198], [200, 398], [400, 898], [900, 1158]]
    whole = explained("SELECT SUM(id) FROM t WHERE kind = 'k3'")
    assert [group["segments"] for group in plans(whole) if "pruned" not in group] == [5]
    if dialect == "sql":
        rows = [row[0] for row in whole["resultTable"]["rows"]]
        assert "PLAN_START(numSegmentsForThisPlan:5)" in rows and "PLAN_START(numSegmentsForThisPlan:1)" in rows
        some = explained("SELECT SUM(id) FROM t WHERE half = 'early'")
        plans(some)
        # Of the last segment one piece has both, so it does not match as a whole.
        assert some["explainPlanNumMatchAllFilterSegments"] == 4
        assert some["explainPlanNumEmptyFilterSegments"] == 0
    assert len(plans(explained("SELECT id FROM t LIMIT 3"))) == 3
    assert len(plans(explained("SELECT id FROM t LIMIT 0"))) == 2
