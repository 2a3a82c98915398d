"""item(map, 'key') knows the type of its value: the schema's childFieldSpecs say it, the query carries it to servers.

The type is a third argument, which names of columns do not show (pql/printer.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from pinotpy.data_types import DataType
from pinotpy.pql.ast import Call, Expression, Identifier
from pinotpy.pql.literals import string_literal

_VALUES: Final = {
    data_type.value: data_type for data_type in DataType if data_type not in (DataType.MAP, DataType.BYTES)
}


def with_value_types(expression: Expression, type_of_values: Callable[[str], DataType | None]) -> Expression:
    """The expression with the type in each item(…); `type_of_values` tells that of the values in a MAP column by
    name.
    """
    if not isinstance(expression, Call):
        return expression
    args = tuple([with_value_types(arg, type_of_values) for arg in expression.args])
    if expression.name == "item" and len(args) == 2 and isinstance(args[0], Identifier):
        value_type = type_of_values(args[0].name)
        if value_type is not None:
            args = (*args, string_literal(value_type.value, expression.position))
    condition = None if expression.filter is None else with_value_types(expression.filter, type_of_values)
    return (
        expression
        if args == expression.args and condition is expression.filter
        else replace(expression, args=args, filter=condition)
    )


def items_in(expression: Expression) -> list[Call]:
    """Every item(…) in an expression."""
    if not isinstance(expression, Call):
        return []
    if expression.name == "item":
        return [expression]
    return [call for arg in expression.args for call in items_in(arg)]


def value_type(child_field_specs: dict[str, Any] | None) -> DataType:
    """The type of values of a MAP column, from its childFieldSpecs; STRING where they do not say it."""
    written = ((child_field_specs or {}).get("value") or {}).get("dataType", "STRING")
    return _VALUES.get(str(written).upper(), DataType.STRING)
