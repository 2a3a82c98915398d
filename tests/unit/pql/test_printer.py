"""Proves the texts that responses show: Java's numbers, names of expressions and aggregations. Expectations are
recorded answers.
"""

from __future__ import annotations

import math

import pytest

from pinotpy.pql.aggregation_names import canonical_aggregation, find_aggregation, is_aggregation
from pinotpy.pql.ast import Call, Dialect, Identifier, Literal, Star
from pinotpy.pql.function_names import canonical_function
from pinotpy.pql.literals import java_double_text
from pinotpy.pql.parser import parse_pql
from pinotpy.pql.printer import print_expression, print_pql_aggregation, print_sql_aggregation


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (0.001, "0.001"),
        (0.0009999, "9.999E-4"),
        (1e-6, "1.0E-6"),
        (2.5e-7, "2.5E-7"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (1.6777216e7, "1.6777216E7"),
        (0.1 + 0.2, "0.30000000000000004"),
        (1e300, "1.0E300"),
        (-1234567890123.5, "-1.2345678901235E12"),
        (5e-324, "5.0E-324"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (math.nan, "NaN"),
    ],
)
def test_doubles_print_as_in_java(value: float, text: str) -> None:
    assert java_double_text(value) == text
    assert math.isnan(value) or float(text) == value


def test_java_text_reads_back_for_many_doubles() -> None:
    for exponent in range(-320, 309):
        for digit in (1.0, 1.5, 9.999999999999998):
            value = float(f"{digit}e{exponent}")
            assert float(java_double_text(value)) == value


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("SUB( column1, 100000 )", "sub(column1,'100000')"),
        ("sub(0, runs)", "sub('0',runs)"),
        ("add(runs, 1.5, hits, '2')", "add(runs,'1.5',hits,'2')"),
        ("groovy('{\"a\":1}', 'arg0+1', runs)", "groovy('{\"a\":1}','arg0+1',runs)"),
        ("upper('league')", "upper('league')"),
        ("runs + 1", "plus(runs,'1')"),
    ],
)
def test_expressions_are_standardised(text: str, name: str) -> None:
    assert print_expression(parse_pql(f"SELECT {text} FROM t").select[0].expression, Dialect.PQL) == name


@pytest.mark.parametrize(
    ("call", "pql", "sql"),
    [
        (Call("count", (Star(),)), "count_star", "count(*)"),
        (Call("minmaxrange", (Identifier("x"),)), "minMaxRange_x", "minmaxrange(x)"),
        (Call("percentiletdigest95mv", (Identifier("x"),)), "percentileTDigest95MV_x", "percentiletdigest95mv(x)"),
        (Call("percentile", (Identifier("x"), Literal(50, "50"))), "percentile50_x", "percentile(x, 50.0)"),
        (
            Call("distinctcountrawhll", (Identifier("x"), Literal(10, "10"))),
            "distinctCountRawHLL_x",
            "distinctcountrawhll(x)",
        ),
        (
            Call("segmentpartitioneddistinctcount", (Identifier("x"),)),
            "segmentPartitionedDistinctCount_x",
            "segmentpartitioneddistinctcount(x)",
        ),
    ],
)
def test_aggregations_print_in_both_dialects(call: Call, pql: str, sql: str) -> None:
    assert print_pql_aggregation(call) == pql
    assert print_sql_aggregation(call) == sql


def test_names_of_aggregations_ignore_case_and_underscores() -> None:
    assert canonical_aggregation("Distinct_Count_HLL_MV") == "distinctcounthllmv"
    assert canonical_aggregation("PERCENTILE_EST_95_MV") == "percentileest95mv"
    assert canonical_aggregation("percentile05") == "percentile5"
    assert canonical_aggregation("SUM0") == "sum"
    assert canonical_aggregation("upper") is None
    assert not is_aggregation("percentile95x")
    found = find_aggregation("percentilekll99")
    assert found is not None
    assert (found[0].name, found[1]) == ("percentilekll", 99)


def test_functions_have_one_name_for_registries() -> None:
    spellings = {
        "add": "plus",
        "SUB": "minus",
        "mult": "times",
        "div": "divide",
        "plus": "plus",
        "date_trunc": "datetrunc",
        "Greater_Than": "greater_than",
    }
    assert {written: canonical_function(written) for written in spellings} == spellings
