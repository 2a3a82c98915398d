"""What a build of segments made: for people as tables, for programs as JSON. Every row is accounted for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.filesize import decimal
from rich.markup import escape
from rich.table import Table

from pinotpy.ingest.batch import BatchReport, BuiltSegment

SEGMENTS_SHOWN_MAX = 20
REJECTS_SHOWN_MAX = 10
REJECTS_LISTED_MAX = 100


def print_report(report: BatchReport, took_s: float, console: Console | None = None) -> None:
    """Segments with their sizes, rejected rows with cause, and one line that sums all up."""
    console = console or Console(highlight=False)
    console.print(_segments(report.segments[:SEGMENTS_SHOWN_MAX]))
    if len(report.segments) > SEGMENTS_SHOWN_MAX:
        console.print(f"… and {len(report.segments) - SEGMENTS_SHOWN_MAX:,} more segments; --json lists all")
    for file in report.empty_files:
        console.print(f"[yellow]no row to index[/yellow] in {escape(str(file))}")
    _print_rejects(report, console)
    filtered = f", {report.num_rows_filtered:,} left out by the filter" if report.num_rows_filtered else ""
    console.print(
        f"{report.num_rows_read:,} rows read, {report.num_rows_indexed:,} indexed, {report.num_rows_rejected:,} rejected{filtered}; "
        f"{_count(len(report.segments), 'segment')}, {decimal(sum(size_bytes(segment) for segment in report.segments))}, {took_s:.1f} s"
    )


def report_document(report: BatchReport, took_s: float) -> dict[str, Any]:
    """The report as JSON: counts, segments with paths and sizes in bytes, rejected rows (the first of each file), seconds."""
    return {
        "numRowsRead": report.num_rows_read,
        "numRowsIndexed": report.num_rows_indexed,
        "numRowsRejected": report.num_rows_rejected,
        "numRowsFiltered": report.num_rows_filtered,
        "segments": [
            {
                "segmentName": segment.name,
                "numDocs": segment.num_docs,
                "sizeBytes": size_bytes(segment),
                "archiveSizeBytes": segment.archive.stat().st_size if segment.archive is not None else None,
                "directory": str(segment.directory),
                "archive": str(segment.archive) if segment.archive is not None else None,
                "inputFile": segment.ledger.file,
            }
            for segment in report.segments
        ],
        "emptyFiles": [str(file) for file in report.empty_files],
        "rejects": [
            {"file": reject.file, "row": reject.row, "column": reject.column, "cause": reject.cause}
            for ledger in report.ledgers
            for reject in ledger.rejects[:REJECTS_LISTED_MAX]
        ],
        "seconds": round(took_s, 3),
    }


def size_bytes(segment: BuiltSegment) -> int:
    """Bytes of the segment's files, not of its archive."""
    return sum(file.stat().st_size for file in segment.directory.rglob("*") if file.is_file())


def _segments(segments: tuple[BuiltSegment, ...]) -> Table:
    table = Table("segment", show_edge=False, pad_edge=False, header_style="bold")
    for name in ("rows", "size", "archive"):
        table.add_column(name, justify="right")
    table.add_column("from")
    for segment in segments:
        archive = decimal(segment.archive.stat().st_size) if segment.archive is not None else ""
        table.add_row(escape(segment.name), f"{segment.num_docs:,}", decimal(size_bytes(segment)), archive, escape(Path(segment.ledger.file).name))
    return table


def _print_rejects(report: BatchReport, console: Console) -> None:
    for ledger in report.ledgers:
        if not ledger.num_rows_rejected:
            continue
        console.print(f"[yellow]{_count(ledger.num_rows_rejected, 'row')} rejected[/yellow] of {escape(ledger.file)}:")
        for reject in ledger.rejects[:REJECTS_SHOWN_MAX]:
            console.print(f"  {escape(str(reject))}", soft_wrap=True)
        more = ledger.num_rows_rejected - min(len(ledger.rejects), REJECTS_SHOWN_MAX)
        if more:
            console.print(f"  … and {more:,} more")


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"
