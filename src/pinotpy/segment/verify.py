"""Checks before a segment is trusted.

`check_structure` needs the metadata and the sizes of the files only: every buffer that a column needs is there, has the
size that its counts demand, and the buffers tile their files. After it no view can reach outside of a file.
`check_contents` reads the bytes: CRCs, then everything that kernels rely on without looking (offsets ascend, ids lie
within the dictionary, dictionaries are sorted).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.data_types import StoredType
from pinotpy.errors import SegmentCorruptError
from pinotpy.kernels.codec.bit_packing import bit_width, packed_max, packed_words
from pinotpy.kernels.text.ordered_bytes import bytes_strictly_ascend
from pinotpy.segment import layout
from pinotpy.segment.buffers import ColumnBuffers, Wrong
from pinotpy.segment.checksum import crc32c
from pinotpy.segment.dictionary_encode import DICTIONARY_MAX_BYTES, id_dtype
from pinotpy.segment.directory.directory import SegmentDirectory
from pinotpy.segment.index.bloom import check_bloom_size
from pinotpy.segment.index.inverted import check_inverted_index, check_inverted_sizes
from pinotpy.segment.index.json import check_json_index, check_json_sizes
from pinotpy.segment.index.null_vector import check_null_vector, null_vector_sizes
from pinotpy.segment.index.range import check_range_index, check_range_sizes
from pinotpy.segment.index.sorted import check_sorted_index, sorted_index_sizes
from pinotpy.segment.index.text import check_text_index, check_text_sizes
from pinotpy.segment.layout import BufferEntry
from pinotpy.segment.metadata import DICTIONARY_ENCODING, PACKED_ENCODING, RAW_ENCODING, ColumnMetadata, SegmentMetadata
from pinotpy.segment.star_tree.metadata import StarTreeMetadata
from pinotpy.segment.star_tree.verify import check_star_tree, check_star_tree_sizes

_CHUNK_BYTES_MAX = 16 << 20


def check_structure(metadata: SegmentMetadata, location: str) -> None:
    """Raises SegmentCorruptError unless counts, sizes and offsets of all buffers fit together."""
    for column in metadata.columns:
        _check_column(column, metadata.num_docs, f"{location}/{layout.METADATA}")
    by_name = {column.name: column for column in metadata.columns}
    for tree in metadata.star_trees:
        check_star_tree_sizes(tree, by_name, metadata.num_docs, f"{location}/{layout.METADATA}")
    for index, (name, size) in enumerate(metadata.files):
        entries = sorted((entry for entry in metadata.buffers() if entry.file == index), key=lambda entry: entry.offset)
        _check_tiling(entries, size, f"{location}/{name}")


def _check_tiling(entries: Iterable[BufferEntry], file_size: int, file: str) -> None:
    # Several empty buffers may share an offset; nothing else may overlap or leave a gap.
    end = layout.COLUMNS_HEADER_BYTES
    for entry in entries:
        if entry.offset != end:
            raise SegmentCorruptError(
                f"buffer '{entry.kind}' does not follow the one before it",
                file=file,
                expected=f"offset {end}",
                found=entry.offset,
            )
        end += layout.aligned(entry.size_bytes)
    if end != file_size:
        raise SegmentCorruptError(
            "buffers do not fill their file", file=file, expected=f"{end} bytes", found=f"{file_size} bytes"
        )


def _check_column(column: ColumnMetadata, num_docs: int, file: str) -> None:
    sizes = {entry.kind: entry.size_bytes for entry in column.buffers}

    def wrong(what: str, expected: object, found: object) -> SegmentCorruptError:
        return SegmentCorruptError(
            f"column '{column.name}' has a wrong {what}", file=file, expected=expected, found=found
        )

    if len(sizes) != len(column.buffers):
        raise wrong("list of buffers", "each kind once", [entry.kind for entry in column.buffers])
    needed = _fixed_sizes(column, num_docs)
    if column.encoding == RAW_ENCODING:
        needed |= _raw_sizes(column, sizes, wrong)
    elif column.encoding == DICTIONARY_ENCODING and column.width != id_dtype(column.cardinality).itemsize:
        raise wrong("width", id_dtype(column.cardinality).itemsize, column.width)
    elif column.encoding == PACKED_ENCODING and column.width != bit_width(column.cardinality):
        raise wrong("width", bit_width(column.cardinality), column.width)
    for kind, size in needed.items():
        if sizes.get(kind) != size:
            raise wrong(f"size of buffer '{kind}'", size, sizes.get(kind, "no such buffer"))
    # Sizes that only the contents know; `check_contents` compares them with offsets.
    for kind in _free_kinds(column):
        if kind not in sizes:
            raise wrong("list of buffers", kind, sorted(sizes))
    if (sizes.get(layout.DICTIONARY) or 0) > DICTIONARY_MAX_BYTES and column.data_type.stored is StoredType.VAR:
        raise wrong("size of buffer 'dictionary'", f"<= {DICTIONARY_MAX_BYTES}", sizes[layout.DICTIONARY])
    check_inverted_sizes(column, sizes, wrong)
    check_range_sizes(column, sizes, wrong)
    check_bloom_size(sizes, wrong)
    check_json_sizes(column, sizes, wrong)
    check_text_sizes(column, sizes, wrong)
    if (column.num_nulls > 0) != (layout.NULLS in sizes):
        raise wrong("null vector", f"one if there are nulls ({column.num_nulls})", sorted(sizes))
    if column.is_sorted and not column.single_value:
        raise wrong("sorted flag", "single-valued columns only", "multi-valued")
    if column.single_value and column.max_values_per_doc != 1:
        raise wrong("number of values a row", 1, column.max_values_per_doc)


def _fixed_sizes(column: ColumnMetadata, num_docs: int) -> dict[str, int]:
    needed: dict[str, int] = {}
    stored = column.data_type.stored
    if column.has_dictionary:
        if stored.is_fixed:
            needed[layout.DICTIONARY] = column.cardinality * stored.numpy.itemsize
        else:
            needed[layout.DICTIONARY_OFFSETS] = 4 * (column.cardinality + 1)
        packed = column.encoding == PACKED_ENCODING
        needed[layout.FORWARD] = (
            4 * packed_words(column.num_values, column.width) if packed else column.num_values * column.width
        )
        if column.is_sorted:
            needed |= sorted_index_sizes(column.cardinality)
    if not column.single_value:
        needed[layout.MV_OFFSETS] = 4 * (num_docs + 1)
    if column.num_nulls:
        needed |= null_vector_sizes(num_docs)
    return needed


def _raw_sizes(column: ColumnMetadata, sizes: dict[str, int], wrong: Wrong) -> dict[str, int]:
    stored = column.data_type.stored
    width = stored.numpy.itemsize if stored.is_fixed else 1
    if column.width != width:
        raise wrong("width", width, column.width)
    needed = {} if stored.is_fixed else {layout.FORWARD_OFFSETS: 8 * (column.num_values + 1)}
    if column.codec is None:
        return needed | ({layout.FORWARD: column.num_values * width} if stored.is_fixed else {})
    if not 1 <= column.chunk_bytes <= _CHUNK_BYTES_MAX:
        raise wrong("chunk size", f"1 to {_CHUNK_BYTES_MAX} bytes", column.chunk_bytes)
    if stored.is_fixed:
        needed[layout.FORWARD_CHUNKS] = 8 * (-(-column.num_values * width // column.chunk_bytes) + 1)
    elif sizes.get(layout.FORWARD_CHUNKS, 0) % 8:
        raise wrong("size of buffer 'forward.chunks'", "a multiple of 8", sizes[layout.FORWARD_CHUNKS])
    return needed


def _free_kinds(column: ColumnMetadata) -> list[str]:
    kinds = [layout.FORWARD]
    if column.has_dictionary:
        kinds.append(layout.DICTIONARY)
    elif column.codec is not None:
        kinds.append(layout.FORWARD_CHUNKS)
    return kinds


def check_file(name: str, data: NDArray[np.uint8], size: int, location: str) -> None:
    """Raises unless a mapped columns file has its recorded size and a header that we read."""
    file = f"{location}/{name}"
    if len(data) != size:
        raise SegmentCorruptError(
            "columns file has a wrong size", file=file, expected=f"{size} bytes", found=f"{len(data)} bytes"
        )
    layout.check_columns_header(data[: layout.COLUMNS_HEADER_BYTES].tobytes(), file)


def check_contents(metadata: SegmentMetadata, files: list[NDArray[np.uint8]], directory: SegmentDirectory) -> None:
    """Raises SegmentCorruptError unless every CRC is right and every column holds what kernels rely on. `files`: mapped
    by `directory`.
    """
    location = directory.location
    for column in metadata.columns:
        _check_crcs(column, metadata, files, location)
        _check_values(column, metadata.num_docs, ColumnBuffers(column, files, f"{location}/{layout.COLUMNS}"))
        _release(column, files, directory)
    for tree in metadata.star_trees:
        _check_crcs(tree, metadata, files, location)
        check_star_tree(tree, ColumnBuffers(tree, files, f"{location}/{layout.COLUMNS}"), metadata)
        _release(tree, files, directory)


def _check_crcs(
    owner: ColumnMetadata | StarTreeMetadata, metadata: SegmentMetadata, files: list[NDArray[np.uint8]], location: str
) -> None:
    for entry in owner.buffers:
        data = files[entry.file][entry.offset : entry.offset + layout.aligned(entry.size_bytes)]
        if (computed := crc32c(data)) != entry.crc:
            raise SegmentCorruptError(
                f"buffer '{entry.kind}' of {_owner(owner)} at byte {entry.offset} does not match its CRC",
                file=f"{location}/{metadata.files[entry.file][0]}",
                expected=entry.crc,
                found=computed,
            )


def _release(
    owner: ColumnMetadata | StarTreeMetadata, files: list[NDArray[np.uint8]], directory: SegmentDirectory
) -> None:
    """A check reads all of a segment once, and keeps no more of a mapped one in memory than a column."""
    for entry in owner.buffers:
        directory.release(files[entry.file], entry.offset, entry.offset + layout.aligned(entry.size_bytes))


def _owner(owner: ColumnMetadata | StarTreeMetadata) -> str:
    return owner.name if isinstance(owner, StarTreeMetadata) else f"column '{owner.name}'"


def _check_values(column: ColumnMetadata, num_docs: int, buffers: ColumnBuffers) -> None:
    def wrong(what: str, expected: object, found: object) -> SegmentCorruptError:
        return SegmentCorruptError(
            f"column '{column.name}' has wrong {what}", file=buffers.location, expected=expected, found=found
        )

    stored = column.data_type.stored
    if not column.single_value:
        offsets = buffers.view(layout.MV_OFFSETS, np.uint32)
        lengths = np.diff(offsets.astype(np.int64))
        if offsets[0] != 0 or int(offsets[-1]) != column.num_values or (lengths < 1).any():
            raise wrong(
                "multi-value offsets", f"ascending from 0 to {column.num_values}", f"{offsets[:1]}…{offsets[-1:]}"
            )
        if int(lengths.max(initial=0)) != column.max_values_per_doc:
            raise wrong("number of values a row", column.max_values_per_doc, int(lengths.max(initial=0)))
    check_null_vector(buffers, num_docs, column.num_nulls, wrong)
    check_text_index(buffers, num_docs, wrong)
    check_range_index(column, buffers, num_docs, wrong)
    check_json_index(column, buffers, wrong)
    if not column.has_dictionary:
        _check_raw(column, buffers, wrong)
        return
    if stored.is_fixed:
        values = buffers.view(layout.DICTIONARY, stored.numpy)
        # Written so that a NaN anywhere fails, too.
        if not (values[1:] > values[:-1]).all() or (stored.is_floating and np.isnan(values).any()):
            raise wrong("dictionary", "strictly ascending values", "unordered ones")
        extremes: tuple[Any, Any] = (values[0].item(), values[-1].item()) if len(values) else (None, None)
    else:
        data, offsets = buffers.view(layout.DICTIONARY, np.uint8), buffers.view(layout.DICTIONARY_OFFSETS, np.int32)
        _check_offsets(offsets, len(data), "dictionary offsets", wrong)
        if not bytes_strictly_ascend(offsets, data):
            raise wrong("dictionary", "strictly ascending strings", "unordered ones")
        _check_text(column, data, offsets, wrong)
        extremes = (data[: offsets[1]].tobytes(), data[offsets[-2] :].tobytes()) if column.cardinality else (None, None)
    for what, recorded, actual in (
        ("minimum", column.min_value, extremes[0]),
        ("maximum", column.max_value, extremes[1]),
    ):
        if recorded is not None and recorded != actual:
            raise wrong(what, actual, recorded)
    _check_ids(column, buffers, wrong)


def _check_ids(column: ColumnMetadata, buffers: ColumnBuffers, wrong: Wrong) -> None:
    num_docs = column.num_values if column.single_value else len(buffers.view(layout.MV_OFFSETS, np.uint32)) - 1
    if column.encoding == PACKED_ENCODING:
        largest = int(packed_max(buffers.view(layout.FORWARD, np.uint32), column.width, column.num_values))
    else:
        ids = buffers.view(layout.FORWARD, np.dtype(f"<u{column.width}"))
        largest = int(ids.max()) if len(ids) else -1
    if largest >= column.cardinality:
        raise wrong("dict ids", f"below {column.cardinality}", largest)
    if column.is_sorted:
        check_sorted_index(buffers, num_docs, wrong)
    check_inverted_index(buffers, num_docs, column.num_values, wrong)


def _check_raw(column: ColumnMetadata, buffers: ColumnBuffers, wrong: Wrong) -> None:
    stored = column.data_type.stored
    forward = buffers.view(layout.FORWARD, np.uint8)
    if stored.is_fixed:
        plain_bytes = column.num_values * column.width
        if column.codec is None and stored.is_floating and np.isnan(forward.view(stored.numpy)).any():
            raise wrong("values", "numbers", "NaN")
    else:
        offsets = buffers.view(layout.FORWARD_OFFSETS, np.int64)
        plain_bytes = int(offsets[-1])
        _check_offsets(offsets, len(forward) if column.codec is None else plain_bytes, "value offsets", wrong)
        if column.codec is None:
            _check_text(column, forward, offsets, wrong)
    if column.codec is not None:
        table = buffers.view(layout.FORWARD_CHUNKS, np.int64)
        num_chunks = -(-plain_bytes // column.chunk_bytes)
        if len(table) != num_chunks + 1:
            raise wrong("chunk table", f"{num_chunks + 1} entries", len(table))
        lengths = np.diff(table)
        if (
            table[0] != 0
            or int(table[-1]) != len(forward)
            or (lengths < 1).any()
            or (lengths > column.chunk_bytes).any()
        ):
            raise wrong("chunk table", f"ascending from 0 to {len(forward)}", f"{table[:1]}…{table[-1:]}")


def _check_offsets(offsets: NDArray[Any], size: int, what: str, wrong: Wrong) -> None:
    if offsets[0] != 0 or int(offsets[-1]) != size or (offsets[1:] < offsets[:-1]).any():
        raise wrong(what, f"ascending from 0 to {size}", f"{offsets[:1]}…{offsets[-1:]}")


def _check_text(column: ColumnMetadata, data: NDArray[np.uint8], offsets: NDArray[Any], wrong: Wrong) -> None:
    if not column.data_type.is_text:
        return
    text_type = pa.string() if offsets.dtype.itemsize == 4 else pa.large_string()
    array = pa.Array.from_buffers(text_type, len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        raise wrong("text", "UTF-8", str(error)[:100]) from None
