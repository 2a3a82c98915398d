"""Proves that EXPLAIN says what planning decides, per segment: who pruned it, what answers each predicate and why
nothing else does, and that it reads no docs. Expected: known from how the columns of the test's segments lie; where
numbers are compared, with the counters of the query itself.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from built_segments import ask, config_of, opened, schema_of
from fake_segment import FakeSegment, fake_column

from pinotpy.data_types import DataType
from pinotpy.pql.ast import Call, Dialect, Expression, Identifier, Literal
from pinotpy.query.execute import execute
from pinotpy.query.filter import index_choice
from pinotpy.query.model.context import (
    Aggregation,
    AggregationRef,
    And,
    Bound,
    ColumnRef,
    Comparison,
    Filter,
    Not,
    Or,
    OrderBy,
    OutputColumn,
    Predicate,
    QueryContext,
    QueryKind,
)
from pinotpy.query.result.partial import PartialResult
from pinotpy.query.runtime.control import QueryControl

N = 10_000
INTS = tuple(ColumnRef(name, DataType.INT) for name in ("day", "team", "score"))
REFS = (
    *INTS,
    ColumnRef("raw", DataType.LONG),
    ColumnRef("tags", DataType.STRING, False),
    ColumnRef("word", DataType.STRING),
)


def segment(low: int) -> FakeSegment:
    """day sorted low..low+9; team inverted, 100 values; score scanned, 7 values; raw without dictionary; tags inverted,
    two a doc.
    """
    docs = np.arange(N)
    return FakeSegment(
        f"s{low}",
        [
            fake_column("day", DataType.INT, (low + docs // 1000).tolist(), inverted=True),
            fake_column("team", DataType.INT, (docs % 100 * 2).tolist(), inverted=True),
            fake_column("score", DataType.INT, (docs % 7 * 10).tolist(), inverted=True),
            fake_column("raw", DataType.LONG, (docs % 5).tolist(), dictionary=False),
            fake_column(
                "tags",
                DataType.STRING,
                [[b"a", b"b"] if doc % 2 else [b"c", b"d"] for doc in range(N)],
                single_value=False,
                inverted=True,
            ),
            fake_column("word", DataType.STRING, [b"w%d" % (doc % 50) for doc in range(N)]),
        ],
    )


@pytest.fixture(scope="module")
def segments() -> list[FakeSegment]:
    return [segment(0), segment(10), segment(20)]


def selection(
    condition: Filter | None, *, order_by: tuple[OrderBy, ...] = (), limit: int = 10**6, explain: bool = True
) -> QueryContext:
    output = (OutputColumn("day", Identifier("day")),)
    return QueryContext(
        Dialect.SQL,
        QueryKind.SELECTION,
        "t",
        output,
        filter=condition,
        order_by=order_by,
        limit=limit,
        columns=REFS,
        explain=explain,
    )


def explain(segments: list[FakeSegment], context: QueryContext) -> list[dict[str, Any]]:
    partial = execute(context, segments, QueryControl())
    statistics = partial.statistics
    assert partial.rows is None
    assert (
        statistics.num_docs_scanned,
        statistics.num_entries_scanned_in_filter,
        statistics.num_segments_processed,
    ) == (0, 0, 0)
    assert statistics.total_docs == sum(one.num_docs for one in segments)
    assert sum(group["segments"] for group in partial.explain) == len(segments)
    assert PartialResult.from_bytes(partial.to_bytes()).explain == partial.explain, "it travels as it is"
    return partial.explain


def equal(column: str, *values: int | str) -> Predicate:
    return Predicate(Identifier(column), Comparison.EQ if len(values) == 1 else Comparison.IN, values)


def at_least(column: str, value: int) -> Predicate:
    return Predicate(Identifier(column), Comparison.RANGE, lower=Bound(value, True))


def why_not(leaf: dict[str, Any], index: str) -> str:
    found = [unused["why"] for unused in leaf["notUsed"] if unused["index"] == index]
    assert len(found) == 1, leaf
    return str(found[0])


def test_a_sorted_index_gives_a_run_of_docs_and_min_and_max_prune_the_rest(segments: list[FakeSegment]) -> None:
    pruned, planned = sorted(explain(segments, selection(equal("day", 12))), key=lambda group: "operator" in group)
    assert pruned["segments"] == 2 and pruned["names"] == ["s0", "s20"]
    assert pruned["pruned"]["rule"] == "min and max" and "day = '12'" in pruned["pruned"]["why"]
    assert pruned["pruned"]["values"] == {"day": [[0, 9], [20, 29]]}
    assert planned["names"] == ["s10"] and planned["toRead"] == [1000, 1000]
    leaf = planned["filter"]
    assert (leaf["operator"], leaf["predicate"], leaf["access"], leaf["docs"]) == (
        "EQ",
        "day = '12'",
        "sorted index",
        [1000, 1000],
    )
    assert "sorted index gives one run" in why_not(leaf, "inverted index")


def test_a_short_list_of_the_inverted_index_is_used_and_a_long_one_is_not(segments: list[FakeSegment]) -> None:
    (group,) = explain(segments, selection(equal("team", 8)))
    assert group["segments"] == 3 and group["toRead"] == [100, 100]
    leaf = group["filter"]
    assert (leaf["access"], leaf["docs"]) == ("inverted index", [100, 100])
    assert why_not(leaf, "sorted index") == "the column is not sorted"
    assert leaf["indexMicros"][0] < leaf["scanMicros"][0]
    # On every doc of a list two others would be tested, each somewhere in memory.
    (group,) = explain(segments, selection(And((equal("score", 30), equal("raw", 3), equal("word", "w1")))))
    leaf = next(child for child in group["filter"]["children"] if child["predicate"] == "score = '30'")
    assert leaf["access"] == "scan" and "ids" in leaf["why"] and group["toRead"] == [N, N]
    unused = next(unused for unused in leaf["notUsed"] if unused["index"] == "inverted index")
    # 1,429 or 1,428 of 10,000 docs have each of the seven scores.
    assert unused["percent"] == [14.29, 14.29] and unused["indexMicros"][0] > unused["scanMicros"][0]


def test_of_two_lists_the_shorter_one_is_read(segments: list[FakeSegment]) -> None:
    both = And(
        (equal("team", 8), Predicate(Identifier("team"), Comparison.RANGE, lower=Bound(4, True), upper=Bound(8, True)))
    )
    (group,) = explain(segments, selection(both))
    accesses = {leaf["predicate"]: leaf for leaf in group["filter"]["children"]}
    assert accesses["team = '8'"]["access"] == "inverted index"
    other = accesses["team BETWEEN '4' AND '8'"]
    assert other["access"] == "scan" and why_not(other, "inverted index") == "the list of team = '8' is shorter"


def test_lists_serve_an_or_of_indexed_conditions_and_a_negation_says_what_bits_would_cost(
    segments: list[FakeSegment], monkeypatch: pytest.MonkeyPatch
) -> None:
    (group,) = explain(segments, selection(Not(equal("team", 8))))
    assert group["filter"]["predicate"] == "team != '8'" and group["filter"]["operator"] == "NOT_EQ"
    assert "% of the docs: estimated" in why_not(group["filter"], "inverted index")
    monkeypatch.setattr(index_choice, "_NS_OVERHEAD", 0.0)
    (group,) = explain(segments, selection(Or((equal("team", 8), equal("team", 12)))))
    assert group["filter"]["operator"] == "OR" and group["toRead"] == [200, 200]
    assert [(leaf["access"], leaf["docs"]) for leaf in group["filter"]["children"]] == [
        ("inverted index", [100, 100])
    ] * 2
    monkeypatch.setattr(index_choice, "_NS_ENTRY", 3.0)
    (group,) = explain(segments, selection(Not(equal("tags", "a"))))
    assert group["filter"]["access"] == "inverted index" and "bit" in group["filter"]["why"]


def test_a_raw_column_has_no_index_and_says_why(segments: list[FakeSegment]) -> None:
    (group,) = explain(segments, selection(equal("raw", 3)))
    leaf = group["filter"]
    assert (leaf["access"], leaf["why"]) == ("scan", "raw values are compared")
    assert {why_not(leaf, index) for index in ("dictionary", "sorted index")} == {
        "the column is raw: it has no dictionary"
    }
    assert "build the segment anew" in why_not(leaf, "inverted index")


def test_what_dictionaries_know_is_said_before_anything_is_read(segments: list[FakeSegment]) -> None:
    (group,) = explain(segments, selection(equal("score", 35)))
    assert group["filter"]["access"] == "nothing" and "dictionary" in group["filter"]["why"]
    assert group["selects"] == "nothing" and group["toRead"] == [0, 0]
    (group,) = explain(segments, selection(at_least("score", 0)))
    assert group["filter"]["access"] == "everything" and group["selects"] == "everything"
    (group,) = explain(segments, selection(And((at_least("score", 0), equal("raw", 3)))))
    assert group["selects"] == "some"


def test_scattered_values_are_looked_up_and_multi_values_are_named(segments: list[FakeSegment]) -> None:
    (group,) = explain(segments, selection(equal("word", "w1", "w30")))
    leaf = group["filter"]
    assert leaf["predicate"] == "word IN ('w1','w30')" and "a few runs of ids" in leaf["why"]
    assert why_not(leaf, "inverted index") == "not built"
    (group,) = explain(segments, selection(equal("tags", "a")))
    assert why_not(group["filter"], "sorted index") == "the column is multi-valued"


def test_a_long_list_of_values_is_cut() -> None:
    long = equal("team", *range(0, 100_000, 2))
    (group,) = explain([segment(0)], selection(long))
    assert "… 49990 more" in group["filter"]["predicate"] and len(group["filter"]["predicate"]) < 250


def test_an_expression_has_no_index(segments: list[FakeSegment]) -> None:
    double = Call("times", (Identifier("raw"), Literal(2, "2")))
    (group,) = explain(segments, selection(Predicate(double, Comparison.EQ, (4,))))
    leaf = group["filter"]
    assert leaf["access"] == "expression" and leaf["predicate"] == "times(raw,'2') = '4'"
    assert "not of an expression" in why_not(leaf, "any index")


def test_limit_needs_no_more_segments_than_hold_its_docs(segments: list[FakeSegment]) -> None:
    planned, pruned = sorted(explain(segments, selection(None, limit=10_001)), key=lambda group: "pruned" in group)
    assert planned["segments"] == 2 and "filter" not in planned
    assert pruned["segments"] == 1 and pruned["names"] == ["s20"] and pruned["pruned"]["rule"] == "limit"
    assert "10001 docs" in pruned["pruned"]["why"]
    (group,) = explain(segments, selection(None, limit=0))
    assert group["segments"] == 3 and group["pruned"]["rule"] == "limit 0"


def test_a_segment_without_docs_is_pruned_for_that() -> None:
    empty = FakeSegment("empty", [fake_column("day", DataType.INT, []), fake_column("team", DataType.INT, [])])
    (group,) = explain([empty], replace(selection(equal("day", 1)), columns=INTS[:2]))
    assert group["pruned"]["rule"] == "no docs"


def aggregation(
    *functions: tuple[str, str], group_by: tuple[Expression, ...] = (), condition: Filter | None = None
) -> QueryContext:
    aggregations = tuple(Aggregation(name, (Identifier(column),), f"{name}({column})") for name, column in functions)
    output = tuple(OutputColumn(a.name, AggregationRef(i)) for i, a in enumerate(aggregations))
    kind = QueryKind.GROUP_BY if group_by else QueryKind.AGGREGATION
    return QueryContext(
        Dialect.SQL,
        kind,
        "t",
        output,
        filter=condition,
        aggregations=aggregations,
        group_by=group_by,
        columns=REFS,
        explain=True,
    )


@pytest.mark.parametrize(
    ("context", "name", "way"),
    [
        (aggregation(("count", "day")), "AGGREGATE_NO_SCAN", "from metadata"),
        (aggregation(("max", "score"), ("distinctcount", "team")), "AGGREGATE_NO_SCAN", "from dictionaries"),
        (aggregation(("max", "score"), ("count", "day")), "AGGREGATE_NO_SCAN", "from metadata and dictionaries"),
        (aggregation(("max", "raw"), ("count", "day")), "AGGREGATE_NO_SCAN", "from metadata"),
        (aggregation(("max", "raw"), ("sum", "raw")), "AGGREGATE", "scan"),
        (aggregation(("count", "day"), condition=equal("team", 8)), "AGGREGATE", "scan"),
        (aggregation(("sum", "raw"), group_by=(Identifier("team"),)), "GROUP_BY", "morsel tables"),
        (aggregation(("sum", "raw"), group_by=(Identifier("raw"),)), "GROUP_BY", "hash table"),
        (
            aggregation(
                ("sum", "raw"),
                group_by=(Identifier("team"), Identifier("word"), Identifier("score"), Identifier("day")),
            ),
            "GROUP_BY",
            "morsel tables",
        ),
        (selection(None), "SELECT", "first docs"),
        (selection(None, order_by=(OrderBy(Identifier("score")),)), "SELECT_ORDERBY", "best rows"),
        (selection(None, order_by=(OrderBy(Identifier("word")),)), "SELECT_ORDERBY", "best rows"),
        (
            selection(None, order_by=(OrderBy(Call("times", (Identifier("raw"), Literal(2, "2")))),)),
            "SELECT_ORDERBY",
            "batches",
        ),
    ],
)
def test_operators_say_which_way_they_take(
    segments: list[FakeSegment], context: QueryContext, name: str, way: str
) -> None:
    (group,) = explain(segments, context)
    assert (group["operator"]["name"], group["operator"]["way"]) == (name, way)
    assert group["operator"]["why"]


FILTERS: list[Filter] = [
    equal("day", 12),
    at_least("day", 15),
    equal("team", 8),
    equal("team", 8, 20, 90),
    equal("score", 61),
    equal("raw", 9),
    And((equal("day", 3), equal("team", 8), equal("raw", 1))),
    Or((equal("day", 3), equal("day", 28))),
    Or((equal("team", 3), equal("team", 1))),
]


@pytest.mark.parametrize("condition", FILTERS, ids=range(len(FILTERS)))
def test_what_is_explained_is_what_the_query_does(segments: list[FakeSegment], condition: Filter) -> None:
    groups = explain(segments, selection(condition))
    answered = execute(selection(condition, explain=False), segments, QueryControl()).statistics
    assert sum(group["segments"] for group in groups if "pruned" in group) == answered.num_segments_pruned
    most = sum(group["segments"] * group["toRead"][1] for group in groups if "operator" in group)
    assert answered.num_docs_scanned <= most
    if all(
        group["filter"].get("access") in ("sorted index", "inverted index", "everything", "nothing")
        for group in groups
        if "operator" in group
    ):
        assert answered.num_entries_scanned_in_filter == 0


def test_an_index_that_is_cheaper_and_not_worth_its_steps_says_so() -> None:
    schema = schema_of({"n": "INT"})
    values = [(17 * doc) % 1000 for doc in range(30_000)]
    segment = opened(schema, config_of({"rangeIndexColumns": ["n"]}), {"n": values})
    (group,) = ask(schema, [segment], "EXPLAIN PLAN FOR SELECT COUNT(*) FROM t WHERE n BETWEEN 10 AND 19").explain
    (range_index,) = [each for each in group["filter"]["notUsed"] if each["index"] == "range index"]
    assert range_index["indexMicros"] < range_index["scanMicros"] and group["filter"]["access"] == "scan"
    assert range_index["why"].endswith("; joining its lists has to save 30 us in all segments together")
