"""Proves that answers from star-trees are those of the rows: random tables, trees and queries with the trees on and
off, split into one and several segments, bit for bit (percentiles too, below the size at which their states are
thinned); that nulls, missing pairs and odd queries keep trees out; that EXPLAIN says who answers; and that a damaged
tree is refused by its name.
"""

from __future__ import annotations

import random
import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from group_harness import forcing

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.errors import InvalidQueryError, SegmentCorruptError
from pinotpy.kernels.aggregate import star_tree as kernels
from pinotpy.kernels.aggregate.star_tree import (
    N_AGGREGATED,
    N_END,
    N_FIRST,
    N_LAST,
    N_LEVEL,
    N_START,
    N_VALUE,
    NODE_WORDS,
)
from pinotpy.pql.parser import parse_pql, parse_sql
from pinotpy.query.compile.statement import compile_query
from pinotpy.query.execute import execute
from pinotpy.query.model.context import QueryOptions
from pinotpy.query.model.grouping_method import GroupingMethod
from pinotpy.query.plan.star_tree import walk as star_tree_scan
from pinotpy.query.result.combine import merge_partials
from pinotpy.query.result.explained_answer import explanation
from pinotpy.query.result.partial import Statistics
from pinotpy.query.result.reduce import reduce_partials
from pinotpy.query.runtime.control import QueryControl
from pinotpy.segment import layout
from pinotpy.segment.build.builder import build_segment_into
from pinotpy.segment.build.indexing import resolve_indexing
from pinotpy.segment.checksum import crc32c
from pinotpy.segment.directory.memory_directory import MemoryDirectory
from pinotpy.segment.immutable import ImmutableSegment, open_segment, scrub
from pinotpy.segment.metadata import segment_crc
from pinotpy.segment.metadata_reader import metadata_of
from pinotpy.segment.reload import ReloadPlan, reload_segment
from pinotpy.segment.shared_codes.cache import SharedDictionaries
from pinotpy.segment.star_tree.write import missing_trees

SCHEMA_JSON: dict[str, Any] = {
    "schemaName": "t",
    "dimensionFieldSpecs": [
        {"name": name, "dataType": kind}
        for name, kind in (("a", "STRING"), ("b", "INT"), ("c", "LONG"), ("e", "DOUBLE"))
    ],
    "metricFieldSpecs": [
        {"name": name, "dataType": kind}
        for name, kind in (("l", "LONG"), ("x", "DOUBLE"), ("i", "INT"), ("f", "FLOAT"))
    ],
}
SCHEMA = Schema.from_json(SCHEMA_JSON)
PAIRS = [
    "COUNT__*",
    "SUM__l",
    "AVG__x",
    "MIN__x",
    "MAX__x",
    "MINMAXRANGE__i",
    "SUM__f",
    "DISTINCTCOUNTHLL__i",
    "PERCENTILEEST__i",
    "PERCENTILETDIGEST__x",
]
AGGREGATIONS = (
    "COUNT(*)", "SUM(l)", "AVG(l)", "SUM(x)", "AVG(x)", "MIN(x)", "MAX(x)", "MINMAXRANGE(x)", "MINMAXRANGE(i)",
    "MIN(i)", "SUM(f)", "COUNT(l)",
    "DISTINCTCOUNTHLL(i)", "DISTINCTCOUNTRAWHLL(i)", "PERCENTILEEST(i, 50)", "PERCENTILETDIGEST(x, 95)",
    "COUNT(*) FILTER(WHERE b > 2)",
    "SUM(x) FILTER(WHERE a = 'v1' OR b = 0)",
)  # fmt: skip
PREDICATES = (
    "a = 'v1'", "a <> 'v2'", "a IN ('v0', 'v3', 'nope')", "a NOT IN ('v1', 'v4')", "b BETWEEN 1 AND 3", "b > 2",
    "b = 77", "c <> 1", "c >= 0", "e < 1.5",
    "REGEXP_LIKE(a, 'v[13]')", "a LIKE '%2'", "b IN (0, 5)", "e IN (0.5, 2.5)", "NOT (b = 1)", "a IS NULL",
)  # fmt: skip


def rows(rng: np.random.Generator, count: int) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "a": pa.array([f"v{v}" for v in rng.integers(0, 6, count)]),
            "b": pa.array(rng.integers(0, 6, count).astype(np.int32)),
            "c": pa.array(rng.integers(0, 3, count)),
            "e": pa.array(rng.integers(0, 4, count) + 0.5),
            "l": pa.array(rng.integers(-(2**62), 2**62, count) if count % 2 else rng.integers(-100, 100, count)),
            "x": pa.array(rng.normal(0, 1, count) * 10.0 ** rng.integers(-12, 12, count)),
            "i": pa.array(rng.integers(0, 300, count).astype(np.int32)),
            "f": pa.array(rng.normal(0, 3, count).astype(np.float32)),
        }
    )


def config(trees: list[dict[str, Any]], **indexing: Any) -> TableConfig:
    return TableConfig.from_json(
        {
            "tableName": "t",
            "tableType": "OFFLINE",
            "segmentsConfig": {"replication": "1"},
            "tenants": {},
            "metadata": {},
            "tableIndexConfig": {"noDictionaryColumns": ["x"], "starTreeIndexConfigs": trees, **indexing},
        }
    )


def tree(
    order: list[str], leaf_max: int, skipped: list[str] | None = None, pairs: list[str] | None = None
) -> dict[str, Any]:
    return {
        "dimensionsSplitOrder": order,
        "skipStarNodeCreationForDimensions": skipped or [],
        "functionColumnPairs": PAIRS if pairs is None else pairs,
        "maxLeafRecords": leaf_max,
    }


def build(
    batch: pa.RecordBatch, table_config: TableConfig, name: str = "s", schema: Schema = SCHEMA
) -> tuple[ImmutableSegment, MemoryDirectory]:
    directory = MemoryDirectory(name)
    build_segment_into(directory, schema, table_config, [batch], name)
    return open_segment(directory), directory


def ask(
    text: str,
    segments: list[ImmutableSegment],
    *,
    trees: bool = True,
    null_handling: bool = False,
    schema: Schema = SCHEMA,
    pql: bool = False,
    dictionaries: SharedDictionaries | None = None,
    method: GroupingMethod | None = None,
) -> tuple[Any, Statistics]:
    statement = parse_pql(text) if pql else parse_sql(text)
    context = compile_query(
        statement, schema, replace(forcing(method), use_star_tree=trees), null_handling=null_handling
    )
    partial = execute(context, segments, QueryControl(), dictionaries=dictionaries)
    reduced = reduce_partials(context, merge_partials(context, [partial]))
    columns = [column.values.to_pylist() for column in reduced.columns]
    return [
        columns,
        [[column.values.to_pylist() for column in group] for group in getattr(reduced, "group_lists", ()) if not pql],
    ], partial.statistics


@pytest.mark.parametrize("seed", range(8))
def test_random_queries_give_the_answers_of_the_rows(seed: int) -> None:
    rng, numbers = random.Random(seed), np.random.default_rng(seed)
    dimensions = ["a", "b", "c", "e"]
    orders = [rng.sample(dimensions, rng.randint(2, 4)), rng.sample(dimensions, 4)]
    trees = [tree(order, rng.choice([1, 5, 50, 10_000]), rng.sample(order, rng.randint(0, 2))) for order in orders]
    batch = rows(numbers, rng.choice([601, 1400]))
    whole = [build(batch, config(trees), "whole")[0]]
    cuts = sorted(rng.sample(range(1, batch.num_rows), 3))
    several = []
    for number, (low, high) in enumerate(zip([0, *cuts], [*cuts, batch.num_rows], strict=True)):
        # One part has no tree, another has only the second.
        several.append(
            build(
                batch.slice(low, high - low),
                config(trees if number not in (1, 2) else trees[1:] if number == 1 else []),
                f"part{number}",
            )[0]
        )
    answered = 0
    for _ in range(25):
        keys = rng.sample(dimensions, rng.choice([0, 1, 1, 2]))
        chosen = ", ".join([*keys, *rng.sample(AGGREGATIONS, rng.randint(1, 4))])
        text = f"SELECT {chosen} FROM t"
        if rng.random() < 0.85:
            text += f" WHERE {condition(rng, 0)}"
        if keys:
            text += f" GROUP BY {', '.join(keys)} ORDER BY {', '.join(keys)} LIMIT 10000"
        expected, by_rows = ask(text, whole, trees=False)
        for segments in (whole, several):
            found, statistics = ask(text, segments)
            assert str(found) == str(expected), text
            answered += statistics.num_docs_scanned < by_rows.num_docs_scanned
    assert answered > 10, "trees must have answered most of the queries"


def condition(rng: random.Random, depth: int) -> str:
    if depth == 2 or rng.random() < 0.4:
        return rng.choice(PREDICATES)
    joined = f" {rng.choice(['AND', 'OR'])} ".join(condition(rng, depth + 1) for _ in range(rng.randint(2, 3)))
    return f"NOT ({joined})" if rng.random() < 0.2 else f"({joined})"


def test_a_query_reads_one_record_where_one_node_decides_it() -> None:
    segments = [build(rows(np.random.default_rng(5), 2000), config([tree(["a", "b", "c"], 1)]))[0]]
    _, statistics = ask("SELECT SUM(l) FROM t WHERE a = 'v1' AND b = 2", segments)
    assert (statistics.num_docs_scanned, statistics.num_entries_scanned_in_filter) == (1, 0)
    _, statistics = ask("SELECT a, SUM(l) FROM t GROUP BY a", segments)
    assert statistics.num_docs_scanned == 6
    assert statistics.total_docs == 2000
    _, statistics = ask("SELECT a, SUM(l) FROM t GROUP BY a", segments, trees=False)
    assert statistics.num_docs_scanned == 2000


def test_both_dialects_use_trees_and_the_option_turns_them_off() -> None:
    segments = [build(rows(np.random.default_rng(5), 500), config([tree(["a"], 1)]))[0]]
    for pql in (False, True):
        text = "SELECT SUM(i) FROM t GROUP BY a TOP 10" if pql else "SELECT a, SUM(i) FROM t GROUP BY a"
        text = text.replace("SUM(i)", "SUM(l)")
        _, on = ask(text, segments, pql=pql)
        _, off = ask(text, segments, pql=pql, trees=False)
        assert (on.num_docs_scanned, off.num_docs_scanned) == (6, 500)


NULLABLE = Schema.from_json(SCHEMA_JSON | {"enableColumnBasedNullHandling": True})


def test_nulls_keep_trees_out_where_they_change_the_answer() -> None:
    batch = rows(np.random.default_rng(5), 400)
    nulls = pa.array(
        [None if i % 3 == 0 else value for i, value in enumerate(batch.column("l").to_pylist())], pa.int64()
    )
    batch = batch.set_column(batch.schema.get_field_index("l"), "l", nulls)
    table_config = config([tree(["a", "b"], 1)], nullHandlingEnabled=True)
    segments = [build(batch, table_config, schema=NULLABLE)[0]]
    for text, with_nulls in (
        ("SELECT SUM(l) FROM t WHERE a = 'v1'", False),
        ("SELECT COUNT(l) FROM t WHERE a = 'v1'", False),
        ("SELECT SUM(x) FROM t WHERE a = 'v1'", True),
        ("SELECT COUNT(*) FROM t WHERE a = 'v1'", True),
    ):
        for null_handling, uses_tree in ((False, True), (True, with_nulls)):
            found, statistics = ask(text, segments, null_handling=null_handling, schema=NULLABLE)
            expected, by_rows = ask(text, segments, trees=False, null_handling=null_handling, schema=NULLABLE)
            assert found == expected, (text, null_handling)
            assert (statistics.num_docs_scanned == 1) is uses_tree, (text, null_handling)
            assert by_rows.num_docs_scanned > 1


def test_documents_among_the_dimensions_are_searched_in_the_rows() -> None:
    """A tree once took JSON_MATCH for a list of no values."""
    batch = rows(np.random.default_rng(5), 400)
    documents = pa.array([f'{{"n": {i % 4}, "tags": ["t{i % 3}"]}}' for i in range(400)])
    batch = batch.set_column(batch.schema.get_field_index("a"), "a", documents)
    segments = [build(batch, config([tree(order, 1)]))[0] for order in (["a", "b"], ["b", "a"])]
    matched = """JSON_MATCH(a, '"$.n" = 1')"""
    for text in (
        f"SELECT COUNT(*), SUM(l) FROM t WHERE {matched}",
        f"SELECT COUNT(*), SUM(l) FROM t WHERE NOT {matched} AND b > 2",
        f"SELECT b, COUNT(*) FROM t WHERE {matched} OR b = 2 GROUP BY b ORDER BY b",
        f"SELECT b, SUM(l) FILTER(WHERE {matched}), COUNT(*) FROM t GROUP BY b ORDER BY b",
    ):
        for segment in segments:
            found, _ = ask(text, [segment])
            assert found == ask(text, [segment], trees=False)[0], text
            assert found[0][-1][0], "documents match"


REASONS = {
    "SELECT SUM(l) FROM t WHERE e = 0.5": "column e is not in its dimensionsSplitOrder",
    "SELECT MAX(l) FROM t WHERE a = 'v1'": "it has no pair MAX__l",
    "SELECT DISTINCTCOUNT(l) FROM t WHERE a = 'v1'": "distinctcount(l) is not pre-aggregated",
    "SELECT DISTINCTCOUNTHLL(i, 12) FROM t WHERE a = 'v1'": "distinctcounthll(i) is not pre-aggregated",
    "SELECT SUM(l * x) FROM t WHERE a = 'v1'": "aggregates an expression",
    "SELECT SUM(l) FROM t WHERE b + 1 = 3": "a condition on an expression",
    "SELECT UPPER(a), SUM(l) FROM t GROUP BY UPPER(a)": "GROUP BY an expression",
    """SELECT SUM(l) FROM t WHERE JSON_MATCH(a, '"$.n" = 1')""": "JSON_MATCH reads documents",
    "SELECT COUNT(*) FROM t": "segments know how many rows they have",
    "SELECT SUM(l) FROM t WHERE a = 'v1' OPTION(useStarTree=false)": "the option useStarTree is false",
}


@pytest.mark.parametrize("text", REASONS)
def test_explain_says_why_no_tree_answers(text: str) -> None:
    group = explained(text)
    assert "number" not in group["starTree"] and REASONS[text] in group["starTree"]["why"]


def explained(text: str) -> Any:
    from pinotpy.query.model.options import query_options

    segments = [build(rows(np.random.default_rng(5), 300), config([tree(["a", "b"], 1)]))[0]]
    statement = parse_sql(text)
    context = replace(compile_query(statement, SCHEMA, query_options(statement), null_handling=False), explain=True)
    partial = execute(context, segments, QueryControl())
    (group,) = partial.explain
    assert explanation(context, [partial.explain]).rows()
    return group


def test_explain_names_the_tree_that_answers_and_the_records_that_it_reads() -> None:
    group = explained("SELECT a, SUM(l) FROM t WHERE b IN (1, 3) GROUP BY a")
    assert group["starTree"]["dimensionsSplitOrder"] == ["a", "b"] and group["starTree"]["number"] == 0
    assert group["toRead"] == [12, 12]


def test_a_tree_that_would_read_too_many_records_is_left_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    segments = [build(rows(np.random.default_rng(5), 300), config([tree(["a", "b", "c", "e"], 1)]))[0]]
    text = "SELECT a, b, c, e, SUM(l) FROM t GROUP BY a, b, c, e ORDER BY a, b, c, e LIMIT 1000"
    expected, by_tree = ask(text, segments)
    monkeypatch.setattr(star_tree_scan, "RECORDS_FREE", 10)
    found, by_rows = ask(text, segments)
    assert found == expected and by_rows.num_docs_scanned == 300 > by_tree.num_docs_scanned


@pytest.mark.parametrize("method", GroupingMethod, ids=lambda method: method.name)
def test_records_are_grouped_by_every_method_but_partitions_of_rows(method: GroupingMethod) -> None:
    batches = [rows(np.random.default_rng(seed), 300) for seed in (5, 6)]
    segments = [build(batch, config([tree(["a", "b"], 1)]), f"s{number}")[0] for number, batch in enumerate(batches)]
    dictionaries = SharedDictionaries(in_background=False)
    text = "SELECT a, b, COUNT(*), SUM(l), MIN(x) FROM t GROUP BY a, b ORDER BY a, b LIMIT 1000"
    expected, _ = ask(text, segments, trees=False)
    if method in (GroupingMethod.RADIX_PARTITION, GroupingMethod.TEXT_DIRECT_TABLE):
        with pytest.raises(InvalidQueryError, match="star-tree" if "RADIX" in method.name else "several keys"):
            ask(text, segments, dictionaries=dictionaries, method=method)
        return
    found, statistics = ask(text, segments, dictionaries=dictionaries, method=method)
    assert found == expected and statistics.num_docs_scanned < 600


@pytest.mark.parametrize("limit", [3, 10, 36])
def test_a_limit_on_groups_says_how_many_rows_may_be_missing_not_how_many_records(limit: int) -> None:
    segments = [
        build(rows(np.random.default_rng(seed), 3001), config([tree(["a", "b"], 1)]), f"s{seed}")[0]
        for seed in range(2)
    ]
    statement = parse_sql("SELECT a, b, COUNT(*) FROM t GROUP BY a, b LIMIT 1000")
    context = compile_query(statement, SCHEMA, QueryOptions(num_groups_limit=limit), null_handling=False)
    partial = execute(context, segments, QueryControl())
    shown = sum(reduce_partials(context, partial).columns[2].values.to_pylist())
    missing = 6002 - shown
    assert partial.statistics.num_docs_scanned < 100 and (missing > 0) == (limit < 36)
    assert partial.statistics.num_rows_of_cut_groups >= missing
    assert partial.statistics.num_groups_limit_reached == (limit < 36)


# --- the walk against a slow twin ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_the_walk_finds_the_records_that_a_slow_walk_finds(seed: int) -> None:
    rng = random.Random(seed)
    order = rng.sample(["a", "b", "c", "e"], 4)
    segment, _ = build(
        rows(np.random.default_rng(seed), 700),
        config([tree(order, rng.choice([1, 4, 30]), rng.sample(order, rng.randint(0, 2)))]),
    )
    found = segment.star_trees[0]
    nodes = found.nodes
    for _ in range(40):
        wanted: list[tuple[int, set[int]]] = []  # per dimension: need, passing ids
        tests, spans = [], []
        members = []
        for name in order:
            size = segment.column(name).cardinality
            need = rng.choice([kernels.NEED_NOTHING, kernels.NEED_VALUES, kernels.NEED_TESTS])
            passing, first = set(range(size)), len(tests)
            for _ in range(rng.randint(1, 2) if need == kernels.NEED_TESTS else 0):
                kind, negated = (
                    rng.choice([kernels.TEST_RANGE, kernels.TEST_MEMBERS, kernels.TEST_TABLE]),
                    rng.randint(0, 1),
                )
                if kind == kernels.TEST_RANGE:
                    low = rng.randint(0, size)
                    high = rng.randint(low, size)
                    ids, row = set(range(low, high)), [kind, negated, low, high]
                else:
                    ids = {i for i in range(size) if rng.random() < 0.4}
                    array = (
                        np.array(sorted(ids) or [0], np.uint32)
                        if kind == kernels.TEST_MEMBERS
                        else np.array([i in ids for i in range(size)], np.uint8)
                    )
                    members.append(array)
                    row = [kind, negated, array.ctypes.data, len(ids)]
                tests.append(row)
                passing &= set(range(size)) - ids if negated else ids
            wanted.append((need, passing))
            spans.append([first, len(tests)])
        needs = np.array([[need for need, _ in wanted]], np.uint8)
        offsets = np.zeros(2, np.int64)
        addresses = np.array([[found.nodes_address, len(nodes)]], np.int64)
        runs, _ = kernels.walk_trees(
            addresses, needs, np.array(tests, np.int64).reshape(-1, 4), np.array([spans], np.int64), offsets
        )
        assert sorted(map(tuple, runs.tolist())) == sorted(slow_walk(nodes, wanted))


def slow_walk(nodes: Any, wanted: list[tuple[int, set[int]]]) -> list[tuple[int, int]]:
    found, waiting = [], [0]
    last = max([place for place, (need, _) in enumerate(wanted) if need != kernels.NEED_NOTHING], default=-1)
    while waiting:
        node = nodes[waiting.pop()]
        if node[N_LEVEL] > last:
            found.append((int(node[N_AGGREGATED]), int(node[N_AGGREGATED]) + 1))
            continue
        children = list(range(node[N_FIRST], node[N_LAST]))
        if not children:
            found.append((int(node[N_START]), int(node[N_END])))
            continue
        need, passing = wanted[node[N_LEVEL]]
        stars = [child for child in children if nodes[child, N_VALUE] < 0]
        if need == kernels.NEED_NOTHING and stars:
            waiting += stars
        else:
            waiting += [child for child in children if nodes[child, N_VALUE] in passing]
    return found


# --- damage ----------------------------------------------------------------------------------------------------------


def with_nodes(directory: MemoryDirectory, change: Any) -> MemoryDirectory:
    """The segment with other nodes, all CRCs made right again."""
    data = bytearray(directory.map(layout.COLUMNS).tobytes())
    metadata = metadata_of(directory)
    (found,) = metadata.star_trees
    entry = next(entry for entry in found.buffers if entry.kind == "nodes")
    nodes = (
        np.frombuffer(bytes(data[entry.offset : entry.offset + entry.size_bytes]), np.int32)
        .reshape(-1, NODE_WORDS)
        .copy()
    )
    change(nodes)
    data[entry.offset : entry.offset + entry.size_bytes] = nodes.tobytes()
    crc = crc32c(bytes(data[entry.offset : entry.offset + layout.aligned(entry.size_bytes)]))
    buffers = tuple(replace(each, crc=crc) if each is entry else each for each in found.buffers)
    metadata = replace(metadata, star_trees=(replace(found, buffers=buffers),))
    metadata = replace(metadata, crc=segment_crc(metadata))
    directory.replace(layout.COLUMNS, bytes(data))
    directory.replace(layout.METADATA, metadata.to_bytes())
    return directory


def set_word(node: int, word: int, value: int) -> Any:
    def change(nodes: Any) -> None:
        nodes[node, word] = value

    return change


@pytest.mark.parametrize(
    ("node", "word", "value"),
    [
        (0, N_FIRST, 0),
        (0, N_LAST, 10**6),
        (1, N_LEVEL, 3),
        (2, N_VALUE, 100),
        (2, N_START, -1),
        (3, N_END, 10**6),
        (2, N_AGGREGATED, 10**6),
        (3, N_AGGREGATED, 0),
    ],
)
def test_nodes_that_a_walk_cannot_trust_are_refused_with_the_trees_name(node: int, word: int, value: int) -> None:
    _, directory = build(rows(np.random.default_rng(5), 200), config([tree(["a", "b"], 1)]))
    with pytest.raises(SegmentCorruptError, match=r"star-tree\(a, b\)"):
        open_segment(with_nodes(directory, set_word(node, word, value)))


def test_honest_nodes_pass_the_checks() -> None:
    _, directory = build(rows(np.random.default_rng(5), 200), config([tree(["a", "b"], 1)]))
    assert open_segment(with_nodes(directory, lambda nodes: None)).star_trees


def test_every_flipped_byte_of_a_trees_buffers_is_found() -> None:
    _, directory = build(
        rows(np.random.default_rng(5), 60),
        config([tree(["a", "b"], 1, pairs=["COUNT__*", "AVG__x", "DISTINCTCOUNTHLL__i"])]),
    )
    honest = directory.map(layout.COLUMNS).tobytes()
    metadata = metadata_of(directory)
    first = min(entry.offset for entry in metadata.star_trees[0].buffers)
    rng = random.Random(2)
    for position in rng.sample(range(first, len(honest)), 60):
        data = bytearray(honest)
        data[position] ^= 1 << rng.randrange(8)
        directory.replace(layout.COLUMNS, bytes(data))
        with pytest.raises(SegmentCorruptError, match="star-tree"):
            open_segment(directory)


def test_a_tree_of_a_later_version_is_refused_as_such() -> None:
    _, directory = build(rows(np.random.default_rng(5), 60), config([tree(["a"], 1)]))
    body = directory.read(layout.METADATA, size_max=1 << 30)[layout.METADATA_HEADER_BYTES :]
    later = body.replace(b'"version": 1,\n', b'"version": 2,\n')
    assert later != body and struct.calcsize("<q") == 8
    directory.replace(layout.METADATA, layout.metadata_bytes(later))
    with pytest.raises(Exception, match="another format"):
        open_segment(directory)


# --- reload ----------------------------------------------------------------------------------------------------------


def test_a_reload_adds_the_trees_that_the_config_gained_and_changes_no_identity() -> None:
    batch = rows(np.random.default_rng(5), 300)
    before, directory = build(batch, config([tree(["a"], 1)]))
    wanted = config([tree(["a"], 1), tree(["b", "c"], 1)])
    missing, _ = missing_trees(SCHEMA, wanted, before)
    assert [spec.dimensions for spec in missing] == [("b", "c")]
    reload_segment(before, ReloadPlan({}, {}, {}, missing), resolve_indexing(SCHEMA, wanted))
    after = open_segment(directory)
    assert [each.metadata.dimensions for each in after.star_trees] == [("a",), ("b", "c")]
    assert after.crc == before.crc and missing_trees(SCHEMA, wanted, after) == ((), ())
    text = "SELECT SUM(l) FROM t WHERE b = 2 AND c = 1"
    (found, by_tree), (expected, by_rows) = ask(text, [after]), ask(text, [before])
    assert found == expected and by_tree.num_docs_scanned == 1 < by_rows.num_docs_scanned
    scrub(after)
