"""The result context of one thread: where select functions keep groups and their states.

Layout (int64 words, G_*), the same for aggregations without groups (one group, number 0) and with them:

 - **table**: one row a group, G_ROW_WORDS words: word 0 counts the group's rows, then the slots of the aggregations.
   A row of zeros is an untouched group: every state is laid out so that zero means "nothing seen". Between units the
   whole table is zero. Dense tables are indexed by the packed key of dict ids; hashed ones by order of appearance.
 - **pages**: a dense table marks every PAGE groups that it touches, so that ending a unit costs what was touched.
 - **keys, index, key block**: of hashed groups only; see group/hash_table.py.
 - **overflow**: parts of double sums outside the main window; see exact_sums.py.
 - **arena**: what units left behind: rows of [keys …, slots …] (row count first among the slots). `morsels` says which
   rows are of which unit: (unit, first row).
 - **overflow arena**: (arena row, slot, window, low word, high word).
 - **limit**: rows of new keys go to one row behind the limit's, which is no group.
 - **pool, streams, chunks**: rows that wait for their groups, by parts; see group/radix_partition.py.
 - **value sets**: (group, value) pairs, a block of SET_WORDS words for each; see value_sets.py.

A kernel reaches it at state[S_USER]. Python owns it through `ResultContext`, which frees everything.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any, Final

import numpy as np
from numba import njit

from pinotpy.arrays import Int64Array
from pinotpy.kernels.runtime.abi import BLOCK, S_USER, words
from pinotpy.kernels.runtime.growable import POOL_WORDS, V_ADDRESS, V_USED, VECTOR_WORDS, release, release_pool

G_CONTROL: Final = 0  # address of the query's control block
G_ROW_WORDS: Final = 1
G_KEY_WORDS: Final = 2  # words of a group's key in the arena (0 without groups)
G_NUM_GROUPS: Final = 3  # hashed: groups of the unit; dense: size of the unit's table
G_INDEX_MASK: Final = 4  # hashed: entries of the index - 1
G_OVERFLOW_MASK: Final = 5
G_OVERFLOW_USED: Final = 6
G_SIZES: Final = 7  # address of the unit's id ranges, one a key column (dense)
G_TABLE: Final = 8  # vectors from here on, VECTOR_WORDS each
G_PAGES: Final = 11
G_KEYS: Final = 14
G_INDEX: Final = 17
G_KEY_BLOCK: Final = 20
G_OVERFLOW: Final = 23
G_ARENA: Final = 26
G_MORSELS: Final = 29
G_OVERFLOW_ARENA: Final = 32
G_SCRATCH: Final = 35
G_STREAMS: Final = 38
G_CHUNKS: Final = 41
G_PARTITION_SHIFT: Final = 44  # 64 - log2 of the parts
G_PARTITION_WORDS: Final = 45  # of a dealt row
G_PARTITION_MAX: Final = 46  # bytes that wait before somebody has to take them
G_POOL: Final = 48  # a pool, POOL_WORDS
G_LIMIT: Final = 54  # hashed: at most so many groups of a table, 0 = any number
G_CUT_ROWS: Final = 55  # rows whose groups were beyond it
G_CUT: Final = 56  # vector: arena rows that stand for all groups of their unit beyond it
G_SETS: Final = 59  # then SET_WORDS words a value set

SET_WORDS: Final = 26
D_TABLE: Final = 0  # vector: a byte or a u32 for every (group, dict id) of the unit, zero between units
D_ARENA: Final = 3  # vector: entries, see distinct_pairs.py
D_FIRST: Final = 6  # words of the arena before the unit at hand
D_COUNTS: Final = 7  # 1: how often a value was seen counts
D_CARDINALITY: Final = 8  # dict ids a group where pairs are addressed directly, 0 where they are appended
D_LOG2M: Final = 9  # of HyperLogLog registers
D_REGISTERS: Final = 10  # vector: [arena row, registers …], see sketch/hyperloglog.py
D_STREAMS: Final = 13  # vectors of runs of values, see value_lists.py
D_RUNS: Final = 16
D_RUN_WORDS: Final = 19
D_POOL: Final = 20

_VECTORS: Final = (
    G_TABLE,
    G_PAGES,
    G_KEYS,
    G_INDEX,
    G_KEY_BLOCK,
    G_OVERFLOW,
    G_ARENA,
    G_MORSELS,
    G_OVERFLOW_ARENA,
    G_SCRATCH,
    G_STREAMS,
    G_CHUNKS,
    G_CUT,
)
SCRATCH_WORDS: Final = 4 * BLOCK
PAGE_SHIFT: Final = 6  # groups a page, as a power of two


@njit(nogil=True, inline="always")
def context_of(state: Any) -> Any:
    """The thread's context words; value sets lie behind them."""
    return words(state[S_USER], G_SETS)


@njit(nogil=True, inline="always")
def vector_at(context: Any, word: int) -> Any:
    return context[word : word + VECTOR_WORDS]


@njit(cache=True, nogil=True)
def _release_all(context: Any, vectors: Any, pools: Any) -> None:
    for word in vectors:
        release(context[G_CONTROL], context[word : word + VECTOR_WORDS])
    for word in pools:
        release_pool(context[G_CONTROL], context[word : word + POOL_WORDS])


@cache
def _vectors_and_pools(num_sets: int) -> tuple[Int64Array, Int64Array]:
    """Where the vectors and the pools of a context are."""
    sets = [
        G_SETS + i * SET_WORDS + part
        for i in range(num_sets)
        for part in (D_TABLE, D_ARENA, D_REGISTERS, D_STREAMS, D_RUNS)
    ]
    pools = [G_POOL, *(G_SETS + i * SET_WORDS + D_POOL for i in range(num_sets))]
    return np.array([*_VECTORS, *sets], np.int64), np.array(pools, np.int64)


class ResultContext:
    """Owner of one thread's context.

    Args:
        control: the query's control words (kept alive; memory is charged to it).
        row_words: words of a group's row, the row count included.
        key_words: words of a group's key.
        num_sets: number of value sets.
    """

    def __init__(self, control: Int64Array, row_words: int, key_words: int = 0, num_sets: int = 0) -> None:
        self.words = np.zeros(G_SETS + num_sets * SET_WORDS, np.int64)
        self.words[G_CONTROL] = control.ctypes.data
        self.words[G_ROW_WORDS] = row_words
        self.words[G_KEY_WORDS] = key_words
        self.address: int = self.words.ctypes.data
        # Held so that the charged words live as long as the memory that they account for.
        self._control = control
        self._num_sets = num_sets
        self._is_open = True

    def close(self) -> None:
        """Free what kernels took; a second call does nothing."""
        if self._is_open:
            self._is_open = False
            _release_all(self.words, *_vectors_and_pools(self._num_sets))

    def __del__(self) -> None:
        self.close()

    def vector(self, word: int) -> Int64Array:
        """The used words of a vector as an array over its memory: valid until the next kernel call or close()."""
        address, used = int(self.words[word + V_ADDRESS]), int(self.words[word + V_USED])
        return _as_array(address, used) if used else np.empty(0, np.int64)

    def words_at(self, word: int, count: int) -> Int64Array:
        """The first `count` words of a vector, whatever of it is in use; as long-lived as `vector`."""
        return _as_array(int(self.words[word + V_ADDRESS]), count) if count else np.empty(0, np.int64)

    def arena(self) -> Int64Array:
        """Rows left by units: int64[rows, key words + row words]."""
        width = int(self.words[G_KEY_WORDS] + self.words[G_ROW_WORDS])
        return self.vector(G_ARENA).reshape(-1, width)

    def morsels(self) -> Int64Array:
        """(unit, first arena row) of every unit that left rows, in order."""
        return self.vector(G_MORSELS).reshape(-1, 2)


def _as_array(address: int, count: int) -> Int64Array:
    return np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(ctypes.c_int64)), (count,))
