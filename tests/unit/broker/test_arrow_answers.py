"""Proves answers in Arrow: every type of column with and without nulls, lists, duplicate names, no rows, all kinds of
queries, EXPLAIN, partial answers and faults. The oracle is the data as it was written down here, and the JSON answer to
the same query.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from in_process import InProcessCluster

from pinotpy.broker.handler import Question, answer_query
from pinotpy.broker.parts import EVERY_TABLE
from pinotpy.client.arrow_answers import ArrowResultSet
from pinotpy.client.result import parse_response
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.data_types import DataType
from pinotpy.decimals import encode_decimal
from pinotpy.errors import QueryTimeoutError, ServerUnreachableError
from pinotpy.pql.ast import Dialect
from pinotpy.query.model.result_type import ResultType
from pinotpy.query.result.partial import PartialResult
from pinotpy.query.result.reduced import ResultColumn
from pinotpy.query.result.response import arrow
from pinotpy.rpc.wire import ServerRequest

TIMESTAMP = pa.timestamp("ms", "UTC")
INFINITY = float("inf")
# Of every type: values as they are stored, the Arrow type of an answer, values of an answer.
COLUMNS: dict[str, tuple[DataType, list[Any], pa.DataType, list[Any]]] = {
    "i": (DataType.INT, [1, -(2**31) + 1, None], pa.int32(), [1, -(2**31) + 1, None]),
    "l": (DataType.LONG, [2**53 + 1, -5, None], pa.int64(), [2**53 + 1, -5, None]),
    "f": (
        DataType.FLOAT,
        [0.1, -INFINITY, None],
        pa.float32(),
        [pa.scalar(0.1, pa.float32()).as_py(), -INFINITY, None],
    ),
    "d": (DataType.DOUBLE, [0.1, INFINITY, None], pa.float64(), [0.1, INFINITY, None]),
    "b": (DataType.BOOLEAN, [True, False, None], pa.bool_(), [True, False, None]),
    "t": (
        DataType.TIMESTAMP,
        [1_357_095_845_500, -1, None],
        TIMESTAMP,
        [datetime(2013, 1, 2, 3, 4, 5, 500_000, UTC), datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC), None],
    ),
    "m": (
        DataType.BIG_DECIMAL,
        [encode_decimal(Decimal("-1.25")), encode_decimal(Decimal(10**20)), None],
        pa.decimal128(38, 2),
        [Decimal("-1.25"), Decimal(f"{10**20}.00"), None],
    ),
    "s": (DataType.STRING, ["é", "", None], pa.string(), ["é", "", None]),
    "j": (DataType.JSON, ['{"a":1}', "[]", None], pa.string(), ['{"a":1}', "[]", None]),
    "x": (DataType.BYTES, [b"\x00\xff", b"", None], pa.binary(), [b"\x00\xff", b"", None]),
}
LISTS: dict[str, tuple[DataType, list[list[Any]], pa.DataType, list[list[Any]]]] = {
    "li": (DataType.INT, [[1, 2], [3], [4, 5, 6]], pa.int32(), [[1, 2], [3], [4, 5, 6]]),
    "ls": (DataType.STRING, [["a"], ["b", "é"], ["c"]], pa.string(), [["a"], ["b", "é"], ["c"]]),
    "ld": (DataType.DOUBLE, [[0.5], [INFINITY, -1.0], [2.0]], pa.float64(), [[0.5], [INFINITY, -1.0], [2.0]]),
    "lt": (DataType.TIMESTAMP, [[0], [1, 1000], [2]], TIMESTAMP, [[0], [1, 1000], [2]]),
}
SCHEMA = {
    "schemaName": "t",
    "dimensionFieldSpecs": [
        *[{"name": name, "dataType": kind.value} for name, (kind, *_) in COLUMNS.items()],
        *[{"name": name, "dataType": kind.value, "singleValueField": False} for name, (kind, *_) in LISTS.items()],
    ],
}
CONFIG = {
    "tableName": "t",
    "tableType": "OFFLINE",
    "segmentsConfig": {"replication": "1"},
    "tenants": {},
    "tableIndexConfig": {"nullHandlingEnabled": True},
    "metadata": {},
}
NULLS = "enableNullHandling=true"


def batch(start: int, stop: int) -> pa.RecordBatch:
    flat = {name: pa.array(values[start:stop], kind.arrow) for name, (kind, values, *_) in COLUMNS.items()}
    lists = {name: pa.array(values[start:stop], pa.list_(kind.arrow)) for name, (kind, values, *_) in LISTS.items()}
    return pa.RecordBatch.from_pydict({**flat, **lists})


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCluster]:
    directory: Path = tmp_path_factory.mktemp("cluster")
    made = InProcessCluster(directory, num_servers=2)
    made.add_table(Schema.from_json(SCHEMA), TableConfig.from_json(CONFIG), [[batch(0, 2)], [batch(2, 3)]])
    yield made
    made.close()


def table_of(cluster: InProcessCluster, text: str, options: str = NULLS) -> pa.Table:
    found = cluster.ask_arrow(text, query_options=options)
    assert not found.exceptions, found.exceptions
    assert isinstance(found.tables[0], ArrowResultSet)
    return found.to_arrow()


@pytest.mark.parametrize("name", COLUMNS)
def test_every_type_arrives_as_itself_and_nulls_stay_nulls(cluster: InProcessCluster, name: str) -> None:
    kind, _, expected_type, expected = COLUMNS[name]
    table = table_of(cluster, f"SELECT {name} FROM t LIMIT 10")
    assert table.schema.field(0).type == expected_type and table.schema.field(0).metadata == {
        b"pinot.type": kind.value.encode()
    }
    found = table.column(0).to_pylist()
    assert sorted(found, key=repr) == sorted(expected, key=repr)
    # Without null handling the null is the default value of the column, as in JSON.
    assert table_of(cluster, f"SELECT {name} FROM t LIMIT 10", "enableNullHandling=false").column(0).null_count == 0


@pytest.mark.parametrize("name", LISTS)
def test_lists_of_every_type(cluster: InProcessCluster, name: str) -> None:
    kind, _, expected_type, expected = LISTS[name]
    table = table_of(cluster, f"SELECT {name} FROM t LIMIT 10")
    assert table.schema.field(0).type == pa.list_(expected_type) and table.schema.field(0).metadata == {
        b"pinot.type": f"{kind.value}_ARRAY".encode()
    }
    if kind is DataType.TIMESTAMP:
        table = table.set_column(0, name, table.column(0).cast(pa.list_(pa.int64())))
    assert sorted(table.column(0).to_pylist()) == sorted(expected)


QUERIES = [
    "SELECT * FROM t LIMIT 10",
    f"SELECT {', '.join(COLUMNS)} FROM t ORDER BY l LIMIT 10",
    "SELECT i, i, l AS i FROM t ORDER BY i LIMIT 10",
    "SELECT i, t, li, lt FROM t WHERE i = 77 LIMIT 10",
    "SELECT i FROM t LIMIT 0",
    "SELECT COUNT(*), SUM(d), MAX(f), MIN(l), AVG(i), DISTINCTCOUNT(s) FROM t",
    "SELECT COUNT(*), SUM(d), MAX(f) FROM t WHERE i = 77",
    "SELECT s, t, COUNT(*), MAX(d) FROM t GROUP BY s, t ORDER BY s, t LIMIT 10",
    "SELECT m, b, x, j FROM t GROUP BY m, b, x, j ORDER BY m LIMIT 10",
    "SELECT s, COUNT(*) FROM t WHERE i = 77 GROUP BY s LIMIT 10",
    "SELECT s, COUNT(*) FROM t GROUP BY s HAVING COUNT(*) > 100 LIMIT 10",
    "SELECT DISTINCT t, m FROM t ORDER BY t LIMIT 10",
    "SELECT DISTINCT li FROM t ORDER BY li LIMIT 10",
    "SELECT lt, COUNT(*) FROM t GROUP BY lt ORDER BY lt LIMIT 10",
    "SELECT i + 1, CAST(d AS STRING), i > 0, UPPER(s), CAST(i AS TIMESTAMP) FROM t ORDER BY i LIMIT 10",
    "SELECT 1, 'x', NULL, TRUE, 2.5, 12345678901234567890123 FROM t LIMIT 2",
    "SELECT 1, 'x', TRUE, 12345678901234567890123",
    "SELECT l FROM t ORDER BY l LIMIT 1 OFFSET 1",
    "SELECT lt, ls FROM t ORDER BY l LIMIT 1 OFFSET 2",
    "EXPLAIN PLAN FOR SELECT i FROM t WHERE s = 'é' LIMIT 1",
]


@pytest.mark.parametrize("name", COLUMNS)
def test_rows_of_what_has_no_type_of_its_own_are_those_of_json(cluster: InProcessCluster, name: str) -> None:
    text = (
        f"SELECT COALESCE(ANYVALUE({name}), ANYVALUE({name})), CASE WHEN COUNT(*) > 5 THEN ANYVALUE({name}) END FROM t"
    )
    by_json, by_arrow = (
        parse_response(cluster.ask(text, Dialect.SQL, query_options=NULLS)),
        cluster.ask_arrow(text, query_options=NULLS),
    )
    assert by_json.types == by_arrow.types == ("OBJECT", "OBJECT")
    assert by_json.rows[0][1] is None and repr(by_arrow.rows) == repr(by_json.rows)


@pytest.mark.parametrize("options", ["", NULLS])
@pytest.mark.parametrize("text", QUERIES)
def test_answers_are_those_of_json(cluster: InProcessCluster, text: str, options: str) -> None:
    answer = cluster.ask(text, Dialect.SQL, query_options=options)
    by_json, by_arrow = parse_response(answer), cluster.ask_arrow(text, query_options=options)
    assert by_json.exceptions == () and by_json.tables
    assert isinstance(by_arrow.tables[0], ArrowResultSet) and len(by_arrow) == len(by_json)
    assert (by_arrow.columns, by_arrow.types, repr(by_arrow.rows)) == (
        by_json.columns,
        by_json.types,
        repr(by_json.rows),
    )
    assert repr(by_arrow.to_arrow().to_pylist()) == repr(by_json.to_arrow().to_pylist())
    # All that JSON says beside its rows, in the same words; the rows are not there twice.
    assert by_arrow.response.keys() == answer.keys() - {"resultTable"}
    assert by_arrow.response["numRowsResultSet"] == answer["numRowsResultSet"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("SELEC 1", 150),
        ("SELECT nope FROM t", 710),
        ("SELECT i FROM nope", 190),
        ("SELECT SUM(s, 1) FROM t", 150),
        ("SELECT i FROM t", 0),
    ],
)
def test_faults_are_the_json_of_today(cluster: InProcessCluster, text: str, code: int) -> None:
    def answered(*, wants_arrow: bool) -> Any:
        return asyncio.run(
            answer_query(cluster.broker, Question(text, Dialect.SQL), EVERY_TABLE, wants_arrow=wants_arrow)
        )

    found = answered(wants_arrow=True)
    assert isinstance(found, bytes) == (code != 0)
    if code:
        theirs, ours = json.loads(found), json.loads(answered(wants_arrow=False))
        assert theirs["exceptions"] == ours["exceptions"] and theirs["exceptions"][0]["errorCode"] == code
        assert theirs.keys() == ours.keys() and "resultTable" not in theirs


def test_a_partial_answer_says_so_beside_its_rows(cluster: InProcessCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    send = cluster.broker.send

    async def broken(server: str, request: ServerRequest, timeout_s: float) -> PartialResult:
        if server == "Server_test_1":
            raise ServerUnreachableError("gone")
        return await send(server, request, timeout_s)

    monkeypatch.setattr(cluster.broker, "send", broken)
    found = cluster.ask_arrow("SELECT l FROM t LIMIT 10")
    assert isinstance(found.tables[0], ArrowResultSet) and len(found) == 2
    assert found.partial and found.exactness == "partial" and {e.code for e in found.exceptions} == {305, 425}
    cluster.broker.quarantine.clear()


@pytest.mark.parametrize("text", ["SELECT NULL, 1", "SELECT NULL, l FROM t LIMIT 2", "SELECT NULL, l FROM t LIMIT 0"])
def test_a_bare_null_has_one_type_for_any_number_of_rows(cluster: InProcessCluster, text: str) -> None:
    table = cluster.ask_arrow(text).to_arrow()
    assert table.schema.field(0).type == pa.null() and table.schema.field(0).metadata == {b"pinot.type": b"UNKNOWN"}


def test_limits_that_were_reached_are_told(cluster: InProcessCluster) -> None:
    found = cluster.ask_arrow("SELECT l, COUNT(*) FROM t GROUP BY l LIMIT 10", query_options="numGroupsLimit=1")
    assert found.statistics.num_groups_limit_reached and found.exactness == "bounded" and len(found) == 1


def test_a_trace_is_in_the_answer(cluster: InProcessCluster) -> None:
    found = cluster.ask_arrow("SELECT l FROM t LIMIT 10", trace=True)
    assert {"broker"} < found.trace.keys()


def test_pql_answers_with_one_table_where_it_has_one(cluster: InProcessCluster) -> None:
    def ask(text: str) -> Any:
        return cluster.ask_arrow(text, Dialect.PQL)

    selected = ask("SELECT l, t, b FROM t LIMIT 10")
    assert isinstance(selected.tables[0], ArrowResultSet) and selected.types == ("LONG", "TIMESTAMP", "BOOLEAN")
    counted = ask("SELECT COUNT(*), MAX(l) FROM t")
    assert counted.rows == [[3, float(2**53 + 1)]]
    grouped = ask("SELECT COUNT(*) FROM t WHERE l = -5 GROUP BY b, l TOP 10")
    assert (grouped.columns, grouped.rows) == (("b", "l", "count_star"), [[False, -5, 1]])
    # Two lists of groups are no table: JSON, as without the header.
    several = ask("SELECT COUNT(*), MAX(l) FROM t GROUP BY b TOP 10")
    assert several.result_set_count == 2 and not isinstance(several.tables[0], ArrowResultSet)
    assert not isinstance(ask("SELECT l FROM t LIMIT 10 OPTION(explain=true)").result_sets[:1], ArrowResultSet)


# --- columns and pieces --------------------------------------------------------------------------------------------


def column(kind: DataType | None, values: pa.Array, *, single_value: bool = True) -> ResultColumn:
    return ResultColumn("c", ResultType(kind, single_value), values)


@pytest.mark.parametrize(
    ("texts", "expected_type"),
    [
        ([], pa.decimal128(38, 0)),
        ([None], pa.decimal128(38, 0)),
        (["0"], pa.decimal128(38, 0)),
        (["1E+29", "1.00000001"], pa.decimal128(38, 8)),
        (["9" * 38, None], pa.decimal128(38, 0)),
        (["0." + "0" * 37 + "1"], pa.decimal128(38, 38)),
        (["0." + "0" * 37 + "1", "0"], pa.decimal128(38, 38)),
        (["1E+30", "1.00000001"], pa.string()),
        (["9" * 39], pa.string()),
        (["1" * 30, "0." + "1" * 9], pa.string()),
        (["1E+200", "-1E-200", None], pa.string()),
    ],
)
def test_decimals_are_of_38_digits_or_text(texts: list[str | None], expected_type: pa.DataType) -> None:
    values = pa.array([None if text is None else encode_decimal(Decimal(text)) for text in texts], pa.binary())
    found = arrow.table_of((column(DataType.BIG_DECIMAL, values),)).column(0)
    assert found.type == expected_type
    assert [None if value is None else Decimal(value) for value in found.to_pylist()] == [
        None if text is None else Decimal(text) for text in texts
    ]


def test_lists_that_are_slices_with_nulls_keep_their_items() -> None:
    values = pa.array([[9], [1, 2], None, [], [3]], pa.list_(pa.int64()))
    whole = arrow.table_of((column(DataType.TIMESTAMP, values, single_value=False),)).column(0)
    part = arrow.table_of((column(DataType.TIMESTAMP, values.slice(1, 3), single_value=False),)).column(0)
    assert whole.cast(pa.list_(pa.int64())).to_pylist() == [[9], [1, 2], None, [], [3]]
    assert part.cast(pa.list_(pa.int64())).to_pylist() == [[1, 2], None, []]


def test_columns_go_out_without_a_copy() -> None:
    longs, times = pa.array([1, 2, 3]), pa.array([4, 5, 6])
    table = arrow.table_of((column(DataType.LONG, longs), column(DataType.TIMESTAMP, times)))
    assert [c.chunk(0).buffers()[1].address for c in table.columns] == [
        array.buffers()[1].address for array in (longs, times)
    ]


@pytest.mark.parametrize("piece_bytes", [1, 100, 1 << 20])
def test_pieces_of_any_size_are_one_stream(piece_bytes: int) -> None:
    table = pa.table(
        {
            "n": range(500),
            "s": [f"é{i}" if i % 3 else None for i in range(500)],
            "l": [[i] * (i % 4) for i in range(500)],
        }
    ).slice(7)
    pieces = list(arrow.stream_pieces(arrow.with_response(table, b"{}"), piece_bytes))
    with pa.ipc.open_stream(b"".join(pieces)) as reader:
        assert reader.read_all().equals(table)
    with pytest.raises(StopIteration), pa.ipc.open_stream(b"".join(arrow.stream_pieces(table.slice(0, 0)))) as reader:
        reader.read_next_batch()


def test_pieces_are_as_small_as_asked_and_made_when_asked_for() -> None:
    table = pa.table({"n": pa.array(range(1_000_000), pa.int64())})
    before = pa.total_allocated_bytes()
    sizes, most = [], 0
    for piece in arrow.stream_pieces(table):
        sizes.append(len(piece))
        most = max(most, pa.total_allocated_bytes() - before)
    assert max(sizes) < arrow.PIECE_BYTES * 1.1 and len(sizes) > 7
    # The piece in hand, and the one that is being made.
    assert most < 2.2 * arrow.PIECE_BYTES


def test_a_column_that_takes_too_long_ends_with_the_query() -> None:
    def check() -> None:
        raise QueryTimeoutError("late")

    with pytest.raises(QueryTimeoutError):
        arrow.table_of((column(DataType.LONG, pa.array([1])),), check)
