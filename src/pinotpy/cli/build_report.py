"""The report of a job: tables for people, JSON for programs. Every row is accounted for."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.filesize import decimal
from rich.markup import escape
from rich.table import Table

from pinotpy.fs.uris import LOCAL_SCHEMES, file_name, local_path, scheme_of
from pinotpy.ingest.jobs.fault_lines import failed_units, rejected_rows
from pinotpy.ingest.jobs.report import FileReport, JobReport, SegmentReport

SEGMENTS_SHOWN_MAX = 20
REJECTS_SHOWN_MAX = 10
ERRORS_SHOWN_MAX = 20


def print_report(report: JobReport, console: Console | None = None) -> None:
    """Segments with their sizes, rejected rows with cause, files that could not be read, and one line that sums all
    up.
    """
    console = console or Console(highlight=False)
    if report.segments:
        console.print(_segments(report.segments[:SEGMENTS_SHOWN_MAX]))
    if len(report.segments) > SEGMENTS_SHOWN_MAX:
        console.print(f"… and {len(report.segments) - SEGMENTS_SHOWN_MAX:,} more segments; --json lists all")
    for file in empty_files(report):
        console.print(f"[yellow]no row to index[/yellow] in {escape(file.uri)}")
    _print_rejects(report, console)
    _print_errors(report, console)
    for warning in report.warnings:
        console.print(f"[yellow]warning[/yellow]: {escape(warning)}", soft_wrap=True)
    if report.others_told is not None:
        console.print(f"[yellow]note[/yellow]: {escape(report.others_told)}", soft_wrap=True)
    if not report.units and report.push is not None:
        console.print(f"{report.push_told}, {report.took_ms / 1000:.1f} s")
        return
    filtered = (
        f", {report.total('num_rows_filtered'):,} left out by the filter" if report.total("num_rows_filtered") else ""
    )
    failed = f", {_count(report.num_failures, 'failure')}" if report.num_failures else ""
    pushed = f"; {report.push_told}" if report.push is not None else ""
    columns = f"; {escape(report.columns_told)}" if report.columns_told is not None else ""
    size = decimal(sum(segment.size_bytes for segment in report.segments))
    console.print(
        f"{_count(report.total('num_rows_read'), 'row')} read, {report.total('num_rows_indexed'):,} indexed, "
        f"{report.total('num_rows_rejected'):,} rejected{filtered}; "
        f"{_count(len(report.segments), 'segment')}, {size}{failed}, {report.took_ms / 1000:.1f} s{pushed}{columns}",
        soft_wrap=True,
    )


def report_document(report: JobReport) -> dict[str, Any]:
    """The report as JSON: the job's own form, and for local output the paths of each segment's archive and folder."""
    document = report.to_json_dict()
    for segment, plain in zip(report.segments, document["segments"], strict=True):
        plain["archive"] = str(local_path(segment.uri)) if scheme_of(segment.uri) in LOCAL_SCHEMES else None
        plain["inputFile"] = segment.input_uris[0] if len(segment.input_uris) == 1 else None
    document["emptyFiles"] = [file.uri for file in empty_files(report)]
    document["rejects"] = [
        {"file": file.uri, "row": reject.row, "column": reject.column, "cause": reject.cause}
        for file in report.files
        for reject in file.reject_samples
    ]
    document["seconds"] = round(report.took_ms / 1000, 3)
    return document


def empty_files(report: JobReport) -> list[FileReport]:
    """Files that could be read and have no row to index."""
    return [file for file in report.files if file.error is None and file.num_rows_indexed == 0]


def _segments(segments: tuple[SegmentReport, ...]) -> Table:
    table = Table("segment", show_edge=False, pad_edge=False, header_style="bold")
    for name in ("rows", "size", "archive"):
        table.add_column(name, justify="right")
    table.add_column("from")
    for segment in segments:
        source = (
            file_name(segment.input_uris[0]) if len(segment.input_uris) == 1 else f"{len(segment.input_uris)} files"
        )
        table.add_row(
            escape(segment.segment_name),
            f"{segment.num_docs:,}",
            decimal(segment.size_bytes),
            decimal(segment.archive_size_bytes),
            escape(source),
        )
    return table


def _print_rejects(report: JobReport, console: Console) -> None:
    rejecting = [(unit, file) for unit in report.units for file in unit.files if file.num_rows_rejected]
    for unit, file in rejecting:
        where = f" (all in {unit.reject_file_uri})" if unit.reject_file_uri else ""
        told = _count(file.num_rows_rejected, "row")
        console.print(f"[yellow]{told} rejected[/yellow] of {escape(file.uri)}{escape(where)}")
    # Once for all files: a value that nobody mapped is most often in many of them.
    causes = rejected_rows(file for _, file in rejecting)
    for cause in causes[:REJECTS_SHOWN_MAX]:
        console.print(f"  {escape(cause)}", soft_wrap=True)
    if len(causes) > REJECTS_SHOWN_MAX:
        console.print(f"  … and {len(causes) - REJECTS_SHOWN_MAX:,} more causes; --json lists all")


def _print_errors(report: JobReport, console: Console) -> None:
    failed = failed_units(report)
    for names, cause in failed[:ERRORS_SHOWN_MAX]:
        console.print(f"[red]not built[/red] of {escape(names)}: {escape(cause)}", soft_wrap=True)
    if len(failed) > ERRORS_SHOWN_MAX:
        console.print(f"… and {len(failed) - ERRORS_SHOWN_MAX:,} more; --json lists all")


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"
