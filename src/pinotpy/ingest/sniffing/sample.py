"""The first rows of a file as the readers give them, one Arrow column a field.

This is the only file of the sniffer that knows how formats name their fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, cast

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from pinotpy.data_types import DataType
from pinotpy.errors import DataError
from pinotpy.ingest.readers.arrow_damage import DAMAGE, cause_of
from pinotpy.ingest.readers.avro_container import DamagedAvroError, read_header
from pinotpy.ingest.readers.avro_format import declared
from pinotpy.ingest.readers.catalog import reader_for
from pinotpy.ingest.readers.json_format import field_names
from pinotpy.ingest.readers.spec import FileFormat, InputFile, ReaderColumn, buffered_reader
from pinotpy.ingest.unions import texts_of, without_unions

_CELLS: Final = 1_000_000
_ROWS: Final = (1_000, 20_000)


@dataclass(frozen=True, slots=True)
class Sample:
    """`table` has a column for each field of the file, by its name there; `is_whole`: it holds all rows.

    Args:
        num_rejected: rows that the reader left out on the way. cause: of the first of them.
    """

    table: pa.Table
    is_whole: bool
    num_rejected: int = 0
    cause: str = ""


def read_sample(
    file: InputFile,
    file_format: FileFormat,
    config: Mapping[str, Any],
    names: list[str],
    more_fields: Sequence[str] = (),
) -> Sample:
    """Rows from the beginning of the file.

    Args:
        names: the fields; [] for formats whose files name them. more_fields: besides those that the first rows have.

    Raises:
        DataError: the file cannot be read.
    """
    names = list(dict.fromkeys((*(names or _names(file, file_format)), *more_fields)))
    if not names:
        return Sample(pa.table({}), is_whole=True)
    rows_max = max(_ROWS[0], min(_ROWS[1], _CELLS // len(names)))
    rejected: list[str] = []

    def reject(row: int, column: str, cause: str, text: str = "", *, allowed: bool = False) -> None:
        rejected.append(cause)

    is_text = file_format in (FileFormat.CSV, FileFormat.TSV)
    columns = [ReaderColumn(name, DataType.STRING, nested=not is_text) for name in names]
    batches: list[pa.RecordBatch] = []
    is_whole = True
    rows = 0
    # Closed before its end: readers that work ahead stop then.
    with closing(reader_for(file_format)(file, columns, config, reject, lambda done, total: None)) as reading:  # type: ignore[type-var]
        for part in reading:
            batches.append(part.batch.slice(0, max(0, rows_max - rows)))
            rows += part.batch.num_rows
            if rows >= rows_max:
                is_whole = next(iter(reading), None) is None if rows == rows_max else False
                break
    if not batches and file_format in (FileFormat.PARQUET, FileFormat.ORC):
        return Sample(_declared(file, file_format).empty_table().select(names), is_whole=True)
    if not batches and file_format is FileFormat.AVRO:
        rows_of_types = pa.Table.from_batches([declared(file, columns)])
        return Sample(rows_of_types, True, len(rejected), *rejected[:1])
    if not batches:
        return Sample(pa.table({name: pa.nulls(0, pa.string()) for name in names}), True, len(rejected), *rejected[:1])
    table = pa.table({name: _joined([batch.column(name) for batch in batches]) for name in batches[0].schema.names})
    return Sample(table.combine_chunks(), is_whole, len(rejected), *rejected[:1])


def _joined(parts: Sequence[pa.Array]) -> pa.ChunkedArray:
    """A column of several batches; where their types do not meet, as of records and lists, each value is text."""
    parts = [without_unions(part) for part in parts]
    tables = [pa.table({"": part}) for part in parts]
    try:
        return pa.concat_tables(tables, promote_options="permissive").column(0)
    except (pa.ArrowTypeError, pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.chunked_array([texts_of(part) for part in parts])


def _declared(file: InputFile, file_format: FileFormat) -> pa.Schema:
    """The types that a file says its fields have; they hold where there is no row to look at."""
    with file.open_seekable() as stream:
        return pq.read_schema(stream) if file_format is FileFormat.PARQUET else orc.ORCFile(stream).schema


def _names(file: InputFile, file_format: FileFormat) -> list[str]:
    try:
        if file_format is FileFormat.JSON:
            return field_names(file, rows_max=_ROWS[1])
        if file_format is FileFormat.PARQUET:
            with file.open_seekable() as stream:
                return list(pq.read_schema(stream).names)
        if file_format is FileFormat.ORC:
            with file.open_seekable() as stream:
                return list(orc.ORCFile(stream).schema.names)
        with file.open() as stream:
            return list(read_header(cast(BinaryIO, buffered_reader(stream))).schema.field_names)
    except (*DAMAGE, DamagedAvroError) as error:
        if isinstance(error, DataError):
            raise
        raise file.broken(f"no {file_format} file that can be read: {cause_of(error)}") from error
