"""Proves what restoring a deleted segment does besides bringing its rows back (tests/unit/cli/test_admin_commands.py):
its list of input files comes with it, encrypted archives are encrypted again, and what may not come back is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from controller_harness import PARTS_SCHEMA, PARTS_TABLE, Harness
from input_lists import list_of

from pinotpy.controller.restore import restore_segment
from pinotpy.errors import UserError

Build = Callable[..., Path]


def test_inputs_come_back_and_the_archive_is_encrypted_again(
    start: Callable[..., Harness], segment: Build, tmp_path: Path
) -> None:
    pytest.importorskip("cryptography", reason="the built-in crypter needs pip install 'pinotpy[crypter]'")
    (tmp_path / "key").write_text("5a" * 32)
    harness = start(settings={"crypter": {"aesgcmcrypter.keyFile": str(tmp_path / "key")}})
    harness.add_parts(segmentsConfig=PARTS_TABLE["segmentsConfig"] | {"crypterClassName": "AesGcmCrypter"})
    archive, source = segment(), tmp_path / "a.csv"
    source.write_text("1,2\n")
    inputs = list_of(source)
    parts = {"file": ("s.tar.gz", archive.read_bytes()), "inputs": ("i.json", inputs.to_bytes())}
    assert harness.http.post("/v2/segments", files=parts, params={"tableName": "parts"}).status_code == 200
    before = harness.controller.catalog.segments("parts_OFFLINE")["parts_0"]
    assert harness.http.delete("/segments/parts/parts_0").status_code == 200
    answer = harness.http.post("/segments/parts/parts_0/restore")
    assert answer.status_code == 200, answer.text
    after = harness.controller.catalog.segments("parts_OFFLINE")["parts_0"]
    assert (after.crc, after.crypter, after.total_docs) == (before.crc, "AesGcmCrypter", before.total_docs)
    assert harness.http.get("/segments/parts/parts_0/inputs").content == inputs.to_bytes()
    stored = tmp_path / "stored"
    stored.write_bytes(harness.http.get("/segments/parts/parts_0").content)
    assert stored.read_bytes() != archive.read_bytes()
    harness.controller.crypters.of("AesGcmCrypter").decrypt(stored, tmp_path / "plain")
    assert (tmp_path / "plain").read_bytes() == archive.read_bytes()
    assert not [name for name in harness.files() if "Deleted_Segments" in name or "uploads" in name]


def test_what_may_not_come_back_is_refused_and_stays_kept(harness: Harness, segment: Build) -> None:
    harness.add_parts()
    assert harness.upload(segment(), tableName="parts").status_code == 200
    present = harness.http.post("/segments/parts/parts_0/restore")
    assert present.status_code == 409 and "delete it first" in present.text
    assert harness.http.delete("/segments/parts/parts_0").status_code == 200
    wrong = harness.http.post("/segments/parts/parts_0/restore", params={"crc": "x"})
    assert wrong.status_code == 400 and "expected a number" in wrong.text
    assert harness.http.post("/segments/nope/parts_0/restore").status_code == 404
    # A schema that the segment does not fit any more: as of an upload.
    assert harness.http.delete("/tables/parts").status_code == 200
    assert harness.http.delete("/schemas/parts").status_code == 200
    other = [{"name": "id", "dataType": "STRING"}, {"name": "name", "dataType": "STRING"}]
    assert harness.post_json("/schemas", PARTS_SCHEMA | {"dimensionFieldSpecs": other}).status_code == 200
    assert harness.post_json("/tables", PARTS_TABLE).status_code == 200
    refused = harness.http.post("/segments/parts/parts_0/restore")
    assert refused.status_code == 400 and "'id'" in refused.text, refused.text
    kept = harness.http.get("/tables/parts/deletedSegments").json()
    assert [entry["segmentName"] for entry in kept] == ["parts_0"]
    assert harness.controller.catalog.segment_names("parts_OFFLINE") == []


def test_segments_of_streams_are_not_restored(harness: Harness) -> None:
    with pytest.raises(UserError, match="is not in its archive"):
        restore_segment(harness.controller, "parts_REALTIME", "parts__0__0__20260101T0000Z")
