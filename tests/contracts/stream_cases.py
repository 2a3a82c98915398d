"""What every stream plug-in promises: order, keys, tombstones, offsets, times, deadlines, ranges. A suite sets `topic`
to a fixture of its plug-in and imports these cases.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from pinotpy.clock import ManualClock
from pinotpy.errors import NotFoundError
from pinotpy.stream.spec import (
    Offset,
    OffsetOutOfRangeError,
    StreamBatch,
    StreamConsumerFactory,
    StreamMetadataProvider,
    StreamProducer,
)

START_MS = 1_700_000_000_000
PATIENCE_S = 30.0  # of a call that has something to give


@dataclass
class Topic:
    """An empty topic of two partitions. clock: sets the times of records."""

    producer: StreamProducer
    factory: StreamConsumerFactory
    metadata: StreamMetadataProvider
    clock: ManualClock

    def fetch(
        self, partition: int, offset: Offset, *, records_max: int = 100, timeout_s: float = PATIENCE_S
    ) -> StreamBatch:
        consumer = self.factory.consumer(partition)
        try:
            return consumer.fetch(offset, records_max=records_max, timeout_s=timeout_s)
        finally:
            consumer.close()

    def start(self, partition: int) -> Offset:
        return self.metadata.earliest_offset(partition, timeout_s=PATIENCE_S)

    def end(self, partition: int) -> Offset:
        return self.metadata.end_offset(partition, timeout_s=PATIENCE_S)


def records_of(batch: StreamBatch) -> list[tuple[Any, bytes | None, bytes | None]]:
    """(offset, key, payload) of each record; checks that columns have one length and offsets ascend."""
    assert len(batch.payloads) == len(batch.keys) == len(batch.offsets) == len(batch.times_ms) == len(batch)
    offsets = batch.offsets.tolist()
    assert offsets == sorted(set(offsets)) and all(offset < batch.next_offset for offset in offsets)
    return list(zip(offsets, batch.keys.to_pylist(), batch.payloads.to_pylist(), strict=True))


def test_records_come_back_in_order_with_keys_and_tombstones(topic: Topic) -> None:
    topic.producer.append(0, [(b"k", b"a"), (None, b""), (b"", None), (b"\0\xff", b"\xfe" * 1000)])
    batch = topic.fetch(0, topic.start(0))
    assert [(key, payload) for _, key, payload in records_of(batch)] == [
        (b"k", b"a"), (None, b""), (b"", None), (b"\0\xff", b"\xfe" * 1000),
    ]  # fmt: skip
    assert batch.next_offset == topic.end(0)
    assert topic.end(1) == topic.start(1)
    assert topic.metadata.num_partitions(timeout_s=PATIENCE_S) == 2


def test_a_fetch_takes_at_most_what_was_asked_and_goes_on_at_next_offset(topic: Topic) -> None:
    topic.producer.append(1, [(None, str(number).encode()) for number in range(25)])
    consumer, offset, seen = topic.factory.consumer(1), topic.start(1), list[int]()
    while offset < topic.end(1):
        batch = consumer.fetch(offset, records_max=10, timeout_s=PATIENCE_S)
        assert len(batch) <= 10
        seen += [int(payload) for _, _, payload in records_of(batch) if payload is not None]
        offset = batch.next_offset
    assert seen == list(range(25))
    consumer.close()


def test_a_consumer_reads_an_earlier_offset_again(topic: Topic) -> None:
    topic.producer.append(0, [(None, str(number).encode()) for number in range(10)])
    consumer, first = topic.factory.consumer(0), topic.start(0)
    whole = records_of(consumer.fetch(first, records_max=10, timeout_s=PATIENCE_S))
    again = records_of(consumer.fetch(whole[4][0], records_max=10, timeout_s=PATIENCE_S))
    assert again == whole[4:]
    consumer.close()


def test_at_the_end_a_fetch_is_empty_after_its_deadline_and_stays(topic: Topic) -> None:
    topic.producer.append(0, [(None, b"x")])
    end = topic.end(0)
    batch = topic.fetch(0, end, timeout_s=0.02)
    assert (records_of(batch), batch.next_offset) == ([], end)


def test_offsets_are_text_in_records(topic: Topic) -> None:
    topic.producer.append(0, [(None, b"x"), (None, b"y")])
    offsets = topic.factory.offset_type
    for offset in (topic.start(0), topic.end(0)):
        assert offsets.parse(offsets.text(offset)) == offset
    assert topic.fetch(0, topic.start(0)).offsets.dtype == offsets.dtype


def test_time_finds_the_first_record_not_older(topic: Topic) -> None:
    for _ in range(5):
        topic.producer.append(0, [(None, b"a"), (None, b"b")])
        topic.clock.advance(1000)
    batch = topic.fetch(0, topic.start(0))
    assert batch.times_ms.tolist() == [START_MS + second * 1000 for second in range(5) for _ in "ab"]
    offsets = [*batch.offsets.tolist(), batch.next_offset]
    for time_ms, place in ((START_MS, 0), (START_MS + 1, 2), (START_MS + 4000, 8), (START_MS + 4001, 10)):
        assert topic.metadata.offset_at_time(0, time_ms, timeout_s=PATIENCE_S) == offsets[place]


def test_an_unknown_partition_is_not_found(topic: Topic) -> None:
    with pytest.raises(NotFoundError):
        topic.metadata.end_offset(7, timeout_s=PATIENCE_S)


def test_an_offset_behind_the_end_is_an_error_with_the_range(topic: Topic) -> None:
    topic.producer.append(0, [(None, b"x"), (None, b"y")])
    start, end = topic.start(0), topic.end(0)
    assert isinstance(end, int), "a stream of other offsets tests this itself"
    with pytest.raises(OffsetOutOfRangeError) as caught:
        topic.fetch(0, end + 5)
    assert (caught.value.offset, caught.value.earliest, caught.value.end) == (end + 5, start, end)
