"""Proves that groups made of rows that the scan deals to parts are those of the rows, with every kind of key and
update, on any number of threads, also where the pool is too small for all rows; that no row is lost on the way to its
part, whatever the keys are; and that of a ranking all groups arrive that the answer shows.
"""

from __future__ import annotations

import ctypes
import itertools
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from group_harness import Cells, Column, answer, build, check, cut, expected, forcing, make_context, run

from pinotpy.data_types import DataType as D
from pinotpy.errors import MemoryLimitError, QueryCancelledError, QueryTimeoutError
from pinotpy.kernels.aggregate.result_context import (
    G_KEY_BLOCK,
    G_PARTITION_MAX,
    G_PARTITION_SHIFT,
    G_PARTITION_WORDS,
    ResultContext,
)
from pinotpy.kernels.group import radix_partition as kernels
from pinotpy.kernels.runtime import abi
from pinotpy.pql.ast import Identifier
from pinotpy.query.group import radix_partition
from pinotpy.query.model.context import AggregationRef, OrderBy
from pinotpy.query.model.grouping_method import GroupingMethod
from pinotpy.query.plan import build as scan
from pinotpy.query.runtime.control import QueryControl
from pinotpy.query.runtime.kernel_threads import KernelThreads
from pinotpy.segment.shared_codes.cache import SharedDictionaries

COLUMNS = [
    Column("i", D.INT),
    Column("l", D.LONG),
    Column("s", D.STRING),
    Column("m", D.STRING, single_value=False),
    Column("d", D.DOUBLE, raw=True),
    Column("v", D.LONG, raw=True),
]
LONG = np.iinfo(np.int64)
DOUBLES = [0.1, -0.0, 0.0, 1e300, -1e300, 5e-324, float("inf"), 1e16, -7.25]
LONGS = [0, 1, -1, LONG.min, LONG.max, 1 << 40]
CALLS = [
    ("count", "*"),
    ("sum", "d"),
    ("avg", "d"),
    ("min", "d"),
    ("sum", "v"),
    ("max", "v"),
    ("count", "s"),
    ("max", "i"),
    ("minmaxrange", "l"),
]
PARTITIONED = forcing(GroupingMethod.RADIX_PARTITION)
KEYS = [["i"], ["s"], ["i", "s"], ["l", "s", "i"], ["m"], ["m", "i"]]


def _cells(rng: random.Random, rows: int) -> Cells:
    pools: dict[str, list[Any]] = {
        "i": rng.sample(range(-40, 40), 30),
        "l": [*rng.sample(range(50), 9), LONG.max, LONG.min],
        "s": rng.sample([f"text {i}" for i in range(40)], 25),
        "m": ["x", "y", "z"],
        "d": DOUBLES,
        "v": LONGS,
    }
    cells: Cells = {}
    for column in COLUMNS:
        pool = pools[column.name]
        one = (
            (lambda pool=pool: rng.choice(pool))
            if column.single_value
            else (lambda pool=pool: [rng.choice(pool) for _ in range(rng.randint(0, 3))])
        )
        cells[column.name] = [None, *(None if rng.random() < 0.1 else one() for _ in range(rows - 1))]
    return cells


@pytest.fixture(scope="module")
def parts() -> list[Cells]:
    rng = random.Random(5)
    return [_cells(rng, rows) for rows in (2, 300, 40, 700)]


@pytest.fixture(scope="module")
def segments(parts: list[Cells], tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    folder = tmp_path_factory.mktemp("segments")
    return [build(folder, COLUMNS, part, f"s{i}") for i, part in enumerate(parts)]


@pytest.fixture(scope="module", params=["pool", "kernel threads"])
def executor(request: pytest.FixtureRequest) -> Iterator[Any]:
    with ThreadPoolExecutor(4) if request.param == "pool" else KernelThreads(3) as pool:
        yield pool


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes inside the method, for few rows."""
    monkeypatch.setattr(scan, "DOCS_PER_THREAD_MIN", 1)
    for name, value in (("PARTITIONED_ROWS_MIN", 0), ("PART_DOCS", 64), ("PART_BITS_MIN", 1), ("_STEP_ROWS", 100)):
        monkeypatch.setattr(radix_partition, name, value)


@pytest.mark.parametrize("null_handling", [False, True], ids=["plain", "nulls"])
@pytest.mark.parametrize("keys", KEYS, ids="+".join)
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("pool_bytes", [1 << 30, 1 << 16], ids=["waiting", "taken early"])
def test_groups_of_dealt_rows_are_those_of_the_rows(
    segments: list[Any], parts: list[Cells], executor: Any, monkeypatch: pytest.MonkeyPatch,
    keys: list[str], null_handling: bool, threads: int, pool_bytes: int,
) -> None:  # fmt: skip
    monkeypatch.setattr(radix_partition, "POOL_BYTES_MAX", pool_bytes)
    dictionaries = SharedDictionaries(in_background=False)
    context = make_context(COLUMNS, CALLS, keys, null_handling=null_handling, options=PARTITIONED)
    joined = {column.name: [value for part in parts for value in part[column.name]] for column in COLUMNS}
    wanted = expected(COLUMNS, joined, CALLS, keys, null_handling=null_handling)
    partial = run(context, segments, threads=threads, executor=executor, dictionaries=dictionaries)
    check(answer(context, [partial]), wanted, len(keys))


MANY = [Column("k", D.LONG), Column("g", D.INT), Column("v", D.LONG), Column("d", D.DOUBLE, raw=True)]


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    rng = random.Random(13)
    cells: Cells = {
        "k": [rng.randrange(-900, 900) * 7919 for _ in range(6000)],
        "g": [rng.randrange(3) for _ in range(6000)],
        "v": [rng.choice([0, 1, -1, 5, 2**62, -(2**62), rng.randrange(1000)]) for _ in range(6000)],
        "d": [rng.choice([0.5, -0.5, rng.gauss(0, 100)]) for _ in range(6000)],
    }
    folder = tmp_path_factory.mktemp("many")
    return [build(folder, MANY, part, f"m{i}") for i, part in enumerate(cut(cells, (1500, 3000, 6000)))]


@pytest.mark.parametrize(
    "call", [("count", "*"), *((name, column) for name in ("sum", "avg", "min", "max") for column in ("v", "d"))]
)
@pytest.mark.parametrize("ascending", [False, True], ids=["descending", "ascending"])
def test_of_a_ranking_all_groups_arrive_that_are_shown_and_few_others(
    many: list[Any], monkeypatch: pytest.MonkeyPatch, call: tuple[str, str], ascending: bool
) -> None:
    monkeypatch.setattr(radix_partition, "PART_DOCS", 2048)
    dictionaries = SharedDictionaries(in_background=False)
    order = (OrderBy(AggregationRef(0), ascending=ascending), OrderBy(Identifier("k")), OrderBy(Identifier("g")))
    context = make_context(MANY, [call], ["k", "g"], options=PARTITIONED)
    context = replace(context, limit=7, offset=5, order_by=order)
    everything = run(context, many, dictionaries=dictionaries)
    alone = run(context, many, dictionaries=dictionaries, is_final=True)
    assert answer(context, [alone]) == answer(context, [everything])
    assert everything.rows is not None and alone.rows is not None
    if call in (("sum", "d"), ("avg", "d")):  # few ties
        assert alone.rows.num_rows < everything.rows.num_rows / 2
    without_limit = replace(context, limit=1 << 40)  # so many groups are no number to hold memory for
    assert answer(without_limit, [run(without_limit, many, dictionaries=dictionaries, is_final=True)]) == answer(
        without_limit, [everything]
    )


def test_a_query_that_is_stopped_or_needs_too_much_ends_with_its_error(many: list[Any]) -> None:
    dictionaries = SharedDictionaries(in_background=False)
    context = make_context(MANY, [("sum", "v")], ["k", "g"], options=PARTITIONED)
    used = QueryControl(memory_max_bytes=64 << 20)
    run(context, many, dictionaries=dictionaries, control=used)
    assert used.grouping_methods == [GroupingMethod.RADIX_PARTITION.value]
    with pytest.raises(MemoryLimitError, match=r"pinot.server.query.memory.maxBytes"):
        run(context, many, dictionaries=dictionaries, control=QueryControl(memory_max_bytes=300_000))
    late, cancelled = QueryControl(deadline_ns=1), QueryControl()
    cancelled.cancel()
    with pytest.raises(QueryTimeoutError):
        run(context, many, dictionaries=dictionaries, control=late)
    with pytest.raises(QueryCancelledError):
        run(context, many, dictionaries=dictionaries, control=cancelled)


def _rows(address: int, count: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Rows of three words."""
    return np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(ctypes.c_int64)), (count, 3))


@pytest.mark.parametrize(
    "keys",
    [
        np.zeros(0, np.int64),
        np.array([LONG.min]),
        np.full(5000, 77),
        np.arange(5000) << 55,
        np.random.default_rng(3).integers(LONG.min, LONG.max, 20_000),
        np.random.default_rng(4).integers(-3, 3, 20_000),
    ],
    ids=["none", "one", "all equal", "high bits only", "random", "few"],
)
@pytest.mark.parametrize("bits", [1, 4, 10])
def test_every_row_is_dealt_once_and_equal_keys_to_one_part(
    keys: np.ndarray[Any, np.dtype[np.int64]], bits: int
) -> None:
    control = np.zeros(abi.CONTROL_WORDS, np.int64)
    context = ResultContext(control, 1, 1)
    state = abi.State(control, context.address)
    begin, deal = (np.zeros(abi.INSTRUCTION_WORDS, np.int64) for _ in range(2))
    begin[abi.I_FUNCTION], begin[abi.A0 : abi.A0 + 3] = kernels.begin_partitioning.address, (64 - bits, 3, 1 << 40)
    deal[abi.I_FUNCTION], deal[abi.A0 : abi.A0 + 4] = kernels.partition_rows.address, (1, 1, 5, 6)
    flags = (keys & 3 == 1).astype(np.uint8)
    assert kernels.begin_partitioning.ctypes(state.address, begin.ctypes.data) == abi.E_OK
    for first in range(0, len(keys), abi.BLOCK):
        block = keys[first : first + abi.BLOCK]
        state.words[abi.S_SELECTED] = len(block)
        context.words_at(G_KEY_BLOCK, len(block))[:] = block
        state.registers[5, : len(block)] = ~block
        state.registers[6].view(np.uint8)[: len(block)] = flags[first : first + abi.BLOCK]
        assert kernels.partition_rows.ctypes(state.address, deal.ctypes.data) == abi.E_OK
    assert context.words[[G_PARTITION_SHIFT, G_PARTITION_WORDS, G_PARTITION_MAX]].tolist() == [64 - bits, 3, 1 << 40]
    chunks = radix_partition.waiting_chunks(context)
    rows = [_rows(int(address), int(size)) for address, size in zip(chunks.addresses, chunks.sizes, strict=True)]
    found = np.concatenate([np.empty((0, 3), np.int64), *rows])
    order, wanted = np.argsort(found[:, 0], kind="stable"), np.sort(keys)
    assert (
        np.array_equal(found[order, 0], wanted)
        and np.array_equal(found[:, 1], ~found[:, 0])
        and np.array_equal(found[:, 2], found[:, 0] & 3 == 1)
    )
    of_part = [
        {key for part in rows[low:high] for key in part[:, 0].tolist()}
        for low, high in itertools.pairwise(chunks.starts.tolist())
    ]
    assert len(of_part) == 1 << bits and sum(map(len, of_part)) == len(np.unique(keys))
    context.close()
