"""Proves that partitions which are computed of a built segment are those that a build would have recorded: the
metadata, CRC included, are compared with those of a real build of the same rows by the wanted scheme.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from built_segments import batch_of, config_of, schema_of
from hypothesis import given, settings
from hypothesis import strategies as st

from pinotpy.config.table import TableConfig
from pinotpy.segment.build.builder import build_segment, build_segment_into
from pinotpy.segment.build.partition_gaps import partition_gaps, partitioned_columns
from pinotpy.segment.build.partitions_later import with_partitions, write_metadata
from pinotpy.segment.directory.memory_directory import MemoryDirectory
from pinotpy.segment.immutable import ImmutableSegment, load_segment, open_segment
from pinotpy.segment.metadata import SegmentMetadata

SCHEMA = schema_of(
    {"code": "STRING", "raw": "STRING", "member": "LONG", "rawMember": "INT", "share": "DOUBLE", "key": "BYTES",
     "tags": "STRING"},
    multi=["tags"],
)  # fmt: skip
BASE: dict[str, Any] = {"noDictionaryColumns": ["raw", "rawMember"]}
Scheme = dict[str, tuple[str, int]]
FUNCTIONS = ("Modulo", "Murmur", "Murmur2", "HashCode", "ByteArray", "Murmur3")


def config(scheme: Scheme | None) -> TableConfig:
    columns = {
        name: {"functionName": function, "numPartitions": count} for name, (function, count) in (scheme or {}).items()
    }
    return config_of(BASE | ({} if scheme is None else {"segmentPartitionConfig": {"columnPartitionMap": columns}}))


def built(scheme: Scheme | None, rows: dict[str, list[Any]]) -> ImmutableSegment:
    directory = MemoryDirectory("s0")
    build_segment_into(directory, SCHEMA, config(scheme), [batch_of(SCHEMA, rows)], "s0", creation_time_ms=7)
    return open_segment(directory)


def later(before: Scheme | None, after: Scheme, rows: dict[str, list[Any]]) -> SegmentMetadata:
    return with_partitions(built(before, rows), partitioned_columns(config(after)))


def rows_of(codes: list[str | None], numbers: list[int]) -> dict[str, list[Any]]:
    count = len(numbers)
    texts = [codes[index % len(codes)] if codes else None for index in range(count)]
    return {
        "code": texts,
        "raw": texts,
        "member": numbers,
        "rawMember": [number % 1_000 - 500 for number in numbers],
        "share": [number / 4 for number in numbers],
        "key": [bytes([number & 0xFF, 7]) for number in numbers],
        "tags": [[str(number), "x"] for number in numbers],
    }


SCHEMES = st.dictionaries(
    st.sampled_from(list(SCHEMA.field_specs)), st.tuples(st.sampled_from(FUNCTIONS), st.integers(1, 9)), max_size=3
)


@settings(max_examples=60, deadline=None)
@given(
    codes=st.lists(st.one_of(st.none(), st.text("0129-Łé", max_size=6)), max_size=5),
    numbers=st.lists(st.integers(-(2**63), 2**63 - 1), max_size=12),
    before=st.one_of(st.none(), SCHEMES),
    after=SCHEMES,
)
def test_they_are_what_a_build_records(
    codes: list[str | None], numbers: list[int], before: Scheme | None, after: Scheme
) -> None:
    rows = rows_of(codes, numbers)
    found, expected = later(before, after, rows), built(after, rows).metadata
    assert [(column.name, _scheme(column.partition)) for column in found.columns] == [
        (column.name, _scheme(column.partition)) for column in expected.columns
    ]
    assert partition_gaps(found, config(after)) == partition_gaps(expected, config(after))
    if all(function != "Murmur2" for function, _ in (*after.values(), *(before or {}).values())):
        assert found == expected and found.to_bytes() == expected.to_bytes()


def _scheme(partition: Any) -> Any:
    # A segment that says Murmur2 of a scheme by Murmur stays: it is one function.
    return partition and (
        partition.function_name.replace("Murmur2", "Murmur"),
        partition.num_partitions,
        partition.partitions,
    )


def test_nothing_new_leaves_metadata_and_crc() -> None:
    rows = rows_of(["7", "12"], [1, 2, 3])
    scheme = {"member": ("Modulo", 4), "code": ("Murmur", 4)}
    segment = built(scheme, rows)
    assert with_partitions(segment, partitioned_columns(config(scheme))) is segment.metadata
    # Floats have no partition, before and after.
    assert (
        with_partitions(built(None, rows), partitioned_columns(config({"share": ("Murmur", 2)}))).crc
        == built(None, rows).crc
    )


def test_a_written_segment_opens_with_every_byte_checked(tmp_path: Path) -> None:
    rows = rows_of(["7", "12"], [1, 2, 3])
    build_segment(SCHEMA, config(None), [batch_of(SCHEMA, rows)], tmp_path, "s0")
    segment = load_segment(tmp_path / "s0")
    changed = with_partitions(segment, partitioned_columns(config({"member": ("Modulo", 2)})))
    before = (tmp_path / "s0" / "columns").read_bytes()
    segment.close()
    write_metadata(tmp_path / "s0", changed)
    again = load_segment(tmp_path / "s0")
    assert again.metadata == changed != segment.metadata and again.crc != segment.crc
    partition = again.column("member").partitioning
    assert partition is not None and partition.partitions == (0, 1)
    again.close()
    assert (tmp_path / "s0" / "columns").read_bytes() == before
    # The mark of a segment that was checked is the only other file; nothing is left of the writing.
    assert {path.name for path in (tmp_path / "s0").iterdir()} == {"columns", "metadata", "verified"}


@pytest.mark.parametrize(("before", "after"), [(("Murmur", 4), ("Murmur2", 4)), (("modulo", 4), ("Modulo", 4))])
def test_two_names_of_one_function_are_one_scheme(before: tuple[str, int], after: tuple[str, int]) -> None:
    segment = built({"member": before}, rows_of([], [1, 2, 3]))
    assert with_partitions(segment, partitioned_columns(config({"member": after}))) is segment.metadata
