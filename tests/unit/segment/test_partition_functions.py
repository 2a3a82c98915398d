"""Proves the partition functions against values written down from other implementations: Kafka's own test vectors of
murmur2 (org.apache.kafka.common.utils.UtilsTest), Java's documented hash codes; and that segments record partitions."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.data_types import DataType
from pinotpy.segment.build.builder import build_segment
from pinotpy.segment.immutable import load_segment
from pinotpy.segment.partition import (
    bytes_hash_code,
    murmur2,
    partition_ids,
    partition_of,
    partition_text,
    partitions_of,
    string_hash_code,
)

KAFKA_VECTORS = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize("data", KAFKA_VECTORS)
def test_murmur2_agrees_with_kafka(data: bytes) -> None:
    assert murmur2(data) == KAFKA_VECTORS[data] & 0xFFFFFFFF
    assert partition_of("Murmur", 10, data.decode()) == (KAFKA_VECTORS[data] & 0x7FFFFFFF) % 10


# Of Pinot's PartitionFunctionTest: ten texts of seven bytes each by java.util.Random(100); Kafka's Utils.murmur2 of the
# bytes, and into which of 5 partitions Kafka's default partitioner and its ByteArrayPartitioner put the texts.
KAFKA_HASHES = (
    -1044832774, -594851693, 1441878663, 1766739604, 1034724141, -296671913, 443511156, 1483601453, 1819695080,
    -931669296,
)  # fmt: skip
KAFKA_PARTITIONS = {"Murmur": (1, 4, 4, 1, 1, 2, 0, 4, 2, 3), "ByteArray": (1, 3, 2, 0, 0, 4, 4, 1, 2, 4)}


def java_random_bytes(seed: int, length: int) -> Iterator[bytes]:
    """What java.util.Random.nextBytes fills arrays of that length with, by its specification."""
    state = (seed ^ 0x5DEECE66D) & (1 << 48) - 1
    while True:
        data = b""
        while len(data) < length:
            state = (state * 0x5DEECE66D + 0xB) & (1 << 48) - 1
            data += (state >> 16).to_bytes(4, "little")
        yield data[:length]


def test_the_hashes_and_partitions_that_pinot_publishes() -> None:
    sample = java_random_bytes(100, 7)
    values = [next(sample) for _ in KAFKA_HASHES]
    assert [murmur2(value) for value in values] == [expected & 0xFFFFFFFF for expected in KAFKA_HASHES]
    for function, expected in KAFKA_PARTITIONS.items():
        texts = [partition_text(value, DataType.STRING) or "" for value in values]
        assert tuple(partition_of(function, 5, text) for text in texts) == expected


def test_hash_codes_agree_with_java() -> None:
    # "Aa" and "BB" collide; "polygenelubricants" is the well-known text whose hashCode is Integer.MIN_VALUE.
    assert string_hash_code("") == 0
    assert string_hash_code("Aa") == string_hash_code("BB") == 2112
    assert string_hash_code("hello") == 99162322
    assert string_hash_code("polygenelubricants") == -(2**31)
    assert string_hash_code("\U0001f600") == 0xD83D * 31 + 0xDE00
    assert partition_of("HashCode", 7, "polygenelubricants") == 0
    # Arrays.hashCode: 31 * (31 * 1 + a) + b, bytes signed.
    assert bytes_hash_code(b"") == 1
    assert bytes_hash_code(b"ab") == 31 * (31 + 97) + 98
    assert bytes_hash_code(b"\xff") == 30


def test_modulo_is_never_negative_and_names_ignore_case() -> None:
    assert [partition_of("Modulo", 4, text) for text in ("7", "-1", "-4", "0")] == [3, 3, 0, 0]
    assert partition_of("MODULO", 4, "7") == 3
    with pytest.raises(KeyError):
        partition_of("Magic", 4, "7")


def test_values_are_hashed_as_their_text_and_what_has_none_is_not_partitioned() -> None:
    assert partition_text(b"\x0a\xff", DataType.BYTES) == "0aff"
    assert partition_text("é".encode(), DataType.STRING) == "é"
    assert partition_text(-5, DataType.LONG) == "-5"
    assert partition_text(1.5, DataType.DOUBLE) is None
    assert partitions_of("Modulo", 4, pa.array([b"no number"]), DataType.STRING) is None
    assert partitions_of("Murmur", 4, np.array([1.5]), DataType.DOUBLE) is None


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("7", 7), ("+7", 7), ("-7", -7), ("007", 7), ("-0", 0), ("+0", 0), ("0" * 5_000 + "12", 12), ("000", 0),
        ("9223372036854775807", 2**63 - 1), ("-9223372036854775808", -(2**63)), ("+009223372036854775807", 2**63 - 1),
        ("9223372036854775808", None), ("-9223372036854775809", None), ("9" * 20, None), ("9" * 5_000, None),
        ("0x10", None), ("0X1f", None), (" 7", None), ("7 ", None), ("7\n", None), ("1_000", None), ("", None),
        ("+", None), ("-", None), ("+-7", None), ("--7", None), ("7.0", None), ("1e3", None), ("\uff17", None),
        ("\u0667", None), ("7\0", None), ("seven", None),
    ],
)  # fmt: skip
def test_modulo_takes_the_same_texts_where_segments_are_built_and_where_they_are_asked(
    text: str, number: int | None
) -> None:
    stored = pa.array([text.encode(), b"5"], pa.binary())
    if number is None:
        with pytest.raises(ValueError, match="expected a"):
            partition_of("Modulo", 7, text)
        assert partition_ids("Modulo", 7, stored, DataType.STRING) is None
        return
    assert partition_of("Modulo", 7, text) == number % 7
    found = partition_ids("Modulo", 7, stored, DataType.STRING)
    assert found is not None and found.tolist() == [number % 7, 5]
    sliced = partition_ids("Modulo", 7, stored.slice(1), DataType.STRING)
    assert sliced is not None and sliced.tolist() == [5]
    nothing = partition_ids("Modulo", 7, stored.slice(2), DataType.STRING)
    assert nothing is not None and nothing.tolist() == []


@pytest.mark.parametrize("function", ["Modulo", "Murmur", "HashCode", "ByteArray"])
def test_many_values_at_once_have_the_partitions_of_each_alone(function: str) -> None:
    rng = random.Random(function)
    texts = [
        "",
        "polygenelubricants",
        *("".join(rng.choices("aZ0é߿ࠀ日\uffff\U00010000\U0010ffff", k=rng.randrange(1, 12))) for _ in range(300)),
    ]
    columns: list[tuple[Any, DataType]] = [
        (np.array([rng.randrange(-(2**63), 2**63) for _ in range(300)]), DataType.LONG),
        (np.array([-(2**31), -1, 0, 7], np.int32), DataType.INT),
        (pa.array([b"", b"\xff\x00\x80", *(rng.randbytes(rng.randrange(9)) for _ in range(99))]), DataType.BYTES),
        (pa.array([str(rng.randrange(-(10**9), 10**9)).encode() for _ in range(99)]), DataType.STRING),
        (pa.array([text.encode() for text in texts]), DataType.STRING),
        (pa.array([text.encode() for text in texts], pa.large_binary()).slice(7, 20), DataType.JSON),
        (pa.array([], pa.binary()), DataType.STRING),
    ]
    for values, data_type in columns:
        plain = values.tolist() if isinstance(values, np.ndarray) else values.to_pylist()
        try:
            alone = [partition_of(function, 997, partition_text(value, data_type) or "") for value in plain]
        except ValueError:
            assert partitions_of(function, 997, values, data_type) is None
            continue
        assert partitions_of(function, 997, values, data_type) == tuple(sorted(set(alone)))


@pytest.mark.parametrize("raw", [False, True], ids=["dictionary", "raw"])
@pytest.mark.parametrize(
    ("data_type", "values", "function", "expected"),
    [
        ("INT", [8, 4, 12, 5], "Modulo", (0, 1)),
        ("STRING", ["foobar", "abc"], "Murmur", tuple(sorted({(-790332482 & 0x7FFFFFFF) % 4, 479470107 % 4}))),
        ("STRING", ["hello", None], "HashCode", tuple(sorted({99162322 % 4, string_hash_code("null") % 4}))),
        ("DOUBLE", [1.0], "Murmur", None),
    ],
)
def test_segments_record_the_partitions_of_their_values(
    data_type: str, values: list[Any], function: str, expected: tuple[int, ...] | None, raw: bool, tmp_path: Path
) -> None:
    schema = Schema.from_json({"schemaName": "t", "dimensionFieldSpecs": [{"name": "c", "dataType": data_type}]})
    config = TableConfig.from_json(
        {
            "tableName": "t",
            "tableType": "OFFLINE",
            "segmentsConfig": {"replication": "1"},
            "tenants": {},
            "metadata": {},
            "tableIndexConfig": {
                "nullHandlingEnabled": True,
                "noDictionaryColumns": ["c"] if raw else [],
                "segmentPartitionConfig": {"columnPartitionMap": {"c": {"functionName": function, "numPartitions": 4}}},
            },
        }
    )
    batch = pa.record_batch({"c": pa.array(values, DataType(data_type).arrow)})
    metadata = build_segment(schema, config, [batch], tmp_path, "s")
    recorded = metadata.columns[0].partition
    assert (None if recorded is None else (recorded.function_name, recorded.num_partitions, recorded.partitions)) == (
        None if expected is None else (function, 4, expected)
    )
    assert load_segment(tmp_path / "s").column("c").partitioning == recorded
