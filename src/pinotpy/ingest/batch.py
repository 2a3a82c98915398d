"""Files → segments: one segment a file, built in a folder and packed as tar.gz, with every row accounted for."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pinotpy.clock import Clock, SystemClock
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig, check_against_schema
from pinotpy.errors import AlreadyExistsError, DecodeError, NotFoundError, UserError
from pinotpy.ingest.held_rows import hold_rows
from pinotpy.ingest.ledger import RowLedger
from pinotpy.ingest.pipeline import RowPipeline, read_rows
from pinotpy.ingest.readers.catalog import format_of
from pinotpy.ingest.readers.spec import FileFormat, InputFile
from pinotpy.ingest.segment_names import SegmentFacts, SegmentNameGenerator, SimpleNames
from pinotpy.ingest.time_values import VALID_TIME_MS
from pinotpy.segment.archive import pack_segment
from pinotpy.segment.builder import build_segment
from pinotpy.segment.indexing import resolve_indexing

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """How far a batch is: which file, and bytes read of it."""

    file: Path
    file_index: int
    num_files: int
    bytes_done: int
    bytes_total: int


@dataclass(frozen=True, slots=True)
class BuiltSegment:
    """One segment: its folder, its archive (None if none was asked for), its rows."""

    name: str
    directory: Path
    archive: Path | None
    num_docs: int
    ledger: RowLedger


@dataclass(frozen=True, slots=True)
class BatchReport:
    """What a batch made. `empty_files` had no row to index; no segment was built of them."""

    segments: tuple[BuiltSegment, ...]
    empty_files: tuple[Path, ...]
    ledgers: tuple[RowLedger, ...]

    @property
    def num_rows_read(self) -> int:
        return sum(ledger.num_rows_read for ledger in self.ledgers)

    @property
    def num_rows_indexed(self) -> int:
        return sum(ledger.num_rows_indexed for ledger in self.ledgers)

    @property
    def num_rows_rejected(self) -> int:
        return sum(ledger.num_rows_rejected for ledger in self.ledgers)

    @property
    def num_rows_filtered(self) -> int:
        return sum(ledger.num_rows_filtered for ledger in self.ledgers)


def find_input_files(data_dir: Path, file_format: FileFormat | None = None) -> list[tuple[Path, FileFormat]]:
    """The data files below a folder, or the file itself, by path ascending; by extension, in any case, `.gz` allowed.

    Raises:
        NotFoundError: there is no such folder, or no file of the format (or of any known one) in it.
    """
    if data_dir.is_file():
        found_format = file_format or format_of(data_dir)
        if found_format is None:
            raise UserError(f"'{data_dir}': the name tells no format, expected one of {', '.join(FileFormat)}; name it by --format")
        return [(data_dir, found_format)]
    if not data_dir.is_dir():
        raise NotFoundError(f"no folder or file '{data_dir}'", file=str(data_dir))
    found = [(path, format_of(path)) for path in sorted(data_dir.rglob("*")) if path.is_file() and not path.name.startswith(".")]
    files = [(path, known) for path, known in found if known is not None and file_format in (None, known)]
    if not files:
        raise NotFoundError(f"no {file_format or 'data'} file in '{data_dir}', expected names that end with .{file_format or ', .'.join(FileFormat)}")
    return files


def create_segments(
    files: Sequence[tuple[Path, FileFormat]],
    schema: Schema,
    table_config: TableConfig | None,
    out_dir: Path,
    *,
    name_generator: SegmentNameGenerator | None = None,
    reader_config: Mapping[str, Any] | None = None,
    reject_share_max: float | None = None,
    overwrite: bool = False,
    archives: bool = True,
    clock: Clock | None = None,
    progress: Callable[[BatchProgress], None] = lambda progress: None,
) -> BatchReport:
    """Build a segment of each file.

    Args:
        files: as `find_input_files` lists them; the place in the list is the sequence id.
        table_config: indexes and time column; None = every column with dictionary, no index.
        out_dir: made if missing; gets `<segment>/` and `<segment>.tar.gz`.
        name_generator: default `SimpleNames()`.
        reader_config: settings of the format, such as those of CSV.
        reject_share_max: largest share of bad rows of a file; default 0, or 1 with continueOnError.
        overwrite: replace segments of the same name instead of refusing.

    Raises:
        InvalidConfigError: table config and schema contradict each other, or settings of the reader are wrong.
        DecodeError: a file cannot be read, or has more bad rows than allowed; segments of the files before it stay.
        AlreadyExistsError: a segment's folder exists and `overwrite` is false.
    """
    if table_config is not None:
        check_against_schema(table_config, schema)
    pipeline = RowPipeline(schema, table_config, reject_share_max=reject_share_max)
    with_dictionary = {name for name, indexing in resolve_indexing(schema, table_config).items() if indexing.dictionary}
    names = name_generator or SimpleNames()
    out_dir.mkdir(parents=True, exist_ok=True)
    segments, empty, ledgers = [], [], []
    for index, (path, file_format) in enumerate(files):

        def report(done: int, total: int, path: Path = path, index: int = index) -> None:
            progress(BatchProgress(path, index, len(files), done, total))

        ledger = RowLedger(str(path))
        batches = hold_rows(read_rows(InputFile(path), file_format, pipeline, ledger, reader_config=reader_config, progress=report), with_dictionary)
        ledgers.append(ledger)
        if not batches:
            empty.append(path)
            _log.warning("no rows to index file=%s rejected=%d", path, ledger.num_rows_rejected)
            continue
        facts = segment_facts(schema, table_config, batches, index, str(path))
        now_ms = (clock or SystemClock()).now_ms()
        segments.append(write_segment(schema, table_config, batches, out_dir, names(facts), ledger, overwrite=overwrite, archive=archives, now_ms=now_ms))
    return BatchReport(tuple(segments), tuple(empty), tuple(ledgers))


def write_segment(
    schema: Schema,
    table_config: TableConfig | None,
    batches: Sequence[pa.RecordBatch],
    out_dir: Path,
    name: str,
    ledger: RowLedger,
    *,
    overwrite: bool = False,
    archive: bool = True,
    now_ms: int = 0,
) -> BuiltSegment:
    """Build one segment of batches in storage form, and its archive beside it."""
    directory, packed = out_dir / name, out_dir / f"{name}.tar.gz"
    if directory.exists():
        if not overwrite:
            raise AlreadyExistsError(f"segment '{directory}' exists; remove it, or ask to overwrite", segment=name)
        shutil.rmtree(directory)
    metadata = build_segment(schema, table_config, batches, out_dir, name, creation_time_ms=now_ms)
    if archive:
        pack_segment(directory, packed)
    _log.info("segment built segment=%s docs=%d file=%s rejected=%d", name, metadata.num_docs, ledger.file, ledger.num_rows_rejected)
    return BuiltSegment(name, directory, packed if archive else None, metadata.num_docs, ledger)


def segment_facts(schema: Schema, table_config: TableConfig | None, batches: Sequence[pa.RecordBatch], sequence_id: int, file: str) -> SegmentFacts:
    """Range of the time column, for the segment's name; checks it against 1971..2071 unless segmentTimeValueCheck is off.

    Raises:
        DecodeError: the range leaves these years, which retention and time boundary could not handle.
    """
    table = table_config.raw_table_name if table_config is not None else schema.schema_name
    column = table_config.segments.time_column_name if table_config is not None else None
    extremes = [pc.min_max(batch.column(column)).as_py() for batch in batches] if column is not None else []
    known = [extreme for extreme in extremes if extreme["min"] is not None]
    if column is None or not known:
        return SegmentFacts(table, sequence_id)
    low, high = min(extreme["min"] for extreme in known), max(extreme["max"] for extreme in known)
    time_format = schema.field_specs[column].date_time_format
    if time_format is None:
        return SegmentFacts(table, sequence_id, low, high)
    start_ms, end_ms = time_format.millis_from_value(low), time_format.millis_from_value(high)
    checks = table_config is None or table_config.ingestion is None or table_config.ingestion.segment_time_value_check
    if checks and not (VALID_TIME_MS[0] <= start_ms and end_ms <= VALID_TIME_MS[1]):
        raise DecodeError(
            f"'{file}': times of column '{column}' reach from {low} to {high}, expected 1971 to 2071; "
            "mend the data or the column's format, or set ingestionConfig.segmentTimeValueCheck to false",
            file=file,
            column=column,
        )
    return SegmentFacts(table, sequence_id, low, high, start_ms, end_ms)
