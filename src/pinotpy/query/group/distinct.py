"""SELECT DISTINCT: the groups of a GROUP BY over the selected expressions, without aggregations."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from pinotpy.pql.ast import Expression
from pinotpy.query.group.group_by import run_group_by
from pinotpy.query.model.context import AggregationRef, QueryContext, QueryKind
from pinotpy.query.plan.scan_plan import ScanPlan
from pinotpy.query.project.rows import output_field
from pinotpy.query.result.combine import ordered_rows
from pinotpy.query.result.partial import PartialResult


def grouping_context(context: QueryContext) -> QueryContext:
    """The GROUP BY query whose groups are the rows of this DISTINCT."""
    expressions: list[Expression] = []
    for column in context.output:
        assert not isinstance(column.expression, AggregationRef), "DISTINCT has no aggregations"
        expressions.append(column.expression)
    return replace(
        context, kind=QueryKind.GROUP_BY, group_by=tuple(expressions), aggregations=(), order_by=(), having=None
    )


def run_distinct(plan: ScanPlan) -> PartialResult:
    """Rows o0.., each once, cut to offset + limit."""
    context = plan.context
    grouping = grouping_context(context)
    grouped = run_group_by(replace(plan, context=grouping))
    if grouped.rows is not None:
        fields = [
            pa.field(f"o{i}", column.type, metadata=output_field(plan, "", expression).metadata)
            for i, (expression, column) in enumerate(zip(grouping.group_by, grouped.rows.columns, strict=True))
        ]
        # Groups are different rows.
        grouped.rows = ordered_rows(context, pa.table(grouped.rows.columns, schema=pa.schema(fields)))
    return grouped
