"""What an answer says of a date that is not written as the column's dates are: `ds = '2025-01-10'` of yyyyMMdd.

Such columns are texts and compared letter by letter, so that nothing is found, or too much, and no error says so.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from itertools import islice
from typing import Final

from pinotpy.broker.type_warnings import conditions_of
from pinotpy.config.date_time import DateTimeFormat, TimeFormat
from pinotpy.config.schema import Schema
from pinotpy.pql.ast import Identifier
from pinotpy.query.model.context import Comparison, Predicate, QueryContext
from pinotpy.query.model.literals import predicate_literals, predicates_of

# Of long lists the first ones are looked at: who writes dates wrongly writes all of them so.
_LITERALS_MAX: Final = 100
_CHARACTERS_MAX: Final = 60
_COMPARED: Final = frozenset({Comparison.EQ, Comparison.NOT_EQ, Comparison.IN, Comparison.NOT_IN, Comparison.RANGE})
# Forms that can be read in one way only; 01/02/2025 is not one of them. Each names a day.
_FORMS: Final = tuple(
    (re.compile(text), pattern)
    for text, pattern in (
        (r"\d{4}-\d{1,2}-\d{1,2}.*", None),
        (r"\d{8}", "yyyyMMdd"),
        (r"\d{4}/\d{1,2}/\d{1,2}", "yyyy/MM/dd"),
        (r"\d{1,2}\.\d{1,2}\.\d{4}", "dd.MM.yyyy"),
    )
)
_SAMPLE: Final = int(datetime(2000, 1, 1, tzinfo=UTC).timestamp() * 1000)


def date_warnings(context: QueryContext, schema: Schema) -> list[str]:
    """That a column of dates is compared with a text of another form: which form it has, and how the date is written in
    it. One warning a column.
    """
    formats = schema.dates_as_texts
    columns = {column.name: column for column in context.columns if column.name in formats} if formats else {}
    if not columns:
        return []
    found = dict[str, str]()
    for condition in conditions_of(context):
        for predicate in predicates_of(condition):
            lhs = predicate.lhs
            if isinstance(lhs, Identifier) and lhs.name in columns and predicate.comparison in _COMPARED:
                wrong = _wrong_date(predicate, formats[lhs.name], columns[lhs.name].default_null)
                if wrong is not None:
                    found.setdefault(lhs.name, wrong)
    return [_said(name, text, formats[name]) for name, text in found.items()]


def _wrong_date(predicate: Predicate, form: DateTimeFormat, default_null: object) -> str | None:
    """The first text of a predicate that is no date of a form, nor what stands for none."""
    is_range = predicate.comparison is Comparison.RANGE
    for value in islice(predicate_literals(predicate), _LITERALS_MAX):
        if not isinstance(value, str) or _is_of(value, form) or (is_range and _begins(value, form)):
            continue
        if value.encode("utf-8", "surrogatepass") != default_null:
            return value
    return None


def _is_of(text: str, form: DateTimeFormat) -> bool:
    # A pattern reads 2025-1-9 as well, which is no text that the column has.
    full_width = form.full_width if form.is_lexicographic else None
    return (full_width is None or re.fullmatch(full_width, text) is not None) and _millis(text, form) is not None


def _begins(text: str, form: DateTimeFormat) -> bool:
    """Whether dates begin with a text: ds >= '2025' is right of yyyy-MM-dd."""
    return form.is_lexicographic and _is_of(text + str(form.value_from_millis(_SAMPLE))[len(text) :], form)


def _said(name: str, text: str, form: DateTimeFormat) -> str:
    shown = text if len(text) <= _CHARACTERS_MAX else f"{text[:_CHARACTERS_MAX]}…"
    written = _written(text, form)
    remedy = "" if written is None else f"; write '{written}'"
    pattern = "by ISO 8601" if form.pattern is None else f"as {form.pattern}"
    return (
        f"column '{name}' has dates as texts, written {pattern}, and is compared with '{shown}' letter by letter, "
        f"which is not written so{remedy}"
    )


def _written(text: str, form: DateTimeFormat) -> str | None:
    """The same date in a form; None: it is read as no date, or the form has dates of any precision."""
    if form.pattern is None:
        return None
    millis = _millis(text, form)
    for reader, pattern in _FORMS:
        if millis is None and reader.fullmatch(text.strip()):
            millis = _millis(text, DateTimeFormat(TimeFormat.SIMPLE_DATE_FORMAT, pattern=pattern, zone=form.zone))
    return None if millis is None else str(form.value_from_millis(millis))


def _millis(text: str, form: DateTimeFormat) -> int | None:
    try:
        return form.millis_from_value(text)
    except (ValueError, OverflowError):
        return None
