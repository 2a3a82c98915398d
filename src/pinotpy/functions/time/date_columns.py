"""Whole arrays of texts to wall clocks, for the patterns that most columns have: numbers, literals and English names.

Digits at fixed places are read by arithmetic on bytes, numbers of changing width and names by a regular expression
(RE2, within Arrow). Either tells which texts it has understood; the others are for the reader of single texts, whose
rules these are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.functions.time.civil_time import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, day_of_week, days_of_months
from pinotpy.functions.time.date_patterns import DAYS, HALVES, MONTHS, Piece, pattern_pieces

_FIXED: Final = {"y": 4, "M": 2, "d": 2, "H": 2, "m": 2, "s": 2}  # digits at fixed places; S as many as there are
_NAMES: Final = {"M": (MONTHS, 1), "E": (DAYS, 1), "a": (HALVES, 0)}  # distinct by their first three letters


class ColumnReader(Protocol):
    """A pattern compiled for whole arrays."""

    def read(self, texts: pa.Array) -> tuple[Int64Array, NDArray[np.bool_]] | None:
        """Wall clocks in milliseconds, and which of them are good; None if this finds no good one."""
        ...


@lru_cache(maxsize=1024)
def column_reader(pattern: str) -> ColumnReader | None:
    """The reader for a pattern, None if it has letters that only the reader of single texts knows."""
    pieces = pattern_pieces(pattern)
    letters = [piece.letter for piece in pieces if piece.letter]
    if not letters or len(set(letters)) != len(letters):
        return None
    return _fixed_reader(pieces) or _matching_reader(pieces)


def _fixed_reader(pieces: tuple[Piece, ...]) -> ColumnReader | None:
    fields: list[tuple[str, int, int]] = []
    literals: list[tuple[int, int]] = []
    position = 0
    for piece in pieces:
        if piece.letter == "":
            encoded = piece.text.encode()
            literals += [(position + i, byte) for i, byte in enumerate(encoded)]
            position += len(encoded)
        elif (piece.letter == "S" and piece.length <= 9) or _FIXED.get(piece.letter) == piece.length:
            fields.append((piece.letter, position, piece.length))
            position += piece.length
        else:
            return None
    return _FixedReader(position, tuple(fields), tuple(literals))


def _matching_reader(pieces: tuple[Piece, ...]) -> ColumnReader | None:
    """Only where a number or name ends by itself, so that there is one way to read a text."""
    expression = []
    for piece, after in zip(pieces, [*pieces[1:], Piece("", 0)], strict=True):
        if piece.letter == "":
            expression.append(re.escape(piece.text))
        elif piece.is_number:
            if (
                piece.before_digits
                or piece.is_short_year
                or piece.letter not in "yMdHhmsS"
                or piece.length > 9
                or after.text[:1].isdigit()
            ):
                return None
            most = {"y": 8, "S": piece.length}.get(piece.letter, max(piece.length, 2))
            expression.append(f"(?P<{piece.letter}>[0-9]{{1,{most}}})")
        elif piece.letter in _NAMES and not after.text[:1].isalpha() and not after.letter:
            names = {form for name in _NAMES[piece.letter][0] for form in (name, name[:3])}
            expression.append(f"(?P<{piece.letter}>{'|'.join(sorted(names, key=len, reverse=True))})")
        else:
            return None
    letters = {piece.letter for piece in pieces}
    if (
        ("h" in letters) != ("a" in letters)
        or {"h", "H"} <= letters
        or ("E" in letters and not {"y", "M", "d"} <= letters)
    ):
        return None
    return _MatchingReader("^" + "".join(expression) + "$", tuple(piece for piece in pieces if piece.letter))


@dataclass(frozen=True, slots=True)
class _FixedReader:
    """A pattern that is digits and literals at fixed places. fields: (letter, first place, digits)."""

    width: int
    fields: tuple[tuple[str, int, int], ...]
    literals: tuple[tuple[int, int], ...]  # place, byte

    def read(self, texts: pa.Array) -> tuple[Int64Array, NDArray[np.bool_]] | None:
        """Wall clocks (milliseconds) and which of them are good; None if the texts are mostly of other widths."""
        count = len(texts)
        if not count:
            return np.zeros(0, np.int64), np.ones(0, np.bool_)
        _, offset_buffer, data_buffer = texts.buffers()
        offsets = np.frombuffer(offset_buffer, np.int32, count + 1, texts.offset * 4)
        lengths = np.diff(offsets)
        fits = lengths == self.width
        if data_buffer is None or not fits.any():
            return None
        data = np.frombuffer(data_buffer, np.uint8)
        if fits.all():
            block = data[offsets[0] : offsets[0] + count * self.width].reshape(count, self.width)
            local, good = self._decode(block)
            return local, good
        places = offsets[:-1][fits].astype(np.int64)
        decoded, part_good = self._decode(data[places[:, None] + np.arange(self.width)])
        local = np.zeros(count, np.int64)
        good = np.zeros(count, np.bool_)
        local[fits], good[fits] = decoded, part_good
        return local, good

    def _decode(self, block: NDArray[np.uint8]) -> tuple[Int64Array, NDArray[np.bool_]]:
        columns = np.ascontiguousarray(block.T)  # one row a place: all that follows runs along whole rows
        good = np.ones(len(block), np.bool_)
        for place, byte in self.literals:
            good &= columns[place] == byte
        values: dict[str, NDArray[Any]] = {}
        for letter, start, digits in self.fields:
            if letter == "S":
                digits_read, scale = min(digits, 3), 10 ** max(3 - digits, 0)
            else:
                digits_read, scale = digits, 1
            value = np.zeros(len(block), np.int32)
            for place in range(start, start + digits):
                digit = columns[place] - np.uint8(48)
                good &= digit <= 9
                if place < start + digits_read:
                    value = value * 10 + digit
            values[letter] = value * scale
        return _wall_clocks(values, good)


@dataclass(frozen=True, slots=True)
class _MatchingReader:
    """A pattern as a regular expression with a group for every letter."""

    expression: str
    pieces: tuple[Piece, ...]

    def read(self, texts: pa.Array) -> tuple[Int64Array, NDArray[np.bool_]] | None:
        """See ColumnReader."""
        fields = pc.extract_regex(texts, self.expression)
        good: NDArray[np.bool_] = fields.is_valid().to_numpy(zero_copy_only=False)
        if not good.any():
            return None
        matched = fields if good.all() else fields.filter(pa.array(good))
        groups = dict(zip((field.name for field in matched.type), matched.flatten(), strict=True))
        values = {piece.letter: self._values(piece, groups[piece.letter]) for piece in self.pieces}
        decoded, part_good = _wall_clocks(values, np.ones(len(matched), np.bool_))
        local = np.zeros(len(texts), np.int64)
        local[good], good[good] = decoded, part_good
        return local, good

    def _values(self, piece: Piece, group: pa.Array) -> NDArray[Any]:
        if piece.letter == "S":
            digits = pc.utf8_slice_codeunits(group, 0, 3)
            scale = 10 ** (3 - pc.utf8_length(digits).to_numpy())
            fraction: NDArray[Any] = digits.cast(pa.int32()).to_numpy() * scale
            return fraction
        if piece.is_number:
            number: NDArray[Any] = group.cast(pa.int32()).to_numpy()
            return number
        names, first = _NAMES[piece.letter]
        places: NDArray[Any] = pc.index_in(
            pc.utf8_slice_codeunits(group, 0, 3), pa.array([name[:3] for name in names])
        ).to_numpy()
        return places + first


def _wall_clocks(values: Mapping[str, NDArray[Any]], good: NDArray[np.bool_]) -> tuple[Int64Array, NDArray[np.bool_]]:
    """Milliseconds of the fields, and which are good: none out of its range, and the day of the week that of the
    date.
    """
    month, day = values.get("M"), values.get("d")
    for letter, least, most in (("H", 0, 23), ("h", 1, 12), ("m", 0, 59), ("s", 0, 59)):
        if letter in values:
            good &= (values[letter] >= least) & (values[letter] <= most)
    if month is not None:
        good &= (month >= 1) & (month <= 12)
    year = values.get("y")
    base = 1970 if month is None and day is None else 2000
    months = (0 if year is None else year - base) * 12 + (0 if month is None else month - 1) + (base - 1970) * 12
    months_array = np.broadcast_to(np.asarray(months, np.int32), (len(good),))
    days = _month_starts(months_array)
    if day is not None:
        good &= (day >= 1) & ((day <= 28) | (day <= _month_starts(months_array + 1) - days))
        days = days + (day - 1)
    if "E" in values:
        good &= day_of_week(days) == values["E"]
    local = days * DAY_MS
    if "h" in values:
        local = local + (values["h"] % 12 + 12 * values["a"]).astype(np.int64) * HOUR_MS
    for letter, size in (("H", HOUR_MS), ("m", MINUTE_MS), ("s", SECOND_MS), ("S", 1)):
        if letter in values:
            local = local + values[letter].astype(np.int64) * size
    return local, good


_TABLE_START: Final = (1 - 1970) * 12  # months since 1970 of the year 1
_STARTS: Final = days_of_months(np.arange(_TABLE_START, (2201 - 1970) * 12))


def _month_starts(months: NDArray[Any]) -> Int64Array:
    """days_of_months, from a table for the years 1 to 2200."""
    places = months - _TABLE_START
    if places.min() >= 0 and places.max() < len(_STARTS):
        return _STARTS.take(places)
    return days_of_months(months)
