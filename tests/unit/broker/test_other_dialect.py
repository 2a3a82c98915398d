"""Proves that a text which one dialect refuses and the other one takes is told so at the end of its message, that no
other refusal is, that looking raises nothing whatever the text, and that nobody looks where a query is answered.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from in_process import InProcessCluster
from query_texts import OddTexts

from pinotpy.broker import handler
from pinotpy.broker.other_dialect import READS_AS_PQL, READS_AS_SQL, TEXT_CHARACTERS_MAX, other_dialect_hint
from pinotpy.broker.parts import BrokerLimits
from pinotpy.clock import Clock, ManualClock
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.errors import (
    AccessDeniedError,
    InvalidQueryError,
    ParseError,
    PinotError,
    QueryExecutionError,
    QueryTimeoutError,
    TableNotFoundError,
)
from pinotpy.functions.constants_budget import ConstantsBudgetError
from pinotpy.functions.scalar.spec import scalar_functions
from pinotpy.pql.ast import Dialect

SCHEMA = Schema.from_json(
    {
        "schemaName": "rides",
        "dimensionFieldSpecs": [{"name": "city", "dataType": "STRING"}, {"name": "rider", "dataType": "STRING"}],
        "metricFieldSpecs": [{"name": "fare", "dataType": "LONG"}],
    }
)
CONFIG = TableConfig.from_json(
    {
        "tableName": "rides",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1"},
        "tenants": {},
        "tableIndexConfig": {},
        "metadata": {},
    }
)
SQL_ASKED_AS_PQL = [
    "SELECT city, COUNT(*) AS n FROM rides GROUP BY city ORDER BY n DESC LIMIT 3",
    "SELECT city, COUNT(*) n FROM rides GROUP BY city",
    "SELECT city FROM rides LIMIT 3 OFFSET 2",
    "SELECT DISTINCT city FROM rides",
    "SELECT city FROM rides WHERE city LIKE 'O%' OR city NOT LIKE 'P%'",
    "SELECT CASE WHEN fare > 1 THEN 'much' ELSE 'little' END FROM rides",
    "SELECT COUNT(*) FROM rides WHERE city = rider",
    "SELECT city FROM rides GROUP BY city ORDER BY COUNT(*) DESC",
    "SET timeoutMs = 100; SELECT city FROM rides",
    "SELECT 1 + 1",
    "SELECT COUNT(*) AS n FROM rides WHERE fare > ago('P1D') ORDER BY n",
]
PQL_ASKED_AS_SQL = [
    "SELECT COUNT(*) FROM rides GROUP BY city TOP 3",
    "SELECT COUNT(*) FROM rides TOP 3",
    "SELECT city, COUNT(*) FROM rides GROUP BY city TOP 3",
    "SELECT city FROM rides LIMIT 10 WHERE city = 'Oslo'",
    'SELECT COUNT(*) FROM rides WHERE city = "Oslo"',
]
WRONG_IN_BOTH = [
    "",
    "SELEC 1",
    "SELECT",
    "SELECT city",
    "SELECT nosuch FROM rides",
    "SELECT SUM(fare FROM rides",
    "SELECT COUNT(*) AS n FROM rides GROUP BY nosuch ORDER BY n",
    "SELECT city FROM rides WHERE city = 'Oslo",
    "SELECT city FROM rides JOIN drivers ON id = id",
    "INSERT INTO rides VALUES (1)",
    "SELECT city FROM rides LIMIT 3000000000",
    "SELECT upper(1/0) + nosuch('a') AS",
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCluster]:
    made = InProcessCluster(tmp_path_factory.mktemp("tables"))
    made.add_built_table(SCHEMA, CONFIG, [])
    yield made
    made.close()


def message(answer: dict[str, Any]) -> str:
    (exception,) = answer["exceptions"]
    return str(exception["message"])


@pytest.mark.parametrize("text", SQL_ASKED_AS_PQL)
def test_sql_that_is_sent_as_pql_is_told_where_to_send_it(cluster: InProcessCluster, text: str) -> None:
    assert message(cluster.pql(text)).endswith("\n" + READS_AS_SQL)
    assert READS_AS_PQL not in str(cluster.sql(text))


@pytest.mark.parametrize("call", ["if(fare > 1, 1, 0)", "quantile(fare, 0.5)", "median(fare)"])
def test_a_function_of_other_databases_is_told_in_sql_alone(cluster: InProcessCluster, call: str) -> None:
    """PQL takes the text, and leaves the call out."""
    said = message(cluster.sql(f"SELECT {call}, COUNT(*) FROM rides GROUP BY city"))
    assert "; write " in said and READS_AS_PQL not in said


@pytest.mark.parametrize("text", PQL_ASKED_AS_SQL)
def test_pql_that_is_sent_as_sql_is_told_where_to_send_it(cluster: InProcessCluster, text: str) -> None:
    assert message(cluster.sql(text)).endswith("\n" + READS_AS_PQL)
    assert READS_AS_SQL not in str(cluster.pql(text))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SELECT TOP 3 city FROM rides", "SQL writes LIMIT 3 at the end"),
        ("SELECT TOP 3 * FROM rides", "SQL writes LIMIT 3 at the end"),
        ("SELECT city, SUM(fare) FROM rides", "GROUP BY"),
        ("SELECT city, rider, SUM(fare) FROM rides GROUP BY city", "GROUP BY"),
        ("SELECT city, SUM(fare) + 1 FROM rides GROUP BY ALL ORDER BY ALL", "ALL"),
        ("SELECT city, COUNT(*) FROM rides GROUP BY city ORDER BY 3", "Ordinal"),
        ("SELECT city FROM rides ORDER BY 2", "Ordinal"),
    ],
)
def test_pql_that_would_answer_something_else_is_no_remedy(cluster: InProcessCluster, text: str, words: str) -> None:
    """PQL drops columns beside aggregations, answers the aggregation alone of SUM(x) + 1, has no ALL, and orders
    nothing by a constant.
    """
    said = message(cluster.sql(text))
    assert words in said and READS_AS_PQL not in said


@pytest.mark.parametrize("dialect", Dialect)
@pytest.mark.parametrize("text", WRONG_IN_BOTH)
def test_what_is_wrong_in_both_says_nothing_of_dialects(cluster: InProcessCluster, text: str, dialect: Dialect) -> None:
    assert "This reads as" not in message(cluster.ask(text, dialect))


def test_the_seen_case_keeps_its_code_and_says_what_it_said_before(cluster: InProcessCluster) -> None:
    (exception,) = cluster.pql(SQL_ASKED_AS_PQL[0])["exceptions"]
    assert exception["errorCode"] == 710
    assert "Unknown columnName 'n'" in exception["message"] and "/query/sql" in exception["message"]


@pytest.mark.parametrize("dialect", Dialect)
def test_who_is_answered_is_not_looked_at(
    cluster: InProcessCluster, dialect: Dialect, monkeypatch: pytest.MonkeyPatch
) -> None:
    def looked(*_: object) -> str:
        raise AssertionError("an answered query was looked at")

    monkeypatch.setattr(handler, "other_dialect_hint", looked)
    assert cluster.ask("SELECT COUNT(*) FROM rides", dialect)["exceptions"] == []
    with pytest.raises(AssertionError, match="looked at"):
        cluster.ask("SELEC 1", dialect)


def hint(
    error: PinotError,
    text: str,
    dialect: Dialect,
    schema: Schema | None = SCHEMA,
    clock: Clock | None = None,
    **limits: Any,
) -> str:
    return other_dialect_hint(error, text, dialect, schema, BrokerLimits(**limits), clock or ManualClock())


class _HurriedClock(ManualClock):
    """A second later whenever it is read."""

    def monotonic_ns(self) -> int:
        self.advance(1_000)
        return super().monotonic_ns()


def test_refusals_that_are_not_about_the_text_say_nothing() -> None:
    text = SQL_ASKED_AS_PQL[0]
    assert hint(InvalidQueryError("x"), text, Dialect.PQL) == "\n" + READS_AS_SQL
    for error in (TableNotFoundError, AccessDeniedError, QueryTimeoutError, ConstantsBudgetError):
        assert hint(error("x"), text, Dialect.PQL) == ""


def test_a_text_that_both_take_says_nothing_where_the_table_is_not_known() -> None:
    text = SQL_ASKED_AS_PQL[0]
    assert hint(ParseError("too long"), text, Dialect.PQL, None) == ""
    assert hint(ParseError("x"), SQL_ASKED_AS_PQL[1], Dialect.PQL, None) == "\n" + READS_AS_SQL


@pytest.mark.parametrize("dialect", Dialect)
def test_options_beside_the_text_that_are_refused_say_nothing(cluster: InProcessCluster, dialect: Dialect) -> None:
    answer = cluster.ask("SELECT COUNT(*) FROM rides", dialect, query_options="timeoutMs=soon")
    assert "timeoutMs" in message(answer) and "This reads as" not in message(answer)
    assert hint(InvalidQueryError("groupingMethod"), "SELECT COUNT(*) FROM rides", dialect) == ""


def test_what_the_broker_does_not_allow_is_right_in_neither_dialect() -> None:
    text = "SELECT city FROM rides LIMIT 100"
    assert hint(InvalidQueryError("LIMIT"), text, Dialect.PQL, response_rows_max=10) == ""
    assert hint(InvalidQueryError("x"), "SELECT City FROM rides", Dialect.PQL, case_insensitive=False) == ""
    assert hint(InvalidQueryError("x"), "SELECT City FROM rides", Dialect.PQL) == "\n" + READS_AS_SQL


def test_the_cost_of_looking_is_bounded() -> None:
    longest = "SELECT DISTINCT city FROM rides WHERE city = '{}'"
    fits = longest.format("x" * (TEXT_CHARACTERS_MAX - len(longest) + 2))
    assert len(fits) == TEXT_CHARACTERS_MAX
    assert hint(ParseError("x"), fits, Dialect.PQL) and not hint(ParseError("x"), fits + " ", Dialect.PQL)
    grows = "SELECT DISTINCT city FROM rides WHERE city = " + "repeat(" * 3 + "'x'" + ", 1000)" * 3
    assert hint(ParseError("x"), grows, Dialect.PQL) == "", "its constants would be a gigabyte"
    text = SQL_ASKED_AS_PQL[0]
    assert hint(ParseError("x"), text, Dialect.PQL) and not hint(
        ParseError("x"), text, Dialect.PQL, SCHEMA, _HurriedClock()
    )


def test_looking_raises_nothing_whatever_the_text() -> None:
    functions = {name: (f.arguments_min, f.arguments_max) for name, f in sorted(scalar_functions().items())}
    texts = OddTexts(random.Random(23), ["city", "rider", "fare"], functions, table="rides")
    said = set()
    for _ in range(250):
        text, _ = texts.next()
        for dialect in Dialect:
            for error in (ParseError("x"), QueryExecutionError("x")):
                said.add(hint(error, text, dialect))
                said.add(hint(error, text, dialect, None))
    assert said == {"", "\n" + READS_AS_SQL, "\n" + READS_AS_PQL}
