"""Rows in input form → rows in storage form: one Arrow column a schema column, ready for `segment.builder`.

    reader → time conversion → cast → lists → length limits → rejected rows out → builder

Null stays null (the builder stores the default value and sets the null bit); a column that the input lacks is null throughout.
Every row that does not fit is counted with file, row, column and cause, and never left out silently.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pinotpy.config.date_time import DateTimeFormat, parse_format
from pinotpy.config.field_spec import FieldSpec
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.data_types import DataType
from pinotpy.errors import Fault, InvalidConfigError
from pinotpy.ingest.casting import cast_values
from pinotpy.ingest.conversion import Bad, Converted
from pinotpy.ingest.ledger import RowLedger
from pinotpy.ingest.lists import cast_lists
from pinotpy.ingest.readers.catalog import reader_for
from pinotpy.ingest.readers.spec import FileFormat, InputBatch, InputFile, Progress, ReaderColumn
from pinotpy.ingest.sanitizing import sanitize
from pinotpy.ingest.time_values import VALID_TIME_MS, between_formats, to_millis

# Once this many rows of a file are bad and none may be, the rest would tell nothing new.
_HOPELESS_ROWS: Final = 1000


class RowPipeline:
    """Makes storage form of batches of one table. Holds no state of rows; may be shared between threads.

    Args:
        schema: the columns.
        table_config: its ingestionConfig says whether bad rows may be left out (continueOnError) and times are checked.
        reject_share_max: largest share of bad rows of a file, 0 to 1; default: 0, or 1 with continueOnError.

    Raises:
        InvalidConfigError: the config asks for filters or unnesting, which are not evaluated.
    """

    def __init__(self, schema: Schema, table_config: TableConfig | None = None, *, reject_share_max: float | None = None) -> None:
        ingestion = table_config.ingestion if table_config is not None else None
        self.schema = schema
        self.reject_share_max = reject_share_max if reject_share_max is not None else float(ingestion is not None and ingestion.continue_on_error)
        self._time_column = table_config.segments.time_column_name if table_config is not None else None
        self._checks_time = ingestion is not None and ingestion.row_time_value_check
        self._expressions = {spec.name: spec.transform_function for spec in schema.field_specs.values() if spec.transform_function is not None}
        if ingestion is not None:
            self._expressions |= {transform.column_name: transform.transform_function for transform in ingestion.transform_configs}
        _refuse_unknown_steps(table_config)

    @property
    def reader_columns(self) -> tuple[ReaderColumn, ...]:
        """What a reader shall read: the schema's columns, and an incoming time column of another name."""
        columns = [ReaderColumn(spec.name, spec.data_type, spec.single_value) for spec in self.schema.field_specs.values()]
        for spec in self.schema.field_specs.values():
            if spec.incoming is not None and spec.incoming.name not in self.schema.field_specs:
                columns.append(ReaderColumn(spec.incoming.name, spec.incoming.data_type))
        return tuple(columns)

    def convert(self, rows: InputBatch, ledger: RowLedger) -> pa.RecordBatch:
        """Storage form of a batch without its bad rows, which go to the ledger with their first cause."""
        names = set(rows.batch.schema.names)
        num_rows = rows.batch.num_rows
        causes: dict[int, tuple[str, str]] = {}
        arrays = []
        for spec in self.schema.field_specs.values():
            converted = self._column(spec, rows.batch, names)
            for bad in converted.bad:
                causes.setdefault(bad.row, (spec.name, bad.cause))
            arrays.append(converted.array)
        # A dictionary of text is as good as text; the types of other columns are those of the contract.
        batch = pa.RecordBatch.from_arrays(arrays, list(self.schema.field_specs))
        ledger.num_rows_read += num_rows
        if causes:
            keep: NDArray[np.bool_] = np.ones(num_rows, dtype=np.bool_)
            for row in sorted(causes):
                keep[row] = False
                ledger.reject(int(rows.row_numbers[row]), *causes[row])
            batch = batch.filter(pa.array(keep))
        ledger.num_rows_indexed += batch.num_rows
        return batch

    def _column(self, spec: FieldSpec, batch: pa.RecordBatch, names: set[str]) -> Converted:
        values = batch.column(spec.name) if spec.name in names else None
        source_format, source_type = spec.date_time_format, spec.data_type
        # Of a column that comes in under its outgoing name the values are outgoing ones already.
        if spec.incoming is not None and spec.outgoing is not None and spec.incoming.name in names:
            values = batch.column(spec.incoming.name)
            source_format, source_type = parse_format(spec.incoming.format_text), spec.incoming.data_type
        if values is None:
            if spec.name in self._expressions:
                expression = self._expressions[spec.name]
                raise InvalidConfigError(
                    f"column '{spec.name}' is to be computed, which this version does not do:",
                    (Fault(f"$.{spec.name}.transformFunction", f"'{expression}'", "input files that hold the column"),),
                )
            return Converted(pa.nulls(batch.num_rows, storage_type(spec)))
        if not spec.single_value:
            return cast_lists(values, spec)
        single = _single_values(values, source_type)
        cast = cast_values(single.array, source_type, source_format).after(single)
        if source_format is not None and source_format != spec.date_time_format and spec.date_time_format is not None:
            converted = between_formats(cast.array, source_format, spec.date_time_format).after(cast)
            cast = cast_values(converted.array, spec.data_type, spec.date_time_format).after(converted)
        checked = self._time_checked(spec, cast)
        return sanitize(checked.array, spec).after(checked)

    def _time_checked(self, spec: FieldSpec, column: Converted) -> Converted:
        """Rows outside 1971..2071 are bad with ingestionConfig.rowTimeValueCheck."""
        if not self._checks_time or spec.name != self._time_column:
            return column
        millis = to_millis(column.array, spec.date_time_format or DateTimeFormat(kind=parse_format("TIMESTAMP").kind))
        low, high = VALID_TIME_MS
        outside = pc.fill_null(pc.or_(pc.less(millis.array, low), pc.greater(millis.array, high)), False)
        rows = np.flatnonzero(np.asarray(outside))
        bad = [Bad(int(row), f"time {column.array[int(row)].as_py()} is outside of 1971 to 2071") for row in rows]
        return Converted(column.array, [*column.bad, *millis.bad, *bad])


def storage_type(spec: FieldSpec) -> pa.DataType:
    """Arrow type of a column in storage form."""
    return spec.data_type.arrow if spec.single_value else pa.list_(spec.data_type.arrow)


def _single_values(values: pa.Array, data_type: DataType) -> Converted:
    """Lists in a single-valued column: a list of one is its value, an empty one is null, a longer one is bad."""
    if not (pa.types.is_list(values.type) or pa.types.is_large_list(values.type)) or data_type in (DataType.JSON, DataType.STRING, DataType.MAP):
        return Converted(values)
    lengths = pc.fill_null(pc.list_value_length(values), 0)
    rows = np.flatnonzero(np.asarray(pc.greater(lengths, 1)))
    bad = [Bad(int(row), f"{lengths[int(row)].as_py()} values, expected one for a single-valued column") for row in rows]
    counts: NDArray[np.int64] = np.asarray(lengths, dtype=np.int64)
    # Each row takes the first of its values; where it has none, null.
    starts = np.cumsum(counts) - counts
    indices = pa.array(starts, pa.int64(), mask=counts == 0)
    return Converted(values.flatten().take(indices), bad)


def _refuse_unknown_steps(table_config: TableConfig | None) -> None:
    ingestion = table_config.ingestion if table_config is not None else None
    if ingestion is None:
        return
    faults = []
    if ingestion.filter_config is not None and ingestion.filter_config.filter_function:
        faults.append(
            Fault("$.ingestionConfig.filterConfig.filterFunction", f"'{ingestion.filter_config.filter_function}'", "none: filters are not evaluated yet")
        )
    if ingestion.complex_type_config is not None and ingestion.complex_type_config.fields_to_unnest:
        faults.append(Fault("$.ingestionConfig.complexTypeConfig.fieldsToUnnest", "fields", "none: records are not unnested yet"))
    if faults:
        raise InvalidConfigError("rows cannot be ingested as the table config asks:", tuple(faults))


def read_rows(
    file: InputFile,
    file_format: FileFormat,
    pipeline: RowPipeline,
    ledger: RowLedger,
    *,
    reader_config: Mapping[str, Any] | None = None,
    progress: Progress = lambda done, total: None,
) -> Iterator[pa.RecordBatch]:
    """Storage form of a file's rows, batch by batch. After the last batch `ledger` holds all counts.

    Raises:
        DecodeError: the file cannot be read on (file and row), or more rows are bad than the pipeline allows (all causes).
        InvalidConfigError: unknown reader settings.
    """

    def reject(row: int, column: str, cause: str) -> None:
        ledger.num_rows_read += 1
        ledger.reject(row, column, cause)

    batches = reader_for(file_format)(file, pipeline.reader_columns, reader_config or {}, reject, progress)
    while True:
        try:
            rows = next(batches, None)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise file.broken(f"damaged gzip file: {str(error).lower()}", row=ledger.num_rows_read + 1) from error
        if rows is None:
            break
        batch = pipeline.convert(rows, ledger)
        if pipeline.reject_share_max == 0 and ledger.num_rows_rejected >= _HOPELESS_ROWS:
            ledger.check(0)
        if batch.num_rows:
            yield batch
    ledger.check(pipeline.reject_share_max)
