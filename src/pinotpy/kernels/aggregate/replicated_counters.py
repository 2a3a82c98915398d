"""Adding a block's values to few groups: rows that follow each other add to different words.

Where a block has few groups, a row often adds to the word that the row before it has just written, and waits until that
store is done: 0.8 ns a row with twelve skewed groups. Each group therefore has COPIES words in scratch memory, which
rows take in turn (0.35 ns); their totals go to the group's state once a block. With some hundred groups that costs more
than it saves.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import int64, uint64

from pinotpy.kernels.runtime.abi import inner

FEW: Final = 64
COPIES: Final = 8
_SHIFT: Final = np.uint64(3)
_TURN: Final = np.uint64(COPIES - 1)


@inner
def num_groups(groups: Any) -> Any:
    """One more than the highest group number of the block (uint32), 0 without rows."""
    if len(groups) == 0:
        return int64(0)
    most = groups[0]
    for i in range(len(groups)):
        most = max(most, groups[i])
    return int64(most) + 1


@inner
def clear(copies: Any) -> None:
    """Zero the copies before a block."""
    for i in range(len(copies)):
        copies[i] = 0


@inner
def count(copies: Any, groups: Any) -> None:
    """Add 1 for every row."""
    for i in range(len(groups)):
        copies[uint64(groups[i]) << _SHIFT | uint64(i) & _TURN] += 1


@inner
def count_unflagged(copies: Any, groups: Any, skip: Any) -> None:
    """Add 1 for every row without flag."""
    for i in range(len(groups)):
        copies[uint64(groups[i]) << _SHIFT | uint64(i) & _TURN] += int64(1) - int64(skip[i])


@inner
def add(copies: Any, groups: Any, values: Any) -> None:
    """Add the rows' values (int64)."""
    for i in range(len(groups)):
        copies[uint64(groups[i]) << _SHIFT | uint64(i) & _TURN] += values[i]


@inner
def total(copies: Any, group: int) -> Any:
    """What the block added to a group."""
    count = int64(0)
    for i in range(group * COPIES, (group + 1) * COPIES):
        count += copies[uint64(i)]
    return count


@inner
def add_totals(table: Any, width: Any, slot: Any, copies: Any) -> None:
    """Add what the block added to word `slot` of the groups' rows."""
    for group in range(len(copies) // COPIES):
        table[uint64(group) * width + slot] += total(copies, group)
