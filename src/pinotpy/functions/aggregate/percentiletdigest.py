"""PERCENTILETDIGEST, PERCENTILETDIGESTMV: the percentile that a t-digest gives, interpolated, as DOUBLE.

PERCENTILETDIGEST(x, 95, 200) sets the compression (100 without it). Over BYTES, values are serialized t-digests, which
are merged. The state is the multiset of the values, thinned beyond 8,192 distinct ones (more for compressions above
2,048); up to there the answer is the same for any order and split. Rank error: see sketches/tdigest.py, plus 0.08 % a
thinning (a scan and each merge thin at most once).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType
from pinotpy.errors import InvalidQueryError
from pinotpy.functions.sketches.digests import unfold
from pinotpy.functions.sketches.multiset import BUCKETS, Multisets, multiset_fields, thin
from pinotpy.functions.sketches.tdigest import COMPRESSION, centroids_of_sizes, quantiles, read_digest
from pinotpy.functions.spec import AggregateExample, Argument, Parameter
from pinotpy.functions.state.percentiles import PercentileFunction
from pinotpy.pql.ast import Dialect

# An answer walks over so many centroids for every size of a group, which no deadline ends: 10 ms for one, a second for
# thousands.
COMPRESSION_MAX = 10_000


class PercentileTDigest(PercentileFunction):
    """`compression`: about so many centroids; the error goes down with it."""

    nothing: ClassVar[float] = math.nan
    summary: ClassVar[str] = (
        "The percentile that a t-digest gives, interpolated; BYTES are serialized t-digests, which are merged."
    )
    parameters: ClassVar[str] = ", level[, compression]"
    accuracy: ClassVar[str] = "the same for any order and split; within 3 % of the ranks, far less at both ends"
    examples: ClassVar[Mapping[str, AggregateExample]] = {
        "percentiletdigest": AggregateExample("PERCENTILETDIGEST(points, 50)", 3.5),
        "percentiletdigestmv": AggregateExample("PERCENTILETDIGESTMV(rounds, 50)", 2.0),
    }
    compression: float = COMPRESSION

    def with_parameters(self, parameters: Sequence[Parameter]) -> Self:
        function = super().with_parameters(parameters)
        if len(parameters) > 1:
            compression = parameters[1]
            if (
                isinstance(compression, bool)
                or not isinstance(compression, int | float | Decimal)
                or not 1 <= compression <= COMPRESSION_MAX
            ):
                raise InvalidQueryError(
                    f"{self.display_name} takes a compression from 1 to {COMPRESSION_MAX} as third argument, found "
                    f"'{compression}'"
                )
            function.compression = float(compression)
        return function

    def check_type(self, argument: Argument, dialect: Dialect) -> None:
        if argument.data_type is not DataType.BYTES:
            super().check_type(argument, dialect)

    def state_fields(self, argument: Argument) -> list[pa.Field]:
        return (
            multiset_fields(DataType.DOUBLE) if argument.data_type is DataType.BYTES else super().state_fields(argument)
        )

    def numbers(
        self, argument: Argument, rows: Int64Array, values: pa.Array, counts: Int64Array
    ) -> tuple[Int64Array, NDArray[Any], Int64Array]:
        if argument.data_type is DataType.BYTES:
            return unfold(rows, values, counts, read_digest, np.float64)
        return super().numbers(argument, rows, values, counts)

    def means_of(self, argument: Argument) -> Callable[[Int64Array], tuple[Int64Array, Int64Array, Int64Array]] | None:
        # Of digests and decimals the values are others than those that are stored.
        if argument.data_type is None or not argument.data_type.stored.is_fixed:
            return None
        return lambda sizes: centroids_of_sizes(sizes, self.level / 100.0, self.compression)

    def keep(self, multisets: Multisets) -> Multisets:
        return thin(multisets, max(BUCKETS, math.ceil(self.compression)))

    def finish(self, states: Sequence[pa.Array], *, null_handling: bool) -> pa.Array:
        # NaN on nothing, under null handling too (recorded).
        return super().finish(states, null_handling=False)

    def read(self, multisets: Multisets) -> NDArray[Any]:
        return quantiles(multisets, self.level / 100.0, self.compression)


FUNCTIONS = (
    PercentileTDigest("percentiletdigest", "percentileTDigest"),
    PercentileTDigest("percentiletdigestmv", "percentileTDigestMV", multi_value=True),
)
