"""HISTOGRAM(x, lower, upper, buckets) or HISTOGRAM(x, ARRAY[e0, e1, …]): how many values each bucket has.

Bucket i holds the values from edge i to below edge i + 1, the last one its upper edge as well; values outside all
buckets and NaN are not counted. The edges of the first form are lower + i × (upper − lower) / buckets.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType
from pinotpy.errors import InvalidQueryError
from pinotpy.functions.sketches.multiset import numbers_of
from pinotpy.functions.spec import AggregateExample, AggregateFunction, Argument, Groups, Parameter, check_number
from pinotpy.functions.state.plans import Plan, SlotPlan, Update, Values, ValueSetPlan, Word
from pinotpy.pql.ast import Dialect

BUCKETS_MAX: Final = 10_000
_SLOTS_MAX: Final = 64  # buckets that are words of a group's row; more are counted off the distinct values
_FORMS: Final = "write HISTOGRAM(x, lower, upper, buckets) or HISTOGRAM(x, ARRAY[0, 10, 100])"


class Histogram(AggregateFunction):
    """Its state is a list of counts, one a bucket."""

    name = "histogram"
    display_name = "histogram"
    result_type: ClassVar[DataType] = DataType.DOUBLE
    summary: ClassVar[str] = (
        "How many values each bucket has: from its lower edge to below its upper, the last to its upper edge; others "
        "are not counted."
    )
    parameters: ClassVar[str] = ", lower, upper, buckets | , ARRAY[edges]"
    examples: ClassVar[Mapping[str, AggregateExample]] = {
        "histogram": AggregateExample("HISTOGRAM(points, 0, 9, 3)", [2.0, 3.0, 1.0])
    }

    def __init__(self, edges: NDArray[np.float64] | None = None, *, even: bool = False) -> None:
        """`edges`: float64[buckets + 1], ascending; None until a call says them. `even`: they are finite and evenly
        apart, and so is how many buckets a unit has.
        """
        self.edges = np.array([-np.inf, np.inf]) if edges is None else edges
        # What the kernel reads (kernels/aggregate/histogram.py), of whole numbers and of doubles; it lives as long as
        # this function.
        self._heads = [
            np.concatenate([[self.num_buckets, floating + 2 * even], self.edges.view(np.int64)]) for floating in (0, 1)
        ]

    def with_parameters(self, parameters: Sequence[Parameter]) -> Histogram:
        if len(parameters) == 1 and isinstance(parameters[0], tuple):
            edges: NDArray[Any] = np.array([_number(edge) for edge in parameters[0]], np.float64)
            if len(edges) < 2 or not (edges[1:] > edges[:-1]).all():
                raise InvalidQueryError(
                    f"expected at least two edges of HISTOGRAM, each above the one before, found {edges.tolist()[:10]}"
                )
        elif len(parameters) == 3:
            lower, upper, buckets = (_number(value) for value in parameters)
            if not (np.isfinite([lower, upper]).all() and lower < upper):
                raise InvalidQueryError(
                    f"expected a finite lower bound of HISTOGRAM below a finite upper one, found {lower} and {upper}"
                )
            if not (1 <= buckets <= BUCKETS_MAX and buckets == int(buckets)):
                raise InvalidQueryError(
                    f"expected a whole number of buckets of HISTOGRAM from 1 to {BUCKETS_MAX}, found {buckets:g}"
                )
            edges = lower + np.arange(int(buckets) + 1) * ((upper - lower) / int(buckets))
            edges[-1] = upper
        else:
            raise InvalidQueryError(f"HISTOGRAM takes its buckets as constants: {_FORMS}")
        if len(edges) > BUCKETS_MAX + 1:
            raise InvalidQueryError(f"expected at most {BUCKETS_MAX} buckets of HISTOGRAM, found {len(edges) - 1}")
        with np.errstate(over="ignore"):
            # Buckets of a hundred thousandth of the least normal double: what a value times so many a unit is, is no
            # number.
            steps = np.array([edges[-1] - edges[0], (len(edges) - 1) / (edges[-1] - edges[0])])
        return Histogram(edges, even=len(parameters) == 3 and bool(np.isfinite(steps).all()))

    @property
    def num_buckets(self) -> int:
        return len(self.edges) - 1

    def check_type(self, argument: Argument, dialect: Dialect) -> None:
        check_number(self, argument, dialect)

    def result_of(self, argument: Argument) -> Argument:
        return Argument(self.result_type, single_value=False)

    def state_fields(self, argument: Argument) -> list[pa.Field]:
        return [pa.field("counts", pa.list_(pa.int64()))]

    def plan(self, argument: Argument, *, sum_fits_long: bool) -> Plan:
        assert argument.data_type is not None
        if argument.data_type is DataType.BIG_DECIMAL or self.num_buckets > _SLOTS_MAX:
            return self._value_set_plan()
        from pinotpy.kernels.aggregate.histogram import count_buckets

        floating = argument.data_type.stored.is_floating
        values = Values.DOUBLE if floating else Values.LONG
        update = Update(count_buckets, count_buckets, 0, values, self._heads[floating].ctypes.data)
        return SlotPlan(
            (Word.ADD,) * self.num_buckets, (update,), lambda slots, seen, overflow: [self._lists(slots.reshape(-1))]
        )

    def _value_set_plan(self) -> ValueSetPlan:
        def collect(rows: Int64Array, values: pa.Array, counts: Int64Array, num_rows: int) -> list[pa.Array]:
            numbers = numbers_of(values).astype(np.float64)
            buckets = np.searchsorted(self.edges, numbers, side="right") - 1
            buckets[numbers == self.edges[-1]] = self.num_buckets - 1
            inside = (buckets >= 0) & (buckets < self.num_buckets)
            total = np.zeros(num_rows * self.num_buckets, np.int64)
            np.add.at(total, rows[inside] * self.num_buckets + buckets[inside], counts[inside])
            return [self._lists(total)]

        return ValueSetPlan(collect)

    def merge(self, states: Sequence[pa.Array], groups: Groups, num_groups: int) -> list[pa.Array]:
        total = np.zeros((num_groups, self.num_buckets), np.int64)
        valid = states[0].is_valid().to_numpy(zero_copy_only=False)
        counts = states[0].drop_null().flatten().to_numpy(zero_copy_only=False)
        np.add.at(total, groups[valid], counts.reshape(-1, self.num_buckets))
        return [self._lists(total.reshape(-1))]

    def finish(self, states: Sequence[pa.Array], *, null_handling: bool) -> pa.Array:
        merged = self.merge(states, np.arange(len(states[0])), len(states[0]))[0]
        return merged.cast(pa.list_(pa.float64()))

    def order_values(self, states: Sequence[pa.Array], finished: pa.Array) -> pa.Array:
        sums = finished.flatten().to_numpy(zero_copy_only=False).reshape(-1, self.num_buckets).sum(axis=1)
        return pa.array(sums)

    def _lists(self, counts: Int64Array) -> pa.Array:
        offsets = np.arange(len(counts) // self.num_buckets + 1, dtype=np.int32) * np.int32(self.num_buckets)
        return pa.ListArray.from_arrays(pa.array(offsets), pa.array(counts))


def _number(value: Parameter) -> float:
    try:
        number = float("nan") if value is None or isinstance(value, bool | tuple) else float(value)
    except OverflowError:  # a whole number beyond the doubles, where a decimal one is infinite
        number = math.inf if isinstance(value, int) and value > 0 else -math.inf
    except ValueError:
        number = float("nan")
    if np.isnan(number):
        raise InvalidQueryError(f"expected numbers as buckets of HISTOGRAM, found '{str(value)[:40]}': {_FORMS}")
    return number


FUNCTION = Histogram()
