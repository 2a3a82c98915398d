"""Proves that groups put together by shared codes are those of the rows when segments are replaced and budgets evict,
and that such a query takes the same method again; and that a server which answers alone leaves out no group that the
answer shows.
"""

from __future__ import annotations

import random
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from group_harness import (
    Cells,
    Column,
    answer,
    build,
    check,
    cut,
    drawn_cells,
    expected,
    forcing,
    joined,
    make_context,
    run,
)

from pinotpy.data_types import DataType as D
from pinotpy.errors import MemoryLimitError
from pinotpy.kernels.runtime import abi
from pinotpy.pql.ast import Call, Dialect, Identifier, Literal
from pinotpy.query.group import choose, top_n_groups
from pinotpy.query.model.context import (
    AggregationRef,
    Bound,
    Comparison,
    OrderBy,
    OutputColumn,
    Predicate,
    QueryContext,
)
from pinotpy.query.model.grouping_method import GroupingMethod
from pinotpy.query.result.combine import merge_partials
from pinotpy.query.result.reduce import reduce_partials
from pinotpy.query.runtime.control import MEMORY_SETTING, QueryControl
from pinotpy.segment.shared_codes.cache import SharedDictionaries

COLUMNS = [
    Column("i", D.INT),
    Column("l", D.LONG),
    Column("f", D.FLOAT),
    Column("d", D.DOUBLE),
    Column("s", D.STRING),
    Column("b", D.BOOLEAN),
    Column("t", D.TIMESTAMP),
    Column("m", D.STRING, single_value=False),
    Column("raw", D.DOUBLE, raw=True),
]
POOLS: dict[str, list[Any]] = {
    "i": [*range(12), -(2**31), 2**31 - 1],
    "l": [*range(20), 2**63 - 1, -(2**63)],
    "f": [float(np.float32(v)) for v in (-1.5, 0.0, 0.1, 3e38)],
    "d": [-1e308, -0.0, 0.1, 5e-324, 1e300, float("inf")],
    "s": ["", "a", "b", "Zürich", *(f"value {i}" for i in range(9))],
    "b": [True, False],
    "t": [0, -1, 1_600_000_000_000],
    "m": ["x", "y", "z"],
    "raw": [0.1, 2.5, 1e300, -1e-300, 1e16, -1e16, 7.0],
}
CALLS = [
    ("count", "*"),
    ("sum", "raw"),
    ("avg", "raw"),
    ("sum", "l"),
    ("min", "d"),
    ("max", "i"),
    ("count", "s"),
    ("minmaxrange", "i"),
]
KEYS = [["i"], ["l"], ["f"], ["d"], ["s"], ["b"], ["t"], ["m"], ["s", "b"], ["b", "i", "s"], ["m", "i"], ["l", "f"]]


@pytest.fixture(scope="module")
def parts() -> list[Cells]:
    rng = random.Random(3)
    return [drawn_cells(rng, COLUMNS, POOLS, rng.randint(1, 120)) for _ in range(6)]


@pytest.fixture(scope="module")
def segments(parts: list[Cells], tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    folder = tmp_path_factory.mktemp("segments")
    return [build(folder, COLUMNS, part, f"s{i}") for i, part in enumerate(parts)]


def _context(keys: list[str], calls: list[tuple[str, str]] = CALLS, *, null_handling: bool = False) -> QueryContext:
    return make_context(COLUMNS, calls, keys, null_handling=null_handling)


@pytest.mark.parametrize("keys", [["raw"], ["s"]], ids="+".join)
def test_memory_refused_at_the_end_names_the_setting(
    segments: list[Any], executor: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch, keys: list[str]
) -> None:
    monkeypatch.setattr("pinotpy.kernels.group.thread_hash_table.leave_all_overflow", lambda words: abi.E_MEMORY)
    context = make_context(COLUMNS, CALLS, keys, options=forcing(GroupingMethod.HASH_TABLE))
    with pytest.raises(MemoryLimitError, match=re.escape(MEMORY_SETTING)):
        run(context, segments, threads=2, executor=executor, dictionaries=SharedDictionaries(in_background=False))


@pytest.mark.parametrize("budget_bytes", [1, 600, 1500, 1 << 20])
def test_replaced_segments_and_small_budgets_change_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, budget_bytes: int
) -> None:
    monkeypatch.setattr(choose, "MERGED_ROWS_MIN", 0)
    methods = set()
    rng = random.Random(budget_bytes)
    dictionaries = SharedDictionaries(budget_bytes, in_background=False)
    held: dict[int, tuple[Cells, Any]] = {}
    for step in range(12):
        for place in rng.sample(range(5), 3):
            cells = drawn_cells(rng, COLUMNS, POOLS, rng.randint(1, 60))
            held[place] = (
                cells,
                build(tmp_path / f"{step}", COLUMNS, cells, f"s{place}"),
            )  # the same name, another segment
        asked = rng.sample(sorted(held), rng.randint(1, len(held)))
        keys = rng.choice(KEYS[:8])
        context = _context(keys, null_handling=rng.random() < 0.5)
        wanted = expected(
            COLUMNS, joined([held[place][0] for place in asked]), CALLS, keys, null_handling=context.null_handling
        )
        control = QueryControl()
        for _ in range(2):
            partial = run(context, [held[place][1] for place in asked], dictionaries=dictionaries, control=control)
            check(answer(context, [partial]), wanted, len(keys))
            if rng.random() < 0.7:
                dictionaries.build_waiting()
            assert dictionaries.nbytes <= budget_bytes
        first, second = control.grouping_methods
        assert first == second
        methods.add(first)
    assert (GroupingMethod.DIRECT_TABLE.value in methods) == (budget_bytes > 1)


def test_a_table_for_all_units_is_no_larger_than_its_expected_rows_deserve(
    many: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choose, "DIRECT_GROUPS_FREE", 0)
    monkeypatch.setattr(choose, "MERGED_ROWS_MIN", 0)
    dictionaries, control = SharedDictionaries(in_background=False), QueryControl()
    few = Predicate(
        Identifier("v"), Comparison.EQ, (5,)
    )  # one of a thousand values: more docs have it than are expected
    for where in (None, few):
        context = make_context(MANY, [("sum", "v"), ("count", "*")], ["k"], where=where)
        by_value = run(context, many)
        found = run(context, many, dictionaries=dictionaries, control=control)
        answers = [sorted(zip(*_lists(context, one)[1], strict=True)) for one in (found, by_value)]
        assert answers[0] == answers[1] and answers[0]
    assert control.grouping_methods == [GroupingMethod.DIRECT_TABLE.value, GroupingMethod.HASH_TABLE.value]


def test_units_that_leave_few_rows_make_a_small_result(many: list[Any]) -> None:
    control = QueryControl()  # three morsels of at most 1,800 keys each
    run(make_context(MANY, [("sum", "v")], ["k"]), many, dictionaries=SharedDictionaries(), control=control)
    assert control.grouping_methods == [GroupingMethod.SMALL_RESULT.value]


# --- a server that answers alone -----------------------------------------------------------------------------------

MANY = [Column("k", D.LONG), Column("v", D.LONG), Column("d", D.DOUBLE, raw=True), Column("x", D.DOUBLE, raw=True)]


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    rng = random.Random(11)
    cells = {
        "k": [rng.randrange(-900, 900) * 7919 for _ in range(6000)],
        "v": [rng.choice([0, 1, -1, 5, 2**62, -(2**62), rng.randrange(1000)]) for _ in range(6000)],
        "d": [rng.choice([0.5, -0.5, rng.gauss(0, 100)]) for _ in range(6000)],
        "x": [rng.choice([1e300, -1e300, 5e-324, 1.0, float("inf")]) for _ in range(6000)],
    }
    folder = tmp_path_factory.mktemp("many")
    return [build(folder, MANY, part, f"m{i}") for i, part in enumerate(cut(cells, (1500, 3000, 6000)))]


def _lists(context: QueryContext, partial: Any) -> Any:
    found = reduce_partials(context, merge_partials(context, [partial]))
    lists = [([k.values.to_pylist() for k in one.keys], one.value.values.to_pylist()) for one in found.group_lists]
    return lists, [column.values.to_pylist() for column in found.columns]


RANKED = [
    ("count", "*"),
    *((name, column) for name in ("sum", "avg", "min", "max") for column in ("v", "d")),
    ("sum", "x"),
]


@pytest.mark.parametrize("call", RANKED)
@pytest.mark.parametrize("shape", ["pql", "sql_descending", "sql_ascending", "sql_offset", "two"])
def test_a_server_alone_sends_few_groups_and_all_that_are_shown(
    many: list[Any], monkeypatch: pytest.MonkeyPatch, call: tuple[str, str], shape: str
) -> None:
    monkeypatch.setattr(top_n_groups, "GROUPS_MIN", 1)
    dictionaries = SharedDictionaries(in_background=False)
    calls = [call, ("count", "*")] if shape == "two" else [call]
    context = replace(make_context(MANY, calls, ["k"], options=forcing(GroupingMethod.DIRECT_TABLE)), limit=7)
    if shape in ("pql", "two"):
        outputs = tuple(
            OutputColumn(aggregation.name, AggregationRef(i)) for i, aggregation in enumerate(context.aggregations)
        )
        context = replace(context, dialect=Dialect.PQL, output=outputs)
    else:
        order = (OrderBy(AggregationRef(0), ascending=shape == "sql_ascending"), OrderBy(Identifier("k")))
        context = replace(context, order_by=order, offset=13 if shape == "sql_offset" else 0)
    everything = run(context, many, dictionaries=dictionaries)
    alone = run(context, many, dictionaries=dictionaries, is_final=True)
    assert _lists(context, alone) == _lists(context, everything)
    assert everything.rows is not None and alone.rows is not None
    assert (
        alone.rows.num_rows
        < len(calls) * (context.limit + context.offset) * top_n_groups.GROUPS_PER_SHOWN_MIN
        < everything.rows.num_rows
    )


@pytest.mark.parametrize("having", [False, True])
@pytest.mark.parametrize("order", ["expression", "key", "none"])
def test_groups_that_having_refuses_are_not_sent(
    many: list[Any], monkeypatch: pytest.MonkeyPatch, having: bool, order: str
) -> None:
    monkeypatch.setattr(top_n_groups, "GROUPS_MIN", 1)
    context = replace(make_context(MANY, [("count", "*"), ("max", "v")], ["k"]), limit=5, offset=3)
    count, largest = (Call("$agg", (Literal(i, str(i)),)) for i in range(2))
    if having:
        context = replace(context, having=Predicate(count, Comparison.RANGE, lower=Bound(3, True)))
    if order != "none":
        first = Call("times", (largest, count)) if order == "expression" else Identifier("k")
        context = replace(context, order_by=(OrderBy(first, ascending=False),))
    everything, alone = run(context, many), run(context, many, is_final=True)
    assert everything.rows is not None and everything.rows.num_rows > 1000
    assert alone.rows is not None and alone.rows.num_rows == 8
    if order != "none":  # else any groups are right
        assert _lists(context, alone) == _lists(context, everything)


def test_a_limit_on_groups_is_still_a_limit(many: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(top_n_groups, "GROUPS_MIN", 1)
    dictionaries = SharedDictionaries(in_background=False)
    options = replace(forcing(GroupingMethod.HASH_TABLE), num_groups_limit=50)
    context = replace(
        make_context(MANY, [("sum", "v")], ["k"], options=options),
        limit=7,
        order_by=(OrderBy(AggregationRef(0), False),),
    )
    for _ in range(2):
        partial = run(context, many, dictionaries=dictionaries, is_final=True)
        assert partial.rows is not None and partial.rows.num_rows == 50 and partial.statistics.num_groups_limit_reached
        kept = make_context(MANY, [("count", "*")], ["k"], options=options)
        counted = run(kept, many, dictionaries=dictionaries, is_final=True)
        assert counted.rows is not None
        assert counted.statistics.num_rows_of_cut_groups == 6000 - sum(counted.rows["a0_count"].to_pylist()) > 0
