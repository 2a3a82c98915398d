"""Flights by day, as the demonstration of a hybrid table: made up, in the shape of the reference's airlineStats.

Everything follows from the number of a flight within its day, so a day that is pushed and streamed has the same rows.
"""

from __future__ import annotations

import random
from typing import Any, Final

TABLE: Final = "airlineStats"
TOPIC: Final = "flights-realtime"
TIME_COLUMN: Final = "DaysSinceEpoch"
FLIGHTS_A_DAY: Final = 300
_CARRIERS: Final = ("AA", "AS", "B6", "DL", "F9", "HA", "NK", "UA", "WN")
_AIRPORTS: Final = (
    ("ATL", "GA"), ("BOS", "MA"), ("DEN", "CO"), ("DFW", "TX"), ("JFK", "NY"), ("LAX", "CA"), ("MIA", "FL"),
    ("ORD", "IL"), ("PHX", "AZ"), ("SEA", "WA"), ("SFO", "CA"), ("SLC", "UT"),
)  # fmt: skip


def flight(day: int, number: int) -> dict[str, Any]:
    """A flight of a day, which is in days since 1970."""
    dice = random.Random(day * 1_000_003 + number)
    (origin, origin_state), (dest, dest_state) = dice.sample(_AIRPORTS, 2)
    is_cancelled = dice.random() < 0.02
    delay = int(dice.gauss(8, 25))
    return {
        "FlightNum": dice.randrange(1, 7_000),
        "Carrier": dice.choice(_CARRIERS),
        "Origin": origin,
        "OriginState": origin_state,
        "Dest": dest,
        "DestState": dest_state,
        "Distance": dice.randrange(200, 2_700),
        "DepDelay": None if is_cancelled else delay,
        "ArrDelay": None if is_cancelled else delay + int(dice.gauss(-2, 9)),
        "Cancelled": int(is_cancelled),
        TIME_COLUMN: day,
    }


def schema() -> dict[str, Any]:
    """Of both tables."""
    return {
        "schemaName": TABLE,
        "dimensionFieldSpecs": [
            {"name": "FlightNum", "dataType": "INT"},
            *(
                {"name": name, "dataType": "STRING"}
                for name in ("Carrier", "Origin", "OriginState", "Dest", "DestState")
            ),
        ],
        "metricFieldSpecs": [
            {"name": name, "dataType": "INT"} for name in ("Distance", "DepDelay", "ArrDelay", "Cancelled")
        ],
        "dateTimeFieldSpecs": [
            {"name": TIME_COLUMN, "dataType": "INT", "format": "1:DAYS:EPOCH", "granularity": "1:DAYS"}
        ],
    }


def table_config(table_type: str, stream_configs: dict[str, str] | None = None) -> dict[str, Any]:
    """Of one half: OFFLINE, or REALTIME with its stream; two replicas, nulls are kept."""
    indexing: dict[str, Any] = {"invertedIndexColumns": ["Carrier", "Origin"], "nullHandlingEnabled": True}
    return {
        "tableName": TABLE,
        "tableType": table_type,
        "segmentsConfig": {
            "timeColumnName": TIME_COLUMN,
            "replication": "2",
            "schemaName": TABLE,
            "segmentPushType": "APPEND",
            "segmentPushFrequency": "DAILY",
        },
        "tenants": {},
        "tableIndexConfig": indexing | ({"streamConfigs": stream_configs} if stream_configs else {}),
        "metadata": {},
    }
