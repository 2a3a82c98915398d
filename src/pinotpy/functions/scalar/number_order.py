"""Numbers of different types compared by value: never through a type that cannot hold both.

A literal beside FLOAT or DOUBLE is rounded to that type first (recorded: f = 0.1, l + 0 = 9007199254740993), beside all
else it is exactly what is written (`beside`). Columns and computed values are compared as they are (`compared`). -0.0
equals 0.0; NaN equals NaN and is neither above nor below a number, but a literal that is NaN equals nothing.
docs/differences.md has the table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pinotpy.data_types import LONG_MIN, DataType
from pinotpy.decimals import encode_decimal
from pinotpy.errors import QueryExecutionError
from pinotpy.functions.arguments import doubles, longs
from pinotpy.functions.scalar.conversions import decimal_of_text, decimal_order
from pinotpy.pql.ast import Dialect, Expression, Literal

Number = int | float | Decimal
COMPARE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "equals": pc.equal,
    "not_equals": pc.not_equal,
    "greater_than": pc.greater,
    "greater_than_or_equal": pc.greater_equal,
    "less_than": pc.less,
    "less_than_or_equal": pc.less_equal,
}
FLIPPED: Final = {
    "equals": "equals",
    "not_equals": "not_equals",
    "less_than": "greater_than",
    "less_than_or_equal": "greater_than_or_equal",
    "greater_than": "less_than",
    "greater_than_or_equal": "less_than_or_equal",
}
_WIDE: Final = (DataType.LONG, DataType.TIMESTAMP)  # more digits than a double has
WHOLE: Final = (DataType.INT, DataType.BOOLEAN, *_WIDE)
_FRACTIONS: Final = (DataType.FLOAT, DataType.DOUBLE, DataType.STRING)  # text is read as DOUBLE
_LONG_MAX: Final = -LONG_MIN - 1
_EXACT_MAX: Final = 1 << 53  # up to here doubles hold every whole number


def is_number_type(data_type: DataType | None) -> bool:
    """Whether values of the type are compared as numbers: BOOLEAN and TIMESTAMP, too."""
    return data_type is not None and (data_type.is_numeric or data_type in WHOLE)


def literal_beside(
    constant: Expression | None, other: DataType | None, dialect: Dialect
) -> tuple[Number, DataType] | None:
    """The number that a constant is, or that its text says, and the type of the values that it stands beside, as they
    are compared with it: PQL's functions widen FLOAT (recorded: equals(f, 0.1) is 0). None where no number is beside
    numbers.
    """
    if not isinstance(constant, Literal) or other is None or not is_number_type(other):
        return None
    value = constant.value
    if isinstance(value, str):
        try:
            value = decimal_of_text(value)
        except QueryExecutionError:  # what text is a number, and which error others are, is decided elsewhere
            return None
    if not isinstance(value, int | float | Decimal) or isinstance(value, bool):
        return None
    return value, DataType.DOUBLE if dialect is Dialect.PQL and other is DataType.FLOAT else other


def as_double(value: Number) -> float:
    """The nearest double; beyond the range of doubles an infinity."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def as_float(value: Number) -> float:
    """The nearest FLOAT; beyond the range of FLOAT an infinity."""
    with np.errstate(over="ignore"):
        return float(np.float32(as_double(value)))


def beside(name: str, value: Number, data_type: DataType) -> tuple[str, int | float] | bool:
    """The comparison `name` of values of a whole type, FLOAT or DOUBLE with a literal on the right, as one with a
    number that is held exactly: (comparison, int for whole types or float). A bool: so it is for every value.
    """
    if isinstance(value, float) and math.isnan(value):
        return name == "not_equals"
    if data_type in _FRACTIONS:
        return name, as_float(value) if data_type is DataType.FLOAT else as_double(value)
    if not LONG_MIN <= value <= _LONG_MAX:
        return name == "not_equals" or name.startswith("less" if value > 0 else "greater")
    low, high = math.floor(value), math.ceil(value)
    if low == high:
        return name, low
    if name.startswith("less"):
        return "less_than_or_equal", low
    return ("greater_than_or_equal", high) if name.startswith("greater") else name == "not_equals"


def compared_with(name: str, values: pa.Array, value: Number, data_type: DataType) -> pa.Array:
    """Values beside a literal on the right: BOOLEAN, null where the value is."""
    if data_type is DataType.BIG_DECIMAL:
        if isinstance(value, float) and not math.isfinite(value):
            return compared(name, values, data_type, pa.repeat(pa.scalar(value), len(values)), DataType.DOUBLE)
        # A fraction is the digits that name it, not the double that is nearest to them.
        exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
        return COMPARE[name](values, pa.scalar(encode_decimal(exact), pa.binary()))
    comparison = beside(name, value, data_type)
    if isinstance(comparison, bool):
        return pc.if_else(values.is_valid(), comparison, pa.scalar(None, pa.bool_()))
    same, held = comparison
    widened = (
        values.cast(pa.float64() if isinstance(held, float) else pa.int64())
        if values.type not in (pa.int32(), pa.int64())
        else values
    )
    return COMPARE[same](widened, pa.scalar(held))


def compared(
    name: str, left: pa.Array, left_type: DataType | None, right: pa.Array, right_type: DataType | None
) -> pa.Array:
    """Two arrays of numbers by value, BOOLEAN, TIMESTAMP and the text of numbers among them: BOOLEAN, null where one is
    null.
    """
    types = (left_type, right_type)
    if DataType.BIG_DECIMAL in types:
        return _compared_decimals(name, (left, right), types)
    if left_type in WHOLE and right_type in WHOLE:
        return COMPARE[name](longs(left, left_type), longs(right, right_type))
    if left_type in _WIDE and right_type in _FRACTIONS:
        return _long_beside_double(name, longs(left, left_type), doubles(right, right_type))
    if left_type in _FRACTIONS and right_type in _WIDE:
        return _long_beside_double(FLIPPED[name], longs(right, right_type), doubles(left, left_type))
    return compared_alike(name, doubles(left, left_type), doubles(right, right_type))


def compared_alike(name: str, left: pa.Array, right: pa.Array) -> pa.Array:
    """Values of one Arrow type that orders. NaN is equal to itself, as in groups, and neither above nor below anything
    (recorded: div(x, 0) > 5)."""
    result: pa.Array = COMPARE[name](left, right)
    if name not in ("equals", "not_equals") or not pa.types.is_floating(left.type):
        return result
    both_nan = pc.and_(pc.is_nan(left), pc.is_nan(right))
    return pc.or_(result, both_nan) if name == "equals" else pc.and_not(result, both_nan)


def _long_beside_double(name: str, left: pa.Array, right: pa.Array) -> pa.Array:
    rounded = left.cast(pa.float64(), safe=False)
    result = compared_alike(name, rounded, right)
    ends = pc.min_max(left)
    if not ends["max"].is_valid or (ends["min"].as_py() >= -_EXACT_MAX and ends["max"].as_py() <= _EXACT_MAX):
        return result
    # Rounding keeps the order but for what it makes equal: there the double is a whole number, compared as one. 2^63 is
    # beyond all LONGs.
    is_near = pc.equal(rounded, right)
    is_beyond = pc.and_(is_near, pc.equal(right, 2.0**63))
    whole = pc.if_else(pc.and_not(is_near, is_beyond), right, 0.0).cast(pa.int64())
    whole = pc.if_else(is_beyond, _LONG_MAX, whole)
    return pc.if_else(is_near, COMPARE[name](pc.subtract(left, is_beyond.cast(pa.int64())), whole), result)


def _compared_decimals(name: str, sides: Sequence[pa.Array], types: Sequence[DataType | None]) -> pa.Array:
    """BIG_DECIMAL with numbers of any type; infinities are beyond all decimals, NaN is as in `compared_alike`."""
    result: pa.Array = COMPARE[name](
        *[decimal_order(side, data_type) for side, data_type in zip(sides, types, strict=True)]
    )
    for side in sides if name not in ("equals", "not_equals") else ():
        if pa.types.is_floating(side.type):
            result = pc.and_not(result, pc.is_nan(side))
    return result
