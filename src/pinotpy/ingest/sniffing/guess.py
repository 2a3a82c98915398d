"""What was guessed, how sure that is, and the flag of `pinotpy load` that changes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pinotpy.data_types import DataType

# Texts that stand for no value. In columns of text only the first of them: 'None' and '-' may be meant, and 'keine
# Angabe' is an answer to a question.
_GERMAN: Final = ("k.A.", "k. A.", "K.A.", "k.A")
NULL_TEXTS_OF_TEXT: Final = ("NULL", "null", "Null", "\\N", "NA", "N/A", "n/a", "#N/A", *_GERMAN)
NULL_TEXTS: Final = (
    *(*NULL_TEXTS_OF_TEXT, "na", "None", "none", "nil", "NaN", "nan", "-", "--", "?"),
    *("keine Angabe", "Keine Angabe", "keine Angaben", "Keine Angaben"),
)


@dataclass(frozen=True, slots=True)
class Guess:
    """One decision. `subject` is what it is about ("delimiter", "column 'price'"), `value` what was decided.

    confidence: 0 to 1, by how much of the sample says so; `why` in words where that is not all. flag: what changes it.
    """

    subject: str
    value: str
    confidence: float
    flag: str
    why: str = ""

    def to_json_dict(self) -> dict[str, Any]:
        plain = {"subject": self.subject, "value": self.value, "confidence": round(self.confidence, 2)}
        return plain | {"flag": self.flag} | ({"why": self.why} if self.why else {})


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the caller says instead of letting it be guessed; None and empty: guess.

    Attributes:
        types: column → type of values, `[]` behind it for lists. header: whether the first row is one.
        date_order: "ymd", "dmy" or "mdy". decimal_comma: whether numbers have a comma before their fraction.
        null_texts: further texts that are no value, in every column. kept_texts: texts that are values, though they
            mean none elsewhere.
        time_column: "" for none. quote, escape, comment: marks of CSV, "" for none. skip_rows: lines before the header
            of CSV.
    """

    file_format: str | None = None
    delimiter: str | None = None
    quote: str | None = None
    encoding: str | None = None
    header: bool | None = None
    decimal_comma: bool | None = None
    date_order: str | None = None
    null_texts: tuple[str, ...] = ()
    types: Mapping[str, str] = field(default_factory=dict)
    time_column: str | None = None
    escape: str | None = None
    comment: str | None = None
    kept_texts: tuple[str, ...] = ()
    skip_rows: int | None = None


@dataclass(frozen=True, slots=True)
class LateValue:
    """A value behind the sample that did not fit the guess."""

    row: int
    text: str


@dataclass(frozen=True, slots=True)
class Lessons:
    """What reading all rows taught beyond the sample.

    Attributes:
        late: column → values that did not fit; the column is guessed again with them.
        as_text: column for which no guess held, or of which the values are not known → row.
        encoding: of a file that is not UTF-8 further down.
        more_fields: of JSON, that only later records have.
        whole: fields that are records in some rows only: they are not taken apart.
        without_time: columns whose times leave 1971..2071.
        trims: whether blanks stand before quotes, which makes rows of too many fields.
    """

    late: Mapping[str, tuple[LateValue, ...]] = field(default_factory=dict)
    as_text: Mapping[str, int] = field(default_factory=dict)
    encoding: str | None = None
    more_fields: tuple[str, ...] = ()
    without_time: tuple[str, ...] = ()
    whole: tuple[str, ...] = ()
    trims: bool = False


@dataclass(frozen=True, slots=True)
class ColumnGuess:
    """One column of the table and what of the file fills it.

    Attributes:
        name: of the column. source: of the field, `a.b` for field b of record a.
        expression: transformFunction that makes the values, None where the field's values are the column's.
        null_texts: texts that the expression reads as no value.
    """

    name: str
    source: str
    data_type: DataType
    single_value: bool
    expression: str | None
    confidence: float
    why: str
    flag: str
    is_wished: bool = False
    null_texts: tuple[str, ...] = ()
    time_range_ms: tuple[int, int] | None = None
    has_nulls: bool = False

    @property
    def type_text(self) -> str:
        return f"{self.data_type}{'' if self.single_value else '[]'}"
