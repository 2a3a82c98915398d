"""RSVPs to meetups, as the demonstration of a stream: made up, a steady number a second, in the shape of Meetup's own.

Everything follows from the number of the record, but the time; so two runs differ in nothing else.
"""

from __future__ import annotations

import random
from typing import Any, Final

TABLE: Final = "meetupRsvp"
TOPIC: Final = "meetupRSVPEvents"
RATE: Final = 200  # records a second
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


def table_config(stream_configs: dict[str, str]) -> dict[str, Any]:
    """Two replicas."""
    return {
        "tableName": TABLE,
        "tableType": "REALTIME",
        "segmentsConfig": {"timeColumnName": "mtime", "replication": "2", "schemaName": TABLE},
        "tenants": {},
        "tableIndexConfig": {"invertedIndexColumns": ["group_city"], "streamConfigs": stream_configs},
        "metadata": {},
    }
