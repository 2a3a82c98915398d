"""Proves that segments are left out by Bloom filters, partitions, min and max, that the statistics and EXPLAIN say by
which, and that no answer changes: every count is compared with one taken from the rows in Python.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from built_segments import ask, config_of, count, opened, schema_of

from pinotpy.config.schema import Schema
from pinotpy.query.filter import bind
from pinotpy.segment.immutable import ImmutableSegment
from pinotpy.segment.partition import partition_of

TYPES = {"name": "STRING", "user": "LONG", "cost": "DOUBLE", "tags": "STRING", "key": "INT"}
SCHEMA = schema_of(TYPES, multi=["tags"])


def rows_of(number: int) -> dict[str, list[Any]]:
    """Rows of one segment: all values lie between 0 and 10,000, so that min and max exclude little; keys in partition
    `number` of 4.
    """
    rng = random.Random(number)
    return {
        "name": [f"n{rng.randrange(10_000):05}" for _ in range(200)] + ["n00000", "n99999"],
        "user": [rng.randrange(10_000) for _ in range(200)] + [0, 10_000],
        "cost": [rng.randrange(10_000) / 4 for _ in range(200)] + [0.0, 2500.0],
        "tags": [[f"t{rng.randrange(10_000):05}" for _ in range(3)] for _ in range(202)],
        "key": [rng.randrange(2_500) * 4 + number for _ in range(200)] + [number, 9996 + number],
    }


ROWS = [rows_of(number) for number in range(4)]


def segments(raw: list[str], index: dict[str, Any]) -> list[ImmutableSegment]:
    config = config_of({"noDictionaryColumns": raw, **index})
    return [opened(SCHEMA, config, rows, f"s{number}") for number, rows in enumerate(ROWS)]


PARTITIONS = {"segmentPartitionConfig": {"columnPartitionMap": {"key": {"functionName": "Modulo", "numPartitions": 4}}}}


@pytest.fixture(scope="module", params=[[], ["name", "user", "cost", "tags"]], ids=["dictionary", "raw"])
def filtered(request: pytest.FixtureRequest) -> list[ImmutableSegment]:
    return segments(
        request.param,
        {
            "bloomFilterColumns": ["name", "user", "cost", "tags"],
            "bloomFilterConfigs": {"name": {"fpp": 0.001}},
            **PARTITIONS,
        },
    )


def expected(column: str, wanted: set[Any]) -> list[int]:
    """Rows of each segment with one of the values."""
    return [sum(bool(wanted & set(v if isinstance(v, list) else [v])) for v in rows[column]) for rows in ROWS]


def text(value: Any) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)


@pytest.mark.parametrize("column", ["name", "user", "cost", "tags"])
def test_counts_are_right_and_segments_without_the_value_are_left_out(
    column: str, filtered: list[ImmutableSegment]
) -> None:
    left_out = 0
    for row in range(0, 200, 10):
        values = {v[0] if isinstance(v, list) else v for v in (ROWS[row % 4][column][row], ROWS[0][column][row + 1])}
        condition = f"{column} IN ({', '.join(map(text, sorted(values)))})"
        partial = ask(SCHEMA, filtered, f"SELECT COUNT(*) FROM t WHERE {condition}")
        statistics, found = partial.statistics, expected(column, values)
        assert partial.rows is not None and partial.rows.column(0)[0].as_py() == sum(found), condition
        assert statistics.num_segments_processed >= sum(n > 0 for n in found)
        assert statistics.num_segments_pruned >= statistics.num_segments_pruned_by_bloom_filter
        left_out += statistics.num_segments_pruned_by_bloom_filter
        assert count(SCHEMA, filtered, f"NOT ({condition})") == 4 * 202 - sum(found)
        assert count(SCHEMA, filtered, f"{condition} OR key = 2") == sum(
            (bool(values & set(v if isinstance(v, list) else [v])) or k == 2)
            for rows in ROWS
            for v, k in zip(rows[column], rows["key"], strict=True)
        )
    assert left_out >= 20, "filters at 0.05 leave out almost every segment without the value"


def test_what_no_segment_holds_reads_nothing(filtered: list[ImmutableSegment]) -> None:
    statistics = ask(SCHEMA, filtered, "SELECT COUNT(*) FROM t WHERE name = 'n12345x'").statistics
    assert (
        statistics.num_segments_pruned_by_bloom_filter,
        statistics.num_segments_processed,
        statistics.num_entries_scanned_in_filter,
    ) == (4, 0, 0)


def test_partitions_leave_segments_out(filtered: list[ImmutableSegment]) -> None:
    for wanted in (ROWS[2]["key"][0], 4):
        statistics = ask(SCHEMA, filtered, f"SELECT COUNT(*) FROM t WHERE key = {wanted}").statistics
        assert statistics.num_segments_pruned_by_partition == 3
        assert count(SCHEMA, filtered, f"key = {wanted}") == sum(expected("key", {wanted}))
        assert count(SCHEMA, filtered, f"key <> {wanted}") == 4 * 202 - sum(expected("key", {wanted}))
    both = ROWS[1]["key"][5], ROWS[3]["key"][5]
    partial = ask(SCHEMA, filtered, f"SELECT COUNT(*) FROM t WHERE key IN {both}")
    assert partial.statistics.num_segments_pruned_by_partition == 2
    assert partial.rows is not None and partial.rows.column(0)[0].as_py() == sum(expected("key", set(both)))


@pytest.mark.parametrize("function", ["Murmur", "HashCode", "ByteArray"])
def test_partitions_by_hash_leave_segments_out(function: str) -> None:
    schema: Schema = schema_of({"s": "STRING"})
    config = config_of(
        {"segmentPartitionConfig": {"columnPartitionMap": {"s": {"functionName": function, "numPartitions": 3}}}}
    )
    parts: list[list[str]] = [[], [], []]
    for n in range(60):
        parts[partition_of(function, 3, f"v{n}")].append(f"v{n}")
    held = [opened(schema, config, {"s": part}, f"s{i}") for i, part in enumerate(parts)]
    for n in range(60):
        statistics = ask(schema, held, f"SELECT COUNT(*) FROM t WHERE s = 'v{n}'").statistics
        assert (statistics.num_segments_pruned_by_partition, count(schema, held, f"s = 'v{n}'")) == (2, 1)


def test_explain_names_the_rule(filtered: list[ImmutableSegment]) -> None:
    def pruned(condition: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for group in ask(SCHEMA, filtered, f"EXPLAIN PLAN FOR SELECT COUNT(*) FROM t WHERE {condition}").explain:
            if "pruned" in group:
                found[group["pruned"]["rule"]] = group["pruned"]["why"]
        return found

    assert pruned("name = 'n12345x'") == {
        "bloom filter": "name = 'n12345x' asks for values that the bloom filter does not hold"
    }
    assert pruned("key = 4") == {"partition": "key = '4' asks for values of other partitions"}
    assert list(pruned("user > 20000")) == ["min and max"]
    (group,) = ask(
        SCHEMA, filtered[:1], "EXPLAIN PLAN FOR SELECT COUNT(*) FROM t WHERE name = 'n12345x' OR user > 5"
    ).explain
    absent = next(child for child in group["filter"]["children"] if child["predicate"].startswith("name"))
    assert (absent["access"], absent["why"]) == ("nothing", "the bloom filter holds none of the values")


@pytest.mark.parametrize(
    ("mode", "kept"), [("NONE", []), ("ALL", ["at", "city", "cost"]), ("TIME", ["at"]), ("NON_METRIC", ["at", "city"])]
)
def test_min_and_max_are_recorded_for_the_columns_of_the_mode(mode: str, kept: list[str]) -> None:
    schema = Schema.from_json(
        {
            "schemaName": "t",
            "dimensionFieldSpecs": [{"name": "city", "dataType": "STRING"}],
            "metricFieldSpecs": [{"name": "cost", "dataType": "INT"}],
            "dateTimeFieldSpecs": [
                {"name": "at", "dataType": "LONG", "format": "1:MILLISECONDS:EPOCH", "granularity": "1:DAYS"}
            ],
        }
    )
    config = config_of(
        {"columnMinMaxValueGeneratorMode": mode, "noDictionaryColumns": ["cost", "at"]},
        segmentsConfig={"replication": "1", "timeColumnName": "at"},
    )
    segment = opened(schema, config, {"city": ["a", "b"], "cost": [1, 9], "at": [86_400_000, 5 * 86_400_000]})
    assert sorted(name for name in schema.field_specs if segment.column(name).min_value is not None) == kept
    assert segment.metadata.time_range is not None and segment.metadata.time_range.end_ms == 5 * 86_400_000, (
        "the segment's own range is always known"
    )
    statistics = ask(schema, [segment], "SELECT COUNT(*) FROM t WHERE cost > 10").statistics
    assert statistics.num_segments_pruned == int("cost" in kept)
    assert count(schema, [segment], "cost > 5 AND city >= 'b' AND at > 0") == 1
    assert ask(schema, [segment], "SELECT MAX(cost), MIN(at), SUM(cost) FROM t").rows is not None


@pytest.mark.parametrize("raw", [[], ["name"]], ids=["dictionary", "raw"])
@pytest.mark.parametrize("low", [0, 3, 21, 40])
def test_texts_exclude_the_same_segments_by_their_ranges_and_by_their_dictionaries(
    raw: list[str], low: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [[f"day {number:03} {doc % 7}" for doc in range(20)] for number in range(40)]
    some = [
        opened(schema_of({"name": "STRING"}), config_of({"noDictionaryColumns": raw}), {"name": names}, f"s{at}")
        for at, names in enumerate(rows)
    ]
    for condition, passes in {
        f"name = 'day {low:03} 3'": lambda name: name == f"day {low:03} 3",
        f"name >= 'day {low:03} 3'": lambda name: name >= f"day {low:03} 3",
        f"name BETWEEN 'day {low:03} 5' AND 'day {low + 2:03} 1'": lambda name: (
            f"day {low:03} 5" <= name <= f"day {low + 2:03} 1"
        ),
        f"name < 'day {low:03}'": lambda name: name < f"day {low:03}",
    }.items():
        found = []
        for least in (2, 1_000):
            monkeypatch.setattr(bind, "_BY_RANGES_MIN", least)
            statistics = ask(
                schema_of({"name": "STRING"}), some, f"SELECT name FROM t WHERE {condition} LIMIT 1000"
            ).statistics
            found.append((statistics.num_docs_scanned, statistics.num_segments_pruned, statistics.num_segments_matched))
        kept = [any(map(passes, names)) for names in rows]
        assert found == [(sum(sum(map(passes, names)) for names in rows), 40 - sum(kept), sum(kept))] * 2, condition
