"""Proves PQL's compiling: kinds, defaults, dropped columns, names of responses, checked names, MV twins. Expectations
are written by hand from the reference's manual and its recorded behaviour; the schema is a small fake.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from pinotpy.data_types import DataType
from pinotpy.errors import PinotError, UnknownColumnError
from pinotpy.pql.ast import Call, Identifier, Literal, Star
from pinotpy.pql.parser import parse_pql
from pinotpy.query.compile.statement import compile_query
from pinotpy.query.model.context import (
    AggregationRef,
    ColumnRef,
    Comparison,
    OrderBy,
    Predicate,
    QueryContext,
    QueryKind,
)
from pinotpy.query.model.options import query_options


@dataclass
class Column:
    data_type: DataType
    single_value: bool = True
    default_in_segments: int | float | bytes | None = None


@dataclass
class FakeSchema:
    field_specs: dict[str, Column] = field(default_factory=dict)


SCHEMA = FakeSchema(
    {
        "runs": Column(DataType.INT),
        "hits": Column(DataType.LONG),
        "league": Column(DataType.STRING),
        "Zone": Column(DataType.STRING),
        "tags": Column(DataType.STRING, False),
        "marks": Column(DataType.INT, False),
    }
)
RUNS, HITS, LEAGUE = Identifier("runs"), Identifier("hits"), Identifier("league")


def compiled(text: str, options: str = "") -> QueryContext:
    statement = parse_pql(text)
    return compile_query(statement, SCHEMA, query_options(statement, options), null_handling=False)


def names(context: QueryContext) -> list[str]:
    return [column.name for column in context.output]


def test_star_is_the_physical_columns_by_name_capitals_first() -> None:
    context = compiled("SELECT * FROM t")
    assert context.kind is QueryKind.SELECTION
    assert names(context) == ["Zone", "hits", "league", "marks", "runs", "tags"]
    assert context.columns[3] == ColumnRef("marks", DataType.INT, False)


def test_plain_columns_beside_aggregations_are_dropped_and_not_read() -> None:
    context = compiled("SELECT league, upper(Zone), SUM(runs), COUNT(hits) FROM t GROUP BY league")
    assert (context.kind, names(context)) == (QueryKind.GROUP_BY, ["sum_runs", "count_star"])
    assert context.group_by == (LEAGUE,)
    assert [column.name for column in context.columns] == ["runs", "league"]
    assert context.aggregations[1].args == (Star(),)


def test_equal_aggregations_are_computed_once_and_shown_twice() -> None:
    context = compiled("SELECT SUM(runs), sum(runs), SUM('runs'), MAX(runs) FROM t")
    assert context.kind is QueryKind.AGGREGATION
    assert [a.function for a in context.aggregations] == ["sum", "max"]
    assert [column.expression for column in context.output] == [AggregationRef(0)] * 3 + [AggregationRef(1)]


@pytest.mark.parametrize(
    ("call", "name", "function", "args"),
    [
        ("MINMAXRANGE(runs)", "minMaxRange_runs", "minmaxrange", (RUNS,)),
        ("distinct_count(league)", "distinctCount_league", "distinctcount", (LEAGUE,)),
        ("PERCENTILE95(runs)", "percentile95_runs", "percentile", (RUNS, Literal(95, "95"))),
        ("PERCENTILE(runs, 50)", "percentile50_runs", "percentile", (RUNS, Literal(50, "50"))),
        ("PERCENTILE05(runs)", "percentile5_runs", "percentile", (RUNS, Literal(5, "5"))),
        (
            "PercentileEst90MV(marks)",
            "percentileEst90MV_marks",
            "percentileestmv",
            (Identifier("marks"), Literal(90, "90")),
        ),
        ("percentileTDigest99(runs)", "percentileTDigest99_runs", "percentiletdigest", (RUNS, Literal(99, "99"))),
        ("DISTINCTCOUNTHLL(runs, 10)", "distinctCountHLL_runs", "distinctcounthll", (RUNS, Literal(10, "10"))),
        ("SUM(runs, hits)", "sum_runs", "sum", (RUNS,)),
        ("SUM(5)", "sum_'5'", "sum", (Literal(5, "5"),)),
        ("SUM(ADD(runs, 1.))", "sum_add(runs,'1.0')", "sum", (Call("add", (RUNS, Literal(1.0, "1.0"))),)),
        ("COUNT('x')", "count_star", "count", (Star(),)),
        ("SUMMV(marks)", "sumMV_marks", "summv", (Identifier("marks"),)),
        ("MAX(marks)", "max_marks", "maxmv", (Identifier("marks"),)),
        ("add(SUM(runs), 1)", "sum_runs", "sum", (RUNS,)),
    ],
)
def test_aggregations_have_pqls_names(call: str, name: str, function: str, args: tuple[object, ...]) -> None:
    context = compiled(f"SELECT {call} FROM t")
    assert names(context) == [name]
    assert (context.aggregations[0].function, context.aggregations[0].args) == (function, args)


@pytest.mark.parametrize(
    ("clauses", "count"),
    [
        ("", 10),
        ("TOP 7", 7),
        ("TOP 0", 50),
        ("TOP 0 LIMIT 5", 50),
        ("TOP 5 LIMIT 0", 5),
        ("LIMIT 6", 6),
        ("LIMIT 0", 10),
        ("LIMIT 5,3", 3),
        ("LIMIT -1", 10),
    ],
)
def test_numbers_of_groups(clauses: str, count: int) -> None:
    context = compiled(f"SELECT SUM(runs) FROM t GROUP BY league {clauses}")
    assert (context.limit, context.offset) == (count, 0)


@pytest.mark.parametrize(
    ("clauses", "limit", "offset"),
    [
        ("", 10, 0),
        ("TOP 3", 10, 0),
        ("LIMIT 0", 0, 0),
        ("LIMIT 2,5", 5, 2),
        ("LIMIT -1", 10, 0),
        ("LIMIT 5,-1", 10, 5),
        ("LIMIT -5,5", 5, 0),
    ],
)
def test_numbers_of_rows(clauses: str, limit: int, offset: int) -> None:
    for text in ("SELECT runs FROM t", "SELECT DISTINCT(runs) FROM t"):
        if "LIMIT 0" in clauses and "DISTINCT" in text:
            continue
        context = compiled(f"{text} {clauses}")
        assert (context.limit, context.offset) == (limit, offset)


def test_group_by_without_aggregation_is_a_selection() -> None:
    assert compiled("SELECT league FROM t GROUP BY league").kind is QueryKind.SELECTION


def test_order_by_sorts_selections_and_is_ignored_on_groups() -> None:
    assert compiled("SELECT runs FROM t ORDER BY hits DESC, 'runs', 5, runs").order_by == (
        OrderBy(HITS, False),
        OrderBy(RUNS),
    )
    assert compiled("SELECT SUM(runs) FROM t GROUP BY league ORDER BY league").order_by == ()


def test_group_by_mode_sql_orders_groups_and_names_like_sql() -> None:
    context = compiled(
        "SELECT SUM(runs), COUNT(*) FROM t GROUP BY league ORDER BY MAX(hits) DESC, league", "groupByMode=sql"
    )
    assert names(context) == ["sum(runs)", "count(*)"]
    assert context.order_by == (OrderBy(AggregationRef(2), False), OrderBy(LEAGUE))
    table = compiled("SELECT SUM(runs), COUNT(*) FROM t GROUP BY league", "groupByMode=SQL;responseFormat=sql")
    assert names(table) == ["league", "sum(runs)", "count(*)"]
    assert names(compiled("SELECT SUM(runs) FROM t", "groupByMode=sql")) == ["sum_runs"]


def test_having_computes_what_it_needs_and_hides_it() -> None:
    context = compiled("SELECT COUNT(*) FROM t GROUP BY league HAVING SUM(runs) > '5' AND AVG(hits) IN (1)")
    assert names(context) == ["count_star"]
    assert [a.function for a in context.aggregations] == ["count", "sum", "avg"]
    first = context.having.children[0]  # type: ignore[union-attr]
    assert isinstance(first, Predicate)
    assert first.lhs == Call("$agg", (Literal(1, "1"),))
    assert first.lower is not None
    assert first.lower.value == 5.0


def test_distinct_is_a_function_whose_arguments_are_the_columns() -> None:
    context = compiled("SELECT DISTINCT(league, runs, league) FROM t ORDER BY runs DESC LIMIT 4")
    assert (context.kind, names(context), context.limit) == (QueryKind.DISTINCT, ["league", "runs"], 4)
    assert context.order_by == (OrderBy(RUNS, False),)


def test_a_prefix_with_the_tables_name_is_cut_off() -> None:
    assert names(compiled("SELECT t.runs, upper(t_OFFLINE.league) FROM t_OFFLINE")) == ["runs", "upper(league)"]


def test_virtual_columns_have_their_types() -> None:
    context = compiled("SELECT MAX($docId) FROM t GROUP BY $segmentName, $hostName")
    assert context.columns == (
        ColumnRef("$docId", DataType.INT),
        ColumnRef("$segmentName", DataType.STRING),
        ColumnRef("$hostName", DataType.STRING),
    )


def test_filters_compare_columns_with_literals() -> None:
    context = compiled("SELECT runs FROM t WHERE 5 > runs AND add(runs,1) BETWEEN 1 AND 5 AND hits = 2 * 3 + 1")
    first, second, third = context.filter.children  # type: ignore[union-attr]
    assert isinstance(first, Predicate)
    assert isinstance(second, Predicate)
    assert third == Predicate(HITS, Comparison.EQ, (7,))
    assert (first.lhs, first.comparison, first.lower, first.upper.value, first.upper.inclusive) == (
        RUNS,
        Comparison.RANGE,
        None,
        5,
        False,
    )  # type: ignore[union-attr]
    assert (second.lower.value, second.upper.value) == (1, 5)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT nosuch FROM t",
        "SELECT nosuch, SUM(runs) FROM t",
        "SELECT SUM(nosuch) FROM t",
        "SELECT COUNT(nosuch) FROM t",
        "SELECT SUM(runs) FROM t GROUP BY nosuch",
        "SELECT SUM(runs) FROM t ORDER BY nosuch",
        "SELECT SUM(runs) FROM t GROUP BY league ORDER BY nosuch",
        "SELECT SUM(runs) FROM t GROUP BY league HAVING MAX(nosuch) > 1",
        "SELECT runs FROM t GROUP BY nosuch",
        "SELECT runs FROM t ORDER BY nosuch",
        "SELECT runs FROM t WHERE runs = 1 OR add(nosuch, 1) = 2",
        "SELECT DISTINCT(nosuch) FROM t",
        "SELECT RUNS FROM t",
        "SELECT u.runs FROM t",
    ],
)
def test_an_unknown_column_is_an_error_in_every_clause(text: str) -> None:
    with pytest.raises(UnknownColumnError) as caught:
        compiled(text)
    assert caught.value.code == 710


def test_an_unknown_column_names_the_nearest_and_its_place() -> None:
    with pytest.raises(
        UnknownColumnError,
        match=r"Unknown columnName 'leage' found in the query \(line 2, column 8\); did you mean 'league'\?",
    ):
        compiled("SELECT runs\n,      leage FROM t")
    with pytest.raises(UnknownColumnError, match="did you mean 'runs'"):
        compiled("SELECT RUNS FROM t")


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("SELECT DISTINCT(runs) FROM t LIMIT 0", 700, "positive LIMIT"),
        ("SELECT DISTINCT(runs), SUM(hits) FROM t", 700, "cannot be used with DISTINCT"),
        ("SELECT DISTINCT(runs), DISTINCT(hits) FROM t", 700, "cannot be used with DISTINCT"),
        ("SELECT DISTINCT(runs) FROM t ORDER BY hits", 700, "columns passed as arguments to DISTINCT"),
        ("SELECT DISTINCT(runs) FROM t GROUP BY hits", 700, "GROUP BY"),
        ("SELECT DISTINCT(*) FROM t", 150, "columns in DISTINCT"),
        ("SELECT DISTINCT(tags) FROM t", 200, "multi-value"),
        ("SELECT runs FROM t ORDER BY tags", 200, "multi-value"),
        ("SELECT SUM(marks) FROM t", 200, "write SUMMV"),
        ("SELECT SUMMV(runs) FROM t", 200, "write SUM"),
        ("SELECT SUM() FROM t", 150, "expected 1 argument of SUM, found 0"),
        ("SELECT SUM(*) FROM t", 150, "only COUNT takes *"),
        ("SELECT PERCENTILE(runs) FROM t", 150, "write PERCENTILE(x, 95)"),
        ("SELECT PERCENTILE101(runs) FROM t", 700, "from 0 to 100"),
        ("SELECT SUM(MAX(runs)) FROM t", 200, "do not nest"),
        ("SELECT MAX(runs) - MIN(runs) FROM t", 150, "SQL computes with aggregations"),
        ("SELECT runs FROM t WHERE SUM(runs) > 5", 200, "go to HAVING"),
        ("SELECT SUM(runs) FROM t GROUP BY MAX(hits)", 200, "an aggregation is no column"),
        ("SELECT SUM(runs) FROM t HAVING SUM(runs) > 5", 150, "GROUP BY beside HAVING"),
        ("SELECT runs FROM t HAVING SUM(runs) > 5", 150, "aggregation in the select list"),
        ("SELECT runs FROM t ORDER BY runs LIMIT -5,5", 200, "offset of 0 or more"),
        ("SELECT runs FROM t LIMIT 2147483647,2147483647", 200, "sum up to"),
        ("SELECT 1+1 FROM t", 150, "found a constant"),
    ],
)
def test_refusals_have_the_references_codes(text: str, code: int, words: str) -> None:
    with pytest.raises(PinotError) as caught:
        compiled(text)
    assert (caught.value.code, words in caught.value.message) == (code, True), caught.value


def test_several_aggregations_are_no_sql_table_without_group_by_mode_sql() -> None:
    with pytest.raises(PinotError, match="not tabular") as caught:
        compiled("SELECT SUM(runs), COUNT(*) FROM t GROUP BY league", "responseFormat=sql")
    assert caught.value.code == 700


def test_the_brokers_ceiling_holds_for_limit_and_top() -> None:
    for text in ("SELECT runs FROM t LIMIT 101", "SELECT SUM(runs) FROM t GROUP BY league TOP 101"):
        statement = parse_pql(text)
        with pytest.raises(PinotError, match="exceeds maximum allowed value of 100") as caught:
            compile_query(statement, SCHEMA, query_options(statement), null_handling=False, response_rows_max=100)
        assert caught.value.code == 700


def test_case_insensitive_pql_repairs_names() -> None:
    statement = parse_pql("SELECT RUNS, sum(ZONE) FROM t")
    context = compile_query(statement, SCHEMA, query_options(statement), null_handling=False, case_insensitive=True)
    assert names(context) == ["sum_Zone"]
