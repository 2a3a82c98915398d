"""Proves the kernel that plans plain filters (query/filter/planner.py): for random conditions over random segments it
gives the morsels, the deal to threads, the instructions and the counters of the longer way, whatever columns are like;
and what it cannot plan it leaves to that.
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
from pinotpy.query.filter import index_choice, planner
from pinotpy.query.model.context import QueryOptions
from pinotpy.query.plan import build
from pinotpy.query.plan.scan_plan import ScanPlan
from pinotpy.query.result.partial import Statistics
from pinotpy.query.runtime.control import QueryControl
from pinotpy.query.segments.segment_set import SegmentSet

SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [
            {"name": "day", "dataType": "INT"},
            {"name": "g", "dataType": "LONG"},
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


@pytest.mark.parametrize("seed", range(6))
def test_the_kernel_plans_as_the_longer_way(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(build, "DOCS_PER_THREAD_MIN", 300)
    monkeypatch.setattr(planner, "KEPT_SEGMENTS_MAX", rng.choice((2, 32)))
    segments = SegmentSet([random_segment(rng, number) for number in range(rng.choice((1, 2, 8)))])
    by_kernel = 0
    plain = planner.is_plain
    for _ in range(60):
        conditions = [random_condition(rng) for _ in range(rng.randint(1, 4))]
        text, threads, nulls = (
            f"SELECT COUNT(*) FROM t WHERE {' AND '.join(conditions)}",
            rng.randint(1, 4),
            rng.random() < 0.5,
        )

        def watched(tree: Any) -> bool:
            nonlocal by_kernel
            by_kernel += plain(tree)
            return plain(tree)

        monkeypatch.setattr(build, "is_plain", watched)
        found = planned(text, segments, threads, nulls=nulls)
        monkeypatch.setattr(build, "is_plain", lambda tree: False)
        longer = planned(text, segments, threads, nulls=nulls)
        assert shown(found) == shown(longer), text
        assert counted(found) == counted(longer), text
    assert by_kernel > 30


def test_or_and_indexes_without_a_short_list_take_the_longer_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_choice, "_NS_OVERHEAD", 0.0)  # else three docs are scanned before any index is weighed
    columns = [
        fake_column("g", DataType.LONG, [1, 2, 3], inverted=True),
        fake_column("s", DataType.STRING, [b"a", b"b", b"c"], dictionary=False),
        fake_column("v", DataType.LONG, [1, 2, 3]),
    ]
    metas = build.ColumnMetas(SegmentSet([FakeSegment("t", columns)]))
    for text, expected in (
        ("g = 1", False),
        ("g > 1", False),
        ("v = 1 OR s = 'a'", False),
        ("v = 1", True),
        ("v > 1 AND s = 'a'", True),
    ):
        context = compile_query(
            parse_sql(f"SELECT COUNT(*) FROM t WHERE {text}"), SCHEMA, QueryOptions(), null_handling=False
        )
        tree = build.resolve_tree(build.normal_form(context.filter, context), context, metas, QueryControl())
        # A list of one doc of three saves nothing: the longer way weighs it.
        found = planner.is_plain(tree) and planner.plan_conjunction(
            tree, metas.segments, metas, Statistics(), QueryControl(), threads=1, thread_docs_min=300
        )
        assert bool(found) is expected, text


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
