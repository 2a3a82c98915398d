"""From a question to its plan: parsed, then compiled against a schema, on the event loop where that is short.

What may take long is done elsewhere, on a thread of its own where clients take turns: long texts, and texts of whatever
length whose constants are computed by functions. The event loop serves all clients meanwhile.
"""

from __future__ import annotations

import asyncio
import functools
import gc
from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeVar

from pinotpy.broker.parts import Broker, Question
from pinotpy.broker.plan_cache import Asked, Plan
from pinotpy.config.schema import Schema
from pinotpy.errors import ParseError, QueryTimeoutError
from pinotpy.functions.constants_budget import ConstantsBudget, spending
from pinotpy.pql.ast import Dialect, Statement
from pinotpy.pql.parser import parse_pql, parse_sql
from pinotpy.query.compile.constants import compile_without_table
from pinotpy.query.compile.rewrite.constants import check_constants, computes_constants
from pinotpy.query.compile.statement import compile_query
from pinotpy.query.model.context import QueryContext, QueryOptions
from pinotpy.query.model.options import asks_to_explain, query_options
from pinotpy.query.result.reduce import constant_row
from pinotpy.query.result.reduced import ReducedResult

INLINE_TEXT_CHARACTERS_MAX: Final = 8 << 10
# A plan whose constants have grown beyond this is not kept for the next time.
KEPT_CONSTANTS_BYTES_MAX: Final = 64 << 10

_T = TypeVar("_T")


async def parse(broker: Broker, question: Question, client: str, deadline_ns: int) -> Plan:
    """Raises ParseError, QueryTimeoutError, and OutOfCapacityError if too much of the client waits."""
    if is_over_limit(broker, question):
        raise ParseError(
            f"the query text has more than {broker.limits.query_text_bytes_max} bytes: shorten its lists, "
            "make id sets smaller with IDSET(x, 'expectedInsertions=…'), or raise pinot.broker.query.maxTextBytes"
        )
    if len(question.text) > INLINE_TEXT_CHARACTERS_MAX:
        statement = await _aside(broker, client, functools.partial(_parsed, question), deadline_ns)
    else:
        statement = _parsed(question)
    options = _options(broker, question, statement)
    explain = statement.explain or asks_to_explain(options, requested=question.explain)
    return Plan(replace(statement, explain=explain), options)


def is_over_limit(broker: Broker, question: Question) -> bool:
    """Whether the text is longer than a text may be."""
    allowed = broker.limits.query_text_bytes_max
    return len(question.text) * 4 > allowed and len(question.text.encode("utf-8", "surrogatepass")) > allowed


async def answer_constants(
    broker: Broker, plan: Plan, client: str, deadline_ns: int
) -> tuple[QueryContext, ReducedResult | None]:
    """The context and the row of a statement without a table; no row if it is to be explained.

    Raises: what `compile_without_table` raises; ConstantsBudgetError; QueryTimeoutError; OutOfCapacityError.
    """
    check = functools.partial(_check_compiling, broker, deadline_ns)

    def compute() -> tuple[QueryContext, ReducedResult | None]:
        with spending(_budget(broker)):
            context = compile_without_table(plan.statement, plan.options, check)
            return context, None if plan.statement.explain else constant_row(context)

    return await _aside(broker, client, compute, deadline_ns)


async def compile_plan(
    broker: Broker,
    question: Question,
    plan: Plan,
    schema: Schema,
    null_handling: bool,
    asked: Asked | None,
    client: str,
    deadline_ns: int,
) -> QueryContext:
    """The plan's context for this schema and mode of nulls (null_mode.py), kept where a text like it may come again.

    Raises: what `compile_query` raises; ConstantsBudgetError; QueryTimeoutError; OutOfCapacityError.
    """
    limits = broker.limits
    compile_it = functools.partial(
        compile_query,
        schema=schema,
        # Servers of any version find true or false.
        options=replace(plan.options, enable_null_handling=null_handling),
        null_handling=null_handling,
        case_insensitive=limits.case_insensitive and question.dialect is Dialect.SQL,
        response_rows_max=limits.response_rows_max,
        limit_override=limits.limit_override,
    )
    is_long = len(question.text) > INLINE_TEXT_CHARACTERS_MAX
    if is_long or computes_constants(plan.statement):
        budget = _budget(broker)
        check = functools.partial(_check_compiling, broker, deadline_ns)

        def compile_aside() -> QueryContext:
            with spending(budget):
                context = compile_it(plan.statement, check=check)
                if question.dialect is Dialect.PQL:
                    check_constants(plan.statement)
                return context

        context = await _aside(broker, client, compile_aside, deadline_ns)
        if not is_long and budget.num_bytes_spent <= KEPT_CONSTANTS_BYTES_MAX:
            plan.compiled(schema, context)
            broker.plans.put(question, plan)
        return context
    context = compile_it(plan.statement)
    plan.compiled(schema, context)
    broker.plans.put(question, plan)
    if asked is not None:

        def compiled(text: str) -> QueryContext:
            other = replace(question, text=text)
            statement, options = _parsed(other), plan.options
            if _options(broker, other, statement) != options:
                raise ParseError("the options are part of the text")
            return compile_it(replace(statement, explain=plan.statement.explain))

        broker.templates.learn(asked, plan, compiled)
    return context


async def _aside(broker: Broker, client: str, work: Callable[[], _T], deadline_ns: int) -> _T:
    future = asyncio.wrap_future(broker.compiling.submit(client, functools.partial(_uncollected, work)))
    try:
        return await asyncio.wait_for(future, max((deadline_ns - broker.clock.monotonic_ns()) / 1e9, 0))
    except TimeoutError:
        raise _compiled_too_late() from None


def _uncollected(work: Callable[[], _T]) -> _T:
    """`work` without the garbage collector, which would look at each of a long statement's many parts again and again,
    and hold all threads meanwhile: 20,000 projections took 5 looks of 0.4 to 0.6 s. They are freed without it. Only one
    thread compiles (parts.COMPILING_AT_ONCE_MAX), so nobody else has it disabled.
    """
    gc.disable()
    try:
        return work()
    finally:
        gc.enable()


def _budget(broker: Broker) -> ConstantsBudget:
    return ConstantsBudget(broker.limits.constants_bytes_max, broker.limits.constants_timeout_ms, broker.clock)


def _parsed(question: Question) -> Statement:
    return parse_pql(question.text) if question.dialect is Dialect.PQL else parse_sql(question.text)


def _options(broker: Broker, question: Question, statement: Statement) -> QueryOptions:
    return query_options(statement, question.query_options, question.debug_options, trace=question.trace)


def _check_compiling(broker: Broker, deadline_ns: int) -> None:
    if broker.clock.monotonic_ns() > deadline_ns:
        raise _compiled_too_late()


def _compiled_too_late() -> QueryTimeoutError:
    return QueryTimeoutError("the query's time was up while it was compiled: shorten it, write OR of equalities as IN")
