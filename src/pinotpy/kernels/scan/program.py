"""Programs of a query's morsels, put together in one pass: instructions that queries of one shape share around the
query's filter.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from pinotpy.kernels.runtime.abi import (
    INSTRUCTION_WORDS,
    MORSEL_WORDS,
    U_NUM_BEGIN,
    U_NUM_END,
    U_NUM_FILTER,
    U_NUM_SELECT,
    U_PROGRAM,
)


@njit(nogil=True)
def _copy(out: Any, position: int, source: Any) -> Any:
    for i in range(len(source)):
        for k in range(INSTRUCTION_WORDS):
            out[position + i, k] = source[i, k]
    return position + len(source)


@njit(cache=True, nogil=True)
def bind(
    morsels: Any, numbers: Any, begin: Any, filters: Any, select: Any, end: Any, program: Any, address: int
) -> None:
    """Write the program of every morsel.

    Args:
        morsels: int64[n, MORSEL_WORDS]: gets where its program is and how long its parts are.
        numbers: int64[n], the rows of a morsel in `begin`, `select` and `end`; filters: int64[n, k, INSTRUCTION_WORDS],
            the morsels' own.
        program: int64[n, all, INSTRUCTION_WORDS] at `address`, written.
    """
    size = program.shape[1] * INSTRUCTION_WORDS * 8
    for u in range(len(morsels)):
        row, instructions = numbers[u], program[u]
        position = _copy(instructions, 0, begin[row])
        position = _copy(instructions, position, filters[u])
        position = _copy(instructions, position, select[row])
        _copy(instructions, position, end[row])
        morsel = morsels[u]
        morsel[U_NUM_BEGIN], morsel[U_NUM_FILTER], morsel[U_NUM_SELECT], morsel[U_NUM_END] = (
            begin.shape[1],
            filters.shape[1],
            select.shape[1],
            end.shape[1],
        )
        morsel[U_PROGRAM] = address + u * size


def warm() -> None:
    """Compile for the argument types that queries use."""
    section = np.zeros((0, 0, INSTRUCTION_WORDS), np.int64)
    bind(np.zeros((0, MORSEL_WORDS), np.int64), np.zeros(0, np.int64), section, section, section, section, section, 0)
