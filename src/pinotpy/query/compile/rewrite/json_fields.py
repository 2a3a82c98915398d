"""A field of a JSON column as SQL writes it, `payload.user.name`, becomes
JSON_EXTRACT_SCALAR(payload, '$.user.name', type, NULL): null where the document has no such field.

The type follows from what stands around the field: a number where it is computed with, summed, or compared with a
number; a truth value beside TRUE and FALSE; the type of a cast; text everywhere else.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from pinotpy.data_types import DataType
from pinotpy.pql.aggregation_names import find_aggregation
from pinotpy.pql.ast import Call, Expression, Identifier, Literal, Position
from pinotpy.pql.literals import null_literal, string_literal
from pinotpy.query.model.result_types import ARITHMETIC, COMPARISONS

_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_COMPARED: Final = COMPARISONS | {"between", "in", "not_in", "is_distinct_from", "is_not_distinct_from"}
_OF_NUMBERS: Final = ARITHMETIC | {
    "abs", "ceil", "exp", "floor", "ln", "log", "log2", "log10", "power", "round", "rounddecimal", "sign", "sqrt",
    "truncate",
}  # fmt: skip
# Aggregations that take what is there, text or number.
_OF_ANYTHING: Final = (
    "count", "distinctcount", "listagg", "arrayagg", "anyvalue", "minstring", "maxstring", "expr", "idset",
    "segmentpartitioned", "firstwith", "lastwith", "frequent", "bool", "fasthll", "mode",
)  # fmt: skip
_OF_CASTS: Final = {"INTEGER": "INT", "DECIMAL": "BIG_DECIMAL"} | {
    name: name for name in ("LONG", "FLOAT", "DOUBLE", "BOOLEAN", "TIMESTAMP", "STRING", "JSON")
}


@dataclass(frozen=True, slots=True)
class JsonField:
    """A JSON column by its name in the schema, and the keys that lead into its documents."""

    column: str
    keys: tuple[str, ...]


def with_json_fields(
    expression: Expression,
    field_of: Callable[[str], JsonField | None],
    type_of: Callable[[str], DataType | None],
    wanted: str = "STRING",
) -> Expression:
    """The expression with every field of a JSON column as a call; `type_of` tells the type of a column."""
    if isinstance(expression, Identifier):
        found = field_of(expression.name)
        return expression if found is None else _extraction(found, wanted, expression.position)
    if not isinstance(expression, Call):
        return expression
    inner = _wanted_by(expression, type_of)
    args = tuple(
        [arg if type(arg) is Literal else with_json_fields(arg, field_of, type_of, inner) for arg in expression.args]
    )
    condition = None if expression.filter is None else with_json_fields(expression.filter, field_of, type_of)
    return replace(expression, args=args, filter=condition)


def _wanted_by(call: Call, type_of: Callable[[str], DataType | None]) -> str:
    if call.name == "cast":
        target = call.args[1] if len(call.args) == 2 else None
        return _OF_CASTS.get(target.text, "STRING") if isinstance(target, Literal) else "STRING"
    if call.name in _OF_NUMBERS:
        return "DOUBLE"
    if call.name in _COMPARED:
        return next(filter(None, (_beside(arg, type_of) for arg in call.args)), "STRING")
    aggregation = find_aggregation(call.name)
    return "DOUBLE" if aggregation is not None and not aggregation[0].name.startswith(_OF_ANYTHING) else "STRING"


def _beside(arg: Expression, type_of: Callable[[str], DataType | None]) -> str | None:
    """The type that a field takes beside an argument of a comparison; None if that says nothing."""
    if isinstance(arg, Literal):
        if isinstance(arg.value, bool):
            return "BOOLEAN"
        return None if arg.is_string or arg.value is None else "DOUBLE"
    if isinstance(arg, Identifier):
        data_type = type_of(arg.name)
        if data_type is not None and data_type.is_numeric:
            return "DOUBLE"
        return data_type.value if data_type in (DataType.BOOLEAN, DataType.TIMESTAMP) else None
    return "DOUBLE" if isinstance(arg, Call) and arg.name in ARITHMETIC else None


def _extraction(found: JsonField, wanted: str, position: Position) -> Call:
    path = "$" + "".join(
        f".{key}" if _PLAIN_KEY.fullmatch(key) else "['" + key.replace("\\", "\\\\").replace("'", "\\'") + "']"
        for key in found.keys
    )
    return Call(
        "jsonextractscalar",
        (
            Identifier(found.column, position),
            string_literal(path, position),
            string_literal(wanted, position),
            null_literal(position),
        ),
        position=position,
    )
