"""Proves that merging partial results of servers adds up groups, rows and counters by value, in any order alike, also
after a trip over the wire; and that shared dictionary rows by value agrees between Arrow's and our own hash tables."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from group_harness import Column, answer, build, check, cut, expected, make_context, run

from pinotpy.data_types import DataType as D
from pinotpy.errors import DataError
from pinotpy.functions.state import grouping
from pinotpy.functions.state.grouping import number_keys, number_rows
from pinotpy.pql.ast import Dialect, Identifier
from pinotpy.query.model.context import OrderBy, OutputColumn, QueryContext, QueryKind, QueryOptions
from pinotpy.query.result.combine import merge_partials
from pinotpy.query.result.partial import PartialResult, QueryException, Statistics


def _rows_context(kind: QueryKind, order_by: tuple[OrderBy, ...] = (), limit: int = 3, offset: int = 0) -> QueryContext:
    output = (OutputColumn("a", Identifier("a")), OutputColumn("b", Identifier("b")))
    return QueryContext(Dialect.SQL, kind, "t", output, order_by=order_by, limit=limit, offset=offset)


def _rows(a: list[object], b: list[object]) -> PartialResult:
    return PartialResult(pa.table({"o0": pa.array(a, pa.int32()), "o1": pa.array(b, pa.string())}))


class TestRows:
    def test_a_selection_without_order_keeps_the_first_rows(self) -> None:
        merged = merge_partials(
            _rows_context(QueryKind.SELECTION, offset=1), [_rows([1, 2], ["x", "y"]), _rows([3, 4, 5], ["z", "u", "v"])]
        )
        assert merged.rows is not None and merged.rows.column("o0").to_pylist() == [1, 2, 3, 4]

    def test_an_ordered_selection_keeps_the_best_rows_whatever_the_order_of_parts(self) -> None:
        order = (OrderBy(Identifier("a"), ascending=False),)
        parts = [_rows([1, 9, None], ["x", "y", "n"]), _rows([5, 9], ["z", "b"]), _rows([], []), PartialResult(None)]
        for permuted in itertools.permutations(parts):
            merged = merge_partials(_rows_context(QueryKind.SELECTION, order), list(permuted))
            assert merged.rows is not None
            assert list(zip(*[c.to_pylist() for c in merged.rows.columns], strict=True)) == [
                (None, "n"),
                (9, "b"),
                (9, "y"),
            ]

    def test_a_sort_key_that_is_not_selected_travels_along(self) -> None:
        context = _rows_context(QueryKind.SELECTION, (OrderBy(Identifier("c")), OrderBy(Identifier("b"))), limit=2)
        part = PartialResult(pa.table({"o0": pa.array([1, 2, 3]), "o1": ["q", "p", "r"], "s0": pa.array([7, 7, 1])}))
        merged = merge_partials(context, [part, part])
        assert merged.rows is not None and merged.rows.column("o0").to_pylist() == [3, 3]

    def test_distinct_rows_are_kept_once_and_nulls_are_equal(self) -> None:
        merged = merge_partials(
            _rows_context(QueryKind.DISTINCT, limit=9),
            [_rows([1, None, 1], ["x", None, "y"]), _rows([None, 1], [None, "x"])],
        )
        assert merged.rows is not None
        assert list(zip(*[c.to_pylist() for c in merged.rows.columns], strict=True)) == [
            (1, "x"),
            (None, None),
            (1, "y"),
        ]


class TestGroups:
    COLUMNS = (
        Column("s", D.STRING),
        Column("n", D.INT),
        Column("x", D.DOUBLE, raw=True),
        Column("d", D.BIG_DECIMAL),
        Column("m", D.LONG, single_value=False),
    )
    CALLS = (
        ("count", "*"),
        ("sum", "x"),
        ("sum", "d"),
        ("avg", "n"),
        ("minmaxrange", "x"),
        ("distinctcount", "s"),
        ("max", "d"),
        ("distinctcountmv", "m"),
    )

    def test_any_order_of_servers_and_the_wire_give_the_same_answer(self, tmp_path: Path) -> None:
        rng = np.random.default_rng(11)
        cells = {
            "s": [None if rng.random() < 0.2 else "abc"[rng.integers(3)] for _ in range(400)],
            "n": [None if rng.random() < 0.2 else int(rng.integers(5)) for _ in range(400)],
            "x": [None if rng.random() < 0.2 else float(rng.normal() * 1e12) for _ in range(400)],
            "d": [None if rng.random() < 0.2 else Decimal(int(rng.integers(-99, 99))) / 10 for _ in range(400)],
            "m": [[int(v) for v in rng.integers(0, 4, rng.integers(0, 3))] for _ in range(400)],
        }
        segments = [
            build(tmp_path, self.COLUMNS, part, f"s{i}") for i, part in enumerate(cut(cells, (10, 200, 399, 400)))
        ]
        for keys, null_handling in itertools.product(([], ["s"], ["n", "x"], ["d"], ["m"]), (False, True)):
            context = make_context(self.COLUMNS, self.CALLS, keys, null_handling=null_handling)
            wanted = expected(self.COLUMNS, cells, self.CALLS, keys, null_handling=null_handling)
            partials = [PartialResult.from_bytes(run(context, [segment]).to_bytes()) for segment in segments]
            for order in itertools.permutations(partials):
                check(answer(context, order), wanted, len(keys))
            left = merge_partials(context, partials[:2])
            check(
                answer(context, [left, merge_partials(context, partials[2:]), PartialResult(None)]), wanted, len(keys)
            )

    def test_a_limit_of_groups_holds_for_the_merged_answer(self) -> None:
        options = QueryOptions(num_groups_limit=2)
        context = make_context([Column("n", D.INT)], [("count", "*")], ["n"], options=options)
        part = [
            PartialResult(pa.table({"k0": pa.array([i, i + 1], pa.int32()), "a0_count": pa.array([1, 1])}))
            for i in (0, 1)
        ]
        merged = merge_partials(context, part)
        assert merged.rows is not None and merged.rows.to_pydict() == {"k0": [0, 1], "a0_count": [1, 2]}
        assert merged.statistics.num_groups_limit_reached

    def test_parts_that_do_not_fit_together_are_a_data_error(self) -> None:
        context = make_context([Column("n", D.INT)], [("count", "*")], ["n"])
        parts = [
            PartialResult(pa.table({"k0": pa.array(["a"]), "a0_count": pa.array([1])})),
            PartialResult(pa.table({"k0": pa.array([1]), "a0_count": pa.array([1])})),
        ]
        with pytest.raises(DataError, match="do not fit together"):
            merge_partials(context, parts)


def test_counters_faults_and_missing_segments_add_up() -> None:
    context = make_context([], [("count", "*")])
    one = PartialResult(
        None,
        Statistics(num_docs_scanned=3, num_groups_limit_reached=True),
        [QueryException(200, "x")],
        ["s2"],
        [{"a": 1}],
    )
    two = PartialResult(None, Statistics(num_docs_scanned=4), [], ["s1", "s2"])
    merged = merge_partials(context, [one, two])
    assert (
        merged.rows is None and merged.statistics.num_docs_scanned == 7 and merged.statistics.num_groups_limit_reached
    )
    assert (merged.exceptions, merged.missing_segments, merged.trace) == (
        [QueryException(200, "x")],
        ["s1", "s2"],
        [{"a": 1}],
    )


class TestNumbering:
    @pytest.mark.parametrize("spread", [1, 3, 2**40])
    def test_our_hash_table_numbers_like_arrow(self, spread: int, monkeypatch: pytest.MonkeyPatch) -> None:
        keys = np.random.default_rng(1).integers(-500, 500, 20_000) * spread
        by_arrow = number_keys(keys)
        monkeypatch.setattr(grouping, "KERNEL_ROWS", 1)
        by_kernel = number_keys(keys)
        for a, b in zip(by_arrow, by_kernel, strict=True):
            assert np.array_equal(a, b)
        groups, first = by_arrow
        assert np.array_equal(keys[first][groups], keys) and np.array_equal(np.sort(first), first)

    def test_rows_are_equal_when_all_values_are(self) -> None:
        columns = [
            pa.array([0.0, -0.0, math.nan, math.nan, None, None, 0.0]),
            pa.array([True, True, False, False, None, None, False]),
            pa.array([2**63 - 1, 2**63 - 1, -(2**63), -(2**63), 0, 0, 5]),
            pa.array(["", "", "a", "a", None, None, ""]),
        ]
        groups, first = number_rows(columns)
        assert groups.tolist() == [0, 0, 1, 1, 2, 2, 3] and first.tolist() == [0, 2, 4, 6]

    def test_null_is_not_the_empty_text_nor_zero(self) -> None:
        assert number_rows([pa.array(["", None, ""])])[0].tolist() == [0, 1, 0]
        assert number_rows([pa.array([0, None, 2**62, 0])])[0].tolist() == [0, 1, 2, 0]


def test_a_broker_merges_without_compiled_kernels() -> None:
    code = (
        "import sys, pinotpy.query.result.combine; from pinotpy.functions.spec import functions; functions(); "
        "sys.exit('numba' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
