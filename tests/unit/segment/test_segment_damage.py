"""Proves that damage never gets through: every flipped byte, every cut, foreign files, other versions give a typed
error that names the file; and damage with all CRCs made right again gives a typed error or a segment whose every read
stays inside its buffers (nothing can tell such a segment from an honest one with other values, but it must not crash).
"""

from __future__ import annotations

import random
import struct
from dataclasses import replace
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest
from every_buffer import NUM_DOCS, build_into

from pinotpy.errors import DataError, NotFoundError, SegmentCorruptError, UnsupportedVersionError
from pinotpy.segment import layout
from pinotpy.segment.checksum import crc32c
from pinotpy.segment.directory.memory_directory import MemoryDirectory
from pinotpy.segment.immutable import ImmutableSegment, open_segment, scrub
from pinotpy.segment.layout import BufferEntry
from pinotpy.segment.metadata import segment_crc
from pinotpy.segment.metadata_reader import read_metadata


@pytest.fixture(scope="module")
def sound() -> dict[str, bytes]:
    directory = MemoryDirectory("damaged")
    build_into(directory)
    return {name: directory.read(name, size_max=1 << 30) for name in (layout.COLUMNS, layout.METADATA)}


def damaged(sound: dict[str, bytes], name: str, data: bytes) -> MemoryDirectory:
    directory = MemoryDirectory("damaged")
    draft = directory.create()
    for file, content in (sound | {name: data}).items():
        draft.append(file, content)
    draft.commit()
    return directory


def read_everything(segment: ImmutableSegment) -> list[Any]:
    """Every row and every index, by all reading paths."""
    seen: list[Any] = [pa.Table.from_batches(segment.to_batches()).to_pydict()] if segment.columns() else []
    for name in segment.columns():
        column = segment.column(name)
        seen.append((column.min_value, column.max_value, column.null_mask().tolist()))
        if column.dictionary is not None and column.has_inverted_index:
            seen.append([column.inverted_docs(dict_id).tolist() for dict_id in range(column.cardinality)])
        if (index := column.text_index) is not None:
            seen.append(index.terms(0, index.num_terms).to_pylist())
            seen.append(
                [
                    (index.docs(term, term + 1).tolist(), index.positions(term).tolist())
                    for term in range(index.num_terms)
                ]
            )
        if column.dictionary is not None and column.is_sorted:
            seen.append(column.sorted_starts().tolist())
    return seen


def test_the_undamaged_segment_opens(sound: dict[str, bytes]) -> None:
    segment = open_segment(damaged(sound, layout.COLUMNS, sound[layout.COLUMNS]))
    assert len(read_everything(segment)[0]) == 13
    kinds = {entry.kind for column in segment.metadata.columns for entry in column.buffers}
    every_kind = {
        value
        for name, value in vars(layout).items()
        if isinstance(value, str) and name.isupper() and name not in ("COLUMNS", "METADATA", "VERIFIED", "DROPPED")
    }
    assert kinds == every_kind, "the fuzz must reach every kind of buffer"


@pytest.mark.parametrize("name", [layout.COLUMNS, layout.METADATA])
def test_every_flipped_byte_is_refused(sound: dict[str, bytes], name: str) -> None:
    data = sound[name]
    rng = random.Random(name)
    # Every byte of both headers, and bytes all over: each buffer, each padding.
    for position in [*range(64), *rng.sample(range(64, len(data)), 700)]:
        flipped = bytearray(data)
        flipped[position] ^= 1 << rng.randrange(8)
        with pytest.raises((SegmentCorruptError, UnsupportedVersionError), match=f"damaged/{name}"):
            open_segment(damaged(sound, name, bytes(flipped)))


@pytest.mark.parametrize("name", [layout.COLUMNS, layout.METADATA])
def test_every_truncation_and_every_tail_is_refused(sound: dict[str, bytes], name: str) -> None:
    data = sound[name]
    rng = random.Random(name)
    for length in [0, 1, 7, 8, 31, 32, 33, 63, 64, 65, len(data) - 1, *rng.sample(range(len(data)), 100)]:
        with pytest.raises(SegmentCorruptError, match=f"damaged/{name}"):
            open_segment(damaged(sound, name, data[:length]))
    for tail in (b"\0", bytes(64), data):
        with pytest.raises(SegmentCorruptError, match=f"damaged/{name}"):
            open_segment(damaged(sound, name, data + tail))


def test_a_missing_or_foreign_file_is_refused(sound: dict[str, bytes]) -> None:
    with pytest.raises(NotFoundError):
        open_segment(MemoryDirectory("nothing"))
    for name in (layout.COLUMNS, layout.METADATA):
        for content in (
            b"",
            b"PAR1" * 100,
            b"deadbeefdeafbead" * 1000,
            sound[layout.METADATA if name == layout.COLUMNS else layout.COLUMNS],
        ):
            with pytest.raises(SegmentCorruptError, match=f"damaged/{name}"):
                open_segment(damaged(sound, name, content))
        directory = MemoryDirectory("damaged")
        draft = directory.create()
        draft.append(name, sound[name])
        draft.commit()
        with pytest.raises(SegmentCorruptError, match="cannot be opened"):
            open_segment(directory)


def test_another_version_is_named_with_those_that_are_supported(sound: dict[str, bytes]) -> None:
    metadata = bytearray(sound[layout.METADATA])
    metadata[8:12] = struct.pack("<I", 2)
    with pytest.raises(UnsupportedVersionError, match=r"found version 2, supported \(1,\)"):
        open_segment(damaged(sound, layout.METADATA, bytes(metadata)))
    columns = bytearray(sound[layout.COLUMNS])
    columns[8:12] = struct.pack("<I", 7)
    columns[60:64] = struct.pack("<I", crc32c(bytes(columns[:60])))
    with pytest.raises(UnsupportedVersionError, match="found version 7"):
        open_segment(damaged(sound, layout.COLUMNS, bytes(columns)))
    body = orjson.loads(layout.metadata_body(sound[layout.METADATA], "metadata"))
    body["content"]["requires"] = ["delta-of-delta"]
    with pytest.raises(UnsupportedVersionError, match="delta-of-delta"):
        open_segment(damaged(sound, layout.METADATA, layout.metadata_bytes(orjson.dumps(body))))


def forged(sound: dict[str, bytes], columns: bytes) -> MemoryDirectory:
    """The same metadata over other bytes, with every CRC made right: what a hostile or buggy writer could send."""
    metadata = read_metadata(sound[layout.METADATA], "metadata")

    def right(entry: BufferEntry) -> BufferEntry:
        return replace(entry, crc=crc32c(columns[entry.offset : entry.offset + layout.aligned(entry.size_bytes)]))

    metadata = replace(
        metadata,
        columns=tuple(replace(column, buffers=tuple(map(right, column.buffers))) for column in metadata.columns),
    )
    metadata = replace(metadata, crc=segment_crc(metadata))
    directory = MemoryDirectory("damaged")
    draft = directory.create()
    draft.append(layout.COLUMNS, columns)
    draft.append(layout.METADATA, metadata.to_bytes())
    draft.commit()
    return directory


def test_forged_buffers_are_refused_or_read_within_bounds(sound: dict[str, bytes]) -> None:
    metadata = read_metadata(sound[layout.METADATA], "metadata")
    rng = random.Random(3)
    outcomes = {"refused": 0, "read": 0}
    for column in metadata.columns:
        for entry in column.buffers:
            for _ in range(12):
                columns = bytearray(sound[layout.COLUMNS])
                at = entry.offset + rng.randrange(entry.size_bytes)
                length = min(rng.choice([1, 4, 8]), entry.offset + entry.size_bytes - at)
                columns[at : at + length] = rng.choice(
                    [bytes(length), b"\xff" * length, b"\x7f" * length, rng.randbytes(length)]
                )
                try:
                    segment = open_segment(forged(sound, bytes(columns)))
                    read_everything(segment)
                    outcomes["read"] += 1
                except DataError:
                    outcomes["refused"] += 1
    assert min(outcomes.values()) > 20 and sum(outcomes.values()) > 400, outcomes


@pytest.mark.parametrize(
    ("kind", "dtype", "value"),
    [
        (layout.FORWARD, None, -1),  # a dict id beyond the dictionary
        (layout.MV_OFFSETS, np.uint32, 2**31),
        (layout.DICTIONARY_OFFSETS, np.int32, -5),
        (layout.DICTIONARY_OFFSETS, np.int32, 2**30),
        (layout.FORWARD_OFFSETS, np.int64, 2**40),
        (layout.FORWARD_CHUNKS, np.int64, -1),
        (layout.SORTED_STARTS, np.uint32, 2**32 - 1),
        (layout.INVERTED_OFFSETS, np.uint32, 2**32 - 1),
        (layout.INVERTED_DOCS, np.int32, NUM_DOCS),
        (layout.INVERTED_DOCS, np.int32, -1),
        (layout.INVERTED_COUNTS, np.uint32, 2**32 - 1),
        (layout.BITMAP_OFFSETS, np.int64, -1),
        (layout.BITMAP_OFFSETS, np.int64, 2**40),
        (layout.BITMAPS, np.uint8, 0xFF),
    ],
)
def test_what_kernels_would_follow_blindly_is_refused_even_with_right_crcs(
    sound: dict[str, bytes], kind: str, dtype: Any, value: int
) -> None:
    metadata = read_metadata(sound[layout.METADATA], "metadata")
    checked = 0
    for column in metadata.columns:
        entry = column.buffer(kind)
        if entry is None or (kind == layout.FORWARD and column.encoding != "DICTIONARY"):
            continue
        if kind == layout.FORWARD:
            dtype, value = np.dtype(f"<u{column.width}"), (1 << 8 * column.width) - 1
        for position in (0, entry.size_bytes // np.dtype(dtype).itemsize - 1):
            columns = bytearray(sound[layout.COLUMNS])
            np.frombuffer(columns, dtype, offset=entry.offset, count=position + 1)[position] = value
            with pytest.raises(SegmentCorruptError, match=column.name):
                open_segment(forged(sound, bytes(columns)))
            checked += 1
    assert checked


def mutations(value: Any) -> list[Any]:
    return [None, -1, 0, 1, 200, 2**31, 2**40, 2**63, 10**30, "x", "", [], {}, True, 1.5, [value, value], {"a": value}]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    if isinstance(value, dict):
        for key, item in value.items():
            found += places(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            found += places(item, (*path, index))
    return found


def test_hostile_metadata_is_refused_or_read_within_bounds(sound: dict[str, bytes]) -> None:
    """Negative counts, widths of 200, offsets beyond the file, 2^40 rows, wrong types, missing keys: at every place of
    the JSON.
    """
    body = orjson.loads(layout.metadata_body(sound[layout.METADATA], "metadata"))
    rng = random.Random(5)
    tried = 0
    for path in places(body):
        parent: Any = body
        for key in path[:-1]:
            parent = parent[key]
        original = parent[path[-1]]
        for value in rng.sample(mutations(original), 4):
            try:
                parent[path[-1]] = value
                text = orjson.dumps(body) if not (isinstance(value, int) and abs(value) > 2**63) else repr_json(body)
            finally:
                parent[path[-1]] = original
            tried += 1
            try:
                segment = open_segment(with_right_crc(sound, text))
                read_everything(segment)
            except DataError:
                pass
    assert tried > 1500


def repr_json(body: Any) -> bytes:
    import json

    return json.dumps(body).encode()


def with_right_crc(sound: dict[str, bytes], text: bytes) -> MemoryDirectory:
    """Metadata with this JSON, its own CRC right, and the segment's too where the JSON can be read at all."""
    data = layout.metadata_bytes(text)
    for _ in range(2):
        try:
            read_metadata(data, "metadata")
        except SegmentCorruptError as error:
            if "segmentCrc" in str(error) and isinstance(error.found, int):
                body = orjson.loads(text) | {"segmentCrc": str(error.found)}
                data = layout.metadata_bytes(orjson.dumps(body))
        except DataError:
            break
    return damaged(sound, layout.METADATA, data)


def test_the_marker_spares_the_full_check_only_while_nothing_changed(sound: dict[str, bytes]) -> None:
    directory = damaged(sound, layout.COLUMNS, sound[layout.COLUMNS])
    data = bytearray(sound[layout.COLUMNS])
    data[-70] ^= 1
    # No marker yet: a quick open does the full check.
    unchecked = damaged(sound, layout.COLUMNS, bytes(data))
    with pytest.raises(SegmentCorruptError):
        open_segment(unchecked, verify=False)
    segment = open_segment(directory)
    assert layout.VERIFIED in directory.fingerprint()
    assert read_everything(open_segment(directory, verify=False)) == read_everything(segment)
    scrub(segment)
    # The file changed behind the marker: noticed by time and size at the next open, and by the scrub.
    directory.replace(layout.COLUMNS, bytes(data))
    with pytest.raises(SegmentCorruptError, match="CRC"):
        open_segment(directory, verify=False)
    with pytest.raises(SegmentCorruptError, match="CRC"):
        scrub(segment)


def test_a_scrub_finds_every_flip_and_cut(sound: dict[str, bytes]) -> None:
    directory = damaged(sound, layout.COLUMNS, sound[layout.COLUMNS])
    segment = open_segment(directory)
    rng = random.Random(8)
    for name in (layout.COLUMNS, layout.METADATA):
        for position in rng.sample(range(len(sound[name])), 150):
            data = bytearray(sound[name])
            data[position] ^= 1 << rng.randrange(8)
            directory.replace(name, bytes(data))
            with pytest.raises(DataError):
                scrub(segment)
        directory.replace(name, sound[name][:-1])
        with pytest.raises(DataError):
            scrub(segment)
        directory.replace(name, sound[name])
        scrub(segment)
