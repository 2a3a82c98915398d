"""Proves that nested records become the rows that the reference's rules give: by hand, by a slow twin row by row, and
by DuckDB.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

import duckdb
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import orc

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.errors import DecodeError, InvalidConfigError
from pinotpy.ingest import complex_types
from pinotpy.ingest.ledger import RowLedger
from pinotpy.ingest.pipeline import RowPipeline, read_rows
from pinotpy.ingest.readers.spec import FileFormat, InputFile


def pipeline(specs: dict[str, Any], config: dict[str, Any] | None, **ingestion: Any) -> RowPipeline:
    dimensions = [
        {"name": name, "dataType": kind.removesuffix("[]"), "singleValueField": not kind.endswith("[]")}
        for name, kind in specs.items()
    ]
    schema = Schema.from_json({"schemaName": "t", "dimensionFieldSpecs": dimensions})
    ingestion |= {"complexTypeConfig": config} if config is not None else {}
    table = {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": 1},
        "tenants": {},
        "tableIndexConfig": {},
        "ingestionConfig": ingestion,
    }
    return RowPipeline(schema, TableConfig.from_json(table))


def ingested(
    content: bytes,
    specs: dict[str, Any],
    config: dict[str, Any] | None,
    file_format: FileFormat = FileFormat.JSON,
    **ingestion: Any,
) -> tuple[list[tuple[Any, ...]], RowLedger]:
    ledger = RowLedger("a")
    file = InputFile(Path(f"a.{file_format}"), lambda: io.BytesIO(content), len(content))
    batches = read_rows(file, file_format, pipeline(specs, config, **ingestion), ledger)
    return [tuple(row[name] for name in specs) for batch in batches for row in batch.to_pylist()], ledger


def lines(*records: Any) -> bytes:
    return "\n".join(json.dumps(record) for record in records).encode()


GROUPS = [
    {
        "id": 1,
        "group": {"name": "x", "where": {"city": "Rome", "at": [1, 2]}},
        "topics": [{"key": "a", "n": 1}, {"key": "b"}],
        "tags": ["p", "q"],
    },
    {"id": 2, "group": {"name": "y"}, "topics": [], "tags": []},
    {"id": 3, "topics": [{"key": "c", "n": 3, "sub": [{"z": 1}, {"z": 2}]}], "tags": None},
]


def test_records_become_columns() -> None:
    specs = {
        "id": "INT",
        "group.name": "STRING",
        "group.where.city": "STRING",
        "group.where.at": "INT[]",
        "group.where": "JSON",
        "nosuch.x": "STRING",
    }
    rows, ledger = ingested(lines(*GROUPS), specs, {})
    assert rows == [
        (1, "x", "Rome", [1, 2], '{"city":"Rome","at":[1,2]}', None),
        (2, "y", None, None, None, None),
        (3, None, None, None, None, None),
    ]
    assert (ledger.num_rows_read, ledger.num_rows_added, ledger.num_rows_indexed) == (3, 0, 3)


def test_entries_of_lists_become_rows() -> None:
    rows, ledger = ingested(
        lines(*GROUPS), {"id": "INT", "topics.key": "STRING", "topics.n": "INT"}, {"fieldsToUnnest": ["topics"]}
    )
    assert rows == [(1, "a", 1), (1, "b", None), (2, None, None), (3, "c", 3)]
    assert (ledger.num_rows_read, ledger.num_rows_added, ledger.num_rows_indexed) == (3, 1, 4)


def test_lists_within_lists_and_beside_each_other() -> None:
    specs = {"id": "INT", "topics.key": "STRING", "topics.sub.z": "INT", "tags": "STRING"}
    rows, _ = ingested(lines(*GROUPS), specs, {"fieldsToUnnest": ["topics.sub", "tags", "topics"]})
    expected = [(1, key, None, tag) for key in "ab" for tag in "pq"]
    expected += [(2, None, None, None), (3, "c", 1, None), (3, "c", 2, None)]
    assert sorted(rows, key=str) == sorted(expected, key=str)


def test_the_list_itself_stays_where_it_is_wanted() -> None:
    rows, _ = ingested(lines(GROUPS[0]), {"topics": "JSON", "topics.key": "STRING"}, {"fieldsToUnnest": ["topics"]})
    assert rows == [('[{"key":"a","n":1},{"key":"b"}]', "a"), ('[{"key":"a","n":1},{"key":"b"}]', "b")]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("NONE", (["1", "2"], ['{"key":"a","n":1}', '{"key":"b"}'])),
    ("NON_PRIMITIVE", (["1", "2"], ['[{"key":"a","n":1},{"key":"b"}]'])),
     ("ALL", (["[1,2]"], ['[{"key":"a","n":1},{"key":"b"}]']))],
)  # fmt: skip
def test_lists_that_are_not_unnested(mode: str, expected: tuple[Any, ...]) -> None:
    record = {"g": {"l": [1, 2], "r": [{"key": "a", "n": 1}, {"key": "b"}]}}
    rows, _ = ingested(lines(record), {"g.l": "STRING[]", "g.r": "STRING[]"}, {"collectionNotUnnestedToJson": mode})
    assert rows == [expected]


def test_prefixes_are_renamed() -> None:
    config = {"prefixesToRename": {"group.": "", "topics.": "topic_"}, "fieldsToUnnest": ["topics"]}
    rows, _ = ingested(
        lines(*GROUPS[:1]), {"name": "STRING", "where.city": "STRING", "topic_key": "STRING", "id": "INT"}, config
    )
    assert rows == [("x", "Rome", "a", 1), ("x", "Rome", "b", 1)]


def test_a_name_that_two_fields_are_renamed_to_is_a_bad_row() -> None:
    records = [{"a": {"x": 1}, "b": {"x": None}}, {"a": {"x": None}, "b": {"x": 2}}, {"a": {"x": 1}, "b": {"x": 2}}]
    config = {"prefixesToRename": {"a.": "", "b.": ""}}
    rows, ledger = ingested(lines(*records), {"x": "INT"}, config, continueOnError=True)
    assert rows == [(1,), (2,)]
    assert [(reject.row, reject.column) for reject in ledger.rejects] == [(3, "x")]
    with pytest.raises(DecodeError, match=r"'a\.x' and 'b\.x' both have a value"):
        ingested(lines(*records), {"x": "INT"}, config)


def test_another_delimiter_and_names_with_dots() -> None:
    records = [{"a": {"b.c": 1, "d": {"e": 2}}, "f.g": {"h": 3}}]
    assert ingested(lines(*records), {"a__b.c": "INT", "a__d__e": "INT", "f.g__h": "INT"}, {"delimiter": "__"})[0] == [
        (1, 2, 3)
    ]
    assert ingested(lines(*records), {"a.b.c": "INT", "a.d.e": "INT", "f.g.h": "INT"}, {})[0] == [(1, 2, 3)]


@pytest.mark.parametrize(
    ("records", "rows", "unmapped"),
    [
        # What a row has by the flat name; where it has two, the field that is called so, and the other is counted.
        ([{"a": {"b": 1}}, {"a.b": 2}, {"a": {"b": 3}, "a.b": 4}, {}], [1, 2, 4, None], {"a.b": 1}),
        ([{"a.b": 2}, {"a": {"b": "3"}}, {"a": {"b": None}, "a.b": 4}], [2, 3, 4], {}),
        ([{"a": {"b": 1}, "a.b": [5, 6]}, {"a": {"b": 3}, "a.b": 4}], None, {"a.b": 2}),
    ],
)
def test_fields_of_one_flat_name_fill_its_column_and_what_is_left_is_counted(
    records: list[Any], rows: list[Any] | None, unmapped: dict[str, int]
) -> None:
    kind = "INT" if rows is not None else "STRING"
    got, ledger = ingested(lines(*records), {"a.b": kind}, {})
    assert rows is None or got == [(value,) for value in rows]
    assert ledger.unmapped == unmapped


def test_parts_of_a_record_of_one_flat_name_are_counted_by_the_record() -> None:
    records = [{"a": {"b.c": 1, "b": {"c": 2}}}, {"a": {"b": {"c": 3}}}]
    got, ledger = ingested(lines(*records), {"a.b.c": "INT"}, {})
    assert (got, ledger.unmapped) == ([(1,), (3,)], {"a": 1})
    # The whole record is there: nothing is lost.
    _, ledger = ingested(lines(*records), {"a.b.c": "INT", "a": "JSON"}, {})
    assert not ledger.unmapped


def test_a_field_that_is_called_as_a_part_of_unnested_entries_is_counted() -> None:
    got, ledger = ingested(lines({"a": [{"b": 1}, {"b": 2}], "a.b": 5}), {"a.b": "INT"}, {"fieldsToUnnest": ["a"]})
    assert (got, ledger.unmapped) == ([(1,), (2,)], {"a.b": 1})


def test_a_transform_and_the_filter_see_flat_columns_of_each_row() -> None:
    rows, ledger = ingested(
        lines(*GROUPS),
        {"id": "INT", "label": "STRING"},
        {"fieldsToUnnest": ["topics"]},
        transformConfigs=[{"columnName": "label", "transformFunction": "concat(\"topics.key\", id, '-')"}],
        filterConfig={"filterFunction": '"topics.key" IS NULL'},
    )
    assert rows == [(1, "a-1"), (1, "b-1"), (3, "c-3")]
    assert (ledger.num_rows_read, ledger.num_rows_added, ledger.num_rows_filtered, ledger.num_rows_indexed) == (
        3,
        1,
        1,
        3,
    )


def test_json_format_keeps_any_incoming_value_as_text() -> None:
    """The documented way to keep a nested field: jsonFormat of a field that is no column."""
    names = ("rec", "recs", "nums", "text", "num", "flag", "none")
    record = {
        "rec": {"a": [1, {"b": None}]},
        "recs": [{"a": 1}],
        "nums": [1, 2],
        "text": 'x"y',
        "num": 1.5,
        "flag": True,
    }
    transforms = [{"columnName": f"{name}_json", "transformFunction": f"jsonFormat({name})"} for name in names]
    rows, _ = ingested(lines(record), {f"{name}_json": "STRING" for name in names}, None, transformConfigs=transforms)
    assert rows == [('{"a":[1,{"b":null}]}', '[{"a":1}]', "[1,2]", '"x\\"y"', "1.5", "true", None)]


def test_mixed_numbers_and_texts_are_cast_each_by_itself() -> None:
    records = [{"n": 7.0}, {"n": "8"}, {"n": True}, {"n": 2.5}, {"n": "x"}]
    rows, ledger = ingested(lines(*records), {"n": "LONG"}, None, continueOnError=True)
    assert rows == [(7,), (8,), (1,)]
    assert [reject.row for reject in ledger.rejects] == [4, 5]
    alone = [ingested(lines(record), {"n": "LONG"}, None, continueOnError=True)[0] for record in records]
    assert alone == [[(7,)], [(8,)], [(1,)], [], []]


def test_a_record_that_becomes_too_many_rows_is_bad_and_the_others_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(complex_types, "ROWS_OF_ONE_MAX", 1000)
    monkeypatch.setattr(complex_types, "BATCH_ROWS", 100)
    records = [{"id": n, "a": list(range(40)), "b": list(range(20 if n != 2 else 30))} for n in range(4)]
    rows, ledger = ingested(
        lines(*records), {"id": "INT", "a": "INT", "b": "INT"}, {"fieldsToUnnest": ["a", "b"]}, continueOnError=True
    )
    assert rows == [(n, a, b) for n in (0, 1, 3) for a in range(40) for b in range(20)]
    assert [(reject.row, reject.cause) for reject in ledger.rejects] == [
        (3, "a record that unnests into more than 1000 rows")
    ]


def test_bad_values_of_unnested_rows_name_their_record() -> None:
    content = lines({"l": [{"n": 1}, {"n": "x"}]}, {"l": [{"n": "y"}]})
    rows, ledger = ingested(content, {"l.n": "INT"}, {"fieldsToUnnest": ["l"]}, continueOnError=True)
    assert rows == [(1,)]
    assert [reject.row for reject in ledger.rejects] == [1, 2]


@pytest.mark.parametrize("config", [{"delimiter": ""}])
def test_what_cannot_be_meant_is_refused(config: dict[str, Any]) -> None:
    with pytest.raises(InvalidConfigError, match="complexTypeConfig"):
        pipeline({"a": "INT"}, config)


@pytest.mark.parametrize(
    "step",
    [
        {"schemaConformingTransformerConfig": {"unindexableExtrasField": "x"}},
        {"enrichmentConfigs": [{"enricherType": "clp"}]},
    ],
)
def test_steps_that_there_are_not_are_refused_not_left_out(step: dict[str, Any]) -> None:
    with pytest.raises(InvalidConfigError, match="this step is not there"):
        pipeline({"a": "INT"}, None, **step)


# --- every format, against DuckDB -------------------------------------------------------------------------------------

ROWS = [
    {
        "id": n,
        "g": {"name": f"n{n % 3}", "w": {"x": n / 2}},
        "l": [{"k": f"k{i}", "v": i * n} for i in range(n % 4)],
        "m": {"a": n, "b": n + 1} if n % 2 else {},
    }
    for n in range(50)
]
ARROW = pa.schema(
    [
        ("id", pa.int64()),
        ("g", pa.struct([("name", pa.string()), ("w", pa.struct([("x", pa.float64())]))])),
        ("l", pa.list_(pa.struct([("k", pa.string()), ("v", pa.int64())]))),
        ("m", pa.map_(pa.string(), pa.int64())),
    ]
)


def content_in(file_format: FileFormat) -> bytes:
    out = io.BytesIO()
    table = pa.Table.from_pylist([row | {"m": list(row["m"].items())} for row in ROWS], ARROW)  # type: ignore[attr-defined]
    match file_format:
        case FileFormat.JSON:
            return lines(*ROWS)
        case FileFormat.PARQUET:
            pq.write_table(table, out, row_group_size=7)
        case FileFormat.ORC:
            orc.write_table(table, out)
        case FileFormat.AVRO:
            inner = {"type": "record", "name": "w", "fields": [{"name": "x", "type": "double"}]}
            entry = {
                "type": "record",
                "name": "e",
                "fields": [{"name": "k", "type": "string"}, {"name": "v", "type": "long"}],
            }
            fields = [
                {"name": "id", "type": "long"},
                {
                    "name": "g",
                    "type": {
                        "type": "record",
                        "name": "g",
                        "fields": [{"name": "name", "type": "string"}, {"name": "w", "type": ["null", inner]}],
                    },
                },
                {"name": "l", "type": ["null", {"type": "array", "items": entry}]},
                {"name": "m", "type": {"type": "map", "values": "long"}},
            ]
            fastavro.writer(
                out, fastavro.parse_schema({"type": "record", "name": "r", "fields": fields}), ROWS, codec="deflate"
            )
    return out.getvalue()


@pytest.mark.parametrize("file_format", [FileFormat.JSON, FileFormat.PARQUET, FileFormat.ORC, FileFormat.AVRO])
def test_every_format_gives_what_duckdb_unnests(file_format: FileFormat) -> None:
    specs = {
        "id": "LONG",
        "g.name": "STRING",
        "g.w.x": "DOUBLE",
        "l.k": "STRING",
        "l.v": "LONG",
        "m.a": "LONG",
        "m.b": "LONG",
    }
    found, _ = ingested(content_in(file_format), specs, {"fieldsToUnnest": ["l"]}, file_format)
    records = pa.Table.from_pylist([row | {"m": list(row["m"].items())} for row in ROWS], ARROW)  # type: ignore[attr-defined]
    with duckdb.connect() as database:
        database.register("records", records)
        expected = database.sql(
            "SELECT id, g.name, g.w.x, e.k, e.v, m['a'], m['b'] FROM (SELECT *, unnest(CASE WHEN len(l) = 0 THEN "
            "[NULL] ELSE l END) AS e FROM records)"
        ).fetchall()
    assert sorted(found, key=str) == sorted(expected, key=str)
    assert [row[0] for row in found] == sorted(row[0] for row in found)


# --- random records against the rules, row by row ---------------------------------------------------------------------

KEYS = st.sampled_from("abc")
SCALARS = st.none() | st.integers(-9, 9)
RECORDS = st.recursive(
    SCALARS, lambda below: st.lists(below, max_size=3) | st.dictionaries(KEYS, below, max_size=3), max_leaves=8
)

FIELDS = st.sets(st.sampled_from(["a", "b", "a.b", "a.a", "b.c", "a.b.c"]), max_size=3)


def unnested_by_hand(record: dict[str, Any], fields: list[str]) -> list[dict[str, Any]]:
    """Flat rows of one record: (dotted name → scalar or list), by the rules of the reference, one step after the
    other.
    """

    def flat(value: Any, name: str) -> dict[str, Any]:
        if isinstance(value, dict):
            return dict(
                chain.from_iterable(flat(item, f"{name}.{key}" if name else key).items() for key, item in value.items())
            )
        return {name: value}

    rows = [flat(record, "")]
    for field in sorted(fields):
        grown = []
        for row in rows:
            entries = row.get(field)
            if not isinstance(entries, list) or not entries:
                grown.append(
                    {name: value for name, value in row.items() if name != field or not isinstance(value, list)}
                )
                continue
            rest = {name: value for name, value in row.items() if name != field}
            grown += [rest | flat(entry, field) for entry in entries]
        rows = grown
    return rows


def is_plain(value: Any) -> bool:
    """No name stands for a record in one place and for a list or a scalar in another: it is text then, without columns
    below.
    """
    return all(len(kinds) == 1 for kinds in kinds_of(value).values())


def kinds_of(value: Any, path: str = "") -> dict[str, set[type]]:
    found: dict[str, set[type]] = {} if value is None else {path: {type(value)}}
    below: Iterable[tuple[str, Any]] = ()
    if isinstance(value, dict):
        below = value.items()
    elif isinstance(value, list):
        below = [("[]", item) for item in value]
    for name, item in below:
        for where, kinds in kinds_of(item, f"{path}.{name}").items():
            found.setdefault(where, set()).update(kinds)
    return found


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(
    record=st.dictionaries(KEYS, RECORDS, max_size=3).filter(is_plain),
    fields=st.sets(st.sampled_from(["a", "b", "a.b", "a.a", "b.c", "a.b.c"]), max_size=3),
)
def test_random_records_are_unnested_by_the_rules(record: dict[str, Any], fields: set[str]) -> None:
    expected = unnested_by_hand(record, sorted(fields))
    names = sorted({name for row in expected for name, value in row.items() if name and isinstance(value, int)})
    specs = dict.fromkeys(names, "INT") | {"other": "INT"}
    if not names:  # none of the schema's columns
        with pytest.raises(DecodeError, match="no record has a field of schema 't'"):
            ingested(lines(record), specs, {"fieldsToUnnest": sorted(fields)}, continueOnError=True)
        return
    rows, ledger = ingested(lines(record), specs, {"fieldsToUnnest": sorted(fields)}, continueOnError=True)
    if ledger.num_rows_rejected:
        return  # a list where the column wants one value
    assert rows == [
        (*(value if isinstance(value := row.get(name), int) else None for name in names), None) for row in expected
    ]
