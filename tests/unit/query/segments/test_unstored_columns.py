"""Columns that a segment does not store.

A column that the schema got after a segment was built reads as its default in every position of a query: the answers
equal those of the same rows built with the new schema. $docId, $segmentName and $hostName are selected, filtered and
grouped by.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from built_segments import build, config_of, schema_of
from in_process import InProcessCluster

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.data_types import DataType
from pinotpy.pql.parser import parse_sql
from pinotpy.query.compile.statement import compile_query
from pinotpy.query.execute import execute
from pinotpy.query.model.context import QueryOptions
from pinotpy.query.result.combine import merge_partials
from pinotpy.query.result.reduce import reduce_partials
from pinotpy.query.runtime.control import QueryControl
from pinotpy.query.segments.segment_set import SegmentSet
from pinotpy.segment.build.builder import build_segment
from pinotpy.segment.immutable import open_segment
from pinotpy.segment.shared_codes.cache import SharedDictionaries

OLD_SPECS = [{"name": "city", "dataType": "STRING"}, {"name": "row", "dataType": "INT"}]
TYPES = [DataType.INT, DataType.LONG, DataType.FLOAT, DataType.DOUBLE, DataType.BIG_DECIMAL, DataType.BOOLEAN,
    DataType.TIMESTAMP, DataType.STRING,
         DataType.JSON, DataType.BYTES]  # fmt: skip
NEW_SPECS = [
    *[{"name": f"new_{kind}", "dataType": str(kind)} for kind in TYPES],
    *[
        {"name": f"list_{kind}", "dataType": str(kind), "singleValueField": False}
        for kind in (DataType.INT, DataType.DOUBLE, DataType.STRING)
    ],
    {"name": "named", "dataType": "STRING", "defaultNullValue": "nobody"},
    {"name": "broken", "dataType": "DOUBLE", "defaultNullValue": "NaN"},
    {"name": "told", "dataType": "STRING", "defaultNullValue": "Long ago, so Łong and the long"},
]
TEXT_INDEXED = ["told", "list_STRING"]
METRICS = [{"name": "price", "dataType": "DOUBLE"}]
OLD_ROWS, NEW_ROWS = 700, 300
CITIES = ["Oslo", "Rome", "Łódź"]


def _schema(name: str, *, with_new: bool) -> Schema:
    dimensions = OLD_SPECS + (NEW_SPECS if with_new else [])
    return Schema.from_json(
        {"schemaName": name, "dimensionFieldSpecs": dimensions, "metricFieldSpecs": METRICS if with_new else []}
    )


def _config(name: str, *, with_new: bool) -> TableConfig:
    return TableConfig.from_json(
        {
            "tableName": name, "tableType": "OFFLINE", "segmentsConfig": {"replication": "1"}, "tenants": {},
            "metadata": {},
            "tableIndexConfig": {"nullHandlingEnabled": True, "noDictionaryColumns": ["row"]},
            "fieldConfigList": [{"name": column, "encodingType": "RAW",
            "indexTypes": ["TEXT"]} for column in TEXT_INDEXED if with_new],
        }
    )  # fmt: skip


def _rows(start: int, count: int, schema: Schema, *, present: bool) -> pa.RecordBatch:
    """Rows with the old columns filled, and the new ones where `present`."""
    samples: dict[DataType, Any] = {
        DataType.INT: 7, DataType.LONG: 8, DataType.FLOAT: 0.5, DataType.DOUBLE: 0.25, DataType.BOOLEAN: True,
        DataType.TIMESTAMP: 86_400_000,
        DataType.STRING: "here", DataType.JSON: '{"a":1}', DataType.BYTES: b"\x01", DataType.BIG_DECIMAL: None,
    }  # fmt: skip
    columns: dict[str, pa.Array] = {}
    for name, spec in schema.field_specs.items():
        arrow = spec.data_type.arrow if spec.single_value else pa.list_(spec.data_type.arrow)
        if name == "city":
            columns[name] = pa.array([CITIES[i % 3] for i in range(start, start + count)], arrow)
        elif name == "row":
            columns[name] = pa.array(range(start, start + count), arrow)
        elif not present:
            columns[name] = pa.nulls(count, arrow)
        else:
            sample = samples[spec.data_type]
            columns[name] = pa.array([sample if spec.single_value else [sample, sample]] * count, arrow)
    return pa.RecordBatch.from_pydict(columns)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCluster]:
    """Table `grown`: a segment of the old schema and one of the new. Table `rebuilt`: the same rows, all of the new
    schema.
    """
    directory = tmp_path_factory.mktemp("unstored")
    cluster = InProcessCluster(directory, num_servers=2)
    for name, first_is_old in (("grown", True), ("rebuilt", False)):
        new, config = _schema(name, with_new=True), _config(name, with_new=True)
        first = _schema(name, with_new=not first_is_old)
        build_segment(
            first,
            _config(name, with_new=not first_is_old),
            [_rows(0, OLD_ROWS, first, present=False)],
            directory / name,
            f"{name}_0",
            raw_table_name=name,
        )
        build_segment(
            new,
            config,
            [_rows(OLD_ROWS, NEW_ROWS, new, present=True)],
            directory / name,
            f"{name}_1",
            raw_table_name=name,
        )
        cluster.add_built_table(new, config, [directory / name / f"{name}_{i}" for i in (0, 1)])
    yield cluster
    cluster.close()


def _answer(cluster: InProcessCluster, dialect: str, text: str, options: str) -> str:
    answer = (cluster.sql if dialect == "sql" else cluster.pql)(text, query_options=options)
    assert not answer["exceptions"], (text, answer["exceptions"])
    shown = {
        key: answer[key]
        for key in ("resultTable", "aggregationResults", "selectionResults", "numDocsScanned", "totalDocs")
        if key in answer
    }
    return json.dumps(shown).replace("grown", "T").replace("rebuilt", "T")


SINGLE = [spec["name"] for spec in NEW_SPECS if spec.get("singleValueField", True)] + ["price"]
LISTS = [spec["name"] for spec in NEW_SPECS if not spec.get("singleValueField", True)]
SQL = [
    "SELECT * FROM T ORDER BY row LIMIT 1000",
    *[f"SELECT {c}, row FROM T ORDER BY {c}, row LIMIT 1000" for c in SINGLE],
    *[
        f"SELECT {c}, COUNT(*), MIN(row), MAX(row) FROM T GROUP BY {c} ORDER BY MIN(row) LIMIT 10"
        for c in (*SINGLE, *LISTS)
    ],
    *[f"SELECT COUNT({c}), DISTINCTCOUNT({c}) FROM T" for c in SINGLE],
    *[f"SELECT COUNT(*) FROM T WHERE {c} IS NULL" for c in (*SINGLE, *LISTS)],
    *[f"SELECT COUNT(*) FROM T WHERE {c} IS NOT NULL AND city <> 'Rome'" for c in (*SINGLE, *LISTS)],
    *[f"SELECT DISTINCT {c} FROM T ORDER BY {c} LIMIT 5" for c in SINGLE],
    "SELECT SUM(new_INT), AVG(new_DOUBLE), MAX(new_LONG), MIN(price) FROM T WHERE named <> 'here' OR city = 'Oslo'",
    "SELECT city, COUNT(*) FROM T WHERE named = 'nobody' AND new_INT < 0 GROUP BY city ORDER BY city LIMIT 10",
    "SELECT COUNT(*) FROM T WHERE new_STRING IN ('null', 'nothing') OR list_INT = 7",
    "SELECT COUNT(*) FROM T WHERE named NOT IN ('here') AND NOT new_BOOLEAN = true",
    "SELECT COUNT(*) FROM T WHERE REGEXP_LIKE(named, '^no') AND new_DOUBLE < 1",
    "SELECT SUM(row) FILTER (WHERE named = 'nobody'), COUNT(*) FROM T",
    *[
        f"SELECT city, COUNT(*), MAX(row) FROM T WHERE {negated}TEXT_MATCH({c}, '{search}') GROUP BY city ORDER BY city"
        for c in TEXT_INDEXED
        for negated in ("", "NOT ")
        for search in (
            "long",
            "null OR here",
            '"long ago"',
            '"so long"~1',
            "łong",
            "lo* AND NOT ago",
            "agi~1",
            "[b TO m]",
            "the",
            "*:*",
            "/.*g./",
        )
    ],
    "SELECT new_INT + price, COUNT(*) FROM T GROUP BY new_INT + price ORDER BY COUNT(*) LIMIT 5",
]
PQL = [
    "SELECT * FROM T ORDER BY row LIMIT 5",
    *[f"SELECT COUNT(*), MAX(row) FROM T GROUP BY {c} TOP 5" for c in (*SINGLE, *LISTS)],
    "SELECT SUM(price), DISTINCTCOUNT(new_STRING), MINMAXRANGE(new_INT) FROM T",
    "SELECT COUNT(*) FROM T WHERE named = 'nobody' AND list_STRING NOT IN ('x')",
    "SELECT row, list_INT, named FROM T WHERE new_LONG BETWEEN 0 AND 100 LIMIT 3",
]


@pytest.mark.parametrize("options", ["enableNullHandling=false", "enableNullHandling=true"])
@pytest.mark.parametrize("text", SQL)
def test_a_later_column_reads_in_sql_as_if_the_segment_had_been_built_with_it(
    cluster: InProcessCluster, text: str, options: str
) -> None:
    answers = [
        _answer(cluster, "sql", text.replace("FROM T", f"FROM {table}"), options) for table in ("grown", "rebuilt")
    ]
    assert answers[0] == answers[1]


@pytest.mark.parametrize("text", PQL)
def test_a_later_column_reads_in_pql_as_if_the_segment_had_been_built_with_it(
    cluster: InProcessCluster, text: str
) -> None:
    answers = [_answer(cluster, "pql", text.replace("FROM T", f"FROM {table}"), "") for table in ("grown", "rebuilt")]
    assert answers[0] == answers[1]


def _rows_of(cluster: InProcessCluster, text: str, options: str = "enableNullHandling=false") -> list[list[Any]]:
    answer = cluster.sql(text, query_options=options)
    assert not answer["exceptions"], answer["exceptions"]
    rows: list[list[Any]] = answer["resultTable"]["rows"]
    return rows


def test_the_default_is_what_the_schema_says(cluster: InProcessCluster) -> None:
    assert _rows_of(cluster, "SELECT named, new_INT, price, list_STRING, broken FROM grown WHERE row = 5") == [
        ["nobody", -(2**31), 0.0, ["null"], "-Infinity"]
    ]
    assert _rows_of(cluster, "SELECT named, COUNT(*) FROM grown GROUP BY named ORDER BY named LIMIT 9") == [
        ["here", NEW_ROWS],
        ["nobody", OLD_ROWS],
    ]


def test_without_default_values_rows_from_before_the_column_are_null(cluster: InProcessCluster) -> None:
    assert _rows_of(cluster, "SELECT named, new_INT, price, list_STRING FROM grown WHERE row = 5", "") == [[None] * 4]
    assert _rows_of(cluster, "SELECT named, COUNT(*) FROM grown GROUP BY named ORDER BY named LIMIT 9", "") == [
        ["here", NEW_ROWS],
        [None, OLD_ROWS],
    ]


def test_virtual_columns_are_selected_filtered_and_grouped_by(cluster: InProcessCluster) -> None:
    assert _rows_of(cluster,
        "SELECT $segmentName, $docId, row FROM grown WHERE $docId IN (1, 299) ORDER BY row LIMIT 9") == [
        ["grown_0", 1, 1], ["grown_0", 299, 299], ["grown_1", 1, OLD_ROWS + 1], ["grown_1", 299, OLD_ROWS + 299]
    ]  # fmt: skip
    grouped = _rows_of(
        cluster,
        "SELECT $segmentName, COUNT(*), MAX($docId) FROM grown GROUP BY $segmentName ORDER BY $segmentName LIMIT 9",
    )
    assert grouped == [["grown_0", OLD_ROWS, OLD_ROWS - 1], ["grown_1", NEW_ROWS, NEW_ROWS - 1]]
    assert _rows_of(
        cluster, "SELECT $hostName, COUNT(*) FROM grown WHERE $segmentName = 'grown_1' GROUP BY $hostName LIMIT 9"
    ) == [["localhost", NEW_ROWS]]
    assert _rows_of(
        cluster, "SELECT COUNT(*) FROM grown WHERE $docId BETWEEN 10 AND 19 AND $hostName <> 'elsewhere'"
    ) == [[20]]
    assert "$docId" not in cluster.sql("SELECT * FROM grown LIMIT 1")["resultTable"]["dataSchema"]["columnNames"]


TIPS = ["SELECT tip, COUNT(*) FROM t GROUP BY tip LIMIT 9", "SELECT DISTINCT tip FROM t LIMIT 9"]


@pytest.mark.parametrize("text", TIPS)
@pytest.mark.parametrize("rows", [[0], [1], [0, 1]])
def test_a_part_of_a_set_is_grouped_by_a_column_that_others_of_the_set_lack(text: str, rows: list[int]) -> None:
    """As on a server that a broker asks for some of its segments."""
    older = schema_of({"city": "STRING"})
    newer = schema_of({"city": "STRING", "tip": "STRING"})
    held = SegmentSet(
        [
            open_segment(build(older, config_of(), {"city": ["a", "b", "a"]}, "s0")),
            open_segment(build(newer, config_of(), {"city": ["a", "b"], "tip": ["some", "some"]}, "s1")),
        ]
    )
    context = compile_query(parse_sql(text), newer, QueryOptions(), null_handling=False)
    expected = {("null", 3), ("some", 2)} if len(rows) == 2 else {[("null", 3), ("some", 2)][rows[0]]}
    for _ in range(2):  # the second one with what the first left
        partial = execute(context, held.part(np.array(rows)), QueryControl(), dictionaries=SharedDictionaries())
        reduced = reduce_partials(context, merge_partials(context, [partial]))
        found = set(zip(*[column.values.to_pylist() for column in reduced.columns], strict=True))
        assert found == (expected if "COUNT" in text else {(tip,) for tip, _ in expected})
