"""Words that `kernels/ingest/avro_records.py` left in slots → Arrow arrays of the values."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.ingest.list_arrays import lists_of_lengths, map_entries
from pinotpy.ingest.readers.avro_container import DamagedAvroError
from pinotpy.ingest.readers.avro_decimals import big_decimal_text
from pinotpy.ingest.readers.avro_lazy import json_of_value
from pinotpy.ingest.readers.avro_schema import AvroType, Node
from pinotpy.ingest.unions import union_of
from pinotpy.kernels.ingest.avro_records import gather_bytes, gather_numbers

_TIMES: Final = {"ms": pa.time32("ms"), "us": pa.time64("us")}


class Assembler:
    """Arrays of one batch.

    Args:
        data: uint8, the bytes that TEXT, FIXED and LAZY words point into.
        words: int64, one array a slot.
    """

    def __init__(self, data: NDArray[np.uint8], words: list[Int64Array]) -> None:
        self._data, self._words = data, words

    def array(self, node: Node, count: int) -> pa.Array:
        """The values of a node, `count` visits.

        Unions with null are nulls; other unions are what `ingest.unions.union_of` makes; maps are Arrow maps, records
        structs.

        Raises:
            DamagedAvroError: text that is not UTF-8, decimals that do not fit.
        """
        of = node.of
        if node.is_lazy:
            return self._lazy(node)
        match of.kind:
            case "null":
                return pa.nulls(count)
            case "record":
                return self._record(node, count)
            case "union":
                return self._union(node)
            case "array" | "map":
                return self._list(node)
            case "enum":
                return pa.DictionaryArray.from_arrays(
                    pa.array(self._words[node.slot].astype(np.int32)), pa.array(of.symbols, pa.string())
                )
            case "string" | "bytes":
                return self._sized(of, self._words[node.slot])
            case "fixed":
                return self._fixed(of, self._words[node.slot])
        return _numbers(of, self._words[node.slot])

    def _record(self, node: Node, count: int) -> pa.Array:
        if not node.children:
            return pa.array([{}] * count, pa.struct([]))
        arrays = [self.array(child, count) for child in node.children]
        return pa.StructArray.from_arrays(arrays, names=list(node.of.field_names))

    def _union(self, node: Node) -> pa.Array:
        branches = self._words[node.slot]
        present = [(number, child) for number, child in enumerate(node.children) if child.of.kind != "null"]
        arrays = {number: self.array(child, int(np.count_nonzero(branches == number))) for number, child in present}
        if len(present) == 1:
            ((number, array),) = arrays.items()
            return _spread(array, branches == number)
        return union_of([(branches == number, array) for number, array in arrays.items()], len(branches))

    def _list(self, node: Node) -> pa.Array:
        counts = self._words[node.slot]
        offsets = np.zeros(len(counts) + 1, np.int64)
        np.cumsum(counts, out=offsets[1:])
        total = int(offsets[-1])
        if total >= 1 << 31:
            raise DamagedAvroError(f"{total} items of lists in one batch")
        values = self.array(node.children[0], total)
        where = pa.array(offsets.astype(np.int32))
        if node.of.kind == "array":
            return pa.ListArray.from_arrays(where, values)
        keys = self._sized(AvroType("string"), self._words[node.key_slot])
        return pa.MapArray.from_arrays(where, keys, values)

    def _sized(self, of: AvroType, words: Int64Array) -> pa.Array:
        starts, lengths = np.ascontiguousarray(words[0::2]), np.ascontiguousarray(words[1::2])
        if of.logical == "decimal":
            return self._decimals(of, starts, lengths)
        if of.logical == "big-decimal":
            return self._big_decimals(starts, lengths)
        array = self._bytes(starts, lengths)
        if of.kind == "bytes":
            return array
        try:
            return array.cast(pa.string())
        except pa.ArrowInvalid:
            raise DamagedAvroError("text that is not UTF-8") from None

    def _bytes(self, starts: Int64Array, lengths: Int64Array) -> pa.Array:
        offsets = np.zeros(len(starts) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        if offsets[-1] >= 1 << 31:
            raise DamagedAvroError(f"{offsets[-1]} bytes of one column in one batch")
        out = np.empty(int(offsets[-1]), np.uint8)
        narrow = offsets.astype(np.int32)
        gather_bytes(self._data, starts, narrow, out)
        return pa.Array.from_buffers(pa.binary(), len(starts), [None, pa.py_buffer(narrow), pa.py_buffer(out)])

    def _fixed(self, of: AvroType, starts: Int64Array) -> pa.Array:
        lengths = np.full(len(starts), of.size, np.int64)
        match of.logical:
            case "decimal":
                return self._decimals(of, starts, lengths)
            case "uuid":
                return _uuids(self._rows(starts, 16))
            case "duration":
                return _durations(self._rows(starts, 12))
        return self._bytes(starts, lengths)

    def _rows(self, starts: Int64Array, size: int) -> NDArray[np.uint8]:
        rows: NDArray[np.uint8] = self._data[starts[:, np.newaxis] + np.arange(size)]
        return rows

    def _decimals(self, of: AvroType, starts: Int64Array, lengths: Int64Array) -> pa.Array:
        kind = pa.decimal128(of.precision, of.scale) if of.precision <= 38 else pa.decimal256(of.precision, of.scale)
        out = np.empty((len(starts), kind.byte_width), np.uint8)
        row = int(gather_numbers(self._data, starts, lengths, out))
        if row >= 0:
            raise DamagedAvroError(f"a decimal of {int(lengths[row])} bytes, expected at most {of.precision} digits")
        return pa.Array.from_buffers(kind, len(starts), [None, pa.py_buffer(out)])

    def _big_decimals(self, starts: Int64Array, lengths: Int64Array) -> pa.Array:
        # As text: each has a scale of its own, and an array of decimals one for all.
        try:
            texts = [
                big_decimal_text(self._data[start : start + length].tobytes())
                for start, length in zip(starts.tolist(), lengths.tolist(), strict=True)
            ]
        except ValueError as error:
            raise DamagedAvroError(str(error)) from error
        return pa.array(texts, pa.string())

    def _lazy(self, node: Node) -> pa.Array:
        words = self._words[node.slot]
        spans = zip(words[0::2].tolist(), words[1::2].tolist(), strict=True)
        try:
            return pa.array(
                [json_of_value(node.of, self._data[start : start + length].tobytes()) for start, length in spans],
                pa.string(),
            )
        except ValueError as error:
            raise DamagedAvroError(str(error)) from error


def _spread(array: pa.Array, is_there: NDArray[np.bool_]) -> pa.Array:
    """The values in the places that have one, null elsewhere."""
    if is_there.all():
        return array
    places = np.cumsum(is_there) - 1
    return array.take(pa.array(places, pa.int64(), mask=~is_there))


def _numbers(of: AvroType, words: Int64Array) -> pa.Array:
    match of.kind:
        case "boolean":
            return pa.array(words != 0)
        case "float":
            return pa.array(words.astype(np.uint32).view(np.float32))
        case "double":
            return pa.array(words.view(np.float64))
    array = pa.array(words.astype(np.int32)) if of.kind == "int" else pa.array(words)
    match of.logical:
        case "date":
            return array.cast(pa.date32())
        case "time":
            return array.cast(_TIMES[of.unit])
        case "timestamp":
            return array.cast(pa.timestamp(of.unit, "UTC"))
        case "local-timestamp":
            return array.cast(pa.timestamp(of.unit))
    return array


_HEX: Final = np.frombuffer(b"0123456789abcdef", np.uint8)


def _uuids(rows: NDArray[np.uint8]) -> pa.Array:
    """Texts 8-4-4-4-12 of 16 bytes each."""
    digits = np.empty((len(rows), 32), np.uint8)
    digits[:, 0::2], digits[:, 1::2] = _HEX[rows >> 4], _HEX[rows & 15]
    text = np.full((len(rows), 36), ord("-"), np.uint8)
    text[:, [position for position in range(36) if position not in (8, 13, 18, 23)]] = digits
    offsets = np.arange(len(rows) + 1, dtype=np.int32) * 36
    return pa.Array.from_buffers(pa.string(), len(rows), [None, pa.py_buffer(offsets), pa.py_buffer(text)])


def _durations(rows: NDArray[np.uint8]) -> pa.Array:
    """ISO 8601 texts, `P14M3DT4.005S`, of months, days and milliseconds."""
    parts = np.ascontiguousarray(rows).view("<u4").reshape(len(rows), 3)
    months, days, millis = (pa.array(parts[:, index].astype(np.int64)) for index in range(3))
    seconds = pc.divide(millis, 1000).cast(pa.string())
    fraction = pc.utf8_slice_codeunits(pc.add(pa.array(parts[:, 2].astype(np.int64) % 1000), 1000).cast(pa.string()), 1)
    return pc.binary_join_element_wise(
        "P", months.cast(pa.string()), "M", days.cast(pa.string()), "DT", seconds, ".", fraction, "S", ""
    )


def part_of_map(array: pa.Array, *, keys: bool) -> pa.Array:
    """list<…> of the keys or of the values of a map array; null where the map is."""
    entries = map_entries(array)
    return lists_of_lengths(
        entries.lengths, entries.keys if keys else entries.items, array.is_null() if array.null_count else None
    )
