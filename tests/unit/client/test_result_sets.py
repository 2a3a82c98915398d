"""Proves what result sets give out: the Java client's getters, Python's rows, Arrow, pandas and polars columns in their
own types. Expectations are written down by hand from the shapes that the reference answers with.
"""

from __future__ import annotations

import sys
import types
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from pinotpy.client.frames import type_of_values
from pinotpy.client.result import ResultSetGroup, parse_response
from pinotpy.client.result_set import ResultKind, ResultSet
from pinotpy.errors import RemoteError, UserError

GROUP_BY = {
    "aggregationResults": [
        {
            "function": "min_foo",
            "groupByColumns": ["baz", "qux"],
            "groupByResult": [{"value": "2.00000", "group": ["x", "7"]}],
        },
        {
            "function": "max_foo",
            "groupByColumns": ["baz", "qux"],
            "groupByResult": [{"value": "9.50000", "group": ["z", "8"]}],
        },
    ],
    "exceptions": [],
}
TYPED = {
    "resultTable": {
        "dataSchema": {
            "columnNames": ["i", "l", "f", "d", "b", "t", "s", "x", "m", "many", "times"],
            "columnDataTypes": [
                "INT", "LONG", "FLOAT", "DOUBLE", "BOOLEAN", "TIMESTAMP", "STRING", "BYTES", "BIG_DECIMAL",
                "LONG_ARRAY", "TIMESTAMP_ARRAY",
            ],
        },
        "rows": [
            [1, 2**53 + 1, 0.5, "NaN", True, "2013-01-02 03:04:05.5", "é", "00ff", "1.50", [1, 2],
            ["1970-01-01 00:00:00.001"]],
            [None, None, "-Infinity", 1, None, None, None, None, None, [], None],
        ],
    },
    "exceptions": [],
}  # fmt: skip


def table(columns: dict[str, tuple[str, list[Any]]]) -> ResultSet:
    rows = [list(row) for row in zip(*(values for _, values in columns.values()), strict=True)]
    return ResultSet(tuple(columns), tuple(kind for kind, _ in columns.values()), rows)


# --- the Java client's view ----------------------------------------------------------------------------------------


def test_a_selection_is_one_result_set() -> None:
    group = parse_response(
        {"selectionResults": {"columns": ["foo", "bar"], "results": [["a", "1"], ["b", "2"]]}, "exceptions": []}
    )
    found = group.result_set(0)
    assert (group.result_set_count, found.kind, found.row_count, found.column_count, found.group_key_length) == (
        1,
        ResultKind.SELECTION,
        2,
        2,
        0,
    )
    assert [(found.get_string(row, 0), found.get_int(row, 1)) for row in range(found.row_count)] == [("a", 1), ("b", 2)]
    assert [found.column_name(column) for column in range(2)] == ["foo", "bar"]
    with pytest.raises(UserError, match="no group keys"):
        found.get_group_key_string(0, 0)


def test_each_aggregation_is_a_result_set_of_its_own() -> None:
    group = parse_response(
        {
            "aggregationResults": [
                {"function": "count_star", "value": "17"},
                {"function": "sum_a", "value": "58.00000"},
            ],
            "exceptions": [],
        }
    )
    assert [(each.column_name(0), each.get_int(0), each.get_string(0)) for each in group.result_sets] == [
        ("count_star", 17, "17"), ("sum_a", 58, "58.00000"),
    ]  # fmt: skip
    assert group.rows == [["17", "58.00000"]] and len(group.tables) == 1


def test_group_keys_stand_beside_the_values() -> None:
    group = parse_response(GROUP_BY)
    least, most = group.result_sets
    assert (group.result_set_count, least.kind, least.group_key_length, least.column_count, least.column_name(0)) == (
        2,
        ResultKind.GROUP_BY,
        2,
        1,
        "min_foo",
    )
    assert [least.group_key_column_name(key) for key in range(2)] == ["baz", "qux"]
    assert (
        least.get_group_key_string(0, 0),
        least.get_group_key_string(0, 1),
        least.get_int(0),
        least.get_long(0, 0),
    ) == ("x", "7", 2, 2)
    assert (most.get_double(0), most.get_float(0), most.get_string(0)) == (9.5, 9.5, "9.50000")
    assert list(least) == [["x", "7", "2.00000"]] and least.columns == ("baz", "qux", "min_foo")
    with pytest.raises(UserError, match=r"expected a whole number of 32 bits, found '9\.50000'"):
        most.get_int(0)


@pytest.mark.parametrize(
    "call", ["result_set(2)", "result_set(-1)", "result_set(0).get_string(1)", "result_set(0).get_string(0, 1)"]
)
def test_what_is_not_there_is_said_with_what_is(call: str) -> None:
    group = parse_response(GROUP_BY)
    accessors: dict[str, Any] = {
        "result_set(2)": lambda: group.result_set(2),
        "result_set(-1)": lambda: group.result_set(-1),
        "result_set(0).get_string(1)": lambda: group.result_set(0).get_string(1),
        "result_set(0).get_string(0, 1)": lambda: group.result_set(0).get_string(0, 1),
    }
    with pytest.raises(UserError, match=r"there is no .* counted from 0|has \d, counted from 0"):
        accessors[call]()


@pytest.mark.parametrize(
    ("value", "int_", "long_", "double"),
    [
        ("5", 5, 5, 5.0), (5, 5, 5, 5.0), (5.0, 5, 5, 5.0), ("-5.000", -5, -5, -5.0), (2**31, None, 2**31, 2.0**31),
        ("9223372036854775807", None, 2**63 - 1, 2.0**63),
        (2**63, None, None, 2.0**63), ("5.5", None, None, 5.5), ("Infinity", None, None, float("inf")),
        ("x", None, None, None), (True, None, None, None),
        ([1], None, None, None), ("", None, None, None), ("1e3", None, None, 1000.0), ("٣", None, None, 3.0),
    ],
)  # fmt: skip
def test_numbers_are_read_from_text_and_numbers_alike(
    value: Any, int_: int | None, long_: int | None, double: float | None
) -> None:
    found = table({"a": ("STRING", [value])})
    for get, expected in ((found.get_int, int_), (found.get_long, long_), (found.get_double, double)):
        if expected is None:
            with pytest.raises(UserError, match="row 0, column 'a'"):
                get(0)
        else:
            assert get(0) == expected


def test_nulls_are_told_apart() -> None:
    found = table({"a": ("LONG", [None, 1])})
    assert (found.is_null(0), found.is_null(1), found.get_value(0), found.get_string(1)) == (True, False, None, "1")
    for get in (found.get_int, found.get_double, found.get_string):
        with pytest.raises(UserError, match="is null"):
            get(0)
    assert table({"a": ("STRING_ARRAY", [["p", "ä"]])}).get_string(0) == '["p", "ä"]'


# --- the answer as a whole -----------------------------------------------------------------------------------------


def test_counters_trace_and_partial_answers_are_there_by_name() -> None:
    group = parse_response(
        {
            **TYPED,
            "numDocsScanned": 5,
            "numConsumingSegmentsQueried": 2,
            "minConsumingFreshnessTimeMs": 77,
            "numSegmentsPrunedByServer": 3,
            "someNewCounter": 9,
            "partialResult": True,
            "traceInfo": {"Server_a_1": '[{"filter": 3}]', "Server_b_1": {"filter": 4}, "Server_c_1": "no json"},
        }
    )
    assert (
        group.statistics.num_docs_scanned,
        group.statistics.num_consuming_segments_queried,
        group.statistics.num_segments_pruned_by_server,
    ) == (5, 2, 3)
    assert group.statistics.min_consuming_freshness_time_ms == 77
    assert group.counters == {
        "numDocsScanned": 5, "numConsumingSegmentsQueried": 2, "minConsumingFreshnessTimeMs": 77,
        "numSegmentsPrunedByServer": 3, "someNewCounter": 9,
    }  # fmt: skip
    assert group.trace == {"Server_a_1": [{"filter": 3}], "Server_b_1": {"filter": 4}, "Server_c_1": "no json"}
    assert (group.partial, group.exactness) == (True, "partial")


@pytest.mark.parametrize(
    "response",
    [
        {"selectionResults": {"columns": ["a", "a"], "results": [["1"]]}},
        {"resultTable": {"dataSchema": {"columnNames": ["a"], "columnDataTypes": []}, "rows": []}},
        {"aggregationResults": [{"function": "f", "groupByColumns": ["a"], "groupByResult": [{"value": 1}]}]},
        {"traceInfo": [1]},
    ],
)
def test_answers_that_do_not_fit_together_are_refused(response: dict[str, Any]) -> None:
    with pytest.raises(RemoteError, match="cannot be read"):
        parse_response(response)


# --- types ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["1", "2"], "STRING"), ([1, None], "LONG"), ([1, 2.5], "DOUBLE"), ([1.5, "NaN"], "DOUBLE"),
        (["NaN"], "STRING"), ([1, "x"], "STRING"),
        ([True, None], "BOOLEAN"), ([True, 1], "STRING"), ([], "STRING"), ([None], "STRING"),
        ([["a"], "b"], "STRING_ARRAY"), ([[1], [], None], "LONG_ARRAY"),
    ],
)  # fmt: skip
def test_pql_columns_have_the_type_of_their_values(values: list[Any], expected: str) -> None:
    assert type_of_values(values) == expected


def test_preserved_types_stay_numbers() -> None:
    group = parse_response(
        {
            "selectionResults": {"columns": ["n", "x", "s"], "results": [[1, 0.5, "a"], [2, "Infinity", "b"]]},
            "exceptions": [],
        }
    )
    assert group.types == ("LONG", "DOUBLE", "STRING")
    assert group.to_arrow().schema == pa.schema([("n", pa.int64()), ("x", pa.float64()), ("s", pa.string())])
    assert group.to_arrow().column("x").to_pylist() == [0.5, float("inf")]


def test_arrow_columns_have_the_types_that_the_broker_names() -> None:
    arrow = parse_response(TYPED).to_arrow()
    assert [str(kind) for kind in arrow.schema.types] == [
        "int32", "int64", "float", "double", "bool", "timestamp[ms, tz=UTC]", "string", "binary", "decimal128(38, 2)",
        "list<item: int64>", "list<item: timestamp[ms, tz=UTC]>",
    ]  # fmt: skip
    first, second = arrow.to_pylist()
    assert (
        first["l"] == 2**53 + 1
        and first["d"] != first["d"]
        and first["x"] == b"\x00\xff"
        and first["m"] == Decimal("1.50")
    )
    assert first["t"] == datetime(2013, 1, 2, 3, 4, 5, 500_000, tzinfo=UTC)
    assert first["times"] == [datetime(1970, 1, 1, 0, 0, 0, 1000, tzinfo=UTC)] and first["many"] == [1, 2]
    assert second == {**dict.fromkeys("iblmtsx"), "f": float("-inf"), "d": 1.0, "many": [], "times": None}


def test_times_may_be_milliseconds_too() -> None:
    found = table({"t": ("TIMESTAMP", [86_400_000, None])}).to_arrow().column("t").to_pylist()
    assert found == [datetime(1970, 1, 2, tzinfo=UTC), None]
    # The broker writes times beyond the year 9999 as milliseconds.
    far = (
        table({"t": ("TIMESTAMP", ["253402300800000", "1970-01-01 00:00:00.0"])})
        .to_arrow()
        .column("t")
        .cast(pa.int64())
        .to_pylist()
    )
    assert far == [253_402_300_800_000, 0]


def test_decimals_too_wide_for_arrow_are_text() -> None:
    values = ["1" * 70, "0." + "1" * 70]
    assert table({"m": ("BIG_DECIMAL", values)}).to_arrow().column("m").to_pylist() == values


def test_columns_of_one_name_are_both_there() -> None:
    twice = ResultSet(("a", "a"), ("LONG", "STRING"), [[1, "x"], [2, "y"]])
    arrow = twice.to_arrow()
    assert (arrow.column_names, arrow.column(0).to_pylist(), arrow.column(1).to_pylist()) == (
        ["a", "a"],
        [1, 2],
        ["x", "y"],
    )


def test_values_that_contradict_their_type_are_named() -> None:
    with pytest.raises(RemoteError, match="column 'a' does not hold what its type LONG says"):
        table({"a": ("LONG", ["x"])}).to_arrow()
    with pytest.raises(RemoteError, match="column 'b'"):
        table({"b": ("BYTES", ["zz"])}).to_arrow()


def test_an_empty_answer_is_an_empty_table() -> None:
    group = parse_response({"exceptions": []})
    assert (group.to_arrow().num_rows, group.to_arrow().column_names, group.result_set_count) == (0, [], 0)
    empty = parse_response(
        {"resultTable": {"dataSchema": {"columnNames": ["n"], "columnDataTypes": ["INT"]}, "rows": []}}
    )
    assert (empty.to_arrow().num_rows, str(empty.to_arrow().schema.types[0])) == (0, "int32")


# --- data frames ---------------------------------------------------------------------------------------------------


def test_pandas_keeps_every_digit_beside_nulls() -> None:
    pandas = pytest.importorskip("pandas")
    frame = table(
        {
            "l": ("LONG", [2**53 + 1, None]),
            "b": ("BOOLEAN", [True, None]),
            "n": ("INT", [1, 2]),
            "d": ("DOUBLE", [0.5, None]),
        }
    ).to_pandas()
    assert [str(kind) for kind in frame.dtypes] == ["Int64", "boolean", "int32", "float64"]
    assert frame["l"][0] == 2**53 + 1 and frame["l"][1] is pandas.NA
    assert frame["n"].tolist() == [1, 2]
    twice = ResultSet(("a", "a"), ("LONG", "LONG"), [[1, 2]]).to_pandas()
    assert list(twice.columns) == ["a", "a"] and twice.iloc[0].tolist() == [1, 2]
    assert parse_response({"exceptions": []}).to_pandas().shape == (0, 0)


def test_polars_gets_an_arrow_table_with_names_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    double = types.ModuleType("polars")
    double.from_arrow = lambda arrow: ("frame", arrow)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "polars", double)
    kind, arrow = ResultSet(("a", "a", "a_1"), ("LONG",) * 3, [[1, 2, 3]]).to_polars()
    assert (
        kind == "frame"
        and arrow.column_names == ["a", "a_1", "a_1_1"]
        and arrow.to_pylist() == [{"a": 1, "a_1": 2, "a_1_1": 3}]
    )


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_missing_library_is_named(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    group: ResultSetGroup = parse_response(TYPED)
    with pytest.raises(UserError, match=f"pip install {library}"):
        getattr(group, f"to_{library}")()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["-Infinity"], [float("-inf")]),
        ([1.5, "Infinity", None], [1.5, float("inf"), None]),
        ([3, "-Infinity"], [3.0, float("-inf")]),
        ([None], [None]),
        (["5.00000", "-Infinity"], ["5.00000", "-Infinity"]),
        (["Infinity and beyond"], ["Infinity and beyond"]),
    ],
)
def test_what_is_not_finite_stays_a_number_where_an_aggregation_answers_it(
    values: list[Any], expected: list[Any]
) -> None:
    groups = [{"value": value, "group": ["Infinity"]} for value in values]
    grouped = parse_response(
        {"aggregationResults": [{"function": "max_d", "groupByColumns": ["s"], "groupByResult": groups}]}
    )
    assert grouped.to_arrow().to_pydict() == {"s": ["Infinity"] * len(values), "max_d": expected}, (
        "keys are text whatever they say"
    )
    alone = parse_response(
        {"aggregationResults": [{"function": "max_d", "value": values[0]}, {"function": "count_star", "value": 0}]}
    )
    assert alone.to_arrow().column("max_d").to_pylist() == (expected[:1] if values[0] != 3 else [3])


def test_a_selected_text_that_says_infinity_stays_text() -> None:
    found = parse_response(
        {"selectionResults": {"columns": ["s", "d"], "results": [["Infinity", "NaN"], ["NaN", 2.5]]}}
    )
    assert found.types == ("STRING", "DOUBLE") and found.to_arrow().column("s").to_pylist() == ["Infinity", "NaN"]


@pytest.mark.parametrize("values", [[], [None, None]])
@pytest.mark.parametrize("kind", ["BIG_DECIMAL", "BIG_DECIMAL_ARRAY"])
def test_decimals_without_any_value_are_decimals(values: list[Any], kind: str) -> None:
    found = table({"m": (kind, values)})
    # No rows to zip leave no row, and the column all the same.
    column = found.to_arrow().column("m")
    wanted = pa.decimal128(38) if kind == "BIG_DECIMAL" else pa.list_(pa.decimal128(38))
    assert column.type == wanted and column.to_pylist() == values
