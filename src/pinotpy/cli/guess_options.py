"""Options by which `load` and `table infer` are told what they would guess."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from pinotpy.errors import UserError
from pinotpy.names import check_table_name

if TYPE_CHECKING:
    from pinotpy.ingest.sniffing.guess import Wishes

Table = Annotated[str | None, typer.Option("--table", help="table to create or add to (default: by the file's name)")]
Types = Annotated[
    list[str] | None,
    typer.Option(
        "--type",
        help="NAME=TYPE of a column: INT, LONG, DOUBLE, BOOLEAN, TIMESTAMP, STRING, JSON …; STRING[] is a list",
    ),
]
Format = Annotated[
    str | None, typer.Option("--format", help="csv, tsv, json, avro, parquet or orc (default: by the content)")
]
Delimiter = Annotated[str | None, typer.Option("--delimiter", help=r"between fields of CSV, such as ';' or '\t'")]
Quote = Annotated[str | None, typer.Option("--quote", help="around fields of CSV, or none")]
Escape = Annotated[
    str | None, typer.Option("--escape", help="before a character of CSV that stands for itself, or none")
]
Comment = Annotated[
    str | None, typer.Option("--comment", help="first character of lines of CSV that are left out, or none")
]
Encoding = Annotated[str | None, typer.Option("--encoding", help="of CSV: utf-8, utf-16, windows-1252 …")]
Header = Annotated[bool | None, typer.Option("--header/--no-header", help="whether the first row of CSV has names")]
SkipRows = Annotated[
    int | None,
    typer.Option("--skip-rows", min=0, help="lines of CSV before the header that are left out, such as titles"),
]
DecimalComma = Annotated[
    bool | None,
    typer.Option("--decimal-comma/--decimal-point", help="which sign stands before the fraction of numbers"),
]
DateOrder = Annotated[
    str | None, typer.Option("--date-order", help="dmy, mdy or ymd, where 01/02/2020 may be read in two ways")
]
NullTexts = Annotated[
    list[str] | None, typer.Option("--null-text", help="a further text that means no value, in every column")
]
KeptTexts = Annotated[
    list[str] | None, typer.Option("--keep-text", help="a text that is a value, such as NA, in every column")
]
TimeColumn = Annotated[
    str | None, typer.Option("--time-column", help="column of times by which segments are kept and pruned; '' for none")
]
RejectShare = Annotated[
    float,
    typer.Option("--reject-share", min=0.0, max=1.0, help="share of rows that may be left out, with their causes"),
]


@dataclass(frozen=True, slots=True)
class GuessOptions:
    """What the caller says."""

    wishes: Wishes
    table: str | None
    reject_share: float


def guess_options(
    table: Table = None,
    types: Types = None,
    file_format: Format = None,
    delimiter: Delimiter = None,
    quote: Quote = None,
    escape: Escape = None,
    comment: Comment = None,
    encoding: Encoding = None,
    header: Header = None,
    skip_rows: SkipRows = None,
    decimal_comma: DecimalComma = None,
    date_order: DateOrder = None,
    null_texts: NullTexts = None,
    kept_texts: KeptTexts = None,
    time_column: TimeColumn = None,
    reject_share: RejectShare = 0.0,
) -> GuessOptions:
    """Options of commands that look into files."""
    from pinotpy.ingest.sniffing.guess import Wishes

    if table is not None:
        check_table_name(table)
    if date_order is not None and date_order not in ("dmy", "mdy", "ymd"):
        raise UserError(f"--date-order is dmy, mdy or ymd, found '{date_order}'")
    delimiter = {"\\t": "\t", "tab": "\t"}.get(delimiter or "", delimiter)
    quote, escape, comment = ("" if mark == "none" else mark for mark in (quote, escape, comment))
    marks = {"--delimiter": delimiter, "--quote": quote, "--escape": escape, "--comment": comment}
    for flag, mark in marks.items():
        may_be_none = flag != "--delimiter"
        if mark is not None and (len(mark) != 1 or not mark.isascii()) and not (may_be_none and mark == ""):
            raise UserError(f"{flag} is one ASCII character{' or none' if may_be_none else ''}, found '{mark}'")
    wishes = Wishes(
        file_format,
        delimiter,
        quote,
        encoding,
        header,
        decimal_comma,
        date_order,
        tuple(null_texts or ()),
        _types(types or []),
        time_column,
        escape,
        comment,
        tuple(kept_texts or ()),
        skip_rows,
    )
    return GuessOptions(wishes, table, reject_share)


def _types(given: list[str]) -> dict[str, str]:
    from pinotpy.ingest.sniffing.columns import wished_type

    wished = {}
    for text in given:
        name, mark, kind = text.rpartition("=")
        if not mark or not name:
            raise UserError(f"--type is NAME=TYPE, such as price=STRING, found '{text}'")
        wished_type(kind)
        wished[name] = kind
    return wished
