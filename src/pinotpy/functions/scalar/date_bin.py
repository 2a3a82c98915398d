"""DATEBIN: the start of the bin of time in which an instant lies, bins counted from any origin."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from pinotpy.data_types import DataType
from pinotpy.errors import QueryExecutionError
from pinotpy.functions.arguments import constant_text, expect_single
from pinotpy.functions.scalar.conversions import converted
from pinotpy.functions.scalar.spec import Bound, Example, Operand, ScalarFunction, Value
from pinotpy.pql.ast import Dialect

_UNITS_MS: Final = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_WIDTH: Final = re.compile(r"(?:[0-9]{1,12}(?:d|h|ms|m|s))+", re.IGNORECASE)
_PART: Final = re.compile(r"([0-9]+)(d|h|ms|m|s)", re.IGNORECASE)


def _width_ms(text: str) -> int:
    """Milliseconds of 3h, 4h30m, 1d12h; raises QueryExecutionError, since the reference finds a wrong one while it
    reads rows.
    """
    width = (
        sum(int(count) * _UNITS_MS[unit.lower()] for count, unit in _PART.findall(text))
        if _WIDTH.fullmatch(text)
        else 0
    )
    if not 0 < width < 2**62:
        raise QueryExecutionError(f"expected a width of bins such as '3h' or '4h30m', found '{text[:40]}'")
    return width


def _bind(operands: Sequence[Operand], dialect: Dialect) -> Bound:
    expect_single(operands, "datebin")
    width = _width_ms(constant_text(operands[0], "the width of bins", "datebin"))
    types = [operand.data_type for operand in operands[1:]]

    def evaluate(values: Sequence[Value]) -> pa.Array:
        instants, origins = (_instants(value, data_type) for value, data_type in zip(values[1:], types, strict=True))
        return pa.array(origins + (instants - origins) // width * width)

    return Bound(DataType.TIMESTAMP, evaluate)


def _instants(value: Value, data_type: DataType | None) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    moments = converted(value, data_type, DataType.TIMESTAMP)
    return np.asarray(
        [moments.as_py()] if isinstance(moments, pa.Scalar) else moments.to_numpy(zero_copy_only=False), np.int64
    )


FUNCTIONS = (
    ScalarFunction(
        "datebin",
        "DATEBIN(width, timestamp, origin)",
        "The start of the bin in which a time lies: bins are as wide as 15m, 3h or 1d12h says, one of them begins at "
        "the origin.",
        _bind,
        (
            Example("fromTimestamp(dateBin('15m', ts, 0))", 1577934000000),
            Example("fromTimestamp(dateBin('1d', ts, 3600000))", 1577926800000),
        ),
        3,
        3,
    ),
)
