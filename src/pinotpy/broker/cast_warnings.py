"""What an answer says of casts to whole types that are narrower than what is cast: CAST(l AS INT) of a LONG.

A value beyond the type keeps its lowest bits, as in the reference: 3000000000 becomes -1294967296. Most databases end
the query. Casts of doubles and texts, which end at the range instead, are not named: CAST(x / 10 AS INT) is in many
queries whose values are far from it.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from pinotpy.broker.type_warnings import calls_in, expressions_of, short_name
from pinotpy.data_types import DataType
from pinotpy.errors import InvalidQueryError, QueryExecutionError
from pinotpy.pql.ast import Call, Dialect
from pinotpy.query.model.context import QueryContext
from pinotpy.query.model.result_types import ExpressionTypes, columns_in, types_of

# More casts than these are not named.
_NAMES_MAX: Final = 10
# Shorter texts are searched for casts before their expressions are.
_TEXT_CHARACTERS_MAX: Final = 16 << 10
_EXPRESSIONS_MAX: Final = 200
_CALLS_MAX: Final = 1_000
_WRAPS: Final = {
    DataType.INT: (DataType.LONG, DataType.TIMESTAMP, DataType.BIG_DECIMAL),
    DataType.LONG: (DataType.BIG_DECIMAL,),
    DataType.TIMESTAMP: (DataType.BIG_DECIMAL,),
}


def cast_warnings(context: QueryContext, text: str) -> list[str]:
    """That values beyond the type of a cast are other numbers: which casts, and what holds them. text: of the query."""
    if context.dialect is not Dialect.SQL or context.explain:
        return []
    if len(text) <= _TEXT_CHARACTERS_MAX and "::" not in text and "cast" not in text.lower():
        return []  # nearly all queries
    # On the event loop: of thousands of projections only the first ones are looked at.
    expressions = islice(expressions_of(context), _EXPRESSIONS_MAX)
    casts = [call for call in islice(calls_in(expressions), _CALLS_MAX) if call.name == "cast"]
    if not casts:
        return []
    types = types_of(context)
    found = dict.fromkeys(_said(call, types) for call in casts)
    return list(islice((said for said in found if said), _NAMES_MAX))


def _said(call: Call, types: ExpressionTypes) -> str:
    """Empty for a cast that loses no bits, or is of aggregations, whose types are not known here."""
    if not columns_in(call.args[0]):
        return ""
    try:
        source, target = types.of(call.args[0]).data_type, types.of(call).data_type
    except (InvalidQueryError, QueryExecutionError, KeyError):
        return ""
    if source is None or target is None or source not in _WRAPS.get(target, ()):
        return ""
    bits = 32 if target is DataType.INT else 64
    return (
        f"{short_name(call.args[0], types.dialect)} is cast from {source.value} to {target.value}: a value beyond "
        f"{target.value} keeps its lowest {bits} bits and is another number; cast it to "
        f"{'DECIMAL' if source is DataType.BIG_DECIMAL else 'LONG'} to keep it"
    )
