"""What the methods need of a query: keys with shared codes, aggregations that are words of a row. Only what a method
cannot do is said here; what pays off is decided in `choose`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from pinotpy.arrays import Int64Array
from pinotpy.data_types import StoredType
from pinotpy.functions.state.plans import SlotPlan
from pinotpy.kernels.aggregate.exact_sums import MORSEL_DOCS_MAX
from pinotpy.kernels.runtime import abi
from pinotpy.pql.ast import Identifier
from pinotpy.query.aggregate.keys import Key
from pinotpy.query.aggregate.layout import Layout, values_bound
from pinotpy.query.plan.scan_plan import ScanPlan
from pinotpy.query.plan.shared_codes import shared_codes
from pinotpy.query.segments.shared_codes import ColumnIds

# Packed keys are below this; hashes need no sign.
PACKED_KEYS_MAX: Final = 2.0**62


def why_not_words(plan: ScanPlan, layout: Layout, keys: Sequence[Key]) -> str | None:
    """Why a table of one thread cannot hold the groups of all its morsels as rows of words; None: it can."""
    for entry in layout.aggregations:
        if not isinstance(entry.plan, SlotPlan):
            return f"{entry.aggregation.name} keeps more of a group than words of a row"
    for key in keys:
        if not isinstance(key.expression, Identifier):
            return "a key is an expression that the scan computes"
        if key.has_flag:
            return f"null is a group of the raw column {key.expression.name}"
    expanded = tuple(
        dict.fromkeys(key.expression.name for key in keys if key.expanded and isinstance(key.expression, Identifier))
    )
    if values_bound(plan, layout, expanded) > MORSEL_DOCS_MAX:
        return f"a group may have more than {MORSEL_DOCS_MAX} values, which exact sums of one row do not hold"
    return None


def is_one_raw_number(plan: ScanPlan, keys: Sequence[Key]) -> bool:
    """Whether the only key is a raw column of a fixed type, whose values are the same words in all segments."""
    if len(keys) != 1 or keys[0].nullable or keys[0].expanded or keys[0].data_type.stored is StoredType.VAR:
        return False
    key = keys[0].expression
    return isinstance(key, Identifier) and bool(
        (plan.metas.of(key.name)[plan.morsels[:, abi.U_SEGMENT], abi.M_CARDINALITY] < 0).all()
    )


def codes_of_keys(plan: ScanPlan, keys: Sequence[Key], *, of_one_segment: bool = False) -> list[ColumnIds] | None:
    """Shared codes of all keys, made now where nobody made them before; None: some key cannot have them.

    Args:
        of_one_segment: also where the plan reads one segment only, whose own ids would do.

    Raises: what the plan's control raises.
    """
    segments = np.unique(plan.morsels[:, abi.U_SEGMENT])
    for key in keys:  # before codes of any are made
        name = key.expression.name if isinstance(key.expression, Identifier) else None
        if name is None or not (
            name in plan.numbered or bool((plan.metas.of(name)[segments, abi.M_CARDINALITY] >= 0).all())
        ):
            return None
    codes = []
    for key in keys:
        assert isinstance(key.expression, Identifier)
        ids = shared_codes(plan, key.expression.name, of_one_segment=of_one_segment)
        if ids is None:
            return None
        codes.append(ids)
    return codes


def sizes_of_codes(keys: Sequence[Key], codes: Sequence[ColumnIds]) -> Int64Array:
    """int64[keys]: codes of each key, one more where null is a group."""
    return np.array([ids.num_ids + key.nullable for ids, key in zip(codes, keys, strict=True)], np.int64)


def have_dictionaries(plan: ScanPlan, keys: Sequence[Key]) -> bool:
    """Whether all keys are columns with a dictionary in every segment of the plan."""
    return all(
        isinstance(key.expression, Identifier) and (plan.metas.of(key.expression.name)[:, abi.M_CARDINALITY] >= 0).all()
        for key in keys
    )


def local_sizes(plan: ScanPlan, key: Key) -> Int64Array:
    """int64[segments]: dict ids of a key in every segment, one more where null is a group."""
    assert isinstance(key.expression, Identifier)
    meta = plan.metas.of(key.expression.name)
    sizes: Int64Array = np.maximum(meta[:, abi.M_CARDINALITY] + (key.nullable & (meta[:, abi.M_NULLS] != 0)), 1)
    return sizes


def sizes_of_morsels(plan: ScanPlan, keys: Sequence[Key]) -> Int64Array:
    """int64[morsels, keys]: `local_sizes` of each morsel's segment."""
    segments = plan.morsels[:, abi.U_SEGMENT]
    return np.stack([local_sizes(plan, key)[segments] for key in keys], axis=1)


def docs_of_morsels(plan: ScanPlan) -> Int64Array:
    """int64[morsels]: docs that each morsel reads."""
    docs: Int64Array = plan.morsels[:, abi.U_HIGH] - plan.morsels[:, abi.U_LOW]
    return docs
