"""One field of the sample → type of its column, and the expression that makes its values, where one is needed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from pinotpy.data_types import INT_MIN, DataType
from pinotpy.errors import UserError
from pinotpy.ingest.sniffing import expressions
from pinotpy.ingest.sniffing.fields import Field
from pinotpy.ingest.sniffing.guess import NULL_TEXTS, NULL_TEXTS_OF_TEXT, ColumnGuess, LateValue, Wishes
from pinotpy.ingest.sniffing.matching import every, some
from pinotpy.ingest.sniffing.near_types import why_text
from pinotpy.ingest.sniffing.numbers_as_times import NumberTimes, guessed_times, wished_times
from pinotpy.ingest.sniffing.texts import (
    BEYOND_64_BITS,
    BEYOND_DOUBLE,
    FINER_THAN_MILLIS,
    Marks,
    TextGuess,
    guess_text,
    whole_numbers,
)
from pinotpy.ingest.time_values import millis_from_temporal

_TIME_NAME: Final = re.compile(
    r"(?i)(time|date|datum|zeit|stamp|epoch|millis|created|updated|modified)|(^|_)(ts|at|utc|ms)$|[a-z](At|Ts|On)$"
)
# As a number or a truth value of JSON is written; a column of such in some rows has batches without any text.
_NO_TEXT_OF_JSON: Final = r"^(-?\d|true$|false$)"
_NUMERIC: Final = (DataType.INT, DataType.LONG, DataType.FLOAT, DataType.DOUBLE)


@dataclass(frozen=True, slots=True)
class TextValues:
    """Distinct texts of a field without blanks around them, parted from those that mean no value."""

    texts: pa.Array
    nulls: tuple[str, ...]
    nulls_of_text: tuple[str, ...]
    is_padded: bool


def text_values(field: Field, wishes: Wishes, late: Sequence[LateValue] = ()) -> TextValues | None:
    """The texts of a field with those that came late; None where it has other values."""
    if field.is_declared:
        return None
    values = field.values
    if late and (pa.types.is_primitive(values.type) and not pa.types.is_temporal(values.type)):
        values = values.cast(pa.string())
    if not pa.types.is_string(values.type) and not pa.types.is_null(values.type):
        return None
    values = pa.concat_arrays([values.cast(pa.string()), pa.array([one.text for one in late], pa.string())])
    distinct = values.unique().drop_null()
    trimmed = pc.utf8_trim_whitespace(distinct)
    is_padded = not trimmed.equals(distinct)
    trimmed = trimmed.unique()
    is_null = pc.is_in(trimmed, options=_null_texts(wishes.null_texts, wishes.kept_texts))
    nulls = [text for text in trimmed.filter(is_null).to_pylist() if text]
    texts = trimmed.filter(pc.invert(is_null))
    of_text = [text for text in nulls if text in NULL_TEXTS_OF_TEXT or text in wishes.null_texts]
    # NA among codes of two letters is one: Namibia.
    is_code = len(texts) > 0 and every(texts, "^[A-Z]{2}$")
    if is_code and "NA" not in wishes.null_texts:
        of_text = [text for text in of_text if text != "NA"]
    return TextValues(texts, tuple(sorted(nulls)), tuple(sorted(of_text)), is_padded)


@lru_cache(maxsize=16)
def _null_texts(more: tuple[str, ...], kept: tuple[str, ...]) -> pc.SetLookupOptions:
    """The texts that mean no value, made once for all columns of a file."""
    return pc.SetLookupOptions(pa.array(sorted({*NULL_TEXTS, *more, ""} - set(kept))))


def column_guess(
    field: Field,
    name: str,
    found: TextValues | None,
    marks: Marks,
    wishes: Wishes,
    late: Sequence[LateValue] = (),
    text_since: int | None = None,
) -> ColumnGuess:
    """What the column is.

    Args:
        found: texts of the field, None where its values are none. late: values that did not fit the guess before.
        text_since: row from which on no guess held: the column is text.

    Raises:
        UserError: --type names no type.
    """
    wished = wishes.types.get(name)
    told_late = f"row {late[0].row:,} has {late[0].text[:40]!r}" if late else ""
    if text_since is not None and wished is None:
        told_late = told_late or f"row {text_since:,} holds what is nothing else"
        told = tuple(dict.fromkeys((*(found.nulls_of_text if found is not None else ()), *wishes.null_texts)))
        own = expressions.without_nulls(_text_of(field, found), _nulls_of_late_text(found, told, wishes))
        why = "; ".join(filter(None, (_told_nulls(told), told_late)))
        return ColumnGuess(name, field.source, DataType.STRING, True, own, 1.0, why, f"--type {name}=LONG",
                           null_texts=told)  # fmt: skip
    own = expressions.field_name(field.source)
    flag = f"--type {name}=STRING"
    # The field's values are taken as they are where the column is called as it is.
    plain = own if name != field.source else None
    if found is None:
        data_type, single_value, why, range_ms = _of_arrow(field.values, is_declared=field.is_declared)
        times = None
        if wished is not None:
            is_number, why, range_ms = data_type in (DataType.INT, DataType.LONG) and single_value, "", None
            data_type, single_value = wished_type(wished)
            if is_number and data_type is DataType.TIMESTAMP and single_value:
                times = wished_times(field.values)
        elif data_type in (DataType.INT, DataType.LONG) and single_value and _TIME_NAME.search(name):
            times = guessed_times(field.values)
        if times is not None:
            return _column_of_times(field, name, times, own, plain, (), is_wished=wished is not None)
        is_told = field.is_declared and not pa.types.is_null(field.values.type)
        confidence = 1.0 if is_told or len(field.values) > field.values.null_count else 0.0
        if data_type is DataType.STRING and single_value:
            flag = f"--type {name}=LONG"
        why = "no value in the sample" if not confidence and wished is None else why
        return ColumnGuess(name, field.source, data_type, single_value, plain, 1.0 if wished else confidence, why, flag,
                           wished is not None, time_range_ms=range_ms)  # fmt: skip
    own = _text_of(field, found)
    guess = guess_text(found.texts, marks)
    is_number = guess.data_type in (DataType.INT, DataType.LONG) and guess.decimal_comma is None
    if wished is not None:
        data_type, single_value = wished_type(wished)
        if not single_value:
            return ColumnGuess(name, field.source, data_type, False, plain, 1.0, "", flag, True)
        guess = _as_wished(data_type, guess, marks)
    elif guess.data_type is DataType.STRING and not guess.why:
        guess = replace(guess, why=why_text(found.texts, marks))
    elif not len(found.texts) and (words := [text for text in found.nulls if text not in found.nulls_of_text]):
        word = shlex.quote(words[0])
        guess = replace(guess, why=f"only texts such as {words[0]!r}, which --null-text {word} makes no value")
    nulls = found.nulls_of_text if guess.data_type is DataType.STRING else found.nulls
    told = nulls = tuple(dict.fromkeys((*nulls, *wishes.null_texts)))
    if late and guess.data_type is DataType.STRING and wished is None:
        nulls = _nulls_of_late_text(found, nulls, wishes)
    value = expressions.without_nulls(own, nulls)
    expression: str | None
    if guess.decimal_comma is not None:
        number = expressions.plain_number(own, decimal_comma=guess.decimal_comma)
        expression = expressions.without_nulls(own, nulls, number)
    else:
        expression = _expression(guess, value, is_padded=found.is_padded)
    if expression is None and nulls:
        expression = value
    times = None
    if is_number and wished is not None and guess.data_type is DataType.TIMESTAMP:
        times = wished_times(whole_numbers(found.texts))
    elif is_number and wished is None and _TIME_NAME.search(name):
        times = guessed_times(whole_numbers(found.texts))
    if times is not None:
        return _column_of_times(field, name, times, value, expression or plain, nulls, is_wished=wished is not None)
    guess_why = "; ".join(filter(None, (guess.why, _told_nulls(told), told_late)))
    return ColumnGuess(
        name,
        field.source,
        guess.data_type,
        True,
        expression or plain,
        1.0 if wished is not None else guess.confidence,
        guess_why,
        _flag(name, guess),
        wished is not None,
        told,
        guess.range_ms,
    )


def _text_of(field: Field, found: TextValues | None) -> str:
    """The expression of the field's texts."""
    own = expressions.field_name(field.source)
    is_text = not field.has_types or (found is not None and not some(found.texts, _NO_TEXT_OF_JSON))
    return own if is_text else expressions.as_text(own)


def _nulls_of_late_text(found: TextValues | None, seen: tuple[str, ...], wishes: Wishes) -> tuple[str, ...]:
    """What means no value in a column that rows behind the sample made text: all such texts, since of the values that
    did not fit only some are known; but for those that are values here.
    """
    kept = {*wishes.kept_texts, *(set(found.nulls) - set(found.nulls_of_text) if found is not None else ())}
    return tuple(dict.fromkeys((*seen, *(text for text in NULL_TEXTS_OF_TEXT if text not in kept))))


def _told_nulls(nulls: tuple[str, ...]) -> str:
    if not nulls:
        return ""
    listed = ", ".join(repr(text) for text in nulls[:4])
    return f"no value: {listed} (a value by --keep-text {shlex.quote(nulls[0])})"


def _column_of_times(
    field: Field,
    name: str,
    times: NumberTimes,
    value: str,
    plain: str | None,
    nulls: tuple[str, ...],
    *,
    is_wished: bool,
) -> ColumnGuess:
    """A column of times that the field writes as whole numbers; plain: what makes the values of milliseconds."""
    return ColumnGuess(name, field.source, DataType.TIMESTAMP, True, times.expression(value) or plain, times.confidence,
                       times.why, f"--type {name}=LONG", is_wished, nulls, times.range_ms)  # fmt: skip


def wished_type(text: str) -> tuple[DataType, bool]:
    """(type of the values, whether a row has one) of `LONG`, `STRING[]`."""
    word = text.strip().upper()
    try:
        return DataType(word.removesuffix("[]")), not word.endswith("[]")
    except ValueError:
        raise UserError(
            f"'{text[:40]}' is no type of a column, expected one of {', '.join(DataType)}, with [] behind it for lists"
        ) from None


def _flag(name: str, guess: TextGuess) -> str:
    if guess.is_date and len(guess.orders) > 1:
        return f"--date-order {guess.orders[1]}"
    if guess.decimal_comma is not None and guess.confidence < 1:
        return "--decimal-point" if guess.decimal_comma else "--decimal-comma"
    if guess.why == BEYOND_DOUBLE:
        return f"--type {name}=BIG_DECIMAL"
    if guess.data_type is not DataType.STRING:
        return f"--type {name}=STRING"
    return f"--type {name}={'BIG_DECIMAL' if guess.why == BEYOND_64_BITS else 'LONG'}"


def _as_wished(data_type: DataType, guess: TextGuess, marks: Marks) -> TextGuess:
    """The guess with the wished type; how its texts are read stays, where that leads to the type."""
    if data_type in _NUMERIC or data_type is DataType.BIG_DECIMAL:
        comma = guess.decimal_comma if guess.data_type in _NUMERIC else marks.decimal_comma or None
        return TextGuess(data_type, decimal_comma=comma, why=guess.why if guess.data_type in _NUMERIC else "")
    if guess.data_type is data_type:
        return guess
    return TextGuess(data_type)


def _expression(guess: TextGuess, value: str, *, is_padded: bool) -> str | None:
    """What makes the values of the texts; None: the cast of the column's type reads them."""
    if guess.truths is not None:
        return expressions.truth(value, *guess.truths)
    if guess.pattern is not None:
        trimmed = f"trim({value})" if is_padded else value
        return expressions.instant(trimmed, guess.pattern, guess.padded_from, guess.padding)
    return None


def _of_arrow(values: pa.Array, *, is_declared: bool) -> tuple[DataType, bool, str, tuple[int, int] | None]:
    """(type, whether single, why, range of times) of values that have a type of their own."""
    kind = values.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        items = values.flatten()
        if pa.types.is_nested(items.type):
            return DataType.JSON, True, "lists of records or lists", None
        item_type, _, _, _ = _of_arrow(items, is_declared=is_declared)
        if item_type in (DataType.BIG_DECIMAL, DataType.JSON, DataType.MAP):
            item_type = DataType.STRING
        return item_type, False, "", None
    if pa.types.is_nested(kind):
        return DataType.JSON, True, "records whose fields are names of their own", None
    if pa.types.is_boolean(kind):
        return DataType.BOOLEAN, True, "", None
    if pa.types.is_integer(kind):
        extremes = pc.min_max(values).as_py()
        if pa.types.is_uint64(kind) and (extremes["max"] or 0) >= 1 << 63:
            return DataType.BIG_DECIMAL, True, "", None
        is_small = kind.bit_width < 32 or kind == pa.int32()
        in_range = not is_declared and (extremes["min"] or 0) >= INT_MIN and (extremes["max"] or 0) < -INT_MIN
        return DataType.INT if is_small or in_range else DataType.LONG, True, "", None
    if pa.types.is_floating(kind):
        return (DataType.FLOAT if kind == pa.float32() else DataType.DOUBLE), True, "", None
    if pa.types.is_decimal(kind):
        return DataType.BIG_DECIMAL, True, "", None
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        extremes = pc.min_max(millis_from_temporal(values)).as_py()
        known = (extremes["min"], extremes["max"]) if extremes["min"] is not None else None
        return DataType.TIMESTAMP, True, FINER_THAN_MILLIS if _is_finer_than_millis(values) else "", known
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return DataType.BYTES, True, "", None
    return DataType.STRING, True, "", None


def _is_finer_than_millis(values: pa.Array) -> bool:
    if not pa.types.is_timestamp(values.type) or values.type.unit not in ("us", "ns"):
        return False
    units = values.cast(pa.int64())
    per_milli = 1000 if values.type.unit == "us" else 1_000_000
    return bool(pc.any(pc.not_equal(pc.multiply(pc.divide(units, per_milli), per_milli), units)).as_py())
