"""SUMPRECISION(x[, precision[, scale]]): the exact decimal sum, as text. FLOAT and DOUBLE count as the decimals that
Java prints for them, STRING as the number it spells, BYTES as serialized BigDecimals: u16 scale, big-endian, then the
unscaled value in two's complement. In PQL only BYTES are taken, as in the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import ROUND_HALF_EVEN, Context, Decimal, DecimalException
from typing import Any, ClassVar

import pyarrow as pa

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType
from pinotpy.decimals import DIGITS_MAX, decode_decimal
from pinotpy.errors import InvalidQueryError, QueryExecutionError
from pinotpy.functions.arguments import java_float_text
from pinotpy.functions.spec import AggregateExample, AggregateFunction, Argument, Groups, Parameter
from pinotpy.functions.state.plans import Plan, ValueSetPlan
from pinotpy.functions.state.slots import sum_plan
from pinotpy.functions.state.states import WIDE, merge_sums
from pinotpy.functions.whole_numbers import whole_number
from pinotpy.pql.ast import Dialect
from pinotpy.pql.literals import java_double_text

# Values below 10^DIGITS_MAX with at most 2 * DIGITS_MAX decimal places: their sums fit into this precision exactly.
_PLACES_MAX = 2 * DIGITS_MAX
_EXACT = Context(prec=4 * DIGITS_MAX, Emax=999_999_999, Emin=-999_999_999, rounding=ROUND_HALF_EVEN)
_INTEGERS = (DataType.INT, DataType.LONG, DataType.BOOLEAN, DataType.TIMESTAMP)


class SumPrecision(AggregateFunction):
    """The state of integers is their wide sum, of other types the sum's text, which keeps trailing zeros (null: nothing
    seen).
    """

    name = "sumprecision"
    display_name = "sumPrecision"
    result_type: ClassVar[DataType] = DataType.STRING
    summary: ClassVar[str] = "The exact decimal sum, as text; in PQL of BYTES that hold serialized BigDecimals."
    parameters: ClassVar[str] = "[, precision[, scale]]"
    examples: ClassVar[Mapping[str, AggregateExample]] = {
        "sumprecision": AggregateExample("SUMPRECISION(score)", "8.6"),
    }

    def __init__(self, precision: int | None = None, scale: int | None = None) -> None:
        self.precision, self.scale = precision, scale

    def with_parameters(self, parameters: Sequence[Parameter]) -> SumPrecision:
        numbers = [_whole_number(value, what) for value, what in zip(parameters, ("precision", "scale"), strict=False)]
        return SumPrecision(*numbers) if numbers else self

    def check_type(self, argument: Argument, dialect: Dialect) -> None:
        if dialect is Dialect.PQL and argument.data_type is not DataType.BYTES:
            raise QueryExecutionError(
                f"SUMPRECISION takes BYTES (serialized BigDecimals) in PQL, found {argument.name}: use SUM, or SQL"
            )

    def state_fields(self, argument: Argument) -> list[pa.Field]:
        return [pa.field("sum", WIDE if argument.data_type in _INTEGERS else pa.string())]

    def plan(self, argument: Argument, *, sum_fits_long: bool) -> Plan:
        if argument.data_type in _INTEGERS:
            return sum_plan(argument, sum_fits_long=sum_fits_long, with_count=False)
        assert argument.data_type is not None
        read = _reader(argument.data_type)

        def collect(rows: Int64Array, values: pa.Array, counts: Int64Array, num_rows: int) -> list[pa.Array]:
            encoded = values.dictionary_encode()
            numbers = [_bounded(read(value)) for value in encoded.dictionary.to_pylist()]
            totals: list[Decimal | None] = [None] * num_rows
            for row, code, count in zip(rows.tolist(), encoded.indices.to_pylist(), counts.tolist(), strict=True):
                _add(totals, row, _EXACT.multiply(numbers[code], Decimal(count)))
            return [_texts(totals)]

        return ValueSetPlan(collect)

    def merge(self, states: Sequence[pa.Array], groups: Groups, num_groups: int) -> list[pa.Array]:
        if pa.types.is_decimal(states[0].type):
            return [merge_sums(states[0], groups, num_groups)]
        totals: list[Decimal | None] = [None] * num_groups
        for group, text in zip(groups.tolist(), states[0].to_pylist(), strict=True):
            if text is not None:
                _add(totals, group, Decimal(text))
        return [_texts(totals)]

    def finish(self, states: Sequence[pa.Array], *, null_handling: bool) -> pa.Array:
        nothing = None if null_handling else self._rounded(Decimal(0))
        return pa.array(
            [nothing if total is None else self._rounded(Decimal(total)) for total in states[0].to_pylist()],
            pa.string(),
        )

    def _rounded(self, total: Decimal) -> str:
        if self.precision:  # 0 is unlimited, as in Java
            total = Context(prec=self.precision, Emax=999_999_999, Emin=-999_999_999, rounding=ROUND_HALF_EVEN).plus(
                total
            )
        if self.scale is not None:
            total = total.quantize(Decimal(1).scaleb(-self.scale), context=_EXACT)
        return str(total)


def _whole_number(value: Parameter, what: str) -> int:
    text = str(value)
    number = whole_number(text)
    if isinstance(value, bool) or number is None or number > DIGITS_MAX:
        raise InvalidQueryError(
            f"expected a whole number up to {DIGITS_MAX} as {what} of SUMPRECISION, found '{text[:40]}'"
        )
    return number


def _add(totals: list[Decimal | None], row: int, addend: Decimal) -> None:
    before = totals[row]
    totals[row] = addend if before is None else _EXACT.add(before, addend)


def _texts(totals: list[Decimal | None]) -> pa.Array:
    return pa.array([None if total is None else str(total) for total in totals], pa.string())


def _reader(data_type: DataType) -> Callable[[Any], Decimal]:
    """From stored values to decimals."""
    match data_type:
        case DataType.FLOAT:
            return lambda value: _number(java_float_text(value))
        case DataType.DOUBLE:
            return lambda value: _number(java_double_text(value))
        case DataType.BIG_DECIMAL:
            return decode_decimal
        case DataType.BYTES:
            return _serialized_number
        case _:
            return lambda value: _number(value.decode())


def _number(text: str) -> Decimal:
    try:
        number = (
            _EXACT.create_decimal(text)
            if text.isascii() and "_" not in text and text == text.strip()
            else Decimal("NaN")
        )
    except DecimalException:
        number = Decimal("NaN")
    if not number.is_finite():
        raise QueryExecutionError(f"SUMPRECISION adds finite decimal numbers, found '{text[:40]}'")
    return number


def _bounded(number: Decimal) -> Decimal:
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    if number.adjusted() > DIGITS_MAX or exponent < -_PLACES_MAX:
        raise QueryExecutionError(
            f"SUMPRECISION adds numbers below 10^{DIGITS_MAX} with at most {_PLACES_MAX} decimal places, found one of "
            f"10^{number.adjusted()}"
        )
    return number


def _serialized_number(data: bytes) -> Decimal:
    if len(data) < 3:
        raise QueryExecutionError(
            f"expected a serialized BigDecimal of at least 3 bytes, found BYTES of length {len(data)}"
        )
    return _EXACT.scaleb(Decimal(int.from_bytes(data[2:], "big", signed=True)), -int.from_bytes(data[:2], "big"))


FUNCTION = SumPrecision()
