"""Reads JSON objects into columns of words, one call for many; what a column does not take as it stands is left out,
and its number given: the caller reads those objects another way.

Read are objects whose wanted keys hold a plain value of the column's kind or null, each key once: whole numbers of up
to 18 digits; fractions that one multiplication or division gives exactly (up to 15 digits and powers of ten to 22;
Clinger, How to Read Floating Point Numbers Accurately, 1990); true and false; strings without escapes. Values of other
keys may be anything that json_tokens.py reads, nested or not. Bytes are checked to be UTF-8.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.kernels.codec.json_tokens import FALSE, NULL, TRUE, is_word, space_end, string_end
from pinotpy.kernels.runtime.abi import inner
from pinotpy.kernels.runtime.byte_words import has_high_bytes, load_byte, load_word, same_bytes, trailing_zeros

# Kinds of columns: the word of a value is the number, its bits, 0 or 1, or where the text begins in the data.
OTHER: Final = 0  # takes nothing but null
WHOLE: Final = 1
DOUBLE: Final = 2
TRUTH: Final = 3
TEXT: Final = 4

NO_VALUE: Final = -1  # as length
_DEPTH_MAX: Final = 64
_WHOLE_DIGITS_MAX: Final = 18
_DIGITS_MAX: Final = 15
_POWER_MAX: Final = 22
_SKIPPED_POWER_MAX: Final = 280  # no double is that great, which parsers refuse wherever it stands
_POWERS: Final = np.array([10.0**power for power in range(_POWER_MAX + 1)])
_NOT_READ: Final = -1
_ONES: Final = np.uint64(0x0101010101010101)
_HIGHS: Final = np.uint64(0x8080808080808080)
_QUOTES: Final = np.uint64(0x2222222222222222)
_BACKSLASHES: Final = np.uint64(0x5C5C5C5C5C5C5C5C)
_SPACES: Final = np.uint64(0x2020202020202020)
# The words of four letters, little-endian.
_TRUE: Final = np.uint64(0x65757274)
_NULL: Final = np.uint64(0x6C6C756E)
_FALS: Final = np.uint64(0x736C6166)


class Columns(NamedTuple):
    """The wanted columns.

    names, name_ends: the bytes of all names, uint8; int64[n + 1].
    slots: a hash table of 2^k entries, more than n: the column, or -1; int64.
    kinds: int64[n].
    expected: int64[m], the column of the i-th key of the object before, or -1: tried first, and kept up to date.
    seen: int64[n], scratch.
    """

    names: NDArray[np.uint8]
    name_ends: Int64Array
    slots: Int64Array
    kinds: Int64Array
    expected: Int64Array
    seen: Int64Array


# Positions below are addresses: arrays that go through functions of numba cost as much as what these functions do.


@inner
def _behind_space(position: int, end: int) -> Any:
    while position < end:
        c = load_byte(position)
        if c not in (32, 10, 13, 9):
            break
        position += 1
    return position


@inner
def _plain_string_end(position: int, end: int) -> Any:
    # The place of the last quote, from behind the first one; -1 if there are escapes, or no end.
    while position + 8 <= end:
        word = load_word(position)
        quotes, backslashes = word ^ _QUOTES, word ^ _BACKSLASHES
        # The lowest byte that is marked is certainly a quote, a backslash or a control character.
        marks = (quotes - _ONES) & ~quotes | (backslashes - _ONES) & ~backslashes | (word - _SPACES) & ~word
        marks &= _HIGHS
        if marks != 0:
            position += trailing_zeros(marks) >> 3
            return position if load_byte(position) == 34 else np.int64(_NOT_READ)
        position += 8
    while position < end:
        c = load_byte(position)
        if c == 34:
            return position
        if c < 32 or c == 92:
            return np.int64(_NOT_READ)
        position += 1
    return np.int64(_NOT_READ)


@inner
def _is_short_word(position: int, end: int, word: Any) -> Any:
    if position + 4 > end:
        return False
    found = np.uint64(0)
    for i in range(4):
        found |= load_byte(position + i) << np.uint64(8 * i)
    return found == word


@inner
def _number(position: int, end: int) -> Any:
    # A number: (behind it, its digits as a whole number, power of ten, whether it is negative, whether it has fraction
    # or exponent). Behind is -1 if this does not read it.
    negative = load_byte(position) == 45
    if negative:
        position += 1
    first = position
    digits = np.int64(0)
    while position < end:
        digit = np.int64(load_byte(position)) - 48
        if digit < 0 or digit > 9:
            break
        digits = digits * 10 + digit
        position += 1
    whole = position - first
    not_read = np.int64(_NOT_READ), np.int64(0), np.int64(0), False, False
    if whole == 0 or whole > _WHOLE_DIGITS_MAX or (whole > 1 and load_byte(first) == 48):
        return not_read
    power: Any = np.int64(0)
    c = load_byte(position) if position < end else np.uint64(0)
    if c != 46 and c | np.uint64(32) != 101:
        if negative and digits == 0:
            return not_read
        return position, digits, power, negative, False
    if c == 46:
        position += 1
        point = position
        while position < end:
            c = load_byte(position)
            if c < 48 or c > 57:
                break
            digits = digits * 10 + (np.int64(c) - 48)
            position += 1
            if position - first > _WHOLE_DIGITS_MAX:
                return not_read
        power = point - position
        if power == 0:
            return not_read
    if position < end and load_byte(position) | np.uint64(32) == 101:
        position += 1
        below = False
        if position < end and load_byte(position) in (43, 45):
            below = load_byte(position) == 45
            position += 1
        begin = position
        exponent = np.int64(0)
        while position < end and position - begin < 4 and 48 <= load_byte(position) <= 57:
            exponent = exponent * 10 + (np.int64(load_byte(position)) - 48)
            position += 1
        if position == begin or (position < end and 48 <= load_byte(position) <= 57):
            return not_read
        power += -exponent if below else exponent
    return position, digits, power, negative, True


@inner
def _double(digits: Any, power: Any, negative: Any) -> Any:
    # (the value, whether it is exact)
    if digits >= 10**_DIGITS_MAX or power < -_POWER_MAX or power > _POWER_MAX:
        return 0.0, False
    value = np.float64(digits)
    value = value / _POWERS[-power] if power < 0 else value * _POWERS[power]
    return -value if negative else value, True


@inner
def _key_end(data: Any, position: Any, end: Any) -> Any:
    # From a key to its value, stepping over both quotes and the colon.
    if position >= end or data[position] != 34:
        return np.int64(_NOT_READ)
    position, _ = string_end(data, position + 1, end)
    if position < 0:
        return np.int64(_NOT_READ)
    position = space_end(data, position + 1, end)
    if position >= end or data[position] != 58:
        return np.int64(_NOT_READ)
    return space_end(data, position + 1, end)


@inner
def _value_end(data: Any, base: int, position: Any, end: Any) -> Any:
    # Behind a value of any kind in the array at address `base`; -1 if this does not read it. A bit a container: whether
    # it is an object.
    depth = 0
    objects = np.uint64(0)
    while True:
        if position >= end:
            return np.int64(_NOT_READ)
        c = data[position]
        is_begun = False
        if c == 34:
            position, _ = string_end(data, position + 1, end)
            if position < 0:
                return np.int64(_NOT_READ)
            position += 1
        elif c == 45 or 48 <= c <= 57:
            behind, _, power, _, _ = _number(base + position, base + end)
            if behind < 0 or power > _SKIPPED_POWER_MAX:
                return np.int64(_NOT_READ)
            position = behind - base
        elif is_word(data, position, end, TRUE) or is_word(data, position, end, NULL):
            position += 4
        elif is_word(data, position, end, FALSE):
            position += 5
        elif c in (123, 91):
            if depth == _DEPTH_MAX:
                return np.int64(_NOT_READ)
            position = space_end(data, position + 1, end)
            if position >= end:
                return np.int64(_NOT_READ)
            if data[position] == c + 2:  # } is two behind {, ] two behind [
                position += 1
            else:
                is_begun = True
                depth += 1
                objects = (objects << np.uint64(1)) | np.uint64(c == 123)
        else:
            return np.int64(_NOT_READ)
        while not is_begun:
            if depth == 0:
                return np.int64(position)
            position = space_end(data, position, end)
            if position >= end:
                return np.int64(_NOT_READ)
            c = data[position]
            if c == 44:
                position = space_end(data, position + 1, end)
                break
            if c != (125 if objects & np.uint64(1) else 93):
                return np.int64(_NOT_READ)
            position += 1
            depth -= 1
            objects >>= np.uint64(1)
        if objects & np.uint64(1):
            position = _key_end(data, position, end)
            if position < 0:
                return np.int64(_NOT_READ)


@inner
def _is_utf8(position: int, end: int) -> Any:
    while position < end:
        c = load_byte(position)
        if c < 128:
            position += 1
            continue
        if 0xC2 <= c <= 0xDF:
            following = 1
        elif 0xE0 <= c <= 0xEF:
            following = 2
        elif 0xF0 <= c <= 0xF4:
            following = 3
        else:
            return False
        if position + following >= end:
            return False
        second = load_byte(position + 1)
        low = 0xA0 if c == 0xE0 else 0x90 if c == 0xF0 else 0x80
        top = 0x9F if c == 0xED else 0x8F if c == 0xF4 else 0xBF
        if second < low or second > top:
            return False
        for i in range(2, following + 1):
            if load_byte(position + i) < 0x80 or load_byte(position + i) > 0xBF:
                return False
        position += following + 1
    return True


@inner
def _hash(position: int, end: int) -> Any:
    code = np.uint64(0xCBF29CE484222325)
    while position < end:
        code = (code ^ load_byte(position)) * np.uint64(0x100000001B3)
        position += 1
    return code ^ (code >> np.uint64(29))


@njit(cache=True, nogil=True, error_model="numpy")
def read_objects(
    data: Any, begins: Any, ends: Any, columns: Columns, words: Any, lengths: Any, rows: Any, left_out: Any
) -> Any:
    """Read the objects that lie at data[begins[i]:ends[i]].

    Args:
        data: uint8. begins, ends: int64[n].
        words, lengths: int64 and int32, (columns, n): value r of column c, as its kind has it, and the length of its
            text; NO_VALUE if it is null or has no key.
        rows, left_out: int64[n]: numbers of the objects that became rows 0, 1, … and of those that were left out.

    Returns: the number of rows.
    """
    base, names = data.ctypes.data, columns.names.ctypes.data
    name_ends, slots, kinds, expected, seen = (
        columns.name_ends, columns.slots, columns.kinds, columns.expected, columns.seen
    )  # fmt: skip
    doubles = words.view(np.float64)
    mask = np.uint64(slots.shape[0] - 1)
    num_columns, num_expected = lengths.shape[0], expected.shape[0]
    seen[:] = -1
    row = 0
    left = 0
    for number in range(begins.shape[0]):
        for i in range(num_columns):
            lengths[i, row] = NO_VALUE
        position, end = base + begins[number], base + ends[number]
        is_read = False
        key = 0
        position = _behind_space(position, end)
        if (
            position < end
            and load_byte(position) == 123
            and (not has_high_bytes(position, end - position) or _is_utf8(position, end))
        ):
            position = _behind_space(position + 1, end)
            if position < end and load_byte(position) == 125:
                is_read = _behind_space(position + 1, end) == end
                position = end
        else:
            position = end
        while position < end:
            # A key, and what column it names.
            if load_byte(position) != 34:
                break
            begin = position + 1
            behind = _plain_string_end(begin, end)
            if behind < 0:
                break
            position = _behind_space(behind + 1, end)
            if position >= end or load_byte(position) != 58:
                break
            position = _behind_space(position + 1, end)
            if position >= end:
                break
            size = behind - begin
            column = expected[key] if key < num_expected else np.int64(-1)
            if (
                column < 0
                or name_ends[column + 1] - name_ends[column] != size
                or not same_bytes(names + name_ends[column], begin, size)
            ):
                slot = _hash(begin, behind) & mask
                while True:
                    column = slots[slot]
                    if column < 0 or (
                        name_ends[column + 1] - name_ends[column] == size
                        and same_bytes(names + name_ends[column], begin, size)
                    ):
                        break
                    slot = (slot + np.uint64(1)) & mask
                if key < num_expected:
                    expected[key] = column
            key += 1
            # Its value.
            c = load_byte(position)
            if column < 0:
                position = _value_end(data, base, position - base, end - base)
                if position < 0:
                    break
                position += base
            else:
                if seen[column] == number:
                    break
                seen[column] = number
                kind = kinds[column]
                if c == 34 and kind == TEXT:
                    begin = position + 1
                    behind = _plain_string_end(begin, end)
                    if behind < 0:
                        break
                    words[column, row] = begin - base
                    lengths[column, row] = behind - begin
                    position = behind + 1
                elif (c == 45 or 48 <= c <= 57) and kind in (WHOLE, DOUBLE):
                    behind, digits, power, negative, has_fraction = _number(position, end)
                    if behind < 0 or (has_fraction and kind == WHOLE):
                        break
                    if kind == WHOLE:
                        words[column, row] = -digits if negative else digits
                    else:
                        value, is_exact = _double(digits, power, negative)
                        if not is_exact:
                            break
                        doubles[column, row] = value
                    lengths[column, row] = 0
                    position = behind
                elif kind == TRUTH and _is_short_word(position, end, _TRUE):
                    words[column, row], lengths[column, row] = 1, 0
                    position += 4
                elif (
                    kind == TRUTH
                    and _is_short_word(position, end, _FALS)
                    and position + 5 <= end
                    and (load_byte(position + 4) == 101)
                ):
                    words[column, row], lengths[column, row] = 0, 0
                    position += 5
                elif _is_short_word(position, end, _NULL):
                    position += 4
                else:
                    break
            position = _behind_space(position, end)
            if position >= end:
                break
            c = load_byte(position)
            if c == 125:
                is_read = _behind_space(position + 1, end) == end
                break
            if c != 44:
                break
            position = _behind_space(position + 1, end)
        if is_read:
            rows[row] = number
            row += 1
        else:
            left_out[left] = number
            left += 1
    return row


@njit(cache=True, nogil=True)
def gather_texts(data: Any, starts: Any, lengths: Any, offsets: Any, out: Any) -> None:
    """Texts one behind the other: out[offsets[i]:offsets[i + 1]] are lengths[i] bytes from starts[i] on, none where the
    length is NO_VALUE. Writes `offsets` (int32[n + 1]) and `out`.
    """
    position = np.int64(0)
    offsets[0] = 0
    for i in range(starts.shape[0]):
        length = lengths[i]
        start = starts[i]
        for j in range(length):
            out[position + j] = data[start + j]
        if length > 0:
            position += length
        offsets[i + 1] = position


def new_columns(names: list[bytes], kinds: list[int]) -> Columns:
    """Columns of these names, which differ."""
    size = 8
    while size < 2 * len(names):
        size *= 2
    slots = np.full(size, -1, np.int64)
    for number, name in enumerate(names):
        code = 0xCBF29CE484222325
        for byte in name:
            code = ((code ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
        slot = (code ^ (code >> 29)) & (size - 1)
        while slots[slot] >= 0:
            slot = (slot + 1) & (size - 1)
        slots[slot] = number
    ends = np.cumsum([0, *map(len, names)], dtype=np.int64)
    data = np.frombuffer(b"".join(names) or b"\0", np.uint8).copy()
    return Columns(
        data,
        ends,
        slots,
        np.array(kinds, np.int64),
        np.full(2 * len(names) + 16, -1, np.int64),
        np.full(len(names), -1, np.int64),
    )
