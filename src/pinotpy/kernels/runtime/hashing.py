"""The hash of a 64-bit key, and the linear probe of every hash table.

A hash has good bits at the top and in the middle, whatever the keys look like: partitions take the bits from the top
(partitioning.py), slots take those from SLOT_SHIFT on, so that the keys of one partition still spread over a table.

    h = mix(key)                                 a key of one word
    h = finish(absorb(absorb(start(a), b), c))   a key of several words

Tables are open addressing: a power of two of slots, at most half full, 0 where a slot is empty. Hashes live in memory
only; nothing of them may reach a file or the wire (those have formats of their own: codec/bloom.py, sketch/).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import njit, uint64

from pinotpy.kernels.runtime.abi import inner

# Lower bits of a hash are the same for all keys that have only high ones, as doubles with few digits do.
SLOT_SHIFT: Final = 24
SLOTS_MIN: Final = 16
# Slots that hold a number + 1 beside the upper half of the hash: most keys that differ are told apart by this tag.
TAG_MASK: Final = np.uint64(0xFFFFFFFF00000000)
NUMBER_MASK: Final = np.uint64(0xFFFFFFFF)

_MULTIPLIER: Final = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio
_MIX: Final = np.uint64(0xBF58476D1CE4E5B9)  # of splitmix64


@inner
def start(word: Any) -> Any:
    """The unfinished hash of a first word."""
    return uint64(word) * _MULTIPLIER


@inner
def stir(h: Any, word: Any) -> Any:
    """An unfinished hash with one more word, before it is folded: for the last word."""
    return (h ^ uint64(word)) * _MIX


@inner
def absorb(h: Any, word: Any) -> Any:
    """An unfinished hash with one more word."""
    h = stir(h, word)
    return h ^ (h >> uint64(32))


@inner
def finish(h: Any) -> Any:
    """The hash, a uint64."""
    return (h ^ (h >> uint64(29))) * _MULTIPLIER


@inner
def mix(word: Any) -> Any:
    """The hash of a key of one word."""
    return finish(start(word))


@njit(cache=True, nogil=True)
def slots_of(count: int) -> int:
    """Slots of a table for so many keys."""
    slots = SLOTS_MIN
    while slots < 2 * count:
        slots *= 2
    return slots


@inner
def first_slot(h: Any, slot_mask: Any) -> Any:
    """The slot where the search for a key begins; slot_mask: slots - 1, as uint64."""
    return (h >> uint64(SLOT_SHIFT)) & slot_mask


def probe(holds: Any, width: int = 1, used: int = 0) -> Any:
    """The search for a slot, compiled for one kind of table: find(slots, at, slot_mask, known, key) gives the slot that
    holds the key, or the empty one where it belongs. `at`: the key's first slot; `known`: the keys that slots number.

    `slots` and `known` are views of addresses (views.py). Of arrays that Python made, references would be counted at
    every slot, which takes 40 ns; for the same reason no tuple may hold an array.

    Args:
        holds: holds(slots, at, known, key), compiled: whether slot `at` (uint64), which is not empty, holds the key: a
            word or a tuple of words.
        width: words of a slot; used: which of them is 0 where the slot is empty.
    """

    # An argument of compiled code that is a function could not be cached.
    @njit(nogil=True, inline="always")
    def find(slots: Any, slot: Any, slot_mask: Any, known: Any, key: Any) -> Any:
        while slots[slot * uint64(width) + uint64(used)] != 0 and not holds(slots, slot, known, key):
            slot = (slot + uint64(1)) & slot_mask
        return slot

    return find


@inner
def _never(slots: Any, slot: Any, known: Any, key: Any) -> Any:
    return False


@inner
def _numbers(slots: Any, slot: Any, known: Any, key: Any) -> Any:
    return known[uint64(slots[slot]) - uint64(1)] == key


@inner
def _has(slots: Any, slot: Any, known: Any, key: Any) -> Any:
    return slots[uint64(2) * slot] == key


# For a key that is not in the table yet.
find_empty: Final = probe(_never)
# Slots are a number + 1 each, `known` has the word of every number.
find_number: Final = probe(_numbers)
# Slots are pairs of words: the key, and one that is 0 where the slot is empty. `known` is not read.
find_pair: Final = probe(_has, 2, 1)
