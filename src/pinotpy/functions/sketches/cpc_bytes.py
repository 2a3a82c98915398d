"""What the words of a serialized CPC sketch mean: its head, its prefix codes, and whether it is whole.

    u8 words of the head | u8 version 1 | u8 family 16 | u8 lgK | u8 first column that matters | u8 flags
    | u16 hash of the seed
    u32 coupons | u32 pairs, with both streams | f64 kxp, f64 estimate, with both and flag 4
    | u32 words of pairs (flag 8) | u32 words of the window (flag 16)
    | f64 kxp, f64 estimate, without both and with flag 4
    | the window | the pairs                                    an empty sketch ends after 8 bytes

All integers are little-endian. By the coupons C of k rows a sketch is sparse (32 C < 3 k) or hybrid (2 C < k), both
without a window, pinned (8 C < 27 k) or sliding. Source: Apache DataSketches, of which the lengths of codes and the
order of columns are as well.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pinotpy.errors import DecodeError

LG_K_MIN, LG_K_MAX = 4, 26
_WINDOW_LG_K_MAX: Final = 20
# The library chooses codes by 1,000 × coupons in 32 bits.
_WINDOW_COUPONS_MAX: Final = (2**32 - 1) // 1000
# Sketches without window have less than half a coupon a row, pinned ones less than 27/8; sliding ones have half a pair
# a row.
_PAIRS_OF_A_ROW_MAX: Final = 4
_VERSION, _FAMILY = 1, 16
_HIP, _PAIRS, _WINDOW = 4, 8, 16
_START: Final = struct.Struct("<BBBBBBH")
_PEEK_BITS: Final = 12
_FAULTS: Final = (
    "",
    "its streams end too early",
    "it names rows or columns that it does not have",
    "it has other coupons than its head says",
    "its rows were not chosen by hashes",
)


def check(data: bytes) -> None:
    """Raises DecodeError for bytes that are no CPC sketch which a C++ library may be given."""
    if len(data) < _START.size:
        raise DecodeError(f"a sketch has {_START.size} bytes at least")
    _, version, family, lg_k, first_column, flags, _ = _START.unpack_from(data)
    if version != _VERSION or family != _FAMILY or not LG_K_MIN <= lg_k <= LG_K_MAX:
        raise DecodeError(
            f"expected version {_VERSION}, family {_FAMILY} and lgK of {LG_K_MIN} to {LG_K_MAX}, found {version}, "
            f"{family} and {lg_k}"
        )
    if not flags & (_PAIRS | _WINDOW):
        if len(data) != _START.size:
            raise DecodeError(f"an empty sketch has {_START.size} bytes")
        return
    num_coupons, num_pairs, pairs, window = _streams(data, flags)
    offset, code = _window_of(lg_k, num_coupons)
    if (
        (code is not None) != bool(flags & _WINDOW)
        or (code is None and not len(pairs))
        or (code is not None and not len(window))
    ):
        raise DecodeError(f"a sketch of {num_coupons} coupons and 2^{lg_k} rows has other parts")
    if first_column > offset or num_pairs > min(num_coupons, _PAIRS_OF_A_ROW_MAX << lg_k):
        raise DecodeError(
            f"column {first_column} and {num_pairs} pairs do not go with {num_coupons} coupons of 2^{lg_k} rows"
        )
    from pinotpy.kernels.sketch.cpc_check import fault

    columns = _columns(num_coupons >> (lg_k - 4) & 15 if code is not None and 8 * num_coupons >= 27 << lg_k else None)
    fault_code = fault(lg_k, num_coupons, offset, first_column, num_pairs, pairs, window, _codes(code or 0), columns)
    if fault_code:
        raise DecodeError(_FAULTS[fault_code])


def _streams(data: bytes, flags: int) -> tuple[int, int, NDArray[np.uint32], NDArray[np.uint32]]:
    """Coupons, pairs, and the words of both streams."""
    has_pairs, has_window, has_hip = bool(flags & _PAIRS), bool(flags & _WINDOW), bool(flags & _HIP)
    both = has_pairs and has_window
    head = struct.Struct(
        "<I"
        + "I" * both
        + "16x" * (both and has_hip)
        + "I" * has_pairs
        + "I" * has_window
        + "16x" * (has_hip and not both)
    )
    begin = _START.size + head.size
    if len(data) < begin or data[0] * 4 != begin:
        raise DecodeError(f"its head has {begin} bytes")
    num_coupons, *numbers = head.unpack_from(data, _START.size)
    window_words = numbers.pop() if has_window else 0
    pairs_words = numbers.pop() if has_pairs else 0
    if len(data) != begin + 4 * (pairs_words + window_words):
        raise DecodeError(f"{pairs_words} and {window_words} words are not what follows its head")
    num_pairs = numbers[0] if both else num_coupons if has_pairs else 0
    words = np.frombuffer(data, "<u4", pairs_words + window_words, begin)
    return num_coupons, num_pairs, words[window_words:], words[:window_words]


def _window_of(lg_k: int, num_coupons: int) -> tuple[int, int | None]:
    """First column of the window and the number of its code; None without window."""
    if 2 * num_coupons < 1 << lg_k:
        return 0, None
    if lg_k > _WINDOW_LG_K_MAX or num_coupons > _WINDOW_COUPONS_MAX:
        raise DecodeError(
            f"{num_coupons} coupons of 2^{lg_k} rows are more than is read: at most {_WINDOW_COUPONS_MAX} of "
            f"2^{_WINDOW_LG_K_MAX}"
        )
    offset = max(8 * num_coupons - (19 << lg_k), 0) >> (lg_k + 3)
    if offset > 56:
        raise DecodeError(f"2^{lg_k} rows cannot have {num_coupons} coupons")
    for code, (above, below) in enumerate(_MIDDLE_CODES, 16):
        if below * num_coupons < above << lg_k:
            return offset, code
    return offset, 6 if 1000 * num_coupons < 2375 << lg_k else num_coupons >> (lg_k - 4) & 15


@cache
def _codes(window: int) -> NDArray[np.uint16]:
    """The prefix codes of columns and of windows of this number, as the kernel reads them."""
    return np.stack(
        [_prefix_code(_COLUMN_LENGTHS.ljust(65, "c")), _prefix_code(_WINDOW_LENGTHS[window].ljust(256, "c"))]
    )


def _prefix_code(lengths: str) -> NDArray[np.uint16]:
    """uint16[4096]: length << 8 | value for the next 12 bits. Codes go up by length, then by value, and lie in words
    the first bit lowest.
    """
    table = np.zeros(1 << _PEEK_BITS, np.uint16)
    code = last = 0
    for length, value in sorted((int(digit, 16), value) for value, digit in enumerate(lengths)):
        code <<= length - last
        turned = int(format(code, f"0{length}b")[::-1], 2)
        table[turned :: 1 << length] = length << 8 | value
        code, last = code + 1, length
    return table


@cache
def _columns(phase: int | None) -> NDArray[np.uint8]:
    """Which column right of the window a pair's column stands for; in sliding sketches the likely ones come first."""
    if phase is None:
        return np.arange(56, dtype=np.uint8)
    last = _LAST_COLUMNS[phase]
    return np.argsort([*(number for number in range(56) if number not in last), *last]).astype(np.uint8)


# Windows of less than above/below coupons a row have the codes 16, 17 …
_MIDDLE_CODES: Final = ((3, 4), (11, 10), (132, 100), (5, 3), (1965, 1000), (2275, 1000))
_LAST_COLUMNS: Final = (
    (34, 14, 4),
    (35, 15, 4),
    (37, 16, 5),
    (39, 17, 5),
    (41, 18, 6),
    (43, 19, 6),
    (45, 20, 7, 0),
    (47, 21, 7, 0),
    (50, 22, 8, 0),
    (52, 23, 9, 1),
    (25, 9, 1),
    (26, 10, 1),
    (27, 11, 2),
    (29, 11, 2),
    (30, 12, 3),
    (32, 13, 3),
)
# Lengths of codes in bits, a hexadecimal digit for each value; all that are left out have 12.
_COLUMN_LENGTHS: Final = "12345788aab"
_WINDOW_LENGTHS: Final = (
    "95739572a684a583b7a5b795c8a6c8a6c8b6c8a6c9c7c9b7cac8cac8cbc9cbc9c9c7c9b7cac8cac8cbc9cbc9cccacccacccacccacccbcccbcccccccccccccccccac8cac8cbc9cbc9cccacccacccbcccbcccbcccb",
    "a5839572b694a683c7a5b795c8b6c8a5c8b6c8a6c9c7c9b6cac8cac8cbc9cbc9c9c7c9b7cac8cac8cbc9cbc9cccacccacccacccacccbcccbcccccccccccccccccac8cac8cbc9cbc9cccacccacccbcccbcccbcccbcccccccb",
    "a583a582b694b683c7a5c7a5c8b6c8a5c8b6c8b6c9c7c9c6cac8cac8cbc9cbc8c9c7c9c7cac8cac7cbc9cbc9cccacccacccacccacccbcccbcccccccccccccccccac8cac8cbc9cbc8cccacccacccbcccbcccbcccb",
    "b693a582c694b693c8b5c7a4c8b6c8b5c9c6c8b6c9c7c9c6cbc8cac8cbc9cbc8cac7c9c7cbc8cac7ccc9cbc9cccaccc9cccacccacccbcccbcccccccccccccccccbc8cac8ccc9cbc9cccacccacccbcccbcccbcccb",
    "b693b582c7a4b693c8b5c7a4c8b6c8b5c9c6c8b6cac7c9c6cbc8cac7cbc9cbc8cac7c9c7cbc8cac7ccc9cbc8cccaccc9cccacccacccbcccacccccccbcccccccccbc8cac8ccc9cbc8cccaccc9cccbcccacccbcccbcccccccb",
    "c693b582c7a4c693c8b5c7a4c8c6c8b5c9c6c8b6cac7c9c6cbc8cac7ccc9cbc8cac7c9c7cbc8cac7ccc9cbc8cccaccc9cccaccc9cccbcccacccccccbcccccccccbc8cac8ccc9cbc8cccaccc9cccbcccacccbcccbcccccccb",
    "63627463857496859685a796b8a7b9a8a797b8a7c9b8cab9cac9cbcacccbcccbb8a8c9b8cac9cbcacbcacccbcccccccccccbccccccccccccccccccccccccccccc9b8cac9cbcacccbcccb",
    "73627463857496859685a796b8a7c9b8a796b8a7c9b8cac9cac9cbcacccbcccbb8a7c9b8cac9cbcacbcacccbcccccccccccbcccccccccccccccccccccccccccccab9cac9cbcacccbcccb",
    "7462746385749584a685a796b8a7b8a7b796b8a7c9b8c9b8cac9cac9cccbcccbc8a7c9b8cac9cac9cbcacbcacccccccccccbcccbccccccccccccccccccccccccc9c8cac9cbcacbcacccbcccb",
    "7462746395749684a685a795b8a7c8a7b796b8a7c9b8c9b8cac9cac9cccacccbc8b7c9b8cac9cac9cbcacbcacccbcccccccbcccbccccccccccccccccccccccccc9c8cac8cbcacbcacccbcccb",
    "7462846395749684a695a795b8a7c8a7b8a6b8a6c9b8c9b8cac9cac9cbcacccac9b7c9b7cac9cac9cbcacbcacccbcccbcccbcccbccccccccccccccccccccccccc9c8cac8cbcacbcacccbcccb",
    "8462846395849684a695a795b8a6c8a7b8a6b8a6c9b8c9b8cac9cac9cbcacccac9b7c9b7cac9cac9cbcacbcacccbcccbcccbcccbcccccccccccccccccccccccccac8cac8cbc9cbcacccbcccb",
    "8462847395849684a795b795c8a6c8a6c8a6c8a6c9b7c9b7cac9cac9cbcacbcac9b7c9b7cac8cac9cbcacbcacccbcccbcccbcccbcccccccccccccccccccccccccac8cac8cbcacbcacccbcccb",
    "84738472a684a584b795b795c8a6c8a6c8a6c8a6c9b7c9b7cac8cac8cbcacbcac9b7c9b7cac8cac8cbc9cbc9cccbcccbcccbcccbcccccccccccccccccccccccccac8cac8cbc9cbc9cccbccca",
    "94739472a684a584b795b795c8a6c8a6c8a6c8a6c9b7c9b7cac8cac8cbcacbc9c9b7c9b7cac8cac8cbc9cbc9cccbcccacccacccacccccccbcccccccccccccccccac8cac8cbc9cbc9cccacccacccccccbcccbcccb",
    "94739472a684a584b795b795c8b6c8a6c8b6c8a6c9c7c9b7cac8cac8cbc9cbc9c9c7c9b7cac8cac8cbc9cbc9cccacccacccacccacccccccbcccccccccccccccccac8cac8cbc9cbc9cccacccacccccccbcccbcccb",
    "12455689689aabcc78abbccccccccccc8abccccccccccccccccccccccccccccc9accccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccab",
    "22344566567789aa67889abbabcccccc789aabccbccccccccccccccccccccccc89abbccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc9abb",
    "2243546665778899778899aaaabbcccc8799aabbbbcccccccccccccccccccccc99aabbcccccccccccccccccccccccccccccccccccccccccccccccccccccccccca9bb",
    "324354546566878776779898a9aacbcb8798a9a9babbcccccbcccccccccccccc98a9babbcbcccccccccccccccccccccccccccccccccccccccccccccccccccccca9bacbcb",
    "424354546565868676869797a8a8baba9797a8a8b9bacbcbcbcbcccccccccccca8a8b9b9cbcbccccccccccccccccccccccccccccccccccccccccccccccccccccb9b9caca",
    "535264537575868586869796a8a8b9b99797a8a7b9b9cacacacacbcbcccccccca8a8b9b9cacacbcbcbcbccccccccccccccccccccccccccccccccccccccccccccb9b9cacacbcb",
)
