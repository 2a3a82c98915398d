"""Rows partitioned into groups, in one file of the working folder for each input file: written once, read by group.

The file is Arrow's IPC file with record batches of one group each; an index beside it says which batches a group has.
Groups are written when the buffered rows reach the limit, so memory is bounded by it and not by the input; a group's
batches keep the rows in input order.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.ipc

from pinotpy.config.schema import Schema
from pinotpy.errors import SegmentCorruptError
from pinotpy.ingest.columns import storage_type
from pinotpy.ingest.dictionary_arrays import plain
from pinotpy.ingest.row_groups import SplitsRows

_ROWS_FILE: Final = "rows.arrow"
_INDEX_FILE: Final = "index.json"


def deal_rows(
    batches: Iterable[pa.RecordBatch], groups: SplitsRows, schema: Schema, folder: Path, memory_bytes_max: int
) -> dict[str, int]:
    """Partition rows in storage form into groups; returns the number of rows of each group.

    Args:
        folder: gets the file and its index; made if missing, and removed again if anything fails.
        memory_bytes_max: bytes of rows that are held before they are written.

    Raises:
        DataError: a value by which rows cannot be dealt.
    """
    arrow_schema = pa.schema([pa.field(spec.name, storage_type(spec)) for spec in schema.field_specs.values()])
    held: dict[str, list[pa.RecordBatch]] = {}
    index: dict[str, list[tuple[int, int]]] = {}
    held_bytes = num_batches = 0
    folder.mkdir(parents=True, exist_ok=True)
    options = pa.ipc.IpcWriteOptions(compression="lz4" if pa.Codec.is_available("lz4") else None, use_threads=False)
    try:
        with (
            pa.OSFile(str(folder / _ROWS_FILE), "wb") as file,
            pa.ipc.new_file(file, arrow_schema, options=options) as writer,
        ):

            def flush() -> None:
                nonlocal num_batches
                for group in sorted(held):
                    table = pa.Table.from_batches(held[group]).combine_chunks()
                    for batch in table.to_batches():
                        writer.write_batch(batch)
                        index.setdefault(group, []).append((num_batches, batch.num_rows))
                        num_batches += 1
                held.clear()
                pa.default_memory_pool().release_unused()

            for batch in batches:
                for group, rows in groups.split(_plain(batch, arrow_schema)):
                    held.setdefault(group, []).append(rows)
                # Parts share the memory of their batch.
                held_bytes += batch.nbytes
                if held_bytes >= memory_bytes_max:
                    flush()
                    held_bytes = 0
            flush()
        (folder / _INDEX_FILE).write_text(json.dumps(index))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return dealt_counts(folder)


def dealt_counts(folder: Path) -> dict[str, int]:
    """What `deal_rows` returned for a folder: rows of each group."""
    index: dict[str, list[tuple[int, int]]] = json.loads((folder / _INDEX_FILE).read_text())
    return {group: sum(rows for _, rows in entries) for group, entries in sorted(index.items())}


class DealtFile:
    """What `deal_rows` left in a folder. To be used with `with`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            self._index: Mapping[str, list[tuple[int, int]]] = json.loads((folder / _INDEX_FILE).read_text())
            self._map = pa.memory_map(str(folder / _ROWS_FILE))
            self._reader = pa.ipc.open_file(self._map)
        except (OSError, ValueError, pa.ArrowInvalid) as error:
            raise SegmentCorruptError(
                f"'{folder}' has no dealt rows that can be read: {error}; run the job again", file=str(folder)
            ) from error

    def __enter__(self) -> DealtFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._map.close()

    def rows(self, group: str, first: int, count: int) -> Iterator[pa.RecordBatch]:
        """Rows [first, first + count) of a group, in order."""
        start, end = 0, first + count
        for number, num_rows in self._index.get(group, ()):
            low, high = max(first - start, 0), min(end - start, num_rows)
            if low < high:
                yield self._reader.get_batch(number).slice(low, high - low)
            start += num_rows


def _plain(batch: pa.RecordBatch, arrow_schema: pa.Schema) -> pa.RecordBatch:
    """The batch with the schema's own types: readers give dictionaries here and plain texts there."""
    columns = []
    for field in arrow_schema:
        column = plain(batch.column(field.name))
        columns.append(column if column.type == field.type else column.cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=arrow_schema)
