"""PERCENTILE, PERCENTILEMV: the exact percentile, an element of the sorted values, as DOUBLE.

Rank floor(size × level / 100) from 0, the last element for 100, no interpolation; so in Pinot 0.6.0 and 1.5.1
(recorded). PERCENTILESMARTTDIGEST is exact here for any number of values; the reference is up to a threshold, its third
argument, which is taken and not needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType
from pinotpy.functions.sketches.multiset import Multisets, elements
from pinotpy.functions.spec import AggregateExample, Argument
from pinotpy.functions.state.percentiles import PercentileFunction


class Percentile(PercentileFunction):
    """Exact for any number of values: its state is every distinct value of the group with its count."""

    summary: ClassVar[str] = (
        "The value at rank floor(size × level / 100) of the sorted values, never interpolated; PERCENTILE95(x) is "
        "PERCENTILE(x, 95)."
    )
    parameters: ClassVar[str] = ", level"
    examples: ClassVar[Mapping[str, AggregateExample]] = {
        "percentile": AggregateExample("PERCENTILE(points, 50)", 4.0),
        "percentilemv": AggregateExample("PERCENTILEMV(rounds, 50)", 2.0),
        "percentilesmarttdigest": AggregateExample("PERCENTILESMARTTDIGEST(points, 50)", 4.0),
        "percentilesmarttdigestmv": AggregateExample("PERCENTILESMARTTDIGESTMV(rounds, 50)", 2.0),
    }

    def rank_of(self, argument: Argument) -> Callable[[Int64Array], Int64Array] | None:
        # Stored decimals are not ordered by their bits.
        return None if argument.data_type is DataType.BIG_DECIMAL else lambda sizes: percentile_ranks(sizes, self.level)

    def read(self, multisets: Multisets) -> NDArray[Any]:
        return elements(multisets, percentile_ranks(multisets.sizes(), self.level))


def percentile_ranks(sizes: Int64Array, level: float) -> Int64Array:
    """Rank (from 0) of the percentile of multisets of these sizes (> 0)."""
    if level == int(level):
        ranks = sizes * int(level) // 100
    else:
        ranks = np.floor(sizes * level / 100).astype(np.int64)
    return np.minimum(ranks, sizes - 1)


FUNCTIONS = (
    Percentile("percentile", "percentile"),
    Percentile("percentilemv", "percentileMV", multi_value=True),
    Percentile("percentilesmarttdigest", "percentileSmartTDigest"),
    Percentile("percentilesmarttdigestmv", "percentileSmartTDigestMV", multi_value=True),
)
