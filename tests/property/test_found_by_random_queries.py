"""Queries that random ones found wrong once, made small: each with the answer that is written down here, over three
segments on two servers, with and without null handling.
"""

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
ROWS = [
    (1, "a", [1, 2], 0.5),
    (2, "b", [2], -2.0),
    (3, "c", [3, 3], 4.0),
    (4, "a", [1], 0.25),
    (5, "b", [5, 1, 2], 1.0),
    (6, "", [7], 8.0),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCluster]:
    built = InProcessCluster(tmp_path_factory.mktemp("found"), num_servers=2)
    kinds = {"number": pa.int32(), "word": pa.string(), "numbers": pa.list_(pa.int32()), "fraction": pa.float64()}
    splits = [
        [
            pa.RecordBatch.from_arrays(
                [pa.array([row[n] for row in ROWS[first : first + 2]], kind) for n, kind in enumerate(kinds.values())],
                list(kinds),
            )
        ]
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
    return (
        answer["selectionResults"]["results"]
        if "selectionResults" in answer
        else [[a["value"] for a in answer["aggregationResults"]]]
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # A computed condition behind one that lets no doc of a segment through.
        (
            "SELECT COUNT(*) FROM t WHERE number > 1 AND length(concat(word, number)) > 200 AND length(concat(word, "
            "number)) > 300",
            [[0]],
        ),
        ("SELECT COUNT(*) FROM t WHERE fraction > 100 AND add(number, fraction) > 2", [[0]]),
        # NaN (of mod(x, 0)) is equal to itself, and neither above nor below a number (recorded); -0.0 (of mod(-2.0, 2))
        # is 0.0.
        ("SELECT COUNT(*) FROM t WHERE mod(number, 0) > 5", [[0]]),
        ("SELECT COUNT(*) FROM t WHERE mod(number, 0) <= 5", [[0]]),
        ("SELECT COUNT(*) FROM t WHERE greater_than(mod(number, 0), fraction) = 1", [[0]]),
        ("SELECT COUNT(*) FROM t WHERE mod(fraction, 2) IN (0, 7)", [[3]]),
        ("SELECT COUNT(*) FROM t WHERE mod(number, 2) IN (-0.0, 7.5)", [[3]]),
    ],
)
@pytest.mark.parametrize("dialect", ["pql", "sql", "sql with nulls"])
def test_queries_that_were_wrong_once(
    cluster: InProcessCluster, dialect: str, text: str, expected: list[list[Any]]
) -> None:
    nulls = dialect == "sql with nulls"
    answer = (cluster.pql if dialect == "pql" else cluster.sql)(
        text, query_options=f"preserveType=true;enableNullHandling={str(nulls).lower()}"
    )
    assert values(answer) == expected


def test_nan_equals_nan_where_expressions_are_compared(cluster: InProcessCluster) -> None:
    assert values(cluster.sql("SELECT COUNT(*) FROM t WHERE mod(number, 0) = mod(fraction, 0)")) == [[6]]
    assert values(cluster.sql("SELECT COUNT(*) FROM t WHERE mod(number, 0) <> mod(fraction, 0)")) == [[0]]
    assert values(cluster.sql("SELECT COUNT(*) FROM t WHERE NOT mod(number, 0) <= number")) == [[6]]


def test_arithmetic_over_aggregations_is_answered(cluster: InProcessCluster) -> None:
    assert values(cluster.sql("SELECT SUM(number) / COUNT(*), MAX(number + 1), SUM(number) > 3 FROM t")) == [
        [3.5, 7.0, True]
    ]
    assert values(cluster.sql("SELECT word, SUM(number) + 1 FROM t GROUP BY word ORDER BY word")) == [
        ["", 7.0],
        ["a", 6.0],
        ["b", 8.0],
        ["c", 4.0],
    ]


def test_a_number_in_the_place_of_bytes_is_refused_and_no_internal_error(cluster: InProcessCluster) -> None:
    for constant in ("5", "-9223372036854775808", "2.5"):
        # SQL computes constants before any row is read.
        in_sql, in_pql = (
            cluster.sql(f"SELECT number FROM t ORDER BY sha256({constant})"),
            cluster.pql(f"SELECT COUNT(*) FROM t WHERE sha256({constant}) = 'x'"),
        )
        assert [exception["errorCode"] for exception in in_sql["exceptions"]] == [150], in_sql["exceptions"]
        assert {exception["errorCode"] for exception in in_pql["exceptions"]} == {200}, in_pql["exceptions"]
    assert values(cluster.sql("SELECT number FROM t ORDER BY sha256(55), number LIMIT 1")) == [[1]]


def test_a_whole_constant_beyond_64_bits_beside_an_aggregation_is_exact(cluster: InProcessCluster) -> None:
    assert values(cluster.sql("SELECT 9223372036854775807 + 1, SUM(number), 18446744073709551616 FROM t")) == [
        ["9223372036854775808", 21.0, "18446744073709551616"]
    ]
    found = values(
        cluster.sql("SELECT word, -9223372036854775809, COUNT(*) FROM t GROUP BY word ORDER BY word LIMIT 1")
    )
    assert found == [["", "-9223372036854775809", 1]]


NULLS_SCHEMA = {
    "schemaName": "n",
    "dimensionFieldSpecs": [
        {"name": "id", "dataType": "INT"},
        {"name": "number", "dataType": "INT"},
        {"name": "word", "dataType": "STRING"},
        {"name": "flag", "dataType": "BOOLEAN"},
        {"name": "price", "dataType": "BIG_DECIMAL"},
    ],
}
# The second segment has no nulls, the first has.
NULLS_ROWS = [
    (1, 1, "a", True),
    (2, None, "a", None),
    (3, 3, None, False),
    (4, None, "b", True),
    (5, 5, "b", False),
    (6, 6, "c", True),
]


@pytest.fixture(scope="module")
def with_nulls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCluster]:
    built = InProcessCluster(tmp_path_factory.mktemp("nulls"))
    kinds = {"id": pa.int32(), "number": pa.int32(), "word": pa.string(), "flag": pa.bool_()}
    splits = []
    for first, end in ((0, 4), (4, 6)):
        columns = {
            name: pa.array([row[n] for row in NULLS_ROWS[first:end]], kind)
            for n, (name, kind) in enumerate(kinds.items())
        }
        columns["price"] = pa.nulls(end - first, pa.binary())
        splits.append([pa.RecordBatch.from_pydict(columns)])
    built.add_table(Schema.from_json(NULLS_SCHEMA), TableConfig.from_json(CONFIG | {"tableName": "n"}), splits)
    yield built
    built.close()


@pytest.mark.parametrize(
    ("text", "plain", "nulls"),
    [
        # COALESCE looks at the nulls in both modes; where all are null, plain mode reads the type's default.
        (
            "SELECT COALESCE(number, -7) FROM n ORDER BY id",
            [[1], [-7], [3], [-7], [5], [6]],
            [[1], [-7], [3], [-7], [5], [6]],
        ),
        ("SELECT COUNT(*) FROM n WHERE COALESCE(number, 7) = 7", [[2]], [[2]]),
        ("SELECT SUM(COALESCE(number, 0)) FROM n", [[15.0]], [[15.0]]),
        (
            "SELECT COALESCE(word, 'none') AS w, COUNT(*) FROM n GROUP BY w ORDER BY w",
            [["a", 2], ["b", 2], ["c", 1], ["none", 1]],
            None,
        ),
        (
            "SELECT COALESCE(NULLIF(number, 3), NULLIF(id, 2)) FROM n WHERE id < 4 ORDER BY id",
            [[1], [-(2**31)], [3]],
            [[1], [None], [3]],
        ),
        # CASE and NULLIF without a value are 0 and '' where they stand in plain mode, also inside another function.
        ("SELECT NULLIF(id, 2) + 1 FROM n WHERE id < 4 ORDER BY id", [[2.0], [1.0], [4.0]], [[2.0], [None], [4.0]]),
        ("SELECT SUM(CASE WHEN id > 4 THEN id END + 1) FROM n", [[17.0]], [[13.0]]),
        (
            "SELECT CONCAT(NULLIF(word, 'a'), 'x') FROM n WHERE id IN (1, 4) ORDER BY id",
            [["x"], ["bx"]],
            [[None], ["bx"]],
        ),
        ("SELECT CASE WHEN id > 9 THEN price END FROM n WHERE id = 1", [["0"]], [[None]]),
        # A fraction is equal to no whole number, also beside another equality.
        ("SELECT COUNT(*) FROM n WHERE id = 2.5 OR id = 2", [[1]], [[1]]),
        ("SELECT COUNT(*) FROM n WHERE id = 2 OR id = 3 OR id = 2.5 OR NOT id <> 4", [[3]], [[3]]),
        # Unknown is not false: its negation is unknown, too.
        ("SELECT COUNT(*) FROM n WHERE NOT NULL", [[6]], [[0]]),
        ("SELECT COUNT(*) FROM n WHERE NOT (NULL = 1)", [[6]], [[0]]),
        # Conditions on groups mean what they mean in WHERE, whatever the type of the key.
        ("SELECT price, COUNT(*) FROM n GROUP BY price HAVING price < 1", [["0", 6]], []),
        ("SELECT word, COUNT(*) FROM n GROUP BY word HAVING word = 5", [], []),
        (
            "SELECT flag, COUNT(*) FROM n GROUP BY flag HAVING flag IS NOT TRUE ORDER BY flag",
            [[False, 3]],
            [[False, 2], [None, 1]],
        ),
        # A whole number beyond all doubles.
        (f"SELECT COUNT(*) FROM n WHERE {'9' * 400} = 1 OR id < {'9' * 400}", [[6]], None),
        # One segment has nulls, the other none: both compute it in the same way.
        ("SELECT SUM(CAST(number IS DISTINCT FROM NULL AS INT)) FROM n", [[4.0]], [[4.0]]),
        ("SELECT MAX(CASE WHEN word IS NULL THEN id ELSE NULL END * 2) FROM n", [[6.0]], [[6.0]]),
    ],
)
def test_queries_over_nulls_that_were_wrong_once(
    with_nulls: InProcessCluster, text: str, plain: list[list[Any]], nulls: list[list[Any]] | None
) -> None:
    assert values(with_nulls.sql(text, query_options="enableNullHandling=false")) == plain
    assert values(with_nulls.sql(text, query_options="enableNullHandling=true")) == (plain if nulls is None else nulls)
