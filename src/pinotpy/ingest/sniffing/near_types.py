"""What a column of texts would be but for some of them: told with the flag that makes them no value."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from pinotpy.data_types import DataType
from pinotpy.ingest.sniffing.dates import SHAPE, date_guess
from pinotpy.ingest.sniffing.matching import some
from pinotpy.ingest.sniffing.texts import Marks, guess_text

_NUMERIC: Final = (DataType.INT, DataType.LONG, DataType.DOUBLE)
# More words than these are values, and so are some among few numbers.
_WORDS_MAX: Final = 3
_OTHERS_A_WORD: Final = 2
# Of dates that do not go together as many are looked at one by one.
_DATES_LOOKED_AT: Final = 200


def why_text(values: pa.Array, marks: Marks) -> str:
    """Why a column is text that looks like numbers or dates; "" for other texts.

    Args:
        values: distinct texts, as of `guess_text`, which found nothing in them.
    """
    if len(values) < 2 or not some(values, r"\d"):
        return ""
    has_digit = pc.match_substring_regex(values, r"\d")
    rest, words = values.filter(has_digit), values.filter(pc.invert(has_digit)).to_pylist()
    if words and len(words) <= _WORDS_MAX and len(rest) >= _OTHERS_A_WORD * len(words):
        found = guess_text(rest, marks).data_type
        kind = "numbers" if found in _NUMERIC else "dates" if found is DataType.TIMESTAMP else ""
        if kind:
            flags = " ".join(f"--null-text {shlex.quote(word[:40])}" for word in words)
            return f"{kind} but for {_listed(words)}; {flags} makes {'that' if len(words) == 1 else 'them'} no value"
    return _why_no_dates(values)


def _why_no_dates(values: pa.Array) -> str:
    is_shaped = pc.match_substring_regex(values, SHAPE)
    shaped, others = values.filter(is_shaped), values.filter(pc.invert(is_shaped))
    if len(shaped) < 2 or len(shaped) < len(others):
        return ""
    if len(others):
        return f"most are dates, but not {_listed(others.slice(0, _WORDS_MAX).to_pylist())}"
    first, *more = shaped.slice(0, _DATES_LOOKED_AT).to_pylist()
    for text in (first, *more):
        if not _is_dates(text):
            return f"dates, of which {text[:40]!r} is in no calendar"
    for text in more:
        if not _is_dates(first, text):
            return f"dates that are not written alike, such as {_listed([first, text])}"
    return "dates that are not written alike"


def _is_dates(*texts: str) -> bool:
    return date_guess(pa.array(texts), ("ymd", "dmy", "mdy")) is not None


def _listed(texts: Sequence[str]) -> str:
    return ", ".join(repr(re.sub(r"\s+", " ", text)[:40]) for text in texts)
