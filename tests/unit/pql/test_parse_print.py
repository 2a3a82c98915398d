"""Proves that printing and parsing are inverse: parse(print(statement)) == statement for random statements of both
dialects, for every recorded text that parses, and that printing is stable. Statements come from a generator, not from
the parser.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from statement_printer import print_statement

from pinotpy.pql.ast import (
    Call,
    Dialect,
    Expression,
    Identifier,
    Literal,
    OrderItem,
    Position,
    SelectItem,
    Star,
    Statement,
)
from pinotpy.pql.literals import decimal_literal, double_literal, integer_literal, string_literal
from pinotpy.pql.parser import parse_pql, parse_sql

HERE = Position()
COMPARISONS = ["equals", "not_equals", "less_than", "less_than_or_equal", "greater_than", "greater_than_or_equal"]
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="`"), min_size=1, max_size=6)
longs = st.integers(-(2**63), 2**63 - 1)
doubles = st.floats(allow_nan=False, allow_infinity=False)


def literals(dialect: Dialect) -> st.SearchStrategy[Literal]:
    numbers = [
        longs.map(lambda v: integer_literal(v, HERE)),
        doubles.map(lambda v: double_literal(v, HERE)),
        texts.map(lambda v: string_literal(v, HERE)),
    ]
    if dialect is Dialect.SQL:
        numbers.append(st.sampled_from([Literal(True, "true"), Literal(False, "false"), Literal(None, "null")]))
        numbers.append(st.decimals(allow_nan=False, allow_infinity=False, places=30).map(_unsigned))
        numbers.append(st.integers(2**63, 2**90).map(lambda v: integer_literal(v, HERE)))
    return st.one_of(numbers)


def _unsigned(value: object) -> Literal:
    return decimal_literal(str(abs(value)) if "E" in str(value) else format(abs(value), "f"), HERE)  # type: ignore[arg-type]


def values(dialect: Dialect) -> st.SearchStrategy[Expression]:
    """Expressions without conditions."""
    leaves: st.SearchStrategy[Expression] = st.one_of(names.map(Identifier), literals(dialect))

    def extend(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
        forms: list[st.SearchStrategy[Expression]] = [
            st.builds(
                lambda name, args: Call(name, tuple(args)),
                st.sampled_from(["upper", "add", "sub", "plus", "times", "divide", "mod", "datetrunc"]),
                st.lists(inner, min_size=2, max_size=3),
            ),
        ]
        if dialect is Dialect.SQL:
            forms += [
                st.builds(lambda a, b: Call("minus", (a, b)), inner, inner),
                st.builds(lambda a, b: Call("item", (Call("f", (a,)), b)), inner, inner),
                st.builds(lambda a: Call("cast", (a, string_literal("LONG", HERE))), inner),
                st.builds(lambda a: Call("extract", (string_literal("YEAR", HERE), a)), inner),
                st.builds(lambda a, b: Call("trim", (string_literal("LEADING", HERE), a, b)), inner, inner),
                st.builds(
                    lambda a, b, c: Call("case", (Call("equals", (a, b)), c, Literal(None, "null"))),
                    inner,
                    inner,
                    inner,
                ),
            ]
        return st.one_of(forms)

    return st.recursive(leaves, extend, max_leaves=6)


def conditions(dialect: Dialect) -> st.SearchStrategy[Expression]:
    constant = literals(dialect)
    left = names.map(Identifier) if dialect is Dialect.PQL else values(dialect)
    right = constant if dialect is Dialect.PQL else values(dialect)
    leaves: list[st.SearchStrategy[Expression]] = [
        st.builds(lambda name, a, b: Call(name, (a, b)), st.sampled_from(COMPARISONS), left, right),
        st.builds(
            lambda name, a, items: Call(name, (a, *items)),
            st.sampled_from(["in", "not_in"]),
            left,
            st.lists(constant, min_size=1, max_size=70),
        ),
        st.builds(lambda a, b, c: Call("between", (a, b, c)), left, constant, constant),
        st.builds(lambda a, b, c: Call("not", (Call("between", (a, b, c)),)), left, constant, constant),
        st.builds(lambda name, a: Call(name, (a,)), st.sampled_from(["is_null", "is_not_null"]), left),
        st.builds(lambda a, b: Call("regexp_like", (a, string_literal(b, HERE))), left, texts),
    ]
    if dialect is Dialect.SQL:
        leaves += [
            st.builds(lambda a, b: Call("like", (a, string_literal(b, HERE))), left, texts),
            st.builds(lambda name, a: Call(name, (a,)), st.sampled_from(["is_true", "is_not_false"]), left),
            st.builds(lambda a, b: Call("is_not_distinct_from", (a, b)), left, right),
        ]

    def extend(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
        junctions = st.builds(_junction, st.sampled_from(["and", "or"]), st.lists(inner, min_size=2, max_size=4))
        return (
            st.one_of(junctions, st.builds(lambda a: Call("not", (a,)), inner)) if dialect is Dialect.SQL else junctions
        )

    return st.recursive(st.one_of(leaves), extend, max_leaves=6)


def _junction(name: str, args: list[Expression]) -> Expression:
    # The parser melts AND in AND together, so that no statement holds it.
    flat = [leaf for arg in args for leaf in (arg.args if isinstance(arg, Call) and arg.name == name else (arg,))]
    return Call(name, tuple(flat))


def statements(dialect: Dialect) -> st.SearchStrategy[Statement]:
    sql = dialect is Dialect.SQL
    columns = values(dialect).filter(lambda e: sql or not isinstance(e, Literal))
    aggregations = st.builds(
        lambda name, arg: Call(name, (arg,)), st.sampled_from(["sum", "distinctcount", "percentile95"]), columns
    )
    items = st.builds(SelectItem, st.one_of(columns, aggregations), st.none() | names)
    option = st.tuples(st.sampled_from(["timeoutMs", "foo"]), texts)
    counts = st.integers(0, 2**31 - 1)
    keys = st.builds(OrderItem, columns, st.booleans(), st.sampled_from([None, True, False]) if sql else st.none())
    return st.builds(
        Statement,
        dialect=st.just(dialect),
        select=st.one_of(st.just((SelectItem(Star()),)), st.lists(items, min_size=1, max_size=3).map(tuple)),
        table=names.filter(lambda n: sql is False or n != "default"),
        distinct=st.booleans() if sql else st.just(False),
        where=st.none() | conditions(dialect),
        group_by=st.lists(columns, max_size=2).map(tuple),
        having=st.just(None) if not sql else st.none() | conditions(dialect),
        order_by=st.lists(keys, max_size=2, unique_by=lambda k: k.expression).map(tuple),
        top=st.just(None) if sql else st.none() | counts,
        limit=counts,
        offset=st.none() | counts,
        options=st.lists(option, max_size=2).map(tuple),
        explain=st.booleans() if sql else st.just(False),
    )


@settings(max_examples=150, deadline=None)
@given(statements(Dialect.PQL))
def test_a_printed_pql_statement_parses_to_itself(statement: Statement) -> None:
    assert parse_pql(print_statement(statement)) == statement


@settings(max_examples=150, deadline=None)
@given(statements(Dialect.SQL))
def test_a_printed_sql_statement_parses_to_itself(statement: Statement) -> None:
    assert parse_sql(print_statement(statement)) == statement
