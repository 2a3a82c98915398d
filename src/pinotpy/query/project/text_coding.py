"""Numbering the texts of a raw column: docs are dealt in runs to parts by the hash of their text, and every part is
numbered by itself (kernels/text/text_codes.py); in waves, so that what lies between the two steps stays small however
many docs there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.errors import QueryExecutionError
from pinotpy.kernels.runtime import abi
from pinotpy.kernels.text import text_codes as kernels
from pinotpy.query.runtime.parallel import Team, run_pieces

Ids = NDArray[np.uint32]
# Docs that are dealt at once, a step of a thread, and in all runs of a wave.
RUN_DOCS: Final = 1 << 17
WAVE_DOCS: Final = 1 << 22
# About so many docs a part: of texts that repeat, its table fits a cache.
PART_DOCS: Final = 1 << 15
HASH_MASK: Final = 2**64 - 1
# Numbers are dict ids, and one more may be that of null.
NUMBERS_MAX: Final = 2**31 - 2
_RUN_BYTES: Final = kernels.ENTRY_WORDS * 8 + 4  # of a doc
_NO_DOCS: Final = np.zeros(0, np.int32)


@dataclass(frozen=True, slots=True)
class Run:
    """Docs of a segment: those listed (int32), or `count` from `first` on."""

    segment: int
    listed: NDArray[np.int32]
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class Numbered:
    """tables: of every part its distinct entries and how many there are; a number is a place in it * parts + part. ids:
    by segment uint32[num_docs], written at the docs of the runs.
    """

    tables: list[tuple[NDArray[np.uint64], int]]
    ids: dict[int, Ids]


def runs_of(segment: int, listed: NDArray[np.int32] | None, count: int) -> list[Run]:
    """Docs of a segment in runs; None: all of them."""
    docs = _NO_DOCS if listed is None else listed
    return [
        Run(segment, docs[first : first + RUN_DOCS], first, min(RUN_DOCS, count - first))
        for first in range(0, count, RUN_DOCS)
    ]


def number_runs(
    team: Team,
    metas: Int64Array,
    runs: Sequence[Run],
    num_docs: Mapping[int, int],
    *,
    with_ids: bool = True,
    hash_mask: int = HASH_MASK,
) -> Numbered:
    """Number the texts of runs.

    Args:
        metas: int64[segments, META_WORDS]. num_docs: of every segment of the runs.
        hash_mask: bits of hashes that count; for tests.

    Raises: what the control raises; QueryExecutionError for more distinct texts than there are numbers.
    """
    docs = sum(run.count for run in runs)
    parts = min(1 << max((docs // PART_DOCS).bit_length() - 1, 0), kernels.PARTS_MAX)
    numbering = _Numbering(team, metas, runs, num_docs, parts, hash_mask).numbered(with_ids)
    if numbering is None:  # so uneven are parts of texts that were made for it
        numbering = _Numbering(team, metas, runs, num_docs, 1, hash_mask).numbered(with_ids)
    if numbering is None:
        raise QueryExecutionError(
            f"a query tells at most {NUMBERS_MAX} texts of a column without a dictionary apart: select fewer rows"
        )
    return numbering


def run_coding(team: Team, pieces: Sequence[Callable[[], None]]) -> None:
    """All pieces, in turn with other queries; a few docs are not worth another thread."""
    run_pieces(team, pieces, in_turn=len(pieces) > 1)


class _Numbering:
    """Numbering at work."""

    def __init__(
        self,
        team: Team,
        metas: Int64Array,
        runs: Sequence[Run],
        num_docs: Mapping[int, int],
        parts: int,
        hash_mask: int,
    ) -> None:
        self._team, self._metas, self._runs, self._num_docs = team, metas, runs, num_docs
        self._parts, self._hash_mask = parts, np.uint64(hash_mask)
        self._tables = [(np.zeros(0, np.uint64), np.zeros(0, np.uint32), 0)] * parts
        self._ids: dict[int, Ids] = {}

    def numbered(self, with_ids: bool) -> Numbered | None:
        """None: a number would be too large."""
        control = self._team.control
        if with_ids:
            control.reserve(sum(self._num_docs.values()) * 4)
            self._ids = {segment: np.empty(count, np.uint32) for segment, count in self._num_docs.items()}
        wave = max(1, WAVE_DOCS // RUN_DOCS)
        rows, width = min(wave, len(self._runs)), max((run.count for run in self._runs), default=0)
        size_bytes = rows * width * _RUN_BYTES
        try:
            control.reserve(size_bytes)
            entries, docs = np.empty((rows, width * kernels.ENTRY_WORDS), np.uint64), np.empty((rows, width), np.uint32)
            for first in range(0, len(self._runs), wave):
                self._number(self._runs[first : first + wave], entries, docs)
                if max(count for *_, count in self._tables) * self._parts > NUMBERS_MAX:
                    return None
        finally:
            control.release(size_bytes)
        return Numbered([(table, count) for table, _, count in self._tables], self._ids)

    def _number(self, runs: Sequence[Run], entries: NDArray[np.uint64], docs: Ids) -> None:
        ends = np.zeros((len(runs), self._parts + 1), np.int64)
        words = np.zeros((len(runs), kernels.RUN_WORDS), np.int64)
        run_coding(
            self._team,
            [partial(self._partition, run, entries[i], docs[i], ends[i], words[i]) for i, run in enumerate(runs)],
        )
        run_coding(self._team, [partial(self._number_part, part, words, ends) for part in range(self._parts)])

    def _partition(self, run: Run, entries: NDArray[np.uint64], docs: Ids, ends: Int64Array, words: Int64Array) -> None:
        meta, hashes = self._metas[run.segment], np.empty(run.count, np.uint64)
        kernels.partition_texts(
            int(meta[abi.M_DATA]),
            int(meta[abi.M_RAW_OFFSETS]),
            run.listed,
            run.first,
            self._hash_mask,
            hashes,
            entries,
            docs,
            ends,
        )
        ids = self._ids[run.segment].ctypes.data if self._ids else 0
        words[:] = entries.ctypes.data, docs.ctypes.data, ids, self._num_docs[run.segment]

    def _number_part(self, part: int, words: Int64Array, ends: Int64Array) -> None:
        table, index, count = self._tables[part]
        held = table.nbytes + index.nbytes
        table, index, count = self._tables[part] = kernels.number_part(words, ends, part, table, index, count)
        self._team.control.reserve(table.nbytes + index.nbytes - held)
