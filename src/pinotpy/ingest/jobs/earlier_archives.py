"""Archives of earlier runs at a job's output: those whose rows this run has rebuilt are marked, others are reported.

A corrected file has other times, a renamed one another tag: the segment gets a new name, and the old archive is still
there. If both were pushed, rows would be duplicated. Lists of input files identify such archives.
"""

from __future__ import annotations

import json
import logging
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from pinotpy.errors import NotFoundError, PinotError
from pinotpy.fs.file_systems import file_system_for
from pinotpy.fs.settings import FileSystemSettings
from pinotpy.fs.uris import LOCAL_SCHEMES, masked, scheme_of
from pinotpy.ingest.archive_listing import ArchiveListing, input_list_uri, list_archives, mark_uri
from pinotpy.ingest.jobs.context import file_system_settings
from pinotpy.ingest.jobs.input_lists import listed_uri
from pinotpy.ingest.jobs.places import lies_below, real_path
from pinotpy.ingest.jobs.report import JobReport
from pinotpy.ingest.jobs.spec import IngestionJobSpec
from pinotpy.segment.input_list import INPUT_LIST_MAX_BYTES, InputList, SegmentInput

_log = logging.getLogger(__name__)
_LOOKS_AT_ONCE: Final = 16
_NAMES_IN_MARK_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class _Inputs:
    """The files that the job has read, and where it finds its files."""

    uris: frozenset[str]
    contents: frozenset[tuple[int, str]]
    root: str | None
    settings: FileSystemSettings

    def has(self, file: SegmentInput) -> bool:
        """Whether the job has read the file; of one that is gone from its folder, whether another has its content: it
        was moved.
        """
        return file.uri in self.uris or (file.content in self.contents and self.is_gone(file))

    def is_gone(self, file: SegmentInput) -> bool:
        """Whether a file of the job's folder is not there any more. One that cannot be asked for is taken to be
        there.
        """
        if file.uri in self.uris or self.root is None:
            return False
        try:
            return lies_below(file.uri, self.root) and not file_system_for(file.uri, self.settings).exists(file.uri)
        except PinotError:
            return False

    def replace(self, files: Sequence[SegmentInput]) -> bool:
        """Whether nothing of a segment of these files is wanted beside the job's own: all of them were read again or
        are gone, and not all are gone.
        """
        return any(self.has(file) for file in files) and all(self.has(file) or self.is_gone(file) for file in files)


def with_earlier_archives(spec: IngestionJobSpec, report: JobReport) -> JobReport:
    """The report of a job that built, with the archives at its output that are not its segments.

    Those whose rows are in its segments are marked first, so that no push of the folder takes them; marks of its own
    segments go.
    """
    if report.error is not None:
        return report
    settings = file_system_settings(spec)
    try:
        there = list_archives(spec.output_dir_uri or "", settings)
    except PinotError:
        return report  # everything is built; a push of it will say what is wrong with the storage
    built = {_identity(segment.uri) for segment in report.segments}
    others = [uri for uri in there.current if _identity(uri) not in built]
    again = [uri for uri in there.replaced if _identity(uri) in built]
    inputs = _inputs_of(report, spec, settings)
    lists = _lists_of([uri for uri in others if uri in there.listed], settings)
    replaced = [uri for uri, files in lists.items() if inputs.replace(files)]
    mixed = [uri for uri, files in lists.items() if uri not in replaced and any(inputs.has(file) for file in files)]
    try:
        _mark(there, again, replaced, report, settings)
    except PinotError as error:
        return replace(
            report,
            error=f"built, but archives that it replaces cannot be marked at '{masked(report.output_dir_uri)}': "
            f"{error.message}",
        )
    gone = set(replaced)
    return replace(
        report,
        other_archive_uris=tuple(uri for uri in others if uri not in gone),
        replaced_archive_uris=tuple(sorted([*(uri for uri in there.replaced if uri not in again), *replaced])),
        num_mixed_archives=len(mixed),
    )


def _inputs_of(report: JobReport, spec: IngestionJobSpec, settings: FileSystemSettings) -> _Inputs:
    read = {
        (listed_uri(file.uri), file.size_bytes, file.checksum)
        for file in report.files
        if file.error is None and file.checksum
    }
    if not read:  # a source of Spark's own: the report is one of all files
        input_lists = _lists_of([segment.uri for segment in report.segments if segment.has_input_list], settings)
        read = {(file.uri, file.size_bytes, file.checksum) for files in input_lists.values() for file in files}
    root = listed_uri(spec.input_dir_uri) if spec.input_dir_uri is not None else None
    contents = frozenset((size_bytes, checksum) for _, size_bytes, checksum in read if checksum)
    return _Inputs(frozenset(uri for uri, *_ in read), contents, root, settings)


def _lists_of(archive_uris: Sequence[str], settings: FileSystemSettings) -> dict[str, tuple[SegmentInput, ...]]:
    """The input files of archives; without those whose list cannot be read, which are archives like others then."""

    def read(archive_uri: str) -> tuple[SegmentInput, ...] | None:
        uri = input_list_uri(archive_uri)
        try:
            with file_system_for(uri, settings).open(uri) as stream:
                return InputList.from_bytes(stream.read(INPUT_LIST_MAX_BYTES + 1), masked(uri)).files
        except NotFoundError:
            return None
        except PinotError as error:
            _log.warning("list of input files not read uri=%s cause=%s", masked(uri), error)
            return None

    with ThreadPoolExecutor(max(1, min(_LOOKS_AT_ONCE, len(archive_uris))), "earlier-lists") as pool:
        return {
            uri: files
            for uri, files in zip(archive_uris, pool.map(read, archive_uris), strict=True)
            if files is not None
        }


def _mark(
    there: ArchiveListing,
    again: Sequence[str],
    replaced: Sequence[str],
    report: JobReport,
    settings: FileSystemSettings,
) -> None:
    for uri in again:
        file_system_for(uri, settings).delete(mark_uri(uri))
    if not replaced:
        return
    names = sorted(segment.segment_name for segment in report.segments)
    told = {"replacedByRunOf": report.table_name, "numSegments": len(names), "segments": names[:_NAMES_IN_MARK_MAX]}
    with tempfile.TemporaryDirectory(prefix="pinotpy-mark-") as folder:
        mark = Path(folder) / "mark"
        mark.write_text(json.dumps(told, indent=2))
        for uri in replaced:
            file_system_for(uri, settings).put(mark_uri(uri), mark)
            _log.info("archive marked as replaced uri=%s", masked(uri))


def _identity(uri: str) -> object:
    return real_path(uri) if scheme_of(uri) in LOCAL_SCHEMES else uri
