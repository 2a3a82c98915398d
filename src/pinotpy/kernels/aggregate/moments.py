"""Select instructions that bring exact sums of squares, cubes and fourth powers into the states of their groups;
arguments as of those in counts_and_sums.py, and one form for both: without a register of groups (A0 below 0) all goes
to row 0.

A power is an integer in **limbs** of LIMB_BITS bits, and so is its sum: word j of the slots adds up limbs j without
carries, which any 2^31 values may do. Adding integers is exact, so that any order and any split gives the same bits
(docs/adr/0003-sums.md).

    whole numbers   slots of power p: WORDS_LONG[p] limbs of the sum of x^p
    doubles         x = m * 2^s in units of the main window of exact_sums.py; slots: WORDS_DOUBLE[p] limbs of the sum of
                    m^p * 2^(p s)

What lies outside the main window is kept as overflow as 128-bit integers: a part at bit b, counted from 2^(-1076 p), as
window b // WINDOW + WINDOW_FIRST. Infinities and NaN are left to the sum of the values themselves, which flags them.
"""

from __future__ import annotations

from typing import Any, Final

from numba import int64, njit, types, uint64

from pinotpy.kernels.aggregate.counts_and_sums import counted_values, prepare, scratch, table_of
from pinotpy.kernels.aggregate.exact_sums import WINDOW, WINDOW_MAIN, overflow_part
from pinotpy.kernels.aggregate.result_context import G_ROW_WORDS, context_of
from pinotpy.kernels.runtime.abi import (
    A0,
    E_OK,
    INSTRUCTION_WORDS,
    S_SELECTED,
    STATE_WORDS,
    block_function,
    inner,
    register_u32,
    words,
)

LIMB_BITS: Final = 30
WINDOW_FIRST: Final = 64  # above all windows of a plain sum, WINDOW_SPECIAL among them
WORDS_LONG: Final = {2: 5, 3: 7, 4: 9}
WORDS_DOUBLE: Final = {2: 8, 3: 11, 4: 15}

_LIMB: Final = (1 << LIMB_BITS) - 1
_MAIN_BASE: Final = WINDOW * WINDOW_MAIN - 1
_IMPLICIT: Final = 1 << 52
_FRACTION: Final = (1 << 52) - 1
_INFINITE: Final = 0x7FF
# Places of the limbs of a value, of its square and of its power in the scratch memory.
_VALUE: Final = 0
_SQUARE: Final = 8
_POWER: Final = 16


@inner
def _multiply(limbs: Any, position: int, left: int, num_left: int, right: int, num_right: int) -> Any:
    """Limbs at `position` of the product of the limbs at `left` and at `right`; gives how many they are. A column has
    at most five products of 60 bits.
    """
    carry = int64(0)
    for k in range(num_left + num_right - 1):
        for i in range(max(0, k - num_right + 1), min(k, num_left - 1) + 1):
            carry += limbs[left + i] * limbs[right + k - i]
        limbs[position + k] = carry & _LIMB
        carry >>= LIMB_BITS
    limbs[position + num_left + num_right - 1] = carry
    return num_left + num_right


@inner
def _raise(limbs: Any, num_limbs: int, power: int) -> Any:
    """Puts the limbs of a power of the value at _VALUE to _POWER; gives how many they are."""
    if power == 2:
        return _multiply(limbs, _POWER, _VALUE, num_limbs, _VALUE, num_limbs)
    num_square = _multiply(limbs, _SQUARE, _VALUE, num_limbs, _VALUE, num_limbs)
    if power == 3:
        return _multiply(limbs, _POWER, _SQUARE, num_square, _VALUE, num_limbs)
    return _multiply(limbs, _POWER, _SQUARE, num_square, _SQUARE, num_square)


@inner
def _square(a: int, b: int) -> Any:
    """Four limbs of (a + b * 2^LIMB_BITS)²."""
    t0 = a * a
    t1 = (t0 >> LIMB_BITS) + 2 * a * b
    t2 = (t1 >> LIMB_BITS) + b * b
    return t0 & _LIMB, t1 & _LIMB, t2 & _LIMB, t2 >> LIMB_BITS


@inner
def _cube(a: int, b: int) -> Any:
    """Six limbs of (a + b * 2^LIMB_BITS)³."""
    s0, s1, s2, s3 = _square(a, b)
    t0 = s0 * a
    t1 = (t0 >> LIMB_BITS) + s1 * a + s0 * b
    t2 = (t1 >> LIMB_BITS) + s2 * a + s1 * b
    t3 = (t2 >> LIMB_BITS) + s3 * a + s2 * b
    t4 = (t3 >> LIMB_BITS) + s3 * b
    return t0 & _LIMB, t1 & _LIMB, t2 & _LIMB, t3 & _LIMB, t4 & _LIMB, t4 >> LIMB_BITS


@inner
def _fourth(a: int, b: int) -> Any:
    """Eight limbs of (a + b * 2^LIMB_BITS)⁴."""
    s0, s1, s2, s3 = _square(a, b)
    t0 = s0 * s0
    t1 = (t0 >> LIMB_BITS) + 2 * s0 * s1
    t2 = (t1 >> LIMB_BITS) + 2 * s0 * s2 + s1 * s1
    t3 = (t2 >> LIMB_BITS) + 2 * (s0 * s3 + s1 * s2)
    t4 = (t3 >> LIMB_BITS) + 2 * s1 * s3 + s2 * s2
    t5 = (t4 >> LIMB_BITS) + 2 * s2 * s3
    t6 = (t5 >> LIMB_BITS) + s3 * s3
    return t0 & _LIMB, t1 & _LIMB, t2 & _LIMB, t3 & _LIMB, t4 & _LIMB, t5 & _LIMB, t6 & _LIMB, t6 >> LIMB_BITS


# --- whole numbers -------------------------------------------------------------------------------------------------


@njit(nogil=True)
def _add_long_squares(table: Any, width: Any, slot: Any, groups: Any, values: Any, single: bool) -> None:
    for i in range(len(values)):
        word = slot if single else uint64(groups[i]) * width + slot
        v = values[i]
        magnitude = uint64(-v if v < 0 else v)
        a, b, c = (
            int64(magnitude & uint64(_LIMB)),
            int64((magnitude >> uint64(30)) & uint64(_LIMB)),
            int64(magnitude >> uint64(60)),
        )
        t = a * a
        table[word] += t & _LIMB
        t = (t >> 30) + 2 * a * b
        table[word + uint64(1)] += t & _LIMB
        t = (t >> 30) + 2 * a * c + b * b
        table[word + uint64(2)] += t & _LIMB
        t = (t >> 30) + 2 * b * c
        table[word + uint64(3)] += t & _LIMB
        table[word + uint64(4)] += (t >> 30) + c * c


@njit(nogil=True)
def _add_long_cubes(table: Any, width: Any, slot: Any, groups: Any, values: Any, single: bool, limbs: Any) -> None:
    for i in range(len(values)):
        word = slot if single else uint64(groups[i]) * width + slot
        v = values[i]
        magnitude = uint64(-v if v < 0 else v)
        if magnitude >> uint64(2 * LIMB_BITS) != uint64(0):
            _add_wide_power(table, word, magnitude, -1 if v < 0 else 1, 3, limbs)
            continue
        sign = v >> 63
        c = _cube(int64(magnitude & uint64(_LIMB)), int64(magnitude >> uint64(LIMB_BITS)))
        table[word] += (c[0] ^ sign) - sign
        table[word + uint64(1)] += (c[1] ^ sign) - sign
        table[word + uint64(2)] += (c[2] ^ sign) - sign
        table[word + uint64(3)] += (c[3] ^ sign) - sign
        table[word + uint64(4)] += (c[4] ^ sign) - sign
        table[word + uint64(5)] += (c[5] ^ sign) - sign


@njit(nogil=True)
def _add_long_fourths(table: Any, width: Any, slot: Any, groups: Any, values: Any, single: bool, limbs: Any) -> None:
    for i in range(len(values)):
        word = slot if single else uint64(groups[i]) * width + slot
        v = values[i]
        magnitude = uint64(-v if v < 0 else v)
        if magnitude >> uint64(2 * LIMB_BITS) != uint64(0):
            _add_wide_power(table, word, magnitude, 1, 4, limbs)
            continue
        c = _fourth(int64(magnitude & uint64(_LIMB)), int64(magnitude >> uint64(LIMB_BITS)))
        table[word] += c[0]
        table[word + uint64(1)] += c[1]
        table[word + uint64(2)] += c[2]
        table[word + uint64(3)] += c[3]
        table[word + uint64(4)] += c[4]
        table[word + uint64(5)] += c[5]
        table[word + uint64(6)] += c[6]
        table[word + uint64(7)] += c[7]


@njit(nogil=True)
def _add_wide_power(table: Any, word: Any, magnitude: Any, sign: int, power: int, limbs: Any) -> None:
    # Of a whole number of more than two limbs, which is rare.
    limbs[0], limbs[1], limbs[2] = (
        magnitude & uint64(_LIMB),
        (magnitude >> uint64(LIMB_BITS)) & uint64(_LIMB),
        magnitude >> uint64(2 * LIMB_BITS),
    )
    _raise(limbs, 3, power)
    for j in range(2 * power + 1):  # the limbs beyond are 0
        table[word + uint64(j)] += sign * limbs[_POWER + j]


@inner
def _add_longs(state_address: int, args_address: int, power: int) -> Any:
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    context, n = context_of(state), state[S_SELECTED]
    code = prepare(context)
    if code != E_OK:
        return code
    values, single = counted_values(state, args, context, n), args[A0] < 0
    groups = register_u32(state, 0 if single else args[A0])[:n]
    table, width, slot = table_of(context), uint64(context[G_ROW_WORDS]), uint64(args[A0 + 2])
    if power == 2:
        _add_long_squares(table, width, slot, groups, values, single)
    elif power == 3:
        _add_long_cubes(table, width, slot, groups, values, single, scratch(context, 0))
    else:
        _add_long_fourths(table, width, slot, groups, values, single, scratch(context, 0))
    return E_OK


@block_function
def long_squares(state_address: int, args_address: int) -> Any:
    return _add_longs(state_address, args_address, 2)


@block_function
def long_cubes(state_address: int, args_address: int) -> Any:
    return _add_longs(state_address, args_address, 3)


@block_function
def long_fourths(state_address: int, args_address: int) -> Any:
    return _add_longs(state_address, args_address, 4)


# --- doubles -------------------------------------------------------------------------------------------------------


@njit(nogil=True)
def _overflow_power(context: Any, group: int, slot: int, bits: Any, power: int, limbs: Any) -> Any:
    # A double outside the main window: its power's limbs, each as a 128-bit integer in its window.
    exponent, fraction = int64((bits >> uint64(52)) & uint64(_INFINITE)), int64(bits) & _FRACTION
    if exponent == _INFINITE:
        return E_OK
    mantissa = fraction if exponent == 0 else fraction | _IMPLICIT
    limbs[0], limbs[1] = mantissa & _LIMB, mantissa >> LIMB_BITS
    count = _raise(limbs, 2, power)
    negative = int64(bits) < 0 and power == 3
    position = power * (max(exponent, 1) + 1)
    for j in range(count):
        limb = -limbs[_POWER + j] if negative else limbs[_POWER + j]
        if limb != 0:
            shift = (position + j * LIMB_BITS) % WINDOW
            high = limb >> (64 - shift) if shift > 0 else limb >> 63
            code = overflow_part(
                context, group, slot, (position + j * LIMB_BITS) // WINDOW + WINDOW_FIRST, limb << shift, high
            )
            if code != E_OK:
                return code
    return E_OK


@inner
def _add_shifted(table: Any, word: Any, limb: int, shift: int) -> None:
    moved = limb << shift
    table[word] += moved & _LIMB
    table[word + uint64(1)] += moved >> LIMB_BITS


@njit(nogil=True)
def _add_double_squares(table: Any, width: Any, slot: Any, groups: Any, values: Any, single: bool) -> Any:
    # Gives how many values lie outside the main window, which are left; so do the next two.
    outside = int64(0)
    for i in range(len(values)):
        b = uint64(values[i])
        places = int64((b >> uint64(52)) & uint64(_INFINITE)) - _MAIN_BASE
        if 0 < places <= WINDOW:
            word = (slot if single else uint64(groups[i]) * width + slot) + uint64(2 * places // LIMB_BITS)
            shift = 2 * places % LIMB_BITS
            m = (int64(b) & _FRACTION) | _IMPLICIT
            c = _square(m & _LIMB, m >> LIMB_BITS)
            _add_shifted(table, word, c[0], shift)
            _add_shifted(table, word + uint64(1), c[1], shift)
            _add_shifted(table, word + uint64(2), c[2], shift)
            _add_shifted(table, word + uint64(3), c[3], shift)
        else:
            outside += int64((b << uint64(1)) != uint64(0))
    return outside


@njit(nogil=True)
def _add_double_cubes(table: Any, width: Any, slot: Any, groups: Any, values: Any, single: bool) -> Any:
    outside = int64(0)
    for i in range(len(values)):
        b = uint64(values[i])
        places = int64((b >> uint64(52)) & uint64(_INFINITE)) - _MAIN_BASE
        if 0 < places <= WINDOW:
            word = (slot if single else uint64(groups[i]) * width + slot) + uint64(3 * places // LIMB_BITS)
            shift = 3 * places % LIMB_BITS
            m = (int64(b) & _FRACTION) | _IMPLICIT
            c = _cube(m & _LIMB, m >> LIMB_BITS)
            sign = int64(b) >> 63
            _add_shifted(table, word, (c[0] ^ sign) - sign, shift)
            _add_shifted(table, word + uint64(1), (c[1] ^ sign) - sign, shift)
            _add_shifted(table, word + uint64(2), (c[2] ^ sign) - sign, shift)
            _add_shifted(table, word + uint64(3), (c[3] ^ sign) - sign, shift)
            _add_shifted(table, word + uint64(4), (c[4] ^ sign) - sign, shift)
            _add_shifted(table, word + uint64(5), (c[5] ^ sign) - sign, shift)
        else:
            outside += int64((b << uint64(1)) != uint64(0))
    return outside


@njit(nogil=True)
def _add_double_fourths(table: Any, width: Any, slot: Any, groups: Any, values: Any, single: bool) -> Any:
    outside = int64(0)
    for i in range(len(values)):
        b = uint64(values[i])
        places = int64((b >> uint64(52)) & uint64(_INFINITE)) - _MAIN_BASE
        if 0 < places <= WINDOW:
            word = (slot if single else uint64(groups[i]) * width + slot) + uint64(4 * places // LIMB_BITS)
            shift = 4 * places % LIMB_BITS
            m = (int64(b) & _FRACTION) | _IMPLICIT
            c = _fourth(m & _LIMB, m >> LIMB_BITS)
            _add_shifted(table, word, c[0], shift)
            _add_shifted(table, word + uint64(1), c[1], shift)
            _add_shifted(table, word + uint64(2), c[2], shift)
            _add_shifted(table, word + uint64(3), c[3], shift)
            _add_shifted(table, word + uint64(4), c[4], shift)
            _add_shifted(table, word + uint64(5), c[5], shift)
            _add_shifted(table, word + uint64(6), c[6], shift)
            _add_shifted(table, word + uint64(7), c[7], shift)
        else:
            outside += int64((b << uint64(1)) != uint64(0))
    return outside


@inner
def _add_doubles(state_address: int, args_address: int, power: int) -> Any:
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    context, n = context_of(state), state[S_SELECTED]
    code = prepare(context)
    if code != E_OK:
        return code
    values, single, limbs = counted_values(state, args, context, n), args[A0] < 0, scratch(context, 0)
    groups = register_u32(state, 0 if single else args[A0])[:n]
    table, width, slot = table_of(context), uint64(context[G_ROW_WORDS]), uint64(args[A0 + 2])
    if power == 2:
        outside = _add_double_squares(table, width, slot, groups, values, single)
    elif power == 3:
        outside = _add_double_cubes(table, width, slot, groups, values, single)
    else:
        outside = _add_double_fourths(table, width, slot, groups, values, single)
    if outside != 0:
        bits = values.view(types.uint64)
        for i in range(n):
            places = int64((bits[i] >> uint64(52)) & uint64(_INFINITE)) - _MAIN_BASE
            if not 0 < places <= WINDOW and (bits[i] << uint64(1)) != uint64(0):
                code = _overflow_power(
                    context, int64(0) if single else int64(groups[i]), args[A0 + 2], bits[i], power, limbs
                )
                if code != E_OK:
                    return code
    return E_OK


@block_function
def double_squares(state_address: int, args_address: int) -> Any:
    return _add_doubles(state_address, args_address, 2)


@block_function
def double_cubes(state_address: int, args_address: int) -> Any:
    return _add_doubles(state_address, args_address, 3)


@block_function
def double_fourths(state_address: int, args_address: int) -> Any:
    return _add_doubles(state_address, args_address, 4)
