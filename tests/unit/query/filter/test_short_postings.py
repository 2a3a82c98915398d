"""Proves lists of indexes that are so short that no other price matters (kernels/filter/short_postings.py): filters
that they answer select what numpy selects, over inverted indexes of both forms, range indexes of raw and dictionary
columns, a sorted column and nulls; EXPLAIN names the index whose list is read; a list that saves nothing is left to the
longer way; few docs are scanned at once.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from index_ways import inverted_form

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.kernels.filter import short_postings
from pinotpy.kernels.filter.predicate_table import BY_LIST
from pinotpy.pql.parser import parse_sql
from pinotpy.query.compile.statement import compile_query
from pinotpy.query.execute import execute
from pinotpy.query.filter import index_choice, planner
from pinotpy.query.filter.bound_predicate import BoundPredicate
from pinotpy.query.model.context import QueryContext, QueryOptions
from pinotpy.query.plan import build
from pinotpy.query.runtime.control import QueryControl
from pinotpy.query.segments.segment_set import SegmentSet
from pinotpy.segment.build.builder import build_segment_into
from pinotpy.segment.directory.memory_directory import MemoryDirectory
from pinotpy.segment.immutable import ImmutableSegment, open_segment

NUM_DOCS = 4_500
TYPES = {"day": "INT", "user": "LONG", "url": "STRING", "kind": "INT", "i": "INT", "row": "INT"}
METRICS = {"l": "LONG", "x": "DOUBLE", "f": "FLOAT"}
SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [{"name": name, "dataType": kind} for name, kind in TYPES.items()],
        "metricFieldSpecs": [{"name": name, "dataType": kind} for name, kind in METRICS.items()],
    }
)
CONFIG = TableConfig.from_json(
    {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1"},
        "tenants": {},
        "metadata": {},
        "tableIndexConfig": {
            "sortedColumn": ["day"],
            "invertedIndexColumns": ["user", "url", "kind"],
            "rangeIndexColumns": ["i", "l", "x", "f"],
            "noDictionaryColumns": ["l", "x", "f", "row"],
            "noDictionaryConfig": {"l": "DELTA"},
            "nullHandlingEnabled": True,
        },
    }
)
Table = dict[str, np.ndarray]  # type: ignore[type-arg]


def make_rows(rng: np.random.Generator) -> Table:
    words = rng.integers(-(2**63), 2**63 - 1, NUM_DOCS)
    words[:4] = [-(2**63), 2**63 - 1, 0, -1]
    reals = rng.normal(0, 100, NUM_DOCS)
    reals[:4] = [np.inf, -np.inf, -0.0, 0.0]  # NaN is stored as null
    kind = rng.integers(0, 6, NUM_DOCS).astype(np.int32)
    return {
        "day": np.sort(rng.integers(0, 12, NUM_DOCS)).astype(np.int32),
        "user": rng.integers(0, 2_000, NUM_DOCS) * 7,
        "url": np.array([f"u{number}" for number in rng.integers(0, 300, NUM_DOCS)], object),
        "kind": kind,
        "kind_null": rng.random(NUM_DOCS) < 0.1,
        "i": rng.integers(-50, 50, NUM_DOCS).astype(np.int32),
        "l": words,
        "x": reals,
        "f": rng.normal(0, 10, NUM_DOCS).astype(np.float32),
    }


@pytest.fixture(scope="module")
def table() -> Iterator[tuple[SegmentSet, Table]]:
    rng = np.random.default_rng(11)
    parts, segments = [], list[ImmutableSegment]()
    for number in range(3):
        rows = make_rows(rng)
        columns = {name: pa.array(rows[name]) for name in ("day", "user", "i", "l", "x", "f")}
        columns["url"], columns["kind"] = pa.array(rows["url"].tolist()), pa.array(rows["kind"], mask=rows["kind_null"])
        columns["row"] = pa.array(np.arange(number * NUM_DOCS, (number + 1) * NUM_DOCS, dtype=np.int32))
        directory = MemoryDirectory(f"t_{number}")
        with inverted_form(number):
            build_segment_into(directory, SCHEMA, CONFIG, [pa.record_batch(columns)], f"t_{number}")
        segments.append(open_segment(directory))
        parts.append(rows)
    yield SegmentSet(segments), {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    for segment in segments:
        segment.close()


def random_condition(rng: random.Random, table: Table, *, null_handling: bool) -> tuple[str, Any]:
    kind = table["kind"] if null_handling else np.where(table["kind_null"], -(2**31), table["kind"])
    known = ~table["kind_null"] if null_handling else np.ones(len(kind), np.bool_)
    number, low, wide = rng.randint(0, 2_100) * 7, rng.randint(-55, 55), rng.choice((0, 1, 30))
    real, word = (
        rng.choice([0.0, 250.0, -300.0, float(table["x"][rng.randint(5, 4_000)])]),
        int(table["l"][rng.randint(0, 4_000)]),
    )
    single = float(table["f"][rng.randint(0, 4_000)])
    return rng.choice(
        [
            (f"user = {number}", table["user"] == number),
            (f"user <> {number}", table["user"] != number),
            (f"url = 'u{number // 30}'", table["url"] == f"u{number // 30}"),
            (f"kind = {number % 7}", (kind == number % 7) & known),
            (f"kind <> {number % 7}", (kind != number % 7) & known),
            (
                f"day BETWEEN {number % 12} AND {number % 12 + 2}",
                (table["day"] >= number % 12) & (table["day"] <= number % 12 + 2),
            ),
            (f"i BETWEEN {low} AND {low + wide}", (table["i"] >= low) & (table["i"] <= low + wide)),
            (f"i = {low}", table["i"] == low),
            (f"x > {real}", table["x"] > real),
            (f"x <= {real}", table["x"] <= real),
            (f"x = {real}", table["x"] == real),
            (f"l >= {word}", table["l"] >= word),
            (f"l = {word}", table["l"] == word),
            (f"f > {single!r}", table["f"] > np.float32(single)),
            (
                f"f BETWEEN {single!r} AND {single + 0.25!r}",
                (table["f"] >= np.float32(single)) & (table["f"] <= np.float32(single + 0.25)),
            ),
        ]
    )


def compiled(text: str, *, null_handling: bool = False) -> QueryContext:
    return compile_query(parse_sql(text), SCHEMA, QueryOptions(), null_handling=null_handling)


@pytest.mark.parametrize("is_forced", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_short_lists_select_what_numpy_selects(
    seed: int, is_forced: bool, table: tuple[SegmentSet, Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_forced:
        monkeypatch.setattr(index_choice, "_NS_SCAN_DOC", 1e6)
    segments, rows = table
    rng, listed = random.Random(seed), 0
    made = planner._ShortLists.make

    def watched(*arguments: Any) -> Any:
        nonlocal listed
        listed += 1
        return made(*arguments)

    monkeypatch.setattr(planner._ShortLists, "make", watched)
    for _ in range(60):
        null_handling = rng.random() < 0.5
        texts, masks = zip(
            *(random_condition(rng, rows, null_handling=null_handling) for _ in range(rng.randint(1, 3))), strict=True
        )
        text = f"SELECT row FROM t WHERE {' AND '.join(texts)} LIMIT 100000"
        partial = execute(compiled(text, null_handling=null_handling), segments, QueryControl())
        expected = np.flatnonzero(np.logical_and.reduce(masks)).tolist()
        found = [] if partial.rows is None else partial.rows["o0"].to_pylist()
        assert found == expected, text
        assert partial.statistics.num_docs_scanned == len(expected), text
    assert listed > 20 if is_forced else listed > 3, listed


def by_list(plan: planner.FilterPlan) -> list[str]:
    """Columns whose lists are read in some segment."""
    return [
        node.typed.column
        for node in plan.conjuncts
        if isinstance(node, BoundPredicate) and (node.answer == BY_LIST).any()
    ]


def test_explain_names_the_list_that_is_read(table: tuple[SegmentSet, Table], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_choice, "_NS_SCAN_DOC", 1e6)
    segments, _ = table
    for text, column in (
        ("url = 'u7' AND kind = 3", "url"),
        ("user = 77", "user"),
        ("i = 3 AND kind = 2", "kind"),
        ("x > 290 AND i > 0", "x"),
    ):
        asked = f"SELECT COUNT(*) FROM t WHERE {text}"
        assert by_list(build.plan_filter(compiled(asked), segments, QueryControl())) == [column], text
        explained = execute(compiled(f"EXPLAIN PLAN FOR {asked}"), segments, QueryControl()).explain
        for group in explained:
            leaves = group["filter"].get("children", [group["filter"]])
            by_index = [leaf["predicate"].split()[0] for leaf in leaves if leaf["access"].endswith("index")]
            assert by_index == [column], text


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("user = 77", short_postings.LISTS),
        ("kind = 3 AND user = 77", short_postings.LISTS),
        ("kind = 3", short_postings.WEIGH),  # its list lies ready, and is not much shorter than the scan
        ("url LIKE '%7%'", short_postings.WEIGH),  # many ids, no range of them: what a test costs is not known here
        ("x > 0", short_postings.SCAN),
        ("user > 77 AND i < 40", short_postings.SCAN),
        ("user > 77 AND kind = 3", short_postings.WEIGH),
    ],
)
def test_few_docs_are_scanned_before_indexes_are_weighed(
    text: str, found: int, table: tuple[SegmentSet, Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    def planned() -> planner._ShortLists:
        context = compiled(f"SELECT COUNT(*) FROM t WHERE {text}")
        return planner._ShortLists(planner.select_segments(context, segments, QueryControl()))

    segments, _ = table
    assert planned().found == found
    assert (planned().chosen == -1).all() or found != short_postings.SCAN
    # The same docs with a dearer scan are worth weighing.
    monkeypatch.setattr(index_choice, "_NS_OVERHEAD", 0.0)
    assert planned().found == (short_postings.LISTS if found == short_postings.LISTS else short_postings.WEIGH)


@pytest.mark.parametrize("text", ["x > 0", "user > 77 AND i < 40", "user BETWEEN 70 AND 700 AND x > -1000"])
def test_explain_tells_the_scan_of_few_docs(text: str, table: tuple[SegmentSet, Table]) -> None:
    segments, _ = table
    plan = build.plan_filter(compiled(f"SELECT COUNT(*) FROM t WHERE {text}"), segments, QueryControl())
    assert not plan.is_listed and by_list(plan) == []
    (group,) = execute(
        compiled(f"EXPLAIN PLAN FOR SELECT COUNT(*) FROM t WHERE {text}"), segments, QueryControl()
    ).explain
    leaves = group["filter"].get("children", [group["filter"]])
    assert [leaf["access"] for leaf in leaves] == ["scan"] * len(leaves) and group["toRead"][0] == NUM_DOCS
