"""Proves that distinct counts by bits of shared codes are those of the rows: every type of value, nulls, several
threads, in groups and without; and that sets which would take too much memory are not bits.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from group_harness import Cells, Column, answer, build, check, expected, make_context, run

from pinotpy.data_types import DataType as D
from pinotpy.kernels.aggregate import distinct_bitmaps as kernels
from pinotpy.query.aggregate import distinct_bitmaps
from pinotpy.query.group import ungrouped
from pinotpy.query.plan import build as scan
from pinotpy.query.runtime.kernel_threads import KernelThreads
from pinotpy.segment.shared_codes.cache import SharedDictionaries

COLUMNS = [
    Column("k", D.STRING),
    Column("g", D.INT),
    Column("i", D.INT),
    Column("l", D.LONG),
    Column("d", D.DOUBLE),
    Column("s", D.STRING),
]
CALLS = [("distinctcount", name) for name in ("i", "l", "d", "s", "k")]


def _cells(rng: random.Random, rows: int) -> Cells:
    pools: dict[str, list[Any]] = {
        "k": ["a", "b", "c"],
        "g": [0, 1],
        "i": rng.sample(range(-500, 500), 300),
        "l": [*rng.sample(range(100), 40), 2**63 - 1, -(2**63)],
        "d": [0.5, -1e308, float("inf"), *(rng.gauss(0, 1) for _ in range(60))],
        "s": ["", *(f"text {rng.randrange(200)}" for _ in range(100))],
    }
    return {c.name: [None if rng.random() < 0.1 else rng.choice(pools[c.name]) for _ in range(rows)] for c in COLUMNS}


@pytest.fixture(scope="module")
def parts() -> list[Cells]:
    rng = random.Random(21)
    return [_cells(rng, rows) for rows in (1, 700, 90, 2500)]


@pytest.fixture(scope="module")
def segments(parts: list[Cells], tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    folder = tmp_path_factory.mktemp("segments")
    return [build(folder, COLUMNS, part, f"s{i}") for i, part in enumerate(parts)]


@pytest.fixture(scope="module")
def executor() -> Iterator[KernelThreads]:
    with KernelThreads(3) as threads:
        yield threads


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of groups of the sets that were united, here also of few docs."""
    made: list[int] = []
    deduplicate = kernels.count_distinct

    def noted(addresses: Any, sizes: Any, starts: Any, first: int, last: int, counts: Any) -> None:
        made.append(len(counts))
        deduplicate(addresses, sizes, starts, first, last, counts)

    monkeypatch.setattr(distinct_bitmaps, "DOCS_MIN", 0)
    monkeypatch.setattr(distinct_bitmaps, "BYTES_PER_DOC", 1 << 20)
    monkeypatch.setattr(distinct_bitmaps, "WORDS_PER_DOC", 1 << 20)
    monkeypatch.setattr(distinct_bitmaps, "_STEP_WORDS", 64)
    monkeypatch.setattr(scan, "DOCS_PER_THREAD_MIN", 1)
    monkeypatch.setattr(kernels, "count_distinct", noted)
    return made


@pytest.mark.parametrize("null_handling", [False, True], ids=["plain", "nulls"])
@pytest.mark.parametrize("keys", [[], ["k"], ["k", "g"]], ids=["one group", "k", "k+g"])
@pytest.mark.parametrize("threads", [1, 3])
def test_sets_of_bits_are_the_sets_of_the_rows(
    segments: list[Any],
    parts: list[Cells],
    executor: KernelThreads,
    counted: list[int],
    keys: list[str],
    null_handling: bool,
    threads: int,
) -> None:
    dictionaries = SharedDictionaries(in_background=False)
    context = make_context(COLUMNS, CALLS, keys, null_handling=null_handling)
    joined = {c.name: [value for part in parts for value in part[c.name]] for c in COLUMNS}
    wanted = expected(COLUMNS, joined, CALLS, keys, null_handling=null_handling)
    for _ in range(2):  # shared codes are made by the first
        partial = run(context, segments, threads=threads, executor=executor, dictionaries=dictionaries, is_final=True)
        check(answer(context, [partial]), wanted, len(keys))
    # Without groups and nulls the dictionaries answer.
    assert bool(counted) == bool(keys or null_handling)


@pytest.mark.parametrize("keys", [[], ["k"]], ids=["one group", "k"])
def test_ids_that_were_appended_later_do_not_ascend_and_count_once(
    segments: list[Any], parts: list[Cells], counted: list[int], keys: list[str]
) -> None:
    dictionaries = SharedDictionaries(in_background=False)
    context = make_context(COLUMNS, CALLS, keys, null_handling=True)
    for chosen in ([1], [3, 1], [0, 1, 2, 3]):
        joined = {c.name: [value for i in chosen for value in parts[i][c.name]] for c in COLUMNS}
        for _ in range(2):
            partial = run(context, [segments[i] for i in chosen], dictionaries=dictionaries, is_final=True)
            check(answer(context, [partial]), expected(COLUMNS, joined, CALLS, keys, null_handling=True), len(keys))
    assert counted


@pytest.mark.parametrize("limit", ["BYTES_PER_DOC", "WORDS_PER_DOC"])
def test_sets_that_are_larger_than_the_values_of_their_docs_are_not_bits(
    segments: list[Any], counted: list[int], monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(distinct_bitmaps, limit, 0)
    dictionaries = SharedDictionaries(in_background=False)
    context = make_context(COLUMNS, CALLS, ["k"])
    for _ in range(2):
        run(context, segments, dictionaries=dictionaries, is_final=True)
    assert not counted


@pytest.mark.parametrize("threads", [1, 3])
def test_dictionaries_that_are_numbered_together_are_counted_by_their_ids(
    segments: list[Any], parts: list[Cells], executor: KernelThreads, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    monkeypatch.setattr(ungrouped, "_DEDUPLICATED_VALUES_MIN", 0)
    monkeypatch.setattr(scan, "DOCS_PER_THREAD_MIN", 1)
    flagged: list[int] = []
    count = kernels.count_flagged

    def noted(flags: Any) -> int:
        flagged.append(flags.shape[1])
        return count(flags)

    monkeypatch.setattr(kernels, "count_flagged", noted)
    dictionaries = SharedDictionaries(in_background=False)
    context = make_context(COLUMNS, CALLS, [])
    # The shared dictionary knows values of segments that are not asked for any more.
    for first in (0, 1, 2):
        joined = {c.name: [value for part in parts[first:] for value in part[c.name]] for c in COLUMNS}
        partial = run(
            context, segments[first:], threads=threads, executor=executor, dictionaries=dictionaries, is_final=True
        )
        check(answer(context, [partial]), expected(COLUMNS, joined, CALLS, [], null_handling=False), 0)
    assert len(flagged) == 3 * len(CALLS)
    # Sets that will be united with others travel as values.
    partial = run(context, segments[:2], threads=threads, executor=executor, dictionaries=dictionaries)
    joined = {c.name: [value for part in parts[:2] for value in part[c.name]] for c in COLUMNS}
    check(answer(context, [partial]), expected(COLUMNS, joined, CALLS, [], null_handling=False), 0)
    assert len(flagged) == 3 * len(CALLS)
