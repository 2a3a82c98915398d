"""A job's errors for people: equal ones once, with their number and the first places."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from pinotpy.ingest.jobs.report import FileReport, JobReport, RejectSample, UnitReport
from pinotpy.ingest.ledger import cause_text

_PLACES_SHOWN = 3
_QUOTED = re.compile(r"'(.*?)' is ", re.DOTALL)


def rejected_rows(files: Iterable[FileReport]) -> list[str]:
    """`7 rows (3, 5, 9, …) of a.csv: column 'qty': 'many' is no number; …`: a line for every cause of all files, the
    most frequent first, with what would map it. Rows are those of the first file that has it.
    """
    counts: Counter[str] = Counter()
    first: dict[str, tuple[FileReport, list[RejectSample]]] = {}
    for file in files:
        counts.update(file.rejects_by_cause)
        for sample in file.reject_samples:
            place = first.setdefault(cause_text(sample.column, sample.cause), (file, []))
            if place[0] is file:
                place[1].append(sample)
    # Reports of an older worker have samples alone.
    for told, (_, samples) in first.items():
        counts.setdefault(told, len(samples))
    return [_of_rows(told, count, first.get(told)) for told, count in counts.most_common()]


def remedy(column: str, cause: str) -> str:
    """What would map a value that was rejected, or leave its row out: options and keys of the job or the documents."""
    leaves_out = "--reject-share (pinotpy.rejectShareMax) leaves such rows out"
    value = _QUOTED.match(cause)
    if column and value is not None:
        null = f'nullStringValue "{value[1]}" of the reader\'s settings reads it as null, ' if value[1] else ""
        return f"{null}dataType STRING of the column takes it as text, {leaves_out}"
    if "long, allowed are" in cause:
        return f"maxLength or maxLengthExceedStrategy of the column takes it, {leaves_out}"
    if "outside of 1971 to 2071" in cause:
        return f"check the column's format; without ingestionConfig.rowTimeValueCheck it is taken, {leaves_out}"
    if "fields, expected" in cause:
        return f"check delimiter and quoteCharacter of the reader's settings; {leaves_out}"
    if cause.startswith("not UTF-8"):
        return "name the encoding in the reader's settings, such as windows-1252"
    return leaves_out


def failed_units(report: JobReport) -> list[tuple[str, str]]:
    """(input files, cause) of what was not built; units that failed for one cause stand together. The first one's cause
    is shown as it is.
    """
    alike: dict[str, list[UnitReport]] = {}
    for unit in report.units:
        if unit.error is not None:
            alike.setdefault(_without_names(unit), []).append(unit)
    return [(_names(units), str(units[0].error)) for units in alike.values()]


def _of_rows(told: str, count: int, first: tuple[FileReport, list[RejectSample]] | None) -> str:
    if first is None:
        return f"{count:,} {'row' if count == 1 else 'rows'}: {told}"
    file, samples = first
    shown = ", ".join(str(sample.row) for sample in samples[:_PLACES_SHOWN])
    more = ", …" if count > min(len(samples), _PLACES_SHOWN) else ""
    rows = f"row {shown}" if count == 1 else f"{count:,} rows ({shown}{more})"
    return f"{rows} of {file.uri.rpartition('/')[2]}: {told}; {remedy(samples[0].column, samples[0].cause)}"


def _without_names(unit: UnitReport) -> str:
    """The error, alike for all files that it may be of."""
    error = str(unit.error)
    for file in unit.files:
        for name in (file.uri, file.uri.rpartition("/")[2]):
            error = error.replace(name, "…")
    return error


def _names(units: Sequence[UnitReport]) -> str:
    names = [", ".join(file.uri.rpartition("/")[2] for file in unit.files) or f"unit {unit.unit_id}" for unit in units]
    more = f" and {len(names) - _PLACES_SHOWN:,} more" if len(names) > _PLACES_SHOWN else ""
    return ", ".join(names[:_PLACES_SHOWN]) + more
