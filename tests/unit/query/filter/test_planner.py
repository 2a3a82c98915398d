"""Proves the planner of filters (query/filter/planner.py): for random conditions over random segments the kernel writes
the instructions that the emitter of single conditions writes, whatever columns are like; what is known of a filter in a
segment is true of its docs; conjuncts are ordered by price for a doc taken away; an OR that holds everywhere is not
tested; indexes are weighed where no list is short.
"""

from __future__ import annotations

import itertools
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from fake_segment import FakeSegment, fake_column

from pinotpy.config.schema import Schema
from pinotpy.data_types import DataType
from pinotpy.kernels.filter import planner as kernels
from pinotpy.kernels.runtime import abi
from pinotpy.pql.parser import parse_sql
from pinotpy.query.compile.statement import compile_query
from pinotpy.query.execute import execute
from pinotpy.query.filter import index_choice, planner
from pinotpy.query.filter.index_choice import IndexAccess
from pinotpy.query.filter.tree import predicates_of
from pinotpy.query.model.context import QueryOptions
from pinotpy.query.plan import build
from pinotpy.query.plan.scan_plan import ScanPlan
from pinotpy.query.runtime.control import QueryControl
from pinotpy.query.segments.segment_set import SegmentSet

SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [
            {"name": "day", "dataType": "INT"},
            {"name": "g", "dataType": "LONG"},
            {"name": "h", "dataType": "LONG"},
            {"name": "s", "dataType": "STRING"},
            {"name": "many", "dataType": "INT", "singleValueField": False},
        ],
        "metricFieldSpecs": [
            {"name": "v", "dataType": "LONG"},
            {"name": "x", "dataType": "DOUBLE"},
            {"name": "f", "dataType": "FLOAT"},
        ],
    }
)
EXTREMES = [-(2**63), 2**63 - 1, 0, -1]


def random_segment(rng: random.Random, number: int) -> FakeSegment:
    docs = rng.choice((1, 7, 900, 5000))
    days = sorted(rng.randint(10 * number, 10 * number + 10) for _ in range(docs))
    texts = [b"", b"a", b"a\0", b"b", "ß".encode()][: rng.randint(1, 5)]
    reals = [0.0, -0.0, 1.5, float("inf"), -2.25] + ([float("nan")] if number % 3 == 0 else [])
    null_share, has_dictionary = (
        (0.2 if number % 2 else 0.0),
        number % 3 != 0 and rng.random() < 0.3,
    )  # a dictionary has no NaN here

    def cells(choices: list[Any]) -> list[Any]:
        return [None if rng.random() < null_share else rng.choice(choices) for _ in range(docs)]

    return FakeSegment(
        f"t_{number}",
        [
            fake_column("day", DataType.INT, days),
            fake_column(
                "g",
                DataType.LONG,
                [rng.choice([*EXTREMES, 5, 6, 7]) for _ in range(docs)],
                dictionary=rng.random() < 0.5,
            ),
            fake_column("s", DataType.STRING, cells(texts), dictionary=rng.random() < 0.7),
            fake_column(
                "many",
                DataType.INT,
                [[rng.randint(0, 4) for _ in range(rng.randint(1, 3))] for _ in range(docs)],
                single_value=False,
            ),
            fake_column("v", DataType.LONG, cells(list(range(50))), dictionary=False),
            fake_column("x", DataType.DOUBLE, [rng.choice(reals) for _ in range(docs)], dictionary=has_dictionary),
            fake_column(
                "f", DataType.FLOAT, [rng.choice([0.1, 0.5, 3.0]) for _ in range(docs)], dictionary=rng.random() < 0.5
            ),
        ],
    )


def random_condition(rng: random.Random) -> str:
    low = rng.randint(-5, 80)
    return rng.choice(
        [
            f"day BETWEEN {low} AND {low + rng.choice((0, 5, 40))}",
            f"day <> {low}",
            f"NOT (day > {low})",
            f"g {rng.choice(('=', '<', '>=', '<>'))} {rng.choice([*EXTREMES, 5, 6, 10])}",
            f"s {rng.choice(('=', '<', '>', '<>'))} '{rng.choice(('', 'a', 'b', 'zz'))}'",
            "s IN ('a', 'ß', 'nowhere')",
            "s NOT IN ('', 'b')",
            f"many = {rng.randint(0, 5)}",
            f"many NOT IN ({rng.randint(0, 5)}, 2)",
            f"v BETWEEN {rng.randint(-10, 60)} AND {rng.randint(0, 60)}",
            "v IS NULL",
            "s IS NOT NULL",
            f"x {rng.choice(('<', '>=', '=', '<>'))} {rng.choice((0.0, 1.5, -2.25, 99.5))}",
            f"f = {rng.choice((0.1, 0.5, 7))}",
            "g IN (5, 7, -1)",
        ]
    )


def planned(text: str, segments: SegmentSet, threads: int, *, nulls: bool) -> ScanPlan:
    context = compile_query(parse_sql(text), SCHEMA, QueryOptions(), null_handling=nulls)
    with ThreadPoolExecutor(1) as executor:
        return build.build_scan(context, segments, QueryControl(), threads=threads, executor=executor)


def shown(plan: ScanPlan) -> Any:
    """What a plan reads, without addresses."""
    morsels = [
        (plan.morsel_segment(morsel).name, *row)
        for morsel, row in enumerate(plan.morsels[:, [abi.U_LOW, abi.U_HIGH, abi.U_LIST]].tolist())
    ]
    used = [word for word in range(abi.A0 + 6) if word != abi.A0]
    return morsels, plan.starts.tolist(), plan.filter_program[:, :, used].tolist(), plan.reads_all_rows


def counted(plan: ScanPlan) -> dict[str, int]:
    return asdict(plan.statistics)


def random_tree(rng: random.Random) -> str:
    """AND of conditions, some of them an OR, a negated OR or an expression."""
    parts = []
    for _ in range(rng.randint(1, 4)):
        either = " OR ".join(random_condition(rng) for _ in range(rng.randint(1, 3)))
        parts.append(rng.choice((random_condition(rng), f"({either})", f"NOT ({either})", "v + day > 30")))
    return " AND ".join(parts)


@pytest.mark.parametrize("seed", range(6))
def test_the_kernel_writes_what_the_emitter_of_each_condition_writes(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(build, "DOCS_PER_THREAD_MIN", 300)
    monkeypatch.setattr(planner, "KEPT_SEGMENTS_MAX", rng.choice((2, 32)))
    segments = SegmentSet([random_segment(rng, number) for number in range(rng.choice((1, 2, 8)))])
    words_of, tested = planner._words, 0

    def all_own(*arguments: Any) -> Any:
        tables, words, _ = words_of(*arguments)
        words[:, kernels.C_OWN] = 1
        return tables, words, len(words) > 0

    for _ in range(60):
        text = f"SELECT COUNT(*) FROM t WHERE {random_tree(rng)}"
        threads, nulls = rng.randint(1, 4), rng.random() < 0.5
        monkeypatch.setattr(planner, "_words", words_of)
        found = planned(text, segments, threads, nulls=nulls)
        monkeypatch.setattr(planner, "_words", all_own)
        emitted = planned(text, segments, threads, nulls=nulls)
        assert shown(found) == shown(emitted), text
        assert counted(found) == counted(emitted), text
        tested += found.filter_program.shape[1]
    assert tested > 30


@pytest.mark.parametrize("seed", range(6))
def test_outcomes_are_what_the_docs_of_each_segment_say(seed: int) -> None:
    rng = random.Random(100 + seed)
    segments = SegmentSet([random_segment(rng, number) for number in range(6)])
    outcomes = dict.fromkeys((kernels.SELECTS_SOME, kernels.SELECTS_NOTHING, kernels.SELECTS_ALL, kernels.IS_PRUNED), 0)
    for _ in range(40):
        nulls = rng.random() < 0.5
        text = f"SELECT COUNT(*) FROM t WHERE {random_tree(rng)}"
        context = compile_query(parse_sql(text), SCHEMA, QueryOptions(), null_handling=nulls)
        plan = build.plan_filter(context, segments, QueryControl())
        order = [one.cost / max(1 - one.selectivity, 1e-6) for one in plan.conjuncts if hasattr(one, "cost")]
        assert order == sorted(order), text
        for segment, outcome in zip(plan.segments, plan.outcomes.tolist(), strict=True):
            selected = execute(context, [segment], QueryControl()).statistics.num_docs_scanned
            outcomes[outcome] += 1
            if outcome != kernels.SELECTS_SOME:
                expected = segment.num_docs if outcome == kernels.SELECTS_ALL and not plan.late else 0
                assert selected == expected or plan.late, text
    assert all(outcomes.values()), outcomes


def test_an_or_that_holds_in_every_segment_is_not_tested() -> None:
    def segment(name: str, g: int, h: int) -> FakeSegment:
        columns = {"g": [g] * 50, "h": [h] * 50, "v": list(range(50))}
        raw = fake_column("day", DataType.INT, list(range(50)), dictionary=False)
        return FakeSegment(name, [*(fake_column(one, DataType.LONG, values) for one, values in columns.items()), raw])

    # One condition of the OR holds in each segment, not the same.
    segments = SegmentSet([segment("a", 1, 0), segment("b", 0, 1)])
    text = "SELECT COUNT(*) FROM t WHERE v >= 25 AND (g = 1 OR h = 1 OR day = 7)"
    plan = planned(text, segments, 1, nulls=False)
    assert plan.filter_program.shape[1] == 0 and plan.docs_to_read == 50, "v is sorted: its run is all"
    context = compile_query(parse_sql(f"EXPLAIN PLAN FOR {text}"), SCHEMA, QueryOptions(), null_handling=False)
    for group in execute(context, segments, QueryControl()).explain:
        either = next(child for child in group["filter"]["children"] if child["operator"] == "OR")
        assert either["children"][2]["access"] == "everything" and "not tested" in either["children"][2]["why"]


def test_indexes_are_weighed_where_no_list_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_choice, "_NS_OVERHEAD", 0.0)  # else three docs are scanned before any index is weighed
    columns = [
        fake_column("g", DataType.LONG, [1, 2, 3], inverted=True),
        fake_column("s", DataType.STRING, [b"a", b"b", b"c"], dictionary=False),
        fake_column("v", DataType.LONG, [1, 2, 3]),
    ]
    segments = SegmentSet([FakeSegment("t", columns)])
    weighed: list[int] = []
    apply = IndexAccess.apply

    def watched(access: IndexAccess) -> Any:
        weighed.append(1)
        return apply(access)

    monkeypatch.setattr(IndexAccess, "apply", watched)
    for text, expected in (
        ("g = 1", True),  # a list of one doc of three saves nothing
        ("g > 1", True),
        ("v = 1 OR s = 'a'", False),
        ("g = 1 AND (v = 1 OR s = 'a')", True),
        ("v = 1", False),
        ("v > 1 AND s = 'a'", False),
    ):
        weighed.clear()
        planned(f"SELECT COUNT(*) FROM t WHERE {text}", segments, 1, nulls=False)
        assert bool(weighed) is expected, text


@pytest.mark.parametrize("text", ["g = 7 OR x < 10", "g = 1 AND v > 3", "(g = 1 OR g = 2) AND v > 3"])
def test_prices_for_explain_change_nothing(text: str) -> None:
    columns = [
        fake_column("g", DataType.LONG, [doc % 40 for doc in range(4_000)], inverted=True),
        fake_column("v", DataType.LONG, list(range(0, 40_000, 10))),
        fake_column("x", DataType.DOUBLE, [doc / 7 for doc in range(4_000)], dictionary=False),
    ]
    context = compile_query(
        parse_sql(f"SELECT COUNT(*) FROM t WHERE {text}"), SCHEMA, QueryOptions(), null_handling=False
    )
    plan = build.plan_filter(context, SegmentSet([FakeSegment("t", columns)]), QueryControl())

    def decided() -> Any:
        tables = [predicate.table.tolist() for node in plan.conjuncts for predicate in predicates_of(node)]  # type: ignore[union-attr]
        return plan.morsels.tolist(), plan.runs.tolist(), plan.program().tolist(), tables

    before = decided()
    choices = plan.choices(QueryControl())
    assert decided() == before and choices.index_ns.keys() >= choices.bound_predicates.keys() != set()


@pytest.mark.parametrize("seed", range(20))
def test_units_are_dealt_in_slices_of_about_equal_numbers_of_docs(seed: int) -> None:
    rng = random.Random(seed)
    morsels = np.zeros((rng.randint(0, 6), abi.MORSEL_WORDS), np.int64)
    morsels[:, abi.U_SEGMENT] = np.arange(len(morsels))
    morsels[:, abi.U_LOW] = [rng.randint(0, 50) for _ in morsels]
    morsels[:, abi.U_HIGH] = morsels[:, abi.U_LOW] + [rng.choice((1, 100, 5000, 40_000)) for _ in morsels]
    total = int((morsels[:, abi.U_HIGH] - morsels[:, abi.U_LOW]).sum())
    threads, least = rng.randint(1, 5), rng.choice((1, 3000))
    dealt, starts = kernels.deal(morsels, threads, least)
    used = max(1, min(threads, total // least))
    assert len(starts) == used + 1 and starts[0] == 0 and starts[-1] == len(dealt) and (np.diff(starts) >= 0).all()
    # The same docs, each once, in order.
    assert [
        doc
        for row in dealt
        for doc in (row[abi.U_SEGMENT], row[abi.U_LOW], row[abi.U_HIGH])
        if row[abi.U_LOW] >= row[abi.U_HIGH]
    ] == []
    for segment, low, high in morsels[:, [abi.U_SEGMENT, abi.U_LOW, abi.U_HIGH]].tolist():
        own = dealt[dealt[:, abi.U_SEGMENT] == segment]
        assert (
            own[0, abi.U_LOW] == low
            and own[-1, abi.U_HIGH] == high
            and (own[1:, abi.U_LOW] == own[:-1, abi.U_HIGH]).all()
        )
    sizes = dealt[:, abi.U_HIGH] - dealt[:, abi.U_LOW]
    shares = [int(sizes[first:last].sum()) for first, last in itertools.pairwise(starts)]
    assert all(abs(share - total / used) <= 2 * abi.BLOCK for share in shares)
