"""Record batches → an immutable segment: column by column, vectorised, equal input gives equal bytes."""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from pinotpy.errors import DataError
from pinotpy.names import check_segment_name
from pinotpy.segment import layout
from pinotpy.segment.buffers import BufferWriter, StagedBuffers
from pinotpy.segment.build.column_writer import WrittenColumn, write_column
from pinotpy.segment.build.indexing import ColumnIndexing, resolve_indexing
from pinotpy.segment.build.partition_gaps import partition_gaps
from pinotpy.segment.directory.directory import SegmentDirectory
from pinotpy.segment.directory.file_directory import FileDirectory
from pinotpy.segment.metadata import SegmentMetadata, TimeRange, segment_crc
from pinotpy.segment.star_tree.metadata import StarTreeMetadata
from pinotpy.segment.star_tree.spec import configured_trees
from pinotpy.segment.star_tree.write import add_star_trees
from pinotpy.segment.time_range import text_extremes_in_time, time_range

if TYPE_CHECKING:
    from pinotpy.config.field_spec import FieldSpec
    from pinotpy.config.schema import Schema
    from pinotpy.config.table import TableConfig

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ColumnSource:
    """Rows that are given column by column, so that they need not be held as Arrow memory all at once.

    take: a column of the schema in storage form, by its name; asked for once each, on any thread.
    """

    num_docs: int
    take: Callable[[str], pa.ChunkedArray]


def build_segment(
    schema: Schema,
    table_config: TableConfig | None,
    batches: Iterable[pa.RecordBatch] | ColumnSource,
    out_dir: Path,
    segment_name: str,
    *,
    raw_table_name: str | None = None,
    creation_time_ms: int = 0,
    threads: int | None = None,
) -> SegmentMetadata:
    """Build the segment `out_dir/segment_name`.

    Args:
        schema: columns and their defaults.
        table_config: dictionaries, indexes, codecs, time column; None: a dictionary for every column and no index.
        batches: storage form: one Arrow column a schema column, types `DataType.arrow` (BOOLEAN bool, TIMESTAMP int64
            ms, BIG_DECIMAL binary, multi-values list<…>; dictionary<string> is taken as it is); null = no value in the
            input, the default is stored and the null bit set. A missing column is null throughout, a column that the
            schema does not know is an error. Consumed once and held as Arrow memory; a column's goes when it is
            encoded. Or a source of columns, of which one at a time is held for each thread.
        out_dir: made if missing. Nothing is visible in it before the segment is complete and durable.
        raw_table_name: recorded; default: the table config's, else the schema's name.
        creation_time_ms: recorded outside of every checksum of content; 0 = not known.
        threads: columns that are encoded at once; default: the cores, at most 4. The bytes are the same with any
            number.

    Raises:
        AlreadyExistsError: `out_dir/segment_name` exists.
        InvalidConfigError: the table config asks for what cannot be built.
        DataError: a column's Arrow type does not fit the schema, or it is too large for one segment.
    """
    directory = FileDirectory(Path(out_dir) / check_segment_name(segment_name))
    return build_segment_into(
        directory,
        schema,
        table_config,
        batches,
        segment_name,
        raw_table_name=raw_table_name,
        creation_time_ms=creation_time_ms,
        threads=threads,
    )


def build_segment_into(
    directory: SegmentDirectory,
    schema: Schema,
    table_config: TableConfig | None,
    batches: Iterable[pa.RecordBatch] | ColumnSource,
    segment_name: str,
    *,
    raw_table_name: str | None = None,
    creation_time_ms: int = 0,
    threads: int | None = None,
    log_level: int = logging.INFO,
) -> SegmentMetadata:
    """`build_segment` through the directory door. log_level: of the line that says that it was built."""
    indexing = resolve_indexing(schema, table_config)
    trees = configured_trees(schema, table_config)
    with_default = table_config is not None and table_config.indexing.enable_default_star_tree
    columns = batches if isinstance(batches, ColumnSource) else _read(schema, batches)
    time_column = _time_column(schema, table_config)
    if raw_table_name is None:
        raw_table_name = table_config.raw_table_name if table_config is not None else schema.schema_name
    draft = directory.create()
    try:
        writer = BufferWriter(draft)
        written, times = _write_columns(schema, indexing, columns, writer, threads or default_threads(), time_column)
        star_trees: tuple[StarTreeMetadata, ...] = ()
        if trees or with_default:
            metadata_of_columns = [column.metadata for column in written]
            star_trees = add_star_trees(
                trees, metadata_of_columns, columns.num_docs, segment_name, draft, writer, with_default=with_default
            )
        metadata = SegmentMetadata(
            segment_name=check_segment_name(segment_name),
            table_name=raw_table_name,
            num_docs=columns.num_docs,
            creation_time_ms=creation_time_ms,
            time_range=_time_range(schema, time_column, written, times),
            columns=tuple(column.metadata for column in written),
            files=((writer.name, writer.size_bytes),),
            crc=0,
            star_trees=star_trees,
        )
        metadata = replace(metadata, crc=segment_crc(metadata))
        draft.append(layout.METADATA, metadata.to_bytes())
        draft.commit()
    finally:
        draft.abort()
    _log.log(
        log_level,
        "segment built segment=%s table=%s docs=%d bytes=%d crc=%d",
        segment_name,
        raw_table_name,
        metadata.num_docs,
        metadata.size_bytes,
        metadata.crc,
    )
    for name, reason in partition_gaps(metadata, table_config).items():
        _log.warning("segment without partitions segment=%s column=%s reason=%s", segment_name, name, reason)
    return metadata


def default_threads() -> int:
    """Columns that are encoded at once: more gain little, and each holds its values and its buffers."""
    return min(len(os.sched_getaffinity(0)), 4)


def _write_columns(
    schema: Schema,
    indexing: dict[str, ColumnIndexing],
    columns: ColumnSource,
    writer: BufferWriter,
    threads: int,
    time_column: str | None,
) -> tuple[list[WrittenColumn], tuple[str, str] | None]:
    """Encode columns on threads, write them in the schema's order. Arrow and numpy let go of the interpreter where time
    goes. Returns `text_extremes_in_time` of the time column as well.
    """
    times: tuple[str, str] | None = None

    def encode(name: str) -> tuple[WrittenColumn, StagedBuffers]:
        nonlocal times
        staged, spec, column = StagedBuffers(), schema.field_specs[name], columns.take(name)
        if name == time_column:
            times = text_extremes_in_time(column.chunks, spec)
        return write_column(column, spec, indexing[name], staged), staged

    written: list[WrittenColumn] = []
    waiting: deque[Future[tuple[WrittenColumn, StagedBuffers]]] = deque()
    names = iter(schema.field_specs)
    with ThreadPoolExecutor(threads, "encode-column") as pool:
        try:
            # Not all at once, for the memory: as many as there are threads.
            waiting.extend(pool.submit(encode, name) for name in islice(names, threads))
            while waiting:
                column, staged = waiting.popleft().result()
                entries = writer.write(staged)
                written.append(replace(column, metadata=replace(column.metadata, buffers=tuple(entries))))
                # Freed Arrow memory goes back to the system, not into a pool that only grows.
                pa.default_memory_pool().release_unused()
                waiting.extend(pool.submit(encode, name) for name in islice(names, 1))
        finally:
            for future in waiting:
                future.cancel()
    return written, times


def _read(schema: Schema, batches: Iterable[pa.RecordBatch]) -> ColumnSource:
    chunks: dict[str, list[pa.Array]] = {name: [] for name in schema.field_specs}
    num_docs = 0
    for batch in batches:
        unknown = [name for name in batch.schema.names if name not in chunks]
        if unknown:
            raise DataError(
                f"batch has columns {unknown[:10]} that schema '{schema.schema_name}' does not have",
                columns=unknown[:100],
            )
        num_docs += batch.num_rows
        if num_docs > layout.DOCS_MAX:
            raise DataError(f"a segment holds at most {layout.DOCS_MAX} rows, found more: make smaller segments")
        for name, parts in chunks.items():
            index = batch.schema.get_field_index(name)
            parts.append(batch.column(index) if index >= 0 else pa.nulls(batch.num_rows))
    columns = {name: chunked_column(parts, schema.field_specs[name]) for name, parts in chunks.items()}
    # Taken out of the dict: the Arrow memory of an encoded column can go.
    return ColumnSource(num_docs, columns.pop)


def chunked_column(parts: Sequence[pa.Array], spec: FieldSpec) -> pa.ChunkedArray:
    """Parts of a column in storage form as one; raises DataError if they cannot be one."""
    name = spec.name
    expected = spec.data_type.arrow if spec.single_value else pa.list_(spec.data_type.arrow)
    kinds = {part.type for part in parts}
    if not kinds:
        return pa.chunked_array([], expected)
    if len(kinds) == 1:
        return pa.chunked_array(list(parts))
    try:
        # Batches that disagree (a dictionary here, plain strings there, a missing column) meet at the schema's type.
        return pa.chunked_array([part if part.type == expected else part.cast(expected) for part in parts], expected)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise DataError(f"column '{name}' cannot be stored as {spec.data_type.value}: {error}", column=name) from error


def _time_column(schema: Schema, table_config: TableConfig | None) -> str | None:
    name = table_config.segments.time_column_name if table_config is not None else None
    return name if name in schema.field_specs else None


def _time_range(
    schema: Schema, name: str | None, written: list[WrittenColumn], times: tuple[str, str] | None
) -> TimeRange | None:
    if name is None:
        return None
    if times is not None:
        return time_range(schema.field_specs[name], times[0].encode(), times[1].encode())
    column = next(column for column in written if column.metadata.name == name)
    if column.first_present is None or column.last_present is None:
        return None
    return time_range(schema.field_specs[name], column.first_present, column.last_present)
