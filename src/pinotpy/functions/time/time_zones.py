"""Time zones of queries and schemas: offsets of whole arrays of instants, and instants of wall clocks.

Ids are those of the tz database, Java's three-letter ones (PST), and offsets: +05:30, -08, GMT+3, UTC-0330.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.errors import InvalidQueryError
from pinotpy.functions.time.civil_time import CLOCK_UNITS, floor_millis, within_calendar
from pinotpy.functions.time.zone_files import CYCLE_MS, Transitions, parse_zone_file, read_zone_file

# java.time.ZoneId.SHORT_IDS
_SHORT_IDS: Final = {
    "ACT": "Australia/Darwin", "AET": "Australia/Sydney", "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage", "BET": "America/Sao_Paulo", "BST": "Asia/Dhaka", "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago", "CTT": "Asia/Shanghai", "EAT": "Africa/Addis_Ababa", "ECT": "Europe/Paris",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata", "JST": "Asia/Tokyo", "MIT": "Pacific/Apia", "NET": "Asia/Yerevan", "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi", "PNT": "America/Phoenix", "PRT": "America/Puerto_Rico", "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
}  # fmt: skip
_FIXED_IDS: Final = {"EST": -5, "MST": -7, "HST": -10}  # hours; Java gives them no history
_UTC_IDS: Final = ("UTC", "GMT", "UT", "Z", "Zulu", "Etc/UTC", "Etc/GMT", "Universal", "Greenwich")
_OFFSET = re.compile(r"(?:GMT|UTC|UT)?([+-])(\d{1,2})(?::?(\d{2}))?")


_BUCKET_BITS: Final = 30  # 12.4 days of milliseconds


class _Changes:
    """Which of the periods between sorted times each value lies in. A table of equal buckets leads to the period in
    which its bucket begins; the few changes within a bucket are stepped over. Five times as fast as a binary search.
    """

    def __init__(self, starts: Int64Array) -> None:
        self.starts = starts
        self._next = np.append(starts[1:], 2**63 - 1)
        first, last = (int(starts[1]) >> _BUCKET_BITS, int(starts[-1]) >> _BUCKET_BITS) if len(starts) > 1 else (0, 0)
        self._first, self._last = first - 1, last + 1  # a bucket without changes on both sides, for all values beyond
        begins = np.arange(self._first, self._last + 1, dtype=np.int64) << _BUCKET_BITS
        self._table = np.searchsorted(starts, begins, "right") - 1
        self._steps = int(np.diff(self._table).max())

    def periods(self, values: Int64Array) -> Int64Array:
        """Index of the last start that is not later than each value."""
        low, high = np.searchsorted(self.starts, np.array([values.min(), values.max()]), "right") - 1
        if low == high:  # times of one segment lie close together
            return np.broadcast_to(low, values.shape)
        periods: Int64Array = self._table.take(np.clip(values >> _BUCKET_BITS, self._first, self._last) - self._first)
        for _ in range(self._steps):
            periods = periods + (values >= self._next.take(periods))
        return periods


class TimeZone:
    """Offsets of a zone over time. Immutable, so threads share it.

    id: as the query wrote it. fixed_offset_ms: the one offset of a zone that has no other, else None.
    """

    def __init__(self, zone_id: str, transitions: Transitions) -> None:
        self.id = zone_id
        instants = np.array(transitions.instants_s, np.int64)
        instants[1:] *= 1_000
        instants[0] = -(2**63)
        self._offsets = np.array(transitions.offsets_s, np.int64) * 1_000
        self._names = transitions.names
        self._cycle_start = None if transitions.cycle_start_s is None else transitions.cycle_start_s * 1_000
        before, after = self._offsets[:-1], self._offsets[1:]
        # A wall clock reads the offset before a change up to here: in a gap the clock goes on, in an overlap the first
        # pass counts.
        self._walls = _Changes(np.concatenate([instants[:1], instants[1:] + np.maximum(before, after)]))
        self._instants = _Changes(instants)
        self.fixed_offset_ms = int(self._offsets[0]) if len(set(self._offsets.tolist())) == 1 else None

    def __repr__(self) -> str:
        return f"TimeZone('{self.id}')"

    def offsets_at(self, instants: Int64Array) -> Int64Array:
        """Milliseconds to add to instants to get the wall clock."""
        if self.fixed_offset_ms is not None:
            return np.broadcast_to(np.int64(self.fixed_offset_ms), instants.shape)
        return self._look_up(self._instants, instants)

    def names_at(self, instants: Int64Array) -> tuple[NDArray[Any], tuple[str, ...]]:
        """(index of the abbreviation of each instant, abbreviations): PST or PDT."""
        return self._instants.periods(self._folded(instants)), self._names

    def to_local(self, instants: Int64Array) -> Int64Array:
        """Wall clocks of instants; those at the ends of 64 bits are moved inward first."""
        instants = within_calendar(instants)
        return instants if self.fixed_offset_ms == 0 else instants + self.offsets_at(instants)

    def to_instants(self, local: Int64Array) -> Int64Array:
        """Instants of wall clocks. One that a change skips is as much later; of one that comes twice the first is
        meant.
        """
        local = within_calendar(local)
        if self.fixed_offset_ms is not None:
            return local if self.fixed_offset_ms == 0 else local - self.fixed_offset_ms
        return local - self._look_up(self._walls, local)

    def floor(self, unit: str, instants: Int64Array) -> Int64Array:
        """Starts of units (civil_time.UNITS) on the wall clock of this zone.

        Times at the ends of 64 bits are moved inward first. Where the clock reads the start of a day twice, the one
        with the instant's own offset is meant, as in Joda.
        """
        instants = within_calendar(instants)
        if self.fixed_offset_ms == 0:
            return floor_millis(unit, instants)
        offsets = self.offsets_at(instants)
        local = floor_millis(unit, instants + offsets)
        starts = local - offsets
        if unit in CLOCK_UNITS or self.fixed_offset_ms is not None:
            return starts
        moved = self.offsets_at(starts) != offsets
        if moved.any():
            starts[moved] = self.to_instants(local[moved])
        return starts

    def _look_up(self, changes: _Changes, values: Int64Array) -> Int64Array:
        if not values.size:
            return np.zeros(0, np.int64)
        offsets: Int64Array = self._offsets.take(changes.periods(self._folded(values)))
        return offsets

    def _folded(self, values: Int64Array) -> Int64Array:
        """Times far in the future as the same times of the last 400 years that are written down."""
        values = within_calendar(values)  # no period begins where 64 bits end, as the table of changes supposes
        start = self._cycle_start
        if start is None or not values.size or values.max() < start:
            return values
        return np.where(values < start, values, start - CYCLE_MS + (values - start) % CYCLE_MS)


def _fixed(zone_id: str, offset_s: int, name: str) -> TimeZone:
    return TimeZone(zone_id, Transitions((0,), (offset_s,), (name,), None))


UTC: Final = _fixed("UTC", 0, "UTC")


@lru_cache(maxsize=1024)
def find_time_zone(zone_id: str) -> TimeZone | None:
    """The zone of this id, or None if there is none."""
    zone_id = zone_id.strip()
    if zone_id in _UTC_IDS:
        return UTC
    offset = _OFFSET.fullmatch(zone_id)
    if offset is not None:
        minutes = int(offset[2]) * 60 + int(offset[3] or 0)
        if int(offset[2]) > 23 or int(offset[3] or 0) > 59:
            return None
        signed = minutes if offset[1] == "+" else -minutes
        name = f"{offset[1]}{minutes // 60:02}:{minutes % 60:02}"
        return _fixed(name, signed * 60, name) if minutes else UTC
    if zone_id in _FIXED_IDS:
        return _fixed(zone_id, _FIXED_IDS[zone_id] * 3600, zone_id)
    canonical = _SHORT_IDS.get(zone_id, zone_id)
    data = read_zone_file(canonical)
    return None if data is None else TimeZone(canonical, parse_zone_file(data))


def time_zone(zone_id: str) -> TimeZone:
    """The zone of this id; raises InvalidQueryError."""
    zone = find_time_zone(zone_id)
    if zone is None:
        raise InvalidQueryError(
            f"expected a time zone such as UTC, America/Los_Angeles, PST or +05:30, found '{zone_id[:60]}'"
        )
    return zone
