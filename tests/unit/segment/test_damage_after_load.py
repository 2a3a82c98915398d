"""Proves that damage to a file while its segment is open never gives a wrong value or a foreign error from compressed
columns: whatever is overwritten in their buffers, the next decoding says SegmentCorruptError with file and column; what
was decoded before stays as it was.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.errors import SegmentCorruptError
from pinotpy.segment import layout
from pinotpy.segment.build.builder import build_segment
from pinotpy.segment.build.chunk_codec import CHUNK_BYTES, CODECS, DELTA, compress_chunks, decompress_chunks
from pinotpy.segment.immutable import ImmutableSegment, load_segment

NUM_DOCS = 6_000
TEXTS = [f"a value that compresses {i % 97} and {i}" for i in range(NUM_DOCS)]
LONGS = [i * i for i in range(NUM_DOCS)]
SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [{"name": "s", "dataType": "STRING"}, {"name": "n", "dataType": "LONG"}],
    }
)
DOCUMENT = {
    "tableName": "t",
    "tableType": "OFFLINE",
    "segmentsConfig": {"replication": "1"},
    "tenants": {},
    "tableIndexConfig": {},
    "metadata": {},
}


@pytest.fixture(params=CODECS)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    fields = [{"name": name, "encodingType": "RAW", "compressionCodec": request.param} for name in ("s", "n")]
    config = TableConfig.from_json(DOCUMENT | {"fieldConfigList": fields})
    rows = pa.record_batch({"s": pa.array(TEXTS), "n": pa.array(LONGS, pa.int64())})
    build_segment(SCHEMA, config, [rows], tmp_path, "seg")
    (tmp_path / "seg" / layout.COLUMNS).chmod(0o600)
    return tmp_path / "seg"


def overwrite(folder: Path, offset: int, content: bytes) -> None:
    with (folder / layout.COLUMNS).open("r+b") as file:
        file.seek(offset)
        file.write(content)


def values(segment: ImmutableSegment, column: str) -> list[Any]:
    found = segment.column(column).raw_values()
    return [text.decode() for text in found.to_pylist()] if column == "s" else list(np.asarray(found))


def buffers_of(segment: ImmutableSegment, column: str) -> dict[str, tuple[int, int]]:
    metadata = next(each for each in segment.metadata.columns if each.name == column)
    return {
        entry.kind: (entry.offset, entry.size_bytes) for entry in metadata.buffers if not entry.kind.startswith("nulls")
    }


@pytest.mark.parametrize("column", ["s", "n"])
def test_whatever_is_overwritten_is_noticed_by_the_next_decoding(folder: Path, column: str) -> None:
    sound = (folder / layout.COLUMNS).read_bytes()
    rng = random.Random(3)
    with load_segment(folder) as segment:
        buffers = buffers_of(segment, column)
    kinds = {layout.FORWARD, layout.FORWARD_CHUNKS} | ({layout.FORWARD_OFFSETS} if column == "s" else set())
    assert set(buffers) == kinds
    for kind, (offset, size) in buffers.items():
        for _ in range(40):
            length = rng.choice([1, 8, 64, min(size, 4096)])
            at = offset + rng.randrange(max(1, size - length))
            garbage = rng.choice([rng.randbytes(length), b"\xff" * length, bytes(length)])
            if sound[at : at + length] == garbage:
                continue
            with load_segment(folder) as segment:
                overwrite(folder, at, garbage)
                try:
                    with pytest.raises(SegmentCorruptError, match=f"column '{column}'.*seg/{layout.COLUMNS}") as caught:
                        values(segment, column)
                    assert caught.value.context["column"] == column, kind
                finally:
                    overwrite(folder, at, sound[at : at + length])
    with load_segment(folder) as segment:
        assert values(segment, column) == (TEXTS if column == "s" else LONGS)


def test_what_was_decoded_stays_right_when_the_file_is_damaged_later(folder: Path) -> None:
    with load_segment(folder) as segment:
        assert values(segment, "s") == TEXTS
        for offset, size in buffers_of(segment, "s").values():
            overwrite(folder, offset, b"\xff" * size)
        assert values(segment, "s") == TEXTS


def test_a_segment_that_is_held_is_not_damaged_by_a_shorter_one_in_its_place(folder: Path) -> None:
    """A refresh while a query reads: the old files are gone, their bytes are not."""
    with load_segment(folder) as segment:
        columns = [column.name for column in segment.metadata.columns]
        segment.look()
        shutil.rmtree(folder)
        build_segment(
            SCHEMA, TableConfig.from_json(DOCUMENT), [pa.record_batch({"s": ["short"], "n": [1]})], folder.parent, "seg"
        )
        segment.look()
        assert segment.check_bytes(columns, lambda: None)
        assert values(segment, "s") == TEXTS and values(segment, "n") == LONGS


@pytest.mark.parametrize("codec", CODECS)
def test_a_chunk_of_garbage_or_of_another_length_is_no_foreign_error(codec: str) -> None:
    plain = np.frombuffer(b"0123456789" * 20_000, np.uint8) if codec != DELTA else np.arange(25_000).view(np.uint8)
    stored, table = compress_chunks(plain, codec, 8)
    rng = np.random.default_rng(5)
    for _ in range(200):
        damaged = stored.copy()
        at = int(rng.integers(0, len(stored) - 8))
        damaged[at : at + 8] = rng.integers(0, 256, 8)
        try:
            decompress_chunks(damaged, table, len(plain), CHUNK_BYTES, codec, 8, "here/columns", "c")
        except SegmentCorruptError as error:
            assert "column 'c'" in error.message and "here/columns" in error.message
