"""Proves the numbering of a column over many segments: every dict id is mapped to an id whose value is its own, equal
values to equal ids, whatever the order in which dictionaries come; ids never change; budgets, dropped and refused
columns.
"""

from __future__ import annotations

import gc
import random
import time
from typing import Any

import numpy as np
import pytest

from pinotpy.data_types import DataType, StoredType
from pinotpy.kernels.group import shared_codes as kernel
from pinotpy.segment.data_source import Dictionary
from pinotpy.segment.dictionary import FixedDictionary, VarDictionary
from pinotpy.segment.shared_codes.cache import SharedDictionaries
from pinotpy.segment.shared_codes.dictionary import SharedCodes, SharedDictionary

INT64_EXTREMES = [-(2**63), -(2**63) + 1, -1, 0, 1, 2**63 - 1]
POOLS: dict[DataType, list[Any]] = {
    DataType.INT: [*range(-40, 40), -(2**31), 2**31 - 1],
    DataType.LONG: [*range(50), *INT64_EXTREMES],
    DataType.FLOAT: [
        float(np.float32(v)) for v in (-3e38, -1.5, -1e-45, 0.0, 1e-45, 0.1, 7.0, 3e38, float("inf"), float("-inf"))
    ],
    DataType.DOUBLE: [-1e308, -1.5, -5e-324, 0.0, 5e-324, 0.1, 7.0, 1e308, float("inf"), float("-inf")],
    DataType.STRING: [
        b"",
        b"\x00",
        b"a",
        b"ab",
        b"abc",
        b"b",
        "Zürich".encode(),
        b"\xff",
        b"\xff\xff",
        *(f"value {i}".encode() for i in range(60)),
    ],
}


def _dictionary(values: list[Any], data_type: DataType) -> Dictionary:
    ordered = sorted(set(values))
    if data_type.stored is StoredType.VAR:
        offsets = np.concatenate([[0], np.cumsum([len(value) for value in ordered])]).astype(np.int32)
        return VarDictionary(offsets, np.frombuffer(b"".join(ordered), np.uint8))
    return FixedDictionary(np.array(ordered, data_type.stored.numpy))


def _code_map(found: SharedCodes, which: int, cardinality: int) -> list[int]:
    ids = found._held[which].ids
    assert found.code_maps[which] == ids.ctypes.data and len(ids) == cardinality
    return ids.tolist()


def _check(found: SharedCodes | None, dictionaries: list[Dictionary]) -> dict[Any, int]:
    assert found is not None
    ids: dict[Any, int] = {}
    for which, dictionary in enumerate(dictionaries):
        mapped = _code_map(found, which, dictionary.cardinality)
        assert all(0 <= i < found.num_ids for i in mapped)
        assert bool(found.ascending[which]) == (mapped == sorted(set(mapped)))
        values = found.values(np.array(mapped, np.int32))
        assert values.to_pylist() == dictionary.arrow().to_pylist() and values.type == dictionary.arrow().type
        for value, number in zip(values.to_pylist(), mapped, strict=True):
            assert ids.setdefault(value, number) == number
    assert len(set(ids.values())) == len(ids)
    return ids


@pytest.mark.parametrize("data_type", POOLS)
@pytest.mark.parametrize("seed", range(6))
def test_values_keep_their_ids_whatever_is_added(data_type: DataType, seed: int) -> None:
    rng = random.Random(seed)
    numbering = SharedDictionary(data_type.stored)
    seen: list[Dictionary] = []
    before: dict[Any, int] = {}
    held = []
    for _ in range(5):
        new = [
            _dictionary(rng.sample(POOLS[data_type], rng.randint(1, len(POOLS[data_type]))), data_type)
            for _ in range(rng.randint(1, 4))
        ]
        seen += new
        numbering.add([*new, *rng.sample(seen, 1)])
        found = numbering.find(seen)
        ids = _check(found, seen)
        assert before.items() <= ids.items()
        before = ids
        held.append((found, list(seen)))
    for found, dictionaries in held:  # older views stay right
        _check(found, dictionaries)


def test_the_first_union_numbers_in_the_order_of_values() -> None:
    numbering = SharedDictionary(StoredType.LONG)
    dictionaries = [_dictionary(values, DataType.LONG) for values in ([5, 9, 100], [1, 9], INT64_EXTREMES)]
    numbering.add(dictionaries)
    found = numbering.find(dictionaries)
    assert found is not None and found.ascending.all() and numbering.num_appended == 0
    assert found.values(np.arange(found.num_ids)).to_pylist() == sorted({5, 9, 100, 1, *INT64_EXTREMES})
    numbering.add([_dictionary([7], DataType.LONG)])
    assert numbering.num_appended == 1


@pytest.mark.parametrize("size", [1, 15, 17, 3000])
def test_small_dictionaries_are_sought_in_large_ones(size: int) -> None:
    rng = np.random.default_rng(size)
    directory = np.unique(rng.integers(-(10**6), 10**6, 20_000))
    order = rng.permutation(len(directory)).astype(np.int32)
    words = np.empty_like(directory)
    words[order] = directory
    local = np.unique(
        rng.choice(np.concatenate([directory, rng.integers(-(2**62), 2**62, 50), [-(2**63), 2**63 - 1]]), size)
    )
    out = np.empty(len(local), np.int32)
    twin = {int(value): int(at) for at, value in enumerate(words)}
    expected = [twin.get(int(value), -1) for value in local]
    assert kernel.map_words(words, order, local, out) == expected.count(-1)
    assert out.tolist() == expected


def test_words_order_like_doubles_and_turn_back() -> None:
    values = np.array([float("-inf"), -1e308, -1.0, -5e-324, 0.0, 5e-324, 1.0, 1e308, float("inf")])
    words = kernel.words_of(values)
    assert (np.diff(words.astype(object)) > 0).all()
    assert kernel.values_of(words, values.dtype).tolist() == values.tolist()
    assert kernel.words_of(np.array([-0.0]))[0] == kernel.words_of(np.array([0.0]))[0]


def _find(cache: SharedDictionaries, dictionaries: list[Dictionary], column: str = "c") -> SharedCodes | None:
    return cache.find("table", column, DataType.LONG, dictionaries)


def test_a_query_never_waits_and_the_next_one_finds() -> None:
    cache = SharedDictionaries(in_background=False)
    dictionaries = [_dictionary(list(range(i, i + 50)), DataType.LONG) for i in range(4)]
    assert _find(cache, dictionaries) is None
    assert cache.build_waiting() == 1
    first = _check(_find(cache, dictionaries), dictionaries)
    more = [*dictionaries, _dictionary([0, 1000], DataType.LONG)]
    assert _find(cache, more) is None
    assert cache.build_waiting() == 1
    assert first.items() <= _check(_find(cache, more), more).items()


def test_the_builder_works_in_the_background() -> None:
    cache = SharedDictionaries()
    dictionaries = [_dictionary([1, 2], DataType.LONG), _dictionary([2, 3], DataType.LONG)]
    deadline = time.monotonic() + 60
    while (found := _find(cache, dictionaries)) is None:
        assert time.monotonic() < deadline
    _check(found, dictionaries)
    cache.close()
    assert _find(cache, dictionaries) is None and cache.nbytes == 0


def test_a_dropped_dictionary_gives_its_memory_back() -> None:
    cache = SharedDictionaries(in_background=False)
    kept, dropped = _dictionary([1, 2], DataType.LONG), _dictionary(list(range(1000)), DataType.LONG)
    _find(cache, [kept, dropped])
    cache.build_waiting()
    before = cache.nbytes
    del dropped
    gc.collect()
    assert cache.nbytes == before - 4000
    assert _find(cache, [kept]) is not None


def test_the_least_recently_asked_column_goes_first() -> None:
    dictionaries = [_dictionary(list(range(i, i + 1000)), DataType.LONG) for i in (0, 500)]
    one = SharedDictionary(StoredType.LONG)
    one.add(dictionaries)
    cache = SharedDictionaries(2 * one.nbytes + 100, in_background=False)
    for column in ("a", "b"):
        _find(cache, dictionaries, column)
        cache.build_waiting()
    held = _find(cache, dictionaries, "b")
    assert _find(cache, dictionaries, "a") is not None
    _find(cache, dictionaries, "c")
    cache.build_waiting()
    assert cache.nbytes <= 2 * one.nbytes + 100
    assert _find(cache, dictionaries, "b") is None
    _check(held, dictionaries)  # who holds ids keeps them
    assert _find(cache, dictionaries, "a") is not None and _find(cache, dictionaries, "c") is not None


@pytest.mark.parametrize("budget_bytes", [0, 1, 5000])
def test_what_does_not_fit_is_refused_once(budget_bytes: int) -> None:
    cache = SharedDictionaries(budget_bytes, in_background=False)
    dictionaries = [_dictionary(list(range(i, i + 1000)), DataType.LONG) for i in (0, 500)]
    assert _find(cache, dictionaries) is None
    cache.build_waiting()
    assert _find(cache, dictionaries) is None
    assert cache.build_waiting() == 0 and cache.nbytes <= budget_bytes


def test_a_worn_numbering_is_made_anew() -> None:
    cache = SharedDictionaries(in_background=False)
    dictionaries = [_dictionary(list(range(0, 20_000, 2)), DataType.LONG)]
    for i in range(3):
        _find(cache, dictionaries)
        cache.build_waiting()
        dictionaries.append(_dictionary(list(range(i * 5000 + 1, i * 5000 + 9000, 2)), DataType.LONG))
    _find(cache, dictionaries)
    cache.build_waiting()
    found = _find(cache, dictionaries)
    _check(found, dictionaries)
    assert found is not None and found.ascending.sum() >= 3


@pytest.mark.parametrize("data_type", POOLS)
@pytest.mark.parametrize("seed", range(4))
def test_codes_of_one_query_stand_behind_the_shared_ones(data_type: DataType, seed: int) -> None:
    rng = random.Random(seed)
    pool, numbering = POOLS[data_type], SharedDictionary(data_type.stored)

    def some() -> Dictionary:
        return _dictionary(rng.sample(pool, rng.randint(1, len(pool) // 2)), data_type)

    shared, own = [some() for _ in range(3)], [some() for _ in range(rng.randint(1, 3))]
    for dictionary in shared:
        numbering.add([dictionary])
    found = numbering.find(shared)
    codes = _check(found, shared)
    assert found is not None
    extended = found.extended(own, data_type.stored)
    assert numbering.find(own) is None and numbering.num_ids == found.num_ids
    for dictionary, code_map in zip(own, extended.code_maps, strict=True):
        ids = code_map.ids.tolist()
        assert code_map.ids.ctypes.data == code_map.address and code_map.ascending == (ids == sorted(ids))
        assert all(0 <= code < extended.num_ids for code in ids)
        values = extended.values(np.array(ids[::-1], np.int64))
        assert values.to_pylist() == dictionary.arrow().to_pylist()[::-1] and values.type == dictionary.arrow().type
        for value, code in zip(dictionary.arrow().to_pylist(), ids, strict=True):
            assert codes.setdefault(value, code) == code
    assert sorted(codes.values()) == list(range(extended.num_ids))


def test_a_fork_knows_what_was_known_and_keeps_what_it_learns_to_itself() -> None:
    first, second = (_dictionary(values, DataType.LONG) for values in ([1, 5, 9], [2, 5]))
    numbering = SharedDictionary(StoredType.LONG)
    numbering.add([first])
    forked = numbering.fork()
    forked.add([second])
    assert _check(forked.find([first, second]), [first, second])[9] == 2
    assert numbering.find([second]) is None and numbering.num_ids == 3
