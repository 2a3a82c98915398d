"""Proves the answer to EXPLAIN end to end, over two servers: the table of operators has the reference's shape (columns,
names, numbers and parents as in its recorded answers), PQL has the key `explain`, and every way of asking gives the
same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from in_process import InProcessCluster

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig

SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [
            {"name": "team", "dataType": "STRING"},
            {"name": "year", "dataType": "INT"},
            {"name": "league", "dataType": "STRING"},
        ],
        "metricFieldSpecs": [{"name": "runs", "dataType": "INT"}],
    }
)
CONFIG = TableConfig.from_json(
    {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1"},
        "tenants": {},
        "tableIndexConfig": {"invertedIndexColumns": ["team"]},
        "metadata": {},
    }
)
TEAMS = 60


def rows(first_year: int) -> pa.RecordBatch:
    count = 3000
    return pa.record_batch(
        {
            "team": pa.array([f"T{i % TEAMS:02d}" for i in range(count)]),
            "year": pa.array([first_year + i % 10 for i in range(count)], pa.int32()),
            "league": pa.array(["AL" if i % 3 else "NL" for i in range(count)]),
            "runs": pa.array([i % 100 for i in range(count)], pa.int32()),
        }
    )


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCluster]:
    built = InProcessCluster(tmp_path_factory.mktemp("cluster"), num_servers=2)
    built.add_table(SCHEMA, CONFIG, [[rows(1990)], [rows(1990)], [rows(2000)], [rows(2000)]])
    yield built
    built.close()


def table(answer: dict[str, Any]) -> list[tuple[str, int, int]]:
    """Names of the operators with their numbers; PLAN_START with what is in its brackets."""
    assert answer["exceptions"] == []
    assert answer["resultTable"]["dataSchema"] == {
        "columnNames": ["Operator", "Operator_Id", "Parent_Id"],
        "columnDataTypes": ["STRING", "INT", "INT"],
    }
    found = answer["resultTable"]["rows"]
    assert answer["numRowsResultSet"] == len(found)
    assert (
        answer["numDocsScanned"],
        answer["numSegmentsProcessed"],
        answer["totalDocs"],
        answer["numServersResponded"],
    ) == (0, 0, 12_000, 2)
    return [
        (text if text.startswith(("PLAN", "BROKER")) else text.partition("(")[0], number, parent)
        for text, number, parent in found
    ]


# Names and numbers are those of recorded answers of the reference (tests/golden, *_sql15, section options).
def test_a_count_reads_no_segment(cluster: InProcessCluster) -> None:
    assert table(cluster.sql("EXPLAIN PLAN FOR SELECT COUNT(*) FROM t")) == [
        ("BROKER_REDUCE(limit:10)", 1, 0),
        ("COMBINE_AGGREGATE", 2, 1),
        ("PLAN_START(numSegmentsForThisPlan:4)", -1, -1),
        ("AGGREGATE_NO_SCAN", 3, 2),
    ]


def test_groups_with_two_conditions(cluster: InProcessCluster) -> None:
    answer = cluster.sql(
        "EXPLAIN PLAN FOR SELECT league, SUM(runs) FROM t WHERE runs > 20 AND team = 'T07' GROUP BY league ORDER BY "
        "league"
    )
    assert table(answer) == [
        ("BROKER_REDUCE(sort:[league ASC],limit:10)", 1, 0),
        ("COMBINE_GROUP_BY", 2, 1),
        ("PLAN_START(numSegmentsForThisPlan:4)", -1, -1),
        ("GROUP_BY", 3, 2),
        ("PROJECT", 4, 3),
        ("DOC_ID_SET", 5, 4),
        ("FILTER_AND", 6, 5),
        *sorted([("FILTER_INVERTED_INDEX", 7, 6), ("FILTER_FULL_SCAN", 8, 6)], key=lambda row: row[1]),
    ]
    texts = {text.partition("(")[0]: text for text, _, _ in answer["resultTable"]["rows"]}
    assert texts["FILTER_INVERTED_INDEX"].startswith(
        "FILTER_INVERTED_INDEX(indexLookUp:inverted_index,operator:EQ,predicate:team = 'T07',"
    )
    assert texts["FILTER_FULL_SCAN"].startswith("FILTER_FULL_SCAN(operator:RANGE,predicate:runs > '20',")
    assert (
        "notUsed:[sorted index: the column is not sorted; inverted index: not built; range index: not built]"
        in texts["FILTER_FULL_SCAN"]
    )
    assert texts["GROUP_BY"].startswith("GROUP_BY(groupKeys:league, aggregations:sum(runs)")
    assert answer["explainPlanNumEmptyFilterSegments"] == answer["explainPlanNumMatchAllFilterSegments"] == 0


def test_rows_in_order(cluster: InProcessCluster) -> None:
    answer = cluster.sql("EXPLAIN PLAN FOR SELECT team, runs FROM t WHERE team LIKE 'T0%' ORDER BY runs DESC LIMIT 3")
    assert table(answer) == [
        ("BROKER_REDUCE(sort:[runs DESC],limit:3)", 1, 0),
        ("COMBINE_SELECT_ORDERBY_MINMAX", 2, 1),
        ("PLAN_START(numSegmentsForThisPlan:4)", -1, -1),
        ("SELECT_ORDERBY", 3, 2),
        ("PROJECT", 4, 3),
        ("DOC_ID_SET", 5, 4),
        ("FILTER_FULL_SCAN", 6, 5),
    ]
    assert any(text.startswith("SELECT_ORDERBY(selectList:runs, team") for text, _, _ in answer["resultTable"]["rows"])


def test_all_segments_pruned(cluster: InProcessCluster) -> None:
    answer = cluster.sql("EXPLAIN PLAN FOR SELECT COUNT(*) FROM t WHERE year > 5000")
    assert table(answer) == [
        ("BROKER_REDUCE(limit:10)", 1, 0),
        ("PLAN_START(numSegmentsForThisPlan:4)", -1, -1),
        ("ALL_SEGMENTS_PRUNED_ON_SERVER", 2, 1),
    ]
    assert answer["numSegmentsPrunedByServer"] == answer["numSegmentsPrunedByValue"] == 4


def test_conditions_inside_or(cluster: InProcessCluster) -> None:
    answer = cluster.sql(
        "EXPLAIN PLAN FOR SELECT league, SUM(runs) FROM t WHERE team = 'T07' AND league = 'AL' OR runs > 2 GROUP BY "
        "league"
    )
    shown = table(answer)[6:]
    assert shown[0] == ("FILTER_OR", 6, 5) and sorted(row[1] for row in shown) == [6, 7, 8, 9, 10]
    (both,) = [number for name, number, parent in shown if (name, parent) == ("FILTER_AND", 6)]
    assert len([1 for _, _, parent in shown if parent == both]) == 2


def test_segments_with_different_plans_stand_apart(cluster: InProcessCluster) -> None:
    answer = cluster.pql("EXPLAIN PLAN FOR SELECT SUM(runs) FROM t WHERE year = 2003")
    assert answer["exceptions"] == [] and "aggregationResults" not in answer and next(iter(answer)) == "explain"
    explained = answer["explain"]
    assert explained["broker"] == "BROKER_REDUCE(limit:10)" and explained["server"] == "COMBINE_AGGREGATE"
    planned, pruned = sorted(explained["plans"], key=lambda plan: "pruned" in plan)
    assert (planned["segments"], sorted(planned["names"])) == (2, ["t_0002", "t_0003"])
    assert (pruned["segments"], pruned["pruned"]["rule"], pruned["pruned"]["values"]["year"]) == (
        2,
        "min and max",
        [[1990, 1999]] * 2,
    )
    assert answer["numSegmentsPrunedByServer"] == 2 and answer["numDocsScanned"] == 0
    assert "{" not in str([unused["why"] for unused in planned["filter"]["notUsed"]])


def test_shares_of_docs_stand_in_the_text(cluster: InProcessCluster) -> None:
    # T00 to T29: half of the docs.
    (plan,) = cluster.pql("EXPLAIN PLAN FOR SELECT SUM(runs) FROM t WHERE team BETWEEN 'T00' AND 'T29'")["explain"][
        "plans"
    ]
    (why,) = [unused["why"] for unused in plan["filter"]["notUsed"] if unused["index"] == "inverted index"]
    assert re.fullmatch(r"50 % of the docs: estimated [\d.]+ us by index, [\d.]+ us by scan", why), why


QUERY = "SELECT SUM(runs) FROM t WHERE team = 'T07'"


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        (f"explain plan for {QUERY}", {}),
        (f"{QUERY} OPTION(explain=true)", {}),
        (QUERY, {"query_options": "explain=TRUE"}),
        (QUERY, {"explain": True}),
        (f"{QUERY} OPTION(explain=true)", {"query_options": "explain=false"}),
        (f"EXPLAIN PLAN FOR {QUERY} OPTION(explain=false)", {}),
    ],
)
@pytest.mark.parametrize("dialect", ["pql", "sql"])
def test_every_way_of_asking_gives_the_same(
    cluster: InProcessCluster, dialect: str, text: str, fields: dict[str, Any]
) -> None:
    ask = cluster.pql if dialect == "pql" else cluster.sql
    expected = ask(f"EXPLAIN PLAN FOR {QUERY}")["explain"]
    assert expected["plans"][0]["filter"]["access"] == "inverted index"
    assert ask(text, **fields)["explain"] == expected


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        (QUERY, {}),
        (f"{QUERY} OPTION(explain=false)", {"explain": True}),
        (f"{QUERY} OPTION(Explain=true)", {}),
        (f"{QUERY} OPTION(explain=yes)", {}),
    ],
)
def test_what_does_not_ask_for_an_explanation_is_answered(
    cluster: InProcessCluster, text: str, fields: dict[str, Any]
) -> None:
    answer = cluster.pql(text, **fields)
    assert "explain" not in answer and answer["aggregationResults"]


def test_a_query_that_fails_is_refused_and_not_explained(cluster: InProcessCluster) -> None:
    for text, code in (
        ("SELECT nosuch FROM t", 710),
        ("SELECT runs FROM", 150),
        ("SELECT SUM(runs) FROM t WHERE runs = 'x'", 200),
    ):
        answer = cluster.pql(f"EXPLAIN PLAN FOR {text}")
        assert [fault["errorCode"] for fault in answer["exceptions"]] == [code] and "explain" not in answer
    assert [fault["errorCode"] for fault in cluster.pql(f"EXPLAIN {QUERY}")["exceptions"]] == [150]


def test_sql_leaves_plan_for_out(cluster: InProcessCluster) -> None:
    short, long = (cluster.sql(f"{words} {QUERY}")["resultTable"] for words in ("EXPLAIN", "EXPLAIN PLAN FOR"))
    assert short == long and short["rows"]


def test_literals_are_answered_by_the_broker(cluster: InProcessCluster) -> None:
    answer = cluster.sql("EXPLAIN PLAN FOR SELECT 1, 'a'")
    assert answer["resultTable"]["rows"] == [["BROKER_EVALUATE", 0, -1]] and answer["numServersQueried"] == 0
