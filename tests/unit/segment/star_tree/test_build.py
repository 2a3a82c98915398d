"""Proves that trees are what the manual says: its worked example record by record and node by node, and random tables
against a recursive builder over plain tuples that follows the manual's text. States are compared with sums, extremes
and sets of the rows.
"""

from __future__ import annotations

import random
from collections import defaultdict
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.data_types import DataType
from pinotpy.errors import InvalidConfigError
from pinotpy.functions.sketches.hyperloglog import states_of_values
from pinotpy.functions.state.exact_sums import exact_array, round_exact
from pinotpy.kernels.aggregate.star_tree import N_AGGREGATED, N_END, N_FIRST, N_LAST, N_START, N_VALUE
from pinotpy.segment.build.builder import build_segment_into
from pinotpy.segment.directory.memory_directory import MemoryDirectory
from pinotpy.segment.immutable import ImmutableSegment, open_segment
from pinotpy.segment.star_tree.build import sorted_runs
from pinotpy.segment.star_tree.reader import COUNT_COLUMN, StarTree, state_column

STAR = "*"
# Country, Browser, Locale, SUM__Impressions: the table of the manual.
EXAMPLE_ROWS = (
    "CA Chrome en 400, CA Firefox fr 200, MX Safari es 300, MX Safari en 100, "
    "USA Chrome en 600, USA Firefox es 200, USA Firefox en 400"
)
EXAMPLE_RECORDS = (
    "CA Chrome en 400, CA Firefox fr 200, MX Safari en 100, MX Safari es 300, "
    "USA Chrome en 600, USA Firefox en 400, USA Firefox es 200,\n"
    "CA * en 400, CA * fr 200, CA * * 600, MX Safari * 400, "
    "USA Firefox * 600, USA * en 1000, USA * es 200, USA * * 1200,\n"
    "* Chrome en 1000, * Firefox en 400, * Firefox es 200, * Firefox fr 200, * Firefox * 800, "
    "* Safari en 100, * Safari es 300, * Safari * 400,\n"
    "* * en 1500, * * es 500, * * fr 200, * * * 2200"
)


def build(
    rows: dict[str, pa.Array],
    dimensions: dict[str, str],
    metrics: dict[str, str],
    trees: list[dict[str, Any]],
    **indexing: Any,
) -> ImmutableSegment:
    schema = Schema.from_json(
        {
            "schemaName": "t",
            "dimensionFieldSpecs": [{"name": name, "dataType": kind} for name, kind in dimensions.items()],
            "metricFieldSpecs": [{"name": name, "dataType": kind} for name, kind in metrics.items()],
        }
    )
    config = TableConfig.from_json(
        {
            "tableName": "t",
            "tableType": "OFFLINE",
            "segmentsConfig": {"replication": "1"},
            "tenants": {},
            "metadata": {},
            "tableIndexConfig": {"starTreeIndexConfigs": trees, **indexing},
        }
    )
    directory = MemoryDirectory("s")
    build_segment_into(directory, schema, config, [pa.record_batch(rows)], "s")
    return open_segment(directory)


def records_of(tree: StarTree) -> list[tuple[Any, ...]]:
    """The dimensions of every record, stars as STAR."""
    columns = [tree.column(name) for name in tree.metadata.dimensions]

    def shown(column: Any, dict_id: int) -> Any:
        if dict_id == column.cardinality:
            return STAR
        value = column.dictionary.value(dict_id)
        return value.decode() if isinstance(value, bytes) else value

    return list(zip(*([shown(column, int(i)) for i in column.ids()] for column in columns), strict=True))


def part_of(tree: StarTree, kind: str, column: str, part: str) -> Any:
    name = state_column(kind, column, part)
    return tree.column(name) if tree.has_column(name) else None


def raw(column: Any) -> list[Any]:
    return list(column.raw_values().tolist())


def example() -> ImmutableSegment:
    split = [line.split() for line in EXAMPLE_ROWS.split(",")]
    rows = {name: pa.array([row[i] for row in split]) for i, name in enumerate(("Country", "Browser", "Locale"))}
    rows["Impressions"] = pa.array([int(row[3]) for row in split], pa.int64())
    tree = {
        "dimensionsSplitOrder": ["Country", "Browser", "Locale"],
        "skipStarNodeCreationForDimensions": [],
        "functionColumnPairs": ["SUM__Impressions"],
        "maxLeafRecords": 1,
    }
    return build(rows, dict.fromkeys(("Country", "Browser", "Locale"), "STRING"), {"Impressions": "LONG"}, [tree])


def test_the_worked_example_of_the_manual_has_its_27_records() -> None:
    tree = example().star_trees[0]
    low = part_of(tree, "sum", "Impressions", "low")
    found = [(*record, total) for record, total in zip(records_of(tree), raw(low), strict=True)]
    wanted = [(*line.split()[:3], int(line.split()[3])) for line in EXAMPLE_RECORDS.split(",")]
    assert len(wanted) == 27 and sorted(found) == sorted(wanted)
    assert found[:7] == wanted[:7]  # base records, sorted by the split order
    assert (tree.metadata.num_docs, tree.metadata.num_base_docs, tree.metadata.num_nodes) == (27, 7, 39)


def test_the_worked_example_has_the_nodes_of_the_manual() -> None:
    tree = example().star_trees[0]
    nodes, records, sums = tree.nodes, records_of(tree), raw(part_of(tree, "sum", "Impressions", "low"))

    def drawn(node: int) -> Any:
        children = {}
        for child in range(nodes[node, N_FIRST], nodes[node, N_LAST]):
            level = int(nodes[child, 0]) - 1
            name = STAR if nodes[child, N_VALUE] < 0 else records[nodes[child, N_START]][level]
            children[name] = drawn(child)
        total = sums[nodes[node, N_AGGREGATED]]
        return (total, children) if children else total

    locales = (2200, {"*": 2200, "en": 1500, "es": 500, "fr": 200})
    assert drawn(0) == (
        2200,
        {
            "*": (
                2200,
                {
                    "*": locales,
                    "Chrome": 1000,
                    "Firefox": (800, {"*": 800, "en": 400, "es": 200, "fr": 200}),
                    "Safari": (400, {"*": 400, "en": 100, "es": 300}),
                },
            ),
            "CA": (600, {"*": (600, {"*": 600, "en": 400, "fr": 200}), "Chrome": 400, "Firefox": 200}),
            "MX": (400, {"Safari": (400, {"*": 400, "en": 100, "es": 300})}),
            "USA": (
                1200,
                {
                    "*": (1200, {"*": 1200, "en": 1000, "es": 200}),
                    "Chrome": 600,
                    "Firefox": (600, {"*": 600, "en": 400, "es": 200}),
                },
            ),
        },
    )


class Recursive:
    """The manual's text as code: nodes split one after another, records as dicts of row lists."""

    def __init__(self, rows: list[tuple[Any, ...]], skipped: set[int], leaf_max: int) -> None:
        self.depth, self.skipped, self.leaf_max = len(rows[0]), skipped, leaf_max
        base = defaultdict(list)
        for number, row in enumerate(rows):
            base[row].append(number)
        self.records: list[tuple[tuple[Any, ...], tuple[int, ...]]] = [(key, tuple(base[key])) for key in sorted(base)]
        self.num_nodes = 0
        self.root = self.node(list(range(len(self.records))), 0)

    def node(self, members: list[int], level: int) -> int:
        """Gives the aggregated record."""
        self.num_nodes += 1
        if len(members) <= self.leaf_max or level == self.depth:
            return members[0] if len(members) == 1 else self.aggregated(members, level)
        children = defaultdict(list)
        for record in members:
            children[self.records[record][0][level]].append(record)
        star = None
        if level not in self.skipped and len(children) > 1:
            merged = defaultdict(list)
            for record in members:
                key, numbers = self.records[record]
                merged[(*key[:level], STAR, *key[level + 1 :])].extend(numbers)
            first = len(self.records)
            self.records += [(key, tuple(merged[key])) for key in sorted(merged, key=lambda key: key[level + 1 :])]
            star = self.node(list(range(first, len(self.records))), level + 1)
        stand_ins = [self.node(child, level + 1) for _, child in sorted(children.items())]
        if star is not None:
            return star
        return stand_ins[0] if len(stand_ins) == 1 else self.aggregated(members, level)

    def aggregated(self, members: list[int], level: int) -> int:
        key = self.records[members[0]][0]
        numbers = [number for record in members for number in self.records[record][1]]
        self.records.append(((*key[:level], *[STAR] * (self.depth - level)), tuple(numbers)))
        return len(self.records) - 1


@pytest.mark.parametrize("seed", range(12))
def test_random_tables_have_the_records_of_a_recursive_builder(seed: int) -> None:
    rng = random.Random(seed)
    num_rows, depth = rng.choice([1, 2, 30, 400]), rng.randint(1, 4)
    names = [f"d{i}" for i in range(depth)]
    sizes = [rng.choice([1, 2, 5, 20]) for _ in names]
    rows = [tuple(rng.randrange(size) for size in sizes) for _ in range(num_rows)]
    longs = [rng.choice([rng.randrange(-100, 100), 2**62, -(2**62)]) for _ in rows]
    doubles = [
        rng.choice([rng.uniform(-10, 10), 1e-9, 1e300, -1e300, 0.1, 5e-324, float("inf") if seed % 4 == 0 else 1.5])
        for _ in rows
    ]
    skipped, leaf_max = {i for i in range(depth) if rng.random() < 0.3}, rng.choice([1, 1, 3, 10, 1000])
    tree_config = {
        "dimensionsSplitOrder": names,
        "skipStarNodeCreationForDimensions": [names[i] for i in skipped],
        "functionColumnPairs": [
            "COUNT__*",
            "SUM__l",
            "AVG__x",
            "MINMAXRANGE__x",
            "MIN__l",
            "DISTINCTCOUNTHLL__l",
            "PERCENTILEEST__x",
            "PERCENTILETDIGEST__x",
        ],
        "maxLeafRecords": leaf_max,
    }
    table = {name: pa.array([row[i] for row in rows], pa.int32()) for i, name in enumerate(names)}
    table |= {"l": pa.array(longs, pa.int64()), "x": pa.array(doubles, pa.float64())}
    segment = build(
        table,
        dict.fromkeys(names, "INT"),
        {"l": "LONG", "x": "DOUBLE"},
        [tree_config],
        noDictionaryColumns=["x"] if seed % 2 else [],
    )
    tree = segment.star_trees[0]
    expected = Recursive(rows, skipped, leaf_max)
    assert tree.metadata.num_nodes == expected.num_nodes
    found = records_of(tree)
    order = sorted(
        range(len(found)), key=lambda i: [str(value) for value in found[i]] + [raw(tree.column(COUNT_COLUMN))[i]]
    )
    wanted = sorted(expected.records, key=lambda record: [str(value) for value in record[0]] + [len(record[1])])
    assert [found[i] for i in order] == [key for key, _ in wanted]
    counts, low, high = (
        raw(tree.column(COUNT_COLUMN)),
        part_of(tree, "sum", "l", "low"),
        part_of(tree, "sum", "l", "high"),
    )
    docs = np.array(order)
    assert [counts[i] for i in order] == [len(numbers) for _, numbers in wanted]
    wide = [(h << 64) + (v % 2**64) for v, h in zip(raw(low), raw(high), strict=True)] if high is not None else raw(low)
    assert [wide[i] for i in order] == [sum(longs[n] for n in numbers) for _, numbers in wanted]
    for kind, column, values, pick in (
        ("min", "x", doubles, min),
        ("max", "x", doubles, max),
        ("min", "l", longs, min),
    ):
        stored = raw(part_of(tree, kind, column, "value"))
        assert [stored[i] for i in order] == [pick(values[n] for n in numbers) for _, numbers in wanted]
    assert [exact(tree, i) for i in order] == [exact_sum([doubles[n] for n in numbers]) for _, numbers in wanted]
    rows_of_records = np.repeat(np.arange(len(wanted)), [len(numbers) for _, numbers in wanted])
    seen = pa.array([longs[n] for _, numbers in wanted for n in numbers], pa.int64())
    assert (
        tree.sketches("hyperloglog", "l", docs)[1]
        == states_of_values(rows_of_records, seen, len(wanted), DataType.LONG, 8)[1]
    )
    values, weights = (part.to_pylist() for part in tree.sketches("quantiles", "x", docs))
    assert [expand(v, w) for v, w in zip(values, weights, strict=True)] == [
        sorted(doubles[n] for n in numbers) for _, numbers in wanted
    ]


def expand(values: list[Any], weights: list[int]) -> list[Any]:
    return [value for value, weight in zip(values, weights, strict=True) for _ in range(weight)]


def exact(tree: StarTree, doc: int) -> Any:
    """The sum of x as the broker would round it."""
    low, high = (np.array([raw(part_of(tree, "sum", "x", part))[doc]], np.int64) for part in ("low", "high"))
    overflow = tree.overflow("x")
    mine = overflow[overflow[:, 0] == doc]
    parts = (np.zeros(len(mine), np.int64), mine[:, 1], mine[:, 2], mine[:, 3])
    return round_exact(exact_array(low, high, np.ones(1, np.bool_), parts))[0]


def exact_sum(values: list[float]) -> float:
    if any(value == float("inf") for value in values):
        return float("inf")
    total = sum(map(Fraction, values))
    try:
        return float(total)
    except OverflowError:
        return float("inf") if total > 0 else float("-inf")


def test_wide_keys_are_sorted_by_parts() -> None:
    rng = np.random.default_rng(3)
    keys = [rng.integers(0, 50, 3000).astype(np.uint32) for _ in range(5)]
    sizes = [2**31] * 5
    order, starts = sorted_runs(keys, sizes, 3000)
    rows = np.stack(keys, axis=1)
    wanted, counts = np.unique(rows, axis=0, return_counts=True)
    assert (rows[order[starts[:-1]]] == wanted).all() and (np.diff(starts) == counts).all()


def test_the_default_tree_orders_dimensions_by_cardinality_and_sums_every_metric() -> None:
    rows = {
        "few": pa.array([1, 1, 2, 2, 2, 3], pa.int32()),
        "many": pa.array(["a", "b", "c", "d", "e", "f"]),
        "m": pa.array([1.0] * 6),
        "n": pa.array([1] * 6, pa.int32()),
    }
    segment = build(rows, {"few": "INT", "many": "STRING"}, {"m": "DOUBLE", "n": "INT"}, [], enableDefaultStarTree=True)
    (tree,) = segment.star_trees
    assert tree.metadata.dimensions == ("many", "few")
    assert tree.metadata.pairs == ("COUNT__*", "SUM__m", "SUM__n")
    assert tree.metadata.max_leaf_records == 10_000


def test_a_segment_without_trees_has_the_bytes_that_it_always_had() -> None:
    segment = build({"d": pa.array([1, 2], pa.int32()), "m": pa.array([1.0, 2.0])}, {"d": "INT"}, {"m": "DOUBLE"}, [])
    text = segment.metadata.to_bytes()
    assert b"starTrees" not in text and b'"requires": []' in text and segment.star_trees == ()


@pytest.mark.parametrize(
    ("tree", "found"),
    [
        ({"dimensionsSplitOrder": ["d"], "functionColumnPairs": ["SUM__t"]}, "'SUM__t' of type STRING"),
        ({"dimensionsSplitOrder": ["d"], "functionColumnPairs": ["SUM__nosuch"]}, "'SUM__nosuch'"),
        ({"dimensionsSplitOrder": ["nosuch"], "functionColumnPairs": ["COUNT__*"]}, "'nosuch'"),
    ],
)
def test_trees_that_cannot_be_built_are_refused_with_their_path(tree: dict[str, Any], found: str) -> None:
    with pytest.raises(InvalidConfigError) as caught:
        build({"d": pa.array([1], pa.int32()), "t": pa.array(["x"])}, {"d": "INT", "t": "STRING"}, {}, [tree])
    assert any(fault.found == found and "starTreeIndexConfigs[0]" in fault.path for fault in caught.value.faults)


def test_a_tree_that_outgrows_its_segment_is_left_out_with_a_reason(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pinotpy.segment.star_tree.build.DOCS_FREE", 10)
    rng = np.random.default_rng(1)
    names = [f"d{i}" for i in range(8)]
    rows = {name: pa.array(rng.integers(0, 4, 200).astype(np.int32)) for name in names}
    tree = {"dimensionsSplitOrder": names, "functionColumnPairs": ["COUNT__*"], "maxLeafRecords": 1}
    segment = build(rows, dict.fromkeys(names, "INT"), {}, [tree])
    assert segment.star_trees == () and "maxLeafRecords" in caplog.text


def test_equal_rows_give_equal_bytes() -> None:
    assert example().metadata.to_bytes() == example().metadata.to_bytes()


def test_nodes_reach_every_record_once_as_leaf_or_aggregated() -> None:
    nodes = example().star_trees[0].nodes
    leaves = nodes[nodes[:, N_FIRST] == nodes[:, N_LAST]]
    covered = np.concatenate([np.arange(a, b) for a, b in leaves[:, [N_START, N_END]].tolist()])
    assert sorted(covered.tolist()) == list(range(27))
