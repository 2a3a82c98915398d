"""Proves that a commit reads and writes one bucket of its table's ideal state, however many there are, and that the
next segment's rows are still divided over all partitions, also those that came later.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from completion_scene import TABLE, CompletionScene
from controller_harness import start_harness

from pinotpy.cluster import buckets
from pinotpy.cluster.memory import MemoryStore
from pinotpy.cluster.store import Op
from pinotpy.controller.periodic.realtime_validation import RealtimeValidation

PARTITIONS, BUCKETS = 6, 4
DEFAULT_ROWS, SERVERS, REPLICATION = 5_000_000, 2, 2


class Scene(CompletionScene):
    """A table with the default thresholds, whose ideal state lies in buckets."""

    def with_default_thresholds(self) -> None:
        stream = self.config["tableIndexConfig"]["streamConfigs"]
        for key in [key for key in stream if ".flush." in key]:
            del stream[key]
        url = f"{self.harness.server.url}/tables/events"
        httpx.put(url, content=json.dumps(self.config), timeout=60).raise_for_status()

    def cut(self) -> None:
        store, path = self.harness.store, self.harness.paths.ideal_state(TABLE)
        stored = buckets.read_record(store, path)
        assert stored is not None
        layout = buckets.Layout(BUCKETS, "aa")
        for where, record in buckets._bucket_records(path, stored.record, layout):
            store.create(where, record.to_bytes())
        store.set(path, buckets._main_record(stored.record, layout, False).to_bytes())

    @contextmanager
    def touched(self) -> Iterator[set[tuple[str, str]]]:
        """What is read and written of the ideal state meanwhile: the operation, and the node within it."""
        store, path = self.harness.store, self.harness.paths.ideal_state(TABLE)
        found: set[tuple[str, str]] = set()

        def note(operation: str, where: str) -> None:
            if where.startswith(path) and operation != "multi":
                found.add((operation, where[len(path) :]))

        with pytest.MonkeyPatch.context() as patch:
            multi = MemoryStore.multi

            def noted_multi(self: MemoryStore, ops: list[Op]) -> None:
                for op in ops:
                    note(type(op).__name__, op.path)
                multi(self, ops)

            patch.setattr(MemoryStore, "multi", noted_multi)
            store.fault = note
            yield found
            store.fault = None

    def name(self, partition: int) -> str:
        return str(self.segments.chains(TABLE)[partition][-1])

    def threshold(self, partition: int) -> int:
        stored = self.segments.read(TABLE, self.name(partition))
        assert stored is not None
        return stored.record.row_threshold

    def seal(self, partition: int) -> tuple[str, str]:
        """The segment, and who is to commit it."""
        name = self.name(partition)
        for replica in (self.harness.controller.catalog.ideal_state(TABLE) or {})[name]:
            reply = self.says("segmentConsumed", name, replica, 50, rowCount=49)
            if reply["status"] == "COMMIT":
                return name, replica
        raise AssertionError(f"nobody is to commit {name}: {reply}")


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    harness = start_harness(tmp_path / "controller", servers=SERVERS)
    made = Scene(harness, tmp_path)
    made.with_default_thresholds()
    yield made
    harness.close()


def test_seal_and_done_read_and_write_one_bucket(scene: Scene) -> None:
    scene.begin(PARTITIONS)
    scene.cut()
    name = scene.name(3)
    replicas = sorted((scene.harness.controller.catalog.ideal_state(TABLE) or {})[name])
    bucket = f"/{TABLE}_baa_3"
    with scene.touched() as sealing:
        said = [scene.says("segmentConsumed", name, replica, 50, rowCount=49) for replica in replicas]
    assert said[-1]["status"] == "COMMIT"
    assert sealing == {("get", ""), ("get", bucket), ("Check", ""), ("SetData", bucket)}
    archive, _ = scene.archive(name, 49)
    with scene.touched() as finishing:
        files = {"file": (archive.name, archive.read_bytes())}
        done = scene.says("segmentCommit", name, replicas[-1], 50, files=files)
    assert done["status"] == "COMMIT_SUCCESS"
    assert finishing == {("get", ""), ("get", bucket), ("Check", ""), ("SetData", bucket)}


def test_rows_of_the_next_segment_are_divided_over_all_partitions_also_later_ones(scene: Scene) -> None:
    def share(num_partitions: int) -> int:
        return DEFAULT_ROWS // (num_partitions * REPLICATION // SERVERS)

    scene.begin(PARTITIONS)
    assert scene.threshold(1) == share(PARTITIONS)
    scene.seal(1)
    assert scene.threshold(1) == share(PARTITIONS)
    for partition in range(PARTITIONS, PARTITIONS + 4):
        for suffix in ("log", "idx"):
            (scene.folder / "events" / f"partition-{partition}.{suffix}").touch()
    RealtimeValidation(scene.harness.controller, scene.segments, 60.0).run_table(TABLE)
    assert len(scene.segments.chains(TABLE)) == PARTITIONS + 4
    scene.seal(2)
    assert scene.threshold(2) == share(PARTITIONS + 4)
