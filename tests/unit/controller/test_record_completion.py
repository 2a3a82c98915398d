"""Proves that a record is completed by the metadata of its own content, and by no others: over HTTP, against records
that a push of the same segment wrote.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
from controller_harness import Harness

from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.segment.archive.archive import read_archive_metadata

TABLE = "parts_OFFLINE"


def metadata_file(archive: Path) -> bytes:
    with archive.open("rb") as source:
        return read_archive_metadata(source)[1]


def put(harness: Harness, name: str, body: bytes, **params: Any) -> httpx.Response:
    return harness.http.put(f"/segments/parts/{name}/metadata", content=body, params=params)


def stored(harness: Harness, name: str = "parts_0") -> SegmentZkMetadata:
    found = harness.controller.catalog.segment(TABLE, name)
    assert found is not None
    return found.segment


def make_old(harness: Harness, name: str = "parts_0", **changes: Any) -> SegmentZkMetadata:
    """The record as an older release left it; returns the whole one."""
    found = harness.controller.catalog.segment(TABLE, name)
    assert found is not None
    old = replace(found.segment, **({"column_ranges": "", "total_docs": 1} | changes))
    harness.controller.catalog.replace_segment(old, found.version)
    return found.segment


def test_a_record_gets_back_what_its_content_says_and_keeps_the_rest(
    harness: Harness, segment: Callable[..., Path]
) -> None:
    harness.add_parts()
    archive = segment()
    custom = {"Pinot-SegmentZKMetadataCustomMapModifier": json.dumps({"mapModifyMode": "UPDATE", "map": {"a": "b"}})}
    harness.upload(archive, headers=custom, tableName="parts").raise_for_status()
    whole = make_old(harness)
    before, files, messages = stored(harness), harness.files(), harness.messages("Server_localhost_8098")
    tried = put(harness, "parts_0", metadata_file(archive), dryRun=True)
    assert tried.json()["isChanged"] and "would be completed" in tried.json()["status"] and stored(harness) == before
    done = put(harness, "parts_0", metadata_file(archive))
    assert done.json()["isChanged"] and done.json()["status"].endswith("completed")
    assert stored(harness) == whole and whole.custom_map == {"a": "b"} and whole.column_ranges
    again = put(harness, "parts_0", metadata_file(archive))
    assert not again.json()["isChanged"] and "was complete" in again.json()["status"]
    assert (harness.files(), harness.messages("Server_localhost_8098")) == (files, messages)


def test_partitions_that_the_content_does_not_have_go(harness: Harness, segment: Callable[..., Path]) -> None:
    harness.add_parts()
    archive = segment()
    harness.upload(archive, tableName="parts").raise_for_status()
    whole = make_old(harness, partition_metadata={"columnPartitionMap": {"id": {}}})
    assert put(harness, "parts_0", metadata_file(archive)).json()["isChanged"]
    assert stored(harness) == whole and whole.partition_metadata is None


def test_other_metadata_change_nothing(harness: Harness, segment: Callable[..., Path]) -> None:
    harness.add_parts()
    harness.upload(segment(), tableName="parts").raise_for_status()
    make_old(harness)
    before = stored(harness)
    other_content = put(harness, "parts_0", metadata_file(segment("parts_0", amounts=(9, 9))))
    assert other_content.status_code == 412 and str(before.crc) in other_content.text
    other_segment = put(harness, "parts_0", metadata_file(segment("parts_1")))
    assert other_segment.status_code == 400 and "found those of 'parts_1'" in other_segment.text
    damaged = bytearray(metadata_file(segment()))
    damaged[len(damaged) // 2] ^= 1
    for body in (b"", b"{}", bytes(damaged)):
        refused = put(harness, "parts_0", body)
        assert refused.status_code == 400 and "no segment's metadata" in refused.text
    assert put(harness, "parts_9", metadata_file(segment("parts_9"))).status_code == 404
    assert stored(harness) == before
