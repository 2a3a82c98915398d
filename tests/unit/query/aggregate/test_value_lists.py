"""Proves that percentiles which look for ranks in runs of values are those of all values in order: for every type, with
nulls, filters and expressions, in groups and without, for levels from 0 to 100; that a sample which misleads costs time
and no answer; and that means of t-digests do not depend on the order of the values.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from group_harness import Cells, Column, answer, build, cut, make_context, run
from numpy.typing import NDArray

from pinotpy.data_types import DataType as D
from pinotpy.errors import MemoryLimitError
from pinotpy.functions.spec import aggregation_function
from pinotpy.functions.state.percentiles import PercentileFunction
from pinotpy.kernels.aggregate import rank_select
from pinotpy.pql.ast import Call, Identifier, Literal
from pinotpy.query.aggregate import value_lists
from pinotpy.query.model.context import Aggregation
from pinotpy.query.plan import build as scan
from pinotpy.query.runtime.control import QueryControl
from pinotpy.query.runtime.kernel_threads import KernelThreads

LONG = np.iinfo(np.int64)
COLUMNS = [
    Column("k", D.STRING),
    Column("g", D.INT),
    Column("i", D.INT, raw=True),
    Column("l", D.LONG, raw=True),
    Column("f", D.FLOAT, raw=True),
    Column("d", D.DOUBLE, raw=True),
    Column("coded", D.DOUBLE),
]
FUNCTIONS = ("percentile", "percentileest", "percentiletdigest")
LEVELS = (0, 10, 50, 99.9, 100)


def _cells(rows: int) -> Cells:
    rng = np.random.default_rng(7)
    hostile = np.array([LONG.min, LONG.max, 0, -1, 1 << 53])
    doubles = np.where(
        rng.random(rows) < 0.1,
        rng.choice([-0.0, 0.0, 5e-324, 1e300, -1e300, math.inf, -math.inf], rows),
        rng.normal(0, 1e3, rows),
    )
    cells: dict[str, NDArray[Any]] = {
        "k": rng.choice(np.array(["a", "b", "c"]), rows, p=[0.9, 0.09, 0.01]),
        "g": rng.integers(0, 5, rows),
        "i": rng.integers(-50, 50, rows),
        "l": np.where(rng.random(rows) < 0.05, rng.choice(hostile, rows), rng.integers(-(10**9), 10**9, rows)),
        "f": rng.normal(0, 1, rows).astype(np.float32),
        "d": doubles,
        "coded": rng.choice([0.5, -0.5, math.nan, 2.0**70], rows),
    }
    out: Cells = {}
    for name, values in cells.items():
        nulls = rng.random(rows) < 0.1
        out[name] = [None if null else value for null, value in zip(nulls.tolist(), values.tolist(), strict=True)]
    return out


@pytest.fixture(scope="module")
def segments(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    folder = tmp_path_factory.mktemp("segments")
    return [build(folder, COLUMNS, part, f"s{i}") for i, part in enumerate(cut(_cells(30_000), (10, 9_000, 30_000)))]


@pytest.fixture(scope="module")
def executor() -> Iterator[KernelThreads]:
    with KernelThreads(3) as threads:
        yield threads


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Totals of the groups that were searched, here also of few values."""
    made: list[int] = []
    search = value_lists._Search.run

    def noted(self: Any, *args: Any) -> None:
        made.extend(self.totals.tolist())
        search(self, *args)

    monkeypatch.setattr(value_lists, "DOCS_MIN", 0)
    monkeypatch.setattr(value_lists, "_STEP_VALUES", 4_000)
    monkeypatch.setattr(scan, "DOCS_PER_THREAD_MIN", 1)
    monkeypatch.setattr(value_lists._Search, "run", noted)
    return made


def _context(function: str, source: Any, keys: list[str], *, null_handling: bool) -> Any:
    context = make_context(COLUMNS, [], keys, null_handling=null_handling)
    aggregations = tuple(
        Aggregation(function, (source, Literal(level, str(level))), f"{function}({level})") for level in LEVELS
    )
    made = make_context(COLUMNS, [("count", "*")] * len(LEVELS), keys, null_handling=null_handling)
    return replace(context, kind=made.kind, output=made.output, aggregations=aggregations)


def _same(found: list[tuple[Any, ...]], wanted: list[tuple[Any, ...]], num_keys: int, tolerance: float) -> None:
    by_key = {row[:num_keys]: row[num_keys:] for row in found}
    assert by_key.keys() == {row[:num_keys] for row in wanted}
    for row in wanted:
        for value, right in zip(by_key[row[:num_keys]], row[num_keys:], strict=True):
            if (
                tolerance
                and isinstance(value, float)
                and isinstance(right, float)
                and math.isfinite(value)
                and math.isfinite(right)
            ):
                assert math.isclose(value, right, rel_tol=tolerance, abs_tol=1e-9), (row, by_key[row[:num_keys]])
            else:
                assert value == right or (math.isnan(value) and math.isnan(right)), (row, by_key[row[:num_keys]])


SOURCES = [
    *(Identifier(name) for name in ("i", "l", "f", "d", "coded")),
    Call("plus", (Identifier("f"), Identifier("i"))),
]


@pytest.mark.parametrize("null_handling", [False, True], ids=["plain", "nulls"])
@pytest.mark.parametrize("keys", [[], ["k"], ["k", "g"]], ids=["one group", "k", "k+g"])
@pytest.mark.parametrize("source", SOURCES, ids=["i", "l", "f", "d", "coded", "f+i"])
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("threads", [1, 3])
def test_ranks_of_runs_are_those_of_all_values(
    segments: list[Any], executor: KernelThreads, searched: list[int], monkeypatch: pytest.MonkeyPatch,
    function: str, source: Any, keys: list[str], null_handling: bool, threads: int,
) -> None:  # fmt: skip
    # Exact multisets to compare with: nothing is thinned.
    monkeypatch.setattr(PercentileFunction, "keep", lambda self, multisets: multisets)
    for name in ("percentileest", "percentiletdigest"):
        monkeypatch.setattr(
            type(aggregation_function(name, (Identifier("x"), Literal(50, "50")))),
            "keep",
            lambda self, multisets: multisets,
        )
    context = _context(function, source, keys, null_handling=null_handling)
    everything = answer(context, [run(context, segments, threads=threads, executor=executor)])
    assert not searched
    alone = answer(context, [run(context, segments, threads=threads, executor=executor, is_final=True)])
    _same(alone, everything, len(keys), 1e-12 if function == "percentiletdigest" else 0)
    assert bool(searched) == (source != Identifier("coded"))


PATTERNS: dict[str, NDArray[np.int64]] = {
    "one": np.array([LONG.min]),
    "all equal": np.full(60_000, -3),
    "two values": np.repeat([LONG.min, LONG.max], 30_000),
    "random": np.random.default_rng(1).integers(LONG.min, LONG.max, 60_000),
    "few values": np.random.default_rng(2).integers(-2, 3, 60_000),
    "sorted": np.arange(60_000),
    "periodic": np.tile(np.concatenate([np.zeros(63, np.int64), [1 << 60]]), 1_000),
    "one of many": np.concatenate([np.zeros(59_999, np.int64), [7]]),
}


@pytest.mark.parametrize("misled", [False, True], ids=["sampled", "misled"])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_rank_of_hostile_values_is_found(pattern: str, misled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if misled:

        def nowhere(
            addresses: Any, sizes: Any, starts: Any, totals: Any, first: Any, last: Any, lows: Any, highs: Any
        ) -> None:
            lows[:], highs[:] = 12_345, 12_346

        monkeypatch.setattr(rank_select, "brackets", nowhere)
    values, wanted = PATTERNS[pattern], np.sort(PATTERNS[pattern])
    ends = np.unique([0, *np.random.default_rng(3).integers(0, len(values), 40).tolist(), len(values)])
    addresses, sizes = values.ctypes.data + ends[:-1] * 8, np.diff(ends)
    with ThreadPoolExecutor(2) as executor:
        plan: Any = SimpleNamespace(control=QueryControl(), num_threads=2, executor=executor)
        search = value_lists._Search(
            plan, np.zeros(len(sizes), np.int64), addresses, sizes, 2
        )  # the second group is empty
        for rank in {0, len(values) // 3, len(values) // 2, len(values) - 2, len(values) - 1} - {-1}:
            found: dict[int, int] = {}

            def pick(
                group: int, keys: Any, counts: Any, low: int, high: int, rank: int = rank, found: dict[int, int] = found
            ) -> bool:
                inside, found[group] = rank_select.pick(keys, counts, low, high, rank)
                return bool(inside)

            search.run(np.full(2, rank), np.full(2, rank), pick)
            assert found == {0: wanted[rank]}


def test_means_of_ranks_do_not_depend_on_the_order_of_values() -> None:
    rng = np.random.default_rng(9)
    for scale in (1e-300, 1.0, 1e300):
        values = rng.normal(0, 1, 5_001) * scale
        words = values.view(np.int64)
        words = np.where(words < 0, words ^ LONG.max, words)
        counts, found = np.array([0, 0, len(words), 0]), set()
        for _ in range(4):
            own = rng.permutation(words)
            inside, *means = rank_select.pick_means(own, counts, LONG.min, LONG.max, 1_000, 1_200, 2_500, True)
            assert inside
            found.add(tuple(means))
        in_order = np.sort(values)
        assert len(found) == 1
        assert np.allclose(
            found.pop(), [in_order[1_000:1_200].mean(), in_order[1_200:2_500].mean()], rtol=1e-12, atol=0
        )


def test_values_that_do_not_fit_the_memory_end_the_query_with_its_setting(
    segments: list[Any], searched: list[int]
) -> None:
    context = _context("percentile", Identifier("d"), ["k"], null_handling=False)
    with pytest.raises(MemoryLimitError, match=r"pinot.server.query.memory.maxBytes"):
        run(context, segments, control=QueryControl(memory_max_bytes=200_000), is_final=True)
