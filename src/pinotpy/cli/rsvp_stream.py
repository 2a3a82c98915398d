"""RSVPs to meetups, as the demonstration of a stream: made up, a steady number a second, in the shape of Meetup's own.

Everything follows from the number of the record, but the time; so two runs differ in nothing else.
"""

from __future__ import annotations

import json
import random
import threading
from pathlib import Path
from typing import Any, Final

from pinotpy.clock import Clock, SystemClock
from pinotpy.stream.file import FileStreamProducer, create_topic
from pinotpy.stream.spec import StreamProducer

TABLE: Final = "meetupRsvp"
TOPIC: Final = "meetupRSVPEvents"
NUM_PARTITIONS: Final = 2
RATE: Final = 200  # records a second, of all partitions
_TICKS: Final = 10  # appends a second
_CITIES: Final = (
    ("Amsterdam", "nl"), ("Berlin", "de"), ("Chicago", "us"), ("Lisbon", "pt"), ("London", "gb"), ("Madrid", "es"),
    ("Mumbai", "in"), ("Nairobi", "ke"), ("New York", "us"), ("São Paulo", "br"), ("Seoul", "kr"), ("Toronto", "ca"),
)  # fmt: skip
_TOPICS: Final = ("Board Games", "Data", "Hiking", "Jazz", "Language Exchange", "Photography", "Python", "Startups")


def rsvp(number: int, now_ms: int) -> dict[str, Any]:
    """One record."""
    dice = random.Random(number)
    city, country = dice.choice(_CITIES)
    event = dice.randrange(400)
    return {
        "rsvp_id": number,
        "event_id": f"e{event:04}",
        "event_name": f"{_TOPICS[event % len(_TOPICS)]} in {city}",
        "group_city": city,
        "group_country": country,
        "response": "yes" if dice.random() < 0.8 else "no",
        "guests": min(int(dice.expovariate(1.2)), 5),
        "event_time": now_ms + dice.randrange(1, 60) * 86_400_000,
        "mtime": now_ms,
    }


def schema() -> dict[str, Any]:
    """Of the table."""
    texts = ("event_id", "event_name", "group_city", "group_country", "response")
    return {
        "schemaName": TABLE,
        "dimensionFieldSpecs": [
            {"name": "rsvp_id", "dataType": "LONG"},
            *({"name": name, "dataType": "STRING"} for name in texts),
        ],
        "metricFieldSpecs": [{"name": "guests", "dataType": "INT"}],
        "dateTimeFieldSpecs": [
            {"name": name, "dataType": "TIMESTAMP", "format": "TIMESTAMP", "granularity": "1:MILLISECONDS"}
            for name in ("event_time", "mtime")
        ],
    }


def table_config(stream: dict[str, str], *, segment_rows: int) -> dict[str, Any]:
    """Two replicas; a segment is sealed after `segment_rows` rows, so that the demonstration shows several."""
    stream_type = stream["streamType"]
    return {
        "tableName": TABLE,
        "tableType": "REALTIME",
        "segmentsConfig": {"timeColumnName": "mtime", "replication": "2", "schemaName": TABLE},
        "tenants": {},
        "tableIndexConfig": {
            "invertedIndexColumns": ["group_city"],
            "streamConfigs": {
                **stream,
                f"stream.{stream_type}.topic.name": TOPIC,
                f"stream.{stream_type}.decoder.class.name": "json",
                f"stream.{stream_type}.consumer.prop.auto.offset.reset": "smallest",
                "realtime.segment.flush.threshold.segment.rows": str(segment_rows),
                "realtime.segment.flush.threshold.time": "1h",
            },
        },
        "metadata": {},
    }


class RsvpProducer:
    """Appends records on a thread until it is closed; `num_sent` may be read by others. A topic that has records is
    continued.
    """

    def __init__(self, producer: StreamProducer, *, rate: int = RATE, clock: Clock | None = None) -> None:
        self._producer = producer
        self._rate = rate
        self._clock = clock or SystemClock()
        self._stopping = threading.Event()
        self.num_sent = 0
        self.failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="rsvps", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(30)
        self._producer.close()

    def _run(self) -> None:
        per_append = max(self._rate // (_TICKS * NUM_PARTITIONS), 1)
        try:
            while not self._clock.wait(self._stopping, 1 / _TICKS):
                now_ms = self._clock.now_ms()
                for partition in range(NUM_PARTITIONS):
                    numbers = range(self.num_sent, self.num_sent + per_append)
                    self._producer.append(
                        partition,
                        [(f"{number}".encode(), json.dumps(rsvp(number, now_ms)).encode()) for number in numbers],
                    )
                    self.num_sent += per_append
        except Exception as error:
            self.failure = error


def file_topic(folder: Path) -> StreamProducer:
    """An empty topic of the file stream below `folder`, and who appends to it."""
    create_topic(folder / TOPIC, NUM_PARTITIONS)
    return FileStreamProducer(folder / TOPIC, SystemClock())
