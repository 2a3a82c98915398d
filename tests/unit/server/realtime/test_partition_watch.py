"""Proves that a reader says of a stream's partition what its table says only while every row that it has keeps to it:
rows of another partition, nulls, values without a partition. It says so before the rows are seen.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from events_table import SCHEMA, table_config

from pinotpy.clock import SystemClock
from pinotpy.cluster.own_states import OwnStates
from pinotpy.cluster.stream_promise import StreamPromise, promise_of
from pinotpy.cluster.views import CONSUMING, DROPPED, OFFLINE, ONLINE, PartitionState
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.controller.realtime.next_segment import _partition_metadata
from pinotpy.segment.partition import partition_of
from pinotpy.server.realtime.blocking_work import Services
from pinotpy.server.realtime.consuming_tables import ConsumingRecord, ConsumingTables
from pinotpy.server.realtime.event_loop import EventLoop
from pinotpy.server.realtime.ingest_worker import IngestWorker, PartitionSpec
from pinotpy.server.realtime.local_worker import LocalWorker
from pinotpy.server.realtime.partition_reader import PartitionReader
from pinotpy.server.realtime.partition_watch import PartitionWatch
from pinotpy.server.realtime.workers.process_worker import ProcessWorker
from pinotpy.stream.file import FileStreamProducer, create_topic


def spec_of(folder: Path, columns: dict[str, Any], partition: int = 1) -> PartitionSpec:
    document = table_config(folder, rows=1_000)
    document["tableIndexConfig"]["segmentPartitionConfig"] = {"columnPartitionMap": columns}
    config = TableConfig.from_json(document)
    assert config.stream_config is not None
    name = f"events__{partition}__0__20260101T0000Z"
    schema = Schema.from_json(SCHEMA)
    return PartitionSpec("events_REALTIME", partition, schema, config, config.stream_config, name, "0")


def by(column: str, function: str = "Murmur", count: int = 4) -> dict[str, Any]:
    return {column: {"functionName": function, "numPartitions": count}}


KINDS = [text for text in (f"k{number}" for number in range(40)) if partition_of("Murmur", 4, text) == 1]
ELSEWHERE = next(text for text in (f"k{number}" for number in range(40)) if partition_of("Murmur", 4, text) == 2)


def batch(**columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def test_what_rows_keep_to(tmp_path: Path) -> None:
    kinds = pa.array([kind.encode() for kind in KINDS], pa.binary())
    for column in (kinds, kinds.dictionary_encode()):
        watch = PartitionWatch(spec_of(tmp_path, by("kind")))
        assert watch.kept == "murmur 1 of 4 kind", "without rows"
        watch.look(batch(kind=column))
        assert (watch.kept, watch.stray) == ("murmur 1 of 4 kind", "")
        watch.look(batch(kind=pa.array([KINDS[0].encode(), ELSEWHERE.encode()], pa.binary())))
        assert watch.kept == "" and f"'{ELSEWHERE}', which is of partition 2 by Murmur of 4" in watch.stray
        watch.look(batch(kind=column))
        assert watch.kept == "", "the row is still here"
    numbers = PartitionWatch(spec_of(tmp_path, by("id", "Modulo")))
    numbers.look(batch(id=pa.array([1, 5, -3], pa.int64())))
    assert numbers.kept == "modulo 1 of 4 id"
    numbers.look(batch(id=pa.array([1, 6], pa.int64())))
    assert numbers.kept == "" and "'6', which is of partition 2 by Modulo of 4" in numbers.stray


@pytest.mark.parametrize(
    ("columns", "rows"),
    [
        # A null is found under its default value.
        (by("kind"), batch(kind=pa.array([KINDS[0].encode(), None], pa.binary()))),
        (by("kind"), batch(id=pa.array([1], pa.int64()))),
        (by("kind", "Modulo"), batch(kind=pa.array([b"1", b"one"], pa.binary()))),
    ],
)
def test_what_has_no_such_partition_is_found(tmp_path: Path, columns: dict[str, Any], rows: pa.RecordBatch) -> None:
    watch = PartitionWatch(spec_of(tmp_path, columns))
    assert watch.kept
    watch.look(rows)
    assert watch.kept == "" and watch.stray


@pytest.mark.parametrize(
    ("columns", "partition"),
    [({}, 1), (by("kind") | by("id"), 1), (by("kind", "Murmur3"), 1), (by("kind"), 4)],
    ids=["none", "two", "not built", "beyond"],
)
def test_nothing_is_said_of_what_the_table_does_not_say(
    tmp_path: Path, columns: dict[str, Any], partition: int
) -> None:
    watch = PartitionWatch(spec_of(tmp_path, columns, partition))
    watch.look(batch(kind=pa.array([ELSEWHERE.encode()], pa.binary())))
    assert (watch.kept, watch.stray) == ("", "")


def test_server_and_record_say_the_same_of_a_table(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, by("kind"))
    promised = promise_of(_partition_metadata(spec.config, 1))
    assert promised == StreamPromise("kind", "Murmur", 4, 1) and promised.text == PartitionWatch(spec).kept
    entry = {"functionName": "Murmur", "numPartitions": 4, "partitions": [1]}
    for columns in (None, {}, [], {"a": entry, "b": entry}, {"a": None}, {"a": entry | {"partitions": [1, 2]}},
                    {"a": entry | {"partitions": ["1"]}}, {"a": entry | {"numPartitions": "4"}},
                    {"a": entry | {"functionConfig": {"seed": 1}}}):  # fmt: skip
        assert promise_of({"columnPartitionMap": columns}) is None, columns
    assert promise_of(None) is None


def test_a_reader_says_it_no_later_than_the_row_is_seen(
    tmp_path: Path, eventually: Callable[[Callable[[], bool]], None]
) -> None:
    create_topic(tmp_path / "events", 4)
    producer = FileStreamProducer(tmp_path / "events", SystemClock())

    def produce(*kinds: str) -> None:
        payloads = [{"id": 1, "kind": kind, "ts": 1_700_000_000_000} for kind in kinds]
        producer.append(1, [(None, json.dumps(each).encode()) for each in payloads])

    seen: list[tuple[int, str]] = []
    reader = PartitionReader(
        spec_of(tmp_path, by("kind")),
        SystemClock(),
        on_change=lambda: None,
        on_rows=lambda: seen.append((reader.log.watermark.num_rows, reader.status().kept)),
    )
    reader.start()
    try:
        produce(*KINDS[:3])
        eventually(lambda: reader.log.watermark.num_rows == 3)
        assert reader.status().kept == "murmur 1 of 4 kind"
        produce(ELSEWHERE)
        eventually(lambda: reader.log.watermark.num_rows == 4)
        assert reader.status().kept == "" and ELSEWHERE in reader.status().stray
    finally:
        reader.close()
    assert all(kept == ("murmur 1 of 4 kind" if rows <= 3 else "") for rows, kept in seen) and seen


def test_what_rows_keep_to_is_told_while_they_come() -> None:
    states = OwnStates(None, None, "Server_a_1", threading.Lock())  # type: ignore[arg-type]  # nothing is stored

    def step(state: str) -> str:
        states.set("t", "SegmentOnlineOfflineStateModel", "s", PartitionState(state))
        entry = states.entry("t", "s")
        return "" if entry is None else entry.content

    states.promise("t", "s", "murmur 1 of 4 kind")
    assert step(CONSUMING) == "murmur 1 of 4 kind"
    assert states.promise("t", "s", "") and not states.promise("t", "s", "")
    states.promise("t", "s", "murmur 1 of 4 kind")
    assert step(ONLINE) == "", "a file is described by its record"
    assert not states.promise("t", "s", "murmur 1 of 4 kind"), "too late"
    states.serve("t", "s", "7 for 6 at 5")
    assert step(ONLINE) == "7 for 6 at 5"
    # Rows that are read again are looked at again.
    assert (step(OFFLINE), step(CONSUMING)) == ("", "")
    states.promise("t", "s", "murmur 1 of 4 kind")
    entry = states.entry("t", "s")
    assert entry is not None and PartitionState.from_fields(entry.to_fields()) == replace(entry)
    assert (step(DROPPED), step(CONSUMING)) == ("", "")


class Scene:
    """A server that reads one partition of a stream; it is the cluster's documents, too."""

    def __init__(self, folder: Path, worker: IngestWorker) -> None:
        self.spec = spec_of(folder, by("kind"))
        create_topic(folder / "events", 4)
        self.producer = FileStreamProducer(folder / "events", SystemClock())
        self.told: list[tuple[str, str]] = []
        self._loop = EventLoop("consuming", SystemClock())
        self._loop.start()
        nobody = cast(Any, self)
        services = Services(
            "Server_a_1", self._loop, SystemClock(), nobody, nobody, nobody, nobody,
            keeps=lambda table, segment, promise: self.told.append((segment, promise)),
        )  # fmt: skip
        self.tables = ConsumingTables(services, worker, nobody)

    def documents(self, table: str) -> tuple[Schema, TableConfig]:
        return self.spec.schema, self.spec.config

    def record(self, table: str, name: str) -> ConsumingRecord:
        return ConsumingRecord(name, 1, 0, "0", "", 0, 100_000, 3_600_000, 0)

    def assigned(self, table: str) -> list[str]:
        return [self.spec.segment_name]

    def provisional_name(self, table: str, partition: int, sequence: int) -> str:
        return f"events__{partition}__{sequence}__unnamed"

    def produce(self, *kinds: str) -> None:
        payloads = [{"id": 1, "kind": kind, "ts": 1_700_000_000_000} for kind in kinds]
        self.producer.append(1, [(None, json.dumps(each).encode()) for each in payloads])

    def num_rows(self) -> int:
        return self.tables.partitions("events_REALTIME")[1].log_view().watermark.num_rows

    def close(self) -> None:
        self.tables.close()
        self._loop.stop(10)
        self.producer.close()


@pytest.mark.parametrize("make", [LocalWorker, lambda clock: ProcessWorker(clock, num_processes=1)])
def test_a_server_tells_what_the_rows_of_its_segments_keep_to(
    tmp_path: Path, make: Callable[[SystemClock], IngestWorker], eventually: Callable[..., float]
) -> None:
    scene = Scene(tmp_path, make(SystemClock()))
    segment, patience = scene.spec.segment_name, {"timeout_s": 300.0}
    try:
        scene.tables.start("events_REALTIME", segment)
        scene.produce(*KINDS[:3])
        eventually(lambda: scene.num_rows() == 3, **patience)
        eventually(lambda: scene.told == [(segment, "murmur 1 of 4 kind")], **patience)
        assert scene.tables.describe("events_REALTIME")[0]["outsidePartition"] == ""
        scene.produce(ELSEWHERE)
        eventually(lambda: scene.num_rows() == 4, **patience)
        eventually(lambda: scene.told[1:] == [(segment, "")], **patience)
        assert ELSEWHERE in scene.tables.describe("events_REALTIME")[0]["outsidePartition"]
    finally:
        scene.close()
