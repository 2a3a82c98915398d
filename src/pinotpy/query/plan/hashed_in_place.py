"""Aggregations that hash the texts of a raw column during the scan (HyperLogLog and its kin)."""

from __future__ import annotations

from pinotpy.data_types import StoredType
from pinotpy.functions.spec import aggregation_function
from pinotpy.functions.state.plans import SketchPlan
from pinotpy.pql.ast import Identifier
from pinotpy.query.model.context import Aggregation, QueryContext
from pinotpy.query.model.result_types import argument_of, types_of


def hashes_in_place(aggregation: Aggregation, context: QueryContext) -> bool:
    """Whether the scan hashes the texts of a raw column for this aggregation: it needs no dict ids of them."""
    source = aggregation.args[0] if aggregation.args else None
    if not isinstance(source, Identifier):
        return False
    argument = argument_of(aggregation.args, types_of(context))
    if argument.data_type is None or argument.data_type.stored is not StoredType.VAR or not argument.single_value:
        return False
    return isinstance(
        aggregation_function(aggregation.function, aggregation.args).plan(argument, sum_fits_long=False), SketchPlan
    )
