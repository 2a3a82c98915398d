"""Small Bloom filters of the texts of each run of BLOCK docs: which runs certainly do not have a text, without reading
any.

A run has LINES lines of 64 bytes. The upper half of a text's hash names the line, and BITS bits are set in it, so that
a test touches one cache line. uint64[runs, LINES * 8], ten bits a doc: of 2,048 different texts about one run in a
hundred is read in vain.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import njit, uint64

from pinotpy.kernels.runtime.abi import BLOCK, inner
from pinotpy.kernels.runtime.byte_words import hash_bytes
from pinotpy.kernels.runtime.views import view_i64, view_u64

LINES: Final = 40
LINE_WORDS: Final = 8
RUN_WORDS: Final = LINES * LINE_WORDS
BITS: Final = 6
_SPREAD: Final = np.uint64(0xD6E8FEB86659FD93)


@inner
def _line(hashed: Any) -> Any:
    return ((hashed >> uint64(32)) * uint64(LINES) >> uint64(32)) * uint64(LINE_WORDS)


@njit(cache=True, nogil=True)
def fill_value_lists(data: int, starts_address: int, count: int, filters: Any) -> None:
    """Enter the texts of `count` docs.

    Args:
        data, starts_address: addresses of their bytes and of int64[count + 1]. filters: uint64[runs, RUN_WORDS], zeros.
    """
    starts = view_i64(starts_address, count + 1)
    for run in range(len(filters)):
        filter_words = filters[run]
        for doc in range(run * BLOCK, min((run + 1) * BLOCK, count)):
            hashed = hash_bytes(data + starts[doc], starts[doc + 1] - starts[doc])
            line, bits = _line(hashed), hashed * _SPREAD
            for _ in range(BITS):
                filter_words[line + (bits >> uint64(61))] |= uint64(1) << ((bits >> uint64(55)) & uint64(63))
                bits <<= uint64(9)


@inner
def _may_hold(filters: int, run: int, hashed: Any) -> Any:
    filter_words = view_u64(filters + run * (RUN_WORDS * 8), RUN_WORDS)
    line, bits = _line(hashed), hashed * _SPREAD
    holds = uint64(1)
    for _ in range(BITS):
        holds &= filter_words[line + (bits >> uint64(61))] >> ((bits >> uint64(55)) & uint64(63))
        bits <<= uint64(9)
    return holds != 0


@inner
def may_hold(filters: int, low: int, high: int, hashed: Any) -> Any:
    """Whether a doc of [low, high) may have a text with this hash (byte_words.hash_bytes); filters: address of all
    runs.
    """
    for run in range(low // BLOCK, (high + BLOCK - 1) // BLOCK):  # noqa: SIM110  # compiled code has no any()
        if _may_hold(filters, run, hashed):
            return True
    return False


@njit(cache=True, nogil=True)
def hash_text(data: int, size: int) -> Any:
    """The hash of the text at an address, as its 64 bits."""
    return np.int64(hash_bytes(data, size))


def warm() -> None:
    """Compile, or load from the cache, what queries call from Python."""
    zeros = np.zeros(2, np.int64)
    fill_value_lists(zeros.ctypes.data, zeros.ctypes.data, 1, np.zeros((1, RUN_WORDS), np.uint64))
    hash_text(zeros.ctypes.data, 0)
