"""What do the texts of a column stand for? Numbers, truth values, dates, JSON, or nothing but text.

Decided over the distinct texts of the sample, whole arrays at a time. What a file's columns say together, the sign
before fractions and the order of dates, comes in as `Marks`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from pinotpy.data_types import INT_MIN, DataType
from pinotpy.ingest.casting import without_plus
from pinotpy.ingest.sniffing.dates import ORDERS, date_guess
from pinotpy.ingest.sniffing.matching import every, some

_WHOLE: Final = r"^[+-]?(0|[1-9]\d*)$"
_ZEROS: Final = r"^[+-]?0\d+$"
_POINT: Final = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?$"
_COMMA: Final = r"^[+-]?(\d+|\d*,\d+)$"
_POINTS_OF_THOUSANDS: Final = r"^[+-]?\d{1,3}(\.\d{3})+(,\d+)?$"
_COMMAS_OF_THOUSANDS: Final = r"^[+-]?\d{1,3}(,\d{3})+(\.\d+)?$"
_COMMA_WITH_POINTS: Final = r"^[+-]?(\d+|\d{1,3}(\.\d{3})+|\d*)(,\d+)?$"
_POINT_WITH_COMMAS: Final = r"^[+-]?(\d+|\d{1,3}(,\d{3})+|\d*)(\.\d*)?$"
# 1.000 and 20.000: thousands, or numbers with three digits behind the point.
_POINT_OR_THOUSANDS: Final = r"^[+-]?([1-9]\d{0,2}\.\d{3}|\d{1,3})$"
_BY_WORD: Final[dict[str, tuple[frozenset[str], frozenset[str]]]] = {
    "true/false": (frozenset({"true"}), frozenset({"false"})),
    "yes/no": (frozenset({"yes"}), frozenset({"no"})),
    "ja/nein": (frozenset({"ja"}), frozenset({"nein"})),
    "Y/N": (frozenset({"y"}), frozenset({"n"})),
    "J/N": (frozenset({"j"}), frozenset({"n"})),
    "t/f": (frozenset({"t"}), frozenset({"f"})),
    "on/off": (frozenset({"on"}), frozenset({"off"})),
    "oui/non": (frozenset({"oui"}), frozenset({"non"})),
    "si/no": (frozenset({"si", "sí", "sì"}), frozenset({"no"})),
}
_CELLS_OF_JSON: Final = 1000
FINER_THAN_MILLIS: Final = "finer than milliseconds: cut to them"
BEYOND_64_BITS: Final = "whole numbers of more than 64 bits"
BEYOND_DOUBLE: Final = "some are beyond the range of DOUBLE: they become Infinity or 0"


@dataclass(frozen=True, slots=True)
class Marks:
    """What the columns of a file say together.

    Attributes:
        decimal_comma: None: not known. date_orders: the preferred first.
        comma_likely: whether a comma before fractions is to be expected: the fields are not separated by one.
        writes_points: whether dates are written 31.12.2025, as where points stand between thousands.
    """

    decimal_comma: bool | None = None
    date_orders: tuple[str, ...] = ("ymd", "dmy", "mdy")
    is_order_known: bool = False
    comma_likely: bool = False
    writes_points: bool = False


@dataclass(frozen=True, slots=True)
class TextGuess:
    """What the texts are; the fields of one kind of value are set, besides `data_type`.

    Attributes:
        decimal_comma: of numbers that are no plain ones: whether a comma stands before the fraction.
        truths: words for true and for false, where they are others than true and false.
        pattern, padded_from, padding: of dates, as of `DateGuess`. orders: of dates, those that fit, chosen one first.
    """

    data_type: DataType
    confidence: float = 1.0
    why: str = ""
    decimal_comma: bool | None = None
    truths: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    is_date: bool = False
    pattern: str | None = None
    padded_from: int | None = None
    padding: str = ""
    orders: tuple[str, ...] = ()
    range_ms: tuple[int, int] | None = None


def guess_text(values: pa.Array, marks: Marks) -> TextGuess:
    """The guess for the distinct texts of a column, without those that mean no value and without blanks around them."""
    if not len(values):
        return TextGuess(DataType.STRING, 0.0, "no value in the sample")
    for guess in (_truth, _number, _date, _json):
        found = guess(values, marks)
        if found is not None:
            return found
    return TextGuess(DataType.STRING)


def _truth(values: pa.Array, marks: Marks) -> TextGuess | None:
    if len(values) > 6:
        return None
    words = {text.lower() for text in values.to_pylist()}
    for name, (trues, falses) in _BY_WORD.items():
        if not words <= trues | falses:
            continue
        if name == "true/false":
            return TextGuess(DataType.BOOLEAN, 1.0 if len(words) == 2 else 0.9)
        # 'no' alone may be Norway, 'Y' alone anything.
        if not words & trues or not words & falses:
            return None
        return TextGuess(
            DataType.BOOLEAN, 0.95, f"all values are {name}", truths=(tuple(sorted(trues)), tuple(sorted(falses)))
        )
    return None


def _number(values: pa.Array, marks: Marks) -> TextGuess | None:
    if not every(values, r"\d"):
        return None
    if every(values, _WHOLE):
        return _whole(values)
    if every(values, r"^[+-]?\d+$"):
        example = values.filter(pc.match_substring_regex(values, _ZEROS))[0].as_py()
        return TextGuess(DataType.STRING, 0.95, f"'{example[:40]}' has zeros in front, which a number would lose")
    # Signs of numbers that are none: times of day, versions, dates.
    is_point, is_comma = every(values, _POINT_WITH_COMMAS), every(values, _COMMA_WITH_POINTS)
    if every(values, _POINT) and not (marks.decimal_comma and is_comma):
        is_open = marks.decimal_comma is None and marks.comma_likely and every(values, _POINT_OR_THOUSANDS)
        if not is_open:
            return TextGuess(DataType.DOUBLE, why=BEYOND_DOUBLE if _is_beyond_double(values) else "")
        why = "1.234 may be a thousand or have a fraction"
        if not marks.writes_points:
            return TextGuess(DataType.DOUBLE, 0.5, why, decimal_comma=False)
        whole = _whole(pc.replace_substring(values, ".", ""))
        return TextGuess(whole.data_type, 0.5, f"points between thousands, as dates are written; {why}",
                         decimal_comma=True)  # fmt: skip
    if not is_point and not is_comma:
        return None
    if is_point and is_comma:
        if marks.decimal_comma is not None:
            comma, confidence, why = marks.decimal_comma, 0.9, "as in the other columns"
        else:
            comma, confidence = marks.comma_likely, 0.5
            why = "1,234 may be a thousand or 1.234"
    else:
        comma, confidence, why = is_comma, 1.0, ""
    if marks.decimal_comma is not None and comma != marks.decimal_comma:
        return None
    sign = "comma" if comma else "point"
    fraction = "," if comma else "."
    has_fraction = pc.any(pc.match_substring(values, fraction)).as_py()
    plain = pc.replace_substring(pc.replace_substring(values, "." if comma else ",", ""), fraction, ".")
    guess = TextGuess(DataType.DOUBLE) if has_fraction else _whole(plain)
    if guess.data_type is DataType.STRING:
        return guess
    why = "; ".join(filter(None, (f"decimal {sign}" if has_fraction else "marks between thousands", why)))
    return TextGuess(guess.data_type, confidence, why, decimal_comma=comma)


def _is_beyond_double(values: pa.Array) -> bool:
    if not some(values, r"[eE][+-]?\d{3}|\d{300}"):
        return False
    for text in values.to_pylist():
        number = float(text)
        if math.isinf(number) or (number == 0 and re.search("[1-9]", re.split("[eE]", text)[0])):
            return True
    return False


def _whole(values: pa.Array) -> TextGuess:
    digits = pc.max(pc.utf8_length(values)).as_py()
    if digits > 20:
        return TextGuess(DataType.STRING, 0.9, BEYOND_64_BITS)
    if some(values, r"^\+\d{7,}$") and not some(values, "^-"):
        return TextGuess(DataType.STRING, 0.8, "numbers with a + in front, as of telephones")
    try:
        numbers = whole_numbers(values)
    except pa.ArrowInvalid:
        return TextGuess(DataType.STRING, 0.9, BEYOND_64_BITS)
    extremes = pc.min_max(numbers).as_py()
    fits = extremes["min"] >= INT_MIN and extremes["max"] < -INT_MIN
    return TextGuess(DataType.INT if fits else DataType.LONG)


def whole_numbers(values: pa.Array) -> pa.Array:
    """LONGs of texts, a + in front or not; raises pa.ArrowInvalid where one is none."""
    return without_plus(values).cast(pa.int64())


def _date(values: pa.Array, marks: Marks) -> TextGuess | None:
    found = date_guess(values, marks.date_orders)
    if found is None:
        return None
    is_open = len(found.orders) > 1
    shown = found.pattern or "ISO 8601"
    known = ", taken as the other columns are" if marks.is_order_known else ""
    why = f"{shown}; {' and '.join(found.orders[1:])} would fit as well{known}" if is_open else shown
    if some(values, r":\d{2}[.,]\d{3}\d*[1-9]"):
        why = f"{why}; {FINER_THAN_MILLIS}"
    return TextGuess(
        DataType.TIMESTAMP,
        1.0 if not is_open else 0.8 if marks.is_order_known else 0.5,
        why,
        is_date=True,
        pattern=found.pattern,
        padded_from=found.padded_from,
        padding=found.padding,
        orders=found.orders,
        range_ms=found.range_ms,
    )


def _json(values: pa.Array, marks: Marks) -> TextGuess | None:
    import orjson

    if not every(values, r"^\s*[\[{]"):
        return None
    try:
        for value in values.slice(0, _CELLS_OF_JSON).to_pylist():
            orjson.loads(value)
    except ValueError:
        return None
    return TextGuess(DataType.JSON, 0.9, "every value is a JSON array or object")


Guesser = Callable[[pa.Array, Marks], TextGuess | None]


def file_marks(columns: list[pa.Array], *, delimiter: str | None, wished: Marks) -> Marks:
    """What the columns of a file say together: those that are sure decide for those that are not.

    Args:
        columns: distinct texts of each, as of `guess_text`. wished: what the caller says already.
    """
    comma_likely = delimiter not in (None, ",")
    commas = points = 0
    sure_orders: list[str] = []
    writes_points = False
    for values in columns:
        if not len(values) or not some(values, r"\d[.,/-]?\d|\d"):
            continue
        if some(values, r"^[+-]?[\d.]*,\d") and every(values, _COMMA_WITH_POINTS):
            commas += not every(values, _POINT_WITH_COMMAS)
        elif some(values, r"^[+-]?[\d,]*\.\d") and every(values, _POINT_WITH_COMMAS):
            points += not every(values, _COMMA_WITH_POINTS)
        date = date_guess(values, ("ymd", "dmy", "mdy"))
        writes_points |= date is not None and bool(date.pattern) and "MM.yy" in str(date.pattern)
        if date is not None and len(date.orders) == 1 and date.orders[0] in ("dmy", "mdy"):
            sure_orders.append(date.orders[0])
    decimal_comma = wished.decimal_comma
    if decimal_comma is None and bool(commas) != bool(points):
        decimal_comma = bool(commas)
    orders = wished.date_orders
    if set(orders) == {*ORDERS}:
        # 03/04/2020: as the other columns write it, else as countries with this decimal sign do.
        first = sure_orders[0] if len(set(sure_orders)) == 1 else "dmy" if decimal_comma or comma_likely else "mdy"
        orders = ("ymd", first, "mdy" if first == "dmy" else "dmy")
    return Marks(decimal_comma, orders, len(set(sure_orders)) == 1, comma_likely, writes_points)
