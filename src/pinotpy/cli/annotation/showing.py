"""What `annotate-segments` prints for people: counts, the columns of the scheme, what breaks it, what failed."""

from __future__ import annotations

from collections.abc import Sequence

from pinotpy.cli.annotation.report import AnnotationReport, Outcome, SegmentFound
from pinotpy.cli.showing import bytes_text, counted

LINES_MAX = 20


def report_lines(report: AnnotationReport) -> list[str]:
    """The report in lines; of segments the first ones, as --json lists all."""
    return [
        *_counts(report),
        *(_column(report, kind, column) for kind, columns in report.schemes.items() for column in columns),
        *(_sorted(report, kind, column) for kind, column in report.sorted_columns.items()),
        *_listed("without partitions", _gaps(report)),
        *_listed("left as it is", [f"{one.name}: {one.cause}" for one in _of(report, Outcome.LEFT)]),
        *_listed(
            "now in the deep store",
            [f"{one.name}: no longer read from '{one.moved_from}'" for one in report.segments if one.moved_from],
        ),
        *_listed("failed", [f"{one.name}: {one.cause}" for one in report.failed]),
    ]


def _counts(report: AnnotationReport) -> list[str]:
    would = "would be " if report.is_dry_run else ""
    hidden = f", {counted(report.num_hidden, 'replaced one')} left out" if report.num_hidden else ""
    refreshed = _of(report, Outcome.REFRESHED)
    num_with = sum(bool(one.partitions) for one in refreshed)
    parts = [
        (report.count(Outcome.COMPLETE), "had everything"),
        (report.count(Outcome.COMPLETED), f"records {would}completed"),
        (num_with, f"{would}pushed with partitions"),
        (len(refreshed) - num_with, f"{would}pushed without, as told below"),
        (report.count(Outcome.LEFT), "left"),
        (report.count(Outcome.FAILED), "failed"),
    ]
    told = ", ".join(f"{number:,} {words}" for number, words in parts if number)
    pushed = sum(one.pushed_bytes for one in report.segments)
    sent = f" ({bytes_text(pushed)})" if pushed else ""
    what = f"{counted(len(report.segments), 'segment')} of table '{report.table}'{hidden}"
    had = sum(one.had_ranges for one in report.segments)
    return [f"{what}: {told or 'nothing to do'}{sent}", f"  ranges of columns: {had:,} had them before"]


def _column(report: AnnotationReport, kind: str, column: str) -> str:
    counts = report.of_column(kind, column)
    written = "would be written" if report.is_dry_run else "written"
    parts = [
        f"{counts.had:,} had them before",
        f"{counts.written:,} {written}",
        *([f"{counts.without:,} cannot have them"] if counts.without else []),
    ]
    spread = f"; {counts.of_one:,} of one partition, {counts.of_several:,} of several"
    return f"  partitions of '{column}' ({counts.scheme}): {', '.join(parts)}{spread}"


def _sorted(report: AnnotationReport, kind: str, column: str) -> str:
    counts = report.sorted_counts(kind)
    unknown = f", {counts['numNotLookedAt']:,} not looked at" if counts["numNotLookedAt"] else ""
    return f"  sorted by '{column}': {counts['numSorted']:,}, not sorted {counts['numNotSorted']:,}{unknown}"


def _of(report: AnnotationReport, outcome: Outcome) -> Sequence[SegmentFound]:
    return [one for one in report.segments if one.outcome is outcome]


def _gaps(report: AnnotationReport) -> list[str]:
    return [f"{one.name}: column '{column}': {why}" for one in report.segments for column, why in one.gaps.items()]


def _listed(what: str, lines: Sequence[str]) -> list[str]:
    more = [f"… and {len(lines) - LINES_MAX:,} more; --json lists all"] if len(lines) > LINES_MAX else []
    return [*(f"{what}: {line}" for line in lines[:LINES_MAX]), *more]
