"""A table whose segments change under queries, with every content that each of them had and when a query may have met
it: the oracle of answers while segments are refreshed, replaced and moved.

Each row names its part of the table (a segment, or the segments that are replaced together) and its edition. Between
the beginning of a change and the moment from which nobody serves the old edition any more either may be found, but
whole.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

# Days of the tests are counted from this one.
FIRST_DAY = 18_000
NUM_PARTITIONS = 4
SCHEMA: dict[str, Any] = {
    "schemaName": "proof",
    "dimensionFieldSpecs": [
        {"name": "part", "dataType": "STRING"},
        {"name": "edition", "dataType": "INT"},
        {"name": "member", "dataType": "LONG"},
        {"name": "item", "dataType": "STRING"},
    ],
    "metricFieldSpecs": [{"name": "amount", "dataType": "LONG"}],
    "dateTimeFieldSpecs": [{"name": "day", "dataType": "INT", "format": "1:DAYS:EPOCH", "granularity": "1:DAYS"}],
}
CONFIG: dict[str, Any] = {
    "tableName": "proof",
    "tableType": "OFFLINE",
    "segmentsConfig": {"replication": "2", "timeColumnName": "day"},
    "tenants": {},
    "tableIndexConfig": {
        "sortedColumn": ["item"],
        "segmentPartitionConfig": {
            "columnPartitionMap": {"member": {"functionName": "Modulo", "numPartitions": NUM_PARTITIONS}}
        },
    },
    "metadata": {},
}
Counted = tuple[int, int]  # COUNT(*) and SUM(amount)
Groups = dict[tuple[str, int], Counted]  # by part and edition


@dataclass(frozen=True)
class Row:
    day: int
    member: int
    amount: int

    @property
    def item(self) -> str:
        return f"i{self.day:03}"


def rows_of(edition: int, days: Iterable[int], partitions: Iterable[int]) -> list[Row]:
    """Sorted by item."""
    members = [NUM_PARTITIONS * place + partition for partition in partitions for place in range(3)]
    return [Row(day, member, 100 * edition + member) for day in sorted(days) for member in members]


def batches_of(part: str, edition: int, rows: list[Row]) -> list[pa.RecordBatch]:
    columns = {
        "part": pa.array([part] * len(rows)),
        "edition": pa.array([edition] * len(rows), pa.int32()),
        "member": pa.array([row.member for row in rows], pa.int64()),
        "item": pa.array([row.item for row in rows]),
        "amount": pa.array([row.amount for row in rows], pa.int64()),
        "day": pa.array([FIRST_DAY + row.day for row in rows], pa.int32()),
    }
    return [pa.RecordBatch.from_pydict(columns)]


@dataclass(frozen=True)
class Condition:
    """A filter, as text of either dialect and as what it means."""

    text: str
    passes: Callable[[Row], bool]


def condition(dice: random.Random) -> Condition:
    """On the time column, the partitioned one, the sorted one, or two of them."""
    day, member = dice.choice([*range(12), *range(50, 62), *range(100, 104)]), dice.randrange(12)
    last, other = day + dice.randrange(1, 8), dice.randrange(12)
    on_day = dice.choice(
        [
            Condition(f"day = {FIRST_DAY + day}", lambda row: row.day == day),
            Condition(f"day BETWEEN {FIRST_DAY + day} AND {FIRST_DAY + last}", lambda row: day <= row.day <= last),
            Condition(f"day > {FIRST_DAY + day}", lambda row: row.day > day),
            Condition(f"item = 'i{day:03}'", lambda row: row.day == day),
            Condition(f"item < 'i{day:03}'", lambda row: row.day < day),
        ]
    )
    on_member = dice.choice(
        [
            Condition(f"member = {member}", lambda row: row.member == member),
            Condition(f"member IN ({member}, {other})", lambda row: row.member in (member, other)),
            Condition(f"member <> {member}", lambda row: row.member != member),
        ]
    )
    both = Condition(f"{on_day.text} AND {on_member.text}", lambda row: on_day.passes(row) and on_member.passes(row))
    either = Condition(f"{on_day.text} OR {on_member.text}", lambda row: on_day.passes(row) or on_member.passes(row))
    return dice.choice([on_day, on_day, on_member, on_member, both, either])


@dataclass
class _Edition:
    number: int
    rows: list[Row]
    begun_s: float
    gone_s: float | None = None  # from when on nobody serves it; None: it may be served


@dataclass
class Truth:
    """What each part may consist of, at each time."""

    _parts: dict[str, list[_Edition]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, part: str, edition: int, rows: list[Row]) -> None:
        """To be told before the first step that makes an edition visible."""
        with self._lock:
            self._parts.setdefault(part, []).append(_Edition(edition, rows, time.monotonic()))

    def is_served(self, part: str, edition: int) -> None:
        """To be told when queries that begin from now on find this one and no other."""
        with self._lock:
            for other in self._parts[part]:
                if other.number != edition and other.gone_s is None:
                    other.gone_s = time.monotonic()

    def fault(self, found: Groups, passes: Callable[[Row], bool], begun_s: float, ended_s: float) -> str:
        """What is wrong with the answer of a query that ran between two times; "" if nothing is."""
        with self._lock:
            possible = {
                part: [
                    each
                    for each in editions
                    if each.begun_s <= ended_s and (each.gone_s is None or each.gone_s >= begun_s)
                ]
                for part, editions in self._parts.items()
            }
        if unknown := {part for part, _ in found} - possible.keys():
            return f"rows of {sorted(unknown)}, which nobody wrote"
        for part, editions in possible.items():
            groups = {edition: counted for (name, edition), counted in found.items() if name == part}
            wanted = [_groups(each, passes) for each in editions]
            if groups not in wanted:
                return f"{part}: found {groups}, expected one of {wanted}"
        return ""


def _groups(edition: _Edition, passes: Callable[[Row], bool]) -> dict[int, Counted]:
    amounts = [row.amount for row in edition.rows if passes(row)]
    return {edition.number: (len(amounts), sum(amounts))} if amounts else {}
