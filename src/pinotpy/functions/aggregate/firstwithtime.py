"""FIRSTWITHTIME(x, time, 'TYPE'), LASTWITHTIME: x of the row with the least or greatest time. Of rows with equal times
it is the last one in the order of segments and docs, as in the reference (FirstWithTimeAggregationFunction) within a
segment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pinotpy.data_types import INT_MIN, LONG_MIN, DataType
from pinotpy.decimals import encode_decimal
from pinotpy.errors import InvalidQueryError
from pinotpy.functions.named_types import named_type
from pinotpy.functions.spec import AggregateExample, AggregateFunction, Argument, Groups, Parameter
from pinotpy.functions.state.picked_rows import merge_picked, pick_rows
from pinotpy.functions.state.plans import RowBlock, RowPlan
from pinotpy.pql.ast import Dialect

_TIMES: Final = (DataType.INT, DataType.LONG, DataType.FLOAT, DataType.DOUBLE, DataType.TIMESTAMP)
# What the reference answers where no row was seen.
_NOTHING: Final[dict[DataType, Any]] = {
    DataType.INT: INT_MIN,
    DataType.LONG: LONG_MIN,
    DataType.FLOAT: float("nan"),
    DataType.DOUBLE: float("nan"),
    DataType.BIG_DECIMAL: encode_decimal(Decimal(0)),
    DataType.BOOLEAN: False,
    DataType.TIMESTAMP: 0,
    DataType.BYTES: b"",
}


class WithTime(AggregateFunction):
    """The state is the row that was chosen (picked_rows.py). Rows without value or time are skipped under null
    handling; where none is left, the answer is a default in both modes, as recorded.
    """

    result_type: ClassVar[DataType] = DataType.STRING
    sql_only: ClassVar[bool] = True
    num_expressions: ClassVar[int] = 2
    reads_rows: ClassVar[bool] = True
    result_text: ClassVar[str] = "the type named"
    parameters: ClassVar[str] = ", time, 'TYPE'"

    def __init__(
        self, name: str, display_name: str, *, last: bool, example: AggregateExample, data_type: DataType | None = None
    ) -> None:
        self.name, self.display_name, self.examples = name, display_name, {name: example}  # type: ignore[misc]
        which = "greatest" if last else "least"
        self.summary = f"The value of the row with the {which} time; of equal times the last row."  # type: ignore[misc]
        self._last, self._example, self._data_type = last, example, data_type
        if data_type is not None:
            self.result_type = data_type  # type: ignore[misc]

    examples: ClassVar[Mapping[str, AggregateExample]]

    @property
    def argument_type(self) -> DataType | None:
        return self._data_type

    def with_parameters(self, parameters: Sequence[Parameter]) -> WithTime:
        data_type = named_type(self.display_name, parameters[0] if parameters else None, "third")
        return WithTime(self.name, self.display_name, last=self._last, example=self._example, data_type=data_type)

    def check(self, arguments: Sequence[Argument], dialect: Dialect) -> None:
        for argument in (arguments[0], *arguments[0].further):
            if not argument.single_value:
                raise InvalidQueryError(f"{self.display_name} takes single values, found {argument.name}")
        for time in arguments[0].further:
            if time.data_type not in _TIMES:
                raise InvalidQueryError(
                    f"{self.display_name} takes a number as its time, found {time.name}: CAST it to LONG"
                )

    def state_fields(self, argument: Argument) -> list[pa.Field]:
        assert argument.data_type is not None
        return [
            pa.field("value", argument.data_type.arrow),
            pa.field("key0", pa.int64()),
            pa.field("place", pa.string()),
        ]

    def plan(self, argument: Argument, *, sum_fits_long: bool) -> RowPlan:
        def collect(block: RowBlock, num_rows: int) -> list[pa.Array]:
            times = block.argument(1)
            valid = np.ones(len(times), np.bool_)
            if times.null_count:
                valid &= times.is_valid().to_numpy(zero_copy_only=False)
            values = block.argument(0) if block.has_nulls else None
            if values is not None and values.null_count:
                valid &= values.is_valid().to_numpy(zero_copy_only=False)
            return pick_rows(block, [_longs(times)], valid, num_rows, greatest=self._last, last=True)

        return RowPlan(collect)

    def merge(self, states: Sequence[pa.Array], groups: Groups, num_groups: int) -> list[pa.Array]:
        return merge_picked(states, groups, num_groups, greatest=self._last, last=True)

    def finish(self, states: Sequence[pa.Array], *, null_handling: bool) -> pa.Array:
        return pc.fill_null(states[0], pa.scalar(_NOTHING.get(self.result_type, ""), states[0].type))


def _longs(times: pa.Array) -> pa.Array:
    """Times as LONG, the way Java casts: fractions are cut, NaN is 0."""
    if not pa.types.is_floating(times.type):
        return times.cast(pa.int64())
    values: NDArray[np.float64] = np.trunc(
        np.nan_to_num(pc.fill_null(times, 0.0).cast(pa.float64()).to_numpy(zero_copy_only=False), nan=0.0)
    )
    inside = np.abs(values) < 2.0**63
    longs = np.where(inside, values, 0.0).astype(np.int64)
    return pa.array(np.where(inside, longs, np.where(values > 0, -LONG_MIN - 1, LONG_MIN)))


FUNCTIONS = (
    WithTime(
        "firstwithtime",
        "firstWithTime",
        last=False,
        example=AggregateExample("FIRSTWITHTIME(team, points, 'STRING')", "blue"),
    ),
    WithTime(
        "lastwithtime",
        "lastWithTime",
        last=True,
        example=AggregateExample("LASTWITHTIME(team, points, 'STRING')", "green"),
    ),
)
