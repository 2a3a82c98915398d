"""A server that reads one partition of a file stream by real workers, without a cluster: the scene plays the others."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

from events_table import SCHEMA, table_config

from pinotpy.clock import SystemClock
from pinotpy.cluster.completion_messages import CompletionMessage, CompletionReply, ReplyStatus
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.segment.to_arrow import column_to_arrow
from pinotpy.server.realtime.blocking_work import Services
from pinotpy.server.realtime.cluster_documents import deleted_between
from pinotpy.server.realtime.consuming_tables import ConsumingRecord, ConsumingTables
from pinotpy.server.realtime.event_loop import EventLoop
from pinotpy.server.realtime.ingest_worker import BuiltSegment, IngestWorker
from pinotpy.server.realtime.row_memory import RowMemory
from pinotpy.stream.file import FileStreamProducer, create_topic

TABLE = "events_REALTIME"
PATIENCE_S = 120.0


def name(sequence: int) -> str:
    return f"events__0__{sequence}__20260101T0000Z"


class Scene:
    """A server that reads one partition; it is the cluster's documents, the controller and the store of files, too."""

    def __init__(self, folder: Path, worker: IngestWorker, row_memory: RowMemory | None = None) -> None:
        create_topic(folder / "events", 1)
        self.producer = FileStreamProducer(folder / "events", SystemClock())
        self.folder = folder
        self.schema: dict[str, Any] = SCHEMA
        self.config = table_config(folder, rows=100_000)
        self.ends: dict[str, int] = {}
        self.deleted: set[str] = set()
        self.rows_max = 100_000
        self.reply = CompletionReply(ReplyStatus.HOLD)
        self.started: list[str] = []
        self.built: dict[str, Path] = {}
        self.downloaded: list[str] = []
        self.sent: list[CompletionMessage] = []
        self.loop = EventLoop("consuming", SystemClock())
        self.loop.start()
        self.pool = ThreadPoolExecutor(4)
        me = cast(Any, self)
        memory = RowMemory() if row_memory is None else row_memory
        services = Services("Server_a_1", self.loop, SystemClock(), self.pool, self.pool, me, me, row_memory=memory)
        self.tables = ConsumingTables(services, worker, self)
        self.num_produced = 0

    # --- What the cluster says

    def documents(self, table: str) -> tuple[Schema, TableConfig]:
        return Schema.from_json(self.schema), TableConfig.from_json(self.config)

    def record(self, table: str, segment_name: str) -> ConsumingRecord:
        sequence = int(segment_name.split("__")[2])
        start = str(self.ends.get(name(sequence - 1), 0))
        end = str(self.ends.get(segment_name, ""))
        is_done = segment_name in self.ends and segment_name not in self.started
        return ConsumingRecord(segment_name, 0, sequence, start, end, 0, self.rows_max, 3_600_000, 0, is_done=is_done)

    def forced(self, table: str, segment_names: Collection[str]) -> set[str]:
        return set()

    def assigned(self, table: str) -> list[str]:
        return self.started

    def served_between(self, table: str, first: ConsumingRecord, last: ConsumingRecord) -> list[ConsumingRecord]:
        between = [name(sequence) for sequence in range(first.sequence + 1, last.sequence)]
        known = [self.record(table, each) for each in between if each in self.ends and each not in self.deleted]
        deleted = [
            gone
            for before, behind in pairwise([first, *known, last])
            for gone in deleted_between(before, behind, lambda sequence: self.provisional_name(table, 0, sequence))
        ]
        served = [each for each in known if each.name not in self.started]
        return sorted([*served, *deleted], key=lambda each: each.sequence)

    def provisional_name(self, table: str, partition: int, sequence: int) -> str:
        return f"events__0__{sequence}__unnamed"

    def send(self, message: CompletionMessage, built: object, partition: object) -> CompletionReply:
        self.sent.append(message)
        return self.reply

    def scratch(self) -> Path:
        return self.folder / f"scratch-{time.monotonic_ns()}"

    def adopt(self, table: str, built: BuiltSegment, offsets: tuple[str, str]) -> None:
        name = built.directory.name
        self.built[name] = built.directory.rename(self.folder / name)

    def download(self, table: str, segment_name: str) -> None:
        self.downloaded.append(segment_name)

    # --- What happens

    def produce(self, count: int) -> None:
        values = range(self.num_produced, self.num_produced + count)
        self.num_produced += count
        payloads = [{"id": value, "kind": "k", "ts": 1_700_000_000_000, "note": f"n{value}"} for value in values]
        self.producer.append(0, [(None, json.dumps(each).encode()) for each in payloads])

    def start(self, sequence: int) -> None:
        self.started.append(name(sequence))
        self.tables.start(TABLE, name(sequence))

    def finish(self, sequence: int) -> None:
        """The segment is done, and served from its file."""
        assert self.tables.become_online(TABLE, name(sequence))
        self.started.remove(name(sequence))

    def rows(self) -> dict[int, str | None]:
        """id → note of the rows that a query sees; None where the piece has no such column."""
        found: dict[int, str | None] = {}
        for partition in self.tables.partitions(TABLE).values():
            view = partition.piece_view()
            for piece in (*view.frozen, *view.tail):
                ids = column_to_arrow(piece.column("id")).to_pylist()
                has_note = piece.has_column("note")
                notes = column_to_arrow(piece.column("note")).to_pylist() if has_note else [None] * len(ids)
                found.update(zip(ids, notes, strict=True))
        return found

    def close(self) -> None:
        self.tables.close()
        self.loop.stop(10)
        self.pool.shutdown(cancel_futures=True)
        self.producer.close()


def until(holds: Callable[[], bool], why: Callable[[], object] = lambda: "") -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, why()
        time.sleep(0.01)
