"""Proves that transformFunction and filterFunction are evaluated over incoming rows as the docs of ingest.pipeline say:
types of sources, order of steps, values that the file holds are kept, errors of a row are its own, filtered rows are
counted, and what cannot be evaluated is refused before any row is read. Expected values are written down or computed
with Python.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from user_function_registry import remove_user_functions

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.decimals import decode_decimal
from pinotpy.errors import DecodeError, InvalidConfigError
from pinotpy.functions import udf
from pinotpy.functions.scalar import spec
from pinotpy.functions.user.user_function_adapter import scalar_function
from pinotpy.ingest.ledger import RowLedger
from pinotpy.ingest.pipeline import RowPipeline, read_rows
from pinotpy.ingest.readers.catalog import format_of
from pinotpy.ingest.readers.spec import InputBatch, InputFile, numbered


@pytest.fixture(autouse=True)
def _clean_registry() -> Iterator[None]:
    yield
    remove_user_functions()


def schema_of(*columns: tuple[str, str] | tuple[str, str, str], **more: Any) -> Schema:
    """Dimensions (name, type[, transformFunction]); a type that ends with [] is multi-valued."""
    dimensions = []
    for name, data_type, *transform in columns:
        dimension: dict[str, Any] = {"name": name, "dataType": data_type.removesuffix("[]")}
        if data_type.endswith("[]"):
            dimension["singleValueField"] = False
        if transform:
            dimension["transformFunction"] = transform[0]
        dimensions.append(dimension)
    return Schema.from_json({"schemaName": "t", "dimensionFieldSpecs": dimensions, **more})


def table_of(**ingestion: Any) -> TableConfig:
    required: dict[str, Any] = {
        "segmentsConfig": {"replication": "1"},
        "tenants": {},
        "tableIndexConfig": {},
        "metadata": {},
    }
    return TableConfig.from_json({"tableName": "t", "tableType": "OFFLINE", **required, "ingestionConfig": ingestion})


def run(
    schema: Schema, columns: dict[str, Any], table: TableConfig | None = None, **options: Any
) -> tuple[list[dict[str, Any]], RowLedger]:
    """Rows in storage form, and the ledger."""
    batch = pa.RecordBatch.from_pydict(columns)
    ledger = RowLedger("f")
    found = RowPipeline(schema, table, **options).convert(InputBatch(batch, numbered(1, batch.num_rows)), ledger)
    assert (
        ledger.num_rows_read
        == ledger.num_rows_indexed + ledger.num_rows_rejected + ledger.num_rows_filtered
        == batch.num_rows
    )
    return found.to_pylist(), ledger


def values(data_type: str, expression: str, columns: dict[str, Any]) -> list[Any]:
    """Values of a computed column of this type."""
    rows, ledger = run(schema_of(("out", data_type, expression)), columns)
    assert ledger.rejects == []
    return [row["out"] for row in rows]


# --- values ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data_type", "expression", "expected"),
    [
        ("INT", "a + 1", [2, None, 4]),
        ("DOUBLE", "a / 2 + b", [1.0, None, 4.0]),
        ("LONG", "a * 1000", [1000, None, 3000]),
        ("STRING", "a", ["1", None, "3"]),
        ("STRING", "s", ["x", "yy", None]),
        ("DOUBLE", "sqrt(abs(0 - b))", [0.5**0.5, 1.5**0.5, 2.5**0.5]),
        ("BOOLEAN", "a > 1", [False, None, True]),
        ("INT", "a > 1", [0, None, 1]),
        ("BOOLEAN", "a > 1 OR b < 1", [True, None, True]),
        ("BOOLEAN", "NOT (a > 1 AND b > 1)", [True, None, False]),
        ("BOOLEAN", "a IS NULL", [False, True, False]),
        ("BOOLEAN", "a IS NOT NULL", [True, False, True]),
        ("BOOLEAN", "(a > 1) IS TRUE", [False, False, True]),
        ("BOOLEAN", "(a > 1) IS NOT FALSE", [False, True, True]),
        ("BOOLEAN", "a IS DISTINCT FROM 1", [False, True, True]),
        ("BOOLEAN", "a IS NOT DISTINCT FROM NULL", [False, True, False]),
        ("BOOLEAN", "b BETWEEN 1 AND 2", [False, True, False]),
        ("BOOLEAN", "b NOT BETWEEN 1 AND 2", [True, False, True]),
        ("BOOLEAN", "a IN (3, 4)", [False, None, True]),
        ("BOOLEAN", "a NOT IN (3, 99999999999)", [True, None, False]),
        ("BOOLEAN", "b IN (0.5, a)", [True, None, False]),
        ("BOOLEAN", "s IN ('x', 'z')", [True, False, None]),
        ("BOOLEAN", "s LIKE 'Y%'", [False, True, None]),
        ("BOOLEAN", "s NOT LIKE 'x'", [False, True, None]),
        ("BOOLEAN", "regexp_like(s, '^y+$')", [False, True, None]),
        ("STRING", "CASE WHEN b > 1 THEN 'big' ELSE 'small' END", ["small", "big", "big"]),
        ("INT", "CAST(t AS LONG)", [10, 20, 30]),
        ("INT", "7", [7, 7, 7]),
        ("STRING", "'c'", ["c", "c", "c"]),
        ("INT", "absent", [None, None, None]),
        ("INT", "absent + 1", [None, None, None]),
        ("BOOLEAN", "absent IS NULL", [True, True, True]),
        ("INT", '"two words" + a', [2, None, 6]),
    ],
)
def test_expressions_have_the_values_of_sql(data_type: str, expression: str, expected: list[Any]) -> None:
    columns = {
        "a": [1, None, 3],
        "b": [0.5, 1.5, 2.5],
        "s": ["x", "yy", None],
        "t": ["10", "20", "30"],
        "two words": [1, 2, 3],
    }
    assert values(data_type, expression, columns) == expected


@pytest.mark.parametrize(
    ("given", "expression", "data_type", "expected"),
    [
        (pa.array([1, 2], pa.int8()), "x * 2", "INT", [2, 4]),
        (pa.array([1, 2**32 - 1], pa.uint32()), "x", "LONG", [1, 2**32 - 1]),
        (pa.array([2**63, 5], pa.uint64()), "x", "STRING", ["9223372036854775808", "5"]),
        (pa.array([0.5, 1.5], pa.float32()), "x * 2", "DOUBLE", [1.0, 3.0]),
        (pa.array([True, False]), "NOT x", "BOOLEAN", [False, True]),
        (pa.array([True, False]), "x", "STRING", ["true", "false"]),
        (pa.array(["a", "b"]).dictionary_encode(), "x = 'b'", "BOOLEAN", [False, True]),
        (pa.array(["a", "b"], pa.large_string()), "x = 'b'", "BOOLEAN", [False, True]),
        (pa.array([b"\x00\xff", b""]), "x", "STRING", ["00ff", ""]),
        (pa.array([b"\x00\xff", b""]), "x", "BYTES", [b"\x00\xff", b""]),
        (pa.array([1, None], pa.timestamp("s")), "x", "LONG", [1000, None]),
        (pa.array([dt.date(1970, 1, 2), None]), "x / 1000", "LONG", [86400, None]),
        (pa.array([Decimal("1.50"), Decimal("2.00")]), "x", "DOUBLE", [1.5, 2.0]),
        (pa.array([Decimal("1.00"), Decimal("2.00")]), "x + 1", "INT", [2, 3]),
        (pa.array([None, None]), "x", "INT", [None, None]),
        (pa.array([{"k": 1}, {"k": None}]), "x", "STRING", ['{"k":1}', '{"k":null}']),
        (pa.array([{"k": 1}, None]), "x", "JSON", ['{"k":1}', None]),
        (pa.array([[1, None, 2], []]), "x", "INT[]", [[1, 2], None]),
        (pa.array([["a"], ["b", "c"]]), "x", "STRING[]", [["a"], ["b", "c"]]),
        (pa.array([5, 6]), "x", "INT[]", [[5], [6]]),
    ],
)
def test_sources_outside_of_the_schema_have_the_types_of_the_file(
    given: pa.Array, expression: str, data_type: str, expected: list[Any]
) -> None:
    assert values(data_type, expression, {"x": given}) == expected


def test_decimals_stay_exact() -> None:
    (row, _), _ = run(
        schema_of(("out", "BIG_DECIMAL", "x + 0")), {"x": pa.array([Decimal("12345678901234567890.01"), None])}
    )
    assert decode_decimal(row["out"]) == Decimal("12345678901234567890.01")


def test_columns_of_the_schema_have_their_types_even_where_the_file_knows_text_only() -> None:
    schema = schema_of(("a", "INT"), ("b", "DOUBLE"), ("total", "DOUBLE", "a * b"), ("late", "BOOLEAN", "a > 9"))
    rows, _ = run(schema, {"a": ["10", "9"], "b": ["0.5", "x9"[1:]]})
    assert rows == [{"a": 10, "b": 0.5, "total": 5.0, "late": True}, {"a": 9, "b": 9.0, "total": 81.0, "late": False}]


def test_times_are_converted_before_expressions_read_them() -> None:
    schema = schema_of(
        ("even", "BOOLEAN", "days = 18629"),
        ("raw", "LONG", "hours"),
        timeFieldSpec={
            "incomingGranularitySpec": {"name": "hours", "dataType": "LONG", "timeType": "HOURS"},
            "outgoingGranularitySpec": {"name": "days", "dataType": "INT", "timeType": "DAYS"},
        },
    )
    rows, _ = run(schema, {"hours": [18629 * 24 + 5, 18630 * 24]})
    assert [(row["days"], row["even"], row["raw"]) for row in rows] == [
        (18629, True, 18629 * 24 + 5),
        (18630, False, 18630 * 24),
    ]


def test_texts_are_cut_to_length_after_expressions_have_read_them() -> None:
    schema = Schema.from_json(
        {
            "schemaName": "t",
            "dimensionFieldSpecs": [
                {"name": "s", "dataType": "STRING", "maxLength": 2},
                {"name": "whole", "dataType": "BOOLEAN", "transformFunction": "s = 'abcd'"},
                {"name": "copy", "dataType": "STRING", "maxLength": 3, "transformFunction": "s"},
            ],
        }
    )
    assert run(schema, {"s": ["abcd"]})[0] == [{"s": "ab", "whole": True, "copy": "abc"}]


def test_computed_columns_may_read_each_other_in_any_order() -> None:
    schema = schema_of(("c", "INT", "b + 1"), ("b", "INT", "a + 1"), ("a", "INT"))
    assert run(schema, {"a": [1, 5]})[0] == [{"a": 1, "b": 2, "c": 3}, {"a": 5, "b": 6, "c": 7}]


def test_values_that_the_file_holds_are_kept_and_only_the_others_computed() -> None:
    seen: list[int] = []
    spec.add_user_function(
        scalar_function(udf(arguments=["LONG"], result="LONG", name="noted")(lambda x: seen.append(len(x)) or x * 10))
    )
    schema = schema_of(("a", "LONG"), ("d", "LONG", "noted(a)"), ("s", "STRING", "'new'"), ("m", "INT[]", "a"))
    rows, _ = run(
        schema,
        {
            "a": [1, 2, 3],
            "d": [7, None, None],
            "s": pa.array(["old", None, "old"]).dictionary_encode(),
            "m": [[4, 5], None, [6]],
        },
    )
    assert [row["d"] for row in rows] == [7, 20, 30]
    assert [row["s"] for row in rows] == ["old", "new", "old"]
    assert [row["m"] for row in rows] == [[4, 5], [2], [6]]
    assert run(schema, {"a": [1], "d": [7], "s": ["x"], "m": [[1]]})[0][0]["d"] == 7
    assert seen == [2], "a column that the file holds is not computed"


def test_the_expression_of_the_table_counts_before_that_of_the_schema() -> None:
    table = table_of(transformConfigs=[{"columnName": "d", "transformFunction": "a + 2"}])
    assert run(schema_of(("d", "INT", "a + 1")), {"a": [1]}, table)[0] == [{"d": 3}]


def test_user_functions_work_over_millions_of_rows_in_whole_batches() -> None:
    spec.add_user_function(
        scalar_function(udf(arguments=["DOUBLE", "DOUBLE"], result="DOUBLE", name="length_of_vector")(np.hypot))
    )
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=50_000), rng.normal(size=50_000)
    assert values("DOUBLE", "length_of_vector(x, y)", {"x": x, "y": y}) == np.hypot(x, y).tolist()


# --- errors of rows --------------------------------------------------------------------------------------------------


def test_a_row_whose_values_do_not_fit_is_bad_and_the_others_are_computed() -> None:
    schema = schema_of(("n", "DOUBLE", "CAST(t AS DOUBLE) * 2"))
    texts = [str(i) for i in range(1000)]
    texts[17], texts[900] = "seventeen", "x"
    rows, ledger = run(schema, {"t": texts})
    assert [row["n"] for row in rows] == [2.0 * i for i in range(1000) if i not in (17, 900)]
    assert [(reject.row, reject.column) for reject in ledger.rejects] == [(18, "n"), (901, "n")]
    assert "transformFunction: " in ledger.rejects[0].cause and "seventeen" in ledger.rejects[0].cause


def test_a_result_that_the_column_cannot_hold_is_a_bad_row() -> None:
    schema = schema_of(("n", "INT", "a / 2"))
    rows, ledger = run(schema, {"a": [2, 3, 2**40]})
    assert [row["n"] for row in rows] == [1]
    assert [reject.row for reject in ledger.rejects] == [2, 3]


def test_a_failing_user_function_costs_its_rows_and_says_why() -> None:
    def picky(x: Any) -> Any:
        if (x == 13).any():
            raise ValueError("unlucky")
        return x

    spec.add_user_function(scalar_function(udf(arguments=["LONG"], result="LONG", name="picky")(picky)))
    rows, ledger = run(schema_of(("n", "LONG", "picky(a)")), {"a": list(range(100))})
    assert [row["n"] for row in rows] == [i for i in range(100) if i != 13]
    assert (
        str(ledger.rejects[0])
        == "row 14 column 'n': transformFunction: user function 'picky' failed: ValueError: unlucky"
    )


def test_a_bad_value_of_the_file_is_told_and_not_computed_over() -> None:
    rows, ledger = run(schema_of(("n", "INT", "a + 1")), {"n": ["5", "x", None], "a": [1, 2, 3]})
    assert [row["n"] for row in rows] == [5, 4]
    assert str(ledger.rejects[0]).startswith("row 2 column 'n': 'x' is no whole number")


def test_rows_are_all_bad_without_an_end_or_a_crash() -> None:
    _, ledger = run(schema_of(("n", "DOUBLE", "CAST(t AS DOUBLE)")), {"t": ["x"] * 300})
    assert ledger.num_rows_rejected == 300


# --- the filter ------------------------------------------------------------------------------------------------------


def test_rows_for_which_the_filter_is_true_are_left_out_and_counted() -> None:
    table = table_of(filterConfig={"filterFunction": "a > 2 AND kind <> 'keep'"})
    rows, ledger = run(
        schema_of(("a", "INT")), {"a": ["1", "3", "4", None, "5"], "kind": ["x", "x", "keep", "x", None]}, table
    )
    assert [row["a"] for row in rows] == [1, 4, None, 5], "unknown is not true"
    assert (ledger.num_rows_read, ledger.num_rows_indexed, ledger.num_rows_filtered, ledger.num_rows_rejected) == (
        5,
        4,
        1,
        0,
    )


def test_a_filter_may_read_computed_columns_and_spares_other_expressions_the_rows_it_leaves_out() -> None:
    table = table_of(
        filterConfig={"filterFunction": "size = 'small'"},
        transformConfigs=[
            {"columnName": "size", "transformFunction": "CASE WHEN a < 10 THEN 'small' ELSE 'large' END"},
            {"columnName": "n", "transformFunction": "CAST(t AS INT)"},
        ],
    )
    rows, ledger = run(
        schema_of(("size", "STRING"), ("n", "INT")), {"a": [1, 50, 60], "t": ["not read", "5", "bad"]}, table
    )
    assert (rows, ledger.num_rows_filtered) == ([{"size": "large", "n": 5}], 1)
    assert [(reject.row, reject.column) for reject in ledger.rejects] == [(3, "n")]


def test_a_row_for_which_the_filter_fails_is_bad() -> None:
    table = table_of(filterConfig={"filterFunction": "CAST(t AS INT) > 5"})
    rows, ledger = run(schema_of(("t", "STRING")), {"t": ["1", "x", "9"]}, table)
    assert (rows, ledger.num_rows_filtered) == ([{"t": "1"}], 1)
    assert (ledger.rejects[0].row, ledger.rejects[0].column) == (2, "") and ledger.rejects[0].cause.startswith(
        "filterFunction: "
    )


@pytest.mark.parametrize(
    ("expression", "kept"), [("a > 99", 3), ("a > 0", 0), ("absent > 3", 3), ("NULL", 3), ("TRUE", 0), ("FALSE", 3)]
)
def test_filters_that_take_all_rows_or_none(expression: str, kept: int) -> None:
    rows, ledger = run(schema_of(("a", "INT")), {"a": [1, 2, 3]}, table_of(filterConfig={"filterFunction": expression}))
    assert (len(rows), ledger.num_rows_filtered) == (kept, 3 - kept)


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (
            "Groovy({a + 1}, a)",
            r"\$.d.transformFunction: found 'Groovy\(\{a \+ 1\}, a\)', allowed: an expression of SQL .* Groovy "
            r"scripts are not run",
        ),
        (" groovy({a}, a)", "Groovy scripts are not run"),
        ("a +", "expected a column, a function or a literal, found the end of the text"),
        ("a b", "expected an operator or the end of the expression, found 'b'"),
        ("sqroot(a)", "function 'sqroot', which there is not, allowed: a function of queries, such as sqrt"),
        ("sum(a)", "without aggregations"),
        ("count(*)", "without aggregations"),
    ],
)
def test_expressions_that_cannot_be_evaluated_are_refused_before_any_row(expression: str, message: str) -> None:
    with pytest.raises(InvalidConfigError, match=message):
        RowPipeline(schema_of(("d", "INT", expression)))


def test_every_fault_is_told_with_its_path() -> None:
    table = table_of(
        transformConfigs=[
            {"columnName": "x", "transformFunction": "nothing_like_it(1)"},
            {"columnName": "y", "transformFunction": "z"},
            {"columnName": "z", "transformFunction": "y"},
            {"columnName": "elsewhere", "transformFunction": "1"},
        ],
        filterConfig={"filterFunction": "a >"},
    )
    with pytest.raises(InvalidConfigError) as caught:
        RowPipeline(schema_of(("x", "INT"), ("y", "INT"), ("z", "INT")), table)
    paths = "$.ingestionConfig.transformConfigs[{}].transformFunction".format
    assert {fault.path for fault in caught.value.faults} == {
        paths(0),
        paths(1),
        paths(3),
        "$.ingestionConfig.filterConfig.filterFunction",
    }


def test_a_chain_of_hundreds_of_computed_columns_is_refused_and_no_recursion_error() -> None:
    columns = [(f"c{i}", "INT", f"c{i + 1} + 1") for i in range(600)]
    with pytest.raises(InvalidConfigError, match="at most 32 steps"):
        RowPipeline(schema_of(*columns, ("c600", "INT")))


@pytest.mark.parametrize(
    ("expression", "columns", "message"),
    [
        (
            "abs(a)",
            {"a": [["x"], ["y"]]},
            "'abs\\(a\\)' over the columns a STRING_ARRAY, allowed: values that its functions take: ",
        ),
        ("a LIKE b", {"a": ["x", "y"], "b": ["x", "y"]}, "expected a quoted constant as pattern of LIKE"),
    ],
)
def test_types_that_a_function_does_not_take_are_a_fault_of_the_config(
    expression: str, columns: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidConfigError, match=message):
        run(schema_of(("d", "DOUBLE", expression)), columns)
    with pytest.raises(InvalidConfigError, match="a condition, such as a > 3"):
        run(schema_of(("d", "DOUBLE")), {"d": [1.0]}, table_of(filterConfig={"filterFunction": "d + 1"}))


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["csv", "json", "parquet"])
def test_readers_read_the_sources_that_only_expressions_name(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"rows.{suffix}"
    match suffix:
        case "csv":
            path.write_text("first,last,score,unused\nAda,L,10,1\nBob,M,20,1\nEve,N,30,1\n")
        case "json":
            path.write_text(
                "".join(
                    f'{{"first":"{a}","last":"{b}","score":{c}}}\n'
                    for a, b, c in (("Ada", "L", 10), ("Bob", "M", 20), ("Eve", "N", 30))
                )
            )
        case "parquet":
            pq.write_table(
                pa.table({"first": ["Ada", "Bob", "Eve"], "last": ["L", "M", "N"], "score": [10, 20, 30]}), path
            )
    table = table_of(filterConfig={"filterFunction": "first = 'Bob'"})
    schema = schema_of(("initial", "STRING", "last"), ("half", "INT", "CAST(score AS INT) / 2"))
    ledger = RowLedger("rows")
    known = format_of(path)
    assert known is not None
    rows = [
        row
        for batch in read_rows(InputFile(path), known, RowPipeline(schema, table), ledger)
        for row in batch.to_pylist()
    ]
    assert rows == [{"initial": "L", "half": 5}, {"initial": "N", "half": 15}]
    assert (ledger.num_rows_read, ledger.num_rows_filtered, ledger.num_rows_indexed) == (3, 1, 2)


def test_too_many_bad_results_end_the_file_with_their_causes(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("t\n1\nx\n")
    known = format_of(path)
    assert known is not None
    with pytest.raises(DecodeError, match=r"row 2 column 'n': transformFunction: .*'x'"):
        list(
            read_rows(
                InputFile(path), known, RowPipeline(schema_of(("n", "INT", "CAST(t AS INT)"))), RowLedger("a.csv")
            )
        )


def test_an_expression_that_names_its_own_column_means_the_field_of_the_file() -> None:
    schema = schema_of(("d", "LONG", "fromDateTime(d, 'dd.MM.yyyy')"))
    rows, ledger = run(schema, {"d": ["02.01.1970", None, "soon"]}, reject_share_max=1)
    assert rows == [{"d": 86_400_000}, {"d": None}]
    assert [(one.row, one.column) for one in ledger.rejects] == [(3, "d")]
