"""Proves: keys with a default may be left out and are shown; a misspelt key is refused with its path and the right key,
any other unknown key is kept; a type of another system is refused with the one that is meant; a missing key reads as
missing.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinotpy.config.misspelt_keys import letters_apart, meant_key
from pinotpy.config.pinot_keys import OTHER_KEYS
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.config.type_names import meant_type
from pinotpy.data_types import DataType
from pinotpy.errors import InvalidConfigError

REST = Path(__file__).resolve().parents[2] / "golden" / "rest"
PLAIN: dict[str, Any] = {"tableName": "t", "tableType": "OFFLINE", "segmentsConfig": {}, "tableIndexConfig": {}}
COLUMN = {"name": "a", "dataType": "STRING"}


def schema(*columns: Any, **others: Any) -> dict[str, Any]:
    return {"schemaName": "t", "dimensionFieldSpecs": list(columns or (COLUMN,))} | others


def message(read: Any, document: Any) -> str:
    with pytest.raises(InvalidConfigError) as caught:
        read.from_json(document)
    return caught.value.message


# --- what may be left out --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("absent", ["left out", "null"])
def test_tenants_metadata_and_replication_have_defaults_that_are_shown(absent: str) -> None:
    document = PLAIN | {"segmentsConfig": {"replication": None}, "tenants": None, "metadata": None}
    read = TableConfig.from_json(PLAIN if absent == "left out" else document)
    shown = read.to_json_dict()
    assert shown["tenants"] == {"broker": "DefaultTenant", "server": "DefaultTenant"}
    assert shown["metadata"] == {"customConfigs": {}}
    assert shown["segmentsConfig"]["replication"] == "1" and read.replication == 1
    assert TableConfig.from_json(shown) == read


def test_replicas_per_partition_stand_for_the_replication_of_a_table_of_streams() -> None:
    stream = {"streamType": "file", "stream.file.topic.name": "v", "stream.file.decoder.class.name": "json"}
    document = PLAIN | {
        "tableType": "realtime",
        "segmentsConfig": {"timeColumnName": "day", "replicasPerPartition": "2"},
        "tableIndexConfig": {"streamConfigs": stream | {"stream.file.directory": "/s"}},
    }
    read = TableConfig.from_json(document)
    assert read.replication == 2 and "replication" not in read.to_json_dict()["segmentsConfig"]
    assert TableConfig.from_json(document | {"segmentsConfig": {"timeColumnName": "day"}}).replication == 1


# --- keys -------------------------------------------------------------------------------------------------------------

MISSPELT = [
    ({"isDimTabel": True}, "$.isDimTabel", "isDimTable"),
    ({"tennants": {}}, "$.tennants", "tenants"),
    ({"tabelIndexConfig": {}}, "$.tabelIndexConfig", "tableIndexConfig"),
    ({"tsk": {}}, "$.tsk", "task"),
    ({"segmentsConfig": {"replicaton": 2}}, "$.segmentsConfig.replicaton", "replication"),
    ({"segmentsConfig": {"timecolumnName": "a"}}, "$.segmentsConfig.timecolumnName", "timeColumnName"),
    ({"tenants": {"brokers": "x"}}, "$.tenants.brokers", "broker"),
    ({"tableIndexConfig": {"invertedIndexColums": []}}, "$.tableIndexConfig.invertedIndexColums",
     "invertedIndexColumns"),
    ({"tableIndexConfig": {"starTreeIndexConfigs": [{"dimensionsSplitOrdr": ["a"]}]}},
     "$.tableIndexConfig.starTreeIndexConfigs[0].dimensionsSplitOrdr", "dimensionsSplitOrder"),
    ({"tableIndexConfig": {"segmentPartitionConfig": {"columnPartitionMap": {"a": {"functionNme": "Murmur"}}}}},
     "$.tableIndexConfig.segmentPartitionConfig.columnPartitionMap.a.functionNme", "functionName"),
    ({"fieldConfigList": [{"nam": "a"}]}, "$.fieldConfigList[0].nam", "name"),
    ({"ingestionConfig": {"transformConfigs": [{"columName": "a"}]}},
     "$.ingestionConfig.transformConfigs[0].columName", "columnName"),
]  # fmt: skip


@pytest.mark.parametrize(("keys", "path", "right"), MISSPELT, ids=[path for _, path, _ in MISSPELT])
def test_a_misspelt_key_is_refused_with_its_path_and_the_right_key(keys: Any, path: str, right: str) -> None:
    wrong = path.rpartition(".")[2]
    expected = f"{path}: found the unknown key '{wrong}', allowed: the key '{right}'"
    assert expected in message(TableConfig, PLAIN | keys)


def test_misspelt_keys_of_schemas() -> None:
    for column, path, right in (
        ({"name": "a", "datatype": "INT"}, "$.dimensionFieldSpecs[0].datatype", "dataType"),
        ({**COLUMN, "singleValuField": False}, "$.dimensionFieldSpecs[0].singleValuField", "singleValueField"),
        ({**COLUMN, "transformFuntion": "b"}, "$.dimensionFieldSpecs[0].transformFuntion", "transformFunction"),
    ):
        expected = f"{path}: found the unknown key '{path.rpartition('.')[2]}', allowed: the key '{right}'"
        assert expected in message(Schema, schema(column))
    assert "$.primaryKeyColumn: found the unknown key 'primaryKeyColumn', allowed: the key 'primaryKeyColumns'" in (
        message(Schema, schema(primaryKeyColumn=["a"]))
    )


def test_a_document_that_was_accepted_before_stays_readable() -> None:
    """Whoever reads what is stored must not lose a table to a rule that is younger than it."""
    with pytest.raises(InvalidConfigError, match="tabelName"):
        TableConfig.from_json(PLAIN | {"tabelName": 1})
    assert TableConfig.from_json(PLAIN | {"tabelName": 1}, is_stored=True).unrecognized == {"/tabelName": 1}
    column = {**COLUMN, "datatype": "INT"}
    assert Schema.from_json(schema(column), is_stored=True).unrecognized == {"/dimensionFieldSpecs/0/datatype": "INT"}


def test_other_unknown_keys_are_kept() -> None:
    keys = {"foo": 1, "ownersMail": "x", "segmentsConfig": {"schemaName": "t", "bar": 2}}
    read = TableConfig.from_json(PLAIN | keys)
    assert read.unrecognized == {"/foo": 1, "/ownersMail": "x", "/segmentsConfig/schemaName": "t",
                                 "/segmentsConfig/bar": 2}  # fmt: skip
    column = {**COLUMN, "note": "mine", "allowTrailingZeros": True}
    assert Schema.from_json(schema(column)).unrecognized == {
        "/dimensionFieldSpecs/0/note": "mine",
        "/dimensionFieldSpecs/0/allowTrailingZeros": True,
    }


def test_names_that_people_choose_are_no_keys() -> None:
    custom = {"metadata": {"customConfigs": {"tabelName": "x", "customConfig": "y"}}}
    assert TableConfig.from_json(PLAIN | custom).unrecognized == {}


def _recorded_keys() -> Iterator[str]:
    for file, pages in (("v151_swagger.json.gz", ("TableConfig", "Schema")), ("v060_swagger.json.gz", ("Schema",))):
        document = json.loads(gzip.decompress((REST / file).read_bytes()))
        definitions = document.get("definitions") or document["components"]["schemas"]
        pending, seen = list(pages), set()
        while pending:
            page = pending.pop()
            if page in seen:
                continue
            seen.add(page)
            yield from definitions[page].get("properties", {})
            text = json.dumps(definitions[page])
            pending += [name for name in definitions if f'/{name}"' in text]


def test_no_key_of_pinot_is_taken_for_a_misspelt_one() -> None:
    recorded = set(_recorded_keys())
    assert len(recorded) > 200
    for key in recorded:
        for place in ({key: []}, {"segmentsConfig": {key: []}}, {"tableIndexConfig": {key: []}}):
            try:
                TableConfig.from_json(PLAIN | place)
            except InvalidConfigError as error:
                assert f"the unknown key '{key}'" not in error.message
    assert "fstindexType" in OTHER_KEYS


@given(st.sampled_from(["tenants", "segmentsConfig", "tableIndexConfig", "ingestionConfig"]), st.data())
def test_a_key_with_one_or_two_other_letters_means_the_key_it_was(right: str, data: st.DataObject) -> None:
    letters = list(right)
    for _ in range(data.draw(st.integers(1, 2))):
        place = data.draw(st.integers(0, len(letters) - 1))
        change = data.draw(st.sampled_from(["drop", "add", "replace", "swap"]))
        if change == "drop":
            del letters[place]
        elif change == "swap":
            letters[place : place + 2] = reversed(letters[place : place + 2])
        else:
            letters[place : place + (change == "replace")] = data.draw(st.sampled_from("abcXYZ_1"))
    wrong = "".join(letters)
    if wrong != right and letters_apart(wrong, right) <= 2:
        assert meant_key(wrong, TableConfig.model_json_schema()["properties"]) == right


@given(st.text("abc", max_size=6), st.text("abc", max_size=6))
def test_letters_apart_is_a_distance(one: str, other: str) -> None:
    apart = letters_apart(one, other)
    assert apart == letters_apart(other, one)
    assert (apart == 0) == (one == other)
    assert abs(len(one) - len(other)) <= apart <= max(len(one), len(other))


# --- types ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "meant"),
    [
        ("VARCHAR", "STRING"), ("VARCHAR(20)", "STRING"), ("text", "STRING"), ("string", "STRING"),
        ("INTEGER", "INT"), ("SMALLINT", "INT"), ("int", "INT"), ("BIGINT", "LONG"), ("Int64", "LONG"),
        ("REAL", "FLOAT"), ("double precision", "DOUBLE"), ("DECIMAL(10, 2)", "BIG_DECIMAL"),
        ("NUMERIC", "BIG_DECIMAL"),
        ("BOOL", "BOOLEAN"), ("DATETIME", "TIMESTAMP"), ("timestamp with time zone", "TIMESTAMP"), ("JSONB", "JSON"),
        ("BLOB", "BYTES"), ("STRNG", "STRING"), ("BOLEAN", "BOOLEAN"),
    ],
)  # fmt: skip
def test_a_type_of_another_system_is_refused_with_the_one_that_is_meant(found: str, meant: str) -> None:
    text = message(Schema, schema({"name": "a", "dataType": found}))
    assert f"$.dimensionFieldSpecs[0].dataType: found '{found}', allowed: {meant} for {found}; one of INT, LONG" in text


def test_a_list_type_says_how_lists_are_written() -> None:
    for found in ("ARRAY<VARCHAR>", "varchar[]"):
        text = message(Schema, schema({"name": "a", "dataType": found}))
        assert 'allowed: STRING with "singleValueField": false for a list of them; one of INT' in text


def test_what_nobody_can_guess_is_refused_with_the_types_that_there_are() -> None:
    assert "found 'WORD', allowed: one of INT, LONG" in message(Schema, schema({"name": "a", "dataType": "WORD"}))
    assert "found the number 7, allowed: one of INT" in message(Schema, schema({"name": "a", "dataType": 7}))


@given(st.text(max_size=20))
def test_any_text_is_a_type_or_none(text: str) -> None:
    assert meant_type(text) is None or isinstance(meant_type(text), DataType)


# --- missing keys -----------------------------------------------------------------------------------------------------


def test_a_missing_key_reads_as_missing() -> None:
    text = message(TableConfig, {})
    for key in ("tableName", "tableType", "segmentsConfig", "tableIndexConfig"):
        assert f"  $.{key} is missing" in text.splitlines()
    assert "null" not in text and "found" not in text
    text = message(Schema, {"dimensionFieldSpecs": [{}], "dateTimeFieldSpecs": [{"name": "d", "dataType": "LONG"}]})
    for path in ("schemaName", "dimensionFieldSpecs[0].name", "dimensionFieldSpecs[0].dataType",
                 "dateTimeFieldSpecs[0].format", "dateTimeFieldSpecs[0].granularity"):  # fmt: skip
        assert f"  $.{path} is missing" in text.splitlines()
    half = PLAIN | {"segmentsConfig": {"retentionTimeUnit": "DAYS"}}
    assert "$.segmentsConfig.retentionTimeValue is missing, expected: both retentionTimeUnit" in message(
        TableConfig, half
    )


def test_a_key_that_is_null_where_it_may_not_be_reads_as_null() -> None:
    text = message(Schema, schema({"name": None, "dataType": "INT"}))
    assert "$.dimensionFieldSpecs[0].name: found null, allowed: text" in text


def test_a_misspelt_required_key_is_both_missing_and_named() -> None:
    text = message(TableConfig, {**{k: v for k, v in PLAIN.items() if k != "tableName"}, "tabelName": "t"})
    assert "$.tabelName: found the unknown key 'tabelName', allowed: the key 'tableName'" in text
    assert "$.tableName is missing" in text
