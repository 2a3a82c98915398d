"""The keys of a GROUP BY: where each stands in a group's key words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType, StoredType
from pinotpy.kernels.runtime import abi
from pinotpy.pql.ast import Expression, Identifier
from pinotpy.query.model.result_types import result_type
from pinotpy.query.plan.scan_plan import ScanPlan


@dataclass(slots=True)
class Key:
    """One group expression: its type, its first word in a group's key, whether a null flag follows, whether null is a
    group, whether each value of a multi-value column is one, and per morsel the address of the meta row whose dict ids
    its words are (0: 64-bit values).
    """

    expression: Expression
    data_type: DataType
    word: int
    has_flag: bool
    nullable: bool
    expanded: bool
    metas: Int64Array


def make_keys(plan: ScanPlan) -> list[Key]:
    """The keys of a plan's query, their `metas` not known yet."""
    keys, word = [], 0
    for expression in plan.context.group_by:
        kind = result_type(expression, plan.context)
        data_type = kind.data_type or DataType.STRING
        nullable, raw, expanded = plan.context.null_handling, True, False
        if isinstance(expression, Identifier) and plan.segments:
            metas = plan.metas.of(expression.name)
            expanded = not kind.single_value
            nullable = nullable and not expanded and bool((metas[:, abi.M_NULLS] != 0).any())
            raw = bool((metas[:, abi.M_CARDINALITY] < 0).any())
        has_flag = nullable and raw and data_type.stored is not StoredType.VAR
        keys.append(
            Key(expression, data_type, word, has_flag, nullable, expanded, np.zeros(plan.num_morsels, np.int64))
        )
        word += 1 + has_flag
    return keys
