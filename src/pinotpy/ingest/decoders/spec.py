"""The door of decoders: a batch of a stream becomes rows in storage form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from pinotpy.arrays import Int64Array
from pinotpy.ingest.decoders.ledger import StreamLedger
from pinotpy.stream.spec import StreamBatch


@dataclass(frozen=True, slots=True)
class DecodedRows:
    """Rows of a batch.

    rows: storage form, as `PartitionLog.append` takes them: every column of the schema.
    records: int64, shape (rows.num_rows,): of which record of the batch each row was made; ascending, equal where one
        record gave several rows.
    """

    rows: pa.RecordBatch
    records: Int64Array


class RowDecoder(Protocol):
    """Makes rows of one table. Used by one thread at a time."""

    def decode(self, batch: StreamBatch, ledger: StreamLedger) -> DecodedRows:
        """The rows of a batch, without those that the table's filter leaves out and without bad ones. Whatever the
        payloads hold, nothing is raised: what became of each record is counted in `ledger`.
        """
        ...
