"""Proves that short arrays of texts, which are matched one by one, match as Arrow's engine matches long ones: for every
pattern of the sniffer, over texts made of the signs that its patterns are about.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pinotpy.ingest.sniffing import dates, texts
from pinotpy.ingest.sniffing.matching import every, some

PATTERNS = [
    *(value for name, value in vars(texts).items() if isinstance(value, str) and value.startswith("^")),
    dates.SHAPE,
    dates._MONTH_NAME,
    r"^\s*[\[{]",
    r":\d{2}[.,]\d{3}\d*[1-9]",
    r"^\+\d{7,}$",
    r"\d[.,/-]?\d|\d",
]
WORDS = st.sampled_from(
    [
        "0",
        "7",
        "12",
        "2020",
        "٣",
        ".",
        ",",
        "-",
        "/",
        ":",
        "+",
        "e5",
        "T",
        " ",
        "\n",
        "\v",
        "\t",
        "Jan",
        "may",
        "é",
        "[",
        "{",
        "AM",
        "Z",
    ]
)
TEXTS = st.lists(st.lists(WORDS, max_size=9).map("".join), max_size=8)


def test_there_are_patterns() -> None:
    assert len(PATTERNS) > 12


@pytest.mark.parametrize("pattern", PATTERNS)
@given(values=TEXTS)
@settings(max_examples=25, deadline=None)
def test_short_arrays_match_as_long_ones(pattern: str, values: list[str]) -> None:
    short = pa.array(values, pa.string())
    found = pc.match_substring_regex(short, pattern)
    assert every(short, pattern) is bool(pc.all(found).as_py() is not False)
    assert some(short, pattern) is bool(pc.any(found).as_py())
    long = pa.array(values * 40, pa.string())
    assert (every(long, pattern), some(long, pattern)) == (every(short, pattern), some(short, pattern))
