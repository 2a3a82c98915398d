"""Where the topics of demonstrations are: in Kafka, or in a folder of files."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

from pinotpy.clock import SystemClock
from pinotpy.errors import AlreadyExistsError
from pinotpy.stream.file import FileStreamProducer, create_topic
from pinotpy.stream.spec import StreamProducer

NUM_PARTITIONS: Final = 2


class DemoStream:
    """Topics that are made when they are first written to.

    Args:
        kafka_brokers: host:port, …; empty: files.
        folder: of the files.
    """

    def __init__(self, kafka_brokers: str, folder: Path) -> None:
        self._kafka_brokers, self._folder = kafka_brokers, folder

    @property
    def place(self) -> str:
        """Where it is, in words."""
        return f"Kafka at {self._kafka_brokers}" if self._kafka_brokers else "files on this machine"

    def configs(self, topic: str, *, segment_rows: int) -> dict[str, str]:
        """streamConfigs of a table that reads the topic from its beginning."""
        kind = "kafka" if self._kafka_brokers else "file"
        place = (
            {"stream.kafka.broker.list": self._kafka_brokers}
            if self._kafka_brokers
            else {"stream.file.directory": str(self._folder)}
        )
        return {
            "streamType": kind,
            **place,
            f"stream.{kind}.topic.name": topic,
            f"stream.{kind}.decoder.class.name": "json",
            f"stream.{kind}.consumer.prop.auto.offset.reset": "smallest",
            "realtime.segment.flush.threshold.segment.rows": str(segment_rows),
            "realtime.segment.flush.threshold.time": "1h",
        }

    def producer(self, topic: str) -> StreamProducer:
        """Who writes to the topic; the caller closes it."""
        if not self._kafka_brokers:
            with suppress(AlreadyExistsError):
                create_topic(self._folder / topic, NUM_PARTITIONS)
            return FileStreamProducer(self._folder / topic, SystemClock())
        from pinotpy.stream.kafka.producer import KafkaStreamProducer, make_topic
        from pinotpy.stream.settings import StreamSettings

        settings = StreamSettings("kafka", topic, {"stream.kafka.broker.list": self._kafka_brokers})
        make_topic(settings, NUM_PARTITIONS, SystemClock())
        return KafkaStreamProducer(settings, SystemClock())

    def num_records(self, producer: StreamProducer) -> int:
        """How many there are in a topic of files, of all partitions; 0 for Kafka's, which others may write to."""
        if self._kafka_brokers:
            return 0
        return sum(producer.append(partition, []) for partition in range(NUM_PARTITIONS))  # gives the end offset
