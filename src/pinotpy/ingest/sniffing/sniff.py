"""A file → how it is read, the columns of its table, and what was guessed. `sniff_file` is the whole path."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pinotpy.errors import DataError, UserError
from pinotpy.ingest.readers.compression import DamagedArchiveError
from pinotpy.ingest.readers.spec import FileFormat, InputFile
from pinotpy.ingest.sniffing.column_names import column_names_of
from pinotpy.ingest.sniffing.columns import column_guess, text_values
from pinotpy.ingest.sniffing.dates import ORDERS
from pinotpy.ingest.sniffing.dialect import HEAD_BYTES, Dialect, sniff_dialect
from pinotpy.ingest.sniffing.fields import DELIMITER, Field, delimiter_of, flat_fields
from pinotpy.ingest.sniffing.file_kind import FileKind, sniff_kind
from pinotpy.ingest.sniffing.guess import ColumnGuess, Guess, Lessons, Wishes
from pinotpy.ingest.sniffing.sample import Sample, read_sample
from pinotpy.ingest.sniffing.texts import Marks, file_marks

NO_LESSONS: Final = Lessons()
_CSV: Final = (FileFormat.CSV, FileFormat.TSV)
_DECLARING: Final = (FileFormat.PARQUET, FileFormat.AVRO, FileFormat.ORC)


@dataclass(frozen=True, slots=True)
class Sniffed:
    """What a file is taken for.

    Attributes:
        reader_config: settings of the format's reader. columns: of the table, in the file's order.
        guesses: about the file as a whole. num_rows: of the sample; is_whole: the sample is all of the file.
        num_rejected, cause: rows of the sample that the reader left out.
        field_delimiter: between the names of a record and of its field in `ColumnGuess.source`.
    """

    file_format: FileFormat
    reader_config: Mapping[str, Any]
    columns: tuple[ColumnGuess, ...]
    guesses: tuple[Guess, ...]
    num_rows: int
    is_whole: bool
    num_rejected: int = 0
    cause: str = ""
    names_changed: Mapping[str, str] = field(default_factory=dict)
    field_delimiter: str = DELIMITER

    @property
    def has_nested(self) -> bool:
        return any(self.field_delimiter in column.source for column in self.columns) and self.file_format not in _CSV


def sniff_file(file: InputFile, wishes: Wishes, lessons: Lessons = NO_LESSONS) -> Sniffed:
    """Look at the beginning of a file.

    Args:
        file: on this machine. lessons: of reading it before.

    Raises:
        UserError: it is empty, of a format that is not read, or a wish names what the file does not have.
        DataError: it cannot be read.
    """
    try:
        return _sniff(file, wishes, lessons)
    except DamagedArchiveError as error:
        raise file.broken(str(error)) from error


def _sniff(file: InputFile, wishes: Wishes, lessons: Lessons) -> Sniffed:
    kind = sniff_kind(file, wishes, HEAD_BYTES)
    if kind.file_format in _CSV:
        if lessons.encoding is not None and wishes.encoding is None:
            return _sniff_csv(file, kind, replace(wishes, encoding=lessons.encoding), lessons)
        return _sniff_csv(file, kind, wishes, lessons)
    _refuse_csv_wishes(wishes, kind.file_format)
    try:
        sample = read_sample(file, kind.file_format, {}, [], lessons.more_fields)
    except DataError as error:
        if kind.file_format is FileFormat.JSON and not kind.head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(
            (b"{", b"[")
        ):
            raise DataError(f"{error.message}; if it is CSV, --format csv reads it") from error
        raise
    return _sniffed(kind.file_format, {}, sample, kind.guesses, wishes, lessons, None)


def _sniff_csv(file: InputFile, kind: FileKind, wishes: Wishes, lessons: Lessons) -> Sniffed:
    dialect = sniff_dialect(kind.head, kind.is_whole, wishes, trims=lessons.trims)
    if dialect is None:
        raise UserError(f"'{file.name}' has no line with text: expected rows, or at least a header")
    config = dialect.reader_config()
    names = list(dialect.fields)
    if not dialect.has_header:
        names = [f"col_{number}" for number in range(1, len(names) + 1)]
        config["header"] = _header(names, dialect)
    elif len(set(names)) < len(names) or not all(names) or any(name != name.strip() for name in names):
        # Equal and empty names cannot be read by name: those that the columns get are given by place.
        names = column_names_of(names)
        config |= {"header": _header(names, dialect), "skipHeader": True}
    sample = read_sample(file, kind.file_format, config, names)
    guesses = (*kind.guesses, *dialect.guesses)
    originals = dict(zip(names, dialect.fields, strict=True)) if dialect.has_header else {}
    return _sniffed(kind.file_format, config, sample, guesses, wishes, lessons, dialect.delimiter, originals)


def _header(names: list[str], dialect: Dialect) -> str:
    text = io.StringIO()
    csv.writer(text, delimiter=dialect.delimiter, lineterminator="").writerow(names)
    return text.getvalue()


def _sniffed(
    file_format: FileFormat,
    config: Mapping[str, Any],
    sample: Sample,
    guesses: Sequence[Guess],
    wishes: Wishes,
    lessons: Lessons,
    delimiter: str | None,
    originals: Mapping[str, str] | None = None,
) -> Sniffed:
    kept_whole = {name for name, kind in wishes.types.items() if kind.strip().upper() in ("JSON", "STRING", "MAP")}
    whole = {
        field for field in sample.table.schema.names if field in kept_whole or column_names_of([field])[0] in kept_whole
    }
    field_delimiter = delimiter_of(sample.table)
    fields = flat_fields(
        sample.table,
        is_declared=file_format in _DECLARING,
        has_types=file_format is FileFormat.JSON,
        whole=whole | set(lessons.whole),
        delimiter=field_delimiter,
    )
    names = column_names_of([one.source for one in fields])
    # A type may be wished by the field's own name, too.
    own_names = {(originals or {}).get(one.source, one.source): name for one, name in zip(fields, names, strict=True)}
    types = {name if name in names else own_names.get(name, name): kind for name, kind in wishes.types.items()}
    wishes = replace(wishes, types=types)
    late = [lessons.late.get(name, ()) for name in names]
    texts = [text_values(one, wishes, values) for one, values in zip(fields, late, strict=True)]
    wished = Marks(wishes.decimal_comma, ("ymd", wishes.date_order) if wishes.date_order else ORDERS)
    marks = file_marks([found.texts for found in texts if found is not None], delimiter=delimiter, wished=wished)
    unknown = sorted(set(wishes.types) - set(names))
    if unknown:
        raise UserError(
            f"--type names '{unknown[0]}', which is no column: expected one of {', '.join(names[:30])}"
            f"{' …' if len(names) > 30 else ''}"
        )
    columns = tuple(
        replace(
            guess,
            has_nulls=one.values.null_count > 0 or bool(guess.null_texts),
            why=_with_record(one, guess.why, field_delimiter),
        )
        for one, guess in zip(
            fields,
            (
                column_guess(one, name, found, marks, wishes, values, lessons.as_text.get(name))
                for one, name, found, values in zip(fields, names, texts, late, strict=True)
            ),
            strict=True,
        )
    )
    changed = {
        column.name: (originals or {}).get(column.source, column.source)
        for column in columns
        if column.name != (originals or {}).get(column.source, column.source)
    }
    return Sniffed(
        file_format,
        config,
        columns,
        tuple(guesses),
        sample.table.num_rows,
        sample.is_whole,
        sample.num_rejected,
        sample.cause,
        changed,
        field_delimiter,
    )


def _with_record(field: Field, why: str, delimiter: str) -> str:
    if not field.is_nested:
        return why
    record = field.source.split(delimiter)[0]
    return "; ".join(filter(None, (why, f"of record '{record}', whole by --type {column_names_of([record])[0]}=JSON")))


def _refuse_csv_wishes(wishes: Wishes, file_format: FileFormat) -> None:
    given = {
        "--delimiter": wishes.delimiter,
        "--quote": wishes.quote,
        "--escape": wishes.escape,
        "--comment": wishes.comment,
        "--encoding": wishes.encoding,
    }
    named = [flag for flag, value in given.items() if value is not None]
    if wishes.skip_rows is not None:
        named.append("--skip-rows")
    if wishes.header is not None:
        named.append("--header" if wishes.header else "--no-header")
    if named:
        raise UserError(
            f"{named[0]} is for CSV and TSV, found a file of format {file_format}; --format csv reads it so"
        )
