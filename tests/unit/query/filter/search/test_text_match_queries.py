"""Proves that TEXT_MATCH works in whole queries of both dialects: with other conditions, negated, with nulls, in
FILTER, over one segment or several, however the column is encoded; and that it is refused with code 200 where there is
no index.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from in_process import InProcessCluster

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig

SCHEMA = Schema.from_json(
    {
        "schemaName": "notes",
        "dimensionFieldSpecs": [
            {"name": "id", "dataType": "INT"},
            {"name": "kind", "dataType": "STRING"},
            *({"name": name, "dataType": "STRING"} for name in ("body", "rawBody", "zippedBody", "bare")),
            {"name": "tags", "dataType": "STRING", "singleValueField": False},
        ],
    }
)
BODIES = [
    "The quick brown fox",
    "quick brown dogs and foxes",
    None,
    "jumped over the lazy dog",
    "java c++ python",
    "null and void",
    "",
]
TAGS = [["red fox", "dog"], ["fox"], None, ["dog", "quick"], ["red", "fox"], ["brown dog"], ["lazy fox"]]
NUM_DOCS = 70
TEXT_COLUMNS = ("body", "rawBody", "zippedBody")


def config(table: str) -> TableConfig:
    return TableConfig.from_json(
        {
            "tableName": table,
            "tableType": "OFFLINE",
            "segmentsConfig": {"replication": "1"},
            "tenants": {},
            "metadata": {},
            "tableIndexConfig": {
                "nullHandlingEnabled": True,
                "noDictionaryColumns": ["rawBody"],
                "noDictionaryConfig": {"zippedBody": "ZSTANDARD"},
                "invertedIndexColumns": ["kind"],
            },
            "fieldConfigList": [{"name": name, "indexType": "TEXT"} for name in (*TEXT_COLUMNS, "tags")],
        }
    )


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCluster]:
    bodies, tags = [BODIES[i % 7] for i in range(NUM_DOCS)], [TAGS[i % 7] for i in range(NUM_DOCS)]
    columns: dict[str, Any] = {
        "id": pa.array(range(NUM_DOCS), pa.int32()),
        "kind": [f"k{i % 3}" for i in range(NUM_DOCS)],
    }
    columns |= dict.fromkeys([*TEXT_COLUMNS, "bare"], pa.array(bodies, pa.string())) | {
        "tags": pa.array(tags, pa.list_(pa.string()))
    }
    rows = pa.record_batch(columns)
    found = InProcessCluster(tmp_path_factory.mktemp("notes"), num_servers=2, null_handling=False)
    found.add_table(SCHEMA, config("notes"), [[rows]])
    found.add_table(SCHEMA, config("cut"), [[rows.slice(first, 9)] for first in range(0, NUM_DOCS, 9)])
    yield found
    found.close()


def ids(answer: dict[str, Any]) -> list[int]:
    assert not answer["exceptions"], answer["exceptions"]
    return sorted(row[0] for row in answer["resultTable"]["rows"])


def docs_of(*kinds: int) -> list[int]:
    """Ids of the rows whose body is one of those."""
    return [i for i in range(NUM_DOCS) if i % 7 in kinds]


@pytest.mark.parametrize("table", ["notes", "cut"])
@pytest.mark.parametrize("column", TEXT_COLUMNS)
@pytest.mark.parametrize(
    ("condition", "kinds"),
    [
        ("TEXT_MATCH({c}, 'QUICK')", (0, 1)),
        ("TEXT_MATCH({c}, '\"brown fox\"')", (0,)),
        ("TEXT_MATCH({c}, 'fox~ -dogs')", (0, 3)),
        ("TEXT_MATCH({c}, 'c++')", (4,)),
        ("TEXT_MATCH({c}, 'the')", ()),
        ("TEXT_MATCH({c}, 'null')", (2, 5)),
        ("NOT TEXT_MATCH({c}, 'quick OR null')", (3, 4, 6)),
        ("TEXT_MATCH({c}, '*:*')", (0, 1, 2, 3, 4, 5, 6)),
        ("TEXT_MATCH({c}, 'quick') AND TEXT_MATCH({c}, 'fox')", (0,)),
        ("TEXT_MATCH({c}, 'quick') OR {c} = ''", (0, 1, 6)),
        ("TEXT_MATCH({c}, 'null') AND {c} IS NOT NULL", (5,)),
    ],
)
def test_conditions_select_the_rows_that_they_name(
    cluster: InProcessCluster, table: str, column: str, condition: str, kinds: tuple[int, ...]
) -> None:
    answer = cluster.sql(f"SELECT id FROM {table} WHERE {condition.format(c=column)} LIMIT 1000")
    assert ids(answer) == docs_of(*kinds)


def test_with_null_handling_a_search_of_null_is_unknown(cluster: InProcessCluster) -> None:
    def ask(condition: str) -> list[int]:
        return ids(cluster.sql(f"SELECT id FROM cut WHERE {condition} LIMIT 1000 OPTION(enableNullHandling=true)"))

    assert ask("TEXT_MATCH(body, 'null OR quick')") == docs_of(0, 1, 5)
    assert ask("NOT TEXT_MATCH(body, 'null OR quick')") == docs_of(3, 4, 6)
    assert ask("NOT TEXT_MATCH(tags, 'fox')") == docs_of(3, 5)


def test_multi_values_match_as_one_text_whose_phrases_end_with_a_value(cluster: InProcessCluster) -> None:
    for table in ("notes", "cut"):
        for search, kinds in (("fox", (0, 1, 4, 6)), ("+red +dog", (0,)), ('"red fox"', (0,)), ("dog -red", (3, 5))):
            assert ids(cluster.sql(f"SELECT id FROM {table} WHERE TEXT_MATCH(tags, '{search}') LIMIT 1000")) == docs_of(
                *kinds
            ), search


def test_an_index_reads_no_entries_and_leaves_fewer_to_the_others(cluster: InProcessCluster) -> None:
    alone = cluster.pql("SELECT COUNT(*) FROM notes WHERE TEXT_MATCH(body, 'quick')")
    assert alone["aggregationResults"][0]["value"] == "20"
    assert (alone["numEntriesScannedInFilter"], alone["numDocsScanned"]) == (0, 20)
    both = cluster.pql("SELECT COUNT(*) FROM notes WHERE id > 10 AND TEXT_MATCH(rawBody, 'quick')")
    assert (both["numEntriesScannedInFilter"], both["numDocsScanned"]) == (0, 16)  # id ascends: a run of docs
    both = cluster.pql("SELECT COUNT(*) FROM notes WHERE bare = 'null' AND TEXT_MATCH(body, 'null')")
    assert (both["numEntriesScannedInFilter"], both["numDocsScanned"]) == (20, 10)
    listed = cluster.pql("SELECT COUNT(*) FROM notes WHERE kind = 'k1' AND TEXT_MATCH(body, 'quick')")
    assert listed["numDocsScanned"] == len([i for i in docs_of(0, 1) if i % 3 == 1])


def test_filter_of_an_aggregation_searches(cluster: InProcessCluster) -> None:
    answer = cluster.sql(
        "SELECT COUNT(*) FILTER (WHERE TEXT_MATCH(body, 'fox')), COUNT(*) FROM cut WHERE TEXT_MATCH(body, 'quick OR "
        "fox')"
    )
    assert answer["resultTable"]["rows"] == [[10, 20]]


@pytest.mark.parametrize("ask", ["pql", "sql"])
@pytest.mark.parametrize(
    ("column", "search", "code", "message"),
    [
        ("bare", "fox", 200, "without text index"),
        ("body", "", 200, "at character 0"),
        ("body", "*", 200, "at character 0"),
        ("body", "(fox", 200, "at character 4"),
        ("body", "/(/", 200, "RE2"),
        ("upper(body)", "fox", 150, "expected TEXT_MATCH to have a column"),
    ],
)
def test_searches_that_cannot_be_answered_say_why(
    cluster: InProcessCluster, ask: str, column: str, search: str, code: int, message: str
) -> None:
    answer = getattr(cluster, ask)(f"SELECT COUNT(*) FROM notes WHERE TEXT_MATCH({column}, '{search}')")
    assert [fault["errorCode"] for fault in answer["exceptions"]] == [code]
    assert message in answer["exceptions"][0]["message"]
