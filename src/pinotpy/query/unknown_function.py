"""The error for a call of a function that does not exist: where it stands and which function was perhaps meant."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Final

from pinotpy.errors import InvalidQueryError, PinotError, QueryExecutionError
from pinotpy.functions.scalar.spec import scalar_functions
from pinotpy.pql.aggregation_names import AGGREGATION_NAMES
from pinotpy.pql.ast import Call, Dialect
from pinotpy.pql.function_names import canonical_function

_NEAR_CHARACTERS_MAX: Final = 60


def unknown_function(call: Call, dialect: Dialect) -> PinotError:
    """QueryExecutionError (200) in PQL, InvalidQueryError (700) in SQL."""
    fault: type[PinotError] = InvalidQueryError if dialect is Dialect.SQL else QueryExecutionError
    count = f"{len(call.args)} {'arguments' if dialect is Dialect.SQL else 'parameters'}"
    where = f" at line {call.position.line}, column {call.position.column}" if call.position.line else ""
    near: list[str] = []
    if len(call.name) <= _NEAR_CHARACTERS_MAX:
        near = get_close_matches(canonical_function(call.name), sorted(scalar_functions().keys() | AGGREGATION_NAMES.keys()), n=1, cutoff=0.75)
    hint = f"; did you mean '{near[0]}'?" if near else ""
    name = call.name if len(call.name) <= _NEAR_CHARACTERS_MAX else call.name[:_NEAR_CHARACTERS_MAX] + "…"
    return fault(f"Unsupported function: {name} with {count}{where}{hint}")
