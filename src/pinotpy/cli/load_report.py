"""What `pinotpy load` and `pinotpy table infer` show: the guesses with the flags that change them, the documents, five
rows, and everything that did not become a value of the table.
"""

from __future__ import annotations

import json
from contextlib import closing
from datetime import datetime, timedelta
from typing import Any, Final

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pinotpy.data_types import DataType
from pinotpy.decimals import decode_decimal
from pinotpy.ingest.ledger import RowLedger
from pinotpy.ingest.pipeline import RowPipeline, read_rows
from pinotpy.ingest.readers.spec import FileFormat, InputFile
from pinotpy.ingest.sniffing.building import Reading
from pinotpy.ingest.sniffing.documents import why_no_time_column
from pinotpy.ingest.sniffing.guess import ColumnGuess, Guess
from pinotpy.ingest.sniffing.lessons import HEADER_AGAIN, cause_lines

ROWS_SHOWN: Final = 5
COLUMNS_SHOWN: Final = 60
_CELL_CHARACTERS: Final = 60
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - shown without its zone
# By whether the table keeps nulls.
_REPLACED: Final = {
    True: "values that are no number (NaN), read as no value: queries see null",
    False: "values that are no number (NaN), stored as the default",
}


def print_reading(console: Console, reading: Reading) -> None:
    """Of one file: what it was taken for, its columns, five rows, and what was left out."""
    sniffed = reading.sniffed
    console.print(f"[bold]{escape(reading.file.name)}[/bold]", soft_wrap=True)
    table = Table("what", "guess", show_edge=False, pad_edge=False, header_style="bold")
    table.add_column("sure", justify="right")
    table.add_column("changed by", overflow="fold")
    table.add_column("why", overflow="fold")
    for guess in guesses_of(reading):
        table.add_row(
            guess.subject, escape(guess.value), _share(guess.confidence), escape(guess.flag), escape(guess.why)
        )
    console.print(table)
    console.print()
    console.print(_columns(reading))
    if len(sniffed.columns) > COLUMNS_SHOWN:
        console.print(f"… and {len(sniffed.columns) - COLUMNS_SHOWN:,} more columns; --json lists all")
    console.print()
    print_rows(console, reading, first_rows(reading))
    for line in left_out(reading):
        console.print(f"[yellow]note[/yellow] {escape(line)}", soft_wrap=True)
    console.print()


def guesses_of(reading: Reading) -> list[Guess]:
    """What is about the file as a whole: how it is read, and what the table is like."""
    segments = reading.table_config.segments
    time_column = segments.time_column_name
    why_time = "" if time_column else why_no_time_column(reading.sniffed.columns)
    # Formats that can say null keep an empty text.
    empty = "an empty field" if reading.sniffed.file_format in (FileFormat.CSV, FileFormat.TSV) else "null"
    null_texts = dict.fromkeys(text for column in reading.sniffed.columns for text in column.null_texts)
    return [
        *reading.sniffed.guesses,
        Guess("no value", ", ".join([empty, *map(repr, list(null_texts)[:6])]), 1.0, "--null-text TEXT",
              "adds a text; --keep-text TEXT takes one away"),
        Guess("table", reading.table_config.raw_table_name, 1.0, "--table NAME"),
        Guess("time column", time_column or "none", 0.8 if time_column else 1.0,
              "--time-column NAME", why_time or "'' is none"),
    ]  # fmt: skip


def print_documents(console: Console, reading: Reading) -> None:
    """The table config as JSON; the schema is what the columns show."""
    console.print("[bold]table config[/bold]")
    document = reading.table_document
    console.print(escape(json.dumps(document, indent=2, ensure_ascii=False)), soft_wrap=True, highlight=False)
    console.print()


def left_out(reading: Reading) -> list[str]:
    """Everything of the file that is not in the table as it stands there, in words, with what would map it."""
    lines = list(reading.lines)
    known = set(reading.schema.field_specs)
    ignored = [column.source for column in reading.sniffed.columns if column.name not in known]
    others = [name for name in reading.other_fields if not _is_read(name, reading)]
    ignored = list(dict.fromkeys([*ignored, *others]))
    if ignored:
        shown = ", ".join(repr(name[:60]) for name in ignored[:10])
        more = f" and {len(ignored) - 10} more" if len(ignored) > 10 else ""
        lines.append(f"fields that no column of the table takes: {shown}{more}")
    missing = [name for name in known if name not in {column.name for column in reading.sniffed.columns}]
    if missing:
        lines.append(f"columns without a value, since the file lacks them: {', '.join(sorted(missing)[:10])}")
    lines += [f"rejected: {line}" for line in cause_lines(reading.rejects)]
    if reading.report is not None:
        for name, what in (
            ("cuts_by_column", "texts cut before a NUL character, or to maxLength where the column has a shorter one"),
            ("defaults_by_column", _REPLACED[_keeps_nulls(reading)]),
            ("dropped_by_column", "entries left out of lists (null, NaN)"),
            (
                "unmapped_by_field",
                "values that no column takes: columns read fields of records, this is none, or two are called alike",
            ),
        ):
            counts = reading.report.by_column(name)
            if counts:
                lines.append(f"{what}: {', '.join(f'{column} {count:,}' for column, count in counts.most_common(10))}")
        lines += list(reading.report.warnings)
    return lines


def _keeps_nulls(reading: Reading) -> bool:
    return bool(reading.schema.enable_column_based_null_handling or reading.table_config.indexing.null_handling_enabled)


def _is_read(field: str, reading: Reading) -> bool:
    below = f"{field}{reading.sniffed.field_delimiter}"
    return any(column.source == field or column.source.startswith(below) for column in reading.sniffed.columns)


def no_rows_text(reading: Reading) -> str | None:
    """That a file gives no row, and what may be wrong; None where it gives some."""
    if num_rows(reading)[0]:
        return None
    is_header = any((guess.subject, guess.value) == ("header", "yes") for guess in reading.sniffed.guesses)
    remedy = "; it has only a header: --no-header reads that as a row" if is_header else ""
    return f"'{reading.file.name}' gives no row{remedy}"


def num_rows(reading: Reading) -> tuple[int, int]:
    """(rows that are loaded, rows that are not)."""
    if reading.report is None:
        return 0, 0
    again = sum(one.cause == HEADER_AGAIN for one in reading.rejects)
    return reading.report.total("num_rows_indexed"), reading.report.total("num_rows_rejected") - again


def first_rows(reading: Reading) -> list[dict[str, Any]]:
    """The first rows as the table has them."""
    pipeline = RowPipeline(reading.schema, reading.table_config, reject_share_max=1)
    pipeline.missing_columns = type(pipeline.missing_columns).DEFAULT
    with closing(
        read_rows(  # type: ignore[type-var]
            InputFile(reading.file.path),
            reading.sniffed.file_format,
            pipeline,
            RowLedger(reading.file.name),
            reader_config=reading.sniffed.reader_config,
        )
    ) as batches:
        batch = next(iter(batches), None)
    if batch is None:
        return []
    types = {spec.name: spec.data_type for spec in reading.schema.field_specs.values()}
    order = [column.name for column in reading.sniffed.columns if column.name in types]
    rows = batch.slice(0, ROWS_SHOWN).to_pylist()
    return [{name: _shown(row[name], types[name]) for name in order} for row in rows]


def print_rows(console: Console, reading: Reading, rows: list[dict[str, Any]]) -> None:
    """As a table; wide ones show their first columns."""
    if not rows:
        console.print("no rows")
        return
    names = list(rows[0])[:COLUMNS_SHOWN]
    table = Table(show_edge=False, pad_edge=False, header_style="bold")
    for name in names:
        spec = reading.schema.field_specs[name]
        is_number = spec.single_value and spec.data_type in (
            DataType.INT,
            DataType.LONG,
            DataType.FLOAT,
            DataType.DOUBLE,
        )
        table.add_column(escape(name), justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(escape(_cell(row[name])) for name in names))
    console.print(table)


def document_of(reading: Reading) -> dict[str, Any]:
    """The same as JSON."""
    loaded, rejected = num_rows(reading)
    return {
        "file": reading.file.name,
        "format": str(reading.sniffed.file_format),
        "readerConfig": dict(reading.sniffed.reader_config),
        "guesses": [guess.to_json_dict() for guess in guesses_of(reading)],
        "columns": [_column_document(column) for column in reading.sniffed.columns],
        "timeColumn": reading.table_config.segments.time_column_name,
        "rows": first_rows(reading),
        "numRows": loaded,
        "numRowsRejected": rejected,
        "notes": left_out(reading),
    }


def _column_document(column: ColumnGuess) -> dict[str, Any]:
    return {
        "name": column.name,
        "field": column.source,
        "dataType": column.type_text,
        "transformFunction": column.expression,
        "confidence": round(column.confidence, 2),
        "why": column.why,
        "flag": column.flag,
    }


def _columns(reading: Reading) -> Table:
    table = Table("column", "type", show_edge=False, pad_edge=False, header_style="bold")
    table.add_column("sure", justify="right")
    table.add_column("changed by", overflow="fold")
    table.add_column("why", overflow="fold")
    for column in reading.sniffed.columns[:COLUMNS_SHOWN]:
        original = reading.sniffed.names_changed.get(column.name)
        told = f"field {original!r}" if original is not None else ""
        why = "; ".join(filter(None, (told, column.why)))
        table.add_row(
            escape(column.name), escape(column.type_text), _share(column.confidence), escape(column.flag), escape(why)
        )
    return table


def _share(confidence: float) -> str:
    return f"{confidence:.0%}"


def _shown(value: Any, data_type: DataType) -> Any:
    """A value of storage form as people write it, and as JSON can hold it."""
    if isinstance(value, list):
        return [_shown(item, data_type) for item in value]
    match value:
        case int() if data_type is DataType.BOOLEAN:
            return bool(value)
        case float() if data_type is DataType.FLOAT:
            return float(str(np.float32(value)))  # the digits of the FLOAT, not of the double that is nearest to it
        case int() if data_type is DataType.TIMESTAMP:
            try:
                return (_EPOCH + timedelta(milliseconds=value)).isoformat(" ", "milliseconds")
            except OverflowError:
                return value
        case bytes() if data_type is DataType.BIG_DECIMAL:
            return str(decode_decimal(value))
        case bytes():
            return value.hex()
    return value


def _cell(value: Any) -> str:
    if value is None or isinstance(value, list | bool):
        text = json.dumps(value, ensure_ascii=False)
    else:
        text = str(value)
    text = "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in text)
    return text if len(text) <= _CELL_CHARACTERS else f"{text[:_CELL_CHARACTERS]}…"
