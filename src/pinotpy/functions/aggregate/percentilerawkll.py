"""PERCENTILERAWKLL(x, level[, K]), PERCENTILERAWKLLMV: a KLL sketch of doubles, as Apache DataSketches reads it, as
base64.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

import pyarrow as pa

from pinotpy.data_types import DataType
from pinotpy.errors import InvalidQueryError
from pinotpy.functions.aggregate.percentilekll import PercentileKll
from pinotpy.functions.sketches import kll
from pinotpy.functions.sketches.multiset import multisets_of
from pinotpy.functions.spec import AggregateExample, Parameter


class PercentileRawKll(PercentileKll):
    """As PERCENTILEKLL; of no rows it is an empty sketch."""

    result_type: ClassVar[DataType] = DataType.STRING
    summary: ClassVar[str] = (
        "The values of PERCENTILEKLL as a KLL sketch of Apache DataSketches, as base64; the level orders groups."
    )
    accuracy: ClassVar[str] = "every value up to K (200) a group; beyond, ranks are off by at most 1 / K"
    examples: ClassVar[Mapping[str, AggregateExample]] = {
        "percentilerawkll": AggregateExample(
            "PERCENTILERAWKLL(points, 50)",
            "BQEPCsgACAAGAAAAAAAAAMgAAQDCAAAAAAAAAAAA8D8AAAAAAAAiQAAAAAAAAPA/AAAAAAAA8D8AAAAAAAAIQAAAAAAAABBAAAAAAAAAFEAAAAAAAAAiQA==",
        ),
        "percentilerawkllmv": AggregateExample(
            "PERCENTILERAWKLLMV(rounds, 50)",
            "BQEPCsgACAAJAAAAAAAAAMgAAQC/AAAAAAAAAAAA8D8AAAAAAAAUQAAAAAAAAPA/AAAAAAAA8D8AAAAAAAAAQAAAAAAAAABAAAAAAAAAAEAAAAAAAAAIQAAA"
            "AAAAAAhAAAAAAAAAEEAAAAAAAAAUQA==",
        ),
    }
    k: int = kll.K_DEFAULT

    def with_parameters(self, parameters: Sequence[Parameter]) -> Self:
        function = super().with_parameters(parameters)
        if len(parameters) > 1:
            k = parameters[1]
            if isinstance(k, bool) or not isinstance(k, int) or not kll.K_MIN <= k <= kll.K_MAX:
                raise InvalidQueryError(
                    f"{self.display_name} takes a K from {kll.K_MIN} to {kll.K_MAX} as third argument, found '{k}'"
                )
            function.k = k
        return function

    def finish(self, states: Sequence[pa.Array], *, null_handling: bool) -> pa.Array:
        return pa.array(
            [base64.b64encode(data).decode("ascii") for data in kll.serialized(multisets_of(states), self.k)],
            pa.string(),
        )

    def order_values(self, states: Sequence[pa.Array], finished: pa.Array) -> pa.Array:
        return PercentileKll.of_level(self.level).finish(states, null_handling=False)


FUNCTIONS = (
    PercentileRawKll("percentilerawkll", "percentileRawKLL"),
    PercentileRawKll("percentilerawkllmv", "percentileRawKLLMV", multi_value=True),
)
