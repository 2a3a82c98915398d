"""Proves that a server whose deep store has no good archive gets the segment from another server, whole and with the
CRC of its record, also where that one reloaded it; that damaged and foreign replicas are passed over; that no more
archives are given at once than the setting says, to daemons alone. Real servers on loopback give them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from scripted_web import NoWaiting
from server_scene import TABLE, Scene

from pinotpy.clock import Clock, ManualClock, SystemClock
from pinotpy.errors import NotFoundError, OutOfCapacityError, PinotError, RemoteError, SegmentCorruptError
from pinotpy.segment import layout
from pinotpy.segment.archive.archive import unpack_segment
from pinotpy.segment.immutable import load_segment
from pinotpy.server.api.segment_archive import archive_routes
from pinotpy.server.tables.archive_faults import ArchiveFaults
from pinotpy.server.tables.given_archives import GivenArchives
from pinotpy.server.tables.store import SegmentStore
from pinotpy.service.access import AccessControl, Action, AllowAll, Rights, UsersFileAccess, add_user
from pinotpy.service.archive_download import DownloadLimits
from pinotpy.service.http import build_app
from pinotpy.service.http_server import serve
from pinotpy.service.metric_catalogue import METRICS_BY_ROLE
from pinotpy.service.metrics import Metrics
from pinotpy.service.peer_archives import PeerArchives, archive_path

SEGMENT = "s0"
TOKEN = "t" * 40

Serve = Callable[..., str]


@pytest.fixture
def served() -> Iterator[Serve]:
    """Gives the segments of a scene over REST; returns the base URL."""
    running = []

    def start(scene: Scene, access: AccessControl | None = None, **limits: Any) -> str:
        given = GivenArchives(scene.registry, SystemClock(), **{"at_once_max": 2, "timeout_ms": 60_000} | limits)
        routes = archive_routes(given, ArchiveFaults(SystemClock()))
        metrics = Metrics("server", METRICS_BY_ROLE["server"])
        app = build_app("server", routes, access=access or AllowAll(), metrics=metrics, ready=lambda: None)
        running.append(serve(app, "127.0.0.1", 0))
        return running[-1].url

    yield start
    for server in running:
        server.stop(5)


@pytest.fixture
def replica(tmp_path: Path) -> Scene:
    return Scene(tmp_path / "replica", 1)


def crc_of(scene: Scene) -> int:
    return scene.properties.crcs[SEGMENT]


def peers_at(
    *urls: str, clock: Clock | None = None, headers: Mapping[str, str] | None = None, retries_max: int = 3
) -> PeerArchives:
    limits = DownloadLimits(retries_max=retries_max)
    return PeerArchives(lambda *_: urls, lambda: dict(headers or {}), clock or NoWaiting(), limits=limits)


class DeepStore:
    """Gives `content`, or fails with it."""

    def __init__(self, content: bytes | Exception) -> None:
        self.content = content

    def fetch(self, url: str, target: Path, rest_path: str) -> None:
        if isinstance(self.content, Exception):
            raise self.content
        target.write_bytes(self.content)


def damage(scene: Scene) -> None:
    file = scene.directory / TABLE / SEGMENT / layout.COLUMNS
    content = bytearray(file.read_bytes())
    content[layout.COLUMNS_HEADER_BYTES + 5] ^= 0x10
    file.chmod(0o644)
    file.write_bytes(content)


@pytest.mark.parametrize(
    "content", [RemoteError("HTTP 404: not there"), b"", b"no archive"], ids=["missing", "empty", "damaged"]
)
def test_what_the_deep_store_does_not_give_comes_from_a_replica_that_reloaded_it(
    replica: Scene, served: Serve, tmp_path: Path, content: bytes | Exception
) -> None:
    url = served(replica)
    as_built = (replica.directory / TABLE / SEGMENT / layout.METADATA).read_bytes()
    replica.properties.index = {"invertedIndexColumns": ["city"]}
    replica.reload("job")
    assert replica.counts("job") == (1, 1, 0)
    assert (replica.directory / TABLE / SEGMENT / layout.METADATA).read_bytes() != as_built

    faults, told = ArchiveFaults(SystemClock()), list[str]()
    store = SegmentStore(tmp_path / "data", DeepStore(content), peers=peers_at(url), faults=faults, on_peer=told.append)
    with pytest.raises(PinotError) as fault:
        store.open(TABLE, SEGMENT, crc_of(replica), "")
    with store.open_from_peer(TABLE, SEGMENT, crc_of(replica), fault.value) as segment:
        assert (segment.crc, segment.num_docs) == (crc_of(replica), 150)
    found = tmp_path / "data" / TABLE / SEGMENT
    assert (found / layout.METADATA).read_bytes() == as_built
    load_segment(found, verify=True).close()
    assert told == [TABLE] and [path.name for path in (tmp_path / "data").glob(".incoming/*")] == []
    (noted,) = faults.describe()
    assert (noted["segmentName"], noted["crc"], noted["givenBy"]) == (SEGMENT, str(crc_of(replica)), url)
    assert noted["reason"] == fault.value.message


def test_damaged_and_foreign_replicas_are_passed_over(served: Serve, tmp_path: Path) -> None:
    scenes = {name: Scene(tmp_path / name, 1) for name in ("sound", "damaged", "other")}
    damage(scenes["damaged"])
    sound = scenes["sound"]
    urls = {name: served(scene) for name, scene in scenes.items() if name != "other"}
    (scenes["other"].registry.segment(TABLE, SEGMENT)).crc = 7
    urls["other"] = served(scenes["other"])
    fault = RemoteError("the deep store is away")

    bad = SegmentStore(tmp_path / "bad", DeepStore(fault), peers=peers_at(urls["damaged"], urls["other"]))
    with pytest.raises(RemoteError) as refused:
        bad.open_from_peer(TABLE, SEGMENT, crc_of(sound), fault)
    for words in ("the deep store is away", "does not match its CRC", "found CRC 7", *(urls["damaged"], urls["other"])):
        assert words in refused.value.message
    assert not (tmp_path / "bad" / TABLE / SEGMENT).exists()

    good = SegmentStore(tmp_path / "good", DeepStore(fault), peers=peers_at(*urls.values()))
    assert good.open_from_peer(TABLE, SEGMENT, crc_of(sound), fault).num_docs == 150


def test_without_replicas_both_reasons_are_told_and_it_may_be_tried_again(tmp_path: Path) -> None:
    fault = SegmentCorruptError("the archive holds another segment", file=SEGMENT)
    store = SegmentStore(tmp_path / "data", DeepStore(b""), peers=peers_at())
    with pytest.raises(RemoteError, match=r"holds another segment.*no other server serves it"):
        store.open_from_peer(TABLE, SEGMENT, 1, fault)
    with pytest.raises(SegmentCorruptError):
        SegmentStore(tmp_path / "alone", DeepStore(b"")).open_from_peer(TABLE, SEGMENT, 1, fault)


def test_a_server_that_gives_enough_is_asked_again(replica: Scene, served: Serve, tmp_path: Path) -> None:
    url = served(replica, at_once_max=0)
    clock = NoWaiting()
    with pytest.raises(RemoteError, match=r"as many as pinotpy\.server\.segment\.peerArchivesMax allows"):
        peers_at(url, clock=clock).fetch(TABLE, SEGMENT, crc_of(replica), tmp_path / "a", str)
    assert len(clock.waits) == 3 and max(clock.waits) > clock.waits[0]


def test_a_place_is_free_again_when_an_archive_ends_breaks_off_or_takes_too_long(replica: Scene) -> None:
    clock, told = ManualClock(), list[str]()
    given = GivenArchives(replica.registry, clock, at_once_max=1, timeout_ms=1_000, on_given=told.append)

    def begin() -> Iterator[bytes]:
        return given.give(TABLE, SEGMENT, crc_of(replica))

    assert b"".join(begin()) and b"".join(begin()) and told == [TABLE, TABLE]
    broken_off = begin()
    next(broken_off)
    with pytest.raises(OutOfCapacityError, match="gives 1 archives"):
        next(begin())
    broken_off.close()  # type: ignore[attr-defined]
    hanging = begin()
    next(hanging)
    clock.advance(1_001)
    assert next(begin())
    assert told == [TABLE, TABLE]
    with pytest.raises(NotFoundError, match="no such segment"):
        next(given.give(TABLE, "s9", 1))


def test_only_daemons_and_administrators_may_take_archives(replica: Scene, served: Serve, tmp_path: Path) -> None:
    users = tmp_path / "users.json"
    add_user(users, "reader", "a long password", Rights(tables=(("*", frozenset({Action.READ})),)))
    url = served(replica, UsersFileAccess(users, cluster_token=TOKEN))
    path = archive_path(TABLE, SEGMENT, crc_of(replica))
    assert httpx.get(url + path).status_code == 401
    assert httpx.get(url + path, auth=("reader", "a long password")).status_code == 403
    assert httpx.get(f"{url}/archiveFaults", auth=("reader", "a long password")).status_code == 403
    headers = {"x-pinotpy-cluster-token": TOKEN}
    assert httpx.get(f"{url}/archiveFaults", headers=headers).json() == {"archiveFaults": []}
    archive, giver = peers_at(url, headers=headers).fetch(
        TABLE, SEGMENT, crc_of(replica), tmp_path / "a", lambda found: unpack_segment(found, tmp_path / "into")
    )
    assert giver == url and load_segment(archive).crc == crc_of(replica)
