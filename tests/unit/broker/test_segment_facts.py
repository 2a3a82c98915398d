"""Proves what a broker takes from the record of a segment: ranges and partitions in all their spellings, nothing of a
segment that takes rows, and nothing of a record that lies, which is told once and counted."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest

from pinotpy.broker.routing.segment_facts import FactsOfTable, read_record
from pinotpy.cluster.column_ranges import ColumnRange, SegmentRanges
from pinotpy.cluster.records import ZNRecord
from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.config.schema import Schema
from pinotpy.data_types import DataType
from pinotpy.query.pruning.facts import NOTHING_KNOWN, Partitions, SegmentFacts, ValueRange

SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [
            {"name": "member", "dataType": "LONG"},
            {"name": "city", "dataType": "STRING"},
            {"name": "data", "dataType": "BYTES"},
        ],
        "dateTimeFieldSpecs": [{"name": "day", "dataType": "INT", "format": "1:DAYS:EPOCH", "granularity": "1:DAYS"}],
    }
)
RANGES = SegmentRanges(17, 5, {"day": ColumnRange(DataType.INT, 3, 9, 1)})
PLAIN = SegmentZkMetadata("s", "t_OFFLINE", crc=17, total_docs=5, creation_time_ms=1, column_ranges=RANGES.to_text())
IN_RECORD = {"functionName": "Murmur", "numPartitions": 8, "partitions": [3, 1, 3], "functionConfig": None}


def partitioned(columns: Any, **changes: Any) -> SegmentZkMetadata:
    """A record with this columnPartitionMap, as it comes from its bytes."""
    metadata = replace(PLAIN, partition_metadata={"columnPartitionMap": columns}, **changes)
    stored = ZNRecord.from_bytes(metadata.to_record().to_bytes(), "/s")
    return SegmentZkMetadata.from_record(stored, "t_OFFLINE")


def first_form(**fields: str) -> SegmentZkMetadata:
    """A record of the first design, which knows no ranges."""
    said = {
        "partitionColumn": "day",
        "partitionStart": "17200",
        "partitionEnd": "17220",
        "pruneFunction": "TimePruner",
    } | fields
    return replace(PLAIN, column_ranges="", extra={key: value for key, value in said.items() if value})


def test_ranges_and_partitions_of_a_record() -> None:
    read = read_record(partitioned({"member": IN_RECORD}), SCHEMA)
    assert read.facts == SegmentFacts(
        5, {"day": ValueRange(DataType.INT, 3, 9, 1)}, Partitions("member", "Murmur", 8, (1, 3))
    )
    assert not read.faults
    older = {"functionName": "hashCode", "numPartitions": 9, "partitionRanges": "[0 2],[7 7]"}
    assert read_record(partitioned({"city": older}), SCHEMA).facts.partitions == Partitions(
        "city", "hashCode", 9, (0, 1, 2, 7)
    )
    # Columns that the schema does not have, and segments without docs, are nothing to tell.
    assert read_record(partitioned({"gone": IN_RECORD}), SCHEMA) == read_record(PLAIN, SCHEMA)
    empty = SegmentRanges(17, 0, {}).to_text()
    read = read_record(
        partitioned({"member": IN_RECORD | {"partitions": []}}, total_docs=0, column_ranges=empty), SCHEMA
    )
    assert (read.facts, read.faults) == (SegmentFacts(0), ())


def test_a_record_without_ranges_says_nothing() -> None:
    old = replace(PLAIN, column_ranges="", start_time_ms=1, end_time_ms=2, start_time_raw="1", end_time_raw="2")
    # Its times are those of a column that it does not name, and its number of docs may be absent.
    assert read_record(old, SCHEMA).facts == NOTHING_KNOWN
    assert read_record(replace(old, total_docs=0), SCHEMA).facts == NOTHING_KNOWN


@pytest.mark.parametrize(("status", "says"), [("IN_PROGRESS", 0), ("COMMITTING", 0), ("DONE", 1), ("UPLOADED", 1)])
def test_segments_of_streams_say_something_once_they_are_done(status: str, says: int) -> None:
    record = partitioned({"member": IN_RECORD}, extra={"segment.realtime.status": status})
    assert (read_record(record, SCHEMA).facts != NOTHING_KNOWN) == bool(says)


def test_the_first_form_of_the_record_is_read() -> None:
    assert read_record(first_form(), SCHEMA).facts.ranges == {"day": ValueRange(DataType.INT, 17200, 17220)}
    named = first_form(
        partitionColumn="city", partitionStart="a", partitionEnd="é", pruneFunction="com.example.TimePruner"
    )
    assert read_record(named, SCHEMA).facts.ranges == {"city": ValueRange(DataType.STRING, b"a", "é".encode())}
    # Ranges of our own are those of the content.
    both = replace(first_form(), column_ranges=RANGES.to_text())
    assert read_record(both, SCHEMA).facts.ranges == {"day": ValueRange(DataType.INT, 3, 9, 1)}


def changed_type() -> SegmentZkMetadata:
    columns = {"day": ColumnRange(DataType.LONG, 3, 9, 0), "member": ColumnRange(DataType.STRING, b"1", b"2", 0)}
    return partitioned({"member": IN_RECORD}, column_ranges=SegmentRanges(17, 5, columns).to_text())


LIES: list[tuple[SegmentZkMetadata, str, str]] = [
    (replace(PLAIN, column_ranges="{"), "ranges", "expected ranges of columns"),
    (replace(PLAIN, column_ranges=RANGES.to_text().replace(":3", ":10")), "ranges", "least value above its greatest"),
    (replace(PLAIN, crc=18), "content", "its ranges are of CRC 17 and 5 docs, the segment has CRC 18 and 5 docs"),
    (replace(PLAIN, total_docs=6), "content", "and 6 docs"),
    (changed_type(), "type", "column 'day' was LONG in the segment and is INT now"),
    (partitioned({"member": IN_RECORD, "city": IN_RECORD}), "partition columns", "found city, member"),
    (partitioned([]), "partitions", "expected columns by name"),
    (partitioned({"member": None}), "partitions", "found None"),
    (partitioned({"member": IN_RECORD | {"functionName": "Magic"}}), "partitions", "'Magic' is not known here"),
    (partitioned({"member": IN_RECORD | {"functionName": 7}}), "partitions", "found 7"),
    (partitioned({"member": IN_RECORD | {"functionConfig": {"seed": "1"}}}), "partitions", "has settings"),
    (partitioned({"member": IN_RECORD | {"numPartitions": 0}}), "partitions", "expected 1 to 2147483647"),
    (partitioned({"member": IN_RECORD | {"numPartitions": 2**31}}), "partitions", "found 2147483648"),
    (partitioned({"member": IN_RECORD | {"numPartitions": True}}), "partitions", "found Murmur and True"),
    (partitioned({"member": IN_RECORD | {"numPartitions": 3}}), "partitions", "expected partitions below 3"),
    (partitioned({"member": IN_RECORD | {"partitions": []}}), "partitions", "found 0"),
    (partitioned({"member": IN_RECORD | {"partitions": ["3"]}}), "partitions", "expected a list of partitions"),
    (partitioned({"member": IN_RECORD | {"partitions": None, "partitionRanges": "[2 0]"}}), "partitions", "list"),
    (partitioned({"member": IN_RECORD | {"partitions": None, "partitionRanges": "[0 99999]"}}), "partitions", "list"),
    (partitioned({"member": IN_RECORD | {"partitions": None, "partitionRanges": "0-3"}}), "partitions", "list"),
    (first_form(partitionStart="17221"), "first form", "'17221' is above partitionEnd '17220'"),
    (first_form(partitionEnd=""), "first form", "expected all of partitionColumn"),
    (first_form(partitionColumn="gone"), "first form", "and a column"),
    (first_form(partitionColumn="data"), "first form", "found one of type BYTES"),
    (first_form(partitionEnd="x"), "first form", "expected a INT value, found 'x'"),
    (first_form(pruneFunction="HashPartitionPruner"), "prune function", "'HashPartitionPruner' does not say"),
]


@pytest.mark.parametrize(("record", "kind", "sentence"), LIES, ids=range(len(LIES)))
def test_what_a_record_lies_about_prunes_nothing_and_is_told(
    record: SegmentZkMetadata, kind: str, sentence: str
) -> None:
    read = read_record(record, SCHEMA)
    assert [(kind, sentence in told) for kind, told in read.faults][:1] == [(kind, True)], read.faults
    if kind in ("partitions", "partition columns"):
        assert read.facts == replace(read_record(PLAIN, SCHEMA).facts, partitions=None)
    else:
        assert (read.facts.ranges, read.facts.partitions) == ({}, None)


def test_faults_are_told_once_and_counted_while_they_stand(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    facts = FactsOfTable("t_OFFLINE")
    lying = [replace(record, segment_name=f"s{n}") for n, (record, _, _) in enumerate(LIES)]
    records = {record.segment_name: record for record in [*lying, replace(PLAIN, segment_name="sound")]}
    found = facts.read(records, SCHEMA)
    assert list(found) == list(records) and found["sound"].ranges
    kinds = [kind for _, kind, _ in LIES]
    # The second column of the record with changed types counts in the same record.
    assert facts.num_faulty == {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}
    told = [each for each in caplog.messages if "t_OFFLINE" in each]
    assert len(told) == len(set(kinds)) and any("what=partitions segments=14 first=s6: " in each for each in told)
    caplog.clear()
    again = facts.read(dict(records), SCHEMA)
    assert not caplog.messages and all(again[name] is found[name] for name in found)
    # One that is written anew is read anew; what is gone no longer counts.
    facts.read({"s0": replace(records["s0"]), "sound": records["sound"]}, SCHEMA)
    assert len(caplog.messages) == 1 and facts.num_faulty == {"ranges": 1}
    other = Schema.from_json(SCHEMA.to_json_dict())
    assert facts.read({"sound": records["sound"]}, other)["sound"].ranges and not facts.num_faulty
