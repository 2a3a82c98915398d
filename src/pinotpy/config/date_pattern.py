"""Patterns of dates as Joda and Java's SimpleDateFormat write them: compiled once to a reader and a writer.

Letters: y Y u year, M month (MMM, MMMM by name), d day, D day of year, E weekday (read and ignored), H k h K hour, a
half of the day, m minute, s second, S fraction, Z X z offset or zone, quotes around literals. No pattern = ISO 8601 of
any precision. Parts that a pattern lacks are 2000-01-01T00:00:00 (Joda's defaults).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final

from pinotpy.config.time_zone import time_zone

MONTHS: Final = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
PATTERN_CHARACTERS_MAX: Final = 200

_ISO = re.compile(
    r"(?P<y>\d{4})(?:-(?P<M>\d{1,2})(?:-(?P<d>\d{1,2})(?:[T "
    r"](?:(?P<H>\d{1,2})(?::(?P<m>\d{1,2})(?::(?P<s>\d{1,2})(?:[.,](?P<S>\d{1,9}))?)?)?)?"
    r"\s*(?P<zone>Z|UTC|GMT|[+-]\d{2}:?\d{2}|[+-]\d{2})?)?)?)?"
)
# letter → largest number of digits that its number can have; the letters of zones and names are not here
_NUMBER_DIGITS: Final = {"y": 9, "M": 2, "d": 2, "D": 3, "H": 2, "k": 2, "h": 2, "K": 2, "m": 2, "s": 2, "S": 9}
_SIGNIFICANCE: Final = {"y": 0, "M": 1, "D": 1, "d": 2, "H": 3, "m": 4, "s": 5, "S": 6}
_ALLOWED: Final = (
    "a date pattern of the letters y M d D E H k h K a m s S Z X z and quoted text, such as yyyy-MM-dd HH:mm:ss"
)
_ZONE_TEXT: Final = r"Z|[+-]\d{2}:?\d{2}|[+-]\d{2}|[A-Za-z]+(?:/[A-Za-z_+\-0-9]+)*"


@dataclass(frozen=True, slots=True)
class _Field:
    letter: str
    count: int

    @property
    def is_number(self) -> bool:
        return self.letter in _NUMBER_DIGITS and not (self.letter == "M" and self.count >= 3)


@dataclass(frozen=True)
class DatePattern:
    """A compiled pattern. `parts` are fields and literal texts in order; empty = ISO 8601."""

    text: str | None
    parts: tuple[_Field | str, ...]
    reader: re.Pattern[str]

    @staticmethod
    @lru_cache(maxsize=512)
    def compile(text: str | None) -> DatePattern:
        """Compile a pattern; raises ValueError whose text is what is allowed."""
        if text is None:
            return DatePattern(None, (), _ISO)
        if not text or len(text) > PATTERN_CHARACTERS_MAX:
            raise ValueError(_ALLOWED)
        parts = tuple(_parts(text))
        fields = [part for part in parts if isinstance(part, _Field)]
        letters = [field.letter for field in fields]
        if not fields or len(set(letters)) != len(letters):
            raise ValueError(_ALLOWED + ", each letter once")
        return DatePattern(
            text, parts, re.compile("".join(_reader_part(parts, i) for i in range(len(parts))), re.IGNORECASE)
        )

    @property
    def is_lexicographic(self) -> bool:
        """Whether texts of this pattern order as their times: fields from year down, fixed width, no names and no
        zones.
        """
        fields = [part for part in self.parts if isinstance(part, _Field)]
        if any(
            not f.is_number or f.letter not in _SIGNIFICANCE or (f.count == 1 and f.letter not in "yS") for f in fields
        ):
            return False
        ranks = [_SIGNIFICANCE[f.letter] for f in fields]
        return ranks == sorted(ranks)

    @property
    def full_width(self) -> str | None:
        """A regular expression of the texts that order as their times, of a lexicographic pattern: every number with
        all its digits.

        None: ISO 8601, whose texts may have any precision and a zone.
        """
        if not self.parts:
            return None
        return "".join(
            re.escape(part)
            if isinstance(part, str)
            else rf"\d{{{4 if part.letter == 'y' and part.count != 2 else part.count}}}"
            for part in self.parts
        )

    def parse(self, text: str, zone: tzinfo) -> datetime:
        """An aware datetime; `zone` holds where the text names none. Raises ValueError."""
        match = self.reader.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"'{text[:60]}' does not have the form {self.text or 'of an ISO 8601 date'}")
        fields = {key: value for key, value in match.groupdict().items() if value is not None}
        zone = _zone_from_text(fields["zone"]) if "zone" in fields else zone
        fraction = (fields.get("S", "") + "000000")[:6]
        hour, month = _hour(fields), _month(fields)
        moment = datetime(
            _year(fields),
            month,
            int(fields.get("d", 1)),
            0,
            int(fields.get("m", 0)),
            int(fields.get("s", 0)),
            int(fraction),
            tzinfo=zone,
        )
        if "D" in fields:
            moment += timedelta(days=int(fields["D"]) - 1)
        # 24:00 is the next day's midnight; hours beyond are refused by the reader below.
        if not 0 <= hour <= 24:
            raise ValueError(f"'{text[:60]}' has hour {hour}, expected 0 to 24")
        return moment + timedelta(days=1) if hour == 24 else moment.replace(hour=hour)

    def format(self, moment: datetime) -> str:
        """The text of an aware datetime in its own zone."""
        if not self.parts:
            return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return "".join(part if isinstance(part, str) else _written(part, moment) for part in self.parts)


def _parts(text: str) -> Iterator[_Field | str]:
    position = 0
    while position < len(text):
        char = text[position]
        if char == "'":
            end = text.find("'", position + 1)
            if end < 0:
                raise ValueError(_ALLOWED + ": a quote is not closed")
            yield text[position + 1 : end] or "'"
            position = end + 1
        elif char.isalpha() and char.isascii():
            count = len(text[position:]) - len(text[position:].lstrip(char))
            letter = {"Y": "y", "u": "y", "X": "Z", "z": "Z"}.get(char, char)
            if letter not in _NUMBER_DIGITS and letter not in "EaZ":
                raise ValueError(_ALLOWED)
            yield _Field(letter, count)
            position += count
        else:
            yield char
            position += 1


def _reader_part(parts: tuple[_Field | str, ...], index: int) -> str:
    part = parts[index]
    if isinstance(part, str):
        return re.escape(part)
    following = parts[index + 1] if index + 1 < len(parts) else None
    if part.letter == "Z":
        return f"(?P<zone>{_ZONE_TEXT})"
    if part.letter == "E":
        return r"[A-Za-z]{2,9}"
    if part.letter == "a":
        return r"(?P<a>AM|PM)"
    if not part.is_number:
        return r"(?P<M>[A-Za-z]{3,9})"
    # yyyyMMdd: a number that touches the next number has exactly its width.
    exact = isinstance(following, _Field) and following.is_number
    return (
        rf"(?P<{part.letter}>\d{{{part.count}}})"
        if exact
        else rf"(?P<{part.letter}>\d{{1,{max(part.count, _NUMBER_DIGITS[part.letter])}}})"
    )


def _year(fields: dict[str, str]) -> int:
    year = int(fields.get("y", 2000))
    # Two digits mean the century around 2000, as in Joda with its pivot year.
    return year + (2000 if year < 70 else 1900) if len(fields.get("y", "2000")) == 2 else year


def _month(fields: dict[str, str]) -> int:
    text = fields.get("M", "1")
    if text.isdigit():
        return int(text)
    for number, name in enumerate(MONTHS, 1):
        if text.lower() in (name.lower(), name[:3].lower()):
            return number
    raise ValueError(f"'{text}' is no English name of a month")


def _hour(fields: dict[str, str]) -> int:
    if "H" in fields:
        return int(fields["H"])
    if "k" in fields:
        return int(fields["k"]) % 24
    if "h" in fields or "K" in fields:
        hour = int(fields.get("h", fields.get("K", "0"))) % 12
        return hour + 12 if fields.get("a", "AM").upper() == "PM" else hour
    return 0


def _zone_from_text(text: str) -> tzinfo:
    if text.upper() == "Z":
        return UTC
    return time_zone(text)


def _written(field: _Field, moment: datetime) -> str:
    match field.letter:
        case "y":
            return f"{moment.year % 100:02d}" if field.count == 2 else f"{moment.year:0{max(field.count, 4)}d}"
        case "M" if field.count >= 3:
            return MONTHS[moment.month - 1][: 3 if field.count == 3 else None]
        case "E":
            return WEEKDAYS[moment.weekday()][: 3 if field.count <= 3 else None]
        case "a":
            return "AM" if moment.hour < 12 else "PM"
        case "S":
            return f"{moment.microsecond:06d}".ljust(field.count, "0")[: field.count]
        case "Z":
            text = (moment.strftime("%z") or "+0000")[:5]  # seconds of local mean time are left out
            return text if field.count == 1 else f"{text[:3]}:{text[3:5]}" if field.count == 2 else str(moment.tzinfo)
    number = {
        "M": moment.month,
        "d": moment.day,
        "D": moment.timetuple().tm_yday,
        "H": moment.hour,
        "k": moment.hour or 24,
        "h": moment.hour % 12 or 12,
        "K": moment.hour % 12,
        "m": moment.minute,
        "s": moment.second,
    }[field.letter]
    return f"{number:0{field.count}d}"
