"""Text of dates to instants, by the patterns of functions/time/date_patterns.py.

Most patterns are read as whole arrays (functions/time/date_columns.py). What those do not understand goes one distinct
text at a time through the rules of Joda: a number takes as many digits as it finds (up to two for a month), names are
English, a field that is missing is its first value, the year 2000 if there is a month or day and 1970 if there is
neither.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC as PYTHON_UTC
from datetime import datetime
from typing import Final

import numpy as np
import pyarrow as pa

from pinotpy.arrays import Int64Array
from pinotpy.errors import QueryExecutionError
from pinotpy.functions.time.civil_time import MINUTE_MS
from pinotpy.functions.time.date_columns import column_reader
from pinotpy.functions.time.date_fields import local_millis
from pinotpy.functions.time.date_patterns import DAYS, ERAS, HALVES, MONTHS, Piece, pattern_pieces
from pinotpy.functions.time.time_zones import UTC, TimeZone, find_time_zone

_MAX_DIGITS: Final = {"D": 3, "e": 1}  # of the others: 2, years 9
_NAMED_ZONES: Final = {"UT": "UTC", "UTC": "UTC", "GMT": "UTC"} | {
    name: zone
    for names,
        zone in ((("EST", "EDT"), "America/New_York"), (("CST", "CDT"), "America/Chicago"),
        (("MST", "MDT"), "America/Denver"))
    for name in names
} | {"PST": "America/Los_Angeles", "PDT": "America/Los_Angeles"}  # fmt: skip


def parse_instants(pattern: str, texts: pa.Array, zone: TimeZone = UTC) -> Int64Array:
    """Milliseconds since the epoch of texts (a string array without nulls), read on the wall clock of a zone.

    Raises: QueryExecutionError for a text that is not of the pattern, or a time that the zone's clocks skip.
        InvalidQueryError for a bad pattern.
    """
    pieces = pattern_pieces(pattern)
    reader = column_reader(pattern)
    rows = None if reader is None or not len(texts) else reader.read(texts)
    if rows is None:
        return _read_each(pieces, texts, zone)
    local, good = rows
    if good.all():
        return _instants(local, zone, texts)
    instants = np.empty(len(texts), np.int64)
    read_at_once, rest = pa.array(good), pa.array(~good)
    instants[good] = _instants(local[good], zone, texts.filter(read_at_once))
    instants[~good] = _read_each(pieces, texts.filter(rest), zone)
    return instants


def _instants(local: Int64Array, zone: TimeZone, texts: pa.Array) -> Int64Array:
    instants = zone.to_instants(local)
    if zone.fixed_offset_ms is None:
        skipped = zone.to_local(instants) != local
        if skipped.any():
            text = texts[int(np.flatnonzero(skipped)[0])].as_py()
            raise QueryExecutionError(
                f'cannot parse "{text[:60]}": clocks skip this time in {zone.id}, where the offset changes'
            )
    return instants


# --- one text ---------------------------------------------------------------------------------------------------------


def _read_each(pieces: tuple[Piece, ...], texts: pa.Array, zone: TimeZone) -> Int64Array:
    """The distinct texts, one at a time."""
    encoded = texts.dictionary_encode()
    reader = _Reader(pieces)
    entries = [reader.read(text) for text in encoded.dictionary.to_pylist()]
    local = np.array([entry.local for entry in entries], np.int64)
    instants = local.copy()
    has_zone = np.array([entry.offset_ms is not None or entry.zone is not None for entry in entries], np.bool_)
    if not has_zone.all():
        instants[~has_zone] = _instants(local[~has_zone], zone, encoded.dictionary.filter(pa.array(~has_zone)))
    for row in np.flatnonzero(has_zone).tolist():
        offset_ms, named = entries[row].offset_ms, entries[row].zone
        if offset_ms is not None:
            instants[row] -= offset_ms
        elif named is not None:
            instants[row] = _instants(local[row : row + 1], named, encoded.dictionary.slice(row, 1))[0]
    spread: Int64Array = instants.take(encoded.indices.to_numpy())
    return spread


class _Mismatch(Exception):
    """The text is not of the pattern from this place on."""

    def __init__(self, place: int) -> None:
        self.place = place


@dataclass(slots=True)
class _Found:
    """What a text holds: values by letter, and an offset or zone if it names one."""

    values: dict[str, int]
    local: int = 0
    offset_ms: int | None = None
    zone: TimeZone | None = None


class _Reader:
    """A pattern applied to single texts."""

    def __init__(self, pieces: tuple[Piece, ...]) -> None:
        self.steps = [(piece, _step(piece)) for piece in pieces]
        # Joda: two digits mean the year within 50 years of the one 30 years ago.
        self.pivot = datetime.now(PYTHON_UTC).year - 30

    def read(self, text: str) -> _Found:
        """What a text says, its wall clock in milliseconds as `local`; raises QueryExecutionError."""
        fields = _Found({})
        position = 0
        try:
            for piece, step in self.steps:
                position = step(self, piece, text, position, fields)
            if position < len(text):
                raise _Mismatch(position)
        except _Mismatch as mismatch:
            raise QueryExecutionError(_mismatch_text(text, mismatch.place)) from None
        try:
            fields.local = local_millis(fields.values)
        except ValueError as error:
            raise QueryExecutionError(f'Cannot parse "{text[:60]}": {error}') from None
        return fields

    def literal(self, piece: Piece, text: str, position: int, fields: _Found) -> int:
        if text[position : position + len(piece.text)].lower() != piece.text.lower():
            raise _Mismatch(position)
        return position + len(piece.text)

    def number(self, piece: Piece, text: str, position: int, fields: _Found) -> int:
        if piece.letter in "yYx":
            limit = piece.length if piece.before_digits else max(9, piece.length)
        elif piece.letter == "C":
            limit = piece.length
        else:
            limit = max(_MAX_DIGITS.get(piece.letter, 2), piece.length)
        negative = False
        if (
            piece.letter in "yx"
            and text[position : position + 1] in ("-", "+")
            and text[position + 1 : position + 2].isdecimal()
        ):
            negative = text[position] == "-"
            position += 1
        end = _digits_end(text, position, limit)
        fields.values[piece.letter] = -int(text[position:end]) if negative else int(text[position:end])
        return end

    def short_year(self, piece: Piece, text: str, position: int, fields: _Found) -> int:
        """Two digits mean a year near today; if no number follows, any other count of digits is the year itself."""
        signed = not piece.before_digits and text[position : position + 1] in ("-", "+")
        start = position + signed
        end = _digits_end(text, start, 2 if piece.before_digits else 9)
        value = int(text[start:end])
        if end - start == 2 and not signed:
            low = self.pivot - 50
            value += low - low % 100 + (100 if value < low % 100 else 0)
        elif piece.before_digits:
            raise _Mismatch(position)
        fields.values[piece.letter] = -value if signed and text[position] == "-" else value
        return end

    def fraction(self, piece: Piece, text: str, position: int, fields: _Found) -> int:
        end = _digits_end(text, position, piece.length)
        fields.values["S"] = int(text[position:end][:3].ljust(3, "0"))
        return end

    def word(self, piece: Piece, text: str, position: int, fields: _Found) -> int:
        for size, words in _WORDS[piece.letter]:
            value = words.get(text[position : position + size])
            if value is not None:
                fields.values["e" if piece.letter == "E" else piece.letter] = value
                return position + size
        raise _Mismatch(position)

    def zone_name(self, piece: Piece, text: str, position: int, fields: _Found) -> int:
        for name in sorted(_NAMED_ZONES, key=len, reverse=True):
            if text.startswith(name, position):
                fields.zone = find_time_zone(_NAMED_ZONES[name])
                return position + len(name)
        raise _Mismatch(position)

    def zone_offset(self, piece: Piece, text: str, position: int, fields: _Found) -> int:
        if text[position : position + 1] == "Z" and piece.length < 3:
            fields.offset_ms = 0
            return position + 1
        if text[position : position + 1] not in ("+", "-"):
            if piece.length > 2:
                return self._zone_id(text, position, fields)
            raise _Mismatch(position)
        minutes, end = 0, position + 1
        for most, scale in ((23, 60), (59, 1)):
            digits = text[end : end + 2]
            if len(digits) < 2 or not digits.isdecimal() or int(digits) > most:
                raise _Mismatch(end)
            minutes += int(digits) * scale
            end += 2
            if scale == 60:
                end += text[end : end + 1] == ":"
                if end >= len(text) or not text[end].isdecimal():
                    break
        fields.offset_ms = minutes * MINUTE_MS * (1 if text[position] == "+" else -1)
        return end

    def _zone_id(self, text: str, position: int, fields: _Found) -> int:
        end = len(text)
        while end > position:
            zone = find_time_zone(text[position:end]) if not text[end - 1].isspace() else None
            if zone is not None:
                fields.zone = zone
                return end
            end -= 1
        raise _Mismatch(position)


_Step = Callable[[_Reader, Piece, str, int, _Found], int]


def _spellings(names: tuple[str, ...], first: int) -> list[tuple[int, dict[str, int]]]:
    """(length, value by word), the longest first: names in full and by three letters, as they are, in small and in
    capitals.
    """
    forms = {
        form: value
        for value, name in enumerate(names, first)
        for word in (name, name[:3])
        for form in (word, word.lower(), word.upper())
    }
    return [
        (size, {form: value for form, value in forms.items() if len(form) == size})
        for size in sorted({len(form) for form in forms}, reverse=True)
    ]


_WORDS: Final = {
    "M": _spellings(MONTHS, 1),
    "E": _spellings(DAYS, 1),
    "a": _spellings(HALVES, 0),
    "G": _spellings(ERAS, 0),
}


def _step(piece: Piece) -> _Step:
    if piece.letter == "":
        return _Reader.literal
    if piece.letter == "S":
        return _Reader.fraction
    if piece.is_short_year:
        return _Reader.short_year
    if piece.is_number:
        return _Reader.number
    if piece.letter in _WORDS:
        return _Reader.word
    return _Reader.zone_name if piece.letter == "z" else _Reader.zone_offset


def _digits_end(text: str, position: int, limit: int) -> int:
    end = position
    while end < len(text) and end - position < limit and "0" <= text[end] <= "9":
        end += 1
    if end == position:
        raise _Mismatch(position)
    return end


def _mismatch_text(text: str, place: int) -> str:
    """As Joda says it."""
    shown = text if len(text) <= place + 35 else text[: place + 32] + "..."
    if place <= 0:
        return f'Invalid format: "{shown}"'
    if place >= len(text):
        return f'Invalid format: "{shown}" is too short'
    return f'Invalid format: "{shown}" is malformed at "{shown[place:]}"'
