"""Proves that a Bloom filter never loses a value and passes others at its rate: against the values themselves, in
Python and by a twin of the kernel written from docs/format/bloom-filter.md; and that sizes that cannot be are refused.
"""

from __future__ import annotations

import math
import random
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from built_segments import build, config_of, opened, schema_of

from pinotpy.errors import InvalidConfigError, SegmentCorruptError
from pinotpy.kernels.codec.bloom import exclude, set_bits
from pinotpy.kernels.runtime import abi
from pinotpy.segment import layout
from pinotpy.segment.build.indexing import resolve_indexing
from pinotpy.segment.immutable import open_segment
from pinotpy.segment.index.bloom import BLOCK_BYTES, check_bloom_size, num_blocks, stored_hashes, value_hashes

MASK = (1 << 64) - 1
SALTS = (0x6A09E667, 0xBB67AE85, 0x3C6EF373, 0xA54FF53B, 0x510E527F, 0x9B05688D, 0x1F83D9AB, 0x5BE0CD19)


def mix(h: int) -> int:
    h = (h ^ h >> 30) * 0xBF58476D1CE4E5B9 & MASK
    h = (h ^ h >> 27) * 0x94D049BB133111EB & MASK
    return h ^ h >> 31


def hash_of(value: int | float | bytes) -> int:
    seed = 0x9E3779B97F4A7C15
    if not isinstance(value, bytes):
        word = struct.unpack(
            "<Q", struct.pack("<q", value) if isinstance(value, int) else struct.pack("<d", value + 0.0)
        )[0]
        return mix((word + seed) & MASK)
    h = len(value) * seed & MASK
    for at in range(0, len(value), 8):
        h = mix(((h ^ int.from_bytes(value[at : at + 8], "little")) + seed) & MASK)
    return mix((h + seed) & MASK)


VALUES: list[list[Any]] = [
    [0, 1, -1, 2**31 - 1, -(2**63), 2**63 - 1],
    [0.0, 1.5, -1e300, math.inf, 5e-324],
    [b"", b"a", b"abcdefgh", b"abcdefghi", "Zürich".encode(), b"\0", b"\0\0", bytes(range(256))],
]


@pytest.mark.parametrize("values", VALUES)
def test_hashes_and_bits_are_those_of_the_format_page(values: list[Any]) -> None:
    hashes = stored_hashes(values)
    assert hashes.tolist() == [hash_of(value) for value in values]
    blocks = np.zeros(8 * 5, np.uint32)
    set_bits(hashes, blocks)
    expected = [0] * 40
    for value in values:
        h = hash_of(value)
        for k, salt in enumerate(SALTS):
            expected[((h >> 32) * 5 >> 32) * 8 + k] |= 1 << ((h & 0xFFFFFFFF) * salt % 2**32 >> 27)
    assert blocks.tolist() == expected


def test_equal_values_of_two_widths_have_one_hash() -> None:
    assert value_hashes(np.array([7, -7], np.int32)).tolist() == value_hashes(np.array([7, -7], np.int64)).tolist()
    assert value_hashes(np.array([0.5, -0.0], np.float32)).tolist() == stored_hashes([0.5, 0.0]).tolist()
    sliced = pa.chunked_array(
        [pa.array([b"x", b"long text", b""], pa.binary()).slice(1), pa.array([b"q"], pa.binary())]
    )
    assert value_hashes(sliced).tolist() == stored_hashes([b"long text", b"", b"q"]).tolist()


@pytest.mark.parametrize("fpp", [0.3, 0.05, 0.01, 0.001])
def test_other_values_pass_at_most_at_the_configured_rate(fpp: float) -> None:
    inside, outside = stored_hashes(list(range(20_000))), stored_hashes(list(range(10**9, 10**9 + 50_000)))
    blocks = np.zeros(num_blocks(len(inside), fpp) * 8, np.uint32)
    set_bits(inside, blocks)
    meta = np.zeros((1, abi.META_WORDS), np.int64)
    meta[0, abi.M_BLOOM], meta[0, abi.M_BLOOM_BLOCKS] = blocks.ctypes.data, len(blocks) // 8
    found = np.zeros(1, np.uint8)
    for h in inside[:500]:
        exclude(meta, np.array([h]), found)
        assert found[0] == 0, "a value was lost"
    passed = 0
    for h in outside:
        exclude(meta, np.array([h]), found)
        passed += 1 - int(found[0])
    assert passed / len(outside) <= fpp * 1.15 + 3e-4
    assert passed / len(outside) >= fpp / 3 or fpp < 0.01, "the filter is larger than it has to be"


def test_a_limit_of_bytes_makes_the_filter_smaller() -> None:
    assert num_blocks(1_000_000, 0.05) * BLOCK_BYTES > 800_000
    assert num_blocks(1_000_000, 0.05, 1 << 16) == 1 << 11
    assert num_blocks(1_000_000, 0.05, 1) == 1 and num_blocks(0, 0.05) == 1


TYPES = {
    "i": "INT",
    "l": "LONG",
    "f": "FLOAT",
    "d": "DOUBLE",
    "s": "STRING",
    "b": "BYTES",
    "m": "STRING",
    "raw": "STRING",
    "zipped": "LONG",
}


def test_every_stored_value_is_in_its_filter_however_the_column_is_encoded() -> None:
    rng = random.Random(3)
    rows: dict[str, list[Any]] = {
        "i": [rng.choice([None, rng.randint(-9, 9)]) for _ in range(500)],
        "l": [rng.randint(-(2**63), 2**63 - 1) for _ in range(500)],
        "f": [float(np.float32(rng.random())) for _ in range(500)],
        "d": [rng.choice([0.0, math.inf, rng.random()]) for _ in range(500)],
        "s": [rng.choice(["", "Zürich", "x" * 300, str(rng.random())]) for _ in range(500)],
        "b": [rng.randbytes(rng.randint(0, 20)) for _ in range(500)],
        "m": [[str(rng.randint(0, 99)) for _ in range(rng.randint(1, 4))] for _ in range(500)],
        "raw": [str(rng.random()) for _ in range(500)],
        "zipped": [rng.randint(0, 10**12) for _ in range(500)],
    }
    schema = schema_of(TYPES, multi=["m"])
    config = config_of(
        {
            "noDictionaryColumns": ["raw", "l", "d"],
            "noDictionaryConfig": {"zipped": "LZ4"},
            "bloomFilterColumns": [*TYPES],
            "bloomFilterConfigs": {"i": {"fpp": 0.01, "maxSizeInBytes": 64}},
            "nullHandlingEnabled": True,
        }
    )
    segment = opened(schema, config, rows)
    for name in TYPES:
        column = segment.column(name)
        if column.dictionary is not None:
            stored = [column.dictionary.value(i) for i in range(column.cardinality)]
        else:
            raw = column.raw_values()
            stored = raw.tolist() if isinstance(raw, np.ndarray) else raw.to_pylist()
        excluded = np.zeros(1, np.uint8)
        for value in stored:
            exclude(column.meta.reshape(1, -1).copy(), stored_hashes([value]), excluded)
            assert not excluded[0], (name, value)
    assert sum(e.size_bytes for e in segment.column("i").metadata.buffers if e.kind == layout.BLOOM) <= 64
    assert (
        segment.column("s").meta[abi.M_BLOOM_BLOCKS] * BLOCK_BYTES
        == segment.column("s").metadata.buffer(layout.BLOOM).size_bytes
    )


@pytest.mark.parametrize("size", [0, 31, 33, BLOCK_BYTES << 26])
def test_a_filter_that_is_no_number_of_blocks_is_refused(size: int) -> None:
    with pytest.raises(SegmentCorruptError, match="bloom"):
        check_bloom_size(
            {layout.BLOOM: size},
            lambda what, expected, found: SegmentCorruptError(what, file="f", expected=expected, found=found),
        )


def test_a_damaged_filter_is_refused() -> None:
    schema = schema_of({"s": "STRING"})
    directory = build(schema, config_of({"bloomFilterColumns": ["s"]}), {"s": ["a", "b"]})
    entry = open_segment(directory).column("s").metadata.buffer(layout.BLOOM)
    assert entry is not None
    data = bytearray(directory.map(layout.COLUMNS).tobytes())
    data[entry.offset + 3] ^= 1
    directory.replace(layout.COLUMNS, bytes(data))
    with pytest.raises(SegmentCorruptError, match="buffer 'bloom' of column 's'"):
        open_segment(directory)


def test_filters_come_from_each_of_the_keys_of_a_table_config() -> None:
    schema = schema_of({"a": "STRING", "b": "STRING", "c": "STRING", "d": "STRING"})
    fields = [
        {"name": "c", "indexes": {"bloom": {"fpp": "0.2", "maxSizeInBytes": 4096}}},
        {"name": "d", "indexes": {"bloom": {"disabled": True}}},
    ]
    config = config_of(
        {"bloomFilterColumns": ["a"], "bloomFilterConfigs": {"b": {"fpp": 0.01}}}, fieldConfigList=fields
    )
    found = {
        name: (column.bloom_fpp, column.bloom_max_bytes) for name, column in resolve_indexing(schema, config).items()
    }
    assert found == {"a": (0.05, 0), "b": (0.01, 0), "c": (0.2, 4096), "d": (0.0, 0)}


def test_a_wrong_setting_of_a_filter_is_a_fault_of_the_config() -> None:
    with pytest.raises(InvalidConfigError) as caught:
        config_of(
            fieldConfigList=[{"name": "c", "indexes": {"bloom": {"fpp": 2}}}, {"name": "d", "indexes": {"bloom": 1}}]
        )
    assert [fault.path for fault in caught.value.faults] == [
        "$.fieldConfigList[0].indexes.bloom.fpp",
        "$.fieldConfigList[1].indexes.bloom",
    ]
