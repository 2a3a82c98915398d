"""Rows on their way from the files to their segments: many rows of one group in one row of Spark's.

Spark moves and sorts parcels instead of rows: one binary value of up to PARCEL_ROWS rows in storage form, as Arrow IPC.
So no type is lost, and a shuffle costs what copying bytes costs. Positions order the parcels of a group as their rows
stand in the input: file, then place in the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa

from pinotpy.ingest.jobs.dealt_rows import DealtFile

PARCEL_ROWS: Final = 1 << 17
# The number of a file is above this bit of a position, that of a parcel within the file below.
FILE_SHIFT: Final = 32
# Rows that a task holds before it writes them to its folder: as many tasks run beside each other as there are cores.
DEALT_BYTES_MAX: Final = 128 << 20

ROWS: Final = "rows"
REPORT: Final = "report"
PARCELS_DDL: Final = "kind STRING, group STRING, position LONG, offset LONG, num_rows LONG, contents BINARY"
_PARCELS: Final = pa.schema(
    [
        ("kind", pa.string()),
        ("group", pa.string()),
        ("position", pa.int64()),
        ("offset", pa.int64()),
        ("num_rows", pa.int64()),
        ("contents", pa.binary()),
    ]
)
_COMPRESSED: Final = pa.ipc.IpcWriteOptions(compression="lz4")


def parcels_of(folder: Path, num_rows: dict[str, int], first_position: int) -> Iterator[pa.RecordBatch]:
    """What `deal_rows` left in a folder, as rows of PARCELS_DDL; `offset`: rows of the group in the folder before the
    parcel.
    """
    position = first_position
    with DealtFile(folder) as dealt:
        for group, count in sorted(num_rows.items()):
            offset = 0
            for batch in dealt.rows(group, 0, count):
                for start in range(0, batch.num_rows, PARCEL_ROWS):
                    rows = batch.slice(start, PARCEL_ROWS)
                    yield parcel_row(group, position, offset, rows)
                    position += 1
                    offset += rows.num_rows


def parcel_row(group: str, position: int, offset: int, rows: pa.RecordBatch) -> pa.RecordBatch:
    """One parcel as a row of PARCELS_DDL."""
    return _row(ROWS, group, position, offset, rows.num_rows, pack(rows))


def report_row(position: int, contents: bytes) -> pa.RecordBatch:
    """What a task says of its input, as a row beside its parcels: it arrives once, however often the task ran."""
    return _row(REPORT, None, position, 0, 0, contents)


def pack(rows: pa.RecordBatch) -> bytes:
    """Rows as Arrow IPC, compressed."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=_COMPRESSED) as writer:
        writer.write_batch(rows)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def unpack(contents: bytes | pa.Buffer) -> pa.RecordBatch:
    """The rows of `pack`."""
    with pa.ipc.open_stream(contents) as reader:
        return reader.read_next_batch()


def _row(kind: str, group: str | None, position: int, offset: int, num_rows: int, contents: bytes) -> pa.RecordBatch:
    values = [[kind], [group], [position], [offset], [num_rows], [contents]]
    return pa.RecordBatch.from_arrays(
        [pa.array(value, field.type) for value, field in zip(values, _PARCELS, strict=True)], schema=_PARCELS
    )
