"""One column → its buffers in the columns file and its metadata."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array, distinct
from pinotpy.data_types import StoredType
from pinotpy.kernels.codec.bit_packing import bit_width, pack
from pinotpy.segment import layout
from pinotpy.segment.buffers import BufferSink
from pinotpy.segment.build.arrow_values import ColumnValues, column_values
from pinotpy.segment.build.chunk_codec import CHUNK_BYTES, DELTA, compress_chunks
from pinotpy.segment.build.column_indexes import IndexedValues, wanted_indexes, write_indexes
from pinotpy.segment.build.indexing import ColumnIndexing
from pinotpy.segment.dictionary_encode import Encoded, encode_bytes, encode_fixed
from pinotpy.segment.index.null_vector import write_null_vector
from pinotpy.segment.index.sorted import write_sorted_index
from pinotpy.segment.layout import BufferEntry
from pinotpy.segment.metadata import (
    DICTIONARY_ENCODING,
    PACKED_ENCODING,
    RAW_ENCODING,
    ColumnMetadata,
    PartitionMetadata,
)
from pinotpy.segment.partition import partitions_of

if TYPE_CHECKING:
    from pinotpy.config.field_spec import FieldSpec

Stored = int | float | bytes

# Longer values would bloat the metadata and prune nothing.
MIN_MAX_BYTES_MAX: Final = 256


@dataclass(frozen=True, slots=True)
class WrittenColumn:
    """Metadata of a written column, and first and last value among rows that had one (None: no such row)."""

    metadata: ColumnMetadata
    first_present: Stored | None
    last_present: Stored | None


def write_column(
    column: pa.ChunkedArray, spec: FieldSpec, indexing: ColumnIndexing, writer: BufferSink
) -> WrittenColumn:
    """Encode and write one column in storage form."""
    default = spec.default_in_segments
    values = column_values(column, spec.name, spec.data_type, single_value=spec.single_value, default=default)
    encoder = _Encoder(spec, indexing, writer, values, default)
    return encoder.write_dictionary() if indexing.dictionary else encoder.write_raw()


@dataclass(slots=True)
class _Encoder:
    """One column on its way into the file."""

    spec: FieldSpec
    indexing: ColumnIndexing
    writer: BufferSink
    values: ColumnValues
    default: Stored

    def write_dictionary(self) -> WrittenColumn:
        values = self.values.values
        encoded = encode_fixed(values) if isinstance(values, np.ndarray) else encode_bytes(values, self.spec.name)
        ids, cardinality = encoded.ids, encoded.cardinality
        ascends = self.spec.single_value and ids_ascend(ids)
        buffers = self._dictionary_buffers(encoded)
        if self.indexing.packed:
            encoding, width = PACKED_ENCODING, bit_width(cardinality)
            buffers.append(self.writer.append(layout.FORWARD, pack(ids, width)))
        else:
            encoding, width = DICTIONARY_ENCODING, ids.itemsize
            buffers.append(self.writer.append(layout.FORWARD, ids))
        buffers += self._row_buffers()
        if ascends:
            buffers += write_sorted_index(self.writer, ids, cardinality)
        source = IndexedValues(self.spec.name, encoded.dictionary, ids, None, self.values.mv_offsets, bool(ascends))
        buffers += write_indexes(
            self.writer, source, self.indexing, self._wanted(has_dictionary=True, is_sorted=bool(ascends))
        )
        first, last = (
            (_value_at(encoded.dictionary, 0), _value_at(encoded.dictionary, cardinality - 1))
            if cardinality
            else (None, None)
        )
        first_present, last_present = self._present_range(encoded)
        metadata = self._metadata(
            encoding,
            width,
            cardinality,
            ascends,
            first,
            last,
            self._partition(encoded.dictionary),
            buffers,
            longest=_longest(encoded.dictionary),
        )
        return WrittenColumn(metadata, first_present, last_present)

    def write_raw(self) -> WrittenColumn:
        values = self.values.values
        if isinstance(values, np.ndarray):
            buffers = self._forward_buffers(values.view(np.uint8))
            first, last = (values.min().item(), values.max().item()) if len(values) else (None, None)
            ascends = self.spec.single_value and bool(np.all(values[1:] >= values[:-1]))
            width = longest = values.itemsize
            present = values if self.values.nulls is None or not self.spec.single_value else values[~self.values.nulls]
            first_present, last_present = (present.min().item(), present.max().item()) if len(present) else (None, None)
            partition = self._partition(distinct(values)) if self.indexing.num_partitions else None
        else:
            plain = values.cast(pa.large_binary())
            offsets, parts = var_parts(plain)
            buffers = self._forward_buffers(*parts)
            buffers.append(self.writer.append(layout.FORWARD_OFFSETS, offsets))
            extremes = pc.min_max(plain)
            first, last = extremes["min"].as_py(), extremes["max"].as_py()
            ascends, width = False, 1
            longest = int(np.diff(offsets).max(initial=0))
            present_extremes = (
                extremes
                if self.values.nulls is None or not self.spec.single_value
                else pc.min_max(plain.filter(pa.array(~self.values.nulls)))
            )
            first_present, last_present = present_extremes["min"].as_py(), present_extremes["max"].as_py()
            partition = self._partition(plain.unique()) if self.indexing.num_partitions else None
        buffers += self._row_buffers()
        plain_values = values if isinstance(values, np.ndarray) else values.cast(pa.large_binary())
        source = IndexedValues(self.spec.name, None, None, plain_values, self.values.mv_offsets, False)
        buffers += write_indexes(
            self.writer, source, self.indexing, self._wanted(has_dictionary=False, is_sorted=False)
        )
        metadata = self._metadata(RAW_ENCODING, width, -1, ascends, first, last, partition, buffers, longest=longest)
        return WrittenColumn(metadata, first_present, last_present)

    def _wanted(self, *, has_dictionary: bool, is_sorted: bool) -> list[str]:
        return wanted_indexes(
            self.indexing,
            has_dictionary=has_dictionary,
            is_sorted=is_sorted,
            is_fixed=self.spec.data_type.stored.is_fixed,
        )

    def _dictionary_buffers(self, encoded: Encoded) -> list[BufferEntry]:
        if isinstance(encoded.dictionary, np.ndarray):
            return [self.writer.append(layout.DICTIONARY, encoded.dictionary)]
        offsets, parts = var_parts(pa.chunked_array([encoded.dictionary]))
        return [
            self.writer.append(layout.DICTIONARY, *parts),
            self.writer.append(layout.DICTIONARY_OFFSETS, offsets.astype(np.int32)),
        ]

    def _forward_buffers(self, *parts: NDArray[np.uint8]) -> list[BufferEntry]:
        codec = self._codec
        if codec is None:
            return [self.writer.append(layout.FORWARD, *parts)]
        plain = parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0, np.uint8), *parts])
        stored, table = compress_chunks(
            plain, codec, self.spec.data_type.stored.numpy.itemsize if codec == DELTA else 1
        )
        return [self.writer.append(layout.FORWARD, stored), self.writer.append(layout.FORWARD_CHUNKS, table)]

    @property
    def _codec(self) -> str | None:
        # DELTA is of whole numbers; of other values it is the nearest codec.
        is_delta = self.indexing.codec == DELTA and self.spec.data_type.stored not in (StoredType.INT, StoredType.LONG)
        return "LZ4" if is_delta else self.indexing.codec

    def _row_buffers(self) -> list[BufferEntry]:
        buffers = []
        if self.values.mv_offsets is not None:
            buffers.append(self.writer.append(layout.MV_OFFSETS, self.values.mv_offsets))
        if self.values.nulls is not None and self.indexing.null_vector:
            buffers += write_null_vector(self.writer, self.values.nulls)
        return buffers

    def _present_range(self, encoded: Encoded) -> tuple[Stored | None, Stored | None]:
        present = (
            encoded.ids if self.values.nulls is None or not self.spec.single_value else encoded.ids[~self.values.nulls]
        )
        if not len(present):
            return None, None
        return _value_at(encoded.dictionary, int(present.min())), _value_at(encoded.dictionary, int(present.max()))

    def _partition(self, distinct: NDArray[Any] | pa.Array) -> PartitionMetadata | None:
        if not self.indexing.num_partitions:
            return None
        partitions = partitions_of(
            self.indexing.partition_function, self.indexing.num_partitions, distinct, self.spec.data_type
        )
        return (
            None
            if partitions is None
            else PartitionMetadata(self.indexing.partition_function, self.indexing.num_partitions, partitions)
        )

    def _metadata(
        self,
        encoding: str,
        width: int,
        cardinality: int,
        ascends: bool,
        first: Stored | None,
        last: Stored | None,
        partition: PartitionMetadata | None,
        buffers: list[BufferEntry],
        *,
        longest: int,
    ) -> ColumnMetadata:
        lengths = None if self.values.mv_offsets is None else np.diff(self.values.mv_offsets.astype(np.int64))
        codec = self._codec if encoding == RAW_ENCODING else None
        return ColumnMetadata(
            name=self.spec.name,
            data_type=self.spec.data_type,
            field_type=self.spec.field_type,
            single_value=self.spec.single_value,
            encoding=encoding,
            width=width,
            num_values=self.values.num_values,
            cardinality=cardinality,
            is_sorted=bool(ascends),
            min_value=short_extreme(first) if self.indexing.min_max else None,
            max_value=short_extreme(last) if self.indexing.min_max else None,
            default_null=self.default,
            num_nulls=0
            if self.values.nulls is None or not self.indexing.null_vector
            else int(np.count_nonzero(self.values.nulls)),
            max_values_per_doc=1 if lengths is None else int(lengths.max(initial=0)),
            longest_bytes=longest,
            codec=codec,
            chunk_bytes=CHUNK_BYTES if codec else 0,
            partition=partition,
            buffers=tuple(buffers),
        )


def ids_ascend(ids: NDArray[Any]) -> bool:
    """Whether no id is smaller than the one before it."""
    return bool(np.all(ids[1:] >= ids[:-1]))


def var_parts(column: pa.ChunkedArray) -> tuple[Int64Array, list[NDArray[np.uint8]]]:
    """Offsets, shape (n + 1,), from 0, and the bytes chunk by chunk of a binary or large_binary column without
    nulls.
    """
    parts, offsets, end = [], [np.zeros(1, np.int64)], 0
    for chunk in column.chunks:
        if not len(chunk):
            continue
        dtype = np.int64 if pa.types.is_large_binary(chunk.type) else np.int32
        _, offset_buffer, data = chunk.buffers()
        ends = np.frombuffer(offset_buffer, dtype)[chunk.offset : chunk.offset + len(chunk) + 1].astype(np.int64)
        parts.append(np.frombuffer(data, np.uint8)[ends[0] : ends[-1]] if data is not None else np.zeros(0, np.uint8))
        offsets.append(ends[1:] - ends[0] + end)
        end += int(ends[-1] - ends[0])
    return np.concatenate(offsets), parts


def _value_at(dictionary: NDArray[Any] | pa.Array, dict_id: int) -> Stored:
    value: Stored = dictionary[dict_id].item() if isinstance(dictionary, np.ndarray) else dictionary[dict_id].as_py()
    return value


def _longest(dictionary: NDArray[Any] | pa.Array) -> int:
    return (
        dictionary.itemsize if isinstance(dictionary, np.ndarray) else pc.max(pc.binary_length(dictionary)).as_py() or 0
    )


def short_extreme(value: Stored | None) -> Stored | None:
    """A least or greatest value as metadata and plans have it; None if it is too long."""
    return None if isinstance(value, bytes) and len(value) > MIN_MAX_BYTES_MAX else value
