"""Proves that what EXPLAIN prints is the program that runs: for random filters over random segments (sorted, inverted
and range indexes, Bloom filters, raw and multi-valued columns, nulls, AND, OR, NOT, expressions) the order of tests,
what answers each, the docs to read and what is pruned are those of the instructions and morsels of the query, read back
word by word.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from built_segments import ask, config_of, opened, schema_of

from pinotpy.kernels.filter import expression_predicate, predicates
from pinotpy.kernels.filter.predicate_frame import PREDICATE_RUN
from pinotpy.kernels.runtime import abi
from pinotpy.pql.parser import parse_sql
from pinotpy.query.compile.statement import compile_query
from pinotpy.query.filter import index_choice
from pinotpy.query.filter.planner import FilterPlan
from pinotpy.query.model.context import QueryOptions
from pinotpy.query.plan import build
from pinotpy.query.plan.scan_plan import ScanPlan
from pinotpy.query.runtime.control import QueryControl
from pinotpy.query.segments.segment_set import SegmentSet

TYPES = {
    "day": "INT",
    "user": "LONG",
    "kind": "INT",
    "i": "INT",
    "x": "DOUBLE",
    "name": "STRING",
    "note": "STRING",
    "tags": "STRING",
}
SCHEMA = schema_of(TYPES, multi=["tags"])
CONFIG = config_of(
    {
        "sortedColumn": ["day"],
        "invertedIndexColumns": ["user", "kind", "tags"],
        "rangeIndexColumns": ["i", "x"],
        "noDictionaryColumns": ["x", "note"],
        "bloomFilterColumns": ["name"],
        "nullHandlingEnabled": True,
    }
)
NAMES = list(TYPES)


def rows_of(rng: random.Random, number: int) -> dict[str, list[Any]]:
    docs = rng.choice((30, 900, 3_000))
    return {
        "day": sorted(rng.randrange(5 * number, 5 * number + 9) for _ in range(docs)),
        "user": [rng.randrange(400) * 3 for _ in range(docs)],
        "kind": [rng.choice((None, 0, 1, 2, 3, 4, 5)) if number % 2 else rng.randrange(6) for _ in range(docs)],
        "i": [rng.randrange(-50, 50) for _ in range(docs)],
        "x": [rng.gauss(0, 100) for _ in range(docs)],
        "name": [f"n{rng.randrange(9 + number)}" for _ in range(docs)],
        "note": [f"note {rng.randrange(99)} of {number}" for _ in range(docs)],
        "tags": [[f"t{rng.randrange(40)}" for _ in range(rng.randrange(1, 4))] for _ in range(docs)],
    }


@pytest.fixture(scope="module", params=[1, 5, 40])
def segments(request: pytest.FixtureRequest) -> Iterator[SegmentSet]:
    rng = random.Random(request.param)
    built = [opened(SCHEMA, CONFIG, rows_of(rng, number), f"s{number}") for number in range(request.param)]
    yield SegmentSet(built)
    for segment in built:
        segment.close()


def random_predicate(rng: random.Random, column: str) -> str:
    low = rng.randrange(-60, 60)
    return {
        "day": lambda: f"day {rng.choice(('=', '>=', '<>', '<'))} {rng.randrange(0, 30)}",
        "user": lambda: rng.choice((f"user = {low * 3}", f"user IN ({low * 3}, 9, 300)", f"user > {low * 3}")),
        "kind": lambda: rng.choice((f"kind = {low % 7}", f"kind <> {low % 7}", "kind IS NOT NULL", "kind >= 0")),
        "i": lambda: f"i BETWEEN {low} AND {low + rng.choice((0, 5, 200))}",
        "x": lambda: f"x {rng.choice(('>', '<='))} {rng.choice((0, -400, 250, low))}",
        "name": lambda: rng.choice((f"name = 'n{rng.randrange(60)}'", "name <> 'n3'", "name >= 'n'")),
        "note": lambda: rng.choice((f"note = 'note {low} of 2'", "note LIKE '%7%'", "REGEXP_LIKE(note, '7.*3')")),
        "tags": lambda: rng.choice((f"tags = 't{abs(low)}'", f"tags NOT IN ('t{abs(low)}', 't3')", "tags = 'x'")),
    }[column]()


def random_expression(rng: random.Random) -> str:
    return rng.choice(("i + user > 500", "ABS(i) = 7", "CONCAT(name, note, '') = 'n1note 3 of 1'", "x * 2 < i"))


def random_filter(rng: random.Random) -> str:
    """Each column once, so that an instruction is told by its column; an expression at most once under AND."""
    columns = rng.sample(NAMES, rng.randint(1, 5))
    parts = []
    while columns:
        own = [columns.pop() for _ in range(min(len(columns), rng.choice((1, 1, 2, 3))))]
        part = " OR ".join(random_predicate(rng, column) for column in own)
        parts.append(f"{rng.choice(('', 'NOT '))}({part})")
    if rng.random() < 0.3:
        parts.append(random_expression(rng))
    rng.shuffle(parts)
    return " AND ".join(parts) if rng.random() < 0.8 else " OR ".join(parts)


def leaves_of(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "children" in node:
        for child in node["children"]:
            yield from leaves_of(child)
    else:
        yield node


def column_of(leaf: dict[str, Any]) -> str:
    """The column of a predicate that EXPLAIN shows; expressions are one more column."""
    if leaf["access"] == "expression":
        return "expression"
    words = leaf["predicate"].replace("NOT (", "").replace("regexp_like(", "").replace(",", " ").split()
    return str(words[0])


# The test that the scan runs, by what EXPLAIN says of it. What is not here is no test of the scan.
def kind_of(leaf: dict[str, Any]) -> str | None:
    if "each doc is tested by its bit" in leaf["why"]:
        return "bits"
    if leaf["access"] in ("scan", "null vector") and "only nulls are left out" not in leaf["why"]:
        return "test"
    if leaf["why"] == "docs are compared with a run of docs":
        return "test"
    if leaf["access"] == "expression":
        return "late" if leaf["why"].startswith("computed on the docs that the other") else "expression"
    return None


def instructions_of(plan: ScanPlan, morsel: int) -> list[tuple[str, str]]:
    """(column, kind of test) of the instructions that read docs, in the order of the program."""
    (chosen,) = (one for one in plan.keep_alive if isinstance(one, FilterPlan))
    segment = list(chosen.segments).index(plan.morsel_segment(morsel))  # the plan may have left some out since
    columns = {int(chosen.metas.addresses(name)[segment]): name for name in NAMES}
    found = []
    for row in plan.filter_program[morsel]:
        if row[abi.I_FLAGS] == abi.I_OR or row[abi.A0 + 3] != PREDICATE_RUN:
            continue
        function = int(row[abi.I_FUNCTION])
        column = columns.get(int(row[abi.A0]), "expression")
        if column == "expression":
            assert function in (expression_predicate.expression_test.address, predicates.doc_flags.address)
            found.append((column, "expression"))
        else:
            found.append((column, "bits" if function == predicates.doc_bits.address else "test"))
    return found


def check(text: str, segments: SegmentSet, seen: dict[str, int], *, null_handling: bool) -> None:
    asked = f"SELECT COUNT(*) FROM t WHERE {text}"
    context = compile_query(parse_sql(asked), SCHEMA, QueryOptions(), null_handling=null_handling)
    scanned: list[ScanPlan] = []
    real = build.materialize_selection

    def watched(plan: ScanPlan, *arguments: Any, **named: Any) -> Any:
        scanned.append(plan)  # before what Python computes late
        return real(plan, *arguments, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "materialize_selection", watched)
        plan = build.build_scan(context, segments, QueryControl())
    plan = scanned[0] if scanned else plan
    # Groups that are alike stay apart: each says what happens in one segment.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pinotpy.query.explain.plans.merge_groups", list)
        groups = ask(SCHEMA, segments, f"EXPLAIN PLAN FOR {asked}", null_handling=null_handling).explain
    assert len(groups) == len(segments)
    pruned = [group for group in groups if "pruned" in group]
    assert len(pruned) == plan.statistics.num_segments_pruned, text
    rules = [group["pruned"]["rule"] for group in pruned]
    assert sum("bloom filter" in rule for rule in rules) >= plan.statistics.num_segments_pruned_by_bloom_filter
    read = {plan.morsel_segment(morsel).name: morsel for morsel in range(plan.num_morsels)}
    for group in groups:
        (name,) = group["names"]
        if "pruned" in group:
            assert name not in read, text
            continue
        if name not in read:
            assert group["toRead"] == [0, 0] and not any(map(kind_of, leaves_of(group["filter"]))), (text, group)
            continue
        low, high, docs = plan.morsels[read[name], [abi.U_LOW, abi.U_HIGH, abi.U_LIST]].tolist()
        assert group["toRead"] == [high - low, high - low], text
        leaves = list(leaves_of(group["filter"]))
        told = [(column_of(leaf), kind_of(leaf)) for leaf in leaves]
        late = [place for place, (_, test) in enumerate(told) if test == "late"]
        assert late == list(range(len(told) - len(late), len(told))) and bool(late) is bool(scanned), text
        assert [one for one in told if one[1] not in (None, "late")] == instructions_of(plan, read[name]), (text, group)
        by_list = [leaf for leaf in leaves if "only the docs of its list are read" in leaf["why"]]
        assert bool(by_list) is bool(docs), (text, group)
        if docs and len(by_list) == 1 and group["filter"].get("operator") != "OR":
            assert high - low <= by_list[0]["docs"][1], "a list is cut to the run of a sorted column"
        seen["lists"] += bool(docs)
        for _, test in told:
            seen[test or "none"] = seen.get(test or "none", 0) + 1


@pytest.mark.parametrize("prices", ["as they are", "lists", "bits"])
def test_what_explain_prints_is_the_program_that_runs(
    prices: str, segments: SegmentSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    if prices != "as they are":
        monkeypatch.setattr(index_choice, "_NS_OVERHEAD", 0.0)
    if prices == "lists":
        monkeypatch.setattr(index_choice, "_NS_SCAN_DOC", 1e6)
    elif prices == "bits":
        monkeypatch.setattr(index_choice, "_NS_LIST_DOC", 1e6)
        monkeypatch.setattr(index_choice, "_NS_BITMAP_DOC", -1e6)
    rng = random.Random(f"{prices} {len(segments)}")
    seen = {"lists": 0}
    for _ in range(100):
        check(random_filter(rng), segments, seen, null_handling=rng.random() < 0.5)
    assert seen["test"] > 20 and seen["expression"] and seen["late"], seen
    assert prices != "lists" or seen["lists"] > 10, seen
    assert prices != "bits" or seen["bits"] > 10, seen
