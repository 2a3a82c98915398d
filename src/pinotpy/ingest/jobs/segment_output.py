"""Rows of one segment → its archive at the job's output, and beside it the list of its input files: sorted, named,
built, packed, put there whole or not at all.

Equal rows give equal names and equal bytes, on any machine and with any number of threads: rows have a total order, and
the segment is dated by its input. So a job that runs again finds its archives there, and knows them.
"""

from __future__ import annotations

import logging
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from pinotpy.errors import AlreadyExistsError, DataError, UserError
from pinotpy.fs.file_system import FileSystem
from pinotpy.fs.file_systems import file_system_for
from pinotpy.fs.settings import FileSystemSettings
from pinotpy.fs.uris import LOCAL_SCHEMES, join, local_path, masked, scheme_of
from pinotpy.ingest.archive_listing import ARCHIVE_ENDING, REPLACED_ENDING, input_list_uri
from pinotpy.ingest.batch import segment_facts
from pinotpy.ingest.held_rows import handed_over
from pinotpy.ingest.jobs.context import JobContext
from pinotpy.ingest.jobs.input_lists import input_list
from pinotpy.ingest.jobs.plan import Unit
from pinotpy.ingest.jobs.report import SegmentReport
from pinotpy.ingest.row_order import sort_rows
from pinotpy.segment.archive.archive import pack_segment, read_archive_metadata
from pinotpy.segment.build.builder import build_segment
from pinotpy.segment.build.partition_gaps import partition_gaps
from pinotpy.segment.input_list import InputList
from pinotpy.segment.metadata import SegmentMetadata

_log = logging.getLogger(__name__)
_COMPARE_BYTES = 1 << 20
# Names of files have 255 bytes; the segment's gets an ending or a beginning of this length.
_NAME_MAX = 255 - len(REPLACED_ENDING)


def write_segment(
    context: JobContext,
    batches: list[pa.RecordBatch],
    unit: Unit,
    *,
    work_dir: Path,
    threads: int | None = None,
    puts: bool = True,
) -> SegmentReport:
    """Build one segment and put its archive to `<outputDirURI>/<folder>/<segment>.tar.gz`, its list of input files
    beside it.

    Args:
        batches: rows in storage form, in the order of input file and position; the list is emptied, for the memory.
        unit: what the segment is made of; its entries have their checksums.
        work_dir: a folder of this unit alone, on this machine; what is made in it is removed.
        puts: False: build and measure only.

    Raises:
        AlreadyExistsError: another segment has that name at the output, and overwriteOutput is false. One with the same
            rows is no fault.
        DecodeError: times outside 1971..2071. UserError: a name that no segment can have. Else as of `build_segment`
            and the output's file system.
    """
    started = time.perf_counter()
    input_uris = tuple(entry.uri for entry in unit.inputs)
    where = input_uris[0] if len(input_uris) == 1 else f"{len(input_uris)} files"
    facts = segment_facts(context.schema, context.table_config, batches, unit.sequence_id, where)
    facts = replace(
        facts, input_uri=input_uris[0] if len(input_uris) == 1 else None, identity=unit.identity, tag=unit.tag
    )
    name = context.names(facts)
    if len(name) > _NAME_MAX:
        raise UserError(
            f"the segment name '{name[:80]}…' has {len(name)} characters, at most {_NAME_MAX} fit a file's name: "
            "shorten the prefix or template"
        )
    if context.sort_columns:
        batches = sort_rows(batches, context.schema, context.sort_columns)
    directory, archive = work_dir / name, work_dir / f"{name}{ARCHIVE_ENDING}"
    try:
        metadata = build_segment(
            context.schema,
            context.table_config,
            handed_over(batches),
            work_dir,
            name,
            creation_time_ms=max(unit.modified_ms, 0),
            threads=threads,
        )
        folder_bytes = sum(file.stat().st_size for file in directory.iterdir())
        uri, size_bytes, kept_folder, listed = "", 0, None, None
        if puts:
            pack_segment(directory, archive, threads=threads)
            size_bytes = archive.stat().st_size
            uri = join(
                context.spec.output_dir_uri or "", *(name for name in unit.folder.split("/") if name), archive.name
            )
            listed = input_list(unit, metadata.num_docs)
            put_archive(
                uri, archive, metadata.crc, listed, context.file_systems, overwrite=context.spec.overwrite_output
            )
            kept_folder = _keep_folder(directory, uri) if context.spec.pinotpy.keep_folders else None
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        archive.unlink(missing_ok=True)
    _log.info("segment written segment=%s docs=%d uri=%s", name, metadata.num_docs, masked(uri))
    return SegmentReport(
        segment_name=name,
        uri=uri,
        num_docs=metadata.num_docs,
        size_bytes=folder_bytes,
        archive_size_bytes=size_bytes,
        crc=metadata.crc,
        input_uris=input_uris,
        has_input_list=listed is not None,
        start_ms=facts.start_ms,
        end_ms=facts.end_ms,
        partitions=_partitions(metadata),
        partition_gaps=partition_gaps(metadata, context.table_config),
        build_ms=round((time.perf_counter() - started) * 1000),
        directory=kept_folder,
    )


def put_archive(
    uri: str, archive: Path, crc: int, inputs: InputList | None, file_systems: FileSystemSettings, *, overwrite: bool
) -> None:
    """Put a segment's archive where nobody sees a part of it. The list of its input files comes before it: no archive
    has an older list.

    What is there with the same bytes stays as it is. What is there with the same CRC has the same rows and another
    date, of a copy of the input: it is replaced.

    Raises:
        AlreadyExistsError: something else is there, and `overwrite` is false.
    """
    files = file_system_for(uri, file_systems)
    is_there = files.exists(uri)
    stays = is_there and _is_equal(uri, archive, files)
    if is_there and not stays and not overwrite and _crc_of(uri, files) != crc:
        raise AlreadyExistsError(
            f"'{masked(uri)}' exists with other content; remove it, or set overwriteOutput to true", uri=masked(uri)
        )
    list_uri = input_list_uri(uri)
    if inputs is not None:
        local = archive.with_name("inputs.json")
        local.write_bytes(inputs.to_bytes())
        files.put(list_uri, local)
    elif files.exists(list_uri):
        files.delete(list_uri)
    if not stays:
        files.put(uri, archive)


def _is_equal(uri: str, archive: Path, files: FileSystem) -> bool:
    """Whether the same bytes are there."""
    if files.stat(uri).size_bytes not in (-1, archive.stat().st_size):
        return False
    with files.open(uri) as there, archive.open("rb") as here:
        return _equal(there, here)


def _crc_of(uri: str, files: FileSystem) -> int | None:
    """The CRC of the segment in an archive, None if it is none."""
    try:
        with files.open(uri) as stream:
            return read_archive_metadata(stream)[0].crc
    except (DataError, UserError):
        return None


def _equal(one: BinaryIO, other: BinaryIO) -> bool:
    while True:
        chunk, right = one.read(_COMPARE_BYTES), other.read(_COMPARE_BYTES)
        while chunk and len(chunk) < len(right):  # streams of some storages give less than they are asked for
            more = one.read(len(right) - len(chunk))
            if not more:
                break
            chunk += more
        if chunk != right:
            return False
        if not chunk:
            return True


def _keep_folder(directory: Path, uri: str) -> str | None:
    """The segment's folder beside its archive, swapped in by two renames; None where the output is not of this
    machine.
    """
    if scheme_of(uri) not in LOCAL_SCHEMES:
        return None
    target = local_path(uri).parent / directory.name
    fresh, old = (
        target.with_name(f".unfinished-{directory.name}"),
        target.with_name(f".unfinished-old-{directory.name}"),
    )
    for leftover in (fresh, old):
        shutil.rmtree(leftover, ignore_errors=True)
    shutil.copytree(directory, fresh)
    if target.exists():
        target.rename(old)
    fresh.rename(target)
    shutil.rmtree(old, ignore_errors=True)
    return str(target)


def _partitions(metadata: SegmentMetadata) -> dict[str, tuple[int, ...]]:
    return {column.name: column.partition.partitions for column in metadata.columns if column.partition is not None}
