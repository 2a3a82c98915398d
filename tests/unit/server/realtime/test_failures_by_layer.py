"""Proves that a server tells, by layer, what keeps a partition from being read: a stream that is away, records of which
none is a row, a decoder that fails or cannot be made; without passwords, and no longer once it is mended.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from events_table import SCHEMA, table_config

from pinotpy.clock import SystemClock
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.errors import InvalidConfigError
from pinotpy.ingest.decoders import json_decoder
from pinotpy.server.realtime.blocking_work import Services
from pinotpy.server.realtime.consuming_tables import ConsumingRecord, ConsumingTables
from pinotpy.server.realtime.event_loop import EventLoop
from pinotpy.server.realtime.ingest_worker import IngestWorker, PartitionSpec, PartitionStatus
from pinotpy.server.realtime.local_worker import LocalPartition, LocalWorker
from pinotpy.stream.file import FileStreamProducer, create_topic

TABLE, SEGMENT = "events_REALTIME", "events__0__0__20260101T0000Z"
GOOD = (None, b'{"kind": "a", "id": 1, "hash": 1, "ts": 1700000000000}')
PATIENCE_S = 60.0


@pytest.fixture
def worker() -> Iterator[LocalWorker]:
    worker = LocalWorker(SystemClock())
    yield worker
    worker.close()


def config_of(folder: Path, **stream: str) -> TableConfig:
    document = table_config(folder, rows=100)
    document["tableIndexConfig"]["streamConfigs"] |= stream
    return TableConfig.from_json(document)


def opened(worker: LocalWorker, config: TableConfig) -> LocalPartition:
    assert config.stream_config is not None
    spec = PartitionSpec(TABLE, 0, Schema.from_json(SCHEMA), config, config.stream_config, SEGMENT, "0")
    return worker.open(spec, lambda: None)


def status_when(partition: LocalPartition, holds: Callable[[PartitionStatus], bool]) -> PartitionStatus:
    deadline = time.monotonic() + PATIENCE_S
    while not holds(status := partition.status()):
        assert time.monotonic() < deadline, status
        time.sleep(0.01)
    return status


def test_a_topic_that_is_away_mends_itself(worker: LocalWorker, tmp_path: Path) -> None:
    partition = opened(worker, config_of(tmp_path))
    told = status_when(partition, lambda status: bool(status.failure))
    assert told.layer == "TOPIC" and "partition 0" in told.failure
    create_topic(tmp_path / "events", 1)
    assert status_when(partition, lambda status: not status.failure).layer == ""


def test_records_of_which_none_is_a_row_are_the_decoders_failure(worker: LocalWorker, tmp_path: Path) -> None:
    create_topic(tmp_path / "events", 1)
    producer = FileStreamProducer(tmp_path / "events", SystemClock())
    producer.append(0, [(None, b"<xml/>"), (None, b"<xml/>")])
    partition = opened(worker, config_of(tmp_path))
    told = status_when(partition, lambda status: bool(status.failure))
    assert told.layer == "DECODE" and told.failure.startswith("none of 2 records became a row: no JSON: ")
    producer.append(0, [GOOD])
    status_when(partition, lambda status: not status.failure)
    producer.close()


def test_records_with_none_of_the_fields_are_told_and_read_on(worker: LocalWorker, tmp_path: Path) -> None:
    create_topic(tmp_path / "events", 1)
    producer = FileStreamProducer(tmp_path / "events", SystemClock())
    producer.append(0, [(None, b'{"weather": "rain"}')] * 2)
    partition = opened(worker, config_of(tmp_path))
    told = status_when(partition, lambda status: bool(status.failure))
    assert told.layer == "DECODE" and told.failure.startswith(
        "2 records became rows without a value: no record has a field of schema 'events': found fields 'weather', "
    )
    producer.append(0, [GOOD])
    status_when(partition, lambda status: not status.failure)
    assert partition.ledger()["indexed"] == 3 and partition.ledger()["missingColumns"] == []
    producer.close()


def test_a_decoder_that_fails_is_told_without_passwords_until_it_works(
    worker: LocalWorker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    create_topic(tmp_path / "events", 1)
    producer = FileStreamProducer(tmp_path / "events", SystemClock())
    producer.append(0, [GOOD])
    producer.close()
    works = threading.Event()
    make = json_decoder.make

    def failing(*documents: Any) -> Any:
        decoder = make(*documents)
        decode = decoder.decode

        def decoded(*arguments: Any) -> Any:
            if not works.is_set():
                raise ValueError("the registry refuses hunter2")
            return decode(*arguments)

        decoder.decode = decoded  # type: ignore[method-assign]
        return decoder

    monkeypatch.setattr(json_decoder, "make", failing)
    monkeypatch.setattr(json_decoder, "unknown_properties", lambda *_: [])
    config = config_of(tmp_path, **{"stream.file.decoder.prop.schema.registry.password": "hunter2"})
    partition = opened(worker, config)
    told = status_when(partition, lambda status: bool(status.failure))
    assert (told.layer, told.failure) == ("DECODE", "ValueError: the registry refuses *****")
    works.set()
    status_when(partition, lambda status: not status.failure)
    assert "the registry refuses *****" in caplog.text and "refuses hunter2" not in caplog.text


class _Documents:
    """Implements ConsumingDocuments for one segment."""

    def __init__(self, config: TableConfig) -> None:
        self.config = config
        self.names = [SEGMENT]

    def documents(self, table: str) -> tuple[Schema, TableConfig]:
        return Schema.from_json(SCHEMA), self.config

    def record(self, table: str, segment_name: str) -> ConsumingRecord:
        return ConsumingRecord(segment_name, 0, 0, "0", "", 0, 100, 3_600_000, 0)

    def assigned(self, table: str) -> list[str]:
        return self.names

    def served_between(self, table: str, first: ConsumingRecord, last: ConsumingRecord) -> list[ConsumingRecord]:
        return []

    def provisional_name(self, table: str, partition: int, sequence: int) -> str:
        raise AssertionError("nothing is sealed")


def test_a_segment_whose_decoder_cannot_be_made_is_told_as_long_as_it_is_to_be_here(tmp_path: Path) -> None:
    cluster = _Documents(config_of(tmp_path, **{"stream.file.decoder.class.name": "thrift"}))
    clock, nothing = SystemClock(), cast(Any, None)
    loop = EventLoop("consuming", clock)
    loop.start()
    services = Services("Server_a_1", loop, clock, nothing, nothing, nothing, nothing, False, False)
    worker: IngestWorker = LocalWorker(clock)
    tables = ConsumingTables(services, worker, cluster)
    try:
        with pytest.raises(Exception, match="no decoder 'thrift'") as caught:
            tables.start(TABLE, SEGMENT)
        assert not isinstance(caught.value, InvalidConfigError)
        (told,) = tables.describe(TABLE)
        assert (told["partition"], told["layer"], told["segments"][0]["phase"]) == (0, "DECODE", "ERROR")
        assert "no decoder 'thrift'" in told["failure"]
        cluster.config = config_of(tmp_path)
        tables.start(TABLE, SEGMENT)
        (told,) = tables.describe(TABLE)
        assert told["currentOffset"] == "0" and "thrift" not in told["failure"]

        other = "events__1__0__20260101T0000Z"
        cluster.config = config_of(tmp_path, **{"stream.file.decoder.class.name": "thrift"})
        cluster.names = [SEGMENT, other]
        tables.leave(TABLE, SEGMENT)
        with pytest.raises(Exception, match="no decoder"):
            tables.start(TABLE, other)
        assert len(tables.describe(TABLE)) == 1
        cluster.names = []
        assert tables.describe(TABLE) == []
    finally:
        tables.close()
        loop.stop(5)
