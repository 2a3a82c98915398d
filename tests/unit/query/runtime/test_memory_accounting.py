"""Proves that no charge of memory is lost: threads of Python, and kernels that hold no GIL, change one word at once,
and the sum comes out exactly.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import pytest
from numba import njit

from pinotpy.errors import MemoryLimitError
from pinotpy.kernels.runtime import abi, growable
from pinotpy.query.runtime.control import MEMORY_SETTING, QueryControl
from pinotpy.query.runtime.memory_shares import SHARES_OF_CACHE, SHARES_OF_QUERY, share_of_cache

CHARGES = 50_000_000
charge = growable.charge


@njit(nogil=True)
def charges(address: int, count: int) -> None:
    """What a kernel does that takes memory and gives most of it back, again and again."""
    for _ in range(count):
        charge(address, 3)
        charge(address, -2)


@pytest.fixture
def eager_threads() -> Iterator[None]:
    """Threads of Python take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("eager_threads")
def test_kernels_and_python_never_lose_a_charge_of_each_other() -> None:
    control = QueryControl()
    address = control.words.ctypes.data
    charges(address, 0)  # compiled before the race

    kernel = threading.Thread(target=charges, args=(address, CHARGES))
    reserved = [0, 0]

    def reserve(number: int) -> None:
        while kernel.is_alive():
            control.reserve(5)
            control.release(4)
            reserved[number] += 1

    kernel.start()
    threads = [threading.Thread(target=reserve, args=(number,)) for number in range(len(reserved))]
    for thread in threads:
        thread.start()
    for thread in [kernel, *threads]:
        thread.join()
    assert min(reserved) > 0
    assert int(control.words[abi.C_MEMORY_USED]) == CHARGES + sum(reserved)


def test_what_python_reserved_counts_for_kernels_and_the_other_way_round() -> None:
    control = QueryControl(memory_max_bytes=100)
    address = control.words.ctypes.data
    control.reserve(60)
    assert growable.charge(address, 41) == abi.E_MEMORY
    assert growable.charge(address, 40) == abi.E_OK
    with pytest.raises(MemoryLimitError, match=f"more than 100 bytes.*held 101.*{MEMORY_SETTING}"):
        control.reserve(1)
    control.release(2)
    control.check()
    assert int(control.words[abi.C_MEMORY_USED]) == 99


def test_shares_are_asked_for_by_name() -> None:
    assert all(0 < share < 1 for share in [*SHARES_OF_QUERY.values(), *SHARES_OF_CACHE.values()])
    for name, share in SHARES_OF_QUERY.items():
        assert QueryControl(memory_max_bytes=1000).share(name) == 1000 * share
        assert QueryControl().share(name) == float("inf")
    assert share_of_cache("text codes", 1000) == 1000 * SHARES_OF_CACHE["text codes"]
    with pytest.raises(KeyError):
        QueryControl().share("nobody's table")
