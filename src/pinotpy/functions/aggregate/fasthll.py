"""FASTHLL(x), FASTHLLMV: about how many different values, of a column that holds serialized HyperLogLogs: BYTES, or the
legacy text in which a byte b (signed) is the character b + 129. Other values are no HyperLogLogs: error 200, once there
are any.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType
from pinotpy.functions.aggregate.distinctcounthll import DistinctCountHll
from pinotpy.functions.sketches import hyperloglog
from pinotpy.functions.spec import AggregateExample, Argument
from pinotpy.functions.state.plans import Plan, ValueSetPlan

_OFFSET = 129


class FastHll(DistinctCountHll):
    """DISTINCTCOUNTHLL of serialized HyperLogLogs only."""

    summary: ClassVar[str] = (
        "About how many different values the HyperLogLogs have seen that a column holds, as BYTES or in the legacy "
        "text."
    )
    parameters: ClassVar[str] = ""
    accuracy: ClassVar[str] = "as of the HyperLogLogs"
    examples: ClassVar[Mapping[str, AggregateExample]] = {
        "fasthll": AggregateExample("FASTHLL(seen)", 2),
        "fasthllmv": AggregateExample("FASTHLLMV(sightings)", 2),
    }

    def plan(self, argument: Argument, *, sum_fits_long: bool) -> Plan:
        def collect(rows: Int64Array, values: pa.Array, counts: Int64Array, num_rows: int) -> list[pa.Array]:
            if argument.data_type is DataType.STRING:
                values = _bytes_of_texts(values)
            elif argument.data_type is not DataType.BYTES:
                if len(rows):
                    raise hyperloglog.not_serialized(argument.name)
                values = pa.array([], pa.binary())
            return hyperloglog.states_of_serialized(rows, values, num_rows)

        return ValueSetPlan(collect, counted=False)


def _bytes_of_texts(values: pa.Array) -> pa.Array:
    texts = values.cast(pa.string())
    points = np.frombuffer("".join(texts.to_pylist()).encode("utf-32-le"), np.uint32)
    outside = (points < 1) | (points > 256)
    if outside.any():
        raise hyperloglog.not_serialized(f"a text with the character U+{int(points[np.argmax(outside)]):04X}")
    offsets = np.concatenate([[0], np.cumsum(pc.utf8_length(texts).to_numpy(zero_copy_only=False))]).astype(np.int32)
    body = (points - np.uint32(_OFFSET)).astype(np.uint8)
    return pa.Array.from_buffers(pa.binary(), len(texts), [None, pa.py_buffer(offsets), pa.py_buffer(body)])


FUNCTIONS = (FastHll("fasthll", "fastHLL"), FastHll("fasthllmv", "fastHLLMV", multi_value=True))
