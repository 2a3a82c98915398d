"""Proves the client's side of Arrow with a broker's answers written down: what is asked for, tables without a copy,
rows of JSON values, brokers that know JSON only, faults, streams that are none, limits, frames, and cursors.
"""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from fake_daemon import Daemon

from pinotpy.client import Connection, NotSupportedError, ProgrammingError, ResultKind, connect
from pinotpy.client.arrow_answers import CONTENT_TYPE
from pinotpy.errors import ParseError, PayloadTooLargeError, PinotError, RemoteError, ServerUnreachableError, UserError

COLUMNS: list[tuple[str, str, pa.Array]] = [
    ("i", "INT", pa.array([1, None], pa.int32())),
    ("i", "LONG", pa.array([2**53 + 1, None], pa.int64())),
    ("f", "FLOAT", pa.array([0.1, float("-inf")], pa.float32())),
    ("d", "DOUBLE", pa.array([float("nan"), 0.5], pa.float64())),
    ("t", "TIMESTAMP", pa.array([1_357_095_845_500, None], pa.timestamp("ms", "UTC"))),
    ("m", "BIG_DECIMAL", pa.array([Decimal("1.50"), Decimal("200.00")], pa.decimal128(38, 2))),
    ("x", "BYTES", pa.array([b"\x00\xff", None], pa.binary())),
    ("s", "STRING", pa.array(["é", None], pa.string())),
    ("b", "BOOLEAN", pa.array([True, None], pa.bool_())),
    ("lt", "TIMESTAMP_ARRAY", pa.array([[0, None], None], pa.list_(pa.timestamp("ms", "UTC")))),
    ("ld", "DOUBLE_ARRAY", pa.array([[float("inf")], []], pa.list_(pa.float64()))),
]
ROWS = [
    [
        1,
        2**53 + 1,
        0.1,
        "NaN",
        "2013-01-02 03:04:05.5",
        "1.5",
        "00ff",
        "é",
        True,
        ["1970-01-01 00:00:00.0", None],
        ["Infinity"],
    ],
    [None, None, "-Infinity", 0.5, None, "200", None, None, None, None, []],
]
FACTS: dict[str, Any] = {
    "numRowsResultSet": 2,
    "exceptions": [],
    "partialResult": False,
    "exactness": "exact",
    "numDocsScanned": 7,
}
JSON_ANSWER = {
    "resultTable": {"dataSchema": {"columnNames": ["n"], "columnDataTypes": ["LONG"]}, "rows": [[5], [6]]},
    "exceptions": [],
}


def table() -> pa.Table:
    return pa.Table.from_arrays(
        [values for _, _, values in COLUMNS],
        schema=pa.schema(
            [pa.field(name, values.type, metadata={b"pinot.type": kind.encode()}) for name, kind, values in COLUMNS]
        ),
    )


def is_same(found: pa.Table, expected: pa.Table) -> bool:
    """As `equals`, with NaN equal to itself."""
    return found.schema.equals(expected.schema) and all(
        repr(a.to_pylist()) == repr(b.to_pylist()) for a, b in zip(found, expected, strict=True)
    )


def stream(given: pa.Table | None = None, **facts: Any) -> bytes:
    given = table() if given is None else given
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(
        sink, given.schema.with_metadata({b"pinot.response": json.dumps(FACTS | facts).encode()})
    ) as writer:
        writer.write_table(given.replace_schema_metadata({b"pinot.response": json.dumps(FACTS | facts).encode()}))
    content: bytes = sink.getvalue().to_pybytes()
    return content


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    made = Daemon()
    answer(made, stream())
    yield made
    made.stop()


def answer(daemon: Daemon, content: bytes, content_type: str = CONTENT_TYPE) -> None:
    daemon.replies["POST /query/sql"] = daemon.replies["POST /query"] = (200, content, {"content-type": content_type})


@pytest.fixture
def connection(daemon: Daemon) -> Iterator[Connection]:
    with connect(broker=daemon.url) as made:
        yield made


def test_arrow_is_asked_for_only_where_it_is_wanted(daemon: Daemon, connection: Connection) -> None:
    connection.execute(sql="SELECT 1", format="arrow")
    assert daemon.asked[-1]["headers"]["Accept"] == f"{CONTENT_TYPE}, application/json;q=0.5"
    daemon.replies["POST /query/sql"] = (200, JSON_ANSWER)
    connection.execute(sql="SELECT 1")
    assert "arrow" not in daemon.asked[-1]["headers"]["Accept"]
    with pytest.raises(UserError, match="expected 'json' or 'arrow'"):
        connection.execute(sql="SELECT 1", format="parquet")


def test_the_table_is_the_one_that_came_and_rows_are_those_of_json(connection: Connection) -> None:
    group = connection.execute(sql="SELECT 1", format="arrow")
    assert is_same(group.to_arrow(), table()) and group.to_arrow().schema.metadata is None
    assert group.columns == tuple(name for name, _, _ in COLUMNS) and group.types == tuple(
        kind for _, kind, _ in COLUMNS
    )
    assert (len(group), group.result_set_count, group.result_set(0).kind, group.result_set(0).row_count) == (
        2,
        1,
        ResultKind.TABLE,
        2,
    )
    assert repr(group.rows) == repr(ROWS) and [list(row) for row in group] == ROWS and group.to_dicts()[0]["s"] == "é"
    assert group.result_set(0).get_long(0, 1) == 2**53 + 1 and group.result_set(0).is_null(1, 0)
    assert group.statistics.num_docs_scanned == 7 and group.counters["numDocsScanned"] == 7 and group.response == FACTS


def test_times_beyond_the_calendar_and_negative_ones_are_text_as_in_json(
    daemon: Daemon, connection: Connection
) -> None:
    values = pa.array([-1, 253_402_300_800_000, 0], pa.timestamp("ms", "UTC"))
    answer(
        daemon,
        stream(
            pa.table([values], schema=pa.schema([pa.field("t", values.type, metadata={b"pinot.type": b"TIMESTAMP"})])),
            numRowsResultSet=3,
        ),
    )
    rows = connection.execute(sql="SELECT 1", format="arrow").rows
    assert rows == [["1969-12-31 23:59:59.999"], ["253402300800000"], ["1970-01-01 00:00:00.0"]]


def test_a_broker_that_knows_json_only_gives_the_same_things(daemon: Daemon, connection: Connection) -> None:
    daemon.replies["POST /query/sql"] = (200, JSON_ANSWER)
    assert connection.execute(sql="SELECT 1", format="arrow").rows == [[5], [6]]
    assert connection.query_arrow("SELECT 1").equals(pa.table({"n": pa.array([5, 6], pa.int64())}))


def test_an_answer_to_sql_is_the_default_of_the_short_ways(daemon: Daemon, connection: Connection) -> None:
    pytest.importorskip("pandas")
    assert is_same(connection.query_arrow("SELECT ?", [1]), table())
    assert (daemon.asked[-1]["path"], json.loads(daemon.asked[-1]["body"])) == ("/query/sql", {"sql": "SELECT 1"})
    frame = connection.query_pandas("SELECT 1", dialect="pql", options={"timeoutMs": 7})
    assert (
        daemon.asked[-1]["path"] == "/query" and json.loads(daemon.asked[-1]["body"])["queryOptions"] == "timeoutMs=7"
    )
    assert [str(kind) for kind in frame.dtypes][:5] == ["Int32", "Int64", "float32", "float64", "datetime64[ms, UTC]"]
    assert frame.iloc[0, 1] == 2**53 + 1 and frame.iloc[0, 4] == datetime(2013, 1, 2, 3, 4, 5, 500_000, tzinfo=UTC)


def test_prepared_statements_and_other_threads_ask_for_arrow_too(daemon: Daemon, connection: Connection) -> None:
    statement = connection.prepare_statement("SELECT ?", dialect="sql")
    statement.set_long(1, 7)
    for group in (
        statement.execute(format="arrow"),
        statement.execute_async(format="arrow").result(60),
        connection.execute_async(sql="x", format="arrow").result(60),
    ):
        assert is_same(group.to_arrow(), table()) and "arrow" in daemon.asked[-1]["headers"]["Accept"]


def test_polars_gets_the_table_under_names_of_its_own(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    double = types.ModuleType("polars")
    double.from_arrow = lambda arrow: arrow  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "polars", double)
    assert connection.query_polars("SELECT 1").column_names[:3] == ["i", "i_1", "f"]


def test_faults_come_as_json_and_are_raised(daemon: Daemon, connection: Connection) -> None:
    daemon.replies["POST /query/sql"] = (200, {"exceptions": [{"errorCode": 150, "message": "SQLParsingError: no"}]})
    with pytest.raises(ParseError):
        connection.query_arrow("SELEC")


def test_faults_beside_rows_are_raised_unless_allowed(daemon: Daemon, connection: Connection) -> None:
    answer(daemon, stream(exceptions=[{"errorCode": 427, "message": "gone"}], partialResult=True))
    with pytest.raises(PinotError):
        connection.query_arrow("SELECT 1")
    group = connection.execute(sql="SELECT 1", format="arrow", allow_partial=True)
    assert group.partial and len(group) == 2 and connection.query_arrow("SELECT 1", allow_partial=True).num_rows == 2


SOUND = stream()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        SOUND[:100],
        SOUND[: len(SOUND) // 2],
        SOUND.replace(b"pinot.response", b"pinot.whatever"),
        SOUND.replace(b'"exactness"', b'"exactness|'),
    ],
    ids=["nothing", "JSON", "a torn schema", "a torn batch", "no facts", "facts that are no JSON"],
)
def test_bytes_that_are_no_answer_are_refused(daemon: Daemon, connection: Connection, content: bytes) -> None:
    answer(daemon, content)
    with pytest.raises(RemoteError, match="Arrow stream"):
        connection.query_arrow("SELECT 1")


def test_a_stream_with_rows_missing_is_refused(daemon: Daemon, connection: Connection) -> None:
    answer(daemon, stream(numRowsResultSet=3))
    with pytest.raises(RemoteError, match="says that it has 3 rows, and has 2"):
        connection.query_arrow("SELECT 1")


def test_offsets_that_point_elsewhere_are_refused(daemon: Daemon, connection: Connection) -> None:
    texts = pa.array(["abc", "def"])
    offsets = pa.array([0, 3, 6], pa.int32()).buffers()[1].to_pybytes()[:12]
    sound = stream(pa.table({"s": texts}))
    wrong = sound.replace(offsets, pa.array([0, 1 << 30, 6], pa.int32()).buffers()[1].to_pybytes()[:12])
    assert wrong != sound
    answer(daemon, wrong)
    with pytest.raises(RemoteError, match="Arrow stream"):
        connection.query_arrow("SELECT 1")


def test_a_long_stream_is_given_up_while_it_arrives(daemon: Daemon) -> None:
    answer(daemon, stream(pa.table({"n": range(100_000)}), numRowsResultSet=100_000))
    with (
        connect(broker=daemon.url, answer_bytes_max=100_000) as limited,
        pytest.raises(PayloadTooLargeError, match="answer_bytes_max"),
    ):
        limited.query_arrow("SELECT 1")


def test_a_stream_that_breaks_off_is_asked_for_again_and_then_a_fault(daemon: Daemon, connection: Connection) -> None:
    content = stream()
    daemon.replies["POST /query/sql"] = (200, content[:-8], {"content-type": CONTENT_TYPE, "x-cut": "1"})
    with pytest.raises(ServerUnreachableError):
        connection.query_arrow("SELECT 1", timeout_s=1.0)
    assert len(daemon.asked) > 1


# --- cursors -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["arrow", "json"])
def test_a_cursor_gives_the_rows_that_are_left(daemon: Daemon, connection: Connection, format: str) -> None:
    pytest.importorskip("pandas")
    numbers = pa.table({"n": pa.array([5, 6, 7], pa.int64())})
    numbers = numbers.cast(pa.schema([pa.field("n", pa.int64(), metadata={b"pinot.type": b"LONG"})]))
    if format == "arrow":
        answer(daemon, stream(numbers, numRowsResultSet=3))
    else:
        table_of = JSON_ANSWER["resultTable"]
        assert isinstance(table_of, dict)
        daemon.replies["POST /query/sql"] = (200, {**JSON_ANSWER, "resultTable": {**table_of, "rows": [[5], [6], [7]]}})
    with connection.cursor(format=format) as cursor:
        with pytest.raises(ProgrammingError, match="there are no rows"):
            cursor.fetch_arrow_table()
        cursor.execute("SELECT n FROM t")
        assert cursor.rowcount == 3 and cursor.description == [("n", "LONG", None, None, None, None, None)]
        assert cursor.fetchone() == [5]
        assert cursor.fetch_arrow_table().equals(numbers.slice(1)) and cursor.rownumber == 3
        assert cursor.fetchone() is None and cursor.fetch_arrow_table().num_rows == 0
        cursor.execute("SELECT n FROM t")
        assert cursor.fetchmany(2) == [[5], [6]] and cursor.fetch_df()["n"].tolist() == [7]


def test_a_cursor_raises_peps_classes(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with connection.cursor(format="arrow") as cursor:
        cursor.execute("SELECT 1")
        with pytest.raises((ProgrammingError, NotSupportedError), match="pip install pandas"):
            cursor.fetch_df()
