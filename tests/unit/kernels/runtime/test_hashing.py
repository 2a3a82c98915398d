"""Proves that the one hash spreads keys of every kind over slots and partitions, and that the one probe finds every key
again: tables of numbers and of pairs against dictionaries of Python, hashes against the same arithmetic in numpy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import njit, uint64
from numpy.typing import NDArray

from pinotpy.kernels.runtime.abi import words
from pinotpy.kernels.runtime.byte_words import hash_bytes
from pinotpy.kernels.runtime.hashing import (
    SLOT_SHIFT,
    SLOTS_MIN,
    absorb,
    find_empty,
    find_number,
    find_pair,
    finish,
    first_slot,
    mix,
    slots_of,
    start,
    stir,
)

Longs = NDArray[np.int64]
Hashes = NDArray[np.uint64]
LONG = np.iinfo(np.int64)
MULTIPLIER, MIX = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)
ALL_BITS = (1 << 64) - 1


@njit
def _mix_all(keys: Longs, out: Hashes) -> None:
    for i in range(len(keys)):
        out[i] = mix(keys[i])


@njit
def _chain(a: int, b: int, c: int) -> Any:
    return finish(stir(absorb(start(a), b), c))


@njit
def _hash_text(address: int, length: int) -> Any:
    return hash_bytes(address, length)


@njit
def _number(keys: Longs, index: Longs, known: Longs, numbers: Longs) -> int:
    # Numbers by first appearance, as merges do.
    slots, held = words(index.ctypes.data, len(index)), words(known.ctypes.data, len(known))
    mask, count = uint64(len(index) - 1), 0
    for i in range(len(keys)):
        at = find_number(slots, first_slot(mix(keys[i]), mask), mask, held, keys[i])
        if slots[at] == 0:
            held[count] = keys[i]
            count += 1
            slots[at] = count
        numbers[i] = slots[at] - 1
    return count


@njit
def _enter(keys: Longs, table: Longs) -> None:
    slots, mask = words(table.ctypes.data, len(table)), uint64(len(table) // 2 - 1)
    for i in range(len(keys)):
        at = uint64(2) * find_pair(slots, first_slot(mix(keys[i]), mask), mask, slots, keys[i])
        slots[at], slots[at + uint64(1)] = keys[i], slots[at + uint64(1)] + 1


@njit
def _count_of(key: int, table: Longs) -> int:
    slots, mask = words(table.ctypes.data, len(table)), uint64(len(table) // 2 - 1)
    at = uint64(2) * find_pair(slots, first_slot(mix(key), mask), mask, slots, key)
    return slots[at + uint64(1)]


@njit
def _enter_new(hashes: Hashes, index: Longs) -> None:
    slots, mask = words(index.ctypes.data, len(index)), uint64(len(index) - 1)
    for i in range(len(hashes)):
        slots[find_empty(slots, first_slot(hashes[i], mask), mask, slots, hashes[i])] = i + 1


def _unmixed(hashes: Hashes) -> Longs:
    """The keys that have these hashes: every step of `mix` can be undone."""
    inverse = np.uint64(pow(int(MULTIPLIER), -1, 1 << 64))
    h = hashes * inverse
    for shift in (29, 58):
        h ^= h >> np.uint64(shift)
    return (h * inverse).view(np.int64)


def _mixed(keys: Longs) -> Hashes:
    h = keys.view(np.uint64) * MULTIPLIER
    return np.asarray((h ^ (h >> np.uint64(29))) * MULTIPLIER)


def _key_sets() -> list[tuple[str, Longs]]:
    random = np.random.default_rng(11)
    same_top = (np.uint64(0xABC) << np.uint64(52)) | random.integers(0, 1 << 52, 3000).astype(np.uint64)
    same_slot = random.integers(0, 1 << 63, 3000).astype(np.uint64) << np.uint64(40)
    return [
        ("none", np.empty(0, np.int64)),
        ("one", np.array([LONG.min])),
        ("all equal", np.full(3000, 42)),
        ("all different", random.permutation(3000)),
        ("random", random.integers(LONG.min, LONG.max, 3000)),
        ("few", random.integers(-3, 3, 3000)),
        ("strides", np.arange(3000) << 48),
        ("doubles", random.integers(0, 1000, 3000).astype(np.float64).view(np.int64)),
        ("ends", random.choice(np.array([0, -1, 1, LONG.min, LONG.max]), 3000)),
        ("equal in the top bits of the hash", _unmixed(same_top)),
        ("equal in the bits of the slot", _unmixed(same_slot)),
    ]


KEYS = pytest.mark.parametrize("keys", [keys for _, keys in _key_sets()], ids=[name for name, _ in _key_sets()])


@KEYS
def test_the_hash_is_that_of_numpy(keys: Longs) -> None:
    found = np.empty(len(keys), np.uint64)
    _mix_all(keys, found)
    assert found.tolist() == _mixed(keys).tolist()
    assert _unmixed(found).tolist() == keys.tolist()


def test_keys_of_several_words_are_hashed_one_word_after_another() -> None:
    def fold(h: int, bits: int) -> int:
        return h ^ (h >> bits)

    random = np.random.default_rng(5)
    for a, b, c in random.integers(LONG.min, LONG.max, (200, 3)).tolist():
        h = a * int(MULTIPLIER) & ALL_BITS
        h = fold((h ^ (b & ALL_BITS)) * int(MIX) & ALL_BITS, 32)
        h = (h ^ (c & ALL_BITS)) * int(MIX) & ALL_BITS
        assert int(_chain(a, b, c)) & ALL_BITS == fold(h, 29) * int(MULTIPLIER) & ALL_BITS


def test_texts_that_differ_in_one_byte_or_in_their_length_have_other_hashes() -> None:
    data = np.zeros(64, np.uint8)
    seen = {int(_hash_text(data.ctypes.data, length)) for length in range(41)}
    for at in range(40):
        data[:] = 0
        data[at] = 1
        seen |= {int(_hash_text(data.ctypes.data, length)) for length in range(at + 1, 41)}
    assert len(seen) == 41 + sum(range(1, 41))


@pytest.mark.parametrize("step", [1, 2, 1 << 20, 1 << 44, 12_345, 7_919_003])
def test_keys_in_steps_spread_over_slots_and_partitions(step: int) -> None:
    hashes = np.empty(1 << 14, np.uint64)
    _mix_all(np.arange(1 << 14) * step, hashes)
    for shift in (SLOT_SHIFT, 54):
        sizes = np.bincount(((hashes >> np.uint64(shift)) & np.uint64(1023)).astype(np.int64), minlength=1024)
        assert sizes.max() < 64, "16 are the mean"


@KEYS
@pytest.mark.parametrize("slots", ["half full", "full but for one"])
def test_numbers_are_those_of_a_dictionary(keys: Longs, slots: str) -> None:
    distinct = len(np.unique(keys))
    size = slots_of(len(keys)) if slots == "half full" else 1 << distinct.bit_length()
    keys = keys if slots == "half full" else keys[:2000]
    known, numbers = np.empty(max(distinct, 1), np.int64), np.empty(len(keys), np.int64)
    count = _number(keys, np.zeros(size, np.int64), known, numbers)
    expected: dict[int, int] = {}
    assert numbers.tolist() == [expected.setdefault(key, len(expected)) for key in keys.tolist()]
    assert known[:count].tolist() == list(expected)


def test_a_table_that_is_full_but_for_one_slot_still_ends_every_search() -> None:
    random = np.random.default_rng(3)
    keys = np.unique(random.integers(LONG.min, LONG.max, 1023))[:1023]
    numbers = np.empty(len(keys), np.int64)
    assert _number(keys, np.zeros(1024, np.int64), np.empty(1024, np.int64), numbers) == len(keys)
    assert numbers.tolist() == list(range(len(keys)))


@KEYS
def test_pairs_count_their_keys_and_know_no_others(keys: Longs) -> None:
    table = np.zeros(2 * slots_of(len(keys)), np.int64)
    _enter(keys, table)
    values, counts = np.unique(keys, return_counts=True)
    assert [_count_of(value, table) for value in values.tolist()] == counts.tolist()
    others = np.setdiff1d(np.array([0, 1, -1, LONG.max, 77_777]), keys)
    assert not any(_count_of(other, table) for other in others.tolist())


@KEYS
def test_new_keys_get_a_slot_each_from_their_first_one_on(keys: Longs) -> None:
    hashes = _mixed(np.unique(keys))
    index = np.zeros(slots_of(len(hashes)), np.int64)
    _enter_new(hashes, index)
    used = np.flatnonzero(index)
    assert sorted(index[used].tolist()) == list(range(1, len(hashes) + 1))
    for at in used.tolist():
        first = int(hashes[index[at] - 1] >> np.uint64(SLOT_SHIFT)) % len(index)
        between = np.arange(first, first + (at - first) % len(index)) % len(index)
        assert np.all(index[between] != 0)


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 1000, 1024, 1025])
def test_tables_are_at_most_half_full(count: int) -> None:
    slots = slots_of(count)
    assert slots >= max(2 * count, SLOTS_MIN) and slots & (slots - 1) == 0
    assert slots == SLOTS_MIN or slots < 4 * count
