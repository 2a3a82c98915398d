"""What is done with the selected docs, and by which of the ways that the operator has."""

from __future__ import annotations

from typing import Any, Final

from pinotpy.pql.ast import Expression
from pinotpy.pql.printer import print_expression
from pinotpy.query.aggregate.keys import make_keys
from pinotpy.query.aggregate.layout import Layout, make_layout, projected_columns
from pinotpy.query.group.choose import DIRECT_GROUPS_PER_DOC, methods_of_computed
from pinotpy.query.group.group_by import explain_choice, table_sizes
from pinotpy.query.group.ungrouped import known_sources
from pinotpy.query.model.context import AggregationRef, QueryContext, QueryKind
from pinotpy.query.model.grouping_method import GroupingMethod
from pinotpy.query.model.result_types import columns_in
from pinotpy.query.order.segment_order import key_ranges
from pinotpy.query.order.select import SortWay, way_to_sort
from pinotpy.query.plan.scan_plan import ScanPlan
from pinotpy.query.project.sources import Sources

# Tables of morsels.
_DIRECT: Final = "direct tables: ids of the keys number the groups, few enough for the docs"
_RAW_KEY: Final = "hash tables: a key is raw, its values have no ids"
_MANY_GROUPS: Final = (
    f"hash tables: dictionaries of the keys allow more than {DIRECT_GROUPS_PER_DOC} groups for every doc"
)
_WHY_SORTED: Final = {
    SortWay.ROWS: "all sort keys are columns: docs behind the worst row kept so far are dropped while the filter runs",
    SortWay.BATCHES: "a sort key is an expression, or there are many: keys are computed for the docs that are left",
}


def operator_of(context: QueryContext, plan: ScanPlan) -> dict[str, Any]:
    """The operator of a plan: name and arguments as the reference writes them, `way` and `why` in words, the columns
    that are read.
    """
    match context.kind:
        case QueryKind.AGGREGATION:
            return _aggregation(context, plan)
        case QueryKind.GROUP_BY:
            keys = ", ".join([print_expression(key, context.dialect) for key in context.group_by])
            names = ", ".join([aggregation.name for aggregation in context.aggregations])
            return _operator(
                "GROUP_BY", f"groupKeys:{keys}, aggregations:{names}", projected_columns(context)
            ) | _groups(plan)
        case QueryKind.DISTINCT:
            outputs = [_plain(column.expression) for column in context.output]
            keys = ", ".join([print_expression(key, context.dialect) for key in outputs])
            return _operator("DISTINCT", f"keyColumns:{keys}", _columns(outputs)) | _groups(plan)
        case QueryKind.SELECTION:
            return _selection(context, plan)


def _operator(name: str, arguments: str, columns: tuple[str, ...]) -> dict[str, Any]:
    return {"name": name, "arguments": arguments, "columns": list(columns)}


def _aggregation(context: QueryContext, plan: ScanPlan) -> dict[str, Any]:
    names = ", ".join([aggregation.name for aggregation in context.aggregations])
    source = _answered_by(plan, make_layout(plan))
    if source is not None:
        why = "every doc counts: segments know how many they have, and their least and greatest values"
        if source == "dictionaries":
            why = "dictionaries hold the values, and every doc counts"
        return {"name": "AGGREGATE_NO_SCAN", "arguments": "", "columns": [], "way": f"from {source}", "why": why}
    operator = _operator("AGGREGATE", f"aggregations:{names}", projected_columns(context))
    if not plan.reads_all_rows:
        return operator | {
            "way": "scan",
            "why": "a filter leaves some docs out" if context.filter is not None else "not every doc is read",
        }
    return operator | {
        "way": "scan",
        "why": "metadata and dictionaries do not answer all aggregations",
    }


def _answered_by(plan: ScanPlan, layout: Layout) -> str | None:
    sources = known_sources(plan, layout)
    return None if sources is None else " and ".join(sorted(sources, reverse=True))


def _groups(plan: ScanPlan) -> dict[str, Any]:
    if not plan.num_morsels:
        return {"way": "nothing", "why": "no segment selects anything"}
    choice = explain_choice(plan)
    if choice is None:
        methods = " or ".join([method.value for method in methods_of_computed(plan.context.group_by)])
        return {
            "way": methods,
            "why": "keys are computed or numbered for the docs that are left; then the query chooses",
        }
    if choice.method not in (GroupingMethod.MORSEL_TABLES, GroupingMethod.SMALL_RESULT):
        return {"way": choice.method.value, "why": choice.why}
    keys, sources, tables = make_keys(plan), Sources(plan), set()
    for shape in plan.shapes(projected_columns(plan.context)):
        key_sources = [sources.of(shape, key.expression) for key in keys]
        is_dense = table_sizes(shape, keys, key_sources) is not None
        tables.add(
            _DIRECT if is_dense else _RAW_KEY if not all(source.by_id for source in key_sources) else _MANY_GROUPS
        )
    return {"way": choice.method.value, "why": "; ".join([choice.why, *sorted(tables)])}


def _selection(context: QueryContext, plan: ScanPlan) -> dict[str, Any]:
    outputs = [_plain(column.expression) for column in context.output]
    if not context.order_by:
        shown = ", ".join([print_expression(output, context.dialect) for output in outputs])
        why = "without ORDER BY any rows are right: reading ends with the last one wanted"
        return _operator("SELECT", f"selectList:{shown}", _columns(outputs)) | {"way": "first docs", "why": why}
    keys = [_plain(key.expression) for key in context.order_by]
    shown = ", ".join([print_expression(each, context.dialect) for each in dict.fromkeys([*keys, *outputs])])
    way = way_to_sort(plan, keys)
    why = _WHY_SORTED[way]
    if key_ranges(context, context.order_by[0], plan.segments) is not None:
        why += "; segments are read in the order of their values, those behind the last row wanted are left out"
    return _operator("SELECT_ORDERBY", f"selectList:{shown}", _columns(keys)) | {"way": way.value, "why": why}


def _plain(expression: Expression | AggregationRef) -> Expression:
    assert not isinstance(expression, AggregationRef)
    return expression


def _columns(expressions: list[Expression]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for expression in expressions for name in columns_in(expression)))
