"""Expressions of transformConfigs, written as text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

# Numbers as people write them, blanks around them.
WITH_DECIMAL_COMMA: Final = r"^\s*[+-]?(\d{1,3}(\.\d{3})+|\d*)(,\d+)?\s*$"
WITH_DECIMAL_POINT: Final = r"^\s*[+-]?(\d{1,3}(,\d{3})+|\d*)(\.\d*)?\s*$"


def field_name(name: str) -> str:
    """A field of the file, whatever it is called."""
    return '"' + name.replace('"', '""') + '"'


def as_text(value: str) -> str:
    """The text of a value that may also be a number or a truth value, which cannot be compared with texts."""
    return f"CAST({value} AS STRING)"


def text(value: str) -> str:
    """A constant."""
    return "'" + value.replace("'", "''") + "'"


def without_nulls(value: str, null_texts: Iterable[str], then: str | None = None) -> str:
    """No value where the text stands for none, else `then`, by default the text."""
    listed = ", ".join(text(null) for null in null_texts)
    found = value if then is None else then
    return f"CASE WHEN {value} IN ({listed}) THEN NULL ELSE {found} END" if listed else found


def truth(value: str, true_texts: Iterable[str], false_texts: Iterable[str]) -> str:
    """'true' and 'false' for the words that mean them; other texts stay, and are found to be neither."""
    trues, falses = (", ".join(text(word) for word in words) for words in (true_texts, false_texts))
    lower = f"lower(trim({value}))"
    return f"CASE WHEN {lower} IN ({trues}) THEN 'true' WHEN {lower} IN ({falses}) THEN 'false' ELSE {value} END"


def plain_number(value: str, *, decimal_comma: bool) -> str:
    """A number without marks between thousands, with a point before its fraction.

    Marks are taken out where they stand between thousands alone: 12.5 among decimal commas is no 125. It is made a
    text that is no number, so that the row is told.
    """
    if decimal_comma:
        shape, plain = WITH_DECIMAL_COMMA, f"replace(replace({value}, '.', ''), ',', '.')"
        other = f"concat({value}, ' among decimal commas')"
    else:
        shape, plain, other = WITH_DECIMAL_POINT, f"replace({value}, ',', '')", value
    return f"CASE WHEN regexp_like({value}, {text(shape)}) THEN {plain} ELSE {other} END"


def instant(value: str, pattern: str, padded_from: int | None = None, padding: str = "") -> str:
    """Milliseconds of a date; texts of up to `padded_from` characters get `padding`, a time of day, first."""
    if padded_from is not None:
        value = f"CASE WHEN length({value}) <= {padded_from} THEN concat({value}, {text(padding)}) ELSE {value} END"
    return f"fromDateTime({value}, {text(pattern)})"
