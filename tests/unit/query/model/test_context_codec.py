"""Proves that a context survives its bytes (random contexts of every shape, values of every kind, deep filters) and
that bytes which `encode_context` never writes end in a DataError: every single mutation of a document, and random
bytes.
"""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pinotpy.data_types import DataType
from pinotpy.errors import DataError, UnsupportedVersionError
from pinotpy.pql.ast import Call, Dialect, Identifier, Literal, Star
from pinotpy.query.model.context import (
    Aggregation,
    AggregationRef,
    And,
    Bound,
    ColumnRef,
    Comparison,
    Constant,
    ExpressionPredicate,
    Not,
    Or,
    OrderBy,
    OutputColumn,
    Predicate,
    QueryContext,
    QueryKind,
    QueryOptions,
)
from pinotpy.query.model.context_codec import decode_context, encode_context

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False),
    texts,
    st.decimals(allow_nan=False, allow_infinity=False),
)
literals = st.builds(Literal, values, texts, st.booleans())
expressions = st.recursive(
    st.one_of(st.builds(Identifier, texts), literals, st.just(Star())),
    lambda inner: st.builds(Call, texts, st.lists(inner, max_size=3).map(tuple), st.booleans(), st.none() | inner),
    max_leaves=6,
)
bounds = st.none() | st.builds(Bound, values, st.booleans())
predicates = st.builds(
    Predicate,
    expressions,
    st.sampled_from(Comparison),
    st.lists(values, max_size=4).map(tuple),
    bounds,
    bounds,
    texts,
    texts,
)
filters = st.recursive(
    st.one_of(predicates, st.builds(Constant, st.booleans()), st.builds(ExpressionPredicate, expressions)),
    lambda inner: st.one_of(
        st.builds(And, st.lists(inner, max_size=3).map(tuple)),
        st.builds(Or, st.lists(inner, max_size=3).map(tuple)),
        st.builds(Not, inner),
    ),
    max_leaves=5,
)
counts = st.integers(0, 2**31 - 1)
keys = st.one_of(expressions, st.just(AggregationRef(0)))
contexts = st.builds(
    QueryContext,
    dialect=st.sampled_from(Dialect),
    kind=st.sampled_from(QueryKind),
    table=texts,
    output=st.lists(st.builds(OutputColumn, texts, keys), max_size=3).map(tuple),
    filter=st.none() | filters,
    group_by=st.lists(expressions, max_size=2).map(tuple),
    aggregations=st.lists(
        st.builds(Aggregation, texts, st.lists(expressions, max_size=2).map(tuple), texts, st.none() | filters),
        min_size=1,
        max_size=2,
    ).map(tuple),
    having=st.none() | filters,
    order_by=st.lists(st.builds(OrderBy, keys, st.booleans(), st.sampled_from([None, True, False])), max_size=2).map(
        tuple
    ),
    limit=counts,
    offset=counts,
    null_handling=st.booleans(),
    columns=st.lists(st.builds(ColumnRef, texts, st.sampled_from(DataType), st.booleans()), max_size=3).map(tuple),
    options=st.builds(
        QueryOptions,
        timeout_ms=st.none() | st.integers(1, 2**63 - 1),
        trace=st.booleans(),
        max_threads=st.none() | counts,
        other=st.lists(st.tuples(texts, texts), max_size=2).map(tuple),
    ),
    explain=st.booleans(),
)


@settings(max_examples=200, deadline=None)
@given(contexts)
def test_a_context_survives_its_bytes(context: QueryContext) -> None:
    again = decode_context(encode_context(context))
    assert again == context
    assert encode_context(again) == encode_context(context)


def example() -> QueryContext:
    deep: Any = Predicate(Identifier("a"), Comparison.IN, (1, "1", True, None, 0.5, Decimal("1.10"), 2**80))
    for _ in range(300):
        deep = Not(Or((deep, Constant(False))))
    return QueryContext(
        Dialect.SQL,
        QueryKind.GROUP_BY,
        "t",
        (
            OutputColumn("x", AggregationRef(0)),
            OutputColumn("y", Call("f", (Identifier("a"), Literal(1, "1")), True, Star())),
        ),
        deep,
        (Identifier("a"),),
        (Aggregation("sum", (Identifier("a"),), "sum(a)", Constant(True)),),
        order_by=(OrderBy(AggregationRef(0), False, True),),
        columns=(ColumnRef("a", DataType.INT),),
    )


def test_filters_deeper_than_the_stack_travel() -> None:
    data = encode_context(example())
    assert encode_context(decode_context(data)) == data


def test_kinds_of_values_survive() -> None:
    again = decode_context(
        encode_context(
            QueryContext(
                Dialect.SQL, QueryKind.SELECTION, "t", (), Predicate(Star(), Comparison.IN, (1, True, 1.0, "1", -0.0))
            )
        )
    )
    assert isinstance(again.filter, Predicate)
    assert [repr(value) for value in again.filter.values] == ["1", "True", "1.0", "'1'", "-0.0"]


def _mutations(node: Any, chance: random.Random) -> Any:
    """A copy of a JSON document with one place changed."""
    places: list[tuple[Any, Any]] = []

    def walk(value: Any) -> None:
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            places.append((value, key))
            if isinstance(value[key], dict | list):
                walk(value[key])

    walk(node)
    parent, key = chance.choice(places)
    parent[key] = chance.choice(
        [None, -1, 2**70, "x", [], {}, True, 1.5, [[]], ["i"], ["c", "f", 9, False, False], ["and", 5], "\x00"]
    )
    return node


def test_mutated_bytes_are_read_or_end_in_a_data_error() -> None:
    chance = random.Random(3)
    condition = And((Predicate(Identifier("a"), Comparison.RANGE, (), Bound(1, True)), Not(Constant(True))))
    output = (OutputColumn("x", AggregationRef(0)),)
    context = QueryContext(
        Dialect.PQL, QueryKind.AGGREGATION, "t", output, condition, aggregations=(Aggregation("sum", (Star(),), "n"),)
    )
    small = orjson.loads(encode_context(context))
    refused = 0
    for _ in range(3000):
        mutated = _mutations(orjson.loads(orjson.dumps(small)), chance)
        try:
            document = orjson.dumps(mutated)
        except TypeError:  # a whole number that JSON cannot hold
            continue
        try:
            context = decode_context(document)
        except DataError:
            refused += 1
            continue
        assert encode_context(context)
    assert refused > 1500


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"{}", b'{"v":1}', b"\xff\xfe", bytes(range(256))])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(DataError):
        decode_context(data)


def test_another_version_says_so() -> None:
    document = orjson.loads(encode_context(example()))
    document["v"] = 2
    with pytest.raises(UnsupportedVersionError, match="found version 2, supported 1"):
        decode_context(orjson.dumps(document))


def test_references_point_to_aggregations() -> None:
    document = orjson.loads(encode_context(example()))
    document["output"][0][1] = [["a", 1]]
    with pytest.raises(DataError, match="aggregation 1 of 1"):
        decode_context(orjson.dumps(document))
