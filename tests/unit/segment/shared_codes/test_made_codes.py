"""Proves that codes which a query makes depend on the dictionaries it reads alone: not on others that are mapped, nor
on room in the budget; that they are accounted for while they are made; and that a query which is stopped leaves the
rest to the background.
"""

from __future__ import annotations

import gc
import random
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from pinotpy.data_types import DataType
from pinotpy.errors import QueryTimeoutError
from pinotpy.segment.data_source import Dictionary
from pinotpy.segment.dictionary import FixedDictionary, VarDictionary
from pinotpy.segment.shared_codes.cache import SharedDictionaries, build_bytes
from pinotpy.segment.shared_codes.dictionary import InTurn, SharedCodes


class _Query(InTurn):
    """Accounts for memory; stops after so many jobs."""

    def __init__(self, jobs_max: int = 1 << 30) -> None:
        self.jobs_left, self.used, self.most = jobs_max, 0, 0

    def run(self, jobs: Sequence[Callable[[], None]]) -> None:
        for job in jobs:
            self.jobs_left -= 1
            self.check()
            job()

    def check(self) -> None:
        if self.jobs_left < 0:
            raise QueryTimeoutError("late")

    def reserve(self, size_bytes: int) -> None:
        self.used += size_bytes
        self.most = max(self.most, self.used)

    def release(self, size_bytes: int) -> None:
        self.used -= size_bytes


def _longs(values: Sequence[int]) -> Dictionary:
    return FixedDictionary(np.array(sorted(set(values)), np.int64))


def _texts(values: Sequence[int]) -> Dictionary:
    ordered = sorted({f"text {value}".encode() for value in values})
    offsets = np.concatenate([[0], np.cumsum([len(value) for value in ordered])]).astype(np.int32)
    return VarDictionary(offsets, np.frombuffer(b"".join(ordered), np.uint8))


def _make(cache: SharedDictionaries, dictionaries: Sequence[Dictionary], work: Any = None) -> SharedCodes | None:
    data_type = DataType.STRING if isinstance(dictionaries[0], VarDictionary) else DataType.LONG
    return cache.make("table", "c", data_type, dictionaries, work or InTurn())


def _codes(found: SharedCodes | None, dictionaries: Sequence[Dictionary]) -> dict[Any, int]:
    """Code of every value; asserts that all codes are used, and decode to their values."""
    assert found is not None
    codes: dict[Any, int] = {}
    for which, dictionary in enumerate(dictionaries):
        ids = found._held[which].ids
        assert found.code_maps[which] == ids.ctypes.data
        assert bool(found.ascending[which]) == bool((np.diff(ids) > 0).all())
        assert found.values(ids).to_pylist() == dictionary.arrow().to_pylist()
        for value, code in zip(dictionary.arrow().to_pylist(), ids.tolist(), strict=True):
            assert codes.setdefault(value, code) == code
    assert sorted(codes.values()) == list(range(found.num_ids))
    return codes


@pytest.mark.parametrize("kind", [_longs, _texts])
@pytest.mark.parametrize("seed", range(4))
def test_codes_number_the_values_of_the_asked_dictionaries_and_no_others(
    kind: Callable[[Sequence[int]], Dictionary], seed: int
) -> None:
    rng = random.Random(seed)
    all_of_them = [kind([rng.randrange(2_000) for _ in range(rng.randint(1, 600))]) for _ in range(7)]
    cache = SharedDictionaries(in_background=False)
    for _ in range(25):
        asked = rng.sample(all_of_them, rng.randint(1, 7))
        found = _make(cache, asked)
        assert _codes(found, asked).keys() == _codes(_make(SharedDictionaries(), asked), asked).keys()
        again = _make(cache, asked)
        assert again is not None and found is not None and again.num_ids == found.num_ids


def test_codes_of_some_dictionaries_go_when_one_is_gone() -> None:
    cache = SharedDictionaries(in_background=False)
    dictionaries = [_longs(range(first, first + 1_000)) for first in (0, 500, 5_000)]
    _make(cache, dictionaries)
    before = cache.nbytes
    _make(cache, dictionaries[:2])
    assert cache.nbytes == before + 1_500 * 4 + 2_000 * 4
    del dictionaries[2]
    gc.collect()
    assert cache.nbytes == before - 4_000
    assert _codes(_make(cache, dictionaries), dictionaries)


def test_a_column_that_does_not_fit_has_no_codes_ever_and_one_that_fits_has_them_always() -> None:
    dictionaries = [_longs(range(first, first + 1_000)) for first in (0, 2_000, 4_000)]
    one = 2_000 * 8 + 2_000 * 4  # values and code maps of two of them
    cache = SharedDictionaries(one, in_background=False)
    for _ in range(3):
        assert _make(cache, dictionaries) is None and cache.nbytes <= one
        for pair in (dictionaries[:2], dictionaries[1:]):  # together they would not fit
            assert _codes(_make(cache, pair), pair) and cache.nbytes <= one
        other = cache.make("table", "other", DataType.LONG, dictionaries[:2], InTurn())
        assert _codes(other, dictionaries[:2]) and cache.nbytes <= one
    assert _make(SharedDictionaries(0), dictionaries) is None


def test_memory_is_reserved_while_codes_are_made_and_given_back() -> None:
    cache, query = SharedDictionaries(in_background=False), _Query()
    dictionaries = [_texts(range(first, first + 50)) for first in (0, 25)]
    assert _make(cache, dictionaries, query) is not None
    assert query.used == 0 and query.most == build_bytes(DataType.STRING.stored, dictionaries) > 0
    known = _Query()
    assert _make(cache, dictionaries, known) is not None and known.most == 0


@pytest.mark.parametrize("jobs_max", [0, 3, 4, 6, 8])
def test_a_query_that_is_stopped_leaves_the_rest_to_the_background(jobs_max: int) -> None:
    cache, query = SharedDictionaries(in_background=False), _Query(jobs_max)
    dictionaries = [_longs(range(first, first + 100)) for first in (0, 50, 70)]  # 3 are read, 2 united, 3 mapped
    if jobs_max < 8:
        with pytest.raises(QueryTimeoutError):
            _make(cache, dictionaries, query)
        assert query.used == 0 and cache.build_waiting() == 1
    assert _codes(_make(cache, dictionaries, query if jobs_max == 8 else _Query(0)), dictionaries)


def test_queries_at_once_make_the_same_codes_once() -> None:
    cache, found = SharedDictionaries(in_background=False), list[SharedCodes | None]()
    dictionaries = [_longs(range(first, first + 20_000, 3)) for first in range(0, 40_000, 1_000)]
    threads = [threading.Thread(target=lambda: found.append(_make(cache, dictionaries))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({one.code_maps.tobytes() for one in found if one is not None}) == 1 and len(found) == 4
    assert _codes(found[0], dictionaries)
