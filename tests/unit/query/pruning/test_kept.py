"""Proves that indexes find exactly the segments that the walk over all of them keeps, over random facts of many
segments, and that they are asked: what a narrow filter looks at is a part of the segments."""

from __future__ import annotations

import random

import numpy as np
import pytest

from pinotpy.arrays import Int64Array
from pinotpy.config.schema import Schema
from pinotpy.data_types import DataType
from pinotpy.pql.parser import parse_sql
from pinotpy.query.compile.statement import compile_query
from pinotpy.query.model.context import QueryContext, QueryOptions
from pinotpy.query.pruning.facts import NOTHING_KNOWN, Partitions, SegmentFacts, ValueRange
from pinotpy.query.pruning.facts_table import Facts, FactsTable
from pinotpy.query.pruning.few import FEW_MAX, kept_of_few
from pinotpy.query.pruning.kept import kept_rows
from pinotpy.query.pruning.prune import prune
from pinotpy.query.pruning.walk import Walk

SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [
            {"name": "city", "dataType": "STRING"},
            {"name": "member", "dataType": "LONG"},
        ],
        "metricFieldSpecs": [{"name": "cost", "dataType": "DOUBLE"}],
        "dateTimeFieldSpecs": [{"name": "day", "dataType": "INT", "format": "1:DAYS:EPOCH", "granularity": "1:DAYS"}],
    }
)
NUM_SEGMENTS = 400


def context_of(condition: str) -> QueryContext:
    statement = parse_sql(f"SELECT COUNT(*) FROM t WHERE {condition}")
    return compile_query(statement, SCHEMA, QueryOptions(), null_handling=True)


def random_range(rng: random.Random, name: str, number: int) -> ValueRange:
    """Mostly short, now and then long or open."""
    length = rng.choice([0, 1, 3, 3, 200])
    low, high = (None if rng.random() < 0.05 else each for each in (number, number + length))
    match name:
        case "city":
            low_text, high_text = (None if each is None else b"c%04d" % each for each in (low, high))
            return ValueRange(DataType.STRING, low_text, high_text, 0)
        case "cost":
            low_real, high_real = (None if each is None else each / 2 for each in (low, high))
            return ValueRange(DataType.DOUBLE, low_real, high_real, 0)
    return ValueRange(DataType.INT if name == "day" else DataType.LONG, low, high, 0)


def random_facts(rng: random.Random, number: int) -> SegmentFacts:
    if rng.random() < 0.02:
        return NOTHING_KNOWN
    names = [name for name in ("city", "member", "cost", "day") if rng.random() < 0.95]
    partitions = None
    if rng.random() < 0.95:
        function, count = rng.choice([("Murmur", 64), ("Modulo", 40), ("HashCode", 64)])
        ids = sorted({rng.randrange(count) for _ in range(rng.choice([1, 1, 2, 9]))})
        partitions = Partitions("member", function, count, tuple(ids))
    docs = rng.choice([0, *[100] * 30])
    return SegmentFacts(docs, {name: random_range(rng, name, number) for name in names}, partitions)


def random_condition(rng: random.Random, depth: int) -> str:
    if depth and rng.random() < 0.6:
        word = rng.choice([" AND ", " AND ", " OR "])
        return word.join(f"({random_condition(rng, depth - 1)})" for _ in range(2))
    name = rng.choice(["city", "member", "cost", "day"])
    numbers = [rng.randrange(-3, NUM_SEGMENTS + 5) for _ in range(rng.choice([2, 3]))]
    texts = [f"'c{number:04}'" if name == "city" else str(number) for number in numbers]
    match rng.randrange(6):
        case 0:
            return f"NOT ({name} > {texts[0]})"
        case 1:
            return f"{name} IN ({', '.join(texts)})"
        case 2:
            return f"{name} BETWEEN {texts[0]} AND {texts[1]}"
        case 3:
            return f"{name} {rng.choice(['<', '<=', '>', '>=', '<>'])} {texts[0]}"
    return f"{name} = {texts[0]}"


@pytest.mark.parametrize("seed", range(3))
def test_indexes_find_what_the_walk_over_all_segments_keeps(seed: int) -> None:
    rng = random.Random(seed)
    numbers = rng.sample(range(NUM_SEGMENTS), NUM_SEGMENTS)
    table = FactsTable.of({f"s{number}": random_facts(rng, number) for number in numbers}.values())
    for _ in range(150):
        condition = random_condition(rng, 2)
        context = context_of(condition)
        expected = np.flatnonzero(prune(context, table).kept).tolist()
        assert kept_rows(context, table, walked_max=0) == expected, (seed, condition)


@pytest.mark.parametrize("seed", range(3))
def test_few_segments_are_kept_one_by_one_as_the_walk_over_all_keeps_them(seed: int) -> None:
    rng = random.Random(seed)
    num_excluded = 0
    for size in (0, 1, 2, 10, FEW_MAX) * 12:
        numbers = rng.sample(range(40), min(size, 40)) + rng.sample(range(40), max(size - 40, 0))
        facts = [random_facts(rng, number) for number in numbers]
        table = FactsTable.of({f"s{place}": each for place, each in enumerate(facts)}.values())
        for _ in range(4):
            condition = random_condition(rng, 2)
            context = context_of(condition)
            rows = kept_of_few(Walk(context), table)
            num_excluded += size - len(rows)
            assert rows == np.flatnonzero(prune(context, table).kept).tolist(), (seed, size, condition)
    assert num_excluded > 500


def test_a_narrow_filter_looks_at_few_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    part = FactsTable.part

    def watched(table: FactsTable, rows: Int64Array) -> Facts:
        sizes.append(len(rows))
        return part(table, rows)

    monkeypatch.setattr(FactsTable, "part", watched)
    daily = {
        f"s{day}": SegmentFacts(
            9, {"day": ValueRange(DataType.INT, day, day, 0)}, Partitions("member", "Modulo", 64, (day % 64,))
        )
        for day in range(2_000)
    }
    table = FactsTable.of((daily | {"unknown": NOTHING_KNOWN}).values())
    for condition, looked_at, found in (
        # What one index says needs no second look.
        ("day BETWEEN 100 AND 129", None, 31),
        ("day BETWEEN 100 AND 129 AND day >= 0", None, 31),
        ("day BETWEEN 100 AND 129 AND cost > 7", None, 31),
        ("day >= 1999", None, 2),
        ("day IN (1, 5, 9000)", None, 3),
        ("member = 5", None, 33),
        ("day = 7 OR member = 7", None, 33),
        ("member = 5 AND day < 1000", 33, 17),
        ("day BETWEEN 100 AND 129 AND day < 110", 31, 11),
        ("day <> 7 AND day <= 8", 10, 9),
        ("day >= 0", None, 2_001),
        ("day = 7 OR cost = 7", None, 2_001),
    ):
        sizes.clear()
        rows = kept_rows(context_of(condition), table)
        assert (len(rows), sizes) == (found, [] if looked_at is None else [looked_at]), condition
        assert rows[-1] == 2_000


@pytest.mark.parametrize("seed", range(3))
def test_a_table_made_of_the_one_before_is_as_one_made_anew(seed: int) -> None:
    rng = random.Random(10 + seed)
    facts = {f"s{number}": random_facts(rng, number) for number in range(120)}
    table = FactsTable.of(facts.values())
    for step in range(60):
        for condition in (random_condition(rng, 1), "city >= 'c0050'", "member = 7", "cost < 9"):
            context = context_of(condition)
            anew = FactsTable.of(facts.values())
            expected = prune(context, anew).kept.tolist()
            assert prune(context, table).kept.tolist() == expected, (seed, step, condition)
            assert kept_rows(context, table, walked_max=0) == np.flatnonzero(expected).tolist()
        before = list(facts.values())
        for _ in range(rng.choice([0, 1, 1, 2, 9, 40])):
            match rng.randrange(4):
                case 0:
                    facts.pop(rng.choice(list(facts)))
                case 1:
                    facts[f"n{step}_{rng.random()}"] = random_facts(rng, rng.randrange(NUM_SEGMENTS))
                case _:
                    facts[rng.choice(list(facts))] = random_facts(rng, rng.randrange(NUM_SEGMENTS))
        if rng.random() < 0.2:
            facts = {name: facts[name] for name in rng.sample(list(facts), len(facts))}
        rows = {id(each): row for row, each in enumerate(before)}
        source = np.array([rows.get(id(each), -1) for each in facts.values()], np.int64)
        table = table.changed(source, [each for each in facts.values() if id(each) not in rows])
        assert len(table) == len(facts)
