"""A literal as a value of a column's stored type: what parses, what is refused, and the first or last stored value
inside a bound.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Final

import numpy as np

from pinotpy.data_types import DataType
from pinotpy.decimals import encode_decimal
from pinotpy.errors import InvalidQueryError, PinotError, QueryExecutionError
from pinotpy.functions.scalar.conversions import timestamp_of_text
from pinotpy.functions.scalar.number_order import as_double, as_float
from pinotpy.pql.ast import Dialect
from pinotpy.pql.literals import java_double_text
from pinotpy.query.model.context import Bound, LiteralValue

_WHOLE = re.compile(r"[+-]?[0-9]+")
_WHOLE_DIGITS_MAX: Final = 20
# Possessive: a literal may have a million digits, of which nothing is tried twice.
_REAL = re.compile(r"\s*[+-]?(?:NaN|Infinity|(?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?[fFdD]?)\s*")
INT_LIMITS: Final = {
    DataType.INT: (-(2**31), 2**31 - 1),
    DataType.LONG: (-(2**63), 2**63 - 1),
    DataType.TIMESTAMP: (-(2**63), 2**63 - 1),
}


def literal_text(value: LiteralValue) -> str:
    """The text of a literal as it stands against a STRING: Java's text of numbers, `true`, the string itself."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return java_double_text(value)
    if isinstance(value, Decimal):
        return format(value, "f") if -50 < value.adjusted() < 400 else str(value)
    return str(value)


def refusal(dialect: Dialect) -> type[PinotError]:
    """The class of the error for a literal that does not fit: 200 in PQL, 700 in SQL."""
    return QueryExecutionError if dialect is Dialect.PQL else InvalidQueryError


@dataclass(frozen=True, slots=True)
class StoredLiterals:
    """Literals to stored values of one type. strict: every literal must parse as the type, numbers too. whose: what
    messages call it.

    All raise `refusal`'s error for a literal that is not of the type.
    """

    data_type: DataType
    dialect: Dialect
    strict: bool
    whose: str = ""

    def _error(self, value: LiteralValue, expected: str = "") -> PinotError:
        return refusal(self.dialect)(
            f"Cannot convert value: '{literal_text(value)}' to type: {self.data_type}{self.whose}{expected}"
        )

    def integer(self, value: LiteralValue) -> int | float | Decimal:
        """The exact number; with `strict` an int within the type."""
        if isinstance(value, bool) or value is None:
            raise self._error(value)
        if isinstance(value, str):
            if self.data_type is DataType.TIMESTAMP and not _WHOLE.fullmatch(value):
                return self._timestamp(value)
            if not _WHOLE.fullmatch(value):
                raise self._error(value)
            # Python reads no number of thousands of digits, and none of so many fits.
            number: int | float | Decimal = (
                int(Decimal(value)) if len(value.lstrip("+-0")) <= _WHOLE_DIGITS_MAX else math.inf
            )
            must_fit = True
        else:
            number = value
            must_fit = self.strict
        least, most = INT_LIMITS[self.data_type]
        if must_fit and (not isinstance(number, int) or not least <= number <= most):
            raise self._error(value)
        return number

    def integer_bound(self, bound: Bound, *, is_lower: bool) -> int:
        """The first (last) integer inside; infinities are clipped to one beyond what any type holds."""
        number = self.integer(bound.value)
        if isinstance(number, float) and not math.isfinite(number):
            upwards = is_lower if math.isnan(number) else number > 0
            return 2**64 if upwards else -(2**64)
        if is_lower:
            return math.ceil(number) if bound.inclusive else math.floor(number) + 1
        return math.floor(number) if bound.inclusive else math.ceil(number) - 1

    def _timestamp(self, text: str) -> int:
        try:
            return timestamp_of_text(text)
        except QueryExecutionError as error:
            raise self._error(text, f": {error.message}") from error

    def real(self, value: LiteralValue) -> float:
        """The nearest stored number."""
        if isinstance(value, bool) or value is None:
            raise self._error(value)
        if isinstance(value, str):
            if not _REAL.fullmatch(value):
                raise self._error(value)
            number = float(
                value.strip().rstrip("fFdD")
                if value.strip() not in ("NaN", "Infinity", "-Infinity", "+Infinity")
                else value
            )
        else:
            number = as_double(value)
        return as_float(number) if self.data_type is DataType.FLOAT else number

    def real_bound(self, bound: Bound, *, is_lower: bool) -> float:
        """The first (last) stored number inside; NaN if there is none."""
        number = self.real(bound.value)
        away = math.inf if is_lower else -math.inf
        if math.isnan(number) or (number == away and not bound.inclusive):
            return math.nan  # compares false with the other end: an empty range
        if bound.inclusive:
            return number
        if self.data_type is DataType.FLOAT:
            with np.errstate(over="ignore"):  # beyond the largest comes infinity
                return float(np.nextafter(np.float32(number), np.float32(away)))
        return math.nextafter(number, away)

    def var_bytes(self, value: LiteralValue) -> bytes:
        """How values of a type of variable size are stored."""
        text = literal_text(value)
        if self.data_type is DataType.BIG_DECIMAL:
            if isinstance(value, bool):
                raise self._error(value)
            try:
                return encode_decimal(Decimal(text.strip()))
            except (InvalidOperation, ValueError) as error:
                raise self._error(value) from error
        if self.data_type is DataType.BYTES:
            if len(text) % 2 or not re.fullmatch(r"[0-9a-fA-F]*", text):
                raise self._error(value)
            return bytes.fromhex(text)
        return text.encode("utf-8", "surrogatepass")
