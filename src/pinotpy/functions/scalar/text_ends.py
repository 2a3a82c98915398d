"""Functions that give all beginnings or ends of a text, for columns that an inverted index finds: PREFIXES,
SUFFIXES.
"""

from __future__ import annotations

from pinotpy.functions.scalar.spec import Example
from pinotpy.functions.scalar.text_arguments import NUMBER, TEXT, expect_length, java_length, java_slice, text_function


def _prefixes(text: str, length: int, before: str = "") -> list[str]:
    units = _count(text, length, before, "prefixes")
    return [before + java_slice(text, 0, end) for end in range(1, units + 1)]


def _suffixes(text: str, length: int, after: str = "") -> list[str]:
    units, whole = _count(text, length, after, "suffixes"), java_length(text)
    return [java_slice(text, whole - size, whole) + after for size in range(1, units + 1)]


def _count(text: str, length: int, more: str, function: str) -> int:
    """How many there are; raises QueryExecutionError if they are too long together."""
    count = max(min(length, java_length(text)), 0)
    expect_length(count * (count + 1) // 2 + count * java_length(more), function)
    return count


FUNCTIONS = (
    text_function(
        "prefixes",
        "PREFIXES(text, length)",
        "The beginnings of a text, up to a length.",
        (TEXT, NUMBER),
        _prefixes,
        Example("prefixes(s, 3)", ["H", "He", "Hel"]),
        single_value=False,
    ),
    text_function(
        "prefixeswithprefix",
        "PREFIXESWITHPREFIX(text, length, before)",
        "The beginnings of a text, up to a length, with something before each, such as ^ of patterns.",
        (TEXT, NUMBER, TEXT),
        _prefixes,
        Example("prefixesWithPrefix(s, 2, '^')", ["^H", "^He"]),
        single_value=False,
    ),
    text_function(
        "suffixes",
        "SUFFIXES(text, length)",
        "The ends of a text, up to a length.",
        (TEXT, NUMBER),
        _suffixes,
        Example("suffixes(s, 3)", ["d", "ld", "rld"]),
        single_value=False,
    ),
    text_function(
        "suffixeswithsuffix",
        "SUFFIXESWITHSUFFIX(text, length, after)",
        "The ends of a text, up to a length, with something after each, such as $ of patterns.",
        (TEXT, NUMBER, TEXT),
        _suffixes,
        Example("suffixesWithSuffix(s, 2, '$')", ["d$", "ld$"]),
        single_value=False,
    ),
)
