"""Proves that archives that are missing or damaged in the deep store are found, told, and rebuilt from a replica, equal
to what was uploaded; that nothing is touched that is sound, elsewhere, or out of reach; that reading keeps to its rate.
A real server on loopback is the replica.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from controller_harness import PARTS_TABLE, Harness
from scripted_web import NoWaiting

from pinotpy.clock import SystemClock
from pinotpy.cluster.archive_findings import CHARS_MAX, FINDINGS_KEPT_MAX, ArchiveFindingsNode
from pinotpy.controller.archive_debug import debug_archives
from pinotpy.controller.identity import Identity
from pinotpy.controller.periodic.deep_store_scrub import DeepStoreScrub
from pinotpy.controller.segment_files import SegmentFiles
from pinotpy.errors import RemoteError
from pinotpy.segment.archive.archive import unpack_segment
from pinotpy.segment.immutable import load_segment
from pinotpy.server.api.segment_archive import archive_routes
from pinotpy.server.tables.archive_faults import ArchiveFaults
from pinotpy.server.tables.given_archives import GivenArchives
from pinotpy.server.tables.registry import SegmentRegistry
from pinotpy.service.access import AllowAll
from pinotpy.service.http import build_app
from pinotpy.service.http_server import serve
from pinotpy.service.metric_catalogue import METRICS_BY_ROLE
from pinotpy.service.metrics import Metrics
from pinotpy.service.peer_archives import PeerArchives

TABLE = "parts_OFFLINE"
RATE = 1 << 20
DAY_S = 86_400

Builder = Callable[..., Path]


class Replica:
    """A server that serves what it is given."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.registry, self.faults = SegmentRegistry(), ArchiveFaults(SystemClock())
        given = GivenArchives(self.registry, SystemClock(), at_once_max=2, timeout_ms=60_000)
        metrics = Metrics("server", METRICS_BY_ROLE["server"])
        routes = archive_routes(given, self.faults)
        self.server = serve(
            build_app("server", routes, access=AllowAll(), metrics=metrics, ready=lambda: None), "127.0.0.1", 0
        )

    def take(self, archive: Path) -> None:
        self.folder.mkdir(exist_ok=True)
        self.registry.put(TABLE, load_segment(unpack_segment(archive, self.folder)))


@pytest.fixture
def replica(tmp_path: Path) -> Iterator[Replica]:
    started = Replica(tmp_path / "replica")
    yield started
    started.server.stop(5)
    started.registry.close()


@pytest.fixture
def harness(start: Callable[..., Harness]) -> Harness:
    harness = start(clock=NoWaiting())
    harness.add_parts()
    return harness


def scrub_of(
    harness: Harness, *replicas: Replica, period_s: float = DAY_S, during: Callable[[], object] = lambda: None
) -> DeepStoreScrub:
    def urls(table: str, segment: str) -> list[str]:
        during()
        return [replica.server.url for replica in replicas]

    peers = PeerArchives(urls, dict, NoWaiting())
    return DeepStoreScrub(harness.controller, peers, period_s=period_s, bytes_per_s=RATE)


def look(scrub: DeepStoreScrub) -> int:
    """Looks at the table and reads all that waits; how many archives."""
    scrub.run_table(TABLE)
    return read(scrub)


def read(scrub: DeepStoreScrub) -> int:
    num_read = 0
    while scrub.step():
        num_read += 1
    return num_read


def stored(harness: Harness) -> list[Path]:
    return [harness.data_dir / name for name in harness.files() if name.startswith("store/segments/")]


def told(harness: Harness) -> dict[str, Any]:
    (half,) = harness.http.get("/debug/tables/parts").raise_for_status().json()
    found: dict[str, Any] = half["deepStore"]
    return found


def spoil(file: Path, damage: str, other: bytes) -> None:
    content = file.read_bytes()
    middle = len(content) // 2
    flipped = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
    file.unlink()
    if damage != "missing":
        file.write_bytes({"flipped": flipped, "truncated": content[:-9], "empty": b"", "another": other}[damage])


@pytest.mark.parametrize("damage", ["missing", "flipped", "truncated", "empty", "another"])
def test_what_is_missing_or_damaged_is_rebuilt_as_it_was(
    harness: Harness, segment: Builder, replica: Replica, damage: str
) -> None:
    first, second = segment("a", amounts=range(500)), segment("b")
    for archive in (first, second):
        assert harness.upload(archive, tableName="parts").status_code == 200
        replica.take(archive)
    scrub = scrub_of(harness, replica)
    assert look(scrub) == 2 and told(harness)["numArchivesSound"] == 2
    assert look(scrub) == 0, "they were read a moment ago"
    (file,) = (path for path in stored(harness) if "/a/" in str(path))
    spoil(file, damage, second.read_bytes())
    before = stored(harness)
    assert look(scrub) == 2, "it is read, and once more when it is rebuilt"
    assert file.read_bytes() == first.read_bytes() and set(stored(harness)) == {file, *before}
    found = told(harness)
    assert (found["numFindings"], found["numArchivesRepaired"], found["numArchivesSound"]) == (0, 1, 2)
    assert harness.controller.catalog.uploads.all() == []


def test_without_a_replica_it_is_told_and_left_until_somebody_uploads_it(harness: Harness, segment: Builder) -> None:
    archive = segment("a")
    harness.upload(archive, tableName="parts")
    (file,) = stored(harness)
    spoil(file, "flipped", b"")
    scrub = scrub_of(harness)
    assert look(scrub) == 1
    (finding,) = told(harness)["findings"]
    assert (finding["segmentName"], finding["state"], finding["numAttempts"]) == ("a", "DAMAGED", 1)
    assert finding["reason"] and "no other server serves it" in finding["notRepaired"] and finding["sinceMs"] > 0
    metrics = harness.http.get("/metrics").text
    assert any("ArchivesDamaged" in line and line.endswith((" 1", " 1.0")) for line in metrics.splitlines())
    assert look(scrub) == 0, "nothing changed, and it is not time yet"
    assert harness.upload(archive, tableName="parts").status_code == 200
    assert look(scrub) == 1 and told(harness)["findings"] == [] and told(harness)["numArchivesSound"] == 1


def next_leader(start: Callable[..., Harness], harness: Harness, **options: Any) -> Harness:
    """A controller that takes over the cluster and its deep store."""
    number = 9_001 + len(harness.controller.catalog.live_instances())
    return start(
        tree=harness.tree,
        servers=0,
        broker=f"Broker_localhost_{number}",
        identity=Identity(f"Controller_localhost_{number}", harness.controller.identity.url),
        deep_store=harness.controller.files.store,
        clock=NoWaiting(),
        **options,
    )


def test_the_next_leader_tells_what_was_found_and_looks_at_it_first(
    harness: Harness, segment: Builder, start: Callable[..., Harness]
) -> None:
    archives = {name: segment(name) for name in ("a", "b", "c")}
    for archive in archives.values():
        harness.upload(archive, tableName="parts")
    (file,) = (path for path in stored(harness) if "/b/" in str(path))
    spoil(file, "flipped", b"")
    assert look(scrub_of(harness)) == 3
    (finding,) = told(harness)["findings"]
    second = next_leader(start, harness)
    assert told(second)["findings"] == []
    scrub = scrub_of(second)
    scrub.recall()
    assert told(second)["findings"] == [finding]
    scrub.run_table(TABLE)
    assert scrub.step()
    (again,) = told(second)["findings"]
    assert again["numAttempts"] == 2 and again["sinceMs"] == finding["sinceMs"], "it was looked at before the others"
    assert second.upload(archives["b"], tableName="parts").status_code == 200
    assert look(scrub) == 3 and told(second)["findings"] == []
    third = next_leader(start, second)
    scrub_of(third).recall()
    assert told(third)["findings"] == [], "what is mended is forgotten"


def test_findings_of_a_table_that_is_gone_are_forgotten_and_a_record_that_is_damaged_stops_nothing(
    harness: Harness, segment: Builder, start: Callable[..., Harness]
) -> None:
    harness.upload(segment("a"), tableName="parts")
    stored(harness)[0].unlink()
    scrub = scrub_of(harness)
    assert look(scrub) == 1
    node = harness.paths.archive_findings
    assert b"MISSING" in harness.store.get(node)[0]
    assert harness.http.delete("/tables/parts").status_code == 200
    scrub.run_once()
    assert b"MISSING" not in harness.store.get(node)[0]
    harness.store.set(node, b"{no json")
    second = next_leader(start, harness)
    second_scrub = scrub_of(second)
    second_scrub.recall()
    second_scrub.run_once()
    assert second_scrub.step() is False


def test_the_record_of_findings_has_a_bound(harness: Harness) -> None:
    node = ArchiveFindingsNode(harness.store, harness.paths.archive_findings, lambda: ())
    assert node.write({f"t/s{number}/1": {"reason": "x"} for number in range(FINDINGS_KEPT_MAX + 7)}) == 7
    assert len(node.read()) == FINDINGS_KEPT_MAX
    assert node.write({f"t/s{number}/1": {"reason": "x" * (CHARS_MAX // 3)} for number in range(4)}) == 2
    assert list(node.read()) == ["t/s0/1", "t/s1/1"]


def test_archives_at_the_address_that_they_were_pushed_from_are_read_there(
    segment: Builder, start: Callable[..., Harness], tmp_path: Path
) -> None:
    files = tmp_path / "files"
    files.mkdir()
    harness = start(clock=NoWaiting(), settings={"segment_uris_allowed": f"file://{files}/"})
    harness.add_parts()
    for name in ("a", "b", "c"):
        (files / name).write_bytes(segment(name).read_bytes())
        headers = {"UPLOAD_TYPE": "URI", "DOWNLOAD_URI": f"file://{files}/{name}", "content-type": "application/json"}
        assert harness.http.post("/segments", headers=headers, params={"tableName": "parts"}).status_code == 200
    assert stored(harness) == []
    spoil(files / "b", "flipped", b"")
    (files / "c").unlink()
    scrub = scrub_of(harness)
    assert look(scrub) == 3
    found = told(harness)
    assert [(each["segmentName"], each["state"]) for each in found["findings"]] == [("b", "DAMAGED"), ("c", "MISSING")]
    assert all("push the segment again" in each["notRepaired"] for each in found["findings"])
    assert (found["numArchivesSound"], found["numNotScrubbed"]) == (1, 0)
    assert look(scrub) == 0, "they were read a moment ago, or are due later"
    second = next_leader(start, harness)  # whose operator allows it nothing
    look(scrub_of(second))
    found = told(second)
    assert [each["segmentName"] for each in found["notScrubbed"]] == ["a", "b", "c"]
    assert all(each["reason"].startswith("not scrubbed: ") for each in found["notScrubbed"])
    assert "pinotpy.segment.fetcher.allowedUris" in found["notScrubbed"][0]["reason"]


def test_an_address_that_does_not_answer_is_not_asked_for_every_archive_of_it(
    segment: Builder, start: Callable[..., Harness], tmp_path: Path
) -> None:
    served = tmp_path / "served"
    served.mkdir()
    web = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(served)))
    threading.Thread(target=web.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    address = f"http://127.0.0.1:{web.server_address[1]}/"
    harness = start(clock=NoWaiting(), settings={"segment_uris_allowed": address})
    harness.add_parts()
    for name in ("a", "b"):
        (served / name).write_bytes(segment(name).read_bytes())
        headers = {"UPLOAD_TYPE": "URI", "DOWNLOAD_URI": f"{address}{name}", "content-type": "application/json"}
        answer = harness.http.post("/segments", headers=headers, params={"tableName": "parts"})
        assert answer.status_code == 200, answer.text
    web.shutdown()
    web.server_close()
    assert look(scrub_of(harness)) == 2
    found = told(harness)
    assert found["findings"] == [] and len(found["notScrubbed"]) == 2
    assert len({each["reason"] for each in found["notScrubbed"]}) == 1, "the second one was not asked for"


def test_what_a_server_could_not_get_is_read_although_it_is_not_due(
    harness: Harness, segment: Builder, replica: Replica
) -> None:
    archive = segment("a")
    harness.upload(archive, tableName="parts")
    replica.take(archive)
    port = urlsplit(replica.server.url).port
    harness.add_instance("Server_127.0.0.1_1", ("DefaultTenant_OFFLINE",), fields={"adminPort": str(port)})
    (file,) = stored(harness)
    spoil(file, "truncated", b"")
    scrub = scrub_of(harness, replica, period_s=0)
    scrub.run_once()
    assert look(scrub) == 0, "nobody complained, and reading is off"
    crc = int(file.name.partition(".")[0])
    replica.faults.found(TABLE, "a", crc, "the archive is bad", "http://other:1")
    (fault,) = told_by_servers(harness, "Server_127.0.0.1_1")
    assert (fault["reason"], fault["givenBy"]) == ("the archive is bad", "http://other:1")
    scrub.run_once()
    assert read(scrub) == 2 and file.read_bytes() == archive.read_bytes()
    scrub.run_once()
    assert read(scrub) == 0, "one report is one look"
    assert told_by_servers(harness, "Server_127.0.0.1_1") == [], "it is mended since"


def told_by_servers(harness: Harness, server: str) -> list[dict[str, Any]]:
    faults: list[dict[str, Any]] = debug_archives(harness.controller, TABLE, [server])["serverFaults"]
    return faults


def test_a_store_that_does_not_answer_is_no_finding(
    harness: Harness, segment: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.upload(segment("a"), tableName="parts")

    def away(*_: Any) -> Any:
        raise RemoteError("the storage is away")

    with monkeypatch.context() as patch:
        patch.setattr(SegmentFiles, "open", away)
        scrub = scrub_of(harness)
        assert look(scrub) == 1
        found = told(harness)
        assert (found["numFindings"], found["numArchivesSound"]) == (0, 0)
    assert look(scrub) == 1 and told(harness)["numArchivesSound"] == 1, "it is still due"


def test_a_segment_that_is_deleted_while_it_is_rebuilt_leaves_nothing(
    harness: Harness, segment: Builder, replica: Replica
) -> None:
    archive = segment("a")
    harness.upload(archive, tableName="parts")
    replica.take(archive)
    stored(harness)[0].unlink()

    def deletes() -> None:
        harness.http.delete("/segments/parts/a", params={"retention": "0d"})

    assert look(scrub_of(harness, replica, during=deletes)) == 1
    assert stored(harness) == [] and harness.controller.catalog.uploads.all() == []


def test_reading_keeps_to_its_rate(harness: Harness, segment: Builder) -> None:
    archive = segment("a", amounts=range(2_000))
    harness.upload(archive, tableName="parts")
    clock = harness.controller.clock
    assert isinstance(clock, NoWaiting)
    clock.waits.clear()
    assert look(scrub_of(harness)) == 1
    assert sum(clock.waits) == pytest.approx(archive.stat().st_size / RATE)


def test_the_archive_of_a_table_with_a_crypter_is_encrypted_again(
    start: Callable[..., Harness], segment: Builder, replica: Replica, tmp_path: Path
) -> None:
    pytest.importorskip("cryptography", reason="the built-in crypter needs pip install 'pinotpy[crypter]'")
    (tmp_path / "key").write_text("5a" * 32)
    harness = start(clock=NoWaiting(), settings={"crypter": {"aesgcmcrypter.keyFile": str(tmp_path / "key")}})
    config = PARTS_TABLE["segmentsConfig"] | {"crypterClassName": "AesGcmCrypter"}
    harness.add_parts(segmentsConfig=config)
    archive = segment("a")
    assert harness.upload(archive, tableName="parts").status_code == 200
    replica.take(archive)
    (file,) = stored(harness)
    plain, sealed = archive.read_bytes(), file.read_bytes()
    scrub = scrub_of(harness, replica)
    assert look(scrub) == 1 and told(harness)["numArchivesSound"] == 1
    spoil(file, "flipped", b"")
    assert look(scrub) == 2 and told(harness)["numArchivesRepaired"] == 1
    assert plain not in file.read_bytes() and len(file.read_bytes()) == len(sealed)
    harness.controller.crypters.of("AesGcmCrypter").decrypt(file, tmp_path / "decrypted")
    assert (tmp_path / "decrypted").read_bytes() == plain


def test_an_archive_in_the_folder_of_another_living_controller_is_left_to_it(
    harness: Harness, segment: Builder, replica: Replica, start: Callable[..., Harness]
) -> None:
    other = start()
    other.add_parts()
    archive = segment("a")
    other.upload(archive, tableName="parts")
    harness.upload(archive, tableName="parts")
    replica.take(archive)
    place = urlsplit(other.server.url)
    catalog = harness.controller.catalog
    known = catalog.segment(TABLE, "a")
    assert known is not None
    address = f"{other.server.url}/segments/parts/a"
    catalog.replace_segment(replace(known.segment, download_url=address), known.version)
    stored(harness)[0].unlink()
    harness.add_instance(f"Controller_{place.hostname}_{place.port}")
    scrub = scrub_of(harness, replica)
    assert look(scrub) == 1 and stored(harness) == [] and told(harness)["numFindings"] == 0
    stored(other)[0].unlink()
    assert look(scrub) == 2 and len(stored(harness)) == 1, "nobody has it"
