"""Of a folder with data: its files by their format; of rows: what the name of their segment may tell."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.errors import DecodeError, NotFoundError, UserError
from pinotpy.fs.local_files import LocalFiles
from pinotpy.ingest.archive_listing import JOBS_ENDINGS
from pinotpy.ingest.dictionary_arrays import min_max
from pinotpy.ingest.jobs.input_files import is_hidden
from pinotpy.ingest.readers.catalog import format_of
from pinotpy.ingest.readers.spec import FileFormat
from pinotpy.ingest.segment_names import SegmentFacts
from pinotpy.ingest.time_values import VALID_TIME_MS
from pinotpy.segment.time_range import text_extremes_in_time


def find_input_files(data_dir: Path, file_format: FileFormat | None = None) -> list[tuple[Path, FileFormat]]:
    """The data files below a folder, or the file itself, by path ascending; by extension, in any case, `.gz` allowed.

    Raises:
        NotFoundError: there is no such folder, or no file of the format (or of any known one) in it.
        DataError: a folder that cannot be listed.
    """
    if data_dir.is_file():
        found_format = file_format or format_of(data_dir)
        if found_format is None:
            raise UserError(
                f"'{data_dir}': the name tells no format, expected one of {', '.join(FileFormat)}; name it by --format"
            )
        return [(data_dir, found_format)]
    if not data_dir.is_dir():
        raise NotFoundError(f"no folder or file '{data_dir}'", file=str(data_dir))
    listed = [Path(entry.uri) for entry in LocalFiles().list(str(data_dir)) if not entry.uri.endswith(JOBS_ENDINGS)]
    paths = [path for path in listed if not is_hidden(path.relative_to(data_dir).as_posix())]
    path_formats = [(path, format_of(path)) for path in paths]
    files = [(path, known) for path, known in path_formats if known is not None and file_format in (None, known)]
    if not files:
        raise NotFoundError(
            f"no {file_format or 'data'} file in '{data_dir}', expected names that end with "
            f".{file_format or ', .'.join(FileFormat)}"
        )
    return files


def segment_facts(
    schema: Schema, table_config: TableConfig | None, batches: Sequence[pa.RecordBatch], sequence_id: int, file: str
) -> SegmentFacts:
    """Range of the time column, for the segment's name; checks it against 1971..2071 unless segmentTimeValueCheck is
    off.

    Raises:
        DecodeError: the range leaves these years, which retention and time boundary could not handle, or is none
            (20261331).
    """
    table = table_config.raw_table_name if table_config is not None else schema.schema_name
    column = table_config.segments.time_column_name if table_config is not None else None
    extremes = [min_max(batch.column(column)).as_py() for batch in batches] if column is not None else []
    known = [extreme for extreme in extremes if extreme["min"] is not None]
    if column is None or not known:
        return SegmentFacts(table, sequence_id)
    in_time = text_extremes_in_time([batch.column(column) for batch in batches], schema.field_specs[column])
    low, high = in_time or (min(extreme["min"] for extreme in known), max(extreme["max"] for extreme in known))
    time_format = schema.field_specs[column].date_time_format
    if time_format is None:
        return SegmentFacts(table, sequence_id, low, high)
    try:
        start_ms, end_ms = time_format.millis_from_value(low), time_format.millis_from_value(high)
    except (ValueError, OverflowError) as error:
        raise DecodeError(
            f"'{file}': times of column '{column}' reach from {low} to {high}, expected times of its format: {error}",
            file=file,
            column=column,
        ) from error
    checks = table_config is None or table_config.ingestion is None or table_config.ingestion.segment_time_value_check
    if checks and not (VALID_TIME_MS[0] <= start_ms and end_ms <= VALID_TIME_MS[1]):
        raise DecodeError(
            f"'{file}': times of column '{column}' reach from {low} to {high}, expected 1971 to 2071; "
            "mend the data or the column's format, or set ingestionConfig.segmentTimeValueCheck to false",
            file=file,
            column=column,
        )
    return SegmentFacts(table, sequence_id, low, high, start_ms, end_ms)
