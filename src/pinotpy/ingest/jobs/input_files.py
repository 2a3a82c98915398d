"""The input files of a job: listed through the file door, chosen by patterns, each with its format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

from pinotpy.errors import NotFoundError, UserError
from pinotpy.fs.file_systems import file_system_for
from pinotpy.fs.settings import FileSystemSettings
from pinotpy.fs.uris import LOCAL_SCHEMES, masked, scheme_of
from pinotpy.ingest.archive_listing import JOBS_ENDINGS
from pinotpy.ingest.jobs.file_patterns import file_pattern
from pinotpy.ingest.jobs.places import lies_below, path_below, real_path
from pinotpy.ingest.jobs.spec import IngestionJobSpec
from pinotpy.ingest.readers.catalog import format_from_text, format_of
from pinotpy.ingest.readers.file_part import FilePart
from pinotpy.ingest.readers.spec import FileFormat
from pinotpy.ingest.segment_names import path_of

# What Hadoop, Spark and file systems leave beside data: `_SUCCESS`, `_temporary/…`, `.part-0.crc`.
_HIDDEN: Final = (".", "_")


@dataclass(frozen=True, slots=True)
class InputEntry:
    """One input file. `below`: its path below the input's folder; `folder` of it, '' for files of the folder itself:
    where its segment goes below the output, and within which files are numbered. `checksum`: as of SegmentInput, ""
    before it is read; `num_rows`: its rows in all segments, -1 before. `part`: a part of the file, of which a segment
    is made, and `size_bytes` are its bytes; its checksum stays unknown. None: all of it.
    """

    uri: str
    below: str
    file_format: str
    size_bytes: int
    modified_ms: int
    folder: str = ""
    checksum: str = ""
    num_rows: int = -1
    part: FilePart | None = None

    @staticmethod
    def from_json_dict(plain: Mapping[str, Any]) -> InputEntry:
        part = plain.get("part")
        return InputEntry(**{**plain, "part": FilePart(**part) if part is not None else None})


def find_inputs(spec: IngestionJobSpec, settings: FileSystemSettings) -> list[InputEntry]:
    """The files that the job reads, by URI ascending.

    Names that begin with '.' or '_', and what lies in such folders, are no data, nor is what jobs write: archives and
    what lies beside them, and all below the output and the folder for rejected rows where these lie in the input's
    folder. Without includeFileNamePattern the files are those whose name tells a known format, or, with dataFormat, all
    of them.

    Raises:
        NotFoundError: there is none.
        UserError: a pattern is none, or a file that it takes has no format that is known; two are one file, by a link.
    """
    assert spec.input_dir_uri is not None
    root, given = spec.input_dir_uri, reader_format(spec)
    include = (
        file_pattern(spec.include_file_name_pattern, "includeFileNamePattern")
        if spec.include_file_name_pattern
        else None
    )
    exclude = (
        file_pattern(spec.exclude_file_name_pattern, "excludeFileNamePattern")
        if spec.exclude_file_name_pattern
        else None
    )
    output_folders = [
        folder
        for folder in (spec.output_dir_uri, spec.pinotpy.reject_file_uri)
        if folder is not None and lies_below(folder, root)
    ]
    entries: list[InputEntry] = []
    num_seen = 0
    for entry in file_system_for(root, settings).list(root):
        path = path_of(entry.uri)
        below = path_below(entry.uri, root)
        if is_hidden(below) or (not spec.search_recursively and "/" in below):
            continue
        if below.endswith(JOBS_ENDINGS) or any(lies_below(entry.uri, folder) for folder in output_folders):
            continue
        num_seen += 1
        if (include is not None and not include(path, below)) or (exclude is not None and exclude(path, below)):
            continue
        file_format = given or format_of(PurePosixPath(below))  # type: ignore[arg-type]
        if file_format is not None:
            entries.append(
                InputEntry(
                    entry.uri, below, str(file_format), entry.size_bytes, entry.modified_ms, below.rpartition("/")[0]
                )
            )
        elif include is not None:
            raise UserError(
                f"'{masked(entry.uri)}': the name tells no format; say it by recordReaderSpec.dataFormat, one of "
                f"{', '.join(FileFormat)}"
            )
    if not entries:
        expected = (
            f"that '{spec.include_file_name_pattern}' takes"
            if include is not None
            else f"of format {given}"
            if given
            else "whose name tells a format"
        )
        pattern = "; inputDirURI is no pattern, includeFileNamePattern is one" if set("*?[{") & set(root) else ""
        raise NotFoundError(
            f"no input file {expected} in '{masked(root)}': {num_seen} files are there{pattern}", uri=masked(root)
        )
    refuse_links_to_one_file(entries)
    return entries


def is_hidden(below: str) -> bool:
    """Whether a path below the input's folder is no data by its names; a folder `_day=5` is a column's value."""
    *folders, name = below.split("/")
    return name.startswith(_HIDDEN) or any(
        folder.startswith(".") or (folder.startswith("_") and "=" not in folder) for folder in folders
    )


def refuse_links_to_one_file(entries: Sequence[InputEntry]) -> None:
    """Raises UserError for two entries that are one file of this machine, such as by a folder `latest` that is a link:
    every row would be there twice.
    """
    by_path: dict[Path, InputEntry] = {}
    for entry in entries:
        if scheme_of(entry.uri) not in LOCAL_SCHEMES:
            continue
        path = real_path(entry.uri)
        if path in by_path:
            raise UserError(
                f"'{masked(by_path[path].uri)}' and '{masked(entry.uri)}' are one file, by a link: its rows would be "
                "read twice; leave one of them out "
                "(jobs: excludeFileNamePattern)"
            )
        by_path[path] = entry


def reader_format(spec: IngestionJobSpec) -> FileFormat | None:
    """The format that recordReaderSpec names, by dataFormat or by the name of Pinot's reader class; None = by each
    file's name.
    """
    reader = spec.record_reader_spec
    if reader.data_format is not None:
        return format_from_text(reader.data_format)
    if reader.class_name is None:
        return None
    name = reader.class_name.rpartition(".")[2].lower()
    found = next((each for each in FileFormat if name.startswith(each.value)), None)
    if found is None:
        raise UserError(
            f"recordReaderSpec.className '{reader.class_name[:200]}' reads no format known here, expected dataFormat "
            f"as one of {', '.join(FileFormat)}"
        )
    return found
