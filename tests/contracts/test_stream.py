"""One suite for the stream door, run over both plug-ins: order, offsets, time, deadlines, tombstones, ranges. The file
stream's own promises (a crash leaves no half record, one producer, damage is found) follow."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pinotpy.clock import ManualClock, SystemClock
from pinotpy.errors import AlreadyExistsError, DataError, NotFoundError
from pinotpy.stream.file import FileStreamConsumer, FileStreamProducer, create_topic
from pinotpy.stream.memory import MemoryStream
from pinotpy.stream.spec import OffsetOutOfRangeError, StreamConsumer, StreamProducer

START_MS = 1_700_000_000_000


@pytest.fixture(params=["memory", "file"])
def topic(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[StreamProducer, StreamConsumer, ManualClock]]:
    clock = ManualClock(START_MS)
    if request.param == "memory":
        stream = MemoryStream(clock, 2)
        yield stream, stream, clock
        return
    create_topic(tmp_path / "topic", 2)
    producer = FileStreamProducer(tmp_path / "topic", clock)
    yield producer, FileStreamConsumer(tmp_path / "topic", SystemClock()), clock
    producer.close()


def test_records_come_back_in_order_with_their_offsets(topic) -> None:
    producer, consumer, _ = topic
    assert producer.append(0, [(b"k", b"a"), (None, b""), (b"", None)]) == 3
    batch = consumer.fetch(0, 0, records_max=10, timeout_s=1)
    assert [(r.offset, r.key, r.payload) for r in batch.records] == [(0, b"k", b"a"), (1, None, b""), (2, b"", None)]
    assert batch.next_offset == 3
    assert consumer.end_offset(1) == 0 and consumer.num_partitions() == 2


def test_a_fetch_takes_at_most_what_was_asked_and_goes_on_at_next_offset(topic) -> None:
    producer, consumer, _ = topic
    producer.append(1, [(None, str(i).encode()) for i in range(25)])
    offset, seen = 0, []
    while offset < consumer.end_offset(1):
        batch = consumer.fetch(1, offset, records_max=10, timeout_s=1)
        assert 0 < len(batch.records) <= 10
        seen += [int(r.payload) for r in batch.records]
        offset = batch.next_offset
    assert seen == list(range(25))


def test_at_the_end_a_fetch_waits_its_deadline_and_is_empty(topic) -> None:
    producer, consumer, _ = topic
    producer.append(0, [(None, b"x")])
    assert consumer.fetch(0, 1, records_max=5, timeout_s=0.02) == type(
        consumer.fetch(0, 1, records_max=5, timeout_s=0.0)
    )((), 1)


def test_time_finds_the_first_record_not_older(topic) -> None:
    producer, consumer, clock = topic
    for second in range(5):
        producer.append(0, [(None, b"a"), (None, b"b")])
        clock.advance(1000)
        assert second >= 0
    assert consumer.offset_at_time(0, START_MS) == 0
    assert consumer.offset_at_time(0, START_MS + 1) == 2
    assert consumer.offset_at_time(0, START_MS + 4000) == 8
    assert consumer.offset_at_time(0, START_MS + 4001) == 10


@pytest.mark.parametrize("offset", [-1, 2])
def test_an_offset_outside_is_an_error_with_the_range(topic, offset: int) -> None:
    producer, consumer, _ = topic
    producer.append(0, [(None, b"x")])
    with pytest.raises(OffsetOutOfRangeError) as caught:
        consumer.fetch(0, offset, records_max=1, timeout_s=0.01)
    assert (caught.value.earliest, caught.value.end) == (0, 1)


def test_an_unknown_partition_is_not_found(topic) -> None:
    _, consumer, _ = topic
    with pytest.raises(NotFoundError):
        consumer.end_offset(7)


def test_expired_and_skipped_offsets_of_the_memory_stream() -> None:
    stream = MemoryStream(ManualClock(START_MS))
    stream.append(0, [(None, b"0"), (None, b"1")])
    stream.skip_offsets(0, 3)
    stream.append(0, [(None, b"5")])
    batch = stream.fetch(0, 1, records_max=1, timeout_s=0)
    assert (batch.records[0].offset, batch.next_offset) == (1, 5)
    stream.expire(0, 5)
    with pytest.raises(OffsetOutOfRangeError):
        stream.fetch(0, 1, records_max=1, timeout_s=0)


def test_what_a_crash_left_behind_is_cut_off(tmp_path: Path) -> None:
    create_topic(tmp_path / "t", 1)
    producer = FileStreamProducer(tmp_path / "t", ManualClock(START_MS))
    producer.append(0, [(None, b"whole")])
    producer.close()
    with (tmp_path / "t" / "partition-0.log").open("ab") as log:
        log.write(b"half a rec")
    with (tmp_path / "t" / "partition-0.idx").open("ab") as index:
        index.write(b"\x01" * 7)
    assert FileStreamConsumer(tmp_path / "t", SystemClock()).end_offset(0) == 1
    producer = FileStreamProducer(tmp_path / "t", ManualClock(START_MS))
    assert producer.append(0, [(None, b"next")]) == 2
    batch = FileStreamConsumer(tmp_path / "t", SystemClock()).fetch(0, 0, records_max=9, timeout_s=0)
    assert [r.payload for r in batch.records] == [b"whole", b"next"]
    producer.close()


def test_there_is_one_producer_and_damage_is_found(tmp_path: Path) -> None:
    create_topic(tmp_path / "t", 1)
    producer = FileStreamProducer(tmp_path / "t", ManualClock(START_MS))
    with pytest.raises(AlreadyExistsError):
        FileStreamProducer(tmp_path / "t", ManualClock(START_MS))
    with pytest.raises(AlreadyExistsError):
        create_topic(tmp_path / "t", 1)
    producer.append(0, [(None, b"payload")])
    producer.close()
    path = tmp_path / "t" / "partition-0.log"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    os.chmod(path, 0o644)
    path.write_bytes(data)
    with pytest.raises(DataError, match="damaged"):
        FileStreamConsumer(tmp_path / "t", SystemClock()).fetch(0, 0, records_max=1, timeout_s=0)
