"""What EXPLAIN answers: the plans of all servers together, as JSON (key `explain`) and as the table of operators that
the reference's SQL has: Operator, Operator_Id, Parent_Id (sql-live.md; recorded answers).

In the table every plan begins with PLAN_START and its number of segments. Texts of operators are the reference's; what
it does not say follows inside the brackets: `reason`, `notUsed`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from pinotpy.pql.printer import print_expression
from pinotpy.query.model.context import AggregationRef, OrderBy, QueryContext, QueryKind
from pinotpy.query.result.explained_groups import INVERTED, JSON, RANGE, SORTED, TEXT, Finding, merge_groups

TABLE_COLUMNS: Final = (("Operator", "STRING"), ("Operator_Id", "INT"), ("Parent_Id", "INT"))
_INDEX_NAMES: Final = {
    SORTED: "sorted_index",
    INVERTED: "inverted_index",
    RANGE: "range_index",
    TEXT: "text_index",
    JSON: "json_index",
}
_OF_ACCESS: Final = {
    "nothing": "FILTER_EMPTY",
    "everything": "FILTER_MATCH_ENTIRE_SEGMENT",
    "expression": "FILTER_EXPRESSION",
    "null vector": "FILTER_NULL_VECTOR",
}

# Numbers that stand in the text of `why`.
_IN_TEXTS: Final = ("percent", "indexMicros", "scanMicros")

Row = list[Any]  # operator, its number, its parent's


@dataclass(frozen=True, slots=True)
class Explanation:
    """reduce: what the broker does, as one operator; groups: as PartialResult.explain, of all servers.

    measured: of EXPLAIN ANALYZE, rows that follow the plan's in the table, and `numbers`, the same as JSON.
    broker_pruning: of halves of the table which segments no server is asked for, and why:
      table, segments: its name with type, and how many segments it has by records;
      pruned: [{rule, segments, docs, names}] of those that are excluded, `names` of up to NAMES_SHOWN_MAX;
      askedForTypes: where nothing is left, names of excluded ones that a server is asked for all the same, for types
          and empty aggregates; they are not among `pruned`; absent elsewhere;
      conditions: [{predicate, segments, why}] of the filter, how many segments each excludes by itself, and why no
          more; `why` is absent where nothing stands in the way;
      recordsNotUsed: by what is wrong with them how many records exclude nothing, or less than they say; absent where
          all are used;
      warnings: what the table's config has for the pruning that turns nothing on, each with its JSON path; absent where
          there is nothing to warn of.
    """

    reduce: str
    combine: str
    groups: tuple[Finding, ...]
    measured: tuple[Row, ...] = ()
    numbers: dict[str, Any] | None = None
    broker_pruning: tuple[Finding, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The value of the key `explain`: the broker's and servers' operators, then the groups of segments."""
        analyzed = {} if self.numbers is None else {"analyze": self.numbers}
        if not self.combine:
            return {"broker": self.reduce, "plans": [], **analyzed}
        plans = [_readable(group) for group in self.groups]
        pruning = {"brokerPruning": list(self.broker_pruning)} if self.broker_pruning else {}
        return {"broker": self.reduce, **pruning, "server": self.combine, "plans": plans, **analyzed}

    def rows(self) -> list[Row]:
        """The table of operators; the broker's and the server's come first, then each plan's, numbered anew from 3."""
        return [*self._plan(), *self.measured]

    def _plan(self) -> list[Row]:
        if not self.combine:
            return [[self.reduce, 0, -1]]
        rows: list[Row] = [[self.reduce, 1, 0]]
        planned = [group for group in self.groups if "operator" in group]
        pruned = [group for group in self.groups if "pruned" in group]
        if planned:
            rows.append([self.combine, 2, 1])
        for group in planned:
            rows.append(_plan_start(group["segments"]))
            rows += _plan_rows(group)
        if pruned:
            rows.append(_plan_start(sum(group["segments"] for group in pruned)))
            reasons = "; ".join([f"{group['segments']} by {_reason(group['pruned'])}" for group in pruned])
            name, number = ("SEGMENTS_PRUNED_ON_SERVER", 3) if planned else ("ALL_SEGMENTS_PRUNED_ON_SERVER", 2)
            rows.append([f"{name}(reason:[{reasons}])", number, number - 1])
        return [*rows, *_pruned_by_broker(self.broker_pruning)]

    def num_segments(self, selects: str) -> int:
        """Segments whose filter is known to select `nothing` or `everything`."""
        return sum(group["segments"] for group in self.groups if group.get("selects") == selects)


def _reason(pruned: Finding) -> str:
    return f"{pruned['rule']}: {pruned['why']}" if pruned["rule"] else "a condition that no row meets"


def _pruned_by_broker(halves: Iterable[Finding]) -> list[Row]:
    """As a plan of its own: which segments are left out, and why conditions leave out no more."""
    rows: list[Row] = []
    for half in halves:
        if half.get("warnings"):
            rows.append(_plan_start(half["segments"]))
            rows.append([f"BROKER_PRUNING_WARNINGS(table:{half['table']},[{'; '.join(half['warnings'])}])", 2, 1])
        kept = "; ".join([f"{each['predicate']}: {each['why']}" for each in half["conditions"] if "why" in each])
        types = half.get("askedForTypes", ())
        unused = f",askedForTypes:[{', '.join(types)}]" if types else ""
        unused += f",notUsed:[{kept}]" if kept else ""
        if unused and not half["pruned"]:
            rows += [_plan_start(0), [f"NO_SEGMENTS_PRUNED_BY_BROKER(table:{half['table']}{unused})", 2, 1]]
        if half["pruned"]:
            reasons = "; ".join([f"{each['segments']} by {each['rule']}" for each in half["pruned"]])
            rows.append(_plan_start(sum(each["segments"] for each in half["pruned"])))
            rows.append([f"SEGMENTS_PRUNED_BY_BROKER(table:{half['table']},reason:[{reasons}]{unused})", 2, 1])
    return rows


def explain_constants() -> Explanation:
    """A select list of literals: no server is asked."""
    return Explanation("BROKER_EVALUATE", "", ())


def explanation(context: QueryContext, parts: Iterable[list[Finding]]) -> Explanation:
    """The answer from the parts of all servers."""
    arguments = (
        [] if not context.order_by else [f"sort:[{', '.join([_sort_key(context, key) for key in context.order_by])}]"]
    )
    if context.having is not None:
        arguments.append("having")
    arguments.append(f"limit:{context.limit}")
    groups = merge_groups(group for part in parts for group in part)
    return Explanation(f"BROKER_REDUCE({','.join(arguments)})", _combine(context), tuple(groups))


def _sort_key(context: QueryContext, key: OrderBy) -> str:
    expression = key.expression
    text = (
        context.aggregations[expression.index].name
        if isinstance(expression, AggregationRef)
        else print_expression(expression, context.dialect)
    )
    return f"{text} {'ASC' if key.ascending else 'DESC'}"


def _combine(context: QueryContext) -> str:
    match context.kind:
        case QueryKind.AGGREGATION:
            return "COMBINE_AGGREGATE"
        case QueryKind.GROUP_BY:
            return "COMBINE_GROUP_BY"
        case QueryKind.DISTINCT:
            return "COMBINE_DISTINCT"
        case QueryKind.SELECTION:
            return "COMBINE_SELECT_ORDERBY_MINMAX" if context.order_by else "COMBINE_SELECT"


# --- the table --------------------------------------------------------------------------------------------------------


def _plan_start(num_segments: int) -> Row:
    return [f"PLAN_START(numSegmentsForThisPlan:{num_segments})", -1, -1]


def _plan_rows(group: Finding) -> list[Row]:
    operator = group["operator"]
    if operator["name"] == "AGGREGATE_NO_SCAN":
        return [[f"AGGREGATE_NO_SCAN(reason:{operator['way']}: {operator['why']})", 3, 2]]
    tree = group.get("starTree", {})
    unused = f", starTree:[not used: {tree['why']}]" if tree and "number" not in tree else ""
    rows: list[Row] = [
        [f"{operator['name']}({operator['arguments']}, way:{operator['way']}, reason:{operator['why']}{unused})", 3, 2],
        [f"PROJECT({', '.join(operator['columns'])})", 4, 3],
        ["DOC_ID_SET", 5, 4],
    ]
    if "number" in tree:
        order = ", ".join(tree["dimensionsSplitOrder"])
        text = (
            f"FILTER_STARTREE_INDEX(starTree:{tree['number']},dimensionsSplitOrder:[{order}],"
            f"reason:{tree['why']},docs:{_span(group['toRead'])})"
        )
        return [*rows, [text, 6, 5]]
    if "filter" not in group:
        return [*rows, [f"FILTER_MATCH_ENTIRE_SEGMENT(docs:{_span(group['docs'])})", 6, 5]]
    return _add_filter(rows, group["filter"], 5)


def _add_filter(rows: list[Row], node: Finding, parent: int) -> list[Row]:
    number = rows[-1][1] + 1
    if "children" in node:
        rows.append([f"FILTER_{node['operator']}", number, parent])
        for child in node["children"]:
            _add_filter(rows, child, number)
        return rows
    access = node["access"]
    index = _INDEX_NAMES.get(access)
    name = f"FILTER_{index.upper()}" if index else _OF_ACCESS.get(access, "FILTER_FULL_SCAN")
    arguments = [f"indexLookUp:{index}"] if index else []
    arguments += [f"operator:{node['operator']}", f"predicate:{node['predicate']}", f"reason:{_readable(node)['why']}"]
    if "docs" in node:
        arguments.append(f"docs:{_span(node['docs'])}")
    unused = [f"{item['index']}: {item['why']}" for item in map(_readable, node.get("notUsed", []))]
    if unused:
        arguments.append(f"notUsed:[{'; '.join(unused)}]")
    rows.append([f"{name}({','.join(arguments)})", number, parent])
    return rows


def _span(numbers: list[Any]) -> str:
    least, most = (f"{number:g}" if isinstance(number, float) else str(number) for number in numbers)
    return least if least == most else f"{least} to {most}"


def _readable(value: Any) -> Any:
    """A finding with its percentages and prices as text, in their places; `docs` and `toRead` stay [least, most]."""
    if isinstance(value, list):
        return [_readable(item) for item in value]
    if not isinstance(value, dict):
        return value
    texts = {k: _readable(v) for k, v in value.items() if k not in _IN_TEXTS}
    for name in _IN_TEXTS:
        if name in value:
            texts["why"] = texts["why"].replace(f"{{{name}}}", _span(value[name]))
    return texts
