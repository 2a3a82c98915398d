"""All rows of a file → segments, once, as it was guessed to be read; of a large file in parts beside each other."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.ingest.jobs.context import JobContext
from pinotpy.ingest.jobs.input_files import InputEntry
from pinotpy.ingest.jobs.report import JobReport
from pinotpy.ingest.jobs.run import JobProgress, build_segments, why_it_ends
from pinotpy.ingest.jobs.spec import IngestionJobSpec
from pinotpy.ingest.readers.catalog import reader_for
from pinotpy.ingest.readers.file_part import FilePart
from pinotpy.ingest.readers.spec import InputFile
from pinotpy.ingest.sniffing.lessons import HEADER_AGAIN, Rejected, read_rejects
from pinotpy.ingest.sniffing.sniff import Sniffed

# A segment holds all rows of its file in memory while it is built: larger files become several.
_ONE_SEGMENT_BYTES: Final = 512 << 20
_ROWS_PER_SEGMENT: Final = 5_000_000

Progress = Callable[[JobProgress], None]


@dataclass(frozen=True)
class Build:
    """One reading of all rows."""

    file: InputFile
    table: str
    sniffed: Sniffed
    schema: Schema
    table_config: TableConfig
    folder: Path
    postfix: str
    progress: Progress
    parts: tuple[FilePart, ...] = ()

    def first_run(self) -> tuple[Build, JobReport, list[Rejected]]:
        """(this, or the same without parts where these may be cut within a row; what it came to; the rows that do not
        fit).
        """
        report = self.run(0.0)
        if self.parts and _may_be_cut_wrong(report):
            return replace(self, parts=()).first_run()
        rejects = self.rejects()
        # Rows that are no rows, such as of too many fields.
        if self.parts and any(not one.column and one.cause != HEADER_AGAIN for one in rejects):
            return replace(self, parts=()).first_run()
        return self, report, rejects

    def run(self, reject_share: float) -> JobReport:
        """Build all rows; of parts all are tried, so that the same rows fail whichever process is the fastest."""
        shutil.rmtree(self.folder, ignore_errors=True)
        path = self.file.path.resolve()
        status = path.stat()
        additions: dict[str, Any] = {
            "rejectShareMax": reject_share,
            "rejectFileURI": str(self.folder / "rejects"),
            "missingColumns": "DEFAULT",
            "workingDir": str(self.folder.parent),
        }
        if self.parts:
            additions["onFileError"] = "SKIP"
        elif status.st_size > _ONE_SEGMENT_BYTES:
            additions["rowsPerSegment"] = _ROWS_PER_SEGMENT
        spec = IngestionJobSpec.from_json(
            {
                "jobType": "SegmentCreation",
                "inputDirURI": str(path),
                "outputDirURI": str(self.folder / "segments"),
                "recordReaderSpec": {"configs": dict(self.sniffed.reader_config)},
                "tableSpec": {"tableName": self.table, "schemaURI": str(self.folder / "schema.json")},
                "segmentNameGeneratorSpec": {"type": "simple", "configs": {"segment.name.postfix": self.postfix}},
                "pinotpy": additions,
            }
        )
        context = JobContext(spec, self.schema, self.table_config)
        context.check()
        entry = InputEntry(
            str(path), path.name, str(self.sniffed.file_format), status.st_size, status.st_mtime_ns // 1_000_000
        )
        if not self.parts:
            return build_segments(context, [entry], progress=self.progress)
        entries = [
            replace(entry, below=f"{entry.below}.{part.number:05}", size_bytes=self._size_of(part), part=part)
            for part in self.parts
        ]
        report = build_segments(context, entries, progress=self.progress)
        self.file.check_unchanged()
        error = why_it_ends(report.units, len(entries), skips=False) or report.error
        return replace(report, error=error)

    def _size_of(self, part: FilePart) -> int:
        return part.size_bytes if not part.has_groups else self.file.size_bytes // len(self.parts)

    def rejects(self) -> list[Rejected]:
        """The rejected rows of the last run, numbered in the file."""
        folder = self.folder / "rejects"
        if not self.parts:
            return read_rejects(folder, self.sniffed)
        paths = [list(folder.rglob(f"*.{part.number:05}.rejects.jsonl")) for part in self.parts]
        of_parts = [[one for path in found for one in read_rejects(path, self.sniffed)] for found in paths]
        numbered: list[Rejected] = []
        rows = 0
        for number, of_part in enumerate(of_parts):
            numbered += [replace(one, row=one.row + rows) for one in of_part]
            if any(of_parts[number + 1 :]):
                rows += self._num_rows(self.parts[number])
        return numbered

    def _num_rows(self, part: FilePart) -> int:
        """Rows of a part, bad ones too; a part that failed has not told them."""
        last = 0

        def reject(row: int, column: str, cause: str, text: str = "", *, allowed: bool = False) -> None:
            nonlocal last
            last = max(last, row)

        read = reader_for(self.sniffed.file_format)
        for rows in read(InputFile(self.file.path, part=part), [], self.sniffed.reader_config, reject, _no_progress):
            last = max(last, int(rows.row_numbers[-1]) if len(rows.row_numbers) else 0)
        return last


def _no_progress(done: int, total: int) -> None:
    pass


def _may_be_cut_wrong(report: JobReport) -> bool:
    """Whether a failure may come of a cut within a row, and not of values or times."""
    failures = [unit.error for unit in report.units if unit.error is not None]
    return any("rows are bad" not in error and "times of column" not in error for error in failures)
