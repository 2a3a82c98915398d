"""A job's errors for people: equal ones once, with their number and the first places."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pinotpy.ingest.jobs.report import JobReport, RejectSample, UnitReport

_PLACES_SHOWN = 3


def rejected_rows(samples: Iterable[RejectSample]) -> list[str]:
    """`column 'qty': 'many' is no number: 7 rows, 3, 5, 9, …`: a line for every cause of the rows that a report keeps
    of a file.
    """
    rows: dict[tuple[str, str], list[int]] = {}
    for sample in samples:
        rows.setdefault((sample.column, sample.cause), []).append(sample.row)
    return [_of_rows(column, cause, numbers) for (column, cause), numbers in rows.items()]


def failed_units(report: JobReport) -> list[tuple[str, str]]:
    """(input files, cause) of what was not built; units that failed for one cause stand together. The first one's cause
    is shown as it is.
    """
    alike: dict[str, list[UnitReport]] = {}
    for unit in report.units:
        if unit.error is not None:
            alike.setdefault(_without_names(unit), []).append(unit)
    return [(_names(units), str(units[0].error)) for units in alike.values()]


def _of_rows(column: str, cause: str, rows: Sequence[int]) -> str:
    what = f"column '{column}': {cause}" if column else cause
    if len(rows) == 1:
        return f"row {rows[0]} {what}"
    more = ", …" if len(rows) > _PLACES_SHOWN else ""
    return f"{len(rows):,} rows ({', '.join(map(str, rows[:_PLACES_SHOWN]))}{more}) {what}"


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
