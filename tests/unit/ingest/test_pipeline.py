"""Proves that rows of every type reach storage form with the right values, and that each bad row is known with its
cause.

Expectations are computed by plain Python from the written rows, never by the code under test.
"""

from __future__ import annotations

import json
import math
import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.data_types import DataType
from pinotpy.decimals import decode_decimal, encode_decimal
from pinotpy.errors import DecodeError, InvalidConfigError
from pinotpy.ingest.ledger import RowLedger
from pinotpy.ingest.pipeline import RowPipeline, read_rows, storage_type
from pinotpy.ingest.readers.catalog import format_of
from pinotpy.ingest.readers.spec import InputBatch, InputFile, numbered


def column(data_type: str, values: Any, **spec: Any) -> tuple[list[Any], RowLedger]:
    """One column through the pipeline, bad rows left out and noted."""
    return columns({"c": values}, [{"name": "c", "dataType": data_type} | spec])


def columns(
    arrays: dict[str, Any], specs: list[dict[str, Any]], table: TableConfig | None = None, **more: Any
) -> tuple[list[Any], RowLedger]:
    schema = Schema.from_json({"schemaName": "t", "dimensionFieldSpecs": specs} | more)
    batch = pa.RecordBatch.from_arrays(
        [a if isinstance(a, pa.Array | pa.DictionaryArray) else pa.array(a) for a in arrays.values()], list(arrays)
    )
    ledger = RowLedger("file")
    result = RowPipeline(schema, table).convert(InputBatch(batch, numbered(1, batch.num_rows)), ledger)
    for name, spec in schema.field_specs.items():
        assert result.schema.field(name).type in (storage_type(spec), pa.dictionary(pa.int32(), pa.string()))
    assert ledger.num_rows_read == batch.num_rows == ledger.num_rows_indexed + ledger.num_rows_rejected
    rows = result.to_pylist()
    return [row["c"] for row in rows] if list(schema.field_specs) == ["c"] else rows, ledger


def causes(ledger: RowLedger) -> list[tuple[int, str]]:
    return [(rejected.row, rejected.cause) for rejected in ledger.rejects]


@pytest.mark.parametrize(
    ("data_type", "values", "expected"),
    [
        ("INT", ["1", " -2 ", "2147483647", None], [1, -2, 2147483647, None]),
        ("INT", [1.0, -3.0, None], [1, -3, None]),
        ("INT", [True, False], [1, 0]),
        ("LONG", ["-9223372036854775808", "+5"], [-(2**63), 5]),
        ("LONG", pa.array([Decimal("12"), None], pa.decimal128(10, 0)), [12, None]),
        ("FLOAT", ["0.1", "NaN", "-Infinity"], [struct.unpack("f", struct.pack("f", 0.1))[0], math.nan, -math.inf]),
        ("DOUBLE", ["1e300", "-0.0", " 7"], [1e300, -0.0, 7.0]),
        ("DOUBLE", [2**53 + 1, 3], [float(2**53), 3.0]),
        ("BOOLEAN", ["true", "FALSE", "1", "0", None], [True, False, True, False, None]),
        ("BOOLEAN", [2, 0, None], [True, False, None]),
        ("STRING", [1, None, -5], ["1", None, "-5"]),
        ("STRING", [True, False], ["true", "false"]),
        (
            "STRING",
            [1.0, 0.1, 1e10, 1e-5, 12345678.9, math.nan],
            ["1.0", "0.1", "1.0E10", "1.0E-5", "1.23456789E7", "NaN"],
        ),
        ("STRING", [b"\x00\xff"], ["00ff"]),
        ("STRING", pa.array(["x", "y", None, "x"]).dictionary_encode(), ["x", "y", None, "x"]),
        ("BYTES", ["00fF", "", None], [b"\x00\xff", b"", None]),
        ("BYTES", [b"ab", None], [b"ab", None]),
        (
            "TIMESTAMP",
            ["2021-01-01 01:01:01.123", "2021-01-01 01:01:01.12", None],
            [1609462861123, 1609462861120, None],
        ),
        ("TIMESTAMP", ["2013-01-01T10:00:00Z", "2013-01-01T10:00:00+01:00"], [1357034400000, 1357030800000]),
        (
            "TIMESTAMP",
            ["2013-01-01T10:00:00Z", "2013-01-01 10:00:00", "1357034400000", "-5"],
            [1357034400000, 1357034400000, 1357034400000, -5],
        ),
        ("TIMESTAMP", [5, -1, None], [5, -1, None]),
        ("TIMESTAMP", [datetime(2021, 1, 1, tzinfo=UTC), None], [1609459200000, None]),
        ("TIMESTAMP", [datetime(1969, 12, 31, 23, 59, 59, 999_500, tzinfo=UTC)], [-1]),
        ("TIMESTAMP", [date(1970, 1, 2), date(1969, 12, 31)], [86_400_000, -86_400_000]),
        ("LONG", [datetime(2021, 1, 1, tzinfo=UTC)], [1609459200000]),
        ("INT", [date(1970, 1, 11)], [10]),
        ("STRING", [date(2021, 2, 3)], ["2021-02-03"]),
        (
            "BIG_DECIMAL",
            ["1.50", None, "-1E+3"],
            [encode_decimal(Decimal("1.5")), None, encode_decimal(Decimal(-1000))],
        ),
        ("BIG_DECIMAL", [0.1, 2.0], [encode_decimal(Decimal("0.1")), encode_decimal(Decimal(2))]),
        ("JSON", ['{"a": 1, "b": [1.0, 1e10, "é"]}', "3", None], ['{"a":1,"b":[1,1E+10,"é"]}', "3", None]),
        ("JSON", ['{"n":123456789012345678901234567890}'], ['{"n":123456789012345678901234567890}']),
    ],
)
def test_values_of_every_type_are_converted(data_type: str, values: Any, expected: list[Any]) -> None:
    found, ledger = column(data_type, values)
    assert ledger.rejects == []
    assert repr(found) == repr(expected)


@pytest.mark.parametrize(
    ("data_type", "values", "bad", "word"),
    [
        ("INT", ["1", "x", "2.5", "2147483648", "", "9"], [2, 3, 4, 5], "INT"),
        ("INT", [1, 2**31, -(2**31) - 1, 5], [2, 3], "range of INT"),
        ("INT", [1.0, 1.5, math.nan, math.inf], [2, 3, 4], "whole number"),
        ("LONG", ["9223372036854775808"], [1], "range of LONG"),
        ("DOUBLE", ["1", "one", "1,5"], [2, 3], "no number"),
        ("INT", ["+5", "++5", "+-5", "+", "+x", "-+5", " +6 "], [2, 3, 4, 5, 6], "whole number"),
        ("DOUBLE", ["+.5", "++5", "+-5", "+", "+x", "+1e3"], [2, 3, 4, 5], "no number"),
        ("BOOLEAN", ["true", "yes"], [2], "truth value"),
        ("TIMESTAMP", ["2021-01-01 00:00:00", "soon", "2021-02-30 00:00:00"], [2, 3], "no time"),
        ("BYTES", ["00", "0", "0g", "00 11"], [2, 3, 4], "hex"),
        ("BIG_DECIMAL", ["1", "NaN", "x"], [2, 3], "decimal"),
        ("JSON", ["{}", "{", "NaN", "{'a':1}"], [2, 3, 4], "no JSON"),
        ("INT", [[1], [1, 2], [], None], [2], "values"),
    ],
)
def test_each_bad_row_is_left_out_and_named(data_type: str, values: list[Any], bad: list[int], word: str) -> None:
    found, ledger = column(data_type, values)
    assert [row for row, _ in causes(ledger)] == bad
    assert all(word in cause for _, cause in causes(ledger))
    assert len(found) == len(values) - len(bad)
    with pytest.raises(DecodeError, match=word) as caught:
        ledger.check(0)
    assert len(caught.value.context["rejects"]) == len(bad)
    ledger.check(1)


def test_lists_lose_their_nulls_and_empty_ones_are_null() -> None:
    found, ledger = column("INT", [["1", None, "2"], [], None, [None], ["3"]], singleValueField=False)
    assert (found, ledger.rejects) == ([[1, 2], None, None, None, [3]], [])
    found, ledger = column("STRING", ["a", None, "b"], singleValueField=False)
    assert found == [["a"], None, ["b"]]
    found, ledger = column("LONG", [["1", "x"], ["2"], ["y", "z"]], singleValueField=False)
    assert found == [[2]]
    assert [row for row, _ in causes(ledger)] == [1, 3]


def test_a_slice_of_lists_keeps_its_rows() -> None:
    values = pa.array([[9, 9], [1], None, [2, 3], [], [4]]).slice(1)
    found, _ = column("INT", values, singleValueField=False)
    assert found == [[1], None, [2, 3], None, [4]]


def test_text_is_cut_at_its_first_nul_and_at_its_length() -> None:
    found, _ = column("STRING", ["a\x00b", "\x00", "a\n\x00b\nc", "éééé", "abcdef", None], maxLength=3)
    assert found == ["a", "", "a\n", "ééé", "abc", None]
    found, _ = column("STRING", pa.array(["abcd", "abce", "x"]).dictionary_encode(), maxLength=3)
    assert found == ["abc", "abc", "x"]
    found, _ = column("STRING", [["abcd", "x"]], maxLength=3, singleValueField=False)
    assert found == [["abc", "x"]]


def test_length_strategies() -> None:
    long = ["abcd", "abc", None]
    assert column("STRING", long, maxLength=3, maxLengthExceedStrategy="NO_ACTION")[0] == long
    assert column(
        "STRING", long, maxLength=3, maxLengthExceedStrategy="SUBSTITUTE_DEFAULT_VALUE", defaultNullValue="n"
    )[0] == ["n", "abc", None]
    found, ledger = column("STRING", long, maxLength=3, maxLengthExceedStrategy="ERROR")
    assert (found, causes(ledger)) == (["abc", None], [(1, "4 characters long, allowed are 3")])
    assert column("BYTES", [b"abcd"], maxLength=3)[0] == [b"abcd"]
    assert column("BYTES", [b"abcd"], maxLength=3, maxLengthExceedStrategy="TRIM_LENGTH")[0] == [b"abc"]
    assert column("JSON", ['"abcd"'], maxLength=3)[0] == ['"abcd"']


@pytest.mark.parametrize(
    ("strategy", "expected", "bad"),
    [
        ("TRIM_LENGTH", ["a", "abc", "abc", "ab", "", None], []),
        ("NO_ACTION", ["a", "abcdef", "abc", "ab", "", None], []),
        ("SUBSTITUTE_DEFAULT_VALUE", ["n", "n", "abc", "ab", "n", None], []),
        ("ERROR", ["abc", "ab", None], [1, 2, 5]),
    ],
)
def test_a_nul_in_a_text_is_treated_as_too_long(strategy: str, expected: list[str | None], bad: list[int]) -> None:
    """As Pinot's SanitizationTransformerUtils does it."""
    texts = ["a\x00bcdef", "abcdef", "abc", "ab", "\x00", None]
    found, ledger = column("STRING", texts, maxLength=3, maxLengthExceedStrategy=strategy, defaultNullValue="n")
    assert (found, [row for row, _ in causes(ledger)]) == (expected, bad)
    lists, ledger = column(
        "STRING",
        [texts[:-1]],
        maxLength=3,
        maxLengthExceedStrategy=strategy,
        defaultNullValue="n",
        singleValueField=False,
    )
    assert lists == ([expected[:-1]] if not bad else [])
    encoded, _ = column(
        "STRING",
        pa.array(texts).dictionary_encode(),
        maxLength=3,
        maxLengthExceedStrategy=strategy,
        defaultNullValue="n",
    )
    assert encoded == expected


def test_a_column_that_the_input_lacks_is_null_and_others_are_ignored() -> None:
    rows, _ = columns(
        {"a": [1, 2], "extra": ["x", "y"]},
        [{"name": "a", "dataType": "INT"}, {"name": "b", "dataType": "STRING", "singleValueField": False}],
    )
    assert rows == [{"a": 1, "b": None}, {"a": 2, "b": None}]


def time_table(**ingestion: Any) -> TableConfig:
    segments = {"replication": 1, "timeColumnName": "d"}
    return TableConfig.from_json(
        {
            "tableName": "t",
            "tableType": "OFFLINE",
            "segmentsConfig": segments,
            "tenants": {},
            "tableIndexConfig": {},
            "ingestionConfig": ingestion,
        }
    )


@pytest.mark.parametrize(
    ("incoming", "outgoing", "values", "expected"),
    [
        ({"dataType": "LONG", "timeType": "MILLISECONDS"}, {"dataType": "INT", "timeType": "DAYS"},
        [86_400_000, 86_399_999, -1, None], [1, 0, -1, None]),
        ({"dataType": "INT", "timeType": "DAYS"}, {"dataType": "LONG", "timeType": "HOURS"}, ["16000", "1"],
        [384_000, 24]),
        ({"dataType": "LONG", "timeType": "MINUTES", "timeUnitSize": 5},
        {"dataType": "LONG", "timeType": "MILLISECONDS"}, [4996308], [1498892400000]),
        ({"dataType": "INT", "timeType": "DAYS", "timeFormat": "SIMPLE_DATE_FORMAT:yyyyMMdd"},
        {"dataType": "INT", "timeType": "DAYS"}, [20170701], [17348]),
        ({"dataType": "LONG", "timeType": "MILLISECONDS"},
        {"dataType": "STRING", "timeType": "DAYS", "timeFormat": "SIMPLE_DATE_FORMAT:yyyy-MM-dd"},
         [0, 1609459200000], ["1970-01-01", "2021-01-01"]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("same_name", [False, True])
def test_the_old_time_column_is_converted_on_its_way_in(
    incoming: Any, outgoing: Any, values: list[Any], expected: list[Any], same_name: bool
) -> None:
    source = "d" if same_name else "source"
    time_spec = {
        "incomingGranularitySpec": incoming | {"name": source},
        "outgoingGranularitySpec": outgoing | {"name": "d"},
    }
    rows, ledger = columns({source: values}, [], timeFieldSpec=time_spec)
    assert ([row["d"] for row in rows], ledger.rejects) == (expected, [])


def test_a_file_with_the_outgoing_column_is_not_converted_again() -> None:
    time_spec = {
        "incomingGranularitySpec": {"name": "ms", "dataType": "LONG", "timeType": "MILLISECONDS"},
        "outgoingGranularitySpec": {"name": "d", "dataType": "INT", "timeType": "DAYS"},
    }
    rows, _ = columns({"d": [16000]}, [], timeFieldSpec=time_spec)
    assert rows == [{"d": 16000}]


def test_dates_of_the_file_take_the_form_of_the_column() -> None:
    moments = [datetime(2021, 1, 2, 3, 4, 5, tzinfo=UTC), None]
    specs = [
        {"name": "a", "dataType": "LONG", "format": "1:HOURS:EPOCH", "granularity": "1:HOURS"},
        {"name": "b", "dataType": "STRING", "format": "SIMPLE_DATE_FORMAT|yyyyMMdd HH", "granularity": "1:HOURS"},
        {"name": "c", "dataType": "INT", "format": "SIMPLE_DATE_FORMAT|yyyyMMdd", "granularity": "1:DAYS"},
    ]
    rows, _ = columns({"a": moments, "b": moments, "c": moments}, [], dateTimeFieldSpecs=specs)
    assert rows == [{"a": 18629 * 24 + 3, "b": "20210102 03", "c": 20210102}, {"a": None, "b": None, "c": None}]


def test_times_outside_of_1971_to_2071_are_bad_rows_only_if_asked() -> None:
    spec = [{"name": "d", "dataType": "INT", "format": "1:DAYS:EPOCH", "granularity": "1:DAYS"}]
    days = {"d": [16000, 0, 99_999, None]}
    assert len(columns(days, [], time_table(), dateTimeFieldSpecs=spec)[0]) == 4
    rows, ledger = columns(days, [], time_table(rowTimeValueCheck=True), dateTimeFieldSpecs=spec)
    assert ([row["d"] for row in rows], [row for row, _ in causes(ledger)]) == ([16000, None], [2, 3])


def test_what_is_not_evaluated_is_refused_not_skipped() -> None:
    schema = Schema.from_json({"schemaName": "t", "dimensionFieldSpecs": [{"name": "d", "dataType": "INT"}]})
    with pytest.raises(InvalidConfigError, match="enrichmentConfigs"):
        RowPipeline(schema, time_table(enrichmentConfigs=[{"enricherType": "clpEnricher"}]))


def test_continue_on_error_allows_bad_rows_and_the_ledger_counts_them(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("d\n1\nx\n3\n")
    schema = Schema.from_json({"schemaName": "t", "dimensionFieldSpecs": [{"name": "d", "dataType": "INT"}]})
    file = InputFile(tmp_path / "a.csv")

    def read(pipeline: RowPipeline) -> tuple[int, RowLedger]:
        ledger = RowLedger("a.csv")
        known = format_of(file.path)
        assert known is not None
        return sum(batch.num_rows for batch in read_rows(file, known, pipeline, ledger)), ledger

    with pytest.raises(DecodeError, match=r"row 2 column 'd': 'x'"):
        read(RowPipeline(schema))
    with pytest.raises(DecodeError, match="1 of 3 rows"):
        read(RowPipeline(schema, reject_share_max=0.3))
    for pipeline in (RowPipeline(schema, reject_share_max=0.34), RowPipeline(schema, time_table(continueOnError=True))):
        rows, ledger = read(pipeline)
        assert (rows, ledger.num_rows_read, ledger.num_rows_indexed, ledger.num_rows_rejected) == (2, 3, 2, 1)


TYPES: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "INT": ("int", st.integers(-(2**31), 2**31 - 1)),
    "LONG": ("long", st.integers(-(2**63), 2**63 - 1)),
    "FLOAT": ("float", st.floats(width=32, allow_nan=False)),
    "DOUBLE": ("double", st.floats(allow_nan=False)),
    "BOOLEAN": ("boolean", st.booleans()),
    "STRING": ("string", st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=6)),
    "BYTES": ("bytes", st.binary(max_size=6)),
}


@st.composite
def tables(draw: st.DrawFn) -> tuple[dict[str, bool], list[dict[str, Any]]]:
    """Columns (name = type_SV/MV → nullable) and rows that an Avro file can hold."""
    shapes = draw(
        st.lists(st.tuples(st.sampled_from(sorted(TYPES)), st.booleans()), min_size=1, max_size=5, unique=True)
    )
    names = {f"{t}_{'MV' if mv else 'SV'}": mv for t, mv in shapes}
    row = st.fixed_dictionaries(
        {n: st.none() | (st.lists(TYPES[n[:-3]][1], max_size=3) if mv else TYPES[n[:-3]][1]) for n, mv in names.items()}
    )
    return names, draw(st.lists(row, min_size=1, max_size=12))


@given(table=tables())
@settings(max_examples=60, deadline=None)
def test_the_same_rows_come_out_of_avro_parquet_and_json(
    table: tuple[dict[str, bool], list[dict[str, Any]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    names, rows = table
    folder = tmp_path_factory.mktemp("rows")
    specs = [{"name": name, "dataType": name[:-3], "singleValueField": not mv} for name, mv in names.items()]
    schema = Schema.from_json({"schemaName": "t", "dimensionFieldSpecs": specs})
    fields = [
        {"name": n, "type": ["null", {"type": "array", "items": TYPES[n[:-3]][0]} if mv else TYPES[n[:-3]][0]]}
        for n, mv in names.items()
    ]
    with (folder / "rows.avro").open("wb") as out:
        fastavro.writer(
            out, fastavro.parse_schema({"type": "record", "name": "r", "fields": fields}), rows, codec="deflate"
        )
    arrow = pa.schema([pa.field(n, storage_type(schema.field_specs[n])) for n in names])
    pq.write_table(pa.Table.from_pylist(rows, arrow), folder / "rows.parquet")
    written = [{n: _json_value(v) for n, v in row.items()} for row in rows]
    # JSON has no infinities: such rows are compared in the other two formats only.
    files = ["rows.avro", "rows.parquet"]
    if "Infinity" not in json.dumps(written):
        (folder / "rows.json").write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in written), "utf-8")
        files.append("rows.json")
    expected = [{n: (None if row[n] == [] else row[n]) for n in names} for row in rows]
    for name in files:
        known = format_of(folder / name)
        assert known is not None
        ledger = RowLedger(name)
        batches = list(read_rows(InputFile(folder / name), known, RowPipeline(schema), ledger))
        assert repr([row for batch in batches for row in batch.to_pylist()]) == repr(expected)
        assert (ledger.num_rows_read, ledger.num_rows_rejected) == (len(rows), 0)


def _json_value(value: Any) -> Any:
    if isinstance(value, list):
        return [_json_value(item) for item in value]
    return value.hex() if isinstance(value, bytes) else value


@given(
    st.lists(
        st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30) | st.none(),
        max_size=20,
    )
)
@settings(max_examples=50, deadline=None)
def test_decimals_keep_their_value(values: list[Decimal | None]) -> None:
    found, ledger = column("BIG_DECIMAL", pa.array([None if v is None else str(v) for v in values], pa.string()))
    assert ledger.rejects == []
    assert [None if v is None else decode_decimal(v) for v in found] == values


@given(st.lists(st.integers(-(2**70), 2**70).map(str) | st.text(max_size=3) | st.none(), max_size=40))
@settings(max_examples=80, deadline=None)
def test_whichever_rows_are_bad_the_others_arrive(values: list[str | None]) -> None:
    def parsed(value: str | None) -> int | None:
        if value is None:
            return None
        number = int(value.strip())
        if not -(2**63) <= number < 2**63:
            raise ValueError
        return number

    expected, bad = [], []
    for row, value in enumerate(values, 1):
        try:
            expected.append(parsed(value))
        except ValueError:
            bad.append(row)
    found, ledger = column("LONG", pa.array(values, pa.string()))
    assert found == expected
    assert [rejected.row for rejected in ledger.rejects] == bad


def test_the_storage_types_are_those_of_the_contract() -> None:
    schema = Schema.from_json(
        {
            "schemaName": "t",
            "dimensionFieldSpecs": [{"name": t, "dataType": t} for t in DataType if t is not DataType.MAP],
        }
    )
    batch = RowPipeline(schema).convert(
        InputBatch(pa.RecordBatch.from_pydict({"none": np.zeros(3)}), numbered(1, 3)), RowLedger("f")
    )
    assert [field.type for field in batch.schema] == [t.arrow for t in DataType if t is not DataType.MAP]
    assert all(array.null_count == 3 for array in batch.columns)
