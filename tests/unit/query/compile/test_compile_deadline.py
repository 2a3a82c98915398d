"""Compiling looks at the query's deadline: a text within all limits takes seconds to compile, in any of its clauses."""

from __future__ import annotations

import pytest
from in_process import InProcessCluster

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.errors import QueryTimeoutError
from pinotpy.pql.ast import Statement
from pinotpy.pql.parser import parse_pql, parse_sql
from pinotpy.query.compile.constants import compile_without_table
from pinotpy.query.compile.statement import compile_query
from pinotpy.query.model.options import query_options

SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [{"name": "a", "dataType": "INT"}, {"name": "s", "dataType": "STRING"}],
        "metricFieldSpecs": [],
    }
)
CONFIG = TableConfig.from_json(
    {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1"},
        "tenants": {},
        "tableIndexConfig": {},
        "metadata": {},
    }
)
TERMS = 500


def _many(term: str, between: str = ", ") -> str:
    return between.join(term.format(number) for number in range(TERMS))


LIKES = _many("s LIKE '%{}%'", " OR ")
SQL = {
    "columns": f"SELECT {_many('a + {}')} FROM t",
    "aliases": f"SELECT {_many('a AS a{}')} FROM t",
    "columns beside groups": f"SELECT s, {_many('SUM(a) + {}')} FROM t GROUP BY s",
    "conditions": f"SELECT COUNT(*) FROM t WHERE {_many('a > {}', ' OR ')}",
    "conditions on expressions": f"SELECT COUNT(*) FROM t WHERE {_many('a + {} > 5', ' AND ')}",
    "patterns": f"SELECT COUNT(*) FROM t WHERE {LIKES}",
    "HAVING": f"SELECT s, COUNT(*) FROM t GROUP BY s HAVING {_many('SUM(a) > {}', ' OR ')}",
    "FILTER": f"SELECT {_many('COUNT(*) FILTER (WHERE a > {})')} FROM t",
    "ORDER BY": f"SELECT a FROM t ORDER BY {_many('a + {}')}",
    "GROUP BY": f"SELECT COUNT(*) FROM t GROUP BY {_many('a')}",
    "DISTINCT": f"SELECT DISTINCT {_many('a')} FROM t",
    "a deep expression": f"SELECT {', '.join('abs(' * 100 + 'a' + ')' * 100 for _ in range(5))} FROM t",
    "branches": f"SELECT CASE {_many('WHEN a = {} THEN 1', ' ')} END FROM t",
    "constants": f"SELECT {_many('{}')}",
}
PQL = {
    "columns": f"SELECT {_many('add(a, {})')} FROM t",
    "conditions": f"SELECT COUNT(*) FROM t WHERE {_many('a > {}', ' OR ')}",
}


def _times_checked(statement: Statement, ends_after: int | None = None) -> int:
    times = 0

    def check() -> None:
        nonlocal times
        times += 1
        if times == ends_after:
            raise QueryTimeoutError("time is up")

    if statement.table:
        compile_query(statement, SCHEMA, query_options(statement), null_handling=False, check=check)
    else:
        compile_without_table(statement, query_options(statement), check)
    return times


@pytest.mark.parametrize(
    "statement",
    [*map(parse_sql, SQL.values()), *map(parse_pql, PQL.values())],
    ids=[*SQL, *(f"PQL: {name}" for name in PQL)],
)
def test_every_clause_looks_at_the_deadline_for_each_of_its_parts(statement: Statement) -> None:
    times = _times_checked(statement)
    assert times >= TERMS, times
    with pytest.raises(QueryTimeoutError, match="time is up"):
        _times_checked(statement, ends_after=times // 2)


def test_the_broker_gives_up_a_text_that_takes_too_long(tmp_path_factory: pytest.TempPathFactory) -> None:
    cluster = InProcessCluster(tmp_path_factory.mktemp("deadline"))
    cluster.add_table(SCHEMA, CONFIG, [])
    text = "SELECT COUNT(*) FROM t WHERE " + " OR ".join(f"a + {number} > 5" for number in range(14_000))
    (fault,) = cluster.sql(text, query_options="timeoutMs=1")["exceptions"]
    assert fault["errorCode"] == 250 and "while it was compiled" in fault["message"] and "timeoutMs" in fault["message"]
    (fault,) = cluster.sql("SELECT " + ", ".join(map(str, range(5_000))), query_options="timeoutMs=1")["exceptions"]
    assert fault["errorCode"] == 250 and "while it was compiled" in fault["message"]
    cluster.close()
