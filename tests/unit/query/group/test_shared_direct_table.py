"""Proves that groups put together by shared codes are those that merging by value finds: every type, nulls,
multi-values, several keys and threads, segments that are replaced, budgets that evict; and that a server which answers
alone leaves out no group that the answer shows.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from group_harness import Cells, Column, answer, build, check, cut, expected, make_context, run

from pinotpy.data_types import DataType as D
from pinotpy.errors import MemoryLimitError
from pinotpy.kernels.runtime import abi
from pinotpy.pql.ast import Call, Dialect, Identifier, Literal
from pinotpy.query.group import hash_table, shared_direct_table, top_n_groups
from pinotpy.query.model.context import (
    AggregationRef,
    Bound,
    Comparison,
    OrderBy,
    OutputColumn,
    Predicate,
    QueryContext,
    QueryOptions,
)
from pinotpy.query.plan import build as scan
from pinotpy.query.result.combine import merge_partials
from pinotpy.query.result.reduce import reduce_partials
from pinotpy.query.runtime.control import MEMORY_SETTING
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


def _cells(rng: random.Random, rows: int) -> Cells:
    # Each part of the table knows other values, so that its dictionaries differ.
    pools = {name: rng.sample(pool, rng.randint(1, len(pool))) for name, pool in POOLS.items()}

    def one(column: Column) -> Any:
        if rng.random() < 0.1:
            return None
        return (
            rng.choice(pools[column.name])
            if column.single_value
            else [rng.choice(pools[column.name]) for _ in range(rng.randint(0, 3))]
        )

    return {column.name: [one(column) for _ in range(rows)] for column in COLUMNS}


def _joined(parts: list[Cells]) -> Cells:
    return {column.name: [value for part in parts for value in part[column.name]] for column in COLUMNS}


@pytest.fixture(scope="module")
def parts() -> list[Cells]:
    rng = random.Random(3)
    return [_cells(rng, rng.randint(1, 120)) for _ in range(6)]


@pytest.fixture(scope="module")
def segments(parts: list[Cells], tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    folder = tmp_path_factory.mktemp("segments")
    return [build(folder, COLUMNS, part, f"s{i}") for i, part in enumerate(parts)]


@pytest.fixture(scope="module")
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The tables for all morsels that queries made, here also of few rows."""
    monkeypatch.setattr(shared_direct_table, "MERGED_ROWS_MIN", 0)
    monkeypatch.setattr(hash_table, "MERGED_ROWS_MIN", 0)
    monkeypatch.setattr(hash_table, "PART_GROUPS", 2)
    monkeypatch.setattr(hash_table, "FEW_GROUPS", 8)
    made: list[Any] = []

    def noting(make: Any) -> Any:
        def noted(*args: Any) -> Any:
            made.append(found := make(*args))
            return found

        return noted

    monkeypatch.setattr(
        "pinotpy.query.group.group_by.make_shared_direct_table", noting(shared_direct_table.make_shared_direct_table)
    )
    monkeypatch.setattr("pinotpy.query.group.group_by.make_hash_table", noting(hash_table.make_hash_table))
    return made


def _context(keys: list[str], calls: list[tuple[str, str]] = CALLS, *, null_handling: bool = False) -> QueryContext:
    return make_context(COLUMNS, calls, keys, null_handling=null_handling)


@pytest.mark.parametrize("null_handling", [False, True], ids=["plain", "nulls"])
@pytest.mark.parametrize("keys", KEYS, ids="+".join)
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("hashed", [False, True], ids=["dense", "hashed"])
def test_groups_by_global_ids_are_those_of_the_rows(
    segments: list[Any], parts: list[Cells], executor: ThreadPoolExecutor, tables: list[Any],
        monkeypatch: pytest.MonkeyPatch,
    keys: list[str], null_handling: bool, threads: int, hashed: bool,
) -> None:  # fmt: skip
    monkeypatch.setattr(scan, "DOCS_PER_THREAD_MIN", 1)
    monkeypatch.setattr(shared_direct_table, "PARALLEL_WORDS_MIN", 1)
    if hashed:
        monkeypatch.setattr("pinotpy.query.group.group_by.make_shared_direct_table", lambda *_: None)
    dictionaries = SharedDictionaries(in_background=False)
    context = _context(keys, null_handling=null_handling)
    wanted = expected(COLUMNS, _joined(parts), CALLS, keys, null_handling=null_handling)
    for _ in range(2):  # by value until the columns are numbered
        check(
            answer(context, [run(context, segments, threads=threads, executor=executor, dictionaries=dictionaries)]),
            wanted,
            len(keys),
        )
        dictionaries.build_waiting()
    assert tables[0] is None and tables[-1] is not None


@pytest.mark.parametrize("keys", [["raw"], ["s"]], ids="+".join)
def test_memory_refused_at_the_end_names_the_setting(
    segments: list[Any],
    executor: ThreadPoolExecutor,
    tables: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    keys: list[str],
) -> None:
    monkeypatch.setattr("pinotpy.query.group.group_by.make_shared_direct_table", lambda *_: None)
    monkeypatch.setattr("pinotpy.kernels.group.thread_hash_table.leave_all_overflow", lambda words: abi.E_MEMORY)
    dictionaries = SharedDictionaries(in_background=False)
    with pytest.raises(MemoryLimitError, match=re.escape(MEMORY_SETTING)):
        for _ in range(2):
            run(_context(keys), segments, threads=2, executor=executor, dictionaries=dictionaries)
            dictionaries.build_waiting()
    assert tables[-1] is not None


@pytest.mark.parametrize("threads", [1, 3])
def test_a_raw_key_is_hashed_once_for_all_segments(
    segments: list[Any],
    parts: list[Cells],
    executor: ThreadPoolExecutor,
    tables: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    threads: int,
) -> None:
    monkeypatch.setattr(scan, "DOCS_PER_THREAD_MIN", 1)
    wanted = expected(COLUMNS, _joined(parts), CALLS, ["raw"], null_handling=False)
    check(answer(_context(["raw"]), [run(_context(["raw"]), segments, threads=threads, executor=executor)]), wanted, 1)
    assert isinstance(tables[-1], hash_table.ThreadHashTable)


def test_sets_and_distributions_are_merged_by_value(segments: list[Any], parts: list[Cells], tables: list[Any]) -> None:
    dictionaries = SharedDictionaries(in_background=False)
    calls = [("count", "*"), ("distinctcount", "s")]
    wanted = expected(COLUMNS, _joined(parts), calls, ["i"], null_handling=False)
    for _ in range(3):
        check(
            answer(_context(["i"], calls), [run(_context(["i"], calls), segments, dictionaries=dictionaries)]),
            wanted,
            1,
        )
        dictionaries.build_waiting()


@pytest.mark.parametrize("budget_bytes", [1, 600, 1500, 1 << 20])
def test_replaced_segments_and_small_budgets_change_no_answer(
    tmp_path: Path, tables: list[Any], budget_bytes: int
) -> None:
    rng = random.Random(budget_bytes)
    dictionaries = SharedDictionaries(budget_bytes, in_background=False)
    held: dict[int, tuple[Cells, Any]] = {}
    for step in range(12):
        for place in rng.sample(range(5), 3):
            cells = _cells(rng, rng.randint(1, 60))
            held[place] = (
                cells,
                build(tmp_path / f"{step}", COLUMNS, cells, f"s{place}"),
            )  # the same name, another segment
        asked = rng.sample(sorted(held), rng.randint(1, len(held)))
        keys = rng.choice(KEYS[:8])
        context = _context(keys, null_handling=rng.random() < 0.5)
        wanted = expected(
            COLUMNS, _joined([held[place][0] for place in asked]), CALLS, keys, null_handling=context.null_handling
        )
        for _ in range(2):
            check(
                answer(context, [run(context, [held[place][1] for place in asked], dictionaries=dictionaries)]),
                wanted,
                len(keys),
            )
            if rng.random() < 0.7:
                dictionaries.build_waiting()
        assert dictionaries.nbytes <= budget_bytes or budget_bytes == 1 << 20
    assert any(tables) or budget_bytes < 1500


def test_a_table_for_all_units_is_no_larger_than_its_expected_rows_deserve(
    many: list[Any], tables: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_direct_table, "DENSE_FREE", 0)
    dictionaries = SharedDictionaries(in_background=False)
    few = Predicate(
        Identifier("v"), Comparison.EQ, (5,)
    )  # one of a thousand values: more docs have it than are expected
    kinds = []
    for where in (None, few):
        context = make_context(MANY, [("sum", "v"), ("count", "*")], ["k"], where=where)
        by_value = run(context, many)
        for _ in range(2):
            found = run(context, many, dictionaries=dictionaries)
            dictionaries.build_waiting()
        answers = [sorted(zip(*_lists(context, one)[1], strict=True)) for one in (found, by_value)]
        assert answers[0] == answers[1] and answers[0]
        kinds.append(type([table for table in tables if table is not None][-1]))
    assert kinds == [shared_direct_table.SharedDirectTable, hash_table.ThreadHashTable]


def test_units_that_leave_few_rows_are_merged_by_value(
    many: list[Any], tables: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_direct_table, "MERGED_ROWS_MIN", 6_000)
    dictionaries = SharedDictionaries(in_background=False)
    wide = make_context(MANY, [("sum", "v")], ["k"])
    for _ in range(2):
        run(wide, many, dictionaries=dictionaries)
        dictionaries.build_waiting()
    assert not tables  # three morsels of at most 1,800 keys each


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
    monkeypatch.setattr(shared_direct_table, "MERGED_ROWS_MIN", 0)
    dictionaries = SharedDictionaries(in_background=False)
    calls = [call, ("count", "*")] if shape == "two" else [call]
    context = replace(make_context(MANY, calls, ["k"]), limit=7)
    if shape in ("pql", "two"):
        outputs = tuple(
            OutputColumn(aggregation.name, AggregationRef(i)) for i, aggregation in enumerate(context.aggregations)
        )
        context = replace(context, dialect=Dialect.PQL, output=outputs)
    else:
        order = (OrderBy(AggregationRef(0), ascending=shape == "sql_ascending"), OrderBy(Identifier("k")))
        context = replace(context, order_by=order, offset=13 if shape == "sql_offset" else 0)
    everything = run(context, many, dictionaries=dictionaries)
    dictionaries.build_waiting()
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
    monkeypatch.setattr(shared_direct_table, "MERGED_ROWS_MIN", 0)
    dictionaries = SharedDictionaries(in_background=False)
    context = replace(
        make_context(MANY, [("sum", "v")], ["k"], options=QueryOptions(num_groups_limit=50)),
        limit=7,
        order_by=(OrderBy(AggregationRef(0), False),),
    )
    for _ in range(2):
        partial = run(context, many, dictionaries=dictionaries, is_final=True)
        dictionaries.build_waiting()
        assert partial.rows is not None and partial.rows.num_rows == 50 and partial.statistics.num_groups_limit_reached
        kept = make_context(MANY, [("count", "*")], ["k"], options=QueryOptions(num_groups_limit=50))
        counted = run(kept, many, dictionaries=dictionaries, is_final=True)
        assert counted.rows is not None
        assert counted.statistics.num_rows_of_cut_groups == 6000 - sum(counted.rows["a0_count"].to_pylist()) > 0
