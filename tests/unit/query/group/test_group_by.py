"""Proves GROUP BY and plain aggregations over real segments: every type, dictionary and raw, multi-values, both null
modes, several segments and threads, against sums and sets computed in Python; doubles must agree bit by bit."""

from __future__ import annotations

import itertools
import math
import random
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from group_harness import Cells, Column, answer, build, check, cut, expected, make_context, run

from pinotpy.data_types import DataType as D
from pinotpy.errors import InvalidQueryError, MemoryLimitError, QueryExecutionError
from pinotpy.pql.ast import Dialect, Identifier
from pinotpy.query.group import choose
from pinotpy.query.model.context import Bound, Comparison, Predicate, QueryOptions
from pinotpy.query.plan import build as scan
from pinotpy.query.runtime.control import QueryControl

POOLS: dict[D, list[Any]] = {
    D.INT: [0, 1, -1, 7, 2**31 - 1, -(2**31)],
    D.LONG: [0, 5, -3, 2**63 - 1, -(2**63), 2**53 + 1, 10**18],
    D.FLOAT: [float(np.float32(v)) for v in (0.0, -0.0, 0.1, 3.5, -1e30, 1e-30)],
    D.DOUBLE: [0.0, -0.0, 0.1, 1e300, -1e300, 1e-300, 5e-324, 2.5, -1e16, 1.0, math.inf, -math.inf],
    D.STRING: ["", "a", "b", "Zürich", "null"],
    D.BOOLEAN: [True, False],
    D.TIMESTAMP: [0, 86_400_000, -1, 1_600_000_000_000],
    D.BYTES: [b"", b"\x00", b"a\xff"],
    D.BIG_DECIMAL: [Decimal("0"), Decimal("0.1"), Decimal("12345678901234567890.123"), Decimal("-7")],
}
NUMBERS = (D.INT, D.LONG, D.FLOAT, D.DOUBLE, D.BOOLEAN, D.TIMESTAMP, D.BIG_DECIMAL)
ROWS = 700


def _columns() -> list[Column]:
    out = []
    for data_type in POOLS:
        name = data_type.value.lower()
        out += [
            Column(f"d_{name}", data_type),
            Column(f"r_{name}", data_type, raw=True),
            Column(f"m_{name}", data_type, single_value=False),
        ]
    return [
        *out,
        Column("mr_int", D.INT, single_value=False, raw=True),
        Column("mr_string", D.STRING, single_value=False, raw=True),
    ]


def _cells(columns: list[Column], seed: int) -> Cells:
    rng = random.Random(seed)
    cells: Cells = {}
    for c in columns:
        pool = POOLS[c.data_type]

        def one(pool: list[Any] = pool, c: Column = c) -> Any:
            if rng.random() < 0.15:
                return None
            if c.single_value:
                return rng.choice(pool)
            return [rng.choice(pool) for _ in range(rng.randint(0, 3))]

        cells[c.name] = [one() for _ in range(ROWS)]
    return cells


COLUMNS = _columns()
CELLS = _cells(COLUMNS, 7)


@pytest.fixture(scope="module")
def segments(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    folder = tmp_path_factory.mktemp("segments")
    return [build(folder, COLUMNS, part, f"s{i}") for i, part in enumerate(cut(CELLS, (150, 151, 500, ROWS)))]


def _calls(data_type: D, name: str) -> list[tuple[str, str]]:
    multi = name.startswith("m")
    suffix = "mv" if multi else ""
    calls = [("count", "*"), ("count", name), (f"distinctcount{suffix}", name)]
    if multi:
        calls.append(("countmv", name))
    if data_type in NUMBERS:
        calls += [(f"{f}{suffix}", name) for f in ("sum", "min", "max", "avg", "minmaxrange")]
    return calls


def _verify(segments: list[Any], calls: list[tuple[str, str]], keys: list[str], *, null_handling: bool) -> None:
    context = make_context(COLUMNS, calls, keys, null_handling=null_handling)
    used = [c for c in COLUMNS if c.name in {*keys, *(a for _, a in calls)}]
    wanted = expected(used, CELLS, calls, keys, null_handling=null_handling)
    check(answer(context, [run(context, segments)]), wanted, len(keys))


@pytest.mark.parametrize("null_handling", [False, True], ids=["plain", "nulls"])
@pytest.mark.parametrize("column", COLUMNS, ids=lambda c: c.name)
class TestEveryColumn:
    def test_aggregates_alone(self, segments: list[Any], column: Column, null_handling: bool) -> None:
        _verify(segments, _calls(column.data_type, column.name), [], null_handling=null_handling)

    def test_aggregates_by_a_dictionary_column(self, segments: list[Any], column: Column, null_handling: bool) -> None:
        _verify(segments, _calls(column.data_type, column.name), ["d_string"], null_handling=null_handling)

    def test_aggregates_by_a_raw_column(self, segments: list[Any], column: Column, null_handling: bool) -> None:
        _verify(segments, _calls(column.data_type, column.name), ["r_long"], null_handling=null_handling)

    def test_is_a_group_key(self, segments: list[Any], column: Column, null_handling: bool) -> None:
        _verify(
            segments,
            [("count", "*"), ("sum", "d_double"), ("max", "r_int")],
            [column.name],
            null_handling=null_handling,
        )

    def test_is_one_of_two_keys(self, segments: list[Any], column: Column, null_handling: bool) -> None:
        _verify(
            segments,
            [("count", "*"), ("avg", "r_double"), ("distinctcount", "r_string")],
            ["d_boolean", column.name],
            null_handling=null_handling,
        )


@pytest.mark.parametrize("null_handling", [False, True], ids=["plain", "nulls"])
def test_two_multi_value_keys_make_the_cross_product(segments: list[Any], null_handling: bool) -> None:
    _verify(
        segments,
        [("count", "*"), ("sum", "d_long"), ("summv", "m_int")],
        ["m_string", "d_int", "m_boolean"],
        null_handling=null_handling,
    )


def test_several_multi_value_functions_do_not_multiply_each_other(segments: list[Any]) -> None:
    _verify(
        segments,
        [("summv", "m_int"), ("countmv", "m_string"), ("maxmv", "m_double"), ("sum", "d_int"), ("count", "*")],
        ["d_int"],
        null_handling=False,
    )


def test_plain_extremes_of_a_multi_value_column_see_all_its_values(segments: list[Any]) -> None:
    _verify(segments, [("min", "m_int"), ("max", "m_long"), ("count", "m_int")], ["d_boolean"], null_handling=False)


def test_five_keys_and_many_aggregations_at_once(segments: list[Any]) -> None:
    numbers = [c.name for c in COLUMNS if c.single_value and c.data_type in NUMBERS]
    calls = [(f, name) for name in numbers for f in ("sum", "min", "avg")]
    _verify(segments, calls, ["d_int", "d_string", "d_boolean", "r_bytes", "d_double"], null_handling=True)


@pytest.mark.parametrize("hashed", [False, True])
def test_dense_and_hashed_tables_agree(segments: list[Any], hashed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if hashed:
        monkeypatch.setattr(choose, "DIRECT_GROUPS_MAX", 0)  # tables of morsels
    calls = [
        ("count", "*"),
        ("sum", "d_double"),
        ("distinctcount", "d_bytes"),
        ("sum", "d_big_decimal"),
        ("minmv", "m_int"),
    ]
    for keys in (["d_int"], ["d_int", "d_double"], ["m_int", "d_string", "d_long"]):
        _verify(segments, calls, keys, null_handling=True)


class TestSplits:
    """The same rows give the same bits whatever segments, threads, servers and order."""

    CALLS = (("sum", "x"), ("avg", "x"), ("min", "x"), ("sum", "f"), ("sum", "l"), ("count", "*"))

    def _table(self) -> tuple[list[Column], Cells]:
        rng = random.Random(3)
        columns = [
            Column("g", D.INT),
            Column("x", D.DOUBLE, raw=True),
            Column("f", D.FLOAT),
            Column("l", D.LONG, raw=True),
        ]
        cells: Cells = {"g": [rng.randrange(6) for _ in range(9000)]}
        cells["x"] = [
            rng.choice([rng.gauss(0, 1) * 10 ** rng.randint(-200, 200), rng.gauss(0, 1e6), 1e16, -1e16, 3.0])
            for _ in range(9000)
        ]
        cells["f"] = [float(np.float32(rng.gauss(0, 1000))) for _ in range(9000)]
        cells["l"] = [rng.choice([2**63 - 1, -(2**63), rng.randrange(-(2**62), 2**62)]) for _ in range(9000)]
        return columns, cells

    @pytest.mark.parametrize("keys", [[], ["g"], ["f"]])
    def test_never_show_in_sums(
        self, tmp_path: Path, keys: list[str], executor: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(scan, "DOCS_PER_THREAD_MIN", 1)
        columns, cells = self._table()
        context = make_context(columns, self.CALLS, keys)
        wanted = expected(columns, cells, self.CALLS, keys, null_handling=False)
        for number, ends in enumerate([(9000,), (1, 3000, 9000), (4096, 8192, 9000)]):
            segments = [build(tmp_path, columns, part, f"{number}_{i}") for i, part in enumerate(cut(cells, ends))]
            for threads in (1, 2, 3, 4):
                check(answer(context, [run(context, segments, threads=threads, executor=executor)]), wanted, len(keys))
            partials = [run(context, [segment]) for segment in segments]
            for order in itertools.permutations(partials):
                check(answer(context, list(order)), wanted, len(keys))


class TestFilters:
    def _where(self, column: str, low: int) -> Predicate:
        return Predicate(Identifier(column), Comparison.RANGE, lower=Bound(low, inclusive=True))

    def _keep(self, column: str, low: int) -> Any:
        by_name = {c.name: c for c in COLUMNS}

        def keep(row: int) -> bool:
            cell = CELLS[column][row]
            value = -(2**31) if cell is None else cell
            assert by_name[column].data_type is D.INT
            return bool(value >= low)

        return keep

    def test_where_leaves_only_what_matches(self, segments: list[Any]) -> None:
        calls = [("count", "*"), ("sum", "d_double"), ("distinctcount", "r_string")]
        for keys in ([], ["d_string"], ["r_double", "d_int"]):
            context = make_context(COLUMNS, calls, keys, where=self._where("d_int", 1))
            wanted = expected(COLUMNS, CELLS, calls, keys, null_handling=False, keep=self._keep("d_int", 1))
            check(answer(context, [run(context, segments)]), wanted, len(keys))

    def test_filter_of_one_aggregation_leaves_the_others_alone(self, segments: list[Any]) -> None:
        calls = [
            ("sum", "d_long"),
            ("sum", "d_long"),
            ("count", "*"),
            ("distinctcount", "d_string"),
            ("summv", "m_int"),
        ]
        flags = [
            self._where("r_int", 1),
            None,
            self._where("r_int", 1),
            self._where("r_int", 1),
            self._where("r_int", 1),
        ]
        context = make_context(COLUMNS, calls, ["d_boolean"], filters=flags)
        every = expected(COLUMNS, CELLS, calls, ["d_boolean"], null_handling=False)
        some = expected(COLUMNS, CELLS, calls, ["d_boolean"], null_handling=False, keep=self._keep("r_int", 1))
        wanted = {
            key: tuple(some[key][i] if flags[i] is not None else every[key][i] for i in range(5)) for key in every
        }
        check(answer(context, [run(context, segments)]), wanted, 1)

    def test_nothing_that_matches_is_one_row_or_no_group(self, segments: list[Any]) -> None:
        nothing = Predicate(Identifier("d_int"), Comparison.EQ, (12345,))
        calls = [
            ("count", "*"),
            ("sum", "d_int"),
            ("min", "d_int"),
            ("max", "d_int"),
            ("avg", "d_int"),
            ("minmaxrange", "d_int"),
            ("distinctcount", "d_int"),
        ]
        plain = make_context(COLUMNS, calls, where=nothing)
        assert answer(plain, [run(plain, segments)]) == [(0, 0.0, math.inf, -math.inf, -math.inf, -math.inf, 0)]
        nulls = make_context(COLUMNS, calls, where=nothing, null_handling=True)
        assert answer(nulls, [run(nulls, segments)]) == [(0, None, None, None, None, None, 0)]
        grouped = make_context(COLUMNS, calls, ["d_int"], where=nothing)
        assert answer(grouped, [run(grouped, segments)]) == []


class TestStatistics:
    def test_count_star_reads_metadata_only(self, segments: list[Any]) -> None:
        context = make_context(COLUMNS, [("count", "*")])
        statistics = run(context, segments).statistics
        assert (
            statistics.num_docs_scanned,
            statistics.num_entries_scanned_post_filter,
            statistics.num_segments_matched,
        ) == (ROWS, 0, 4)

    def test_extremes_and_distinct_counts_read_dictionaries_only_when_alone(self, segments: list[Any]) -> None:
        alone = make_context(
            COLUMNS, [("min", "d_int"), ("max", "d_double"), ("minmaxrange", "d_long"), ("distinctcount", "d_string")]
        )
        assert run(alone, segments).statistics.num_entries_scanned_post_filter == 0
        mixed = make_context(COLUMNS, [("min", "d_int"), ("count", "*")])
        assert run(mixed, segments).statistics.num_entries_scanned_post_filter == ROWS
        raw = make_context(COLUMNS, [("min", "r_int")])
        assert run(raw, segments).statistics.num_entries_scanned_post_filter == ROWS

    def test_entries_after_the_filter_count_each_column_once(self, segments: list[Any]) -> None:
        context = make_context(COLUMNS, [("sum", "d_int"), ("max", "d_int"), ("count", "*")], ["d_string", "d_string"])
        assert run(context, segments).statistics.num_entries_scanned_post_filter == 2 * ROWS


class TestLimits:
    def test_memory_of_groups_is_bounded_by_the_control(self, tmp_path: Path) -> None:
        columns = [Column("k", D.LONG, raw=True)]
        segment = build(tmp_path, columns, {"k": list(range(200_000))}, "s")
        context = make_context(columns, [("count", "*")], ["k"])
        with pytest.raises(MemoryLimitError):
            run(context, [segment], control=QueryControl(memory_max_bytes=1_000_000))
        control = QueryControl(memory_max_bytes=1_000_000_000)
        assert run(context, [segment], control=control).rows.num_rows == 200_000  # type: ignore[union-attr]
        assert control.held_bytes <= 200_000 * 5 * 8, "what is left of it is that of the result's columns"

    def test_a_limit_of_groups_cuts_and_says_so(self, segments: list[Any]) -> None:
        context = make_context(COLUMNS, [("count", "*")], ["d_int"], options=QueryOptions(num_groups_limit=3))
        partial = run(context, segments)
        assert partial.rows is not None and partial.rows.num_rows == 3 and partial.statistics.num_groups_limit_reached
        wide = make_context(COLUMNS, [("count", "*")], ["d_int"], options=QueryOptions(num_groups_limit=100))
        assert not run(wide, segments).statistics.num_groups_limit_reached


class TestRefusals:
    @pytest.mark.parametrize("function", ["sum", "min", "max", "avg", "minmaxrange"])
    @pytest.mark.parametrize("column", ["d_string", "d_bytes"])
    def test_text_is_no_number(self, segments: list[Any], function: str, column: str) -> None:
        sql = make_context(COLUMNS, [(function, column)])
        with pytest.raises(InvalidQueryError):
            run(sql, segments)
        pql = make_context(COLUMNS, [(function, column)], dialect=Dialect.PQL)
        with pytest.raises(QueryExecutionError, match="no numbers"):
            run(pql, segments)

    def test_booleans_are_text_in_pql_and_numbers_in_sql(self, segments: list[Any]) -> None:
        with pytest.raises(QueryExecutionError):
            context = make_context(COLUMNS, [("sum", "d_boolean")], dialect=Dialect.PQL)
            run(context, segments)

    def test_multi_value_functions_and_columns_belong_together(self, segments: list[Any]) -> None:
        for calls in ([("summv", "d_int")], [("sum", "m_int")]):
            with pytest.raises(QueryExecutionError):
                run(make_context(COLUMNS, calls), segments)


def test_expressions_are_keys_and_arguments(tmp_path: Path) -> None:
    columns = [Column("a", D.INT), Column("b", D.DOUBLE, raw=True)]
    cells: Cells = {"a": [1, 2, None, 2, 5], "b": [0.5, None, 1.0, 0.25, 4.0]}
    segments = [build(tmp_path, columns, part, f"s{i}") for i, part in enumerate(cut(cells, (2, 5)))]
    context = make_context(
        columns, [("sum", "plus(a,b)"), ("count", "plus(a,b)"), ("count", "*")], ["times(a,a)"], null_handling=True
    )
    found = set(answer(context, [run(context, segments)]))
    assert found == {(1.0, 1.5, 1, 1), (4.0, 2.25, 1, 2), (None, None, 0, 1), (25.0, 9.0, 1, 1)}
