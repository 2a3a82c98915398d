"""Proves SQL's compiling: names, aliases, ordinals, grouping rules, rewritten aggregations, both null modes.
Expectations are written by hand from what a live 1.5.1 answered.
"""

from __future__ import annotations

import pytest

from pinotpy.config.schema import Schema
from pinotpy.errors import InvalidQueryError, PinotError
from pinotpy.pql.ast import Call, Identifier, Literal, Star
from pinotpy.pql.parser import parse_sql
from pinotpy.query.compile.constants import compile_without_table
from pinotpy.query.compile.statement import compile_query
from pinotpy.query.model.context import AggregationRef, OrderBy, QueryContext, QueryKind
from pinotpy.query.model.options import query_options

SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [
            {"name": "league", "dataType": "STRING"},
            {"name": "yearID", "dataType": "INT"},
            {"name": "runs", "dataType": "INT"},
            {"name": "flag", "dataType": "BOOLEAN"},
            {"name": "marks", "dataType": "INT", "singleValueField": False},
        ],
    }
)
RUNS, LEAGUE, YEAR = Identifier("runs"), Identifier("league"), Identifier("yearID")


def compiled(text: str, *, null_handling: bool = False) -> QueryContext:
    statement = parse_sql(text)
    return compile_query(statement, SCHEMA, query_options(statement), null_handling=null_handling)


def names(text: str, *, null_handling: bool = False) -> list[str]:
    return [column.name for column in compiled(text, null_handling=null_handling).output]


@pytest.mark.parametrize(
    ("item", "name"),
    [
        ("RUNS", "runs"),
        ("runs + 1", "plus(runs,'1')"),
        ("runs % 7 = 3", "equals(mod(runs,'7'),'3')"),
        ("NOT (runs > 1)", "not(greater_than(runs,'1'))"),
        ("league NOT LIKE 'a%'", "not(like(league,'a%'))"),
        ("league NOT IN ('a','b')", "not_in(league,'a','b')"),
        ("runs IS NULL", "is_null(runs)"),
        ("CASE WHEN runs > 1 THEN 'x' END", "case(greater_than(runs,'1'),'x','null')"),
        ("CAST(runs AS INT)", "cast(runs,'INTEGER')"),
        ("JSON_EXTRACT_SCALAR(league, '$.a', 'INT')", "jsonextractscalar(league,'$.a','INT')"),
        ("flag AND TRUE", "and(flag,'true')"),
        ("1 + 1, runs", "'2'"),
        ("toDateTime(runs, 'yyyy''T''')", "todatetime(runs,'yyyy'T'')"),
        ("$docId", "$docId"),
    ],
)
def test_columns_are_named_as_in_the_reference(item: str, name: str) -> None:
    assert names(f"SELECT {item} FROM t")[0] == name


@pytest.mark.parametrize(
    ("item", "plain", "nulls"),
    [
        ("COUNT(*)", "count(*)", "count(*)"),
        ("COUNT(1)", "count(*)", "count(*)"),
        ("COUNT(NULL)", "count(*)", "count('null')"),
        ("COUNT(runs)", "count(*)", "count(runs)"),
        ("SUM(runs) / COUNT(runs)", "divide(sum(runs),count(runs))", "divide(sum(runs),count(runs))"),
        ("COUNT(DISTINCT runs)", "distinctcount(runs)", "distinctcount(runs)"),
        ("AVG(DISTINCT runs)", "distinctavg(runs)", "distinctavg(runs)"),
        ("COUNT(marks)", "countmv(marks)", "countmv(marks)"),
        ("COUNT(DISTINCT marks)", "distinctcountmv(marks)", "distinctcountmv(marks)"),
        ("PERCENTILE(runs, 50)", "percentile(runs, 50.0)", "percentile(runs, 50.0)"),
        (
            "PERCENTILETDIGEST(runs, 90, 200)",
            "percentiletdigest(runs, 90.0, 200)",
            "percentiletdigest(runs, 90.0, 200)",
        ),
        ("PERCENTILE50(marks)", "percentile50(marks)", "percentile50(marks)"),
        ("SUM0(runs)", "sum(runs)", "sum(runs)"),
        ("MODE(runs, 'MAX')", "mode(runs)", "mode(runs)"),
        ("COVAR_POP(runs, yearID)", "covarpop(runs,yearID)", "covarpop(runs,yearID)"),
        (
            "FIRST_WITH_TIME(runs, yearID, 'INT')",
            "firstwithtime(runs,yearID,'INT')",
            "firstwithtime(runs,yearID,'INT')",
        ),
        ("SUM(5)", "sum('5')", "sum('5')"),
        ("SUM(runs + 1)", "add(sum(runs),mult('1',count(runs)))", "add(sum(runs),mult('1',count(runs)))"),
        ("SUM(1 + runs)", "add(sum(runs),mult('1',count(runs)))", "add(sum(runs),mult('1',count(runs)))"),
        ("SUM(runs * 2)", "mult(sum(runs),'2')", "mult(sum(runs),'2')"),
        ("MAX(runs + 1)", "add(max(runs),'1')", "add(max(runs),'1')"),
        ("MIN(runs - 1)", "sub(min(runs),'1')", "sub(min(runs),'1')"),
        ("MAX(runs * -2)", "max(times(runs,'-2'))", "max(times(runs,'-2'))"),
        ("SUM(runs + yearID)", "sum(plus(runs,yearID))", "sum(plus(runs,yearID))"),
        (
            "COUNT(*) FILTER (WHERE league = 'NL')",
            "count(*) FILTER(WHERE league = 'NL')",
            "count(*) FILTER(WHERE league = 'NL')",
        ),
        (
            "SUM(runs) FILTER (WHERE runs > 50)",
            "sum(runs) FILTER(WHERE runs > '50')",
            "sum(runs) FILTER(WHERE runs > '50')",
        ),
        (
            "COUNT(*) FILTER (WHERE runs IS NULL)",
            "count(*) FILTER(WHERE runs IS NULL)",
            "count(*) FILTER(WHERE runs IS NULL)",
        ),
        (
            "COUNT(*) FILTER (WHERE flag)",
            "count(*) FILTER(WHERE flag = 'true')",
            "count(*) FILTER(WHERE flag = 'true')",
        ),
        ("COUNT(*) FILTER (WHERE TRUE)", "count(*) FILTER(WHERE true)", "count(*) FILTER(WHERE true)"),
        (
            "SUM(runs) FILTER (WHERE runs > 5) / 2",
            "divide(filter(sum(runs),greater_than(runs,'5')),'2')",
            "divide(filter(sum(runs),greater_than(runs,'5')),'2')",
        ),
    ],
)
def test_aggregations_are_named_as_in_the_reference(item: str, plain: str, nulls: str) -> None:
    assert names(f"SELECT {item} FROM t") == [plain]
    assert names(f"SELECT {item} FROM t", null_handling=True) == [nulls]


@pytest.mark.parametrize(
    ("item", "function", "args", "nulls"),
    [
        ("COUNT(runs)", "count", (Star(),), (RUNS,)),
        ("COUNT('a')", "count", (Star(),), (Star(),)),
        ("COUNTMV(runs)", "count", (Star(),), (RUNS,)),
        ("SUMMV(runs)", "sum", (RUNS,), (RUNS,)),
        ("SUM(marks)", "summv", (Identifier("marks"),), (Identifier("marks"),)),
        (
            "PERCENTILE50(marks)",
            "percentilemv",
            (Identifier("marks"), Literal(50, "50")),
            (Identifier("marks"), Literal(50, "50")),
        ),
        ("PERCENTILE(runs, 99.9)", "percentile", (RUNS, Literal(99.9, "99.9")), (RUNS, Literal(99.9, "99.9"))),
    ],
)
def test_the_function_that_runs_fits_the_column(
    item: str, function: str, args: tuple[object, ...], nulls: tuple[object, ...]
) -> None:
    aggregation = compiled(f"SELECT {item} FROM t").aggregations[0]
    assert (aggregation.function, aggregation.args) == (function, args)
    assert compiled(f"SELECT {item} FROM t", null_handling=True).aggregations[0].args == nulls


def test_post_aggregation_refers_to_aggregations_by_index() -> None:
    context = compiled(
        "SELECT league, SUM(runs) / COUNT(*) AS x, MAX(runs) FROM t GROUP BY league ORDER BY x DESC, MIN(runs)"
    )
    quotient = Call("divide", (Call("$agg", (Literal(0, "0"),)), Call("$agg", (Literal(1, "1"),))))
    assert [column.expression for column in context.output] == [LEAGUE, quotient, AggregationRef(2)]
    assert context.order_by == (OrderBy(quotient, False), OrderBy(AggregationRef(3)))
    assert [a.function for a in context.aggregations] == ["sum", "count", "max", "min"]


def test_aliases_stand_for_expressions_in_group_by_having_and_order_by() -> None:
    context = compiled("SELECT upper(league) AS u, SUM(runs) AS s FROM t GROUP BY u HAVING s > 5 ORDER BY s + 1")
    assert context.group_by == (Call("upper", (LEAGUE,)),)
    assert [column.name for column in context.output] == ["u", "s"]
    assert context.order_by == (OrderBy(Call("plus", (Call("$agg", (Literal(0, "0"),)), Literal(1, "1")))),)


def test_an_alias_beats_a_column_when_sorting() -> None:
    assert compiled("SELECT runs AS yearID FROM t ORDER BY yearID").order_by == (OrderBy(RUNS),)


def test_ordinals_and_star_and_rows() -> None:
    context = compiled("SELECT runs, * FROM t ORDER BY 2 DESC NULLS LAST, 'constant' LIMIT 3 OFFSET 4")
    assert [column.name for column in context.output] == ["runs", "flag", "league", "marks", "runs", "yearID"]
    assert context.order_by == (OrderBy(Identifier("flag"), False, True),)
    assert (context.limit, context.offset) == (3, 4)
    assert compiled("SELECT league, COUNT(*) FROM t GROUP BY 1").group_by == (LEAGUE,)
    assert compiled("SELECT runs FROM t").limit == 10


def test_groups_without_aggregations_are_distinct_rows() -> None:
    context = compiled("SELECT league, yearID FROM t GROUP BY yearID, league ORDER BY league")
    assert context.kind is QueryKind.DISTINCT
    assert compiled("SELECT upper(league) FROM t GROUP BY league").kind is QueryKind.GROUP_BY


def test_having_without_group_by_filters_the_one_row() -> None:
    context = compiled("SELECT COUNT(*) FROM t HAVING MAX(runs) > 5")
    assert context.kind is QueryKind.AGGREGATION
    assert context.having is not None


def test_names_are_case_insensitive_and_spelled_by_the_schema() -> None:
    context = compiled("SELECT LEAGUE, sum(T.RUNS) FROM t WHERE YEARid = 1 GROUP BY League")
    assert [column.name for column in context.output] == ["league", "sum(runs)"]
    assert "yearID" in [column.name for column in context.columns]


def test_a_name_that_may_be_two_columns_names_both() -> None:
    """One that is written letter by letter is found first, and an alias before columns."""
    specs = [{"name": name, "dataType": "INT"} for name in ("id", "Id", "other")]
    schema = Schema.from_json({"schemaName": "t", "dimensionFieldSpecs": specs})

    def read(text: str) -> list[str]:
        statement = parse_sql(text)
        context = compile_query(statement, schema, query_options(statement), null_handling=True)
        return [column.name for column in context.columns]

    assert read("SELECT Id, OTHER FROM t WHERE id > 1") == ["Id", "other", "id"]
    assert read("SELECT other AS ID FROM t ORDER BY ID") == ["other"]
    for text in ("SELECT ID FROM t", "SELECT t.ID FROM t", "SELECT id FROM t WHERE iD > 1"):
        with pytest.raises(PinotError, match="it may be 'id' and 'Id': write one of them letter by letter") as caught:
            read(text)
        assert caught.value.code == 710


def test_literals_alone_need_no_table_and_stand_bare() -> None:
    statement = parse_sql("SELECT 1, 2.5, 'abc', true, null, 3 / 2, 1 + 1 AS two LIMIT 5")
    context = compile_without_table(statement, query_options(statement))
    assert [column.name for column in context.output] == ["1", "2.5", "'abc'", "true", "null", "1.5", "two"]
    with pytest.raises(InvalidQueryError, match="FROM clause"):
        compile_without_table(parse_sql("SELECT a"), query_options(statement))


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        (
            "SELECT league, COUNT(*) FROM t",
            150,
            "Columns and Aggregate functions can't co-exist without GROUP BY clause",
        ),
        ("SELECT COUNT(*), league FROM t GROUP BY 1", 150, "not allowed in GROUP BY"),
        ("SELECT league, COUNT(*) FROM t GROUP BY yearID", 150, "'league' should be functionally dependent"),
        ("SELECT league, COUNT(*) FROM t GROUP BY nosuch", 710, "Unknown columnName 'nosuch'"),
        ("SELECT COUNT(*) FROM t GROUP BY nosuch", 710, "Unknown columnName 'nosuch'"),
        ("SELECT COUNT(*) FROM t GROUP BY COUNT(*)", 150, "Aggregate expression 'count(*)' is not allowed"),
        ("SELECT COUNT(*) FROM t GROUP BY 2", 150, "Expected Ordinal value to be between 1 and 1."),
        ("SELECT runs FROM t ORDER BY 3", 150, "Expected Ordinal value to be between 1 and 1."),
        (
            "SELECT DISTINCT league FROM t ORDER BY runs",
            150,
            "ORDER-BY columns should be included in the DISTINCT columns",
        ),
        ("SELECT DISTINCT league, COUNT(*) FROM t", 150, "Use of DISTINCT with aggregation functions"),
        ("SELECT DISTINCT league FROM t LIMIT 0", 150, "LIMIT 1 or more"),
        ("SELECT DISTINCT league FROM t GROUP BY league", 150, "leave DISTINCT away"),
        ("SELECT runs AS a, yearID AS a FROM t", 150, "each alias once"),
        ("SELECT runs AS a, a + 1 FROM t", 710, "Unknown columnName 'a'"),
        ("SELECT runs AS a FROM t WHERE a > 1", 710, "Unknown columnName 'a'"),
        ("SELECT MIN(DISTINCT runs) FROM t", 150, "MIN without DISTINCT is the same"),
        ("SELECT COUNT(runs, yearID) FROM t", 150, "expected 1 argument of COUNT, found 2"),
        ("SELECT LASTWITHTIME(runs, yearID) FROM t", 150, "expected 3 arguments"),
        ("SELECT PERCENTILE(runs, 101) FROM t", 700, "from 0 to 100"),
        ("SELECT SUM(MAX(runs)) FROM t", 700, "do not nest"),
        ("SELECT runs FROM t HAVING runs > 5", 150, "GROUP BY or an aggregation beside HAVING"),
        ("SELECT runs FROM t WHERE COUNT(*) > 5", 200, "go to HAVING"),
        (
            "SELECT runs FROM t ORDER BY marks",
            700,
            "MV expression: marks ASC should not be included in the ORDER-BY clause",
        ),
        ("SELECT runs FROM t WHERE runs LIKE '1%'", 700, "Unsupported data type: INT"),
        ("SELECT runs FROM t WHERE runs = NULL", 150, "write IS NULL"),
        ("SELECT runs FROM t WHERE runs IN (1, NULL)", 150, "write IS NULL"),
        ("SELECT runs FROM t WHERE runs BETWEEN yearID AND NULL", 150, "write IS NULL"),
        ("SELECT runs FROM t WHERE REGEXP_LIKE(league, 'a', 'x')", 700, "'i' (ignore case) or 'c'"),
        ("SELECT * runs", 700, "FROM clause"),
    ],
)
def test_refusals_have_the_references_codes(text: str, code: int, words: str) -> None:
    with pytest.raises(PinotError) as caught:
        compiled(text)
    assert caught.value.code == code, caught.value
    assert words in caught.value.message
