"""Avro container files: many blocks at once are decoded into arrays by a kernel; only the wanted fields are kept.

Unions with null are nulls, wider ones what `ingest.unions` says; arrays are multi-values; a map `X` also gives
`X__KEYS` and `X__VALUES` (map columns of old schemas); records and maps are JSON text unless the column is wanted
nested. Logical types arrive as Arrow's dates, times, timestamps and decimals; uuids, durations and big-decimals as
text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Final, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType
from pinotpy.errors import Fault, InvalidConfigError
from pinotpy.ingest.json_writing import json_texts
from pinotpy.ingest.readers.avro_arrays import Assembler, part_of_map
from pinotpy.ingest.readers.avro_container import DamagedAvroError, Header, read_blocks, read_header
from pinotpy.ingest.readers.avro_schema import AvroType, Program
from pinotpy.ingest.readers.columns import nested_array
from pinotpy.ingest.readers.spec import (
    BATCH_ROWS,
    FileFields,
    InputBatch,
    InputFile,
    Progress,
    ReaderColumn,
    Reject,
    buffered_reader,
    numbered,
)
from pinotpy.ingest.unions import without_union
from pinotpy.kernels.ingest import avro_records as kernel

KEYS, VALUES = "__KEYS", "__VALUES"
# Bytes of blocks that are decoded at once.
_BATCH_BYTES: Final = 16 << 20
# Items of lists in a batch besides those that the bytes can hold: nulls take none.
_EMPTY_ITEMS_MAX: Final = 1 << 22
_ENDS: Final = {
    kernel.CUT: "a value goes on behind the end of its block",
    kernel.LONG_NUMBER: "a number of more than 64 bits",
    kernel.NO_BRANCH: "a branch that its union does not have",
    kernel.NO_SYMBOL: "a symbol that its enum does not have",
    kernel.NEGATIVE_LENGTH: "a negative length",
    kernel.TOO_DEEP: f"values nested deeper than {kernel.DEPTH_MAX}",
    kernel.TOO_MANY_ITEMS: "a list of more items than its block can hold",
    kernel.REST: "bytes behind the last record of a block",
    kernel.NO_BOOLEAN: "a boolean that is neither 0 nor 1",
    kernel.INT_RANGE: "an int of more than 32 bits",
}
_ENDS_OF_RECORDS: Final = _ENDS | {
    kernel.CUT: "a value goes on behind the end of the record",
    kernel.TOO_MANY_ITEMS: "a list of more items than the record can hold",
    kernel.REST: "bytes behind the end of the record",
}


def read(
    file: InputFile, columns: Sequence[ReaderColumn], config: Mapping[str, Any], reject: Reject, progress: Progress
) -> Iterator[InputBatch]:
    """Read an Avro file; see `readers.spec.ReadFile`."""
    if config:
        raise InvalidConfigError(
            "avro reader config is not valid:",
            tuple(Fault(f"$.{key}", "an unknown key", "no keys: Avro has no settings") for key in config),
        )
    row = 1
    with file.open() as raw:
        stream = cast(BinaryIO, buffered_reader(raw))
        try:
            header = read_header(stream)
            if header.schema.kind != "record":
                raise DamagedAvroError(f"its schema is of kind {header.schema.kind}, expected a record")
            sources = sources_of(header.schema, columns)
            file.fields = FileFields({*header.schema.field_names, *(column.name for column in sources)})
            decoder = RecordDecoder(header.schema, sources)
        except (ValueError, RecursionError) as error:
            raise file.broken(f"no Avro file that can be read: {_cause(error)}") from error
        try:
            for rows in decoder.batches(stream, header):
                yield InputBatch(rows, numbered(row, rows.num_rows))
                row += rows.num_rows
                progress(file.position_bytes, file.size_bytes)
        except (DamagedAvroError, pa.ArrowInvalid, MemoryError) as error:
            raise file.broken(
                f"damaged from about here on: {_cause(error)}", row=row + decoder.num_rows_before_error
            ) from error
        progress(file.position_bytes, file.size_bytes)


def declared(file: InputFile, columns: Sequence[ReaderColumn]) -> pa.RecordBatch:
    """The types that a file's schema gives these columns, as a batch without rows. Raises DataError for what is no Avro
    file.
    """
    try:
        with file.open() as raw:
            record = read_header(cast(BinaryIO, buffered_reader(raw))).schema
        return RecordDecoder(record, sources_of(record, columns)).no_rows()
    except (ValueError, RecursionError, DamagedAvroError) as error:
        raise file.broken(f"no Avro file that can be read: {_cause(error)}") from error


def _cause(error: BaseException) -> str:
    return str(error)[:300] or type(error).__name__


def sources_of(record: AvroType, columns: Sequence[ReaderColumn]) -> dict[ReaderColumn, tuple[str, str]]:
    """Column → (field of the file, '' or the part of a map)."""
    fields = dict(zip(record.field_names, record.children, strict=True))
    sources = {}
    for column in columns:
        if column.name in fields:
            sources[column] = (column.name, "")
            if column.data_type is DataType.BYTES:
                _keep_bytes(fields[column.name])
            continue
        for suffix in (KEYS, VALUES):
            field = column.name.removesuffix(suffix)
            if column.name.endswith(suffix) and field in fields and _is_map(fields[field]):
                sources[column] = (field, suffix)
    return sources


def _keep_bytes(of: AvroType) -> None:
    """Leave big-decimals as the bytes that they are, for a column of bytes: of a text its digits would be taken for
    hex.
    """
    if of.logical == "big-decimal":
        of.logical = ""
    if of.kind in ("union", "array"):
        for child in of.children:
            _keep_bytes(child)


def _is_map(of: AvroType) -> bool:
    others = [branch for branch in of.children if branch.kind != "null"] if of.kind == "union" else [of]
    return len(others) == 1 and others[0].kind == "map"


class RecordDecoder:
    """Blocks → batches of at most BATCH_ROWS rows; or records, one by one in bytes → one batch."""

    def __init__(self, record: AvroType, sources: dict[ReaderColumn, tuple[str, str]]) -> None:
        self._sources = sources
        self._program = Program(record, {field for field, _ in sources.values()})
        self._nodes = self._program.nodes()
        self._steps = Program(record, set())
        # Words of each slot; grown to what the data needs. Of a schema with thousands of fields, less at first.
        self._rooms = [
            max(1024, BATCH_ROWS // (1 + len(self._program.widths) // 256)) * width for width in self._program.widths
        ]
        self._frames = np.zeros((kernel.DEPTH_MAX, 3), np.int64)
        self.num_rows_before_error = 0

    def no_rows(self) -> pa.RecordBatch:
        """A batch without rows, of the types that rows would have."""
        return self._batch(Assembler(np.zeros(0, np.uint8), [np.zeros(0, np.int64) for _ in self._rooms]), 0)

    def batches(self, stream: BinaryIO, header: Header) -> Iterator[pa.RecordBatch]:
        waiting: list[tuple[int, bytes]] = []
        num_rows, num_bytes = 0, 0
        for count, content in read_blocks(stream, header):
            waiting.append((count, content))
            num_rows, num_bytes = num_rows + count, num_bytes + len(content)
            if num_rows >= BATCH_ROWS or num_bytes >= _BATCH_BYTES:
                yield from self._decoded(waiting)
                waiting, num_rows, num_bytes = [], 0, 0
        yield from self._decoded(waiting)

    def _decoded(self, waiting: list[tuple[int, bytes]]) -> Iterator[pa.RecordBatch]:
        if not waiting:
            return
        counts = np.array([count for count, _ in waiting], np.int64)
        ends = np.cumsum([len(content) for _, content in waiting], dtype=np.int64)
        content = waiting[0][1] if len(waiting) == 1 else b"".join(content for _, content in waiting)
        data = np.frombuffer(content, np.uint8)
        blocks = kernel.Blocks(np.concatenate([np.zeros(1, np.int64), ends[:-1]]), ends, counts)
        state = np.zeros(kernel.STATE_WORDS, np.int64)
        while state[kernel.BLOCK] < len(counts):
            words = self._one_batch(data, blocks, state, BATCH_ROWS, _EMPTY_ITEMS_MAX + 2 * len(data), _ENDS)
            count = int(state[kernel.RECORDS])
            yield self._batch(Assembler(data, words), count)

    def records(self, contents: Sequence[bytes]) -> pa.RecordBatch:
        """Rows of records without container, each from the first to the last of its bytes.

        Raises:
            DamagedAvroError: one of them is damaged, or together they are too much for one batch.
        """
        data, blocks, items_max = _joined(contents)
        state = np.zeros(kernel.STATE_WORDS, np.int64)
        words = self._one_batch(data, blocks, state, len(contents), items_max, _ENDS_OF_RECORDS)
        return self._batch(Assembler(data, words), len(contents))

    def damaged(self, contents: Sequence[bytes]) -> dict[int, str]:
        """Records whose bytes do not go with the schema: index and cause. Values are only stepped over: of the others,
        some may be damaged in their values.
        """
        data, blocks, items_max = _joined(contents)
        nodes, no_slots, no_words = self._steps.nodes(), np.zeros(0, np.int64), np.zeros(0, np.int64)
        slots = kernel.Slots(no_slots, no_slots, no_slots)
        state = np.zeros(kernel.STATE_WORDS, np.int64)
        causes = {}
        record = 0
        while record < len(contents):
            state[:] = 0
            state[kernel.BLOCK], state[kernel.POSITION] = record, blocks.begins[record]
            ended = kernel.decode(data, blocks, nodes, slots, no_words, self._frames, state, len(contents), items_max)
            num_decoded = int(state[kernel.RECORDS])
            record += num_decoded
            if ended == kernel.REST:
                causes[record - 1] = _ENDS_OF_RECORDS[ended]
            elif ended == kernel.TOO_MANY_ITEMS:
                # The limit is of all from where the call began: this one is tried once more, as the first.
                record += num_decoded == 0
            elif ended != kernel.DONE:
                causes[record] = _ENDS_OF_RECORDS[ended]
                record += 1
        return causes

    def _one_batch(
        self,
        data: NDArray[np.uint8],
        blocks: kernel.Blocks,
        state: Int64Array,
        records_max: int,
        items_max: int,
        ends: Mapping[int, str],
    ) -> list[Int64Array]:
        while True:
            rooms = np.array(self._rooms, np.int64)
            slots = kernel.Slots(np.cumsum(rooms) - rooms, rooms, np.zeros(len(rooms), np.int64))
            words = np.empty(int(rooms.sum()), np.int64)
            ended = kernel.decode(data, blocks, self._nodes, slots, words, self._frames, state, records_max, items_max)
            if ended == kernel.DONE:
                begins = slots.begins.tolist()
                return [
                    words[begin : begin + filled] for begin, filled in zip(begins, slots.filled.tolist(), strict=True)
                ]
            if ended != kernel.FULL:
                self.num_rows_before_error = int(state[kernel.RECORDS])
                raise DamagedAvroError(ends[ended])
            # Those that are about to be full grow with it, so that this happens seldom.
            self._rooms = [
                room * 2 if 2 * filled >= room else room
                for room, filled in zip(self._rooms, slots.filled.tolist(), strict=True)
            ]

    def _batch(self, assembler: Assembler, count: int) -> pa.RecordBatch:
        if not self._sources:
            # Rows without any wanted column are still rows.
            return pa.RecordBatch.from_struct_array(pa.array([{}] * count, pa.struct([])))
        nodes = self._program.fields
        fields = {name: assembler.array(node, count) for name, node in nodes.items()}
        arrays = [
            _for_column(fields[field], column, suffix, is_lazy=nodes[field].is_lazy)
            for column, (field, suffix) in self._sources.items()
        ]
        return pa.RecordBatch.from_arrays(arrays, [column.name for column in self._sources])


def _joined(contents: Sequence[bytes]) -> tuple[NDArray[np.uint8], kernel.Blocks, int]:
    """(bytes, a block a record, how many items they may have)."""
    lengths = np.array([len(content) for content in contents], np.int64)
    ends = np.cumsum(lengths)
    blocks = kernel.Blocks(ends - lengths, ends, np.ones(len(contents), np.int64))
    # As many as the shortest may have: what is decoded in company is also decoded alone.
    items_max = _EMPTY_ITEMS_MAX + 2 * min(lengths.tolist(), default=0)
    return np.frombuffer(b"".join(contents), np.uint8), blocks, items_max


def _for_column(array: pa.Array, column: ReaderColumn, suffix: str, *, is_lazy: bool) -> pa.Array:
    if is_lazy:
        return nested_array([json.loads(text) for text in array.to_pylist()]) if column.nested else array
    if suffix:
        return without_union(part_of_map(array, keys=suffix == KEYS))
    if column.nested:
        return array
    # Unions go on: each value is cast by itself.
    nested = pa.types.is_struct(array.type) or pa.types.is_map(array.type)
    if column.data_type in (DataType.JSON, DataType.MAP):
        nested = nested or pa.types.is_list(array.type)
    if nested and column.single_value:
        try:
            return json_texts(array)
        except ValueError:
            return array  # the pipeline finds the rows
    return array
