"""Proves that segments which smallest and largest values exclude are left out before a filter is resolved: exactly
those, whatever the filter; that no range is compared twice; that counts, groups, statistics and the rules of EXPLAIN
are as without it; and that the last parts of a set are kept, few of them.
"""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
from built_segments import ask, config_of, opened, schema_of

from pinotpy.query.filter import pruning
from pinotpy.query.filter.normal_form import EVERYWHERE, AllOf, AnyOf
from pinotpy.query.filter.pruning import SEGMENTS_MIN, prune_by_ranges
from pinotpy.query.model.predicate import FixedRange, TypedPredicate
from pinotpy.query.segments.segment_set import PARTS_KEPT_MAX, SegmentSet

NUM_SEGMENTS, DOCS = 80, 20
SCHEMA = schema_of({"ts": "LONG", "size": "INT", "cost": "DOUBLE", "name": "STRING"})


def rows_of(number: int) -> dict[str, list[Any]]:
    """Segment s holds ts of [20 s, 20 s + 20); sizes are anywhere; cost rises by segment, and is NaN somewhere in every
    third.
    """
    rng = random.Random(number)
    cost = [number / 2 + rng.randrange(50) / 100 for _ in range(DOCS)]
    if number % 3 == 0:
        cost[rng.randrange(DOCS)] = math.nan
    return {
        "ts": [number * DOCS + doc for doc in range(DOCS)],
        "size": [rng.randrange(1_000) for _ in range(DOCS)],
        "cost": cost,
        "name": [f"n{rng.randrange(5)}" for _ in range(DOCS)],
    }


ROWS = [rows_of(number) for number in range(NUM_SEGMENTS)]


@pytest.fixture(scope="module", params=[[], ["ts", "size", "cost"]], ids=["dictionary", "raw"])
def segments(request: pytest.FixtureRequest) -> SegmentSet:
    config = config_of({"noDictionaryColumns": request.param})
    return SegmentSet([opened(SCHEMA, config, rows, f"s{number}") for number, rows in enumerate(ROWS)])


def between(column: str, low: float, high: float, **fields: Any) -> TypedPredicate:
    return TypedPredicate(column, FixedRange(low, high), **{"prunes": True, **fields})


def least_cost(number: int) -> float:
    """What a segment records where there is NaN: no least."""
    return min(-math.inf if math.isnan(value) else value for value in ROWS[number]["cost"])


def most_cost(number: int) -> float:
    return max(value for value in ROWS[number]["cost"] if not math.isnan(value))


def left(condition: Any, segments: SegmentSet) -> list[int]:
    return [int(segment.name[1:]) for segment in prune_by_ranges(condition, segments).kept]


def test_the_segments_left_are_those_whose_ranges_meet_all_conditions(segments: SegmentSet) -> None:
    rng = random.Random(3)
    for _ in range(200):
        low = rng.randrange(-100, NUM_SEGMENTS * DOCS + 100)
        high = low + rng.choice([0, 5, 70, 400])
        least = rng.randrange(-10, 500) / 10
        predicates = (between("ts", low, high), between("cost", least, least + 7.0), between("size", -1, 2_000))
        expected = [
            s
            for s, rows in enumerate(ROWS)
            if rows["ts"][0] <= high and rows["ts"][-1] >= low and least_cost(s) <= least + 7 and most_cost(s) >= least
        ]
        assert left(AllOf(predicates), segments) == (expected or [0])


def test_what_excludes_nothing_leaves_all(segments: SegmentSet) -> None:
    narrow = between("ts", 100, 140)
    everything = list(range(NUM_SEGMENTS))
    assert left(narrow, segments) == [5, 6, 7]
    assert left(EVERYWHERE, segments) == everything
    assert left(narrow.inverse(), segments) == everything
    assert left(between("ts", 100, 140, prunes=False), segments) == everything
    assert left(AnyOf((narrow, between("size", 0, 1))), segments) == everything
    assert left(AllOf((AnyOf((narrow, narrow)), between("size", 0, 999))), segments) == everything
    assert left(between("ts", 0, NUM_SEGMENTS * DOCS // 2 + 1), segments) == everything, "most are left"
    few = segments.take(np.arange(SEGMENTS_MIN))
    assert prune_by_ranges(narrow, few).kept is few


def rules(segments: SegmentSet, text: str) -> dict[str, int]:
    """Segments that EXPLAIN says are pruned, by rule."""
    found: dict[str, int] = {}
    for group in ask(SCHEMA, segments, f"EXPLAIN PLAN FOR {text}").explain:
        if "pruned" in group:
            rule = group["pruned"]["rule"]
            found[rule] = found.get(rule, 0) + group["segments"]
    return found


def test_explain_names_a_condition_that_excludes_each_segment(segments: SegmentSet) -> None:
    text = "EXPLAIN PLAN FOR SELECT COUNT(*) FROM t WHERE size >= 0 AND ts BETWEEN 100 AND 140 AND cost < 1000"
    pruned = [group for group in ask(SCHEMA, segments, text).explain if "pruned" in group]
    assert sum(group["segments"] for group in pruned) == NUM_SEGMENTS - 3
    whys = {(group["pruned"]["rule"], group["pruned"]["why"]) for group in pruned}
    assert whys == {("min and max", "ts BETWEEN '100' AND '140' lies outside the values of the segment")}
    for group in pruned:
        for name, span in zip(group["names"], group["pruned"]["values"]["ts"], strict=False):  # few names are shown
            assert span == [int(name[1:]) * DOCS, int(name[1:]) * DOCS + DOCS - 1]


def test_a_range_is_compared_once_however_many_segments(segments: SegmentSet, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []
    compare = pruning.range_places

    def counted(*arguments: Any) -> Any:
        compared.append(len(arguments[-1]))
        return compare(*arguments)

    monkeypatch.setattr(pruning, "range_places", counted)
    few = segments.take(np.arange(3))
    for asked, condition, expected in (
        (segments, "ts BETWEEN 100 AND 140 AND size > 3", [NUM_SEGMENTS] * 2),
        (segments, "ts > 100 AND size > 3", [NUM_SEGMENTS] * 2),
        (segments, "ts = -1", [NUM_SEGMENTS]),
        (few, "ts > 30 AND size > 3", []),  # where they are bound
    ):
        compared.clear()
        ask(SCHEMA, asked, f"SELECT COUNT(*) FROM t WHERE {condition}")
        assert compared == expected, condition


@pytest.mark.parametrize(
    "condition",
    [
        "ts >= 100 AND ts < 160 AND size > 300",
        "ts BETWEEN 100 AND 160 AND (size < 500 OR name = 'n1')",
        "cost > 39.2 AND name <> 'n2'",
        "ts = 333",
        "ts = -1 AND size > 0",
        "ts < 50 AND NOT (size BETWEEN 100 AND 900)",
        "ts IN (5) AND name LIKE 'n%'",
    ],
)
@pytest.mark.parametrize(
    "select",
    ["COUNT(*), SUM(size), MAX(cost)", "name, COUNT(*), SUM(ts)", "ts, name"],
    ids=["aggregate", "group", "rows"],
)
def test_answers_and_statistics_are_as_without_it(
    select: str, condition: str, segments: SegmentSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"SELECT {select} FROM t WHERE {condition}" + (
        " GROUP BY name ORDER BY name LIMIT 100" if select.startswith("name") else " LIMIT 5000"
    )
    found, explained = ask(SCHEMA, segments, text), rules(segments, text)
    monkeypatch.setattr(pruning, "SEGMENTS_MIN", NUM_SEGMENTS)
    expected = ask(SCHEMA, segments, text)
    assert explained == rules(segments, text) and sum(explained.values()) == found.statistics.num_segments_pruned
    assert (found.rows and found.rows.to_pydict()) == (expected.rows and expected.rows.to_pydict())
    for name in (
        "num_segments_queried",
        "num_segments_processed",
        "num_segments_pruned",
        "num_docs_scanned",
        "total_docs",
    ):
        assert getattr(found.statistics, name) == getattr(expected.statistics, name), name
    assert found.statistics.num_segments_pruned >= NUM_SEGMENTS // 2


def test_the_last_parts_are_kept_and_few_of_them(segments: SegmentSet) -> None:
    rows = np.array([3, 4])
    part = segments.part(rows)
    assert segments.part(rows.copy()) is part and [segment.name for segment in part] == ["s3", "s4"]
    for number in range(3 * PARTS_KEPT_MAX):
        segments.part(np.array([number]))
    assert len(segments._parts) == PARTS_KEPT_MAX
    assert segments.part(rows) is not part
