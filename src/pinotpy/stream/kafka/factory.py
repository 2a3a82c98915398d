"""The plug-in of streamType `kafka`."""

from __future__ import annotations

import logging
import re
from typing import Final

from pinotpy.clock import Clock
from pinotpy.errors import UserError
from pinotpy.stream.kafka.client import check_properties
from pinotpy.stream.kafka.consumer import KafkaPartitionConsumer
from pinotpy.stream.kafka.metadata import KafkaMetadataProvider
from pinotpy.stream.kafka.properties import kafka_properties
from pinotpy.stream.settings import StreamSettings
from pinotpy.stream.spec import LONG_OFFSETS, OffsetType

logger = logging.getLogger(__name__)

_TOPIC: Final = re.compile(r"[A-Za-z0-9._\-]{1,249}")


class KafkaConsumerFactory:
    """The topic `settings.topic` of the brokers in `stream.kafka.broker.list`; implements StreamConsumerFactory.

    Raises InvalidConfigError with every property that cannot be, UserError for a topic that Kafka cannot have.

    addresses: host:port of each broker that the table names, and of its OAuth service, see StreamConsumerFactory.
    without_effect: keys of the table that are accepted and mean nothing here.
    """

    offset_type: OffsetType = LONG_OFFSETS

    def __init__(self, settings: StreamSettings, clock: Clock) -> None:
        if not _TOPIC.fullmatch(settings.topic) or settings.topic in (".", ".."):
            raise UserError(
                f"'{settings.topic[:80]}' cannot be a topic of Kafka: expected 1 to 249 letters, digits, '.', '_', '-'"
            )
        self._properties = kafka_properties(settings.properties)
        check_properties(self._properties, settings.properties)
        self._topic, self._clock = settings.topic, clock
        self.addresses = self._properties.addresses
        self.without_effect = self._properties.without_effect
        if self.without_effect:
            logger.info("stream properties without effect topic=%s keys=%s", self._topic, ",".join(self.without_effect))

    def metadata_provider(self) -> KafkaMetadataProvider:
        return KafkaMetadataProvider(self._properties, self._topic, self._clock)

    def consumer(self, partition: int) -> KafkaPartitionConsumer:
        return KafkaPartitionConsumer(self._properties, self._topic, partition, self._clock)
