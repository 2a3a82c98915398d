"""Files → segments, as they were guessed to be read; every row is a check of the guesses.

The guesses come from the beginning of a file. Building reads it all, with no bad row allowed: where a value does not
fit, the guess is made again with it and the file is built once more, before anything is sent anywhere. What is left are
rows that no guess can take (too few fields), and those that do not fit what the caller asked for.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.errors import DataError, UserError
from pinotpy.ingest.jobs.report import JobReport
from pinotpy.ingest.readers.spec import InputFile
from pinotpy.ingest.sniffing.documents import checked_documents, schema_document, table_document, time_column_of
from pinotpy.ingest.sniffing.guess import Lessons, Wishes
from pinotpy.ingest.sniffing.lessons import HEADER_AGAIN, Rejected, cause_lines, learned, share_for, wider_type
from pinotpy.ingest.sniffing.reading_all import Build, Progress
from pinotpy.ingest.sniffing.sniff import NO_LESSONS, Sniffed, sniff_file
from pinotpy.ingest.sniffing.splitting import parts_of
from pinotpy.ingest.sniffing.tables import check_fits, for_existing, joined_columns, types_of

_READINGS_MAX: Final = 12
_HASH_BYTES: Final = 1 << 22

Documents = Callable[[Sniffed], tuple[Schema, TableConfig]]
"""(schema and table config that a file is built for); raises UserError where it does not fit."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How a file was read in the end, and what became of its rows.

    Attributes:
        lines: what reading all rows changed, in words. rejects: rows that were left out, as far as they are kept.
        sniffing_s: seconds of looking into the file's beginning, each time that was done.
        other_fields: of the file, that fill no column. report: None: the file has no row.
    """

    file: InputFile
    sniffed: Sniffed
    schema: Schema
    table_config: TableConfig
    report: JobReport | None
    lines: tuple[str, ...] = ()
    rejects: tuple[Rejected, ...] = ()
    other_fields: tuple[str, ...] = ()
    sniffing_s: float = 0.0

    @property
    def took_ms(self) -> dict[str, int]:
        """Milliseconds of `sniff`, `read` (with making values of the texts) and `build`; of parts that are read beside
        each other, those of the slowest.
        """
        took = {"sniff": round(self.sniffing_s * 1000), "read": 0, "build": 0}
        if self.report is not None and self.report.units:
            slowest = max(self.report.units, key=lambda unit: unit.took_ms)
            took["build"] = sum(segment.build_ms for segment in slowest.segments)
            took["read"] = slowest.took_ms - took["build"]
        return took

    @property
    def table_document(self) -> dict[str, Any]:
        """The table config without what is said by leaving it out."""
        segments = self.table_config.segments
        return table_document(
            self.table_config.raw_table_name,
            self.sniffed,
            segments.time_column_name,
            replication=segments.replication or 1,
        )

    @property
    def archives(self) -> list[Path]:
        return [Path(segment.uri) for segment in self.report.segments] if self.report is not None else []


def new_table(table: str, wishes: Wishes, lessons: Lessons, *, replication: int = 1) -> Documents:
    """Documents of a table that there is not yet."""

    def documents(sniffed: Sniffed) -> tuple[Schema, TableConfig]:
        usable = [column for column in sniffed.columns if column.name not in lessons.without_time]
        time_column = time_column_of(usable, wishes.time_column)
        return checked_documents(
            schema_document(table, sniffed.columns),
            table_document(table, sniffed, time_column, replication=replication),
        )

    return documents


def build_file(
    file: InputFile,
    table: str,
    wishes: Wishes,
    documents_of: Callable[[Lessons], Documents],
    work_dir: Path,
    *,
    reject_share: float = 0.0,
    progress: Progress = lambda progress: None,
    postfix: str | None = None,
    lessons: Lessons = NO_LESSONS,
    is_new: bool = True,
) -> Reading:
    """Sniff a file, build it, and guess again with what did not fit until all rows are taken.

    Args:
        work_dir: empty; segments are left in `segments` of it. reject_share: of rows that may be left out, 0 to 1.
        is_new: whether the table is made of this file, and not there already.
        postfix: of segment names; default: of the file's content, so that equal content has equal names.

    Raises:
        UserError, DataError: the file cannot be read, does not fit, or has more bad rows than allowed, with the causes.
    """
    guessed: Counter[str] = Counter()
    postfix = postfix or content_name(file.path)
    lines: list[str] = []
    may_split, sniffing_s = True, 0.0
    for number in range(_READINGS_MAX):
        began = time.perf_counter()
        sniffed = sniff_file(file, wishes, lessons)
        sniffing_s += time.perf_counter() - began
        check_time_column(sniffed, wishes)
        if not sniffed.columns:
            raise UserError(f"'{file.name}' has no record: expected one at least, whose fields are the columns")
        schema, config = documents_of(lessons)(sniffed)
        if sniffed.num_rows == 0 and sniffed.is_whole and not sniffed.num_rejected:
            return Reading(file, sniffed, schema, config, None, tuple(lines))
        folder = work_dir / f"reading-{number}"
        parts = parts_of(file, sniffed.file_format, sniffed.reader_config) if may_split else []
        build = Build(file, table, sniffed, schema, config, folder, postfix, progress, tuple(parts))
        build, report, rejects = build.first_run()
        may_split = may_split and bool(build.parts)
        again = learned(lessons, rejects, sniffed, guessed)
        again = _with_fields_and_times(again, report, sniffed, wishes)
        again = _with_whole_fields(again, report, sniffed) if is_new else again
        if again == lessons:
            if report.error is not None and rejects and reject_share > 0:
                # A share of the file, not of each part.
                report = replace(build, parts=()).run(reject_share)
            if report.error is not None:
                raise DataError(_failure(file, report, rejects, is_new=is_new))
            return Reading(
                file, sniffed, schema, config, report, tuple(lines), tuple(rejects), _other_fields(report), sniffing_s
            )
        guessed.update({one.column for one in rejects})
        lines += _told(lessons, again, sniffed)
        lines += [
            f"field '{name}': in {count:,} row{'s' * (count != 1)} it holds something else than a record, or two "
            "fields of one name: it is not taken apart, every row has its value whole, as JSON"
            for name, count in report.by_column("unmapped_by_field").items()
            if name in again.whole
        ]
        lessons = again
        shutil.rmtree(folder, ignore_errors=True)
    raise DataError(f"'{file.name}' was read {_READINGS_MAX} times, and its rows still taught something new: name the "
                    "types of its columns by --type")  # fmt: skip


def content_name(path: Path) -> str:
    """Ten hex digits of a file's bytes: equal ones for equal content."""
    digest = hashlib.blake2b(digest_size=5)
    with path.open("rb") as stream:
        while piece := stream.read(_HASH_BYTES):
            digest.update(piece)
    return digest.hexdigest()


def again_name(path: Path) -> str:
    """A postfix that no earlier load of the file has."""
    return f"{content_name(path)}_{time.time_ns() // 1_000_000}"


def _with_fields_and_times(lessons: Lessons, report: JobReport, sniffed: Sniffed, wishes: Wishes) -> Lessons:
    fresh = [name for name in _other_fields(report) if name not in lessons.more_fields]
    known = {column.source.split(sniffed.field_delimiter)[0] for column in sniffed.columns} | {
        column.source for column in sniffed.columns
    }
    fresh = [name for name in fresh if name not in known]
    if fresh and str(sniffed.file_format) == "json":
        lessons = replace(lessons, more_fields=(*lessons.more_fields, *fresh))
    error = report.error or ""
    if "times of column '" in error and wishes.time_column is None:
        name = error.partition("times of column '")[2].partition("'")[0]
        if name not in lessons.without_time:
            lessons = replace(lessons, without_time=(*lessons.without_time, name))
    return lessons


def _with_whole_fields(lessons: Lessons, report: JobReport, sniffed: Sniffed) -> Lessons:
    """With the fields that some rows have no record in, but for those of which the caller named a part's type; and with
    the fields of later records that are called as a part of another one.
    """
    wished = [column.source for column in sniffed.columns if column.is_wished]
    unmapped = report.by_column("unmapped_by_field")
    parts = {column.source for column in sniffed.columns}
    more = [name for name in unmapped if name in parts and name not in lessons.more_fields]
    fresh = [
        name
        for name in unmapped
        if name not in parts
        and name not in lessons.whole
        and not any(source.startswith(f"{name}{sniffed.field_delimiter}") for source in wished)
    ]
    return replace(lessons, whole=(*lessons.whole, *fresh), more_fields=(*lessons.more_fields, *more))


def _other_fields(report: JobReport) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for file in report.files for name in file.other_fields))


def _told(before: Lessons, after: Lessons, sniffed: Sniffed) -> list[str]:
    lines = []
    types = {column.name: column.type_text for column in sniffed.columns}
    for name, values in after.late.items():
        fresh = values[len(before.late.get(name, ())) :]
        if fresh:
            text, kept = fresh[0].text[:40], types[name]
            # Nobody means no value by a number.
            as_null = "" if wider_type(fresh[0].text) else f"--null-text {text!r} reads it as no value, "
            lines.append(
                f"column '{name}': row {fresh[0].row:,} has {text!r}, which is no {kept}; guessed again ({as_null}"
                f"--type {name}={kept} keeps the type and rejects such rows)"
            )
    if after.encoding != before.encoding:
        lines.append(f"the text is not UTF-8 further down: read as {after.encoding} (--encoding)")
    if after.trims and not before.trims:
        lines.append("blanks stand before quotes further down: blanks around fields are left out (--quote none)")
    for name in after.more_fields[len(before.more_fields) :]:
        lines.append(f"field '{name}' is only in later records: a column of text (--type {name}=LONG)")
    for name in after.without_time[len(before.without_time) :]:
        lines.append(f"column '{name}' has times outside of 1971 to 2071: it is not the time column (--time-column)")
    return lines


def _failure(file: InputFile, report: JobReport, rejects: Sequence[Rejected], *, is_new: bool) -> str:
    bad = [one for one in rejects if one.cause != HEADER_AGAIN]
    if not bad:
        return str(report.error)
    # A unit that fails reports no counts but in its message.
    counted = re.search(r"(\d+) of (\d+) rows are bad", report.error or "")
    share = share_for(int(counted[1]), int(counted[2])) if counted else share_for(0, 0)
    shown = "\n".join(f"  {line}" for line in cause_lines(bad, reject_share=share, is_new=is_new))
    return f"'{file.name}': {len(bad):,} row{'s' * (len(bad) != 1)} cannot be taken, nothing was loaded:\n{shown}"


def check_time_column(sniffed: Sniffed, wishes: Wishes) -> None:
    """Raise UserError where --time-column names what is no column of times."""
    name = wishes.time_column
    found = next((column for column in sniffed.columns if column.name == name), None)
    if not name:
        return
    if found is None:
        raise UserError(f"--time-column is '{name}', expected one of {', '.join(c.name for c in sniffed.columns[:30])}")
    if str(found.data_type) != "TIMESTAMP":
        raise UserError(f"--time-column is '{name}', a column of {found.type_text}: expected one of TIMESTAMP")


def build_files(
    files: Sequence[InputFile],
    table: str,
    wishes: Wishes,
    work_dir: Path,
    *,
    existing: tuple[Schema, TableConfig] | None = None,
    allows_missing: bool = False,
    reject_share: float = 0.0,
    replication: int = 1,
    again: bool = False,
    progress: Progress = lambda progress: None,
) -> list[Reading]:
    """Build files for one table, new or there already (`existing`); errors as of `build_file`.

    Args:
        allows_missing: whether files may lack columns of the table. again: whether segment names are to be new ones.
    """

    def build(number: int, types: Mapping[str, str], documents_of: Callable[[Lessons], Documents]) -> Reading:
        file = files[number]
        folder = work_dir / f"file-{number}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return build_file(
            file,
            table,
            replace(wishes, types={**types, **wishes.types}),
            documents_of,
            folder,
            reject_share=reject_share,
            progress=progress,
            postfix=again_name(file.path) if again else None,
            is_new=existing is None,
        )

    if existing is not None:
        schema, config = existing
        types = []
        for file in files:
            guessed = sniff_file(file, wishes)
            may_lack = allows_missing or str(guessed.file_format) == "json"
            check_fits(file.name, guessed, schema, wishes, allows_missing=may_lack)
            names = {column.name for column in guessed.columns}
            types.append({name: kind for name, kind in types_of(schema).items() if name in names})
        return [
            build(number, types[number], lambda lessons: for_existing(schema, config)) for number in range(len(files))
        ]
    readings = [
        build(number, {}, lambda lessons: new_table(table, wishes, lessons, replication=replication))
        for number in range(len(files))
    ]
    _check_common_columns(readings)
    columns = joined_columns([reading.sniffed for reading in readings])
    wanted = {column.name: column.type_text for column in columns}
    if all({c.name: c.type_text for c in reading.sniffed.columns} == wanted for reading in readings):
        return readings
    # Every file has been read whole by now: the joined types take all of their values.
    time_column = readings[0].table_config.segments.time_column_name
    if wanted.get(time_column or "") != "TIMESTAMP":
        time_column = None

    def joined(sniffed: Sniffed) -> tuple[Schema, TableConfig]:
        config = table_document(table, sniffed, time_column, replication=replication)
        return checked_documents(schema_document(table, columns), config)

    return [
        build(number, {c.name: wanted[c.name] for c in reading.sniffed.columns}, lambda lessons: joined)
        for number, reading in enumerate(readings)
    ]


def _check_common_columns(readings: Sequence[Reading]) -> None:
    """Raise UserError where a file has no column of those before it: one table of both would have rows of nulls."""
    known: dict[str, None] = {}
    for reading in readings:
        names = [column.name for column in reading.sniffed.columns]
        if known and known.keys().isdisjoint(names):
            raise UserError(
                f"'{reading.file.name}' has none of the columns of '{readings[0].file.name}', found "
                f"{', '.join(names[:10])}, expected some of {', '.join(list(known)[:10])}: load it into a table of "
                "its own"
            )
        known |= dict.fromkeys(names)
