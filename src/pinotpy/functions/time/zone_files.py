"""Files of the tz database (TZif, RFC 8536) as transitions: when the offset of a zone changes and to what."""

from __future__ import annotations

import re
import struct
import zoneinfo
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Final

import numpy as np

from pinotpy.functions.time.civil_time import DAY_MS, day_of_week, days_of_months, year_month_day

_ID = re.compile(r"[A-Za-z][A-Za-z0-9_+\-]*(?:/[A-Za-z0-9_+\-]+)*")
_HEADER: Final = struct.Struct(">4sc15x6l")
_CYCLE_YEARS: Final = 400  # after which dates fall on the same days of the week, so that yearly rules repeat
CYCLE_MS: Final = 146_097 * DAY_MS


@dataclass(frozen=True, slots=True)
class Transitions:
    """instants_s[i]: seconds since the epoch from which offsets_s[i] and names[i] hold; the first entry holds before,
    too.

    cycle_start_s: instants from here on are those of 400 years earlier again; None where the last offset stays for
    ever.
    """

    instants_s: tuple[int, ...]
    offsets_s: tuple[int, ...]
    names: tuple[str, ...]
    cycle_start_s: int | None


def read_zone_file(zone_id: str) -> bytes | None:
    """The TZif file of a zone: of the tzdata package, which all hosts of a cluster share, or else of the system."""
    if not _ID.fullmatch(zone_id):
        return None
    *folders, name = zone_id.split("/")
    try:
        data = resources.files(".".join(["tzdata.zoneinfo", *folders])).joinpath(name).read_bytes()
    except (ImportError, OSError):
        for root in zoneinfo.TZPATH:
            try:
                data = Path(root, zone_id).read_bytes()
                break
            except OSError:
                continue
        else:
            return None
    return data if data[:4] == b"TZif" else None


def parse_zone_file(data: bytes) -> Transitions:
    """Transitions of a TZif file of version 2 or later, its rule of the future spelled out for 400 years."""
    _, _, utc_count, std_count, leap_count, time_count, type_count, char_count = _HEADER.unpack_from(data)
    second = (
        _HEADER.size + time_count * 5 + type_count * 6 + char_count + leap_count * 8 + std_count + utc_count
    )  # data of version 1
    _, _, utc_count, std_count, leap_count, time_count, type_count, char_count = _HEADER.unpack_from(data, second)
    offset = second + _HEADER.size
    times = struct.unpack_from(f">{time_count}q", data, offset)
    offset += time_count * 8
    kinds = data[offset : offset + time_count]
    offset += time_count
    types = [struct.unpack_from(">lbB", data, offset + 6 * i) for i in range(type_count)]
    offset += type_count * 6
    letters = data[offset : offset + char_count]
    offset += char_count + leap_count * 12 + std_count + utc_count
    rule = data[offset:].strip(b"\n").decode("ascii")

    def name(kind: int) -> str:
        start = types[kind][2]
        return letters[start : letters.index(b"\0", start)].decode("ascii")

    transitions = [(-(2**62), types[0][0], name(0))] + [
        (time, types[kind][0], name(kind)) for time, kind in zip(times, kinds, strict=True)
    ]
    last = transitions[-1][0] if time_count else 0
    cycle_start = None
    if rule:
        yearly = _Rule(rule)
        if yearly.changes:
            first_year = int(year_month_day(np.array([last // 86_400]))[0][0])
            future = [
                change
                for year in range(first_year, first_year + _CYCLE_YEARS + 2)
                for change in yearly.changes_of(year)
                if change[0] > last
            ]
            transitions += sorted(future)
            # One whole cycle lies before this, all of it made by the rule.
            cycle_start = int(days_of_months(np.array([(first_year + 1 + _CYCLE_YEARS - 1970) * 12]))[0]) * 86_400
        elif not time_count:
            transitions = [(transitions[0][0], yearly.standard_s, yearly.standard_name)]
    return Transitions(
        tuple(f[0] for f in transitions),
        tuple(f[1] for f in transitions),
        tuple(f[2] for f in transitions),
        cycle_start,
    )


_NAME: Final = r"(<[^>]+>|[A-Za-z]+)"
_OFFSET: Final = r"([+-]?\d+(?::\d+){0,2})"
_DATE: Final = r"(J?\d+|M\d+\.\d+\.\d+)(?:/([+-]?\d+(?::\d+){0,2}))?"
_RULE = re.compile(rf"{_NAME}{_OFFSET}(?:{_NAME}{_OFFSET}?,{_DATE},{_DATE})?")


def _seconds(text: str) -> int:
    """[-]hh[:mm[:ss]] in seconds."""
    parts = [int(field) for field in text.lstrip("+-").split(":")]
    size = sum(field * scale for field, scale in zip(parts, (3600, 60, 1), strict=False))
    return -size if text.startswith("-") else size


class _Rule:
    """The POSIX rule at the end of a TZif file: EST5EDT,M3.2.0,M11.1.0 (its offsets count westward)."""

    def __init__(self, text: str) -> None:
        match = _RULE.fullmatch(text)
        if match is None:
            raise ValueError(f"expected a POSIX rule of a time zone, found '{text[:60]}'")
        standard, offset, summer, summer_offset, start, start_time, end, end_time = match.groups()
        self.standard_name = standard.strip("<>")
        self.standard_s = -_seconds(offset)
        self.changes: tuple[
            tuple[str, int, int, int, str], ...
        ] = ()  # date, wall clock, offset before, offset after, name after
        if summer is not None:
            summer_s = -_seconds(summer_offset) if summer_offset else self.standard_s + 3600
            self.changes = (
                (start, _seconds(start_time or "2"), self.standard_s, summer_s, summer.strip("<>")),
                (end, _seconds(end_time or "2"), summer_s, self.standard_s, self.standard_name),
            )

    def changes_of(self, year: int) -> list[tuple[int, int, str]]:
        """(instant, offset, name) of the two changes of a year."""
        return [
            (_rule_day(date, year) * 86_400 + wall - before, after, name)
            for date, wall, before, after, name in self.changes
        ]


def _rule_day(date: str, year: int) -> int:
    """Days since the epoch of Mm.w.d (d = 0 is Sunday; w = 5 the last), Jn (n from 1 without leap days) or n (from
    0).
    """
    if not date.startswith("M"):
        day = int(date.lstrip("J")) - date.startswith("J")
        if date.startswith("J") and day >= 59:  # from March 1st on
            return _month_start(year, 3) + day - 59
        return _month_start(year, 1) + day
    month, week, weekday = (int(field) for field in date[1:].split("."))
    start = _month_start(year, month)
    first = start + (weekday - int(day_of_week(np.array([start]))[0])) % 7
    day_of_rule = first + 7 * (week - 1)
    return day_of_rule if day_of_rule < _month_start(year, month + 1) else day_of_rule - 7


def _month_start(year: int, month: int) -> int:
    return int(days_of_months(np.array([(year - 1970) * 12 + month - 1]))[0])
