"""PERCENTILEKLL, PERCENTILEKLLMV: an estimated percentile, an element of the values, as DOUBLE.

The state is the multiset of the values, thinned beyond 8,192 distinct ones: up to there the answer is exact, the same
for any order and split; beyond, its rank is off by at most 0.08 % of the size a thinning, where the reference's KLL
sketch (K = 200) has 1.3 % and depends on chance. The third argument, K, is taken and not needed. Rank: the smallest
value that at least level % of the values do not exceed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pinotpy.functions.sketches.multiset import Multisets, elements, thin
from pinotpy.functions.spec import AggregateExample
from pinotpy.functions.state.percentiles import PercentileFunction


class PercentileKll(PercentileFunction):
    nothing: ClassVar[float] = math.nan
    summary: ClassVar[str] = "An estimated percentile: the least value that level % of the values do not exceed."
    parameters: ClassVar[str] = ", level[, K]"
    accuracy: ClassVar[str] = (
        "exact up to 8,192 different values a group; beyond, its rank is off by at most 0.08 % of the size for each "
        "merge"
    )
    examples: ClassVar[Mapping[str, AggregateExample]] = {
        "percentilekll": AggregateExample("PERCENTILEKLL(points, 50)", 3.0),
        "percentilekllmv": AggregateExample("PERCENTILEKLLMV(rounds, 50)", 2.0),
    }

    def keep(self, multisets: Multisets) -> Multisets:
        return thin(multisets)

    def read(self, multisets: Multisets) -> NDArray[Any]:
        sizes = multisets.sizes()
        ranks = np.ceil(self.level / 100.0 * sizes.astype(np.float64)).astype(np.int64) - 1
        return elements(multisets, np.clip(ranks, 0, sizes - 1))


FUNCTIONS = (
    PercentileKll("percentilekll", "percentileKLL"),
    PercentileKll("percentilekllmv", "percentileKLLMV", multi_value=True),
)
