"""Parquet: only the wanted columns are read, text keeps the file's dictionaries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pinotpy.data_types import DataType
from pinotpy.errors import Fault, InvalidConfigError
from pinotpy.ingest.readers.spec import BATCH_ROWS, InputBatch, InputFile, Progress, ReaderColumn, Reject, column_names, numbered


def read(file: InputFile, columns: Sequence[ReaderColumn], config: Mapping[str, Any], reject: Reject, progress: Progress) -> Iterator[InputBatch]:
    """Read a Parquet file; see `readers.spec.ReadFile`."""
    if config:
        raise InvalidConfigError(
            "parquet reader config is not valid:", tuple(Fault(f"$.{key}", "an unknown key", "no keys: Parquet has no settings") for key in config)
        )
    with file.open() as stream:
        try:
            names = column_names(file, pq.read_schema(stream).names)
            wanted = [column for column in columns if column.name in names]
            stream.seek(0)
            # Dictionaries of the file serve single-valued text only; other types would be decoded again.
            dictionaries = [column.name for column in wanted if column.single_value and column.data_type is DataType.STRING]
            parquet = pq.ParquetFile(stream, read_dictionary=dictionaries, memory_map=False, pre_buffer=False)
            total = max(parquet.metadata.num_rows, 1)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
            raise file.broken(f"no Parquet file: {str(error).splitlines()[0][:300]}") from error
        row = 1
        batches = parquet.iter_batches(BATCH_ROWS, columns=[column.name for column in wanted], use_threads=False)
        while True:
            try:
                batch = next(batches, None)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
                raise file.broken(f"damaged from about here on: {str(error).splitlines()[0][:300]}", row=row) from error
            if batch is None:
                return
            # iter_batches answers in the file's order.
            yield InputBatch(batch.select([column.name for column in wanted]), numbered(row, batch.num_rows))
            row += batch.num_rows
            progress(file.size_bytes * (row - 1) // total, file.size_bytes)
