"""Proves that uploads are checked before anything is registered, that a refused one leaves no file and no node, and
that of two at once one wins. Segments are built by the real builder and travel over real HTTP.
"""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from controller_harness import Harness

from pinotpy.cluster.column_ranges import read_ranges
from pinotpy.cluster.segment_metadata import REPLACED

Builder = Callable[..., Path]


def test_a_segment_is_stored_recorded_and_assigned(harness: Harness, segment: Builder) -> None:
    harness.add_parts()
    archive = segment()
    answer = harness.upload(archive, tableName="parts", tableType="OFFLINE")
    assert (answer.status_code, answer.json()) == (
        200,
        {"status": "Successfully uploaded segment: parts_0 of table: parts_OFFLINE"},
    )
    assert harness.http.get("/segments/parts").json() == [{"OFFLINE": ["parts_0"]}]
    record = harness.http.get("/segments/parts/parts_0/metadata").json()
    assert record["segment.total.docs"] == "3"
    assert record["segment.download.url"] == "http://localhost:9000/segments/parts/parts_0"
    assert (record["segment.start.time"], record["segment.end.time"]) == (
        str(18_000 * 86_400_000),
        str(18_002 * 86_400_000),
    )
    assert (record["segment.start.time.raw"], record["segment.time.unit"]) == ("18000", "MILLISECONDS")
    assert record["segment.size.in.bytes"] == str(archive.stat().st_size)
    assert harness.http.get("/segments/parts/crc").json() == {"parts_0": record["segment.crc"]}
    states = harness.http.get("/tables/parts/idealstate").json()["OFFLINE"]
    assert states == {"parts_0": {"Server_localhost_8098": "ONLINE", "Server_localhost_8198": "ONLINE"}}
    downloaded = harness.http.get("/segments/parts/parts_0")
    assert (downloaded.headers["content-type"], downloaded.content) == (
        "application/octet-stream",
        archive.read_bytes(),
    )
    assert harness.files() == [f"store/segments/parts/parts_0/{record['segment.crc']}.tar.gz"]


@pytest.mark.parametrize("piece", [1, 500, 1 << 20])
def test_a_body_arrives_whole_in_pieces_of_any_size(harness: Harness, segment: Builder, piece: int) -> None:
    harness.add_parts()
    archive = segment().read_bytes()
    # Empty lines in front of the first part count for nothing; so many that the server does not get all at once.
    body = (
        b"\r\n" * (500_000 if piece > 1 else 10)
        + b'--b\r\ncontent-disposition: form-data; name="a"; filename="a"\r\n\r\n'
        + archive
        + b"\r\n--b--\r\n"
    )
    pieces = (body[start : start + piece] for start in range(0, len(body), piece))
    headers = {"content-type": "multipart/form-data; boundary=b"}
    answer = harness.http.post("/v2/segments", params={"tableName": "parts"}, content=pieces, headers=headers)
    assert answer.status_code == 200, answer.text
    assert harness.http.get("/segments/parts/parts_0").content == archive


def test_the_table_may_be_named_by_the_segment_and_by_its_full_name(harness: Harness, segment: Builder) -> None:
    harness.add_parts()
    assert harness.upload(segment("a")).status_code == 200
    assert harness.upload(segment("b"), tableName="parts_OFFLINE").status_code == 200
    assert (
        harness.http.post("/segments?tableName=parts", files={"x": segment("with space").read_bytes()}).status_code
        == 200
    )
    assert harness.http.get("/segments/parts").json() == [{"OFFLINE": ["a", "b", "with space"]}]
    assert harness.http.get("/segments/parts/with%20space").status_code == 200


def test_the_same_content_again_changes_times_only_and_sends_nothing(harness: Harness, segment: Builder) -> None:
    harness.add_parts()
    archive = segment()
    assert harness.upload(archive, tableName="parts").status_code == 200
    before = harness.http.get("/segments/parts/parts_0/metadata").json()
    assert harness.upload(archive, tableName="parts").status_code == 200
    after = harness.http.get("/segments/parts/parts_0/metadata").json()
    assert "segment.refresh.time" not in before
    assert {key for key in after if after[key] != before.get(key)} == {"segment.refresh.time"}
    assert harness.messages("Server_localhost_8098") == []


def test_what_pruning_goes_by_is_in_the_record_and_a_push_of_the_same_content_completes_it(
    harness: Harness, segment: Builder
) -> None:
    harness.add_parts()
    archive = segment()
    assert harness.upload(archive, tableName="parts").status_code == 200
    stored = harness.controller.catalog.segment("parts_OFFLINE", "parts_0")
    assert stored is not None
    said = read_ranges(stored.segment.column_ranges)
    assert (said.crc, said.num_docs) == (stored.segment.crc, 3)
    assert (said.columns["day"].low, said.columns["day"].high) == (18_000, 18_002)
    # As an older release wrote it, and as somebody edited it.
    for text in ("", said.to_text().replace("18002", "18001")):
        stored = harness.controller.catalog.segment("parts_OFFLINE", "parts_0")
        assert stored is not None
        poorer = replace(stored.segment, column_ranges=text, partition_metadata={"columnPartitionMap": {"x": 1}})
        harness.controller.catalog.replace_segment(poorer, stored.version)
        assert harness.upload(archive, tableName="parts").status_code == 200
        record = harness.http.get("/segments/parts/parts_0/metadata").json()
        assert read_ranges(record["segment.column.ranges"]) == said
        assert "segment.partition.metadata" not in record
    assert harness.upload(segment(amounts=(7, 8)), tableName="parts").status_code == 200
    stored = harness.controller.catalog.segment("parts_OFFLINE", "parts_0")
    assert stored is not None
    said = read_ranges(stored.segment.column_ranges)
    assert (said.crc, said.num_docs) == (stored.segment.crc, 2)


def test_new_content_replaces_the_old_and_tells_servers_and_brokers(harness: Harness, segment: Builder) -> None:
    harness.add_parts()
    assert harness.upload(segment(), tableName="parts").status_code == 200
    old = harness.http.get("/segments/parts/parts_0/metadata").json()
    other = segment(amounts=(7, 8))
    assert harness.upload(other, tableName="parts").status_code == 200
    new = harness.http.get("/segments/parts/parts_0/metadata").json()
    assert new["segment.crc"] != old["segment.crc"]
    assert (new["segment.push.time"], new["segment.total.docs"]) == (old["segment.push.time"], "2")
    assert harness.http.get("/segments/parts/parts_0").content == other.read_bytes()
    assert harness.files() == [f"store/segments/parts/parts_0/{new['segment.crc']}.tar.gz"]
    for instance in ("Server_localhost_8098", "Server_localhost_8198", "Broker_localhost_8099"):
        (message,) = harness.messages(instance)
        assert (message["MSG_SUBTYPE"], message["RESOURCE_NAME"], message["PARTITION_NAME"]) == (
            "REFRESH_SEGMENT",
            "parts_OFFLINE",
            "parts_0",
        )


def test_conditions_of_the_uploader_hold(harness: Harness, segment: Builder) -> None:
    harness.add_parts()
    archive = segment()
    assert harness.upload(archive, tableName="parts", headers={"IF-MATCH": "1"}).status_code == 412
    assert harness.upload(archive, tableName="parts").status_code == 200
    crc = harness.http.get("/segments/parts/crc").json()["parts_0"]
    refused = harness.upload(archive, tableName="parts", headers={"IF-MATCH": "12345"})
    assert (refused.status_code, refused.json()["error"]) == (
        412,
        f"For segment: parts_0 of table: parts_OFFLINE, expected CRC: 12345 does not match existing CRC: {crc}",
    )
    refused = harness.upload(segment(amounts=(9,)), tableName="parts", allowRefresh=False)
    assert (refused.status_code, refused.json()["error"]) == (
        409,
        "Segment: parts_0 already exists in table: parts_OFFLINE. Refresh not permitted.",
    )
    assert harness.upload(segment(amounts=(9,)), tableName="parts", headers={"IF-MATCH": crc}).status_code == 200


def test_a_custom_map_is_kept(harness: Harness, segment: Builder) -> None:
    harness.add_parts()
    header = {"Pinot-SegmentZKMetadataCustomMapModifier": '{"mapModifyMode":"UPDATE","map":{"k":"v"}}'}
    assert harness.upload(segment(), tableName="parts", headers=header).status_code == 200
    assert harness.http.get("/segments/parts/parts_0/metadata").json()["custom.map"] == {"k": "v"}
    assert (
        harness.upload(
            segment(), tableName="parts", headers={"Pinot-SegmentZKMetadataCustomMapModifier": "x"}
        ).status_code
        == 400
    )


# --- refused ---------------------------------------------------------------------------------------------------------


def tar_of(*entries: tuple[str, bytes] | tarfile.TarInfo) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for entry in entries:
            if isinstance(entry, tarfile.TarInfo):
                tar.addfile(entry)
            else:
                info = tarfile.TarInfo(entry[0])
                info.size = len(entry[1])
                tar.addfile(info, io.BytesIO(entry[1]))
    return out.getvalue()


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def device(name: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.devmajor, info.devminor = tarfile.CHRTYPE, 1, 5
    return info


def files_of(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar.getmembers() if member.isfile()}  # type: ignore[union-attr]


def renamed(archive: Path, old: str, new: str) -> bytes:
    return tar_of(*((name.replace(old, new), content) for name, content in files_of(archive).items()))


def damaged(archive: Path, file: str) -> bytes:
    contents = files_of(archive)
    flipped = bytearray(contents[file])
    flipped[-9] ^= 0x40
    return tar_of(*((name, bytes(flipped) if name == file else content) for name, content in contents.items()))


ATTACKS: dict[str, Callable[[Path], bytes]] = {
    "no tar": lambda good: b"this is no archive, honestly.",
    "empty file": lambda good: b"",
    "truncated": lambda good: good.read_bytes()[: good.stat().st_size // 2],
    "plain tar without gzip": lambda good: gzip.decompress(good.read_bytes()),
    "garbage after the end": lambda good: good.read_bytes() + b"x" * 100,
    "no metadata": lambda good: tar_of(*((n, c) for n, c in files_of(good).items() if not n.endswith("metadata"))),
    "no columns": lambda good: tar_of(*((n, c) for n, c in files_of(good).items() if n.endswith("metadata"))),
    "empty folder only": lambda good: tar_of(link("parts_0", "", tarfile.DIRTYPE)),
    "climbs out": lambda good: renamed(good, "parts_0/", "../parts_0/"),
    "climbs out inside": lambda good: renamed(good, "parts_0/", "parts_0/../../"),
    "absolute path": lambda good: renamed(good, "parts_0/", "/tmp/parts_0/"),
    "symbolic link": lambda good: tar_of(
        link("parts_0/columns", "/etc/passwd"), *((n, c) for n, c in files_of(good).items())
    ),
    "hard link": lambda good: tar_of(link("parts_0/columns", "/etc/passwd", tarfile.LNKTYPE)),
    "device": lambda good: tar_of(device("parts_0/columns")),
    "two roots": lambda good: tar_of(*files_of(good).items(), ("other/metadata", b"x")),
    "folder with another name": lambda good: renamed(good, "parts_0/", "other/"),
    "strange file": lambda good: tar_of(*files_of(good).items(), ("parts_0/evil.sh", b"x")),
    "flipped bit in the columns": lambda good: damaged(good, "parts_0/columns"),
    "flipped bit in the metadata": lambda good: damaged(good, "parts_0/metadata"),
    "many entries": lambda good: tar_of(*((f"parts_0/columns.{i}", b"") for i in range(1, 1200))),
    "bomb": lambda good: tar_of(("parts_0/columns", b"\0" * (80 << 20))),
}


@pytest.fixture(params=["memory", "disk"])
def checked_in(shared: Harness, request: pytest.FixtureRequest) -> Iterator[str]:
    """Where uploads are checked."""
    room = shared.controller.check_room
    before_bytes = room.left_bytes
    taken_bytes = before_bytes if request.param == "disk" else 0
    assert room.take(taken_bytes)
    yield request.param
    room.give_back(taken_bytes)
    assert room.left_bytes == before_bytes


@pytest.mark.usefixtures("checked_in")
@pytest.mark.parametrize("attack", ATTACKS)
def test_what_is_no_segment_is_a_4xx_and_leaves_nothing(
    shared: Harness, segment: Builder, attack: str, tmp_path: Path
) -> None:
    harness = shared
    content = ATTACKS[attack](segment())
    nodes, outside = harness.nodes(), {path for path in tmp_path.rglob("*") if "data" not in path.parts}
    answer = harness.upload(content, tableName="parts")
    assert answer.status_code == 400, answer.text
    reason = answer.json()["error"]
    assert len(reason) > 15
    assert str(harness.data_dir) not in reason
    assert harness.nodes() == nodes
    assert harness.files() == []
    assert {path for path in tmp_path.rglob("*") if "data" not in path.parts} == outside


def test_a_segment_of_another_table_or_schema_is_refused_with_the_reason(harness: Harness, segment: Builder) -> None:
    harness.add_parts()
    assert "built for table 'other'" in harness.upload(segment(table="other"), tableName="parts").json()["error"]
    smaller = {"schemaName": "few", "dimensionFieldSpecs": [{"name": "id", "dataType": "LONG"}]}
    assert harness.post_json("/schemas", smaller).status_code == 200
    table = {
        "tableName": "few",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": 1},
        "tenants": {},
        "tableIndexConfig": {},
    }
    assert harness.post_json("/tables", table).status_code == 200
    answer = harness.upload(segment(table="few"), tableName="few")
    assert answer.status_code == 400
    for reason in ("column 'id' is INT, schema 'few' says LONG", "column 'name' is not in schema 'few'"):
        assert reason in answer.json()["error"]
    assert harness.files() == []


def test_columns_that_a_segment_lacks_are_told(harness: Harness, segment: Builder) -> None:
    harness.add_parts()
    schema = harness.http.get("/schemas/parts").json()
    schema["dimensionFieldSpecs"].append({"name": "later", "dataType": "STRING"})
    assert harness.post_json("/schemas", schema).status_code == 200
    answer = harness.upload(segment(), tableName="parts")
    assert (answer.status_code, answer.json()["missingColumns"]) == (200, ["later"])


def test_times_of_a_wrong_unit_are_refused(harness: Harness, segment: Builder) -> None:
    harness.add_parts()
    answer = harness.upload(segment(first_day=3), tableName="parts")
    assert answer.status_code == 400
    assert "1971-01-01 to 2071-01-01" in answer.json()["error"]
    assert "segmentTimeValueCheck" in answer.json()["error"]


def test_times_of_any_year_are_taken_where_the_table_does_not_check_them(harness: Harness, segment: Builder) -> None:
    harness.add_parts()
    config = harness.http.get("/tables/parts").json()["OFFLINE"]
    for checked, status in ((False, 200), (True, 400)):
        config["ingestionConfig"] = {"segmentTimeValueCheck": checked}
        assert harness.http.put("/tables/parts", json=config).status_code == 200
        answer = harness.upload(segment("parts_early" if checked else "parts_0", first_day=3), tableName="parts")
        assert answer.status_code == status, answer.text


@pytest.mark.parametrize(
    ("params", "headers", "status", "reason"),
    [
        ({"tableName": "none"}, {}, 400, "Failed to find table: none_OFFLINE"),
        ({"tableName": "parts", "tableType": "REALTIME"}, {}, 400, "Failed to find table: parts_REALTIME"),
        ({"tableName": "parts", "tableType": "x"}, {}, 400, "Illegal table type 'x'"),
        ({"tableName": "parts_REALTIME"}, {}, 400, "does not match table type"),
        ({"tableName": "a/../b"}, {}, 400, "cannot be a table name"),
        ({"tableName": "parts"}, {"UPLOAD_TYPE": "MAGIC"}, 400, "expected UPLOAD_TYPE"),
        ({"tableName": "parts"}, {"UPLOAD_TYPE": "URI"}, 400, "Source download URI is required"),
        (
            {"tableName": "parts"},
            {"UPLOAD_TYPE": "URI", "DOWNLOAD_URI": "file:///etc/hostname"},
            403,
            "pinotpy.segment.fetcher.allowedUris",
        ),
        (
            {"tableName": "parts"},
            {"UPLOAD_TYPE": "METADATA", "DOWNLOAD_URI": "http://169.254.169.254/"},
            403,
            "pinotpy.segment.fetcher.allowedUris",
        ),
    ],
)
def test_parameters_are_checked_before_the_body(
    shared: Harness, segment: Builder, params: dict[str, str], headers: dict[str, str], status: int, reason: str
) -> None:
    harness = shared
    answer = harness.upload(segment(), headers=headers, **params)
    assert answer.status_code == status, answer.text
    assert reason in answer.json()["error"]
    assert harness.files() == []


def test_bodies_of_other_kinds_are_refused(harness: Harness) -> None:
    harness.add_parts()
    answer = harness.http.post("/v2/segments?tableName=parts")
    assert (answer.status_code, answer.json()["error"]) == (
        400,
        "Segment file (as multipart/form-data) is required for SEGMENT upload mode",
    )
    answer = harness.http.post(
        "/v2/segments?tableName=parts", content=b"tar", headers={"Content-Type": "application/octet-stream"}
    )
    assert answer.status_code == 415
    assert harness.http.post("/v2/segments?tableName=parts", files=[("a", b"1"), ("b", b"2")]).status_code == 400


def test_an_upload_over_the_limit_is_cut_off_with_413(start: Callable[..., Harness], segment: Builder) -> None:
    harness = start(settings={"upload_bytes_max": 2000})
    harness.add_parts()
    assert harness.upload(b"x" * 3000, tableName="parts").status_code == 413

    def endless() -> object:
        # Chunked, so that no Content-Length says how long it is.
        yield b'--b\r\nContent-Disposition: form-data; name="f"; filename="f"\r\n\r\n'
        for _ in range(1000):
            yield b"x" * 1000

    answer = harness.http.post(
        "/v2/segments?tableName=parts", content=endless(), headers={"Content-Type": "multipart/form-data; boundary=b"}
    )  # type: ignore[arg-type]
    assert answer.status_code == 413
    assert harness.files() == []


def test_too_few_servers_refuse_it_with_the_numbers_and_leave_nothing(harness: Harness, segment: Builder) -> None:
    harness.add_parts()
    assert harness.http.put("/instances/Server_localhost_8198/updateTags?tags=server_untagged").status_code == 200
    nodes = harness.nodes()
    answer = harness.upload(segment(), tableName="parts")
    assert (answer.status_code, answer.json()["error"]) == (
        400,
        "Number of instances: 1 with tag: DefaultTenant_OFFLINE < table replication: 2 for table: parts_OFFLINE",
    )
    assert harness.nodes() == nodes
    assert harness.files() == []


def test_a_full_quota_refuses_the_next_segment(harness: Harness, segment: Builder) -> None:
    archive = segment()
    harness.add_parts(quota={"storage": f"{archive.stat().st_size + 100}B"})
    assert harness.upload(archive, tableName="parts").status_code == 200
    answer = harness.upload(segment("parts_1"), tableName="parts")
    assert answer.status_code == 429
    assert "quota.storage" in answer.json()["error"]
    assert harness.upload(archive, tableName="parts").status_code == 200


def test_of_two_uploads_of_one_segment_at_once_one_wins(harness: Harness, segment: Builder) -> None:
    harness.add_parts()
    archives = [segment(amounts=range(1, 2000 + index)) for index in range(4)]
    with ThreadPoolExecutor(4) as pool:
        answers = list(
            pool.map(lambda archive: harness.upload(archive, tableName="parts", allowRefresh=False), archives)
        )
    assert sorted(answer.status_code for answer in answers) == [200, 409, 409, 409]
    winner = next(index for index, answer in enumerate(answers) if answer.status_code == 200)
    assert harness.http.get("/segments/parts/parts_0").content == archives[winner].read_bytes()
    assert len(harness.files()) == 1


def test_segments_uploaded_at_once_are_spread_evenly(start: Callable[..., Harness], segment: Builder) -> None:
    harness = start(servers=4)
    harness.add_parts()
    archives = [segment(f"parts_{index}") for index in range(12)]
    with ThreadPoolExecutor(6) as pool:
        assert all(
            answer.status_code == 200
            for answer in pool.map(lambda archive: harness.upload(archive, tableName="parts"), archives)
        )
    (entry,) = harness.http.get("/segments/parts/servers").json()
    assert sorted(entry["serverToSegmentsCountMap"].values()) == [6, 6, 6, 6]


def test_a_record_says_that_its_content_was_replaced_until_the_segment_is_another(
    harness: Harness, segment: Builder
) -> None:
    harness.add_parts()
    catalog = harness.controller.catalog

    def replaced() -> str | None:
        stored = catalog.segment("parts_OFFLINE", "parts_0")
        assert stored is not None
        return stored.segment.extra.get(REPLACED)

    first, second = segment(), segment(amounts=(7, 8))
    assert harness.upload(first, tableName="parts").status_code == 200
    crc = catalog.segment("parts_OFFLINE", "parts_0").segment.crc  # type: ignore[union-attr]
    assert replaced() is None
    assert harness.upload(second, tableName="parts").status_code == 200
    said = replaced()
    assert said is not None and said.startswith(f"{crc} at ")
    assert harness.upload(second, tableName="parts").status_code == 200
    assert replaced() == said, "the same content again"
    assert harness.upload(first, tableName="parts").status_code == 200
    assert replaced() not in (None, said)
