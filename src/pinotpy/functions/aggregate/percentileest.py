"""PERCENTILEEST, PERCENTILEESTMV: an estimated percentile of the values as LONG (doubles lose their fractions), as
LONG.

Over BYTES, values are serialized quantile digests, which are merged. The state is the multiset of the values, thinned
beyond 8,192 distinct ones: up to there the answer is exact, the same for any order and split; beyond, its rank is off
by at most 0.08 % of the size a thinning (a scan and each merge thin at most once). The reference allows itself 5 %.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.data_types import LONG_MIN, DataType
from pinotpy.functions.sketches.digests import unfold
from pinotpy.functions.sketches.multiset import Multisets, elements, multiset_fields, numbers_of, thin
from pinotpy.functions.sketches.quantile_digest import longs_of, quantile_ranks, read_digest
from pinotpy.functions.spec import AggregateExample, Argument
from pinotpy.functions.state.percentiles import PercentileFunction
from pinotpy.pql.ast import Dialect


class PercentileEst(PercentileFunction):
    result_type: ClassVar[DataType] = DataType.LONG
    nothing: ClassVar[float] = LONG_MIN
    summary: ClassVar[str] = (
        "An estimated percentile of the values as LONG; BYTES are serialized quantile digests, which are merged."
    )
    parameters: ClassVar[str] = ", level"
    accuracy: ClassVar[str] = (
        "exact up to 8,192 different values a group; beyond, its rank is off by at most 0.08 % of the size for each "
        "merge"
    )
    examples: ClassVar[Mapping[str, AggregateExample]] = {
        "percentileest": AggregateExample("PERCENTILEEST(points, 50)", 4),
        "percentileestmv": AggregateExample("PERCENTILEESTMV(rounds, 50)", 2),
    }

    def check_type(self, argument: Argument, dialect: Dialect) -> None:
        if argument.data_type is not DataType.BYTES:
            super().check_type(argument, dialect)

    def state_fields(self, argument: Argument) -> list[pa.Field]:
        return multiset_fields(DataType.LONG)

    def numbers(
        self, argument: Argument, rows: Int64Array, values: pa.Array, counts: Int64Array
    ) -> tuple[Int64Array, NDArray[Any], Int64Array]:
        if argument.data_type is DataType.BYTES:
            return unfold(rows, values, counts, read_digest, np.int64)
        return rows, longs_of(numbers_of(values)), counts

    def rank_of(self, argument: Argument) -> Callable[[Int64Array], Int64Array] | None:
        # Digests are many values each, and decimals are not ordered by their bits.
        is_number = argument.data_type is not None and argument.data_type.stored.is_fixed
        return (lambda sizes: quantile_ranks(sizes, self.level / 100.0)) if is_number else None

    def keep(self, multisets: Multisets) -> Multisets:
        return thin(multisets)

    def read(self, multisets: Multisets) -> NDArray[Any]:
        return elements(multisets, quantile_ranks(multisets.sizes(), self.level / 100.0))


FUNCTIONS = (
    PercentileEst("percentileest", "percentileEst"),
    PercentileEst("percentileestmv", "percentileEstMV", multi_value=True),
)
