"""Proves that schemas of every documented spelling are read alike, answered in one form, and refused with all faults
and paths.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pinotpy.config.schema import Schema
from pinotpy.data_types import DataType, FieldType, default_null_value
from pinotpy.decimals import encode_decimal
from pinotpy.errors import InvalidConfigError

# The example of the schema page (seed 004).
FLIGHTS = {
    "schemaName": "flights",
    "enableColumnBasedNullHandling": False,
    "dimensionFieldSpecs": [
        {"name": "flightNumber", "dataType": "LONG"},
        {"name": "tags", "dataType": "STRING", "singleValueField": False, "defaultNullValue": "null"},
    ],
    "metricFieldSpecs": [{"name": "price", "dataType": "DOUBLE", "defaultNullValue": 0}],
    "dateTimeFieldSpecs": [
        {"name": "millisSinceEpoch", "dataType": "LONG", "format": "EPOCH", "granularity": "15:MINUTES"},
        {"name": "hoursSinceEpoch", "dataType": "INT", "format": "EPOCH|HOURS", "granularity": "1:HOURS"},
        {
            "name": "dateString",
            "dataType": "STRING",
            "format": "SIMPLE_DATE_FORMAT|yyyy-MM-dd",
            "granularity": "1:DAYS",
        },
    ],
}


def schema(**changes: Any) -> dict[str, Any]:
    return {"schemaName": "t", "dimensionFieldSpecs": [{"name": "a", "dataType": "INT"}]} | changes


def faults(document: Any) -> list[tuple[str, str]]:
    with pytest.raises(InvalidConfigError) as caught:
        Schema.from_json(document)
    return [(fault.path, fault.found) for fault in caught.value.faults]


def test_the_example_of_the_manual_reads_and_answers_in_the_form_of_the_reference() -> None:
    read = Schema.from_json(json.dumps(FLIGHTS))
    assert list(read.field_specs) == [
        "flightNumber",
        "tags",
        "price",
        "millisSinceEpoch",
        "hoursSinceEpoch",
        "dateString",
    ]
    assert read.field_specs["tags"].single_value is False
    assert read.field_specs["price"].field_type is FieldType.METRIC
    assert read.to_json_dict()["dimensionFieldSpecs"] == [
        {"name": "flightNumber", "dataType": "LONG", "fieldType": "DIMENSION"},
        {"name": "tags", "dataType": "STRING", "fieldType": "DIMENSION", "singleValueField": False},
    ]
    assert read.to_json_dict()["metricFieldSpecs"] == [{"name": "price", "dataType": "DOUBLE", "fieldType": "METRIC"}]


def test_the_form_of_get_schemas_recorded_from_1_5_1() -> None:
    posted = {
        "schemaName": "parts",
        "dateTimeFieldSpecs": [{"name": "day", "dataType": "INT", "format": "1:DAYS:EPOCH", "granularity": "1:DAYS"}],
        "metricFieldSpecs": [{"name": "amount", "dataType": "LONG"}],
        "dimensionFieldSpecs": [{"name": "id", "dataType": "INT"}, {"name": "name", "dataType": "STRING"}],
    }
    recorded = (
        '{"schemaName":"parts","enableColumnBasedNullHandling":false,"dimensionFieldSpecs":[{"name":"id","dataType":"INT","fieldType":"DIMENSION"},'
        '{"name":"name","dataType":"STRING","fieldType":"DIMENSION"}],"metricFieldSpecs":[{"name":"amount","dataType":"LONG","fieldType":"METRIC"}],'
        '"dateTimeFieldSpecs":[{"name":"day","dataType":"INT","fieldType":"DATE_TIME","format":"1:DAYS:EPOCH","granularity":"1:DAYS"}]}'
    )
    assert json.dumps(Schema.from_json(posted).to_json_dict(), separators=(",", ":")) == recorded


def test_the_time_field_spec_of_the_old_manual_gives_a_time_column() -> None:
    document = schema(
        timeFieldSpec={
            "incomingGranularitySpec": {"name": "millis", "dataType": "LONG", "timeType": "MILLISECONDS"},
            "outgoingGranularitySpec": {"name": "day", "dataType": "INT", "timeType": "DAYS", "timeUnitSize": "1"},
        }
    )
    read = Schema.from_json(document)
    day = read.field_specs["day"]
    assert (day.field_type, day.data_type, day.format) == (FieldType.TIME, DataType.INT, "1:DAYS:EPOCH")
    assert day.incoming is not None
    assert day.incoming.name == "millis"
    assert "millis" not in read.field_specs
    assert Schema.from_json(read.to_json_dict()) == read


def test_incoming_alone_and_the_flat_form_are_the_same_column() -> None:
    nested = Schema.from_json(
        schema(timeFieldSpec={"incomingGranularitySpec": {"name": "d", "dataType": "INT", "timeType": "DAYS"}})
    )
    flat = Schema.from_json(
        schema(
            timeFieldSpec={"name": "d", "dataType": "INT", "timeType": "days", "timeUnitSize": 1, "timeFormat": "EPOCH"}
        )
    )
    assert nested == flat
    assert nested.to_json_dict()["timeFieldSpec"] == {
        "incomingGranularitySpec": {"name": "d", "dataType": "INT", "timeType": "DAYS"}
    }


def test_singular_spellings_are_the_plural_ones() -> None:
    plural = Schema.from_json(FLIGHTS)
    singular = {key.removesuffix("s") if key.endswith("FieldSpecs") else key: value for key, value in FLIGHTS.items()}
    assert Schema.from_json(singular) == plural
    one = {
        "schemaName": "t",
        "dateTimeFieldSpec": {
            "name": "d",
            "dataType": "LONG",
            "format": "1:HOURS:EPOCH",
            "granularity": "1:HOURS",
            "dateTimeType": "PRIMARY",
        },
    }
    assert list(Schema.from_json(one).field_specs) == ["d"]
    assert Schema.from_json(one).unrecognized == {"/dateTimeFieldSpecs/0/dateTimeType": "PRIMARY"}
    assert faults(schema(dimensionFieldSpec=[]))[0][0] == "$.dimensionFieldSpec"


def test_unknown_keys_are_kept_as_json_pointers_to_leaves() -> None:
    read = Schema.from_json(
        schema(foo={"x": 1, "y/z": {"~": [True, {}]}}, dimensionFieldSpecs=[{"name": "a", "dataType": "INT", "bar": 2}])
    )
    assert read.unrecognized == {
        "/foo/x": 1,
        "/foo/y~1z/~0/0": True,
        "/foo/y~1z/~0/1": {},
        "/dimensionFieldSpecs/0/bar": 2,
    }
    assert "foo" not in read.to_json_dict()


@pytest.mark.parametrize(
    ("data_type", "written", "stored"),
    [
        ("INT", "7", 7),
        ("INT", 7, 7),
        ("LONG", "-9223372036854775808", -(2**63)),
        ("FLOAT", "0.1", 0.10000000149011612),
        ("DOUBLE", "-Infinity", float("-inf")),
        ("DOUBLE", "0.1", 0.1),
        ("BIG_DECIMAL", "1.50", encode_decimal(Decimal("1.5"))),
        ("BIG_DECIMAL", 2, encode_decimal(Decimal(2))),
        ("BOOLEAN", True, 1),
        ("BOOLEAN", "true", 1),
        ("BOOLEAN", 0, 0),
        ("TIMESTAMP", "2021-01-01 01:01:01.123", 1609462861123),
        ("TIMESTAMP", "1609462861123", 1609462861123),
        ("TIMESTAMP", 5, 5),
        ("STRING", "none", b"none"),
        ("STRING", 5, b"5"),
        ("JSON", {"a": 1}, b'{"a":1}'),
        ("BYTES", "00fF", b"\x00\xff"),
    ],
)
def test_defaults_are_read_as_text_or_number_and_answer_again_as_the_same(
    data_type: str, written: Any, stored: Any
) -> None:
    read = Schema.from_json(
        schema(dimensionFieldSpecs=[{"name": "a", "dataType": data_type, "defaultNullValue": written}])
    )
    assert read.field_specs["a"].default_null_stored == stored
    again = Schema.from_json(json.dumps(read.to_json_dict()))
    assert again == read
    assert again.field_specs["a"].default_null_stored == stored


@pytest.mark.parametrize("data_type", [t for t in DataType if t is not DataType.MAP])
def test_without_a_default_the_type_decides(data_type: DataType) -> None:
    dimension = Schema.from_json(schema(dimensionFieldSpecs=[{"name": "a", "dataType": data_type}])).field_specs["a"]
    assert dimension.default_null_stored == default_null_value(data_type, FieldType.DIMENSION)
    # Written out, the default is the default: it is not shown again.
    if data_type in (DataType.INT, DataType.STRING, DataType.BYTES):
        shown = {DataType.INT: -(2**31), DataType.STRING: "null", DataType.BYTES: ""}[data_type]
        written = Schema.from_json(
            schema(dimensionFieldSpecs=[{"name": "a", "dataType": data_type, "defaultNullValue": shown}])
        )
        assert "defaultNullValue" not in written.to_json_dict()["dimensionFieldSpecs"][0]


def test_metrics_default_to_zero() -> None:
    metrics = [{"name": t, "dataType": t} for t in ("INT", "LONG", "FLOAT", "DOUBLE", "BIG_DECIMAL", "BYTES")]
    read = Schema.from_json({"schemaName": "t", "metricFieldSpecs": metrics})
    assert [spec.default_null_stored for spec in read.field_specs.values()] == [0, 0, 0.0, 0.0, b"\x80", b""]


WRONG: list[tuple[Any, list[str]]] = [
    (schema(schemaName=None), ["$.schemaName"]),
    ({"dimensionFieldSpecs": [{"name": "a", "dataType": "INT"}]}, ["$.schemaName"]),
    (schema(schemaName=""), ["$.schemaName"]),
    (schema(schemaName="a b/c"), ["$.schemaName"]),
    (schema(schemaName="a__b"), ["$.schemaName"]),
    ({"schemaName": "nothing"}, ["$"]),
    (schema(dimensionFieldSpecs={}), ["$.dimensionFieldSpecs"]),
    (schema(dimensionFieldSpecs=[3, "a"]), ["$.dimensionFieldSpecs[0]", "$.dimensionFieldSpecs[1]"]),
    (schema(dimensionFieldSpecs=[{"name": "a", "dataType": "NUMBER"}]), ["$.dimensionFieldSpecs[0].dataType"]),
    (schema(dimensionFieldSpecs=[{"name": "a", "dataType": "int"}]), ["$.dimensionFieldSpecs[0].dataType"]),
    (schema(dimensionFieldSpecs=[{"name": "a", "dataType": "MAP"}]), ["$.dimensionFieldSpecs[0].dataType"]),
    (schema(dimensionFieldSpecs=[{"name": "a"}]), ["$.dimensionFieldSpecs[0].dataType"]),
    (schema(dimensionFieldSpecs=[{"dataType": "INT"}]), ["$.dimensionFieldSpecs[0].name"]),
    (schema(dimensionFieldSpecs=[{"name": "m x", "dataType": "INT"}]), ["$.dimensionFieldSpecs[0].name"]),
    (schema(dimensionFieldSpecs=[{"name": "$docId", "dataType": "INT"}]), ["$.dimensionFieldSpecs[0].name"]),
    (schema(dimensionFieldSpecs=[{"name": "a", "dataType": "INT"}] * 2), ["$.dimensionFieldSpecs[1].name"]),
    (
        schema(dimensionFieldSpecs=[{"name": "a", "dataType": "INT", "fieldType": "METRIC"}]),
        ["$.dimensionFieldSpecs[0].fieldType"],
    ),
    (
        schema(dimensionFieldSpecs=[{"name": "a", "dataType": "INT", "singleValueField": "no"}]),
        ["$.dimensionFieldSpecs[0].singleValueField"],
    ),
    (
        schema(dimensionFieldSpecs=[{"name": "a", "dataType": "INT", "maxLength": 0}]),
        ["$.dimensionFieldSpecs[0].maxLength"],
    ),
    (
        schema(dimensionFieldSpecs=[{"name": "a", "dataType": "STRING", "maxLengthExceedStrategy": "CUT"}]),
        ["$.dimensionFieldSpecs[0].maxLengthExceedStrategy"],
    ),
    (
        schema(dimensionFieldSpecs=[{"name": "a", "dataType": "STRING", "format": "EPOCH"}]),
        ["$.dimensionFieldSpecs[0].format"],
    ),
    (
        schema(dimensionFieldSpecs=[{"name": "a", "dataType": "INT", "defaultNullValue": "abc"}]),
        ["$.dimensionFieldSpecs[0].defaultNullValue"],
    ),
    (
        schema(dimensionFieldSpecs=[{"name": "a", "dataType": "INT", "defaultNullValue": 2**31}]),
        ["$.dimensionFieldSpecs[0].defaultNullValue"],
    ),
    (
        schema(dimensionFieldSpecs=[{"name": "a", "dataType": "INT", "defaultNullValue": True}]),
        ["$.dimensionFieldSpecs[0].defaultNullValue"],
    ),
    (
        schema(dimensionFieldSpecs=[{"name": "a", "dataType": "BYTES", "defaultNullValue": "0g"}]),
        ["$.dimensionFieldSpecs[0].defaultNullValue"],
    ),
    (
        schema(dimensionFieldSpecs=[{"name": "a", "dataType": "BYTES", "defaultNullValue": "abc"}]),
        ["$.dimensionFieldSpecs[0].defaultNullValue"],
    ),
    (
        schema(dimensionFieldSpecs=[{"name": "a", "dataType": "BOOLEAN", "defaultNullValue": "yes"}]),
        ["$.dimensionFieldSpecs[0].defaultNullValue"],
    ),
    (
        schema(dimensionFieldSpecs=[{"name": "a", "dataType": "TIMESTAMP", "defaultNullValue": "soon"}]),
        ["$.dimensionFieldSpecs[0].defaultNullValue"],
    ),
    (
        schema(dimensionFieldSpecs=[{"name": "a", "dataType": "FLOAT", "defaultNullValue": 1e300}]),
        ["$.dimensionFieldSpecs[0].defaultNullValue"],
    ),
    (
        schema(dimensionFieldSpecs=[{"name": "a", "dataType": "BIG_DECIMAL", "defaultNullValue": "NaN"}]),
        ["$.dimensionFieldSpecs[0].defaultNullValue"],
    ),
    (schema(metricFieldSpecs=[{"name": "m", "dataType": "STRING"}]), ["$.metricFieldSpecs[0].dataType"]),
    (schema(metricFieldSpecs=[{"name": "m", "dataType": "BOOLEAN"}]), ["$.metricFieldSpecs[0].dataType"]),
    (
        schema(metricFieldSpecs=[{"name": "m", "dataType": "INT", "singleValueField": False}]),
        ["$.metricFieldSpecs[0].singleValueField"],
    ),
    (schema(metricFieldSpecs=[{"name": "a", "dataType": "INT"}]), ["$.metricFieldSpecs[0].name"]),
    (
        schema(dateTimeFieldSpecs=[{"name": "d", "dataType": "LONG"}]),
        ["$.dateTimeFieldSpecs[0].format", "$.dateTimeFieldSpecs[0].granularity"],
    ),
    (
        schema(dateTimeFieldSpecs=[{"name": "d", "dataType": "LONG", "format": "nonsense", "granularity": "1:DAYS"}]),
        ["$.dateTimeFieldSpecs[0].format"],
    ),
    (
        schema(
            dateTimeFieldSpecs=[{"name": "d", "dataType": "LONG", "format": "1:WEEKS:EPOCH", "granularity": "1:DAYS"}]
        ),
        ["$.dateTimeFieldSpecs[0].format"],
    ),
    (
        schema(dateTimeFieldSpecs=[{"name": "d", "dataType": "LONG", "format": "EPOCH", "granularity": "DAYS:1"}]),
        ["$.dateTimeFieldSpecs[0].granularity"],
    ),
    (
        schema(dateTimeFieldSpecs=[{"name": "d", "dataType": "FLOAT", "format": "EPOCH", "granularity": "1:DAYS"}]),
        ["$.dateTimeFieldSpecs[0].dataType"],
    ),
    (schema(timeFieldSpec=[]), ["$.timeFieldSpec"]),
    (schema(timeFieldSpec={}), ["$.timeFieldSpec.incomingGranularitySpec"]),
    (
        schema(timeFieldSpec={"incomingGranularitySpec": {"dataType": "FLOAT", "timeType": "WEEKS"}}),
        ["$.timeFieldSpec.incomingGranularitySpec.name", "$.timeFieldSpec.incomingGranularitySpec.timeType"],
    ),
    (schema(complexFieldSpecs=[{"name": "c", "dataType": "INT"}]), ["$.complexFieldSpecs[0].dataType"]),
    (schema(primaryKeyColumns=["a", "zz", "a"]), ["$.primaryKeyColumns[1]", "$.primaryKeyColumns[2]"]),
    (schema(primaryKeyColumns="a"), ["$.primaryKeyColumns"]),
    (schema(enableColumnBasedNullHandling=1), ["$.enableColumnBasedNullHandling"]),
    ([], ["$"]),
]


@pytest.mark.parametrize(("document", "paths"), WRONG, ids=[" ".join(paths) for _, paths in WRONG])
def test_each_fault_names_its_place(document: Any, paths: list[str]) -> None:
    assert [path for path, _ in faults(document)] == paths


def test_all_faults_of_a_document_come_at_once() -> None:
    document = {
        "schemaName": "no/name",
        "dimensionFieldSpecs": [
            {"name": "a", "dataType": "INTEGER", "maxLength": "x"},
            {"name": "b", "dataType": "INT", "defaultNullValue": "1.5"},
        ],
        "metricFieldSpecs": [{"name": "b", "dataType": "STRING"}],
        "dateTimeFieldSpecs": [{"name": "t", "dataType": "LONG", "format": "x:y", "granularity": ""}],
        "primaryKeyColumns": ["missing"],
    }
    assert {path for path, _ in faults(document)} == {
        "$.schemaName",
        "$.dimensionFieldSpecs[0].dataType",
        "$.dimensionFieldSpecs[0].maxLength",
        "$.dimensionFieldSpecs[1].defaultNullValue",
        "$.metricFieldSpecs[0].dataType",
        "$.metricFieldSpecs[0].name",
        "$.dateTimeFieldSpecs[0].format",
        "$.dateTimeFieldSpecs[0].granularity",
        "$.primaryKeyColumns[0]",
    }


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"schemaName":', "line 1, column 15"),
        ("not json", "line 1, column 1"),
        ("", "line 1, column 1"),
        ('{"a": NaN}', "NaN"),
        (b"\xff{}", "0xff"),
        ("[" * 100_000, "deep"),
        ('{"a": ' + "9" * 5000 + "}", "digits"),
    ],
)
def test_text_that_is_not_json_says_where(text: str | bytes, found: str) -> None:
    (path, what), *more = faults(text)
    assert (path, more) == ("$", [])
    assert found in what


def test_equal_keys_are_all_found_with_their_paths() -> None:
    text = (
        '{"schemaName": "t", "dimensionFieldSpecs": [{"name": "a", "name": "b", "dataType": "INT"}], "schemaName": "u"}'
    )
    assert [path for path, _ in faults(text)] == ["$.schemaName", "$.dimensionFieldSpecs[0].name"]


def test_a_document_beyond_the_limit_is_refused_unread() -> None:
    assert faults(" " * (9 * 1024 * 1024))[0][0] == "$"


NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,12}", fullmatch=True)
SCALARS = [t for t in DataType if t is not DataType.MAP]
METRICS = [DataType.INT, DataType.LONG, DataType.FLOAT, DataType.DOUBLE, DataType.BIG_DECIMAL, DataType.BYTES]
VALUES: dict[DataType, st.SearchStrategy[Any]] = {
    DataType.INT: st.integers(-(2**31), 2**31 - 1),
    DataType.LONG: st.integers(-(2**63), 2**63 - 1).map(str),
    DataType.FLOAT: st.floats(width=32).map(str),
    DataType.DOUBLE: st.floats().map(str),
    DataType.BIG_DECIMAL: st.decimals(allow_nan=False, allow_infinity=False, places=3).map(str),
    DataType.BOOLEAN: st.booleans(),
    DataType.TIMESTAMP: st.integers(-(2**40), 2**41),
    DataType.STRING: st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    DataType.JSON: st.just("{}"),
    DataType.BYTES: st.binary(max_size=6).map(bytes.hex),
}


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    names = draw(st.lists(NAMES, min_size=1, max_size=6, unique=True))
    document: dict[str, Any] = {"schemaName": "t", "enableColumnBasedNullHandling": draw(st.booleans())}
    for name in names:
        metric = draw(st.booleans())
        data_type = draw(st.sampled_from(METRICS if metric else SCALARS))
        column = {
            "name": name,
            "dataType": str(data_type),
            "notNull": draw(st.booleans()),
            "maxLength": draw(st.integers(1, 600)),
        }
        if draw(st.booleans()):
            column["defaultNullValue"] = draw(VALUES[data_type])
        if not metric:
            column["singleValueField"] = draw(st.booleans())
        document.setdefault("metricFieldSpecs" if metric else "dimensionFieldSpecs", []).append(column)
    return document


@given(documents())
@settings(max_examples=150, deadline=None)
def test_what_is_answered_reads_back_as_the_same_schema(document: dict[str, Any]) -> None:
    read = Schema.from_json(document)
    answered = read.to_json_dict()
    again = Schema.from_json(json.dumps(answered))
    assert again == read
    assert json.dumps(again.to_json_dict()) == json.dumps(answered)
    for name, spec in read.field_specs.items():
        assert repr(again.field_specs[name].default_null_stored) == repr(spec.default_null_stored)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda c: (
            st.lists(c, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "schemaName",
                        "dimensionFieldSpecs",
                        "metricFieldSpecs",
                        "timeFieldSpec",
                        "dateTimeFieldSpecs",
                        "name",
                        "dataType",
                        "format",
                        "incomingGranularitySpec",
                        "primaryKeyColumns",
                        "x",
                    ]
                ),
                c,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
@settings(max_examples=200, deadline=None)
def test_any_json_is_read_or_refused_with_faults(document: Any) -> None:
    try:
        read = Schema.from_json(json.dumps(document))
    except InvalidConfigError as error:
        assert error.faults
        assert all(fault.path.startswith("$") and fault.found and fault.allowed for fault in error.faults)
    else:
        assert Schema.from_json(read.to_json_dict()).to_json_dict() == read.to_json_dict()
