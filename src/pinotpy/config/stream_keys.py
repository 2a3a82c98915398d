"""The keys of `streamConfigs`: what each means, its default and how its text is read.

`docs/streams.md` has the same table; a test holds it current. How a whole map is read: stream_configs.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pinotpy.config.assignment import PERIOD_ALLOWED, millis_from_period
from pinotpy.config.offset_criterion import CRITERION_ALLOWED, OffsetCriterion
from pinotpy.config.serving import bytes_from_text
from pinotpy.config.settings_loading import MASK
from pinotpy.errors import UserError

ROWS_MAX: Final = 2**31 - 1
SEGMENT_BYTES_MIN: Final = 2**20
SEGMENT_BYTES_MAX: Final = 2**40
PERIOD_MS_MIN: Final = 1_000
PERIOD_MS_MAX: Final = 3650 * 86_400_000
TIMEOUT_MS_MAX: Final = 86_400_000
COMMIT_TIMEOUT_S_MAX: Final = 86_400
TEXT_CHARACTERS_MAX: Final = 1_000
_TYPE: Final = "<type>"


@dataclass(frozen=True, slots=True)
class StreamKey:
    """One key that pinotpy reads.

    name: with `<type>` where documents have their streamType.
    read: its text → its value; raises ValueError whose text is what is allowed.
    default: as a document would have it; None if there is none.
    is_text: a JSON number or boolean in its place is a mistake, not a way to write it.
    """

    name: str
    read: Callable[[str], Any]
    meaning: str
    default: str | None = None
    is_required: bool = False
    is_text: bool = False

    def of_type(self, stream_type: str) -> str:
        """`stream.kafka.topic.name`"""
        return self.name.replace(_TYPE, stream_type)


# --- how texts are read -----------------------------------------------------------------------------------------------


def _text(text: str) -> str:
    stripped = text.strip()
    if not stripped or len(stripped) > TEXT_CHARACTERS_MAX or not stripped.isprintable():
        raise ValueError(f"text of 1 to {TEXT_CHARACTERS_MAX} printable characters")
    return stripped


def _stream_type(text: str) -> str:
    # It is a part of the names of keys.
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", text):
        raise ValueError("the type of the stream, such as kafka: letters, digits, '_' and '-', at most 64")
    return text


def _class_name(text: str) -> str:
    # Names a plug-in; nothing is imported by it.
    if not re.fullmatch(r"[\w.$-]{1,300}", text.strip(), re.ASCII):
        raise ValueError("the name of a plug-in, or of a class of the reference")
    return text.strip()


def _whole_number(low: int, high: int, unit: str) -> Callable[[str], int]:
    def read(text: str) -> int:
        digits = text.strip()
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 19 and low <= int(digits) <= high):
            raise ValueError(f"a whole number of {unit} from {low} to {high}")
        return int(digits)

    return read


def _rows(text: str) -> int:
    digits = text.strip()
    if digits.isascii() and digits.isdigit() and len(digits) <= 10 and int(digits) <= ROWS_MAX:
        return int(digits)
    hint = "; a size belongs to realtime.segment.flush.threshold.segment.size" if re.search(r"\d[KMGT]", text) else ""
    raise ValueError(f"a whole number of rows from 0 to {ROWS_MAX}, 0 = by size{hint}")


def _period_ms(text: str) -> int:
    allowed = f"{PERIOD_ALLOWED}, or milliseconds; from 1s to 3650d"
    stripped = text.strip()
    try:
        is_millis = stripped.isascii() and stripped.isdigit() and len(stripped) <= 19
        period_ms = int(stripped) if is_millis else millis_from_period(stripped)
    except ValueError:
        raise ValueError(allowed) from None
    if not PERIOD_MS_MIN <= period_ms <= PERIOD_MS_MAX:
        raise ValueError(allowed)
    return period_ms


def _size_bytes(text: str) -> int:
    allowed = "a size such as 200M or 1.5G, from 1M to 1T"
    try:
        size = bytes_from_text(text)
    except (ValueError, OverflowError):
        raise ValueError(allowed) from None
    if not SEGMENT_BYTES_MIN <= size <= SEGMENT_BYTES_MAX:
        raise ValueError(allowed)
    return size


def _criterion(text: str) -> OffsetCriterion:
    try:
        return OffsetCriterion.parse(text)
    except UserError:
        raise ValueError(CRITERION_ALLOWED) from None


def _consumer_types(text: str) -> tuple[str, ...]:
    types = tuple(word.strip().lower() for word in text.split(","))
    if not set(types) <= {"lowlevel", "simple", "highlevel"}:
        raise ValueError("lowlevel (or simple)")
    if set(types) == {"highlevel"}:
        raise ValueError(
            "lowlevel: each partition is read by offset; consumers of the high level, which commit offsets to the "
            "stream, are not supported"
        )
    return types


# --- the keys ---------------------------------------------------------------------------------------------------------

_PREFIX: Final = f"stream.{_TYPE}."
_FLUSH: Final = "realtime.segment.flush."
_TIMEOUT: Final = _whole_number(1, TIMEOUT_MS_MAX, "milliseconds")

STREAM_TYPE: Final = StreamKey(
    "streamType", _stream_type, "Which plug-in reads the stream.", is_required=True, is_text=True
)
TOPIC: Final = StreamKey(
    f"{_PREFIX}topic.name", _text, "Topic, as the stream names it.", is_required=True, is_text=True
)
DECODER: Final = StreamKey(
    f"{_PREFIX}decoder.class.name",
    _class_name,
    "Plug-in that makes rows of payloads, such as json, or the reference's class for it.",
    is_required=True,
    is_text=True,
)
CONSUMER_FACTORY: Final = StreamKey(
    f"{_PREFIX}consumer.factory.class.name",
    _class_name,
    "Plug-in that reads the stream, where it is not that of streamType: its name, or the reference's class for it.",
    is_text=True,
)
CONSUMER_TYPE: Final = StreamKey(
    f"{_PREFIX}consumer.type",
    _consumer_types,
    "lowlevel or simple: streams are always read partition by partition. highlevel alone is refused.",
    "lowlevel",
    is_text=True,
)
OFFSET_CRITERION: Final = StreamKey(
    f"{_PREFIX}consumer.prop.auto.offset.reset",
    _criterion,
    "Where a new table begins: smallest, largest, a period before now such as 2d, or a time.",
    "largest",
)
CONNECTION_TIMEOUT: Final = StreamKey(
    f"{_PREFIX}connection.timeout.millis", _TIMEOUT, "Longest time of a call for metadata, in ms.", "30000"
)
FETCH_TIMEOUT: Final = StreamKey(
    f"{_PREFIX}fetch.timeout.millis", _TIMEOUT, "Longest wait of one fetch for records, in ms.", "5000"
)
IDLE_TIMEOUT: Final = StreamKey(
    f"{_PREFIX}idle.timeout.millis", _TIMEOUT, "Without records for so long, a consumer is made anew, in ms.", "180000"
)
ROWS: Final = StreamKey(
    f"{_FLUSH}threshold.rows",
    _rows,
    "Rows in all consuming segments of the table on a server; each segment gets its share. 0 = by size.",
    "5000000",
)
ROWS_LLC: Final = StreamKey(f"{_FLUSH}threshold.size.llc", _rows, "Older name of …threshold.rows.")
ROWS_OLD: Final = StreamKey(f"{_FLUSH}threshold.size", _rows, "Oldest name of …threshold.rows: rows, not bytes.")
SEGMENT_ROWS: Final = StreamKey(
    f"{_FLUSH}threshold.segment.rows",
    _whole_number(0, ROWS_MAX, "rows"),
    "Rows of one segment, not divided; 0 = not set. Beside a positive …threshold.rows it is refused.",
)
TIME: Final = StreamKey(
    f"{_FLUSH}threshold.time", _period_ms, "Age at which a segment with rows is sealed: a period or ms.", "6h"
)
TIME_LLC: Final = StreamKey(f"{_FLUSH}threshold.time.llc", _period_ms, "Takes precedence over …threshold.time.")
SIZE: Final = StreamKey(
    f"{_FLUSH}threshold.segment.size",
    _size_bytes,
    "Size that a sealed segment should have, where no number of rows is given or it is 0.",
    "200M",
)
SIZE_OLD: Final = StreamKey(f"{_FLUSH}desired.size", _size_bytes, "Older name of …threshold.segment.size.")
AUTOTUNE_ROWS: Final = StreamKey(
    f"{_FLUSH}autotune.initialRows",
    _whole_number(1, ROWS_MAX, "rows"),
    "By size: rows of the first segments, before there are completed ones to learn from.",
    "100000",
)
COMMIT_TIMEOUT: Final = StreamKey(
    "realtime.segment.commit.timeoutSeconds",
    _whole_number(1, COMMIT_TIMEOUT_S_MAX, "seconds"),
    "Time for a server to build and commit a segment, in s, before another one is asked.",
    "120",
)

KEYS: Final = (
    STREAM_TYPE, TOPIC, DECODER, CONSUMER_FACTORY, CONSUMER_TYPE, OFFSET_CRITERION, CONNECTION_TIMEOUT, FETCH_TIMEOUT,
    IDLE_TIMEOUT, ROWS, ROWS_LLC, ROWS_OLD, SEGMENT_ROWS, TIME, TIME_LLC, SIZE, SIZE_OLD, AUTOTUNE_ROWS, COMMIT_TIMEOUT,
)  # fmt: skip

# Keys of the reference that are accepted and change nothing here, with the reason; a name that ends with a dot stands
# for all keys below it.
WITHOUT_EFFECT: Final = {
    f"{_PREFIX}hlc.": "of consumers of the high level",
    f"{_PREFIX}zk.broker.url": "of consumers of the high level: brokers are asked, not their ZooKeeper",
    f"{_PREFIX}partition.offset.factory.class.name": "the plug-in knows its offsets",
    f"{_PREFIX}metadata.populate": "not yet: columns of a record's key, headers and metadata",
    f"{_PREFIX}metadata.fields": "not yet: columns of a record's key, headers and metadata",
    "stream.kafka.buffer.size": "of the client of Kafka 0.9",
    "stream.kafka.socket.timeout": "of the client of Kafka 0.9",
    "stream.kafka.fetcher.size": "of the client of Kafka 0.9",
    "stream.kafka.fetcher.minBytes": "of the client of Kafka 0.9",
    "topic.consumption.rate.limit": "not yet: a limit of rows a second",
    f"{_FLUSH}threshold.variance.fraction": "not yet: thresholds that differ by partition",
    "realtime.segment.serverUploadToDeepStore": "the servers' settings say how segments are committed",
    "realtime.segment.offsetAutoReset.": "not yet: skipping rows where consumption is far behind",
}

# Properties of Kafka's client that documents of the reference have without any prefix.
KAFKA_FAMILIES: Final = ("sasl.", "ssl.", "security.")
KAFKA_PROPERTIES: Final = frozenset({
    "bootstrap.servers", "client.id", "client.rack", "group.id", "isolation.level", "check.crcs", "fetch.min.bytes",
    "fetch.max.bytes", "fetch.max.wait.ms", "max.partition.fetch.bytes", "max.poll.records", "max.poll.interval.ms",
    "receive.buffer.bytes", "send.buffer.bytes", "request.timeout.ms", "session.timeout.ms", "heartbeat.interval.ms",
    "metadata.max.age.ms", "reconnect.backoff.ms", "reconnect.backoff.max.ms", "retry.backoff.ms",
    "connections.max.idle.ms", "enable.auto.commit", "key.deserializer", "value.deserializer",
})  # fmt: skip

_SECRET: Final = re.compile(
    r"password|passphrase|secret|token|credential|jaas|private|api\.?key|access\.?key|user\.info|sas\b", re.IGNORECASE
)
_USER_OF_ADDRESS: Final = re.compile(r"://[^/@\s]+@")
_PASSWORD_OF_ADDRESS: Final = re.compile(r"://[^/@\s:]*:([^/@\s]+)@")
_SECRET_OPTION: Final = re.compile(r'\w*(?:password|secret|token)\w*\s*=\s*(?:"([^"]*)"|([^";\s]+))', re.IGNORECASE)


def is_secret(key: str, value: str) -> bool:
    """Whether a value must not be shown: by its key, or because it is an address with a user's password."""
    return _SECRET.search(key) is not None or _USER_OF_ADDRESS.search(value) is not None


def without_secrets(text: str, properties: Mapping[str, str]) -> str:
    """`text`, such as what a plug-in's library says, without the passwords of a table's stream."""
    secrets: set[str] = set()
    for key, value in properties.items():
        if is_secret(key, value):
            # A JAAS entry has the password among others, an address has it before the host.
            secrets |= {value, *_PASSWORD_OF_ADDRESS.findall(value)}
            secrets |= {quoted or bare for quoted, bare in _SECRET_OPTION.findall(value)}
    for secret in sorted(secrets - {""}, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text


def has_no_effect(key: str, stream_type: str) -> bool:
    """Whether `key` is one of WITHOUT_EFFECT."""
    return any(
        key.startswith(name) if name.endswith(".") else key == name
        for name in (written.replace(_TYPE, stream_type) for written in WITHOUT_EFFECT)
    )


def is_kafka_property(key: str) -> bool:
    """Whether a key without prefix is a property of Kafka's client."""
    return key.startswith(KAFKA_FAMILIES) or key in KAFKA_PROPERTIES
