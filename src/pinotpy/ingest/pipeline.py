"""Rows in input form → rows in storage form: one Arrow column a schema column, ready for `segment.build.builder`.

    reader → nested records made flat → filter → time conversion → cast → lists → computed columns → length limits
        → rejected rows out → builder

Null stays null (the builder stores the default value and sets the null bit); a column that the input lacks is null
throughout. A column with a transformFunction is computed in the rows for which the file has no value of it; what the
file holds is kept (reference: ExpressionTransformer). Every row that does not fit is counted with file, row, column and
cause, every row that the filter leaves out is counted as filtered, and none is left out silently.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pinotpy.arrays import distinct
from pinotpy.config.ingestion import MissingColumns
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.data_types import DataType
from pinotpy.errors import Fault, InvalidConfigError, PinotError
from pinotpy.ingest.columns import Columns, storage_type
from pinotpy.ingest.complex_types import ComplexTypePlan
from pinotpy.ingest.conversion import Converted
from pinotpy.ingest.converting_ahead import ConvertingAhead
from pinotpy.ingest.folder_values import FolderValues
from pinotpy.ingest.ledger import RowLedger
from pinotpy.ingest.missing_columns import expected_columns, fault_text, missing_columns_of, no_field_text
from pinotpy.ingest.readers.catalog import reader_for
from pinotpy.ingest.readers.compression import DamagedArchiveError
from pinotpy.ingest.readers.spec import FileFormat, InputBatch, InputFile, Progress, ReaderColumn
from pinotpy.ingest.record_time import RECORD_TIME
from pinotpy.ingest.transforms import TransformPlan

__all__ = ["RowPipeline", "read_rows", "storage_type"]

# Once this many rows of a file are bad and none may be, the rest would tell nothing new.
_HOPELESS_ROWS: Final = 1000


class RowPipeline:
    """Makes storage form of batches of one table. Holds no state of rows; may be shared between threads.

    Args:
        schema: the columns.
        table_config: its ingestionConfig says whether bad rows may be left out (continueOnError) and times are checked.
        reject_share_max: largest share of bad rows of a file, 0 to 1; default: 0, or 1 with continueOnError.
        missing_columns: what becomes of files that lack columns; default: what the table says, else FAIL.
        of_records: the rows are records of a stream: batches have the column RECORD_TIME if `reads_record_time`.

    Raises:
        InvalidConfigError: expressions that cannot be evaluated (all of them), or steps that there are not.
    """

    def __init__(
        self,
        schema: Schema,
        table_config: TableConfig | None = None,
        *,
        reject_share_max: float | None = None,
        missing_columns: MissingColumns | None = None,
        of_records: bool = False,
    ) -> None:
        ingestion = table_config.ingestion if table_config is not None else None
        self.schema = schema
        self.reject_share_max = (
            reject_share_max
            if reject_share_max is not None
            else float(ingestion is not None and ingestion.continue_on_error)
        )
        self.missing_columns = missing_columns or missing_columns_of(table_config)
        self.time_column = table_config.segments.time_column_name if table_config is not None else None
        checks_time = table_config is not None and ingestion is not None and ingestion.row_time_value_check
        self._checked_time_column = self.time_column if checks_time else None
        self._transforms = TransformPlan(schema, table_config, of_records=of_records)
        _refuse_unknown_steps(table_config)
        complex_types = ingestion.complex_type_config if ingestion is not None else None
        self._complex_types = ComplexTypePlan(complex_types, self.flat_columns()) if complex_types is not None else None
        mapped = self._transforms.mapped_columns
        self.expected = expected_columns(
            schema,
            set(self._transforms.transforms) - mapped,
            {name: self._fields_of(name) for name in schema.field_specs},
        )

    @property
    def reader_columns(self) -> tuple[ReaderColumn, ...]:
        """What a reader shall read."""
        return self._complex_types.reader_columns if self._complex_types is not None else self.flat_columns()

    @property
    def reads_record_time(self) -> bool:
        """Whether an expression reads the time of its record."""
        return RECORD_TIME in self._transforms.source_columns

    def computes(self, name: str) -> bool:
        """Whether a column has an expression, which gives it values that no record has."""
        return name in self._transforms.transforms

    def flat_columns(self) -> tuple[ReaderColumn, ...]:
        """The schema's columns, an incoming time column of another name, and what expressions name."""
        mapped = self._transforms.mapped_columns
        columns = [
            ReaderColumn(spec.name, DataType.STRING if spec.name in mapped else spec.data_type, spec.single_value)
            for spec in self.schema.field_specs.values()
        ]
        for spec in self.schema.field_specs.values():
            if spec.incoming is not None and spec.incoming.name not in self.schema.field_specs:
                columns.append(ReaderColumn(spec.incoming.name, spec.incoming.data_type))
        known = {column.name for column in columns}
        # Text: as the file has it, objects as JSON.
        columns += [
            ReaderColumn(name, DataType.STRING)
            for name in self._transforms.source_columns
            if name not in known and name != RECORD_TIME
        ]
        return tuple(columns)

    def _fields_of(self, name: str) -> frozenset[str]:
        """The fields of a file of which any fills a column of the schema."""
        incoming = self.schema.field_specs[name].incoming
        names = {name, incoming.name if incoming is not None else name}
        computed = self._transforms.transforms.get(name)
        names |= set(computed.columns) - set(self.schema.field_specs) if computed is not None else set()
        return (
            frozenset().union(*(self._complex_types.fields_of(column) for column in names))
            if self._complex_types is not None
            else frozenset(names)
        )

    def note_fields(self, file: InputFile, folders: Collection[str], ledger: RowLedger, *, at_end: bool) -> None:
        """Note which columns the file lacks, as soon as that is known: of a file that declares its fields before its
        first row.

        Raises DecodeError where it may not, and where it has none of them. Of records that name their own fields the
        job decides which may be missing, since it sees all its files.
        """
        fields = file.fields
        if fields is None or fields.declared == at_end:
            return
        if len(self.expected.missing(fields.names)) == len(self.expected.sources) and (
            fields.declared or ledger.num_rows_indexed
        ):
            raise file.broken(no_field_text(self.schema.schema_name, self.expected.sources, fields.names))
        if not (fields.declared or fields.names):
            return
        ledger.missing_columns = self.expected.missing(fields.names | set(folders))
        ledger.other_fields = self.expected.others(fields.names)
        if not ledger.missing_columns:
            return
        faults = self.expected.faults(ledger.missing_columns)
        if fields.declared and faults and self.missing_columns is MissingColumns.FAIL:
            raise file.broken(
                f"the file lacks {len(faults)} of the columns of schema '{self.schema.schema_name}': "
                f"{fault_text(faults, ledger.other_fields)}"
            )

    def flat(self, rows: InputBatch, ledger: RowLedger) -> Iterator[InputBatch]:
        """The batch as the table's complexTypeConfig flattens and unnests it; without one, as it is."""
        if self._complex_types is None:
            yield rows
            return

        def reject(row: int, column: str, cause: str) -> None:
            ledger.num_rows_read += 1
            ledger.reject(int(rows.row_numbers[row]), column, cause, _text_of(rows.batch, row, ledger))

        ledger.unmapped += self._complex_types.unmapped(rows.batch)
        for batch, sources in self._complex_types.flat(rows.batch, reject):
            num_added = batch.num_rows - len(distinct(sources))
            ledger.num_rows_added += num_added
            ledger.num_rows_read -= num_added
            yield InputBatch(batch, rows.row_numbers[sources])

    def convert(self, rows: InputBatch, ledger: RowLedger) -> pa.RecordBatch:
        """As `convert_numbered`, without the numbers."""
        return self.convert_numbered(rows, ledger).batch

    def convert_numbered(self, rows: InputBatch, ledger: RowLedger) -> InputBatch:
        """Storage form of a batch without the rows that the filter leaves out and its bad rows, which go to the ledger
        with their first cause. Raises InvalidConfigError for expressions that cannot be evaluated over the types of
        these rows.
        """
        if self._transforms.filter is not None:
            rows = self._filtered(rows, ledger)
        num_rows = rows.batch.num_rows
        causes: dict[int, tuple[str, str]] = {}
        arrays = []
        changes = []
        columns = Columns(self._transforms, rows.batch, self._checked_time_column)
        for spec in self.schema.field_specs.values():
            converted = columns.checked(spec)
            for bad in converted.bad:
                causes.setdefault(bad.row, (spec.name, bad.cause))
            arrays.append(converted.array)
            changes.append(converted)
        # A dictionary of text is as good as text; the types of other columns are those of the contract.
        batch = pa.RecordBatch.from_arrays(arrays, list(self.schema.field_specs))
        ledger.num_rows_read += num_rows
        keep: NDArray[np.bool_] = np.ones(num_rows, dtype=np.bool_)
        if causes:
            for row in sorted(causes):
                keep[row] = False
                ledger.reject(int(rows.row_numbers[row]), *causes[row], _text_of(rows.batch, row, ledger))
            batch = batch.filter(pa.array(keep))
        ledger.num_rows_indexed += batch.num_rows
        self._count(batch, changes, keep, ledger)
        return InputBatch(batch, rows.row_numbers[keep] if causes else rows.row_numbers)

    def _count(
        self, batch: pa.RecordBatch, columns: Sequence[Converted], keep: NDArray[np.bool_], ledger: RowLedger
    ) -> None:
        """Note what the indexed rows do not have as the file has it."""
        for name, array, column in zip(batch.schema.names, batch.columns, columns, strict=True):
            num_not_numbers = _num_not_numbers(array)
            dropped, replaced = (num_not_numbers, 0) if pa.types.is_list(array.type) else (0, num_not_numbers)
            for counter, count in (
                (ledger.nulls, array.null_count),
                (ledger.cuts, np.count_nonzero(keep[column.cut])),
                (ledger.replaced, np.count_nonzero(keep[column.replaced]) + replaced),
                (ledger.dropped, np.count_nonzero(keep[column.dropped]) + dropped),
            ):
                if count:
                    counter[name] += int(count)
        if self.time_column in self.schema.field_specs:
            ledger.num_null_times += batch.column(self.time_column).null_count

    def _filtered(self, rows: InputBatch, ledger: RowLedger) -> InputBatch:
        """The rows that go on: neither left out by the filter nor such that it cannot be evaluated, which are bad."""
        columns = Columns(self._transforms, rows.batch)
        verdict = columns.transforms.filtered()
        bad = {bad.row: bad.cause for bad in verdict.bad}
        if not bad and not pc.any(verdict.array).as_py():
            return rows
        keep: NDArray[np.bool_] = ~np.asarray(
            pc.fill_null(verdict.array, False).to_numpy(zero_copy_only=False), np.bool_
        )
        ledger.num_rows_filtered += int(np.count_nonzero(~keep))
        for row in sorted(bad):
            keep[row] = False
            ledger.reject(int(rows.row_numbers[row]), "", bad[row], _text_of(rows.batch, row, ledger))
        ledger.num_rows_read += int(np.count_nonzero(~keep))
        return InputBatch(rows.batch.filter(pa.array(keep)), rows.row_numbers[keep])


def _num_not_numbers(array: pa.Array) -> int:
    """NaN among floats, also in lists: the builder knows none."""
    values = array.flatten() if pa.types.is_list(array.type) else array
    return int(pc.sum(pc.is_nan(values)).as_py() or 0) if pa.types.is_floating(values.type) else 0


def _text_of(batch: pa.RecordBatch, row: int, ledger: RowLedger) -> str:
    """The row as it was read, as JSON: a reject file shows what to mend."""
    if not ledger.keeps_text:
        return ""
    values = {name: _shown(batch.column(name)[row]) for name in batch.schema.names}
    return json.dumps(
        {name: value for name, value in values.items() if value is not None}, ensure_ascii=False, default=str
    )


def _shown(value: pa.Scalar) -> Any:
    try:
        return value.as_py()
    except (ValueError, OverflowError):
        pass  # a time that Python does not have
    try:
        return value.cast(pa.string()).as_py()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return "…"


def _refuse_unknown_steps(table_config: TableConfig | None) -> None:
    ingestion = table_config.ingestion if table_config is not None else None
    if ingestion is None:
        return
    steps = {
        "schemaConformingTransformerConfig": ingestion.schema_conforming_transformer_config,
        "enrichmentConfigs": ingestion.enrichment_configs,
    }
    faults = [
        Fault(f"$.ingestionConfig.{name}", "settings", "none: this step is not there")
        for name, settings in steps.items()
        if settings
    ]
    if faults:
        raise InvalidConfigError("rows cannot be ingested as the table config asks:", tuple(faults))


def read_rows(
    file: InputFile,
    file_format: FileFormat,
    pipeline: RowPipeline,
    ledger: RowLedger,
    *,
    reader_config: Mapping[str, Any] | None = None,
    folders: Sequence[tuple[str, str | None]] = (),
    progress: Progress = lambda done, total: None,
    threads: int = 0,
) -> Iterator[pa.RecordBatch]:
    """Storage form of a file's rows, batch by batch. After the last batch `ledger` holds all counts.

    Args:
        threads: that convert batches while the next ones are read; 0: the caller's does all. The rows are the same.
        folders: names and values that the file's path tells (`folder_values.folder_texts`).

    Raises:
        DecodeError: the file cannot be read on (file and row), was written to meanwhile, or more rows are bad than the
            pipeline allows (all causes).
        InvalidConfigError: unknown reader settings.
    """

    def convert(rows: InputBatch, part: RowLedger) -> list[pa.RecordBatch]:
        batches = [pipeline.convert(flat_rows, part) for flat_rows in pipeline.flat(rows, part)]
        return [batch for batch in batches if batch.num_rows]

    ahead = ConvertingAhead(convert, ledger, threads)
    folder_values = FolderValues(file, folders, pipeline.flat_columns(), pipeline.schema)
    batches = reader_for(file_format)(file, pipeline.reader_columns, reader_config or {}, ahead.reject, progress)
    is_noted = False
    with closing(ahead):
        while True:
            try:
                rows = next(batches, None)
            except DamagedArchiveError as error:
                yield from ahead.rest()
                raise file.broken(str(error), row=ledger.num_rows_read + 1) from error
            except PinotError:
                yield from ahead.rest()
                raise
            if not is_noted:
                pipeline.note_fields(file, folder_values.names, ledger, at_end=False)
                is_noted = True
            yield from ahead.after(folder_values.filled(rows)) if rows is not None else ahead.rest()
            if pipeline.reject_share_max == 0 and ledger.num_rows_rejected - ledger.num_rows_skipped >= _HOPELESS_ROWS:
                ledger.check(0)
            if rows is None:
                break
    pipeline.note_fields(file, folder_values.names, ledger, at_end=True)
    file.check_unchanged()
    ledger.check(pipeline.reject_share_max)
