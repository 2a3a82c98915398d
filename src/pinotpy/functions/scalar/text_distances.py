"""Functions that compare two texts: STRCMP, LEVENSHTEINDISTANCE. Characters are Java's, UTF-16 units."""

from __future__ import annotations

from typing import Final

import numpy as np

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType
from pinotpy.errors import QueryExecutionError
from pinotpy.functions.scalar.spec import Example
from pinotpy.functions.scalar.text_arguments import TEXT, text_function

_CELLS_MAX: Final = 1 << 26  # of the table of distances of one pair: two texts of 8,192 characters


def _units(text: str) -> Int64Array:
    return np.frombuffer(text.encode("utf-16-le"), np.uint16).astype(np.int64)


def _compare(left: str, right: str) -> int:
    """String.compareTo: how far apart the first units are that differ, else the lengths."""
    ours, theirs = _units(left), _units(right)
    shorter = min(len(ours), len(theirs))
    apart = ours[:shorter] - theirs[:shorter]
    first = np.flatnonzero(apart)
    return int(apart[first[0]]) if len(first) else len(ours) - len(theirs)


def _levenshtein_distance(left: str, right: str) -> int:
    ours, theirs = sorted((_units(left), _units(right)), key=len)
    if len(ours) * len(theirs) > _CELLS_MAX:
        raise QueryExecutionError(
            f"expected texts of which the lengths multiply to at most {_CELLS_MAX}, found {len(ours)} and "
            f"{len(theirs)} characters"
        )
    steps = np.arange(len(theirs) + 1)
    row = steps  # from no unit of ours to each beginning of theirs
    for number, unit in enumerate(ours, 1):
        # Deletions and replacements look at the row before; insertions run along the row, each one costs its step.
        reached = np.concatenate(([number], np.minimum(row[1:] + 1, row[:-1] + (theirs != unit))))
        row = np.minimum.accumulate(reached - steps) + steps
    return int(row[-1])


FUNCTIONS = (
    text_function(
        "strcmp",
        "STRCMP(a, b)",
        "Less than 0 if a comes before b, 0 if they are equal, else more: how far the first different characters are "
        "apart, or else the lengths.",
        (TEXT, TEXT),
        _compare,
        Example("strcmp('abc', 'abd')", -1),
        Example("strcmp(s, 'Hello')", 7),
        gives=DataType.INT,
    ),
    text_function(
        "levenshteindistance",
        "LEVENSHTEINDISTANCE(a, b)",
        "How many characters must be inserted, deleted or replaced to make one text the other.",
        (TEXT, TEXT),
        _levenshtein_distance,
        Example("levenshteinDistance('kitten', 'sitting')", 3),
        gives=DataType.INT,
    ),
)
