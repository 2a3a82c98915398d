"""Proves that the list of a segment's input files comes with an upload of any type, lies beside the archive while a
record names it and no longer, and that the record tells of it; uploads without a list are as before.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from controller_harness import Harness
from input_lists import list_of

from pinotpy.cluster.records import ZNRecord
from pinotpy.cluster.segment_metadata import INPUT_CHARACTERS_MAX, InputsRecord, SegmentZkMetadata
from pinotpy.segment.archive.archive import pack_metadata, read_archive_metadata
from pinotpy.segment.input_list import InputList, SegmentInput

Builder = Callable[..., Path]


def named(*names: str, rows: int = 1) -> InputList:
    return InputList.of(SegmentInput(f"s3://bucket/{name}", 10, "crc32c:00000001", rows) for name in names)


def sent(
    harness: Harness,
    archive: Path,
    inputs: InputList | bytes | None,
    headers: dict[str, str] | None = None,
    path: str = "/v2/segments",
) -> httpx.Response:
    parts: dict[str, Any] = {"segment": ("s.tar.gz", archive.read_bytes())}
    if inputs is not None:
        parts["inputs"] = ("inputs.json", inputs if isinstance(inputs, bytes) else inputs.to_bytes())
    return harness.http.post(path, files=parts, params={"tableName": "parts"}, headers=headers or {})


def record(harness: Harness, name: str = "parts_0") -> dict[str, Any]:
    return dict(harness.http.get(f"/segments/parts/{name}/metadata").json())


def lists(harness: Harness) -> list[str]:
    return [file for file in harness.files() if file.endswith(".json")]


def test_a_list_lies_beside_the_archive_and_the_record_names_it(harness: Harness, segment: Builder) -> None:
    harness.add_parts()
    inputs = named(*(f"day={day:02}/a.csv" for day in range(25)))
    assert sent(harness, segment(), inputs).status_code == 200
    found = record(harness)
    assert (found["segment.inputs.sha256"], found["segment.inputs.count"]) == (inputs.digest, "25")
    assert found["segment.inputs"] == [file.uri for file in inputs.files[:20]]
    assert harness.http.get("/segments/parts/zkmetadata").json()["parts_0"]["segment.inputs.sha256"] == inputs.digest
    answer = harness.http.get("/segments/parts/parts_0/inputs")
    assert (answer.status_code, answer.headers["content-type"], answer.content) == (
        200,
        "application/json",
        inputs.to_bytes(),
    )
    crc = found["segment.crc"]
    assert sorted(harness.files()) == [
        f"store/segments/parts/parts_0/{crc}.tar.gz",
        f"store/segments/parts/parts_0/{inputs.digest}.inputs.json",
    ]
    assert harness.http.get("/segments/parts/parts_0").content[:2] == b"\x1f\x8b"


def test_it_is_replaced_with_the_segment_and_kept_with_its_content(harness: Harness, segment: Builder) -> None:
    harness.add_parts()
    archive, first, second = segment(), named("a"), named("b")
    assert sent(harness, archive, first).status_code == 200
    # The same rows of a file that was moved.
    assert sent(harness, archive, second).status_code == 200
    assert (record(harness)["segment.inputs"], [file.rpartition("/")[2] for file in lists(harness)]) == (
        ["s3://bucket/b"],
        [f"{second.digest}.inputs.json"],
    )
    # The same content from a client that knows of no lists: what is known of it stays true.
    assert sent(harness, archive, None).status_code == 200
    assert harness.http.get("/segments/parts/parts_0/inputs").content == second.to_bytes()
    assert sent(harness, segment(amounts=(7, 8)), first).status_code == 200
    assert (record(harness)["segment.inputs.sha256"], len(lists(harness))) == (first.digest, 1)
    # Other content without a list.
    assert sent(harness, segment(amounts=(9,)), None).status_code == 200
    assert ("segment.inputs.sha256" in record(harness), lists(harness)) == (False, [])
    missing = harness.http.get("/segments/parts/parts_0/inputs")
    assert (missing.status_code, "uploaded without one" in missing.json()["error"]) == (404, True)


def test_it_goes_with_the_segment(harness: Harness, segment: Builder) -> None:
    harness.add_parts()
    assert sent(harness, segment("a"), named("a")).status_code == 200
    assert sent(harness, segment("b"), named("b")).status_code == 200
    assert harness.http.delete("/segments/parts/a?retention=0d").status_code == 200
    assert [file.split("/")[3] for file in lists(harness)] == ["b"]
    assert harness.http.delete("/segments/parts/b?retention=1d").status_code == 200
    (kept,) = lists(harness)
    assert kept.startswith(f"store/Deleted_Segments/parts/b/{named('b').digest}.until-")
    harness.controller.files.purge(harness.controller.clock.now_ms() + 2 * 86_400_000)
    assert harness.files() == []


@pytest.mark.parametrize("kind", ["URI", "METADATA"])
@pytest.mark.parametrize("path", ["/segments", "/v2/segments"])
def test_it_comes_with_every_type_of_upload(
    start: Callable[..., Harness], segment: Builder, kind: str, path: str
) -> None:
    archive, inputs = segment(), named("a")
    harness = start(settings={"segment_uris_allowed": (f"file://{archive.parent}/",)})
    harness.add_parts()
    parts: dict[str, Any] = {"inputs": ("i.json", inputs.to_bytes())}
    if kind == "METADATA":
        with archive.open("rb") as stream:
            _, data = read_archive_metadata(stream)
        parts["segment"] = ("s.tar.gz", pack_metadata(data, "parts_0"))
    headers = {"UPLOAD_TYPE": kind, "DOWNLOAD_URI": f"file://{archive}"}
    answer = harness.http.post(path, files=parts, params={"tableName": "parts"}, headers=headers)
    assert answer.status_code == 200, answer.text
    # Also where the archive stays where it is, the list is ours.
    assert harness.http.get("/segments/parts/parts_0/inputs").content == inputs.to_bytes()
    assert len(harness.files()) == (2 if kind == "URI" and path == "/v2/segments" else 1)


def test_what_is_no_list_is_refused_and_leaves_nothing(harness: Harness, segment: Builder, tmp_path: Path) -> None:
    harness.add_parts()
    archive = segment()
    for wrong in (
        b"",
        b"{}",
        b'{"version": 2, "files": []}',
        named("b", "a").to_bytes().replace(b"bucket/a", b"bucket/c"),
        b" " * (17 << 20),
    ):
        answer = sent(harness, archive, wrong)
        assert (answer.status_code, "the list of input files cannot be taken" in answer.json()["error"]) == (
            400,
            True,
        ), answer.text
    three = dict.fromkeys(("a", "b", "inputs"), ("x", b"x"))
    assert harness.http.post("/v2/segments", files=three, params={"tableName": "parts"}).status_code == 400
    two = {name: ("x", archive.read_bytes()) for name in ("a", "b")}
    assert harness.http.post("/v2/segments", files=two, params={"tableName": "parts"}).status_code == 400
    assert (harness.http.get("/segments/parts").json(), harness.files()) == ([{"OFFLINE": []}], [])
    # A lone part is the segment, whatever it is called.
    assert (
        harness.http.post(
            "/v2/segments", files={"inputs": ("x", archive.read_bytes())}, params={"tableName": "parts"}
        ).status_code
        == 200
    )
    # A refused refresh leaves the list that is there.
    kept = named("a")
    assert sent(harness, archive, kept).status_code == 200
    refused = sent(harness, segment(amounts=(5,)), named("b"), {"IF-MATCH": "1"})
    assert (refused.status_code, harness.http.get("/segments/parts/parts_0/inputs").content) == (412, kept.to_bytes())
    assert len(lists(harness)) == 1


def test_a_segment_that_is_there_gets_a_list(harness: Harness, segment: Builder) -> None:
    harness.add_parts()
    assert sent(harness, segment(), None).status_code == 200
    crc, before = record(harness)["segment.crc"], harness.messages("Server_localhost_8098")
    for inputs in (named("a"), named("b", "c")):
        put = harness.http.put("/segments/parts/parts_0/inputs", content=inputs.to_bytes(), headers={"If-Match": crc})
        assert put.status_code == 200, put.text
        assert (record(harness)["segment.inputs.sha256"], record(harness)["segment.crc"], len(lists(harness))) == (
            inputs.digest,
            crc,
            1,
        )
    assert harness.messages("Server_localhost_8098") == before, "no server loads anything for it"
    for path, headers, content, status in (
        ("parts_0", {"If-Match": "1"}, named("a").to_bytes(), 412),
        ("parts_1", {}, named("a").to_bytes(), 404),
        ("parts_0", {}, b"no list", 400),
    ):
        assert (
            harness.http.put(f"/segments/parts/{path}/inputs", content=content, headers=headers).status_code == status
        )
    assert harness.http.get("/segments/parts/parts_0/inputs").content == named("b", "c").to_bytes()


def test_the_record_holds_as_many_names_as_it_takes_and_is_read_back() -> None:
    long = [f"s3://bucket/{'x' * 3_000}/{number:03}" for number in range(30)]
    shown = InputsRecord.of("ab", long)
    assert shown.num_files == 30 and 0 < sum(map(len, shown.uris)) <= INPUT_CHARACTERS_MAX
    segment = SegmentZkMetadata("s", "t_OFFLINE", 1, 2, 3, inputs=InputsRecord.of("ab", ["s3://b/a", "s3://b/b"]))
    assert SegmentZkMetadata.from_record(ZNRecord.from_bytes(segment.to_record().to_bytes()), "t_OFFLINE") == segment


def test_lists_are_written_as_the_format_says(tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_bytes(b"1,2\n")
    inputs = list_of(tmp_path / "b.csv")
    assert InputList.from_bytes(inputs.to_bytes(), "here") == inputs
    without = InputList.of([SegmentInput("file:///a", -1, "", 4)])
    assert (b"fileRows" in without.to_bytes(), InputList.from_bytes(without.to_bytes(), "here")) == (False, without)
