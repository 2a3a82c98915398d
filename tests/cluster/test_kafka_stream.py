"""A real Kafka broker: transactions, compaction, expiry, growth, deletion, a broker that dies while it is read. What
a topic holds is known from what was written to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    NewPartitions,
)
from kafka_server import KafkaServer, missing_kafka
from kafka_topics import FETCHES_MAX, PATIENCE_S, Reading, append, end_of, factory_of, new_topic, settings_of

from pinotpy.clock import SystemClock
from pinotpy.errors import NotFoundError
from pinotpy.stream.kafka.producer import KafkaStreamProducer
from pinotpy.stream.spec import (
    Offset,
    OffsetOutOfRangeError,
    StreamConsumerFactory,
    StreamLayer,
    StreamUnavailableError,
)

pytestmark = pytest.mark.cluster


@pytest.fixture
def read() -> Iterator[object]:
    readings = []

    def begin(factory: StreamConsumerFactory, offset: Offset = 0) -> Reading:
        readings.append(Reading(factory.consumer(0), offset, [], []))
        return readings[-1]

    yield begin
    for reading in readings:
        reading.consumer.close()


# --- what lies in a topic ---------------------------------------------------------------------------------------------


def test_aborted_records_are_never_read_and_markers_are_stepped_over(kafka: KafkaServer, read) -> None:
    topic = new_topic(kafka)
    producer = Producer({"bootstrap.servers": kafka.address, "transactional.id": topic, "linger.ms": 0})
    producer.init_transactions(PATIENCE_S)
    committed, written = [], []
    for number, is_committed in enumerate([True, False, True, False, False, True, False]):
        producer.begin_transaction()
        payloads = [f"{number}-{row}".encode() for row in range(7)]
        for payload in payloads:
            producer.produce(topic, payload, partition=0)
        written += payloads
        if is_committed:
            producer.commit_transaction(PATIENCE_S)
            committed += payloads
        else:
            producer.flush(PATIENCE_S)  # they are in the log
            producer.abort_transaction(PATIENCE_S)
    factory = factory_of(kafka.address, topic)
    end = end_of(factory)
    assert end == len(written) + 7  # a marker each
    for records_max in (1, 3, 1000):
        reading = read(factory)
        reading.to(end, records_max)
        assert reading.payloads == committed
        # Behind an aborted tail there is nothing more, and the position says so.
        assert reading.once(timeout_s=0.1) == 0 and reading.next_offset == end
    everything = read(factory_of(kafka.address, topic, isolation_level="read_uncommitted"))
    everything.to(end)
    assert everything.payloads == written


def test_an_open_transaction_ends_what_can_be_read(kafka: KafkaServer, read) -> None:
    topic = new_topic(kafka)
    append(kafka, topic, [b"a", b"b"])
    producer = Producer({"bootstrap.servers": kafka.address, "transactional.id": topic})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush(PATIENCE_S)
    factory = factory_of(kafka.address, topic)
    reading = read(factory)
    assert end_of(factory) == 2
    reading.to(2)
    assert reading.once(timeout_s=0.3) == 0 and reading.next_offset == 2
    producer.commit_transaction(PATIENCE_S)
    reading.to(4)
    assert (reading.payloads, end_of(factory)) == ([b"a", b"b", b"open"], 4)


def test_compaction_leaves_gaps(kafka: KafkaServer, read, eventually) -> None:
    topic = new_topic(
        kafka, cleanup_policy="compact", segment_ms="100", min_cleanable_dirty_ratio="0.01", min_compaction_lag_ms="0"
    )
    producer = KafkaStreamProducer(settings_of(kafka.address, topic), SystemClock())
    records = [(b"key-%d" % (number % 5), b"value-%d" % number) for number in range(50)]
    producer.append(0, records[:45])
    factory = factory_of(kafka.address, topic)

    def is_compacted() -> bool:
        # A segment is rolled by a record that comes later.
        end = producer.append(0, [(b"last", b"last")])
        reading = read(factory)
        reading.to(end)
        return len([payload for payload in reading.payloads if payload != b"last"]) == 5

    eventually(is_compacted, timeout_s=PATIENCE_S, what="compaction")
    end = producer.append(0, records[45:])
    producer.close()
    reading = read(factory)
    reading.to(end)
    survivors = [payload for payload in reading.payloads if payload != b"last"]
    assert survivors == [value for _, value in records[40:]]
    assert reading.offsets[0] > 0 and reading.offsets == sorted(set(reading.offsets))
    in_the_gap = read(factory, 20)
    in_the_gap.to(end)
    assert in_the_gap.payloads == reading.payloads


def test_an_expired_offset_is_out_of_range_also_for_one_who_stands_there(kafka: KafkaServer, read) -> None:
    topic = new_topic(kafka)
    end = append(kafka, topic, [b"%d" % number for number in range(20)])
    factory = factory_of(kafka.address, topic)
    reading = read(factory)
    reading.to(5, records_max=5)
    reading.consumer.close()  # what it had read ahead is no test
    client = AdminClient({"bootstrap.servers": kafka.address, "log_level": 0})
    for result in client.delete_records([TopicPartition(topic, 0, 12)]).values():
        result.result(PATIENCE_S)
    for offset in (0, 5, 11, end + 1):
        with pytest.raises(OffsetOutOfRangeError) as caught:
            read(factory, offset).once(timeout_s=PATIENCE_S)
        assert (caught.value.offset, caught.value.earliest, caught.value.end) == (offset, 12, end)
    reading.next_offset = 12
    reading.to(end)
    assert reading.payloads == [b"%d" % number for number in (*range(5), *range(12, 20))]


def test_a_record_of_5_mb_passes(kafka: KafkaServer, read) -> None:
    topic = new_topic(kafka)
    payloads = [b"small", bytes(range(256)) * (20 << 10), b"after"]
    end = append(kafka, topic, payloads)
    reading = read(factory_of(kafka.address, topic))
    reading.to(end)
    assert reading.payloads == payloads


def test_partitions_grow_and_a_topic_goes(kafka: KafkaServer, read, eventually) -> None:
    topic = new_topic(kafka, 2)
    factory = factory_of(kafka.address, topic)
    provider = factory.metadata_provider()
    assert provider.num_partitions(timeout_s=PATIENCE_S) == 2
    client = AdminClient({"bootstrap.servers": kafka.address, "log_level": 0})
    client.create_partitions([NewPartitions(topic, 4)])[topic].result(PATIENCE_S)
    eventually(lambda: provider.num_partitions(timeout_s=PATIENCE_S) == 4, timeout_s=PATIENCE_S)

    def is_empty(partition: int) -> bool:
        try:
            return provider.end_offset(partition, timeout_s=PATIENCE_S) == 0
        except StreamUnavailableError as error:  # its leader is not chosen yet
            assert error.is_transient
            return False

    eventually(partial(is_empty, 3), timeout_s=PATIENCE_S)
    end = append(kafka, topic, [b"x"] * 10)
    reading = read(factory)
    reading.to(end)
    client.delete_topics([topic])[topic].result(PATIENCE_S)

    def is_gone() -> bool:
        try:
            reading.once(timeout_s=1)
        except NotFoundError as error:
            assert topic in error.message
            return True
        except StreamUnavailableError as error:
            assert error.is_transient
        return False

    eventually(is_gone, timeout_s=PATIENCE_S, what="a deleted topic is told")
    with pytest.raises(NotFoundError, match=topic):
        provider.num_partitions(timeout_s=PATIENCE_S)
    # Made again, it ends before the offset that the table stands at.
    kafka.create_topic(topic, 1)
    with pytest.raises(OffsetOutOfRangeError, match="offset 10 is not in the stream: expected 0 to 0"):
        eventually(lambda: read(factory, 10).once(timeout_s=5) > 0, timeout_s=PATIENCE_S)
    provider.close()


# --- a broker that goes and comes -------------------------------------------------------------------------------------


def test_a_killed_broker_is_told_and_reading_goes_on_at_the_offset(tmp_path: Path, read) -> None:
    if missing_kafka():
        pytest.skip(missing_kafka())
    with KafkaServer(tmp_path / "kafka") as kafka:
        topic = new_topic(kafka)
        payloads = [b"%d" % number for number in range(3_000)]
        append(kafka, topic, payloads[:1_000])
        factory = factory_of(kafka.address, topic)
        reading, provider = read(factory), factory.metadata_provider()
        reading.to(500)
        kafka.kill()
        caught = None
        for _ in range(FETCHES_MAX):  # what was read ahead comes first
            try:
                reading.once(timeout_s=1)
            except StreamUnavailableError as error:
                caught = error
                break
        assert caught is not None and (caught.layer, caught.is_transient) == (StreamLayer.TCP, True)
        with pytest.raises(StreamUnavailableError):
            provider.end_offset(0, timeout_s=1)
        kafka.start()
        append(kafka, topic, payloads[1_000:2_000])
        read_to_the_end(reading, 2_000)
        # It is there and answers nothing: no record is lost by waiting, whatever is told meanwhile.
        kafka.pause()
        for _ in range(3):
            try:
                assert reading.once(timeout_s=0.5) == 0
            except StreamUnavailableError as error:
                assert error.is_transient
        kafka.resume()
        append(kafka, topic, payloads[2_000:])
        read_to_the_end(reading, 3_000)
        assert reading.payloads == payloads
        assert reading.offsets == list(range(3_000))
        assert provider.end_offset(0, timeout_s=PATIENCE_S) == 3_000
        provider.close()


def read_to_the_end(reading: Reading, end: int) -> None:
    """As a table would: a transient failure is tried again."""
    for _ in range(FETCHES_MAX):
        if reading.next_offset >= end:
            return
        try:
            reading.once(timeout_s=5)
        except StreamUnavailableError as error:
            assert error.is_transient
    pytest.fail(f"read to {reading.next_offset} of {end}")
