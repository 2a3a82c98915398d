"""Parquet: only the wanted columns are read, text keeps the file's dictionaries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pinotpy.data_types import DataType
from pinotpy.errors import Fault, InvalidConfigError
from pinotpy.ingest.readers.arrow_damage import DAMAGE, cause_of
from pinotpy.ingest.readers.spec import (
    BATCH_ROWS,
    FileFields,
    InputBatch,
    InputFile,
    Progress,
    ReaderColumn,
    Reject,
    column_names,
    numbered,
)
from pinotpy.ingest.readers.valid_text import with_valid_text


def read(
    file: InputFile, columns: Sequence[ReaderColumn], config: Mapping[str, Any], reject: Reject, progress: Progress
) -> Iterator[InputBatch]:
    """Read a Parquet file; see `readers.spec.ReadFile`."""
    if config:
        raise InvalidConfigError(
            "parquet reader config is not valid:",
            tuple(Fault(f"$.{key}", "an unknown key", "no keys: Parquet has no settings") for key in config),
        )
    with file.open_seekable() as stream:
        try:
            fields = pq.read_schema(stream)
            names = column_names(file, fields.names)
            file.fields = FileFields(set(names))
            present = [column for column in columns if column.name in names]
            stream.seek(0)
            # Dictionaries of the file serve single-valued text only; other types would be decoded again.
            texts = {
                field.name for field in fields if pa.types.is_string(field.type) or pa.types.is_dictionary(field.type)
            }
            dictionaries = [
                column.name
                for column in present
                if column.single_value and column.data_type is DataType.STRING and column.name in texts
            ]
            # Times of 96 bits reach further than nanoseconds in 64 bits, which would wrap around: year 1 became 1754.
            parquet = pq.ParquetFile(
                stream,
                read_dictionary=dictionaries,
                memory_map=False,
                pre_buffer=False,
                coerce_int96_timestamp_unit="us",
            )
            groups, total = range(parquet.num_row_groups), parquet.metadata.num_rows
            if file.part is not None:
                groups = file.part.groups(len(groups))
                total = sum(parquet.metadata.row_group(group).num_rows for group in groups)
        except DAMAGE as error:
            raise file.broken(f"no Parquet file that can be read: {_cause(error)}") from error
        row = 1
        batches = parquet.iter_batches(
            BATCH_ROWS, row_groups=list(groups), columns=[column.name for column in present], use_threads=False
        )
        while True:
            try:
                batch = next(batches, None)
            except DAMAGE as error:
                raise file.broken(f"damaged from about here on: {_cause(error)}", row=row) from error
            if batch is None:
                break
            # iter_batches answers in the file's order.
            yield with_valid_text(
                InputBatch(batch.select([column.name for column in present]), numbered(row, batch.num_rows)), reject
            )
            row += batch.num_rows
            progress(file.size_bytes * (row - 1) // max(total, 1), file.size_bytes)
        if row - 1 != total:
            raise file.broken(f"{row - 1} rows in its row groups, its footer says {total}", row=row)


def _cause(error: BaseException) -> str:
    cause = cause_of(error)
    if "encrypt" in cause or "decrypt" in cause:
        return f"it is encrypted, and keys are not supported: write it without encryption ({cause})"
    return cause
