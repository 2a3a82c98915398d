"""Rows of a table, of SQL text or of any reader of Spark's, as parcels.

Such rows have no file and no position, and Spark may deliver them in any order. So their order is made of what they
are: two hashes of all their columns, by which each row also gets its cell, the smallest part that a segment is cut at.
A rerun over the same rows builds the same segments, whoever reads them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from pinotpy.config.ingestion import MissingColumns
from pinotpy.config.schema import Schema
from pinotpy.data_types import DataType
from pinotpy.errors import DecodeError, PinotError, UserError
from pinotpy.ingest.jobs.build import with_checked_times
from pinotpy.ingest.jobs.context import JobContext
from pinotpy.ingest.jobs.dealt_rows import DealtFile, deal_rows
from pinotpy.ingest.jobs.file_reports import file_report, joined_report
from pinotpy.ingest.jobs.report import UnitReport, failed_unit
from pinotpy.ingest.jobs.spec import IngestionJobSpec
from pinotpy.ingest.ledger import RowLedger
from pinotpy.ingest.missing_columns import fault_text
from pinotpy.ingest.pipeline import RowPipeline
from pinotpy.ingest.readers.spec import InputBatch, numbered
from pinotpy.ingest.row_groups import RowGroups
from pinotpy.ingest.row_order import sort_rows
from pinotpy.spark_jobs.folders import frame_of_folder
from pinotpy.spark_jobs.parcels import PARCEL_ROWS, parcel_row, report_row
from pinotpy.spark_jobs.source_files import FILE_COLUMN, FORMAT_OPTION, file_number
from pinotpy.spark_jobs.task import SparkJob, task_cores, task_folder

HASH_COLUMNS: Final = ("pinotpy_row_hash_1", "pinotpy_row_hash_2")
# Segments are cut between cells: they may differ from the size that was asked for by as much as one.
_CELLS_PER_SEGMENT: Final = 16
_CELL_MARK: Final = "#"
# Every field, and times to their last digit.
_JSON_OPTIONS: Final = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


def reads_by_spark(spec: IngestionJobSpec) -> bool:
    """Whether Spark's readers are asked for, not ours."""
    additions = spec.pinotpy
    return bool(additions.source_table or additions.source_query or FORMAT_OPTION in additions.source_options)


def source_name(spec: IngestionJobSpec) -> str:
    """The input, as reports call it."""
    additions = spec.pinotpy
    if additions.source_table:
        return f"table {additions.source_table}"
    return f"query {additions.source_query[:200]}" if additions.source_query else str(spec.input_dir_uri)


def source_frame(spark: Any, spec: IngestionJobSpec, pipeline: RowPipeline) -> Any:
    """The wanted columns of the input, two hashes of each row, and the number of its file.

    Raises UserError (folders that contradict their files: DecodeError) if the input has none of the columns, lacks one
    that must be there, or has one twice.
    """
    from pyspark.sql import functions as F

    options = dict(spec.pinotpy.source_options)
    file_format = options.pop(FORMAT_OPTION, None)
    if spec.pinotpy.source_query:
        frame = spark.sql(spec.pinotpy.source_query)
    elif spec.pinotpy.source_table:
        frame = spark.read.options(**options).table(spec.pinotpy.source_table)
    else:
        frame = frame_of_folder(spark, file_format, options, str(spec.input_dir_uri), pipeline)
    column_names = {column.name for column in pipeline.reader_columns}
    names = [name for name in frame.columns if name in column_names]
    if not names:
        raise UserError(
            f"{source_name(spec)} has none of the columns of schema '{pipeline.schema.schema_name}': found "
            f"{', '.join(frame.columns[:20]) or 'no column'}"
        )
    faults = pipeline.expected.faults(pipeline.expected.missing(names))
    if faults and pipeline.missing_columns is MissingColumns.FAIL:
        others = pipeline.expected.others(frame.columns)
        raise UserError(
            f"{source_name(spec)} lacks {len(faults)} of the columns of schema '{pipeline.schema.schema_name}': "
            f"{fault_text(faults, others)}"
        )
    if len(set(names)) < len(names):
        raise UserError(
            f"{source_name(spec)} has a column of the schema twice: {', '.join(sorted(names)[:20])}; give them "
            "different names (AS)"
        )
    columns = [F.col(f"`{name}`") for name in names]
    hashed = [
        expression
        for column, (_, kind) in zip(columns, frame.select(*columns).dtypes, strict=True)
        for expression in _hashed(column, kind)
    ]
    hashes = [F.xxhash64(*hashed).alias(HASH_COLUMNS[0]), F.xxhash64(F.lit("second"), *hashed).alias(HASH_COLUMNS[1])]
    return frame.select(*columns, *hashes, file_number(spec).alias(FILE_COLUMN))


def _hashed(column: Any, kind: str) -> list[Any]:
    """What goes into the hashes of a column, so that rows which differ have different ones.

    Spark's hash passes nulls over wherever they stand: (1, null) and (null, 1) have one. So have -0.0 and 0.0, texts
    that a collation takes for equal, and lists of lists with the same entries; maps have no hash.
    """
    from pyspark.sql import functions as F

    if kind.startswith(("array<", "map<", "struct<", "variant")):
        return [F.to_json(column, _JSON_OPTIONS), column.isNull()]
    value = column.cast("binary") if kind.startswith(("string", "char", "varchar")) else column
    signed = [F.when(column == 0, column.cast("string"))] if kind in ("float", "double") else []
    return [value, *signed, column.isNull()]


def with_hash_columns(schema: Schema) -> Schema:
    """The schema with the columns that carry rows' hashes, and the number of their file, through the pipeline."""
    document = schema.to_json_dict()
    hashes = [{"name": name, "dataType": DataType.LONG.value} for name in (*HASH_COLUMNS, FILE_COLUMN)]
    return Schema.from_json({**document, "dimensionFieldSpecs": [*document.get("dimensionFieldSpecs", []), *hashes]})


def num_cells_of(num_rows: int, rows_per_segment: int) -> int:
    """Cells that the rows of each group are dealt to, so that segments can be cut between them."""
    return max(1, -(-num_rows * _CELLS_PER_SEGMENT // rows_per_segment))


def in_order_of_hashes(batches: list[pa.RecordBatch], schema: Schema) -> list[pa.RecordBatch]:
    """Rows by their hashes ascending, and without them; the list is emptied."""
    rows = sort_rows(batches, with_hash_columns(schema), HASH_COLUMNS)
    return [batch.select(list(schema.field_specs)) for batch in rows]


@dataclass(frozen=True, slots=True)
class CellGroups:
    """Groups of rows, each dealt to cells by the first hash: `split` as of RowGroups, with keys of `cell_key`."""

    groups: RowGroups
    num_cells: int

    def split(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        for group, rows in self.groups.split(batch):
            cells = np.asarray(rows.column(HASH_COLUMNS[0])).astype(np.int64) % self.num_cells
            order = np.argsort(cells, kind="stable")
            arranged = rows.take(pa.array(order))
            distinct_cells, starts = np.unique(cells[order], return_index=True)
            for cell, start, end in zip(
                distinct_cells.tolist(), starts.tolist(), [*starts[1:].tolist(), len(cells)], strict=True
            ):
                yield f"{group}{_CELL_MARK}{cell}", arranged.slice(start, end - start)


def deal_source(batches: Iterable[pa.RecordBatch], job: SparkJob, num_cells: int) -> Iterator[pa.RecordBatch]:
    """Rows in input form with their hashes → parcels, and one report row. Runs in executors."""
    task_cores()
    context, (unit,) = job.context, job.units
    schema = with_hash_columns(context.schema)
    # The share of bad rows is one of all rows, of which this task sees some.
    pipeline = RowPipeline(schema, context.table_config, reject_share_max=1.0)
    ledger, error = RowLedger(unit.inputs[0].uri), None

    def stored() -> Iterator[pa.RecordBatch]:
        first_row = 1
        for batch in batches:
            for rows in pipeline.flat(InputBatch(batch, numbered(first_row, batch.num_rows)), ledger):
                yield pipeline.convert(rows, ledger)
            first_row += batch.num_rows

    with task_folder() as folder:
        dealt = folder / "dealt"
        try:
            num_rows = deal_rows(
                with_checked_times(context, stored(), ledger.file),
                CellGroups(context.groups, num_cells),
                schema,
                dealt,
                context.spec.pinotpy.memory_bytes_max,
            )
        except PinotError as failed:
            if failed.retriable:
                raise
            error, num_rows = failed, {}
        if num_rows:
            with DealtFile(dealt) as file:
                for key, count in sorted(num_rows.items()):
                    group, _, cell = key.rpartition(_CELL_MARK)
                    for batch in file.rows(key, 0, count):
                        for start in range(0, batch.num_rows, PARCEL_ROWS):
                            yield parcel_row(group, int(cell), int(cell), batch.slice(start, PARCEL_ROWS))
    report = failed_unit(0, error) if error is not None else UnitReport(0, (file_report(ledger.file, 0, ledger),))
    yield report_row(0, json.dumps(report.to_json_dict()).encode())


def source_report(reports: Sequence[UnitReport], context: JobContext, columns: Sequence[str]) -> UnitReport:
    """The reports of all tasks as one; `columns`: those that the source has. More bad rows than the job allows are an
    error, as they are of a file.
    """
    failed = next((report for report in reports if report.error is not None), None)
    files = [file for report in reports for file in report.files]
    whole = replace(joined_report(files), missing_columns=context.pipeline.expected.missing(columns))
    if failed is not None:
        return UnitReport(0, (whole,), error=failed.error, code=failed.code)
    allowed = context.pipeline.reject_share_max
    num_rows = whole.num_rows_read + whole.num_rows_added
    # The quotient, as of files: 0.29 * 100 is less than 29.
    if num_rows and whole.num_rows_rejected / num_rows > allowed:
        causes = "; ".join(
            f"row {sample.row} column '{sample.column}': {sample.cause}" for sample in whole.reject_samples[:5]
        )
        error = (
            f"'{whole.uri}': {whole.num_rows_rejected} of {num_rows} rows are bad, allowed is a share of "
            f"{allowed:g}: {causes}"
        )
        return UnitReport(0, (whole,), error=error, code=DecodeError.code)
    return UnitReport(0, (whole,))
