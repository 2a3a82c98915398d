"""A decoder whose parser makes input form of payloads, and whose rows go through the ingestion pipeline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from pinotpy.arrays import Int64Array
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.errors import PinotError
from pinotpy.ingest.decoders.ledger import SAMPLE_CHARACTERS_MAX, StreamLedger
from pinotpy.ingest.decoders.spec import DecodedRows
from pinotpy.ingest.ledger import RowLedger
from pinotpy.ingest.pipeline import RowPipeline
from pinotpy.ingest.readers.spec import InputBatch, Reject
from pinotpy.ingest.record_time import RECORD_TIME, record_times, with_record_times
from pinotpy.stream.spec import StreamBatch

# (payloads of a batch, which of them, reject) → input form, in one part or several; row numbers count the batch's
# records from 1. Nothing is raised but PinotError.
Parse = Callable[[pa.Array, Int64Array, Reject], list[InputBatch]]
# The same of payloads as a list, and of their row numbers.
ParseList = Callable[[Sequence[bytes], Sequence[int], Reject], InputBatch]
_NO_RECORDS: Final = np.zeros(0, np.int64)


def parse_of_lists(parse: ParseList) -> Parse:
    """For parsers that want payloads one by one."""

    def parse_array(payloads: pa.Array, numbers: Int64Array, reject: Reject) -> list[InputBatch]:
        return [parse(payloads.take(pa.array(numbers)).to_pylist(), (numbers + 1).tolist(), reject)]

    return parse_array


def stream_pipeline(schema: Schema, table_config: TableConfig) -> RowPipeline:
    """What becomes of a table's records: bad ones are left out, clock functions are the records' times."""
    return RowPipeline(schema, table_config, reject_share_max=1.0, of_records=True)


class PipedDecoder:
    """Implements RowDecoder.

    Args:
        parse: gets the numbers of payloads that are no tombstones.
        fields_of: names of the fields of a payload, () where it has none; for records that name their own.
    """

    def __init__(
        self, pipeline: RowPipeline, parse: Parse, fields_of: Callable[[bytes], tuple[str, ...]] = lambda payload: ()
    ) -> None:
        self._pipeline = pipeline
        self._parse = parse
        self._fields_of = fields_of
        self._from_records = tuple(name for name in pipeline.schema.field_specs if not pipeline.computes(name))
        self._empty: pa.RecordBatch | None = None
        self._times_ms: Int64Array = _NO_RECORDS  # of the batch that is decoded

    def decode(self, batch: StreamBatch, ledger: StreamLedger) -> DecodedRows:
        payloads = batch.payloads
        present: Int64Array = np.flatnonzero(np.asarray(payloads.is_valid())).astype(np.int64)
        counts = RowLedger("stream", reject_rows=[])
        self._times_ms = batch.times_ms
        parts = self._decoded(payloads, present, counts) if len(present) else []
        ledger.expected = self._from_records
        ledger.add(counts, len(payloads), len(payloads) - len(present), batch.offsets)
        if ledger.has_no_field():
            ledger.fields = self._fields_of(payloads[int(present[0])].as_py())
        if len(parts) == 1:
            return DecodedRows(parts[0].batch, parts[0].row_numbers - 1)
        if not parts:
            return DecodedRows(self._no_rows(), _NO_RECORDS)
        return _merged(parts)

    def _decoded(self, payloads: pa.Array, numbers: Int64Array, counts: RowLedger) -> list[InputBatch]:
        """Storage form of the records `numbers`, in parts."""
        attempt = RowLedger("stream", reject_rows=[])
        try:
            parts = self._attempt(payloads, numbers, attempt)
        except PinotError as error:
            # Something about these records does not go with the table's expressions: the bad ones are found by halving.
            if len(numbers) == 1:
                text = payloads[int(numbers[0])].as_py()[: 4 * SAMPLE_CHARACTERS_MAX].decode("utf-8", "replace")
                counts.num_rows_read += 1
                counts.reject(int(numbers[0]) + 1, "", error.message, text)
                return []
            half = len(numbers) // 2
            return [*self._decoded(payloads, numbers[:half], counts), *self._decoded(payloads, numbers[half:], counts)]
        _add(counts, attempt)
        return parts

    def _attempt(self, payloads: pa.Array, numbers: Int64Array, ledger: RowLedger) -> list[InputBatch]:
        def reject(row: int, column: str, cause: str, text: str = "", *, allowed: bool = False) -> None:
            ledger.num_rows_read += 1
            ledger.reject(row, column, cause, text, allowed=allowed)

        parts = [
            self._with_times(self._pipeline.convert_numbered(self._timed(flat), ledger))
            for rows in self._parse(payloads, numbers, reject)
            for flat in self._pipeline.flat(rows, ledger)
        ]
        return [part for part in parts if part.batch.num_rows]

    def _timed(self, rows: InputBatch) -> InputBatch:
        """With the times of records, if an expression reads them."""
        if not self._pipeline.reads_record_time:
            return rows
        times = record_times(self._times_ms[rows.row_numbers - 1])
        return InputBatch(rows.batch.append_column(RECORD_TIME, times), rows.row_numbers)

    def _with_times(self, rows: InputBatch) -> InputBatch:
        """With the times of records where the table's time column has none."""
        spec = self._pipeline.schema.field_specs.get(self._pipeline.time_column or "")
        if spec is None or not spec.single_value:
            return rows
        times_ms = self._times_ms[rows.row_numbers - 1]
        return InputBatch(with_record_times(rows.batch, spec, times_ms), rows.row_numbers)

    def _no_rows(self) -> pa.RecordBatch:
        if self._empty is None:
            fields = [
                pa.field(spec.name, spec.data_type.arrow if spec.single_value else pa.list_(spec.data_type.arrow))
                for spec in self._pipeline.schema.field_specs.values()
            ]
            self._empty = pa.RecordBatch.from_pylist([], pa.schema(fields))
        return self._empty


def _merged(parts: list[InputBatch]) -> DecodedRows:
    """Rows of several parts in the order of their records; those of one record stay as they are."""
    records: Int64Array = np.concatenate([part.row_numbers for part in parts]) - 1
    rows = pa.Table.from_batches([_plain(part.batch) for part in parts]).combine_chunks().to_batches()[0]
    order = np.argsort(records, kind="stable")
    return DecodedRows(rows.take(pa.array(order)), records[order])


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Dictionaries of texts as texts, so that parts can stand behind each other."""
    arrays = [column.dictionary_decode() if pa.types.is_dictionary(column.type) else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(arrays, batch.schema.names)


def _add(counts: RowLedger, attempt: RowLedger) -> None:
    counts.num_rows_read += attempt.num_rows_read
    counts.num_rows_indexed += attempt.num_rows_indexed
    counts.num_rows_rejected += attempt.num_rows_rejected
    counts.num_rows_filtered += attempt.num_rows_filtered
    counts.num_rows_added += attempt.num_rows_added
    counts.num_null_times += attempt.num_null_times
    counts.rejects += attempt.rejects
    counts.reject_rows = [*(counts.reject_rows or ()), *(attempt.reject_rows or ())]
    for of_column, mine in (
        (attempt.nulls, counts.nulls),
        (attempt.cuts, counts.cuts),
        (attempt.replaced, counts.replaced),
        (attempt.dropped, counts.dropped),
        (attempt.unmapped, counts.unmapped),
        (attempt.rejects_by_column, counts.rejects_by_column),
    ):
        mine.update(of_column)
