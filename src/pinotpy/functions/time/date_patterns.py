"""Patterns of dates (Joda's DateTimeFormat, the part of SimpleDateFormat that queries use), compiled once: instants to
text.

Letters: G era, C century of era, Y year of era, y year, x week-based year, w week, e/E day of week, D day of year,
M month, d day, a AM/PM, K/h hour of the half day from 0/1, H/k hour from 0/1, m, s, S fraction, z zone name, Z offset
(ZZ with a colon, ZZZ the zone's id); text in quotes, '' is a quote. Text is English. Parsing is
functions/time/date_parsing.py.
"""

from __future__ import annotations

import string
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.errors import InvalidQueryError
from pinotpy.functions.time.civil_time import (
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    SECOND_MS,
    day_of_week,
    day_of_year,
    week_of_year,
    year_month_day,
)
from pinotpy.functions.time.time_zones import UTC, TimeZone

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
DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
ERAS: Final = ("BC", "AD")
HALVES: Final = ("AM", "PM")

_LETTERS: Final = frozenset("GCYxyweEDMdaKhHkmsSzZ")
_CHUNK: Final = 16_384  # instants at a time, so that what is computed of them stays in the processor's cache


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of one letter, or text to be copied (letter ''). before_digits: the next piece is a number that follows
    directly.
    """

    letter: str
    length: int
    text: str = ""
    before_digits: bool = False

    @property
    def is_number(self) -> bool:
        return self.letter in _NUMBERS or (self.letter == "M" and self.length < 3)

    @property
    def is_short_year(self) -> bool:
        return self.letter in "Yyx" and self.letter != "" and self.length == 2


@lru_cache(maxsize=1024)
def pattern_pieces(pattern: str) -> tuple[Piece, ...]:
    """Pieces of a pattern; raises InvalidQueryError."""
    pieces: list[Piece] = []
    begin = 0
    while begin < len(pattern):
        letter = pattern[begin]
        if letter in string.ascii_letters:
            if letter not in _LETTERS:
                raise InvalidQueryError(
                    f"expected a pattern of dates such as yyyy-MM-dd HH:mm, found the letter '{letter}' in "
                    f"'{pattern[:60]}': put text into quotes"
                )
            end = begin
            while end < len(pattern) and pattern[end] == letter:
                end += 1
            if end - begin > 64:
                raise InvalidQueryError(
                    f"expected at most 64 times the same letter in a pattern of dates, found {end - begin} times "
                    f"'{letter}'"
                )
            pieces.append(Piece(letter, end - begin))
            begin = end
        else:
            text, begin = _literal(pattern, begin)
            if text:
                pieces.append(Piece("", len(text), text))
    if not pieces:
        raise InvalidQueryError("expected a pattern of dates such as yyyy-MM-dd, found an empty text")
    following = [*pieces[1:], Piece("", 0)]
    return tuple(
        Piece(p.letter, p.length, p.text, p.is_number and after.is_number)
        for p, after in zip(pieces, following, strict=True)
    )


def _literal(pattern: str, begin: int) -> tuple[str, int]:
    """Text up to the next letter outside quotes, and where it ends."""
    text: list[str] = []
    quoted = False
    while begin < len(pattern):
        character = pattern[begin]
        if character == "'":
            if pattern[begin + 1 : begin + 2] == "'":
                text.append("'")
                begin += 2
                continue
            quoted = not quoted
        elif not quoted and character in string.ascii_letters:
            break
        else:
            text.append(character)
        begin += 1
    return "".join(text), begin


class _Clock:
    """The fields of a chunk of instants, each computed when first asked for."""

    def __init__(self, local: Int64Array, offsets: Int64Array, zone: TimeZone) -> None:
        self.local, self.offsets, self.zone = local, offsets, zone
        self.days: Int64Array = local // DAY_MS

    @cached_property
    def of_day(self) -> NDArray[Any]:
        """Milliseconds since midnight."""
        return (self.local - self.days * DAY_MS).astype(np.int32)

    @cached_property
    def date(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        return year_month_day(self.days)

    @cached_property
    def week(self) -> tuple[NDArray[Any], Int64Array]:
        return week_of_year(self.days)

    @cached_property
    def year_of_era(self) -> NDArray[Any]:
        year = self.date[0]
        return np.where(year > 0, year, 1 - year)

    @cached_property
    def hour(self) -> NDArray[Any]:
        return self.of_day // HOUR_MS

    @cached_property
    def minute(self) -> NDArray[Any]:
        """Minutes since midnight."""
        return self.of_day // MINUTE_MS

    @cached_property
    def second(self) -> NDArray[Any]:
        """Seconds since midnight."""
        return self.of_day // SECOND_MS

    def number(self, letter: str) -> NDArray[Any]:
        """Values of a letter that prints digits; S gives milliseconds."""
        return _NUMBER_OF[letter](self)

    def texts(self, piece: Piece) -> tuple[NDArray[Any], tuple[str, ...]]:
        """(index of each value's text, texts) of a letter that prints words."""
        match piece.letter:
            case "M":
                return self.date[1] - 1, MONTHS if piece.length > 3 else tuple(name[:3] for name in MONTHS)
            case "E":
                return day_of_week(self.days) - 1, DAYS if piece.length > 3 else tuple(name[:3] for name in DAYS)
            case "a":
                return self.of_day // (DAY_MS // 2), HALVES
            case "G":
                return (self.date[0] > 0).astype(np.int32), ERAS
            case "z":
                return self._zone_names(long=piece.length > 3)
            case _:
                if piece.length > 2:
                    return np.zeros(len(self.local), np.int32), (self.zone.id,)
                return self._offset_texts(":" if piece.length == 2 else "")

    def _offset_texts(self, separator: str) -> tuple[NDArray[Any], tuple[str, ...]]:
        distinct, indices = np.unique(self.offsets, return_inverse=True)
        return indices, tuple(offset_text(int(offset), separator) for offset in distinct)

    def _zone_names(self, *, long: bool) -> tuple[NDArray[Any], tuple[str, ...]]:
        entries, names = self.zone.names_at(self.local - self.offsets)
        distinct, indices = np.unique(entries, return_inverse=True)
        texts = []
        for entry in distinct:
            name = names[entry]
            if not name[:1].isalpha():  # zones without an abbreviation of their own are shown by their offset
                first = int(np.flatnonzero(entries == entry)[0])
                name = offset_text(int(self.offsets[first]), ":")
            texts.append(_LONG_NAMES.get(name, name) if long else name)
        return indices, tuple(texts)


_NUMBER_OF: Final[dict[str, Callable[[_Clock], NDArray[Any]]]] = {
    "y": lambda clock: clock.date[0],
    "Y": lambda clock: clock.year_of_era,
    "C": lambda clock: clock.year_of_era // 100,
    "x": lambda clock: clock.week[0],
    "w": lambda clock: clock.week[1],
    "e": lambda clock: day_of_week(clock.days),
    "D": lambda clock: day_of_year(clock.days),
    "M": lambda clock: clock.date[1],
    "d": lambda clock: clock.date[2],
    "H": lambda clock: clock.hour,
    "k": lambda clock: np.where(clock.hour == 0, 24, clock.hour),
    "K": lambda clock: clock.hour % 12,
    "h": lambda clock: (clock.hour + 11) % 12 + 1,
    "m": lambda clock: clock.minute - clock.hour * 60,
    "s": lambda clock: clock.second - clock.minute * 60,
    "S": lambda clock: clock.of_day - clock.second * SECOND_MS,
}
_NUMBERS: Final = frozenset(_NUMBER_OF) - {"M"}  # M and MM are numbers, too
_LONG_NAMES: Final = {
    "UTC": "Coordinated Universal Time", "GMT": "Greenwich Mean Time",
    "EST": "Eastern Standard Time", "EDT": "Eastern Daylight Time", "CST": "Central Standard Time",
    "CDT": "Central Daylight Time",
    "MST": "Mountain Standard Time", "MDT": "Mountain Daylight Time", "PST": "Pacific Standard Time",
    "PDT": "Pacific Daylight Time",
    "CET": "Central European Time", "CEST": "Central European Summer Time", "IST": "India Standard Time",
    "JST": "Japan Standard Time",
}  # fmt: skip


def offset_text(offset_ms: int, separator: str) -> str:
    """+0530 or +05:30; seconds are left out."""
    minutes = abs(offset_ms) // MINUTE_MS
    return f"{'-' if offset_ms < 0 else '+'}{minutes // 60:02}{separator}{minutes % 60:02}"


def format_instants(pattern: str, instants: Int64Array, zone: TimeZone = UTC) -> pa.Array:
    """Text of instants (milliseconds since the epoch) on the wall clock of a zone, as a string array."""
    return format_local(pattern, zone.to_local(instants), zone.offsets_at(instants), zone)


def format_local(pattern: str, local: Int64Array, offsets: Int64Array, zone: TimeZone = UTC) -> pa.Array:
    """Text of wall clocks (milliseconds), with the offset that each of them has."""
    pieces = pattern_pieces(pattern)
    if not len(local):
        return pa.array([], pa.string())
    ends = range(0, len(local), _CHUNK)
    return pa.concat_arrays(
        [
            _format_chunk(pieces, _Clock(local[start : start + _CHUNK], offsets[start : start + _CHUNK], zone))
            for start in ends
        ]
    )


def _format_chunk(pieces: tuple[Piece, ...], clock: _Clock) -> pa.Array:
    columns = [_column(piece, clock) for piece in pieces]
    widths = [column.width for column in columns]
    if None in widths:
        return pc.binary_join_element_wise(*(column.array() for column in columns), "")
    return _fixed_text(columns, sum(width for width in widths if width is not None), len(clock.local))


@dataclass(frozen=True, slots=True)
class _Column:
    """What a piece prints of each value: numbers padded with zeros to min_digits, or texts[values]. Literals are one
    text.
    """

    values: NDArray[Any] | None
    texts: tuple[str, ...] = ()
    min_digits: int = 0

    @property
    def width(self) -> int | None:
        """Bytes that every value takes, None if they differ."""
        if self.values is None or self.texts:
            lengths = {len(text.encode()) for text in self.texts}
            return lengths.pop() if len(lengths) == 1 else None
        low, high = int(self.values.min()), int(self.values.max())
        digits = max(len(str(high)), self.min_digits)
        return digits if low >= 0 and max(len(str(low)), self.min_digits) == digits and digits <= 9 else None

    def array(self) -> pa.Array | pa.Scalar:
        """As strings of any width."""
        if self.values is None:
            return pa.scalar(self.texts[0])
        if self.texts:
            return pa.array(self.texts).take(pa.array(self.values))
        distinct, indices = np.unique(self.values, return_inverse=True)
        texts = [f"{'-' if value < 0 else ''}{abs(value):0{self.min_digits}}" for value in distinct.tolist()]
        return pa.array(texts).take(pa.array(indices))


def _column(piece: Piece, clock: _Clock) -> _Column:
    if piece.letter == "":
        return _Column(None, (piece.text,))
    if not piece.is_number:
        return _Column(*clock.texts(piece))
    values = clock.number(piece.letter)
    if piece.letter == "S":
        return _fraction(values, piece.length)
    if piece.is_short_year:
        return _Column(np.abs(values) % 100, min_digits=2)
    return _Column(values, min_digits=piece.length)


def _fraction(millis: NDArray[Any], digits: int) -> _Column:
    if digits <= 3:
        return _Column(millis // 10 ** (3 - digits), min_digits=digits)
    distinct, indices = np.unique(millis, return_inverse=True)
    return _Column(indices, tuple(f"{value:03}".ljust(digits, "0") for value in distinct.tolist()))


def _fixed_text(columns: list[_Column], width: int, count: int) -> pa.Array:
    """Columns of fixed width as one block of bytes: digits by arithmetic, words by table."""
    block = np.empty((count, width), np.uint8)
    begin = 0
    for column in columns:
        size = column.width or 0
        if column.values is not None and not column.texts:
            _write_digits(block, begin, size, column.values)
        else:
            table = np.frombuffer("".join(column.texts).encode(), np.uint8).reshape(-1, size)
            block[:, begin : begin + size] = table[0] if column.values is None else table.take(column.values, axis=0)
        begin += size
    offsets = np.arange(0, (count + 1) * width, width, dtype=np.int32) if width else np.zeros(count + 1, np.int32)
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(block)])


def _write_digits(block: NDArray[np.uint8], begin: int, size: int, values: NDArray[Any]) -> None:
    rest: NDArray[Any] = values.astype(np.int32 if size > 4 else np.uint16)
    place = begin + size - 1
    while place > begin:
        if place == begin + 1:
            rest = rest.astype(np.uint8)
        more = rest // 10
        block[:, place] = (rest - more * 10).astype(np.uint8) + 48
        rest = more
        place -= 1
    block[:, begin] = rest.astype(np.uint8) + 48
