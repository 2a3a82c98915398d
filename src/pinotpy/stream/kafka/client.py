"""librdkafka: the only file that imports it (package confluent-kafka, extra `kafka`).

Every call has a deadline, and raises pinotpy's errors by the layer that failed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, Final, TypeVar

from pinotpy.clock import Clock
from pinotpy.errors import Fault, InvalidConfigError, NotFoundError, PinotError
from pinotpy.stream.kafka.events import ClientEvents
from pinotpy.stream.kafka.failures import Failure, classified, is_no_failure, is_not_there
from pinotpy.stream.kafka.properties import BROKERS, KafkaProperties, key_of
from pinotpy.stream.spec import StreamLayer, StreamUnavailableError

T = TypeVar("T")
# A question is asked anew after half a second, one second, two …: between them librdkafka says what failed.
_FIRST_TRY_S: Final = 0.5
_PAUSE_S: Final = 0.05
# Once a reason is known, waiting on is the caller's: it may have other partitions to look after.
_PATIENCE_S: Final = 3.0
_LEAST_S: Final = 0.001  # a negative timeout would mean forever
_NO_CONNECTION: Final = frozenset({"_TRANSPORT", "_ALL_BROKERS_DOWN", "_TIMED_OUT", "_TIMED_OUT_QUEUE"})
_UNKNOWN_PROPERTY: Final = 'No such configuration property: "'
_PRODUCER_PROPERTIES: Final = ("bootstrap.", "broker.", "client.id", "https.", "reconnect.", "sasl.", "security.",
                               "socket.", "ssl.")  # fmt: skip
EOF: Final = "_PARTITION_EOF"
RESET: Final = "_AUTO_OFFSET_RESET"


def library() -> ModuleType:
    """The package; raises InvalidConfigError where it is not installed."""
    try:
        import confluent_kafka
    except ImportError as error:
        raise InvalidConfigError(
            f"a stream of type 'kafka' needs the package confluent-kafka: pip install 'pinotpy[kafka]' ({error})"
        ) from error
    module: ModuleType = confluent_kafka
    return module


def check_properties(properties: KafkaProperties, table: Mapping[str, str]) -> None:
    """Raise InvalidConfigError with each property that librdkafka does not know or whose value it refuses. Connects to
    nobody.
    """
    rest = {name: value for name, value in properties.client.items() if name != BROKERS}
    faults: list[Fault] = []
    while True:
        try:
            library().Consumer({**rest, "log_level": 0}).close()
        except library().KafkaException as error:
            text = properties.masked(error.args[0].str())
            name = _named_in(text, rest)
            faults.append(
                Fault(f"$.streamConfigs['{key_of(table, name)}']" if name else "$.streamConfigs", text, _allowed(text))
            )
            if name:
                del rest[name]
                continue
        break
    if faults:
        raise InvalidConfigError("streamConfigs of a Kafka stream are not valid:", tuple(faults))


def open_producer(properties: KafkaProperties, more: Mapping[str, Any], events: ClientEvents) -> Any:
    """A producer with the table's connection settings, and `more`."""
    connection = {name: value for name, value in properties.client.items() if name.startswith(_PRODUCER_PROPERTIES)}
    return library().Producer({**connection, **more, "error_cb": events.failed, "logger": events})


class KafkaClient:
    """One consumer of librdkafka that assigns itself at most one partition of one topic; used by one thread at a time.

    Making one opens no connection that anybody waits for.
    """

    def __init__(self, properties: KafkaProperties, topic: str, clock: Clock) -> None:
        self.topic = topic
        self._properties, self._clock = properties, clock
        self._events = ClientEvents(properties, clock)
        self._library = library()
        self._received: list[Any] = []  # while something else was asked
        try:
            self._consumer = self._library.Consumer(
                {**properties.client, "error_cb": self._events.failed, "logger": self._events}
            )
        except self._library.KafkaException as error:
            raise InvalidConfigError(f"no Kafka client: {properties.masked(error.args[0].str())}") from None

    # --- questions ----------------------------------------------------------------------------------------------------

    def num_partitions(self, timeout_s: float) -> int:
        """Raises NotFoundError if there is no such topic."""
        described = self._ask(lambda seconds: self._consumer.list_topics(self.topic, timeout=seconds), timeout_s)
        topic = described.topics.get(self.topic)
        if topic is None or topic.error is not None:
            raise self._topic_error("_UNKNOWN_TOPIC" if topic is None else topic.error.name(), "it is not listed")
        return len(topic.partitions)

    def make_topic(self, num_partitions: int, timeout_s: float) -> None:
        """Make the topic, with one replica, if it is not there."""
        from confluent_kafka.admin import AdminClient, NewTopic

        try:
            self.num_partitions(timeout_s)
        except NotFoundError:
            connection = {
                name: value for name, value in self._properties.client.items() if name.startswith(_PRODUCER_PROPERTIES)
            }
            admin = AdminClient({**connection, "error_cb": self._events.failed, "logger": self._events})
            made = admin.create_topics([NewTopic(self.topic, num_partitions, 1)], request_timeout=timeout_s)
            made[self.topic].result(timeout_s)

    def check_partition(self, partition: int, timeout_s: float) -> None:
        """Raise NotFoundError if there is no such topic or partition."""
        count = self.num_partitions(timeout_s)
        if not 0 <= partition < count:
            raise NotFoundError(f"the Kafka topic '{self.topic}' has partitions 0 to {count - 1}, found {partition}")

    def watermarks(self, partition: int, timeout_s: float) -> tuple[int, int]:
        """The earliest offset, and the one behind the last record that may be read."""
        place = self._library.TopicPartition(self.topic, partition)

        def ask(seconds: float) -> tuple[int, int]:
            low, high = self._consumer.get_watermark_offsets(place, timeout=seconds) or (-1, -1)
            if low < 0 or high < 0:
                raise self._library.KafkaException(self._library.KafkaError(self._library.KafkaError._TIMED_OUT))
            return low, high

        return self._ask_partition(ask, partition, timeout_s)

    def offset_at_time(self, partition: int, timestamp_ms: int, timeout_s: float) -> int | None:
        """First offset whose record is not older; None if there is none."""
        asked = [self._library.TopicPartition(self.topic, partition, timestamp_ms)]

        def ask(seconds: float) -> int:
            (answer,) = self._consumer.offsets_for_times(asked, timeout=seconds)
            if answer.error is not None:
                raise self._library.KafkaException(answer.error)
            return int(answer.offset)

        offset = self._ask_partition(ask, partition, timeout_s)
        return offset if offset >= 0 else None

    # --- records ------------------------------------------------------------------------------------------------------

    def assign(self, partition: int, offset: int) -> None:
        """Read on from `offset`; what was fetched before is dropped."""
        self._received.clear()
        self._consumer.assign([self._library.TopicPartition(self.topic, partition, offset)])

    def receive(self, records_max: int, timeout_s: float) -> list[Any]:
        """Messages of the assigned partition: one as soon as there is one, then whatever is there without waiting; at
        most `records_max`. An event of the partition (its end, an offset that is not there) is a message with an
        error.
        """
        messages, self._received = self._received, []
        if not messages:
            message = self._consumer.poll(max(timeout_s, 0))
            if message is None:
                return []
            messages = [message]
        if len(messages) < records_max:
            messages += self._consumer.consume(records_max - len(messages), 0)
        return messages

    def is_in_doubt(self) -> bool:
        """Whether a connection failed since a question was answered or the doubt was cleared."""
        return self._events.failure is not None

    def clear_doubt(self) -> None:
        """The partition's leader sent something."""
        self._events.clear()

    def error_of(self, name: str, text: str) -> PinotError:
        """What an error that came as a message means; NotFoundError or StreamUnavailableError."""
        if is_not_there(name):
            return self._topic_error(name, text)
        return self._unavailable(classified(name, self._properties.masked(text)))

    def close(self) -> None:
        """Safe to call twice."""
        self._received.clear()
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()

    # --- how to ask ---------------------------------------------------------------------------------------------------

    def _ask_partition(self, ask: Callable[[float], T], partition: int, timeout_s: float) -> T:
        deadline_ns = self._deadline_ns(timeout_s)
        try:
            return self._ask(ask, timeout_s)
        except NotFoundError:
            # Which is missing, or is it not allowed? The topic's own answer says it.
            self.check_partition(partition, self._remaining_s(deadline_ns))
            raise self._unavailable(
                Failure(StreamLayer.FETCH, True, f"partition {partition} of '{self.topic}' has no leader")
            ) from None

    def _ask(self, ask: Callable[[float], T], timeout_s: float) -> T:
        """The answer to a question that librdkafka asks a broker. It says `no connection` for many reasons; the reason
        comes as an event. What passes, as a partition whose leader is just chosen, is waited for a little.
        """
        start_ns, deadline_ns, try_s = self._clock.monotonic_ns(), self._deadline_ns(timeout_s), _FIRST_TRY_S
        while True:
            try:
                answer = ask(max(min(try_s, self._remaining_s(deadline_ns)), _LEAST_S))
            except self._library.KafkaException as error:
                name, text = error.args[0].name(), error.args[0].str()
            else:
                self._events.clear()
                return answer
            if is_not_there(name):
                raise self._topic_error(name, text)
            self._take_events(min(_PAUSE_S, self._remaining_s(deadline_ns)))
            is_told_by_events = name in _NO_CONNECTION or is_no_failure(name)
            failure = self._events.failure if is_told_by_events else classified(name, self._properties.masked(text))
            is_late = self._clock.monotonic_ns() - start_ns >= _PATIENCE_S * 1e9
            if failure is not None and (is_late or not failure.is_transient):
                raise self._unavailable(failure)
            if not self._remaining_s(deadline_ns):
                raise self._unavailable(failure or Failure(StreamLayer.TCP, True, f"no answer within {timeout_s:g} s"))
            try_s *= 2

    def _take_events(self, timeout_s: float) -> None:
        """Let librdkafka tell its events, which it does while it is polled; a message that comes is for `receive`."""
        message = self._consumer.poll(timeout_s)
        if message is not None:
            self._received.append(message)

    def _topic_error(self, name: str, text: str) -> PinotError:
        if is_not_there(name):
            return NotFoundError(
                f"Kafka at {self._brokers} has no topic '{self.topic}', or not that partition: check "
                "stream.kafka.topic.name and stream.kafka.broker.list"
            )
        return self._unavailable(classified(name, f"topic '{self.topic}': {self._properties.masked(text)}"))

    def _unavailable(self, failure: Failure) -> StreamUnavailableError:
        return failure.error(self._brokers)

    @property
    def _brokers(self) -> str:
        return ", ".join(self._properties.addresses)[:200]

    def _deadline_ns(self, timeout_s: float) -> int:
        return self._clock.monotonic_ns() + int(timeout_s * 1e9)

    def _remaining_s(self, deadline_ns: int) -> float:
        return max((deadline_ns - self._clock.monotonic_ns()) / 1e9, 0)


def _named_in(text: str, properties: Mapping[str, str]) -> str:
    """The property that a complaint of librdkafka is about; '' if it names none."""
    if text.startswith(_UNKNOWN_PROPERTY):
        return text.removeprefix(_UNKNOWN_PROPERTY).partition('"')[0]
    names = [name for name in properties if f'"{name}"' in text or f"`{name}`" in text or f"{name} " in text]
    return max(names, key=len, default="")


def _allowed(text: str) -> str:
    if text.startswith(_UNKNOWN_PROPERTY):
        return "a property of librdkafka, or of Kafka's Java consumer that docs/kafka.md lists"
    return "what librdkafka's CONFIGURATION.md says of it"
