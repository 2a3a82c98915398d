"""Proves that types of expressions keep no query alive: bound functions live as long as their calls."""

from __future__ import annotations

import gc

from pinotpy.data_types import DataType
from pinotpy.functions.scalar.spec import bind
from pinotpy.pql.ast import Call, Dialect, Identifier, Literal
from pinotpy.query.model.context import ColumnRef
from pinotpy.query.model.result_types import ExpressionTypes

COLUMNS = (ColumnRef("k", DataType.STRING, True),)


def _replace(text: str) -> Call:
    return Call("replace", (Call("upper", (Identifier("k"),)), Literal(text, text, True), Literal("y", "y", True)))


def test_what_was_bound_goes_with_its_call() -> None:
    types = ExpressionTypes(COLUMNS, Dialect.SQL)
    call = _replace("x")
    assert types.bound(call) is types.bound(call)
    assert len(types._bound) == 2  # replace and upper
    del call
    gc.collect()
    assert not types._bound


def test_long_constants_are_not_kept_for_later_queries() -> None:
    types = ExpressionTypes(COLUMNS, Dialect.SQL)
    types.bound(_replace("short"))
    before = bind.cache_info().currsize
    for count in range(5):
        assert types.of(_replace("x" * (100_000 + count))).data_type is DataType.STRING
    assert bind.cache_info().currsize == before
