"""In which order do the texts of a column write a date? Decided over all of them, whole arrays at a time.

Read are year, month and day as digits in any of the orders y-m-d, d-m-y and m-d-y with -, / or . between them, with or
without a time of day, and the usual forms with the month's name. Source of the patterns: `functions/time`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pinotpy.errors import PinotError
from pinotpy.functions.time.date_parsing import parse_instants
from pinotpy.ingest.sniffing.matching import every

ORDERS: Final = ("ymd", "dmy", "mdy")
# Of a date by digits, and a time of day.
SHAPE: Final = (
    r"^(?P<a>\d{1,4})(?P<s>[-/.])(?P<b>\d{1,2})(?P<u>[-/.])(?P<c>\d{1,4})"
    r"(?:(?P<j>[T ]|, )(?P<h>\d{1,2})(?P<m>:\d{2})(?P<x>:\d{2})?(?P<f>[.,]\d{1,9})?(?P<p> ?[AaPp][Mm])?"
    r"(?P<z> ?(?:Z|[+-]\d{2}:?\d{2}))?)?$"
)
_MONTH_NAME: Final = r"(?i)(^|[^a-z])(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*([^a-z]|$)"
_NAMED: Final = tuple(
    date + time
    for date in (
        "d MMM yyyy", "d-MMM-yyyy", "d/MMM/yyyy", "MMM d, yyyy", "MMMM d, yyyy", "d MMMM yyyy",
        "d. MMMM yyyy", "yyyy-MMM-d", "EEE, d MMM yyyy", "EEE MMM d HH:mm:ss yyyy",
        "d MMM yy", "d-MMM-yy", "d/MMM/yy", "MMM d, yy", "MMMM d, yy", "d MMMM yy", "d. MMMM yy", "EEE, d MMM yy",
    )
    for time in ("", " HH:mm", " HH:mm:ss", " HH:mm:ss Z", ":HH:mm:ss Z", " h:mm a", " h:mm:ss a")
)  # fmt: skip
# Of the year 100, in milliseconds since 1970: yyyy takes two digits, too, for years before.
_YEAR_100_MS: Final = -59_011_459_200_000


@dataclass(frozen=True, slots=True)
class DateGuess:
    """Attributes:
    pattern: of fromDateTime; None: ISO 8601, which TIMESTAMP reads.
    orders: those that fit all texts, the chosen one first. padding: what dates without a time of day get.
    """

    pattern: str | None
    orders: tuple[str, ...]
    padded_from: int | None = None
    padding: str = ""
    range_ms: tuple[int, int] | None = None


def date_guess(values: pa.Array, prefers: Iterable[str]) -> DateGuess | None:
    """How distinct texts (no nulls) write dates; None: they are not all dates.

    Args:
        prefers: orders, first the one that is to be taken where several fit.
    """
    first = values[0].as_py() if len(values) else ""
    if not any(letter.isdigit() for letter in first) or len(first) > 40:
        return None
    if every(values, SHAPE):
        return _by_digits(values, tuple(prefers))
    if every(values, _MONTH_NAME):
        for pattern in _NAMED:
            instants = _instants(pattern, values)
            if instants is not None and instants[0] >= _YEAR_100_MS:
                return DateGuess(pattern, ("named",), range_ms=instants)
    return None


def _by_digits(values: pa.Array, prefers: tuple[str, ...]) -> DateGuess | None:
    parts = pc.extract_regex(values, SHAPE)
    texts = {name: pc.struct_field(parts, name) for name in "asbucjhmxfpz"}
    separators = set(texts["s"].unique().to_pylist()) | set(texts["u"].unique().to_pylist())
    if len(separators) != 1:
        return None
    separator = separators.pop()
    numbers = {name: np.asarray(texts[name].cast(pa.int32())) for name in "abc"}
    widths = {name: np.asarray(pc.utf8_length(texts[name])) for name in "abc"}
    fitting = [order for order in ORDERS if _fits(order, numbers, widths)]
    ranked = [order for order in prefers if order in fitting]
    for order in ranked:
        guess = _with_times(values, texts, separator, order, widths)
        if guess is not None:
            others = tuple(other for other in ranked if other != order)
            return DateGuess(guess.pattern, (order, *others), guess.padded_from, guess.padding, guess.range_ms)
    return None


def _fits(order: str, numbers: dict[str, np.ndarray], widths: dict[str, np.ndarray]) -> bool:
    place = dict(zip(order, "abc", strict=True))
    year, month, day = (place[letter] for letter in "ymd")
    # Years of two digits stand last, or every number has two.
    if set(np.unique(widths[year]).tolist()) not in ({4}, {2}) or (order == "ymd" and widths[year][0] == 2):
        return False
    if widths[month].max() > 2 or widths[day].max() > 2:
        return False
    return bool(
        numbers[month].min() >= 1
        and numbers[month].max() <= 12
        and numbers[day].min() >= 1
        and numbers[day].max() <= 31
        and (widths[year][0] == 2 or numbers[year].min() >= 1)
    )


def _with_times(
    values: pa.Array, texts: dict[str, pa.Array], separator: str, order: str, widths: dict[str, np.ndarray]
) -> DateGuess | None:
    place = dict(zip(order, "abc", strict=True))

    def letters(letter: str, width: int) -> str:
        return letter * width if set(np.unique(widths[place[letter.lower()]]).tolist()) == {width} else letter

    year = "yyyy" if widths[place["y"]][0] == 4 else "yy"
    fields = {"y": year, "m": letters("M", 2), "d": letters("d", 2)}
    date = separator.join(fields[letter] for letter in order)
    has_time = np.asarray(pc.not_equal(texts["h"], ""))
    if not has_time.any():
        range_ms = _instants(date, values)
        is_iso = date == "yyyy-MM-dd"
        return DateGuess(None if is_iso else date, (order,), range_ms=range_ms) if range_ms is not None else None
    shown = pa.array(has_time)
    kinds = {name: set(texts[name].filter(shown).unique().to_pylist()) for name in "jxfpz"}
    has = {name: Counter(bool(text) for text in found) for name, found in kinds.items()}
    is_half = bool(kinds["p"] - {""})
    iso_joint = kinds["j"] <= {"T", " "}
    seconds = kinds["x"] != {""}
    if date == "yyyy-MM-dd" and iso_joint and not is_half:
        range_ms = _iso_range(values)
        if range_ms is not None:
            return DateGuess(None, (order,), range_ms=range_ms)
    if len(kinds["j"]) > 1 or any(len(has[name]) > 1 for name in "xpz"):
        return None  # no single pattern: the column stays text
    hour = "h" if is_half else "HH" if _all_two_digits(texts["h"].filter(shown)) else "H"
    clock = f"{hour}:mm{':ss' if seconds else ''}"
    fraction = kinds["f"] - {""}
    if fraction:
        clock += next(iter(fraction))[0] + "SSS"
    if is_half:
        clock += " a" if any(text.startswith(" ") for text in kinds["p"]) else "a"
    joint = next(iter(kinds["j"]))
    joint = f"'{joint}'" if joint == "T" else joint
    blank = " " if any(text.startswith(" ") for text in kinds["z"]) else ""
    for zone in ("",) if kinds["z"] == {""} else (f"{blank}ZZ", f"{blank}Z"):
        pattern = f"{date}{joint}{clock}{zone}"
        lengths = pc.utf8_length(values)
        if has_time.all():
            padded_from, padding, whole = None, "", values
        else:
            padded_from = 10
            zero = "12:00" if is_half else "00:00"
            padding = f"{joint.strip(chr(39)) or ' '}{zero}{':00' if seconds else ''}{'.000' if fraction else ''}"
            padding += " AM" if is_half else ""
            padding += "Z" if zone else ""
            whole = pc.if_else(
                pc.less_equal(lengths, padded_from), pc.binary_join_element_wise(values, padding, ""), values
            )
        range_ms = _instants(pattern, whole)
        if range_ms is not None:
            return DateGuess(pattern, (order,), padded_from, padding, range_ms)
    return None


def _all_two_digits(texts: pa.Array) -> bool:
    return bool(pc.all(pc.equal(pc.utf8_length(texts), 2)).as_py())


def _instants(pattern: str, values: pa.Array) -> tuple[int, int] | None:
    """(first, last) in milliseconds where all texts are of the pattern."""
    try:
        instants = parse_instants(pattern, values)
    except PinotError:
        return None
    return int(instants.min()), int(instants.max())


def _iso_range(values: pa.Array) -> tuple[int, int] | None:
    from pinotpy.ingest.time_values import timestamps_from_text

    converted = timestamps_from_text(values, None)
    if converted.bad:
        return None
    extremes = pc.min_max(converted.array).as_py()
    return extremes["min"], extremes["max"]
