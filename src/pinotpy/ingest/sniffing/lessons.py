"""What the rows behind the sample teach: values that did not fit are guessed with, texts of another encoding are read
so, fields that only later records have become columns.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pinotpy.ingest.sniffing.dialect import fits_without_blanks
from pinotpy.ingest.sniffing.guess import LateValue, Lessons
from pinotpy.ingest.sniffing.sniff import Sniffed

# Causes that the CSV reader names itself; the reader's settings allow the second one.
NOT_UTF8: Final = "not UTF-8"
HEADER_AGAIN: Final = "the header again"
_OTHER_WIDTH: Final = re.compile(r"\d+ fields, expected (\d+)")
_SHARES: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
_LATE_KEPT: Final = 200
# After so many times a column is no longer guessed.
_GUESSES_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class Rejected:
    """One rejected row as the reject file has it; `value` of the column, "" where it is not known."""

    file: str
    row: int
    column: str
    cause: str
    text: str
    value: str = ""


def read_rejects(folder: Path, sniffed: Sniffed) -> list[Rejected]:
    """All rows that the reject files below a folder, or one such file, hold (up to what a reject file takes)."""
    sources = {column.name: column.source for column in sniffed.columns}
    rejects = []
    for path in [folder] if folder.is_file() else sorted(folder.rglob("*.rejects.jsonl")):
        for line in path.read_text().splitlines():
            document = json.loads(line)
            if "cause" not in document:
                continue  # how many more there were
            column, text = document.get("column", ""), document.get("text", "")
            value = _value(text, sources.get(column, column)) if column else ""
            rejects.append(Rejected(document["file"], document["row"], column, document["cause"], text, value))
    return rejects


def learned(
    lessons: Lessons, rejects: Iterable[Rejected], sniffed: Sniffed, guessed_before: Mapping[str, int]
) -> Lessons:
    """The lessons with those of one reading of all rows; the same where it taught nothing.

    Args:
        guessed_before: how often each column was guessed again already.
    """
    wished = {column.name for column in sniffed.columns if column.is_wished}
    types = {column.name: column.type_text for column in sniffed.columns}
    late: dict[str, list[LateValue]] = {}
    as_text = dict(lessons.as_text)
    encoding, trims = lessons.encoding, lessons.trims
    for one in rejects:
        if one.cause == NOT_UTF8 and sniffed.reader_config.get("encoding") is None:
            encoding = "windows-1252"
        elif not trims and (found := _OTHER_WIDTH.fullmatch(one.cause)):
            config = sniffed.reader_config
            trims = fits_without_blanks(
                one.text, config.get("delimiter", ","), config.get("quoteCharacter", '"'), int(found[1])
            )
        elif one.column in types and one.column not in wished and types[one.column] != "STRING":
            is_hopeless = not one.value or types[one.column] == "JSON"
            if is_hopeless or guessed_before.get(one.column, 0) >= _GUESSES_MAX:
                as_text.setdefault(one.column, one.row)
            values = late.setdefault(one.column, [])
            if len(values) < _LATE_KEPT:
                values.append(LateValue(one.row, one.value))
    if encoding != lessons.encoding:
        return replace(lessons, encoding=encoding)  # everything else is read anew
    known = dict(lessons.late)
    for name, values in late.items():
        known[name] = (*known.get(name, ()), *values)
    return replace(lessons, late=known, as_text=as_text, trims=trims)


def _value(text: str, source: str) -> str:
    try:
        row: Any = json.loads(text)
    except ValueError:
        return ""
    value = row.get(source) if isinstance(row, dict) else None
    return "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def cause_lines(
    rejects: Sequence[Rejected], *, shown: int = 10, reject_share: float | None = None, is_new: bool = True
) -> list[str]:
    """A line for each cause, most frequent first: how often, where first, and which flag maps it.

    Args:
        reject_share: that would leave all of them out, None where they are left out.
        is_new: whether the table is made by this load, so that a column may still be of another type.
    """
    groups: dict[tuple[str, str], list[Rejected]] = {}
    for one in rejects:
        groups.setdefault((one.column, one.cause), []).append(one)
    ranked = sorted(groups.items(), key=lambda item: (-len(item[1]), item[1][0].row))
    lines = []
    for (column, cause), rows in ranked[:shown]:
        where = f"row {rows[0].row:,}" if len(rows) == 1 else f"{len(rows):,} rows, first row {rows[0].row:,}"
        what = f"column '{column}': {cause}" if column else cause
        lines.append(f"{where}: {what}; {_remedy(rows[0], reject_share, is_new=is_new)}".removesuffix("; "))
    if len(ranked) > shown:
        lines.append(f"… and {len(ranked) - shown:,} more causes")
    return lines


def _remedy(one: Rejected, reject_share: float | None, *, is_new: bool) -> str:
    if one.cause == HEADER_AGAIN:
        return "left out"
    if one.cause == NOT_UTF8:
        return "name the file's --encoding, such as windows-1252"
    remedies = []
    is_narrow = "whole number" in one.cause or "beyond the range" in one.cause
    wider = wider_type(one.value) if is_narrow else None
    if one.column and wider and is_new:
        remedies.append(f"--type {one.column}={wider} takes it")
    elif one.column:
        remedies += [f"--null-text {one.value!r} reads it as no value"] if one.value else []
        remedies.append(
            f"--type {one.column}=STRING takes it as text"
            if is_new
            else "the table's column keeps its type: --table NAME loads the file into a table of its own"
        )
    elif "fields, expected" in one.cause:
        remedies.append("check --delimiter and --quote, and --skip-rows N where lines stand before the header")
    if reject_share is not None:
        remedies.append(f"--reject-share {reject_share:g} leaves such rows out")
    return ", ".join(remedies)


def wider_type(value: str) -> str | None:
    """The type of numbers that takes a text; None: it is no number."""
    if re.fullmatch(r"[+-]?\d+", value):
        return "LONG" if -(1 << 63) <= int(value) < 1 << 63 else "BIG_DECIMAL"
    return "DOUBLE" if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", value) else None


def share_for(num_rejected: int, num_rows: int) -> float:
    """A round share of rows that is large enough for so many."""
    needed = num_rejected / num_rows if num_rows else 0.0
    return next((share for share in _SHARES if share >= needed), 1.0)
