"""Whole numbers beside doubles on value registers, by value: flags of 0 and 1, as comparisons.py has them.

Rounding a LONG to a double keeps the order but for what it makes equal. There the double is a whole number, and the
difference of the two decides; 2^63 is beyond all LONGs. Blocks whose LONGs are all below 2^53 are compared as doubles,
in vectors.
"""

from __future__ import annotations

from typing import Any, Final

from numba import float64, int64

from pinotpy.kernels.runtime.abi import (
    A0,
    E_OK,
    INSTRUCTION_WORDS,
    S_SELECTED,
    STATE_WORDS,
    block_function,
    inner,
    register_f64,
    register_i64,
    register_u8,
    words,
)
from pinotpy.kernels.vector import comparisons

_EXACT: Final = 1 << 53
_BEYOND: Final = 2.0**63
_LONG_MAX: Final = 2**63 - 1


@inner
def _is_small(values: Any) -> Any:
    # All magnitudes together: loops that end early do not vectorise.
    together = int64(0)
    for i in range(len(values)):
        together |= values[i] ^ (values[i] >> int64(63))
    return together < _EXACT


@inner
def _difference(a: Any, b: Any) -> Any:
    """a - b of a LONG and a double that it rounds to."""
    if b >= _BEYOND:
        return float64(a - int64(_LONG_MAX)) - 1.0
    return float64(a - int64(b))


def _loops(compare: Any) -> Any:
    @inner
    def run(out: Any, left: Any, right: Any, is_small: Any) -> None:
        if is_small:
            for i in range(len(out)):
                out[i] = compare(float64(left[i]), right[i])
        else:
            for i in range(len(out)):
                a, b = float64(left[i]), right[i]
                out[i] = compare(_difference(left[i], b), 0.0) if a == b else compare(a, b)

    return run


_equal_all, _not_equal_all, _less_all = (
    _loops(comparisons._equal),
    _loops(comparisons._not_equal),
    _loops(comparisons._less),
)
_less_or_equal_all, _greater_all = _loops(comparisons._less_or_equal), _loops(comparisons._greater)
_greater_or_equal_all = _loops(comparisons._greater_or_equal)


@block_function
def compare_long_double(state_address: int, args_address: int) -> Any:
    """Flags A0 = integers A1 compared with doubles A2, comparison A3 of comparisons.py."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    n, comparison = state[S_SELECTED], args[A0 + 3]
    out, left, right = (
        register_u8(state, args[A0])[:n],
        register_i64(state, args[A0 + 1])[:n],
        register_f64(state, args[A0 + 2])[:n],
    )
    is_small = _is_small(left)
    if comparison == comparisons.EQUAL:
        _equal_all(out, left, right, is_small)
    elif comparison == comparisons.NOT_EQUAL:
        _not_equal_all(out, left, right, is_small)
    elif comparison == comparisons.LESS:
        _less_all(out, left, right, is_small)
    elif comparison == comparisons.LESS_OR_EQUAL:
        _less_or_equal_all(out, left, right, is_small)
    elif comparison == comparisons.GREATER:
        _greater_all(out, left, right, is_small)
    else:
        _greater_or_equal_all(out, left, right, is_small)
    return E_OK
