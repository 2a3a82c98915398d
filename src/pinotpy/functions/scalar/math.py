"""Functions of numbers. In PQL their results are DOUBLE, whatever the arguments are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pinotpy.data_types import DataType
from pinotpy.functions.scalar.arguments import doubles, expect_single
from pinotpy.functions.scalar.spec import Bound, Example, Operand, ScalarFunction, Value
from pinotpy.pql.ast import Dialect


def _unary(name: str, summary: str, compute: Callable[[Any], Any], example: Example, *, aliases: tuple[str, ...] = ()) -> ScalarFunction:
    def bind(operands: Sequence[Operand], dialect: Dialect) -> Bound:
        expect_single(operands, name)
        data_type = operands[0].data_type

        def evaluate(values: Sequence[Value]) -> pa.Array:
            with np.errstate(all="ignore"):
                return compute(doubles(values[0], data_type))

        return Bound(DataType.DOUBLE, evaluate)

    return ScalarFunction(name, f"{name.upper()}(x)", summary, bind, (example,), aliases=aliases)


FUNCTIONS = (
    _unary("abs", "The number without its sign.", pc.abs, Example("abs(-2.5)", 2.5)),
    _unary("ceil", "The least whole number that is not smaller.", pc.ceil, Example("ceil(2.1)", 3.0)),
    _unary("floor", "The greatest whole number that is not greater.", pc.floor, Example("floor(-2.1)", -3.0)),
    _unary("exp", "e to the power of x.", lambda x: pa.array(np.exp(x.to_numpy(zero_copy_only=False))), Example("exp(0)", 1.0)),
    _unary("ln", "The natural logarithm; of 0 it is -Infinity, below NaN.", pc.ln, Example("ln(1)", 0.0)),
    _unary("sqrt", "The square root; below 0 NaN.", pc.sqrt, Example("sqrt(6.25)", 2.5)),
)
