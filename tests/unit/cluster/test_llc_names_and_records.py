"""Proves that names and records of segments of streams are read as they were written, and that others are no such."""

from __future__ import annotations

import pytest

from pinotpy.cluster.llc_names import LlcName, known_llc_name, llc_name, parse_llc_name
from pinotpy.cluster.realtime_records import RealtimeRecord, SegmentStatus
from pinotpy.cluster.records import ZNRecord
from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.errors import DataError, DecodeError

JULY = 1_720_000_000_000  # 2024-07-03T09:46:40Z


def test_names_are_table_partition_sequence_and_minute_in_utc() -> None:
    name = llc_name("page_views", 3, 17, JULY)
    assert str(name) == "page_views__3__17__20240703T0946Z"
    assert parse_llc_name(str(name)) == name
    assert str(name.following(JULY + 60_000)) == "page_views__3__18__20240703T0947Z"
    assert parse_llc_name("a__b__0__1__20240703T0946Z") == LlcName("a__b", 0, 1, "20240703T0946Z")
    assert sorted([name.following(0), name]) == [name, name.following(0)]


@pytest.mark.parametrize(
    "name", ["", "t", "t__0__1", "t__x__1__20240703T0946Z", "t__0__1__2024", "__0__1__20240703T0946Z", "t_0_1_2024"]
)
def test_other_names_are_no_names_of_streams(name: str) -> None:
    assert parse_llc_name(name) is None
    with pytest.raises(DataError, match="expected <table>__<partition>"):
        known_llc_name(name)


def test_a_record_is_read_as_it_was_written() -> None:
    record = RealtimeRecord.in_progress(
        "t_REALTIME",
        llc_name("t", 0, 4, JULY),
        "100",
        num_replicas=2,
        row_threshold=5_000,
        time_threshold_ms=60_000,
        creation_time_ms=JULY,
    )
    stored = SegmentZkMetadata.from_record(ZNRecord.from_bytes(record.to_bytes(), "x"), "t_REALTIME")
    assert RealtimeRecord.from_metadata(stored) == record
    assert stored.to_record().simple_fields["segment.realtime.startOffset"] == "100"
    assert "segment.realtime.endOffset" not in stored.to_record().simple_fields


@pytest.mark.parametrize("end", ["", "null", "9223372036854775807"])
def test_ends_that_the_reference_has_not_decided_are_none(end: str) -> None:
    fields = {"segment.realtime.status": "IN_PROGRESS", "segment.realtime.startOffset": "7"}
    stored = SegmentZkMetadata(
        "t__0__0__20240703T0946Z", "t_REALTIME", 0, 0, 1, extra={**fields, "segment.realtime.endOffset": end}
    )
    record = RealtimeRecord.from_metadata(stored)
    assert record is not None
    assert (record.status, record.end_offset, record.row_threshold) == (SegmentStatus.IN_PROGRESS, None, 0)


def test_uploaded_segments_have_no_such_record_and_unreadable_ones_say_so() -> None:
    assert RealtimeRecord.from_metadata(SegmentZkMetadata("s", "t_REALTIME", 1, 1, 1)) is None
    fields = {"segment.realtime.status": "ELSEWHERE", "segment.realtime.startOffset": "7"}
    with pytest.raises(DecodeError, match="ELSEWHERE"):
        RealtimeRecord.from_metadata(SegmentZkMetadata("t__0__0__20240703T0946Z", "t_REALTIME", 0, 0, 1, extra=fields))
