"""Proves which segments a server removes from its disk because the cluster does not assign them to it: only those that
two looks find, and none that a view shows, that is served, or that came with another owner's folder.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, cast

import pytest
from manual_dispatcher import ManualDispatcher

from pinotpy.clock import ManualClock
from pinotpy.cluster.buckets import bucket_of
from pinotpy.cluster.cluster_setup import CLUSTER_ID_FIELD, create_cluster
from pinotpy.cluster.memory import MemoryStore, MemoryTree
from pinotpy.cluster.paths import ClusterPaths
from pinotpy.cluster.records import ZNRecord
from pinotpy.errors import ClusterError
from pinotpy.server import left_over
from pinotpy.server.left_over import LeftOver
from pinotpy.server.tables.store import SegmentStore

PATHS, ME, OTHER = ClusterPaths("C"), "Server_h_8098", "Server_h_8099"
WAIT_MS = 60_000


class Server:
    """A server with segments on disk; it is its own participant and transitions, too."""

    def __init__(self, folder: Path) -> None:
        self.admin = MemoryStore(MemoryTree(), dispatcher=ManualDispatcher())
        create_cluster(self.admin, PATHS)
        self.folder = folder / "index"
        self.clock = ManualClock()
        self.instance, self.is_live = ME, True
        self.own: dict[str, str] = {}
        self.served: set[str] = set()
        self.stuck: set[str] = set()
        self.segments = SegmentStore(self.folder, cast(Any, None))
        self.restart()

    def restart(self) -> None:
        me = cast(Any, self)
        self.left_over = LeftOver(self.folder, self.segments, self.remove, me, self.admin, PATHS, self.clock, WAIT_MS)

    def states(self, table: str) -> dict[str, str]:
        return self.own

    def remove(self, table: str, segment: str) -> bool:
        if segment in self.served:
            return False
        if segment in self.stuck:
            raise PermissionError("not ours")
        self.segments.delete(table, segment)
        return True

    def have(self, table: str, *names: str) -> None:
        for name in names:
            (self.folder / table / name).mkdir(parents=True)
            (self.folder / table / name / "metadata").write_bytes(b"12345")

    def want(self, table: str, buckets: int = 0, **replicas: str) -> None:
        """Segments of a table by the instance that they are assigned to."""
        path = PATHS.ideal_state(table)
        if self.admin.exists(path):
            self.admin.delete(path, recursive=True)
        wanted = {name: {instance: "ONLINE"} for name, instance in replicas.items()}
        layout = {"BUCKET_COUNT": str(buckets), "BUCKET_GENERATION": "g"} if buckets else {}
        self.admin.create(path, ZNRecord(table, layout, {} if buckets else wanted).to_bytes())
        for number in range(buckets):
            held = {name: each for name, each in wanted.items() if bucket_of(name, buckets) == number}
            self.admin.create(f"{path}/{table}_bg_{number}", ZNRecord(table, {}, held).to_bytes())

    def look(self) -> None:
        self.left_over.step()

    def wait(self, ms: int = WAIT_MS) -> None:
        self.clock.advance(ms)

    def here(self) -> list[str]:
        return sorted(f"{table}/{name}" for table, names in self.segments.held().items() for name in names)


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return Server(tmp_path)


@pytest.mark.parametrize("buckets", [0, 3])
def test_what_two_looks_find_goes_and_nothing_else(
    server: Server, caplog: pytest.LogCaptureFixture, buckets: int
) -> None:
    caplog.set_level(logging.INFO, left_over.__name__)
    server.have("gone_OFFLINE", "s0", "s1")
    server.have("t_REALTIME", "s0", "s1", "s2", "s3", "s4")
    server.want("t_REALTIME", buckets, s0=ME, s1=OTHER, s2=ME)
    server.own, server.served = {"s3": "ONLINE"}, {"s4"}  # its step to DROPPED comes; it came meanwhile
    before = server.here()
    server.look()
    assert "table=gone_OFFLINE count=2 bytes=10 removed_in_s=60" in caplog.text
    server.wait(WAIT_MS - 1)
    server.look()
    assert server.here() == before
    server.wait(1)
    server.look()
    assert server.here() == ["t_REALTIME/s0", "t_REALTIME/s2", "t_REALTIME/s3", "t_REALTIME/s4"]
    assert not (server.folder / "gone_OFFLINE").exists()
    assert "removed table=gone_OFFLINE count=2 bytes=10" in caplog.text


def test_what_is_assigned_before_the_second_look_stays(server: Server) -> None:
    server.have("t_OFFLINE", "s0")
    server.look()
    server.want("t_OFFLINE", s0=ME)
    server.wait()
    server.look()
    server.want("t_OFFLINE")
    server.wait()
    server.look()
    assert server.here() == ["t_OFFLINE/s0"], "found once since then"


def test_nothing_goes_where_the_cluster_is_not_seen(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.have("t_OFFLINE", "s0")
    server.look()
    server.wait()
    server.is_live = False
    server.look()
    server.is_live = True

    def fail(*_: object) -> None:
        raise ClusterError("its buckets keep changing")

    with monkeypatch.context() as patch:
        patch.setattr(left_over, "read_record", fail)
        with pytest.raises(ClusterError):
            server.look()
    assert server.here() == ["t_OFFLINE/s0"]
    server.look()
    assert server.here() == []


@pytest.mark.parametrize("change", ["instance", "cluster"])
def test_a_folder_of_another_owner_is_left_alone(server: Server, caplog: pytest.LogCaptureFixture, change: str) -> None:
    server.look()
    server.have("t_OFFLINE", "s0")
    if change == "instance":
        server.instance = OTHER
    else:
        record = ZNRecord.from_bytes(server.admin.get(PATHS.cluster_config)[0])
        record.simple_fields[CLUSTER_ID_FIELD] = "another"
        server.admin.set(PATHS.cluster_config, record.to_bytes())
    server.restart()
    for _ in range(3):
        server.look()
        server.wait()
    assert server.here() == ["t_OFFLINE/s0"]
    assert f"was filled by '{ME} " in caplog.text


def test_a_store_begins_without_what_a_crash_left_half_removed(tmp_path: Path) -> None:
    for folder in ("t_OFFLINE/.removed-s0", "t_OFFLINE/s1", "u_OFFLINE/.removed-s0", "v_REALTIME", "kept"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "t_OFFLINE/s1/metadata").touch()
    segments = SegmentStore(tmp_path, cast(Any, None))
    assert segments.held() == {"t_OFFLINE": ["s1"]}
    assert sorted(each.name for each in tmp_path.iterdir()) == [".incoming", "kept", "t_OFFLINE"]


def test_only_segments_in_the_data_folder_itself_go(server: Server, tmp_path: Path) -> None:
    server.have("t_OFFLINE", "s0")
    elsewhere = tmp_path / "elsewhere"
    for folder in (elsewhere / "photos", elsewhere / "s1", server.folder / "backup_OFFLINE" / "dump"):
        folder.mkdir(parents=True)
        (folder / "a.jpg").touch()
    (elsewhere / "s1" / "metadata").touch()
    (server.folder / "old_OFFLINE").symlink_to(elsewhere)
    (server.folder / "t_OFFLINE" / "s1").symlink_to(elsewhere / "s1")
    for name in ("a..b", "\udcff\udcfe"):  # no names of segments
        odd = server.folder / "t_OFFLINE" / name
        odd.mkdir()
        (odd / "metadata").touch()
    for _ in range(3):
        server.look()
        server.wait()
    assert not (server.folder / "t_OFFLINE" / "s0").exists()
    assert sorted(each.name for each in (server.folder / "t_OFFLINE").iterdir()) == ["a..b", "s1", "\udcff\udcfe"]
    assert sorted(each.name for each in elsewhere.rglob("*")) == ["a.jpg", "a.jpg", "metadata", "photos", "s1"]
    assert (server.folder / "backup_OFFLINE" / "dump" / "a.jpg").exists()


def test_one_segment_that_cannot_be_removed_keeps_no_other(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    server.have("t_OFFLINE", "s0", "s1")
    server.stuck = {"s0"}
    server.look()
    server.wait()
    server.look()
    assert server.here() == ["t_OFFLINE/s0"]
    assert "stays table=t_OFFLINE segment=s0 reason=not ours" in caplog.text
