"""The reader config of CSV: what the manual's `-readerConfigFile` and `recordReaderSpec.configs` may say."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from pinotpy.config.date_pattern import DatePattern
from pinotpy.config.document import Document, Text, Truth, collect, describe, named, refuse
from pinotpy.config.unread_keys import unrecognized
from pinotpy.errors import Fault


class CsvFileFormat(StrEnum):
    """Dialects of Commons CSV."""

    DEFAULT = "DEFAULT"
    EXCEL = "EXCEL"
    MYSQL = "MYSQL"
    RFC4180 = "RFC4180"
    TDF = "TDF"


class QuoteMode(StrEnum):
    """Of Commons CSV, for writing."""

    ALL = "ALL"
    ALL_NON_NULL = "ALL_NON_NULL"
    MINIMAL = "MINIMAL"
    NON_NUMERIC = "NON_NUMERIC"
    NONE = "NONE"


def _character(value: Any) -> Any:
    if not isinstance(value, str) or len({"\\t": "\t"}.get(value, value)) != 1 or not value.isascii():
        raise ValueError("one ASCII character")
    return {"\\t": "\t"}.get(value, value)


Character = Annotated[str, BeforeValidator(_character)]


def _encoding(value: Any) -> Any:
    try:
        if not isinstance(value, str) or not codecs.lookup(value)._is_text_encoding:
            raise LookupError
    except LookupError:
        raise ValueError("an encoding of text, such as utf-16 or windows-1252") from None
    return value


Encoding = Annotated[str, BeforeValidator(_encoding)]


class CsvReaderConfig(Document):
    """Reader config of the manual (`-readerConfigFile`) and of `recordReaderSpec.configs`."""

    file_format: Annotated[CsvFileFormat, named(CsvFileFormat)] = Field(
        CsvFileFormat.DEFAULT, description="DEFAULT, EXCEL, MYSQL, RFC4180 or TDF."
    )
    header: Text | None = Field(
        None, description="Column names joined by the delimiter; the file then has no header row."
    )
    skip_header: Truth = Field(False, description="Leave out the file's first row although `header` is given.")
    skip_rows: int = Field(0, ge=0, description="Lines at the file's beginning, before its header, that are left out.")
    delimiter: Character | None = Field(None, description="Between fields; default: by fileFormat.")
    multi_value_delimiter: Character | None = Field(";", description="Between the values of a multi-valued column.")
    multi_value_delimiter_enabled: Truth = Field(
        True, description="Whether values of multi-valued columns are split at all."
    )
    quote_character: Character | None = Field(None, description="Around fields; default: by fileFormat.")
    escape_character: Character | None = Field(
        None, description="Before a character that stands for itself, or n, r, t, b, f for what they mean in C."
    )
    comment_marker: Character | None = Field(None, description="First character of lines that are left out.")
    null_string_value: Text | None = Field(None, description="A text that means no value, besides the empty one.")
    ignore_empty_lines: Truth | None = Field(None, description="Default: by fileFormat.")
    ignore_surrounding_spaces: Truth | None = Field(None, description="Default: by fileFormat.")
    skip_un_parseable_lines: Truth = Field(
        False,
        description="Leave out rows that are no CSV, listed as rejected, without counting them as bad; a quoted field "
        "then ends with its line.",
    )
    skip_repeated_header: Truth = Field(
        False,
        description="Leave out rows that are the header once more, as where files were joined; listed as rejected, "
        "without counting them as bad.",
    )
    encoding: Encoding | None = Field(
        None, description="Of the file's text: utf-16, windows-1252 …, as Python calls it; default: UTF-8."
    )
    quote_mode: Annotated[QuoteMode, named(QuoteMode)] | None = Field(
        None, description="How fields would be written; accepted."
    )
    record_separator: Text | None = Field(None, description="How lines would be written; LF, CR LF and CR are read.")
    date_format: Text = Field(
        "mm-dd-yyyy", description="Pattern of the date columns; mm without hours means the month."
    )
    date_columns: tuple[Text, ...] = Field(
        (), description="Columns that are read by dateFormat into milliseconds since 1970-01-01 UTC."
    )

    @property
    def effective_delimiter(self) -> str:
        tab = self.file_format in (CsvFileFormat.MYSQL, CsvFileFormat.TDF)
        return self.delimiter or ("\t" if tab else ",")

    @property
    def quote(self) -> str | None:
        return self.quote_character or (None if self.file_format is CsvFileFormat.MYSQL else '"')

    @property
    def escape(self) -> str | None:
        return self.escape_character or ("\\" if self.file_format is CsvFileFormat.MYSQL else None)

    @property
    def skips_empty_lines(self) -> bool:
        if self.ignore_empty_lines is not None:
            return self.ignore_empty_lines
        return self.file_format in (CsvFileFormat.DEFAULT, CsvFileFormat.TDF)

    @property
    def trims(self) -> bool:
        return (
            self.ignore_surrounding_spaces
            if self.ignore_surrounding_spaces is not None
            else self.file_format is CsvFileFormat.TDF
        )

    @property
    def null_texts(self) -> list[str]:
        configured = [self.null_string_value] if self.null_string_value is not None else []
        return ["", *configured, *(["\\N"] if self.file_format is CsvFileFormat.MYSQL else [])]

    @property
    def needs_rewriting(self) -> bool:
        """Whether the dialect has what Arrow's reader does not know (`csv_dialect.py`)."""
        return self.comment_marker is not None or self.escape is not None or self.trims or self.skip_un_parseable_lines

    @property
    def date_pattern(self) -> DatePattern:
        pattern = self.date_format
        # The manual's own default "mm-dd-yyyy" means the month; minutes without hours are meant by nobody.
        if "M" not in pattern and "H" not in pattern and "h" not in pattern:
            pattern = pattern.replace("m", "M")
        return DatePattern.compile(pattern)


def read_config(config: Mapping[str, Any]) -> CsvReaderConfig:
    """Check a reader config; unknown keys are refused, since each changes how every row is read."""
    faults: list[Fault] = []
    parsed = collect(CsvReaderConfig, dict(config), "$", faults)
    if parsed is not None:
        allowed = "one of " + ", ".join(str(field.alias) for field in CsvReaderConfig.model_fields.values())
        faults.extend(Fault(f"$.{pointer[1:]}", "an unknown key", allowed) for pointer in unrecognized(parsed))
        try:
            _ = parsed.date_pattern
        except ValueError as error:
            faults.append(Fault("$.dateFormat", describe(parsed.date_format), str(error)))
        faults.extend(_equal_characters(parsed))
    refuse("csv reader config", faults)
    assert parsed is not None
    return parsed


def _equal_characters(config: CsvReaderConfig) -> list[Fault]:
    """Characters with two meanings, as Commons CSV refuses them."""
    seen: dict[str, str] = {config.effective_delimiter: "delimiter"}
    faults = []
    for name, character in (
        ("quoteCharacter", config.quote),
        ("escapeCharacter", config.escape),
        ("commentMarker", config.comment_marker),
    ):
        if character is not None and character in seen:
            faults.append(Fault(f"$.{name}", describe(character), f"another character than the {seen[character]}"))
        elif character is not None:
            seen[character] = name
    faults += [Fault("$.delimiter", describe(character), "no line end") for character in seen if character in "\r\n"]
    return faults
