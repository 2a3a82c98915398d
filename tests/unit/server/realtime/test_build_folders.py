"""Proves that nothing stays of a build that nobody wants: one that failed, one whose segment left while it was built,
sent or taken over, and one in whose place another replica's file is served.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from consuming_scene import TABLE, Scene, name, until

from pinotpy.clock import SystemClock
from pinotpy.cluster.completion_messages import CompletionMessage, CompletionReply, MessageKind, ReplyStatus
from pinotpy.errors import DataError
from pinotpy.server.realtime.consuming_tables import ConsumingRecord
from pinotpy.server.realtime.ingest_worker import BuiltSegment
from pinotpy.server.realtime.local_worker import LocalPartition, LocalWorker

ROWS = 10


class CommittingScene(Scene):
    """Has this replica commit each segment of ROWS rows. `crc`: of the file that was stored, 0: whatever was built."""

    crc = 0

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, LocalWorker(SystemClock()))
        self.rows_max = ROWS
        self.has_come, self.goes_on = threading.Event(), threading.Event()
        self.waits_at: MessageKind | str = ""
        self.scratches: list[Path] = []

    def record(self, table: str, segment_name: str) -> ConsumingRecord:
        return replace(super().record(table, segment_name), crc=self.crc)

    def scratch(self) -> Path:
        self.scratches.append(super().scratch())
        return self.scratches[-1]

    def wait_at(self, what: MessageKind | str) -> None:
        if what == self.waits_at:
            self.has_come.set()
            assert self.goes_on.wait(120)

    def send(self, message: CompletionMessage, built: object, partition: object) -> CompletionReply:
        self.wait_at(message.kind)
        match message.kind:
            case MessageKind.CONSUMED:
                return CompletionReply(ReplyStatus.COMMIT, message.offset)
            case MessageKind.COMMIT:
                return CompletionReply(ReplyStatus.COMMIT_SUCCESS)
        return super().send(message, built, partition)

    def adopt(self, table: str, built: BuiltSegment, offsets: tuple[str, str]) -> None:
        self.wait_at("adopt")
        super().adopt(table, built, offsets)

    def is_tidy(self) -> bool:
        return bool(self.scratches) and not any(folder.exists() for folder in self.scratches)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[CommittingScene]:
    scene = CommittingScene(tmp_path)
    yield scene
    scene.goes_on.set()
    scene.close()


def wait_in_builds(monkeypatch: pytest.MonkeyPatch, after: Callable[[], Any]) -> None:
    build = LocalPartition.build

    def built(self: LocalPartition, *arguments: Any) -> BuiltSegment:
        segment = build(self, *arguments)
        after()
        return segment

    monkeypatch.setattr(LocalPartition, "build", built)


def test_what_was_taken_over_leaves_no_folder(scene: CommittingScene) -> None:
    scene.start(0)
    scene.produce(ROWS)
    until(lambda: name(0) in scene.built)
    until(scene.is_tidy)
    assert (scene.folder / name(0)).is_dir()


@pytest.mark.parametrize("waits_at", ["build", MessageKind.COMMIT, "adopt"])
def test_a_segment_that_leaves_takes_its_build_along(
    scene: CommittingScene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, waits_at: str
) -> None:
    scene.waits_at = waits_at
    wait_in_builds(monkeypatch, lambda: scene.wait_at("build"))
    scene.start(0)
    scene.produce(ROWS)
    assert scene.has_come.wait(120)
    scene.started.remove(name(0))
    scene.tables.leave(TABLE, name(0))
    scene.goes_on.set()
    until(scene.is_tidy)
    assert not scene.built, "it is not served any more"
    assert "failed" not in caplog.text


def test_a_build_that_fails_leaves_no_folder(scene: CommittingScene, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise DataError("no room")

    wait_in_builds(monkeypatch, fail)
    scene.start(0)
    scene.produce(ROWS)
    until(lambda: "no room" in str(scene.tables.describe(TABLE)))
    until(scene.is_tidy)


def test_what_differs_from_the_stored_file_goes(scene: CommittingScene) -> None:
    scene.crc = 1
    scene.ends[name(0)] = ROWS
    scene.waits_at = MessageKind.CONSUMED
    scene.start(0)
    scene.start(1)
    scene.produce(ROWS)
    assert scene.has_come.wait(120)
    scene.finish(0)
    until(scene.is_tidy)
    assert scene.downloaded == [name(0)]
    assert not scene.built
