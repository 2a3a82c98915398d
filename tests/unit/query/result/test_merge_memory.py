"""Proves into how many partitions merges are divided, and that what they are said to take is enough: compared with what
Arrow and numpy really took at most, as the kernel counts it.
"""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pinotpy.data_types import DataType
from pinotpy.functions.state.grouping import KERNEL_ROWS, number_keys
from pinotpy.memory.allocators import give_back_free_memory
from pinotpy.pql.ast import Dialect, Identifier
from pinotpy.query.model.context import (
    Aggregation,
    AggregationRef,
    ColumnRef,
    OutputColumn,
    QueryContext,
    QueryKind,
    QueryOptions,
)
from pinotpy.query.result.combine import merge_partials
from pinotpy.query.result.merge_memory import merged_bytes, plan_merge
from pinotpy.query.result.partial import PartialResult
from pinotpy.query.result.partitioned_merge import merge_by_partitions
from pinotpy.query.result.reduce import reduce_partials

MIB = 1 << 20
KEY = Identifier("k")
COLUMNS = (ColumnRef("k", DataType.LONG), ColumnRef("v", DataType.LONG))


def context(kind: QueryKind, *functions: str, **options: Any) -> QueryContext:
    """Of one key, or one output column, and these functions."""
    keys = (OutputColumn("k", KEY),) if kind is not QueryKind.AGGREGATION else ()
    return QueryContext(
        Dialect.SQL,
        kind,
        "t",
        (*keys, *(OutputColumn(f"c{i}", AggregationRef(i)) for i in range(len(functions)))),
        group_by=(KEY,) if kind is QueryKind.GROUP_BY else (),
        aggregations=tuple(Aggregation(function, (Identifier("v"),), function) for function in functions),
        limit=5,
        columns=COLUMNS,
        options=QueryOptions(**options),
    )


def sets(lengths: Any, first: int = 0) -> pa.Array:
    """Lists of so many numbers."""
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(np.arange(first, first + offsets[-1])))


def names(count: int, first: int = 0) -> pa.Array:
    """One list of so many texts."""
    texts = pa.array([b"name %012d" % i for i in range(first, first + count)], pa.binary())
    return pa.ListArray.from_arrays(pa.array([0, count], pa.int32()), texts)


def of_two(*columns: tuple[str, pa.Array]) -> list[PartialResult]:
    """Two servers' results, of equal tables."""
    return [PartialResult(pa.table(dict(columns))) for _ in range(2)]


GROUPS = of_two(("k0", pa.array(np.arange(2_000_000))))
DISTINCT = of_two(("o0", pa.array(np.arange(1_000_000))))


@pytest.mark.parametrize("kind", [QueryKind.GROUP_BY, QueryKind.DISTINCT, QueryKind.AGGREGATION, QueryKind.SELECTION])
def test_what_is_small_is_merged_at_once(kind: QueryKind) -> None:
    plan = plan_merge(context(kind), of_two(("k0", pa.array(np.arange(1_000)))))
    assert (plan.is_partitioned, plan.num_partitions) == (False, 1)


def test_many_groups_and_different_rows_are_merged_by_partitions() -> None:
    for kind, partials in ((QueryKind.GROUP_BY, GROUPS), (QueryKind.DISTINCT, DISTINCT)):
        plan = plan_merge(context(kind), partials)
        whole = plan_merge(context(kind), partials, at_once=True)
        assert plan.is_partitioned and plan.num_partitions >= 16 and not whole.is_partitioned
        assert plan.size_bytes * 4 < whole.size_bytes


def test_one_result_is_merged_already() -> None:
    plan = plan_merge(context(QueryKind.DISTINCT), DISTINCT[:1])
    assert not plan.is_partitioned
    assert plan.size_bytes * 2 <= merged_bytes(DISTINCT[0].num_bytes, DISTINCT[0].num_rows)


def test_groups_that_a_limit_leaves_out_are_merged_at_once() -> None:
    limited = context(QueryKind.GROUP_BY, num_groups_limit=10)
    assert not plan_merge(limited, GROUPS).is_partitioned
    enough = context(QueryKind.GROUP_BY, num_groups_limit=10_000_000)
    assert plan_merge(enough, GROUPS).is_partitioned


def test_sets_that_are_counted_take_what_a_part_of_their_values_takes() -> None:
    large = sets([1_000_000])
    for function, is_counted in (("distinctcount", True), ("distinctcountbitmap", True), ("distinctsum", False)):
        plan = plan_merge(context(QueryKind.AGGREGATION, function), of_two(("a0_values", large)))
        whole = merged_bytes(2 * large.nbytes, 2_000_000)
        assert plan.num_partitions == 1 and plan.is_partitioned == is_counted
        assert plan.size_bytes * 4 < whole if is_counted else plan.size_bytes == whole


def test_a_group_with_most_of_the_values_counts_whole() -> None:
    """The lists of one partition are copied, and the longest is in one of them."""
    count = 500_000
    keys = ("k0", pa.array(np.arange(count)))
    of_groups = context(QueryKind.GROUP_BY, "distinctcount")
    even = plan_merge(of_groups, of_two(keys, ("a0_values", sets(np.full(count, 4)))))
    uneven = plan_merge(of_groups, of_two(keys, ("a0_values", sets([*np.ones(count - 1, np.int64), 3 * count]))))
    assert even.num_partitions == uneven.num_partitions > 1
    assert uneven.size_bytes > even.size_bytes + 2 * 3 * count * 8


def peak_bytes() -> int:
    text = Path("/proc/self/status").read_text(encoding="ascii")
    return int(text.split("VmHWM:")[1].split()[0]) * 1024


def taken_bytes(asked: QueryContext, partials: list[PartialResult]) -> tuple[int, int, list[Any]]:
    """(what merge and reduce took at most, what was said beforehand, the first row of the answer)."""
    gc.collect()
    give_back_free_memory()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak is what there is now
    before = peak_bytes()
    plan = plan_merge(asked, partials)
    merged = (
        merge_by_partitions(asked, partials, plan.num_partitions, lambda: None)
        if plan.is_partitioned
        else merge_partials(asked, partials)
    )
    result = reduce_partials(asked, merged)
    return peak_bytes() - before, plan.size_bytes, [column.values[0].as_py() for column in result.columns]


CASES = ("numbers", "texts", "groups", "rows")


def merged(case: str, count: int) -> tuple[int, int]:
    """What a merge of about `count` values took, and what was said; its answer is checked."""
    asked = context(QueryKind.AGGREGATION, "distinctcount")
    match case:
        case "numbers":
            columns = [{"a0_values": sets([2 * count], first)} for first in (0, count)]
            expected = [3 * count]
        case "texts":
            columns = [{"a0_values": names(count, first)} for first in (0, count // 2)]
            expected = [3 * count // 2]
        case "groups":
            asked = context(QueryKind.GROUP_BY, "distinctcount")
            columns = [{"k0": pa.array([7]), "a0_values": names(count, first)} for first in (0, count // 2)]
            expected = [7, 3 * count // 2]
        case _:
            asked, expected = context(QueryKind.DISTINCT), []
            columns = [{"o0": pa.array(np.arange(count) * 1_000_003 + first)} for first in (0, 1)]
    taken, said, row = taken_bytes(asked, [PartialResult(pa.table(each)) for each in columns])
    assert not expected or row == expected
    return taken, said


@pytest.fixture(scope="module")
def kernels() -> None:
    """Code that merges use is loaded: what it takes is the process', once."""
    number_keys(np.arange(2 * KERNEL_ROWS))
    for case in CASES:
        merged(case, KERNEL_ROWS)


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("case", CASES)
def test_a_merge_takes_no_more_than_was_said(case: str) -> None:
    taken, said = merged(case, 400_000)
    # Code that is read for the first time is not the merge's.
    assert taken < said + 16 * MIB, (taken // MIB, said // MIB)
