"""Queries that random ones found wrong once, made small: each with the answer that is written down here, over three segments
on two servers, with and without null handling."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from in_process import InProcessCluster

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig

SCHEMA = {
    "schemaName": "t",
    "dimensionFieldSpecs": [
        {"name": "number", "dataType": "INT"},
        {"name": "word", "dataType": "STRING"},
        {"name": "numbers", "dataType": "INT", "singleValueField": False},
    ],
    "metricFieldSpecs": [{"name": "fraction", "dataType": "DOUBLE"}],
}
CONFIG = {
    "tableName": "t", "tableType": "OFFLINE", "segmentsConfig": {"replication": "1"}, "tenants": {},
    "tableIndexConfig": {"nullHandlingEnabled": True}, "metadata": {},
}  # fmt: skip
ROWS = [(1, "a", [1, 2], 0.5), (2, "b", [2], -2.0), (3, "c", [3, 3], 4.0), (4, "a", [1], 0.25), (5, "b", [5, 1, 2], 1.0), (6, "", [7], 8.0)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCluster]:
    built = InProcessCluster(tmp_path_factory.mktemp("found"), num_servers=2)
    kinds = {"number": pa.int32(), "word": pa.string(), "numbers": pa.list_(pa.int32()), "fraction": pa.float64()}
    splits = [
        [pa.RecordBatch.from_arrays([pa.array([row[n] for row in ROWS[first : first + 2]], kind) for n, kind in enumerate(kinds.values())], list(kinds))]
        for first in (0, 2, 4)
    ]
    built.add_table(Schema.from_json(SCHEMA), TableConfig.from_json(CONFIG), splits)
    yield built
    built.close()


def values(answer: dict[str, Any]) -> Any:
    """The rows of an answer, or the values of a PQL aggregation."""
    assert not answer["exceptions"], answer["exceptions"]
    if "resultTable" in answer:
        return answer["resultTable"]["rows"]
    return answer["selectionResults"]["results"] if "selectionResults" in answer else [[a["value"] for a in answer["aggregationResults"]]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # A computed condition behind one that lets no doc of a segment through.
        ("SELECT COUNT(*) FROM t WHERE number > 1 AND length(concat(word, number)) > 200 AND length(concat(word, number)) > 300", [[0]]),
        ("SELECT COUNT(*) FROM t WHERE fraction > 100 AND add(number, fraction) > 2", [[0]]),
        # NaN (of mod(x, 0)) is equal to itself, and neither above nor below a number (recorded); -0.0 (of mod(-2.0, 2)) is 0.0.
        ("SELECT COUNT(*) FROM t WHERE mod(number, 0) > 5", [[0]]),
        ("SELECT COUNT(*) FROM t WHERE mod(number, 0) <= 5", [[0]]),
        ("SELECT COUNT(*) FROM t WHERE greater_than(mod(number, 0), fraction) = 1", [[0]]),
        ("SELECT COUNT(*) FROM t WHERE mod(fraction, 2) IN (0, 7)", [[3]]),
        ("SELECT COUNT(*) FROM t WHERE mod(number, 2) IN (-0.0, 7.5)", [[3]]),
    ],
)
@pytest.mark.parametrize("dialect", ["pql", "sql", "sql with nulls"])
def test_queries_that_were_wrong_once(cluster: InProcessCluster, dialect: str, text: str, expected: list[list[Any]]) -> None:
    nulls = dialect == "sql with nulls"
    answer = (cluster.pql if dialect == "pql" else cluster.sql)(text, query_options=f"preserveType=true;enableNullHandling={str(nulls).lower()}")
    assert values(answer) == expected


def test_nan_equals_nan_where_expressions_are_compared(cluster: InProcessCluster) -> None:
    assert values(cluster.sql("SELECT COUNT(*) FROM t WHERE mod(number, 0) = mod(fraction, 0)")) == [[6]]
    assert values(cluster.sql("SELECT COUNT(*) FROM t WHERE mod(number, 0) <> mod(fraction, 0)")) == [[0]]
    assert values(cluster.sql("SELECT COUNT(*) FROM t WHERE NOT mod(number, 0) <= number")) == [[6]]


def test_arithmetic_over_aggregations_is_answered(cluster: InProcessCluster) -> None:
    assert values(cluster.sql("SELECT SUM(number) / COUNT(*), MAX(number + 1), SUM(number) > 3 FROM t")) == [[3.5, 7.0, True]]
    assert values(cluster.sql("SELECT word, SUM(number) + 1 FROM t GROUP BY word ORDER BY word")) == [["", 7.0], ["a", 6.0], ["b", 8.0], ["c", 4.0]]


def test_a_number_in_the_place_of_bytes_is_refused_and_no_internal_error(cluster: InProcessCluster) -> None:
    for constant in ("5", "-9223372036854775808", "2.5"):
        asked = (cluster.sql(f"SELECT number FROM t ORDER BY sha256({constant})"), cluster.pql(f"SELECT COUNT(*) FROM t WHERE sha256({constant}) = 'x'"))
        for answer in asked:
            assert {exception["errorCode"] for exception in answer["exceptions"]} == {200}, answer["exceptions"]
    assert values(cluster.sql("SELECT number FROM t ORDER BY sha256(55), number LIMIT 1")) == [[1]]


def test_a_whole_constant_beyond_64_bits_beside_an_aggregation_is_exact(cluster: InProcessCluster) -> None:
    assert values(cluster.sql("SELECT 9223372036854775807 + 1, SUM(number), 18446744073709551616 FROM t")) == [
        ["9223372036854775808", 21.0, "18446744073709551616"]
    ]
    found = values(cluster.sql("SELECT word, -9223372036854775809, COUNT(*) FROM t GROUP BY word ORDER BY word LIMIT 1"))
    assert found == [["", "-9223372036854775809", 1]]
