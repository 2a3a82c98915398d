"""Proves that an upload leaves nothing in the deep store for ever, wherever it breaks off, and that the sweep after it
never takes an archive that a record names, names meanwhile, or may yet come to name.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from controller_harness import Harness

from pinotpy.clock import ManualClock
from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.cluster.segment_uploads import SegmentUploads
from pinotpy.controller import upload
from pinotpy.controller.catalog import Catalog
from pinotpy.controller.deletion import delete_segments
from pinotpy.controller.periodic.deep_store_sweep import DeepStoreSweep
from pinotpy.controller.registration import register_segment
from pinotpy.controller.segment_files import SegmentFiles
from pinotpy.controller.tables import delete_table
from pinotpy.controller.upload import Arrival, UploadRequest, accept_upload
from pinotpy.controller.upload_conditions import UploadConditions
from pinotpy.controller.upload_leftovers import BROKEN_OFF_AFTER_MS, UNFINISHED_AFTER_MS
from pinotpy.errors import (
    AlreadyExistsError,
    ConnectionLostError,
    DataError,
    NotLeaderError,
    OutOfCapacityError,
    PinotError,
    RemoteError,
)
from pinotpy.fs.memory import MemoryDeepStore
from pinotpy.names import TableType
from pinotpy.segment.archive.archive import unpack_segment
from pinotpy.segment.immutable import load_segment

DAY_MS = 86_400_000
Register = Callable[[SegmentZkMetadata, UploadConditions], SegmentZkMetadata | None]


class Killed(BaseException):
    """What a test ends a controller with."""


@dataclass
class Cluster:
    """A controller with table `parts`, on a clock of its own."""

    harness: Harness
    clock: ManualClock
    scratch: Path

    def push(self, archive: Path, register: Register | None = None) -> None:
        """What a controller does with an upload that has arrived."""
        self.scratch.mkdir(exist_ok=True)
        scratch = self.scratch / str(len(list(self.scratch.iterdir())))
        scratch.mkdir()
        controller = self.harness.controller

        def leader(segment: SegmentZkMetadata, conditions: UploadConditions) -> SegmentZkMetadata | None:
            return register_segment(controller, segment, conditions)

        arrival, request = Arrival(archive, archive.stat().st_size), UploadRequest("parts", TableType.OFFLINE)
        accept_upload(controller, arrival, scratch, request, register or leader, lambda table: None)

    def crcs(self, folder: str = "segments") -> list[int]:
        """CRCs of the archives below a folder of the deep store."""
        files = self.harness.controller.files.store.list(folder)
        return sorted(int(file.key.rpartition("/")[2].partition(".")[0]) for file in files)

    def recorded(self) -> list[str]:
        """Segments whose uploads are recorded."""
        return [left.segment for left in self.harness.controller.catalog.uploads.all()]

    def named(self) -> list[int]:
        return sorted(record.crc for record in self.harness.controller.catalog.segments("parts_OFFLINE").values())

    def sweep(self) -> None:
        task = DeepStoreSweep(self.harness.controller, 1)
        for table in task.tables():
            task.run_table(table)
        task.run_once()

    def sweep_later(self) -> None:
        self.clock.advance(BROKEN_OFF_AFTER_MS)
        self.sweep()


@pytest.fixture
def cluster(start: Callable[..., Harness], tmp_path: Path) -> Cluster:
    clock = ManualClock(time.time_ns() // 1_000_000)
    harness = start(clock=clock)
    harness.add_parts()
    return Cluster(harness, clock, tmp_path / "scratch")


@pytest.fixture
def old(segment: Callable[..., Path]) -> Path:
    return segment("a", amounts=(1,))


@pytest.fixture
def new(segment: Callable[..., Path]) -> Path:
    return segment("a", amounts=(2,))


def crc_of(archive: Path, folder: Path) -> int:
    folder.mkdir()
    opened = load_segment(unpack_segment(archive, folder), verify=True)
    crc = opened.metadata.crc
    opened.close()
    return crc


@contextmanager
def ending(owner: Any, name: str, *, after: bool, error: BaseException) -> Iterator[None]:
    """Ends with the error the first call that comes, before or after it has done its work."""
    whole, calls = getattr(owner, name), []

    def call(*args: Any, **kwargs: Any) -> Any:
        calls.append(name)
        if len(calls) == 1:
            if after:
                whole(*args, **kwargs)
            raise error
        return whole(*args, **kwargs)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(owner, name, call)
        yield
    assert calls, f"nothing called {name}"


STEPS: dict[str, tuple[Any, str, bool]] = {
    "recorded": (SegmentUploads, "begin", True),
    "stored": (SegmentFiles, "put", True),
    "before the record": (None, "", False),
    "registered": (None, "", True),
    "looked for": (upload, "end_upload", False),
    "nearly done": (SegmentUploads, "end", False),
}


@pytest.mark.parametrize("is_refresh", [False, True], ids=["new", "refresh"])
@pytest.mark.parametrize("step", STEPS)
def test_what_an_upload_left_that_was_killed_goes_later(
    cluster: Cluster, old: Path, new: Path, step: str, is_refresh: bool, tmp_path: Path
) -> None:
    if is_refresh:
        cluster.push(old)
    crcs = {"old": crc_of(old, tmp_path / "o"), "new": crc_of(new, tmp_path / "n")}
    before = cluster.named()
    owner, name, after = STEPS[step]
    if owner is None:

        def register(record: SegmentZkMetadata, conditions: UploadConditions) -> None:
            if after:
                register_segment(cluster.harness.controller, record, conditions)
            raise Killed

        with pytest.raises(Killed):
            cluster.push(new, register)
    else:
        with ending(owner, name, after=after, error=Killed()), pytest.raises(Killed):
            cluster.push(new)
    is_registered = step in ("registered", "looked for", "nearly done")
    assert cluster.named() == ([crcs["new"]] if is_registered else before)
    left = cluster.crcs()
    cluster.sweep()
    assert cluster.crcs() == left and cluster.recorded() == ["a"], "who began it may be at it"
    cluster.sweep_later()
    assert cluster.crcs() == cluster.named() and cluster.recorded() == []
    # Nothing is deleted for good that an operator could want back.
    assert cluster.crcs("Deleted_Segments") == sorted(set(left) - set(cluster.named()))
    for _ in range(2):
        cluster.push(new)
        assert cluster.crcs() == cluster.named() == [crcs["new"]] and cluster.recorded() == []


def test_an_upload_that_goes_through_leaves_no_record(cluster: Cluster, old: Path, new: Path) -> None:
    for archive in (old, old, new, new, old):
        cluster.push(archive)
        assert cluster.recorded() == [] and cluster.crcs() == cluster.named() and cluster.crcs("Deleted_Segments") == []


def test_a_refused_upload_leaves_nothing_at_once(cluster: Cluster, old: Path, new: Path) -> None:
    cluster.push(old)

    def refuse(*_: Any) -> None:
        raise AlreadyExistsError("another upload went through")

    with pytest.raises(AlreadyExistsError):
        cluster.push(new, refuse)
    assert cluster.crcs() == cluster.named() and len(cluster.named()) == 1
    assert cluster.recorded() == [] and cluster.crcs("Deleted_Segments") == []


@pytest.mark.parametrize("error", [NotLeaderError("no answer"), TimeoutError()], ids=repr)
def test_the_archive_waits_for_a_leader_that_did_not_answer(cluster: Cluster, new: Path, error: Exception) -> None:
    """It may be at the registration still: what it registers late has its archive."""
    late: list[tuple[SegmentZkMetadata, UploadConditions]] = []

    def unanswered(record: SegmentZkMetadata, conditions: UploadConditions) -> None:
        late.append((record, conditions))
        raise error

    with pytest.raises(type(error)):
        cluster.push(new, unanswered)
    assert len(cluster.crcs()) == 1 and cluster.named() == [] and cluster.recorded() == ["a"]
    register_segment(cluster.harness.controller, *late[0])
    cluster.sweep_later()
    assert cluster.crcs() == cluster.named() and len(cluster.named()) == 1 and cluster.recorded() == []
    assert cluster.harness.http.get("/segments/parts/a").content == new.read_bytes()


def test_a_refresh_whose_answer_was_lost_takes_the_old_archive_away(cluster: Cluster, old: Path, new: Path) -> None:
    """Asked again, the leader finds the new record, and nothing that it replaced."""
    cluster.push(old)

    def twice(record: SegmentZkMetadata, conditions: UploadConditions) -> SegmentZkMetadata | None:
        register_segment(cluster.harness.controller, record, conditions)
        return register_segment(cluster.harness.controller, record, conditions)

    cluster.push(new, twice)
    assert cluster.crcs() == cluster.named() and len(cluster.named()) == 1 and cluster.recorded() == []


def broken_off(cluster: Cluster, archive: Path) -> None:
    """An upload that was stored and not registered, long ago."""

    def die(*_: Any) -> None:
        raise Killed

    with pytest.raises(Killed):
        cluster.push(archive, die)
    cluster.clock.advance(BROKEN_OFF_AFTER_MS)


def test_content_that_is_uploaded_again_while_the_sweep_runs_is_left_alone(cluster: Cluster, new: Path) -> None:
    broken_off(cluster, new)

    def sweep_and_register(record: SegmentZkMetadata, conditions: UploadConditions) -> SegmentZkMetadata | None:
        cluster.sweep()
        assert len(cluster.crcs()) == 1 and cluster.crcs("Deleted_Segments") == []
        return register_segment(cluster.harness.controller, record, conditions)

    cluster.push(new, sweep_and_register)
    assert cluster.crcs() == cluster.named() and cluster.recorded() == []


def test_an_archive_that_a_record_comes_to_name_while_it_is_set_aside_is_brought_back(
    cluster: Cluster, new: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records: list[tuple[SegmentZkMetadata, UploadConditions]] = []

    def die(record: SegmentZkMetadata, conditions: UploadConditions) -> None:
        records.append((record, conditions))
        raise Killed

    with pytest.raises(Killed):
        cluster.push(new, die)
    set_aside = SegmentFiles.set_aside

    def with_a_registration_behind(files: SegmentFiles, *args: Any, **kwargs: Any) -> str | None:
        key = set_aside(files, *args, **kwargs)
        register_segment(cluster.harness.controller, *records[0])
        return key

    monkeypatch.setattr(SegmentFiles, "set_aside", with_a_registration_behind)
    cluster.sweep_later()
    assert cluster.crcs() == cluster.named() and len(cluster.named()) == 1
    assert cluster.crcs("Deleted_Segments") == [] and cluster.recorded() == []


@pytest.mark.parametrize("reads", [0, 1], ids=["at first", "after it was set aside"])
def test_records_that_cannot_be_read_keep_every_archive(
    cluster: Cluster, new: Path, monkeypatch: pytest.MonkeyPatch, reads: int
) -> None:
    broken_off(cluster, new)
    recorded_now, asked = Catalog.recorded_now, []

    def fail(catalog: Catalog, *args: Any) -> Any:
        asked.append(args)
        if len(asked) > reads:
            raise ConnectionLostError("the cluster store is away")
        return recorded_now(catalog, *args)

    with monkeypatch.context() as patched:
        patched.setattr(Catalog, "recorded_now", fail)
        cluster.sweep()
    assert len(asked) == reads + 1
    assert len(cluster.crcs()) == 1 and cluster.crcs("Deleted_Segments") == [] and cluster.recorded() == ["a"]
    cluster.sweep()
    assert cluster.crcs() == [] and len(cluster.crcs("Deleted_Segments")) == 1 and cluster.recorded() == []


def test_what_no_upload_recorded_is_never_touched(cluster: Cluster, segment: Callable[..., Path]) -> None:
    """Another cluster's archives, or those of records that were restored from a backup: nobody here knows whether they
    are wanted.
    """
    store = cluster.harness.controller.files.store
    for key in ("segments/parts/b/7.tar.gz", "segments/other/c/8.tar.gz", "segments/parts/notes", "elsewhere/9.tar.gz"):
        store.put(key, segment("b"))
    broken_off(cluster, segment("a"))
    cluster.clock.advance(30 * DAY_MS)
    before = [file.key for file in store.list() if "/a/" not in file.key]
    cluster.sweep()
    assert [file.key for file in store.list() if "/a/" not in file.key] == before
    assert cluster.recorded() == []


def test_an_upload_of_a_table_that_was_deleted_since_is_cleaned_up_after(cluster: Cluster, new: Path) -> None:
    broken_off(cluster, new)
    delete_table(cluster.harness.controller, "parts", None)
    cluster.sweep()
    assert cluster.crcs() == [] and len(cluster.crcs("Deleted_Segments")) == 1 and cluster.recorded() == []


def test_an_archive_that_a_deletion_took_before_its_record_came_is_brought_back(
    cluster: Cluster, old: Path, new: Path
) -> None:
    """The controller that registered it died before it looked for it."""
    cluster.push(old)

    def delete_register_and_die(record: SegmentZkMetadata, conditions: UploadConditions) -> None:
        delete_segments(cluster.harness.controller, "parts_OFFLINE", ["a"])
        register_segment(cluster.harness.controller, record, UploadConditions())
        raise Killed

    with pytest.raises(Killed):
        cluster.push(new, delete_register_and_die)
    assert cluster.crcs() == [] and len(cluster.named()) == 1
    cluster.sweep_later()
    assert cluster.crcs() == cluster.named() and cluster.recorded() == []
    assert cluster.harness.http.get("/segments/parts/a").content == new.read_bytes()


@pytest.mark.parametrize(("days", "kept_days"), [(0, 1), (7, 7)])
def test_what_is_set_aside_is_kept_as_deleted_segments_are_and_a_day_at_least(
    start: Callable[..., Harness], tmp_path: Path, new: Path, days: int, kept_days: int
) -> None:
    clock = ManualClock(time.time_ns() // 1_000_000)
    harness = start(clock=clock, settings={"deleted_segments_retention_days": days})
    harness.add_parts()
    cluster = Cluster(harness, clock, tmp_path / "scratch")
    broken_off(cluster, new)
    cluster.sweep()
    clock.advance(kept_days * DAY_MS - 1)
    assert harness.controller.files.purge(clock.now_ms()) == 0
    clock.advance(1)
    assert harness.controller.files.purge(clock.now_ms()) == 1
    assert harness.files() == []


def test_a_store_that_fails_on_one_archive_costs_no_other_its_turn(
    start: Callable[..., Harness], segment: Callable[..., Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    broken = ["a"]

    def fail(operation: str, key: str) -> None:
        if operation == "move" and any(f"/{name}/" in key for name in broken):
            raise RemoteError("the storage cannot be reached")

    clock = ManualClock()
    harness = start(clock=clock, deep_store=MemoryDeepStore(clock, fail))
    harness.add_parts()
    cluster = Cluster(harness, clock, tmp_path / "scratch")
    for name in ("a", "b"):
        broken_off(cluster, segment(name))
    cluster.sweep()
    assert (len(cluster.crcs()), len(cluster.crcs("Deleted_Segments")), cluster.recorded()) == (1, 1, ["a"])
    assert "upload not cleaned up after" in caplog.text and "uploads=2 archives=1 failures=1" in caplog.text
    broken.clear()
    cluster.sweep()
    assert (cluster.crcs(), cluster.recorded()) == ([], [])


def test_a_full_store_does_not_make_what_broke_off_before_forgotten(
    start: Callable[..., Harness], new: Path, tmp_path: Path
) -> None:
    is_full: list[str] = []

    def fail(operation: str, key: str) -> None:
        if operation == "put" and is_full:
            raise DataError("no space left on device")

    clock = ManualClock()
    harness = start(clock=clock, deep_store=MemoryDeepStore(clock, fail))
    harness.add_parts()
    cluster = Cluster(harness, clock, tmp_path / "scratch")
    broken_off(cluster, new)
    is_full.append("now")
    with pytest.raises(OutOfCapacityError):
        cluster.push(new)
    assert len(cluster.crcs()) == 1 and cluster.recorded() == ["a"]
    cluster.sweep_later()
    assert cluster.crcs() == [] and cluster.recorded() == []


@pytest.mark.parametrize(
    ("error", "is_recorded"),
    [(DataError("no space left on device"), False), (RemoteError("no answer"), True)],
    ids=repr,
)
def test_a_store_that_takes_nothing_leaves_a_record_only_if_it_may_have_taken_it(
    start: Callable[..., Harness], new: Path, tmp_path: Path, error: PinotError, is_recorded: bool
) -> None:
    def fail(operation: str, key: str) -> None:
        if operation == "put":
            raise error

    clock = ManualClock()
    harness = start(clock=clock, deep_store=MemoryDeepStore(clock, fail))
    harness.add_parts()
    cluster = Cluster(harness, clock, tmp_path / "scratch")
    for _ in range(3):
        with suppress(PinotError):
            cluster.push(new)
        # However often it is tried.
        assert cluster.recorded() == (["a"] if is_recorded else [])
    cluster.sweep_later()
    assert cluster.recorded() == [] and cluster.crcs() == []


def test_unfinished_files_of_long_ago_go_and_archives_stay(cluster: Cluster, new: Path) -> None:
    cluster.push(new)
    folder = cluster.harness.data_dir / "store" / "segments" / "parts"
    (folder / "b").mkdir()
    for name in ("a/.unfinished-1", "b/.unfinished-2"):
        (folder / name).write_bytes(b"half")
    cluster.clock.advance(UNFINISHED_AFTER_MS - 60_000)
    cluster.sweep()
    assert len(list(folder.rglob(".unfinished-*"))) == 2, "somebody may be at it"
    cluster.clock.advance(120_000)
    cluster.sweep()
    assert list(folder.rglob(".unfinished-*")) == [] and not (folder / "b").exists()
    assert cluster.crcs() == cluster.named()


def test_a_crypter_that_the_table_was_given_later_holds_for_the_same_content(
    start: Callable[..., Harness], new: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lies in the deep store is another file then, and the record says so."""

    def sealed(controller: Any, archive: Path, config: Any, segment: str) -> Path:
        target = archive.with_name("sealed")
        target.write_bytes(b"sealed " + archive.read_bytes())
        return target if config.segments.crypter_class_name else archive

    monkeypatch.setattr(upload, "sealed_archive", sealed)
    harness = start()
    harness.add_parts()
    assert harness.upload(new, tableName="parts").status_code == 200
    plain = harness.controller.catalog.segments("parts_OFFLINE")["a"]
    found = harness.controller.catalog.table_config("parts_OFFLINE")
    assert found is not None
    segments = found.config.segments.model_copy(update={"crypter_class_name": "AesGcmCrypter"})
    harness.controller.catalog.replace_table_config(
        found.config.model_copy(update={"segments": segments}), found.version
    )
    assert harness.upload(new, tableName="parts").status_code == 200
    record = harness.controller.catalog.segments("parts_OFFLINE")["a"]
    assert (record.crc, record.push_time_ms) == (plain.crc, plain.push_time_ms)
    assert (record.crypter, record.size_bytes) == ("AesGcmCrypter", len(b"sealed ") + new.stat().st_size)
    assert harness.http.get("/segments/parts/a").content == b"sealed " + new.read_bytes()
