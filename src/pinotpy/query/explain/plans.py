"""A server's part of EXPLAIN: its segments, those with the same plan together.

Of a segment that consumes, whose rows lie in several parts, it says one thing: see `parts_as_segments`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pinotpy.kernels.filter import planner
from pinotpy.query.explain.access import FilterExplainer
from pinotpy.query.explain.operators import operator_of
from pinotpy.query.explain.predicate_text import predicate_text
from pinotpy.query.explain.star_tree import explain_trees
from pinotpy.query.filter.planner import FilterPlan
from pinotpy.query.filter.pruning import BY_BLOOM, BY_MIN_MAX, BY_PARTITION
from pinotpy.query.group.distinct import grouping_context
from pinotpy.query.model.context import QueryContext, QueryKind
from pinotpy.query.plan.scan_plan import ScanPlan
from pinotpy.query.result.explained_groups import Finding, merge_groups, parts_as_segments
from pinotpy.query.result.partial import PartialResult, Statistics
from pinotpy.query.runtime.control import QueryControl
from pinotpy.query.segments.segment_set import SegmentSet
from pinotpy.query.segments.segment_sets import SegmentSets
from pinotpy.segment.data_source import Segment, Stored

# Rules that prune a segment, in the words of the answer.
NO_DOCS, MIN_MAX, BLOOM, PARTITION, LIMIT, LIMIT_ZERO = (
    "no docs",
    "min and max",
    "bloom filter",
    "partition",
    "limit",
    "limit 0",
)
_NO_DOCS_WHY = "the segment has none"
_OF_RULE = {BY_MIN_MAX: MIN_MAX, BY_BLOOM: BLOOM, BY_PARTITION: PARTITION}
_OF_OUTCOME = {
    planner.SELECTS_NOTHING: "nothing",
    planner.SELECTS_SOME: "some",
    planner.SELECTS_ALL: "everything",
}
_WHY = {
    MIN_MAX: "lies outside the values of the segment",
    BLOOM: "asks for values that the bloom filter does not hold",
    PARTITION: "asks for values of other partitions",
}


# (query, segments) → the plans of filter and scan, with the threads and shared codes that the query would have.
Scan = Callable[[QueryContext, SegmentSet], tuple[FilterPlan, ScanPlan]]


def explain_sets(
    context: QueryContext, asked: SegmentSets, wanted: SegmentSets, control: QueryControl, scan: Scan
) -> PartialResult:
    """Plan the query over `wanted`, the first of `asked` that LIMIT asks for, and say what was decided; reads no
    docs, but makes the shared codes that the query would make.

    The partial result has no rows; its `explain` is a list of groups of segments:
      segments, names: how many, and up to explain.groups.NAMES_SHOWN_MAX of them;
      docs: [least, most] of one segment;
      pruned: {rule, why}, for the rule `min and max` also values: {column: [least, most] of each named segment};
          or else
      operator: what is done with the docs (operators.py); toRead: [least, most] docs of one segment that are looked at;
      filter, selects: how it is answered (access.py), and whether it selects nothing, some or everything; absent
          without filter;
      starTree: of segments that have trees: {number, dimensionsSplitOrder, why} of the one that answers (then toRead
          are its records, and there is no filter), or only `why` none does.

    Raises: what `scan` raises; InvalidQueryError for a forced grouping method that cannot serve.
    """
    groups: list[Finding] = []
    parts: list[Finding] = []
    for number, one in enumerate(asked.sets):
        some = wanted.sets[number] if number < len(wanted.sets) else ()
        (parts if one.are_parts else groups).extend(_of_set(context, one, some, control, scan))
    groups += parts_as_segments(parts)
    whole, names = asked.counted()
    return PartialResult(
        statistics=Statistics(
            num_segments_queried=whole + len(names),
            total_docs=asked.total_docs,
            num_segments_pruned=num_pruned(groups),
        ),
        explain=merge_groups(groups),
    )


def without_docs(names: Iterable[str]) -> list[Finding]:
    """What EXPLAIN says of segments that have no docs."""
    return [
        {"segments": 1, "names": [name], "docs": [0, 0], "pruned": {"rule": NO_DOCS, "why": _NO_DOCS_WHY}}
        for name in names
    ]


def num_pruned(groups: Iterable[Finding]) -> int:
    return sum(group["segments"] for group in groups if "pruned" in group)


def _of_set(
    context: QueryContext, segments: SegmentSet, wanted: Sequence[Segment], control: QueryControl, scan: Scan
) -> list[Finding]:
    """One finding a member."""
    if context.limit == 0 and context.kind in (QueryKind.SELECTION, QueryKind.DISTINCT):
        return [
            _pruned(segment, LIMIT_ZERO, "only the names and types of the columns are asked for")
            for segment in segments
        ]
    why = f"the segments before hold the {context.offset + context.limit} docs that LIMIT asks for"
    groups = [_pruned(segment, LIMIT, why) for segment in segments[len(wanted) :]]
    groups += [_pruned(segment, NO_DOCS, _NO_DOCS_WHY) for segment in wanted if segment.num_docs == 0]
    return groups + _planned(context, wanted, control, scan)


def _planned(context: QueryContext, wanted: Sequence[Segment], control: QueryControl, scan: Scan) -> list[Finding]:
    planned = grouping_context(context) if context.kind is QueryKind.DISTINCT else context
    groups, rest, unused = explain_trees(context, SegmentSet.of(wanted), control)
    if groups and not len(rest):
        return groups
    chosen, plan = scan(planned, rest)
    operator = operator_of(context, plan)
    explainer = FilterExplainer(chosen, chosen.choices(control), context.dialect) if chosen.has_filter else None
    to_read = chosen.docs_to_read()
    for row, number in enumerate(chosen.pruning.numbers.tolist()):
        control.check()
        segment = chosen.pruning.asked[row]
        if number < 0:
            one = chosen.pruning.who_prunes(row)
            text = predicate_text(one, context.dialect).text
            pruner: Finding = {"predicate": text, "column": one.column, "rule": BY_MIN_MAX}
            groups.append(_group(segment) | {"pruned": _by_values(segment, [pruner])})
            continue
        if chosen.outcomes[number] == planner.IS_PRUNED:
            assert explainer is not None
            groups.append(_group(segment) | {"pruned": _by_values(segment, explainer.who_prunes(number))})
            continue
        count = int(to_read[number])
        group = _group(segment) | {"operator": operator, "toRead": [count, count]}
        if segment.name in unused:
            group["starTree"] = unused[segment.name]
        if explainer is not None:
            group["filter"] = explainer.in_segment(number)
            outcome = _OF_OUTCOME[int(chosen.outcomes[number])]
            group["selects"] = "some" if outcome == "everything" and chosen.late else outcome
        groups.append(group)
    return groups


def _group(segment: Segment) -> Finding:
    return {"segments": 1, "names": [segment.name], "docs": [segment.num_docs, segment.num_docs]}


def _pruned(segment: Segment, rule: str, why: str) -> Finding:
    return _group(segment) | {"pruned": {"rule": rule, "why": why}}


def _by_values(segment: Segment, pruners: list[Finding]) -> Finding:
    rules = [_OF_RULE[pruner["rule"]] for pruner in pruners]
    reasons = [f"{pruner['predicate']} {_WHY[rule]}" for pruner, rule in zip(pruners, rules, strict=True)]
    if len(set(rules)) == 1:
        reasons = [f"{' and '.join(pruner['predicate'] for pruner in pruners)} {_WHY[rules[0]]}"]
    finding: Finding = {"rule": " and ".join(dict.fromkeys(rules)), "why": "; ".join(reasons)}
    names = list(
        dict.fromkeys(pruner["column"] for pruner, rule in zip(pruners, rules, strict=True) if rule == MIN_MAX)
    )
    if not names:
        return finding
    return finding | {
        "values": {
            name: [[_shown(segment.column(name).min_value), _shown(segment.column(name).max_value)]] for name in names
        }
    }


def _shown(value: Stored | None) -> Any:
    return value.decode("utf-8", "backslashreplace")[:100] if isinstance(value, bytes) else value
