"""Proves that a server ends the segments whose records say so: those that it reads when it looks, those that it begins
afterwards, and one without rows as soon as it has one; and that each is reported once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest
from consuming_scene import until
from events_table import SCHEMA, table_config

from pinotpy.clock import SystemClock
from pinotpy.cluster.completion_messages import CompletionMessage, CompletionReply, ReplyStatus
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.server.realtime.blocking_work import Services
from pinotpy.server.realtime.consuming_tables import ConsumingRecord, ConsumingTables
from pinotpy.server.realtime.event_loop import EventLoop
from pinotpy.server.realtime.local_worker import LocalWorker
from pinotpy.stream.file import FileStreamProducer, create_topic

TABLE = "events_REALTIME"
NAMES = [f"events__{partition}__0__20260101T0000Z" for partition in range(3)]
GOOD = (None, b'{"kind": "a", "id": 1, "ts": 1700000000000}')


class Scene:
    """A server that reads three partitions; it is the cluster's documents and the controller, too."""

    def __init__(self, folder: Path) -> None:
        create_topic(folder / "events", len(NAMES))
        self.producer = FileStreamProducer(folder / "events", SystemClock())
        self.config = TableConfig.from_json(table_config(folder, rows=100))
        self.ordered: set[str] = set()
        self.started: list[str] = []
        self.sent: list[tuple[str, Any, str]] = []
        self.loop = EventLoop("consuming", SystemClock())
        self.loop.start()
        self.pool, nothing = ThreadPoolExecutor(2), cast(Any, None)
        services = Services("Server_a_1", self.loop, SystemClock(), self.pool, nothing, cast(Any, self), nothing)
        self.tables = ConsumingTables(services, LocalWorker(SystemClock()), self)

    def documents(self, table: str) -> tuple[Schema, TableConfig]:
        return Schema.from_json(SCHEMA), self.config

    def record(self, table: str, segment_name: str) -> ConsumingRecord:
        is_forced = segment_name in self.ordered
        return ConsumingRecord(
            segment_name, NAMES.index(segment_name), 0, "0", "", 0, 100, 3_600_000, 0, is_forced=is_forced
        )

    def forced(self, table: str, segment_names: Collection[str]) -> set[str]:
        return self.ordered & set(segment_names)

    def assigned(self, table: str) -> list[str]:
        return self.started

    def served_between(self, table: str, first: ConsumingRecord, last: ConsumingRecord) -> list[ConsumingRecord]:
        return []

    def provisional_name(self, table: str, partition: int, sequence: int) -> str:
        raise AssertionError("nothing is sealed")

    def send(self, message: CompletionMessage, built: object, partition: object) -> CompletionReply:
        self.sent.append((message.name, message.offset, message.reason))
        return CompletionReply(ReplyStatus.HOLD)

    def start(self, *names: str) -> None:
        for name in names:
            self.started.append(name)
            self.tables.start(TABLE, name)

    def has_read(self, name: str, rows: int) -> bool:
        return any(
            segment["segmentName"] == name and segment["rows"] == rows
            for partition in self.tables.describe(TABLE)
            for segment in partition["segments"]
        )

    def reported(self) -> set[str]:
        return {name for name, _, _ in self.sent}

    def close(self) -> None:
        self.tables.close()
        self.loop.stop(10)
        self.pool.shutdown(cancel_futures=True)
        self.producer.close()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path)
    yield scene
    scene.close()


def test_segments_whose_records_say_so_end_where_this_server_stands(scene: Scene) -> None:
    scene.start(*NAMES[:2])
    for partition in (0, 1):
        scene.producer.append(partition, [GOOD] * 5)
    until(lambda: scene.has_read(NAMES[0], 5) and scene.has_read(NAMES[1], 5))
    scene.tables.take_force_commits("others_REALTIME")
    scene.tables.take_force_commits()
    assert scene.sent == [], "nobody wants it"
    scene.ordered = {NAMES[0]}
    scene.tables.take_force_commits("others_REALTIME")
    scene.tables.take_force_commits(TABLE)
    until(lambda: bool(scene.sent))
    assert scene.sent == [(NAMES[0], 5, "forceCommitMessageReceived")]
    phases = {name: phase for runner in scene.tables.runners() for name, phase in runner.phases().items()}
    assert phases == {NAMES[0]: "HOLDING", NAMES[1]: "INITIAL_CONSUMING"}


def test_a_server_that_was_away_finds_the_order_when_it_begins(scene: Scene) -> None:
    scene.ordered = {NAMES[2]}
    scene.producer.append(2, [GOOD] * 3)
    scene.start(NAMES[2])
    until(lambda: scene.reported() == {NAMES[2]})
    assert scene.sent[0][2] == "forceCommitMessageReceived"


def test_a_segment_without_rows_ends_when_it_has_one(scene: Scene) -> None:
    scene.start(NAMES[0])
    scene.ordered = {NAMES[0]}
    scene.tables.take_force_commits(TABLE)
    scene.tables.take_force_commits(TABLE)
    scene.producer.append(0, [(None, b"no json")])
    until(lambda: scene.tables.describe(TABLE)[0]["currentOffset"] == "1")
    assert scene.sent == []
    scene.producer.append(0, [GOOD])
    until(lambda: bool(scene.sent))
    assert scene.sent[0] == (NAMES[0], 2, "forceCommitMessageReceived")
