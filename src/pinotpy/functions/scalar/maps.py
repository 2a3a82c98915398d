"""ITEM: the value of a key in a MAP column, also written column['key']."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from pinotpy.data_types import DataType
from pinotpy.errors import InvalidQueryError
from pinotpy.functions.arguments import constant_text, map_distinct
from pinotpy.functions.scalar.json_paths import VALUE_OF_TYPE, parse_json
from pinotpy.functions.scalar.spec import Bound, Example, Operand, ScalarFunction, Value
from pinotpy.pql.ast import Dialect


def _bind(operands: Sequence[Operand], dialect: Dialect) -> Bound:
    """The third argument is the type of values, which the broker writes (query/compile/rewrite/map_items.py)."""
    if operands[0].data_type is not DataType.MAP or len(operands) != 3:
        raise InvalidQueryError(f"ITEM takes a MAP column and a key, found {operands[0].name}")
    key = constant_text(operands[1], "the key", "item")
    type_name = constant_text(operands[2], "the type", "item")
    if type_name not in VALUE_OF_TYPE:  # names of types are equal to them
        raise InvalidQueryError(
            f"expected one of {', '.join(VALUE_OF_TYPE)} as the type of ITEM, found '{type_name[:40]}'"
        )
    data_type = DataType(type_name)
    convert = VALUE_OF_TYPE[data_type]
    exact = data_type in (DataType.BIG_DECIMAL, DataType.STRING)

    def value_of(text: str | None) -> Any:
        document = parse_json(text, exact=exact) if text is not None else None
        value = document.get(key) if isinstance(document, dict) else None
        return None if value is None else convert(value)

    def evaluate(values: Sequence[Value]) -> pa.Array:
        return map_distinct(values[0], value_of, data_type.arrow)

    return Bound(data_type, evaluate, handles_nulls=True)


FUNCTIONS = (
    ScalarFunction(
        "item",
        "ITEM(map, 'key')",
        "The value of a key in a MAP column, also written map['key']; where the key is absent null, or the default "
        "null value of its type.",
        _bind,
        (Example("item(m, 'a', 'INT')", 4),),
        2,
        3,
    ),
)
