"""A plan is reused for an equal question and the same schema only, and the cache does not grow."""

from __future__ import annotations

from pinotpy.broker.handler import Question
from pinotpy.broker.plan_cache import PLANS_MAX, Plan, PlanCache
from pinotpy.config.schema import Schema
from pinotpy.pql.ast import Dialect
from pinotpy.pql.parser import parse_pql
from pinotpy.query.compile.statement import compile_query
from pinotpy.query.model.context import QueryOptions

TEXT = "SELECT COUNT(*) FROM ads WHERE clicks = 3"


def _schema() -> Schema:
    return Schema.from_json({"schemaName": "ads", "dimensionFieldSpecs": [{"name": "clicks", "dataType": "INT"}]})


def test_a_plan_is_found_by_an_equal_question_and_by_no_other() -> None:
    cache, plan = PlanCache(), Plan(parse_pql(TEXT), QueryOptions())
    cache.put(Question(TEXT, Dialect.PQL), plan)
    assert cache.get(Question(TEXT, Dialect.PQL)) is plan
    assert cache.get(Question(TEXT, Dialect.SQL)) is None
    assert cache.get(Question(TEXT, Dialect.PQL, query_options="timeoutMs=5")) is None
    assert cache.get(Question(TEXT, Dialect.PQL, debug_options="useStarTree=false")) is None
    assert cache.get(Question(TEXT, Dialect.PQL, trace=True)) is None
    assert cache.get(Question(TEXT + " ", Dialect.PQL)) is None


def test_a_schema_that_was_replaced_makes_the_compiled_part_void() -> None:
    first, second = _schema(), _schema()
    statement = parse_pql(TEXT)
    plan = Plan(statement, QueryOptions())
    assert plan.compiled_for(first, null_handling=False) is None
    plan.compiled(first, compile_query(statement, first, QueryOptions(), null_handling=False))
    assert plan.compiled_for(first, null_handling=False) is plan.context
    assert plan.compiled_for(second, null_handling=False) is None, "equal, but another object: the view changed"


def test_the_least_recently_asked_question_falls_out() -> None:
    cache = PlanCache()
    plan = Plan(parse_pql(TEXT), QueryOptions())
    for number in range(PLANS_MAX):
        cache.put(number, plan)
    assert cache.get(0) is plan  # asked again: now the youngest
    cache.put("one more", plan)
    assert len(cache) == PLANS_MAX
    assert cache.get(0) is plan
    assert cache.get(1) is None
