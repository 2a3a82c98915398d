"""INIDSET: whether a value is in an id set that IDSET answered."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from pinotpy.data_types import DataType
from pinotpy.functions.arguments import constant_text, expect_single, length_of, spread
from pinotpy.functions.scalar.spec import Bound, Example, Operand, ScalarFunction, Value
from pinotpy.functions.sketches.idset import lookup_values, read_id_set
from pinotpy.pql.ast import Dialect


def _bind(operands: Sequence[Operand], dialect: Dialect) -> Bound:
    expect_single(operands, "inidset")
    ids = read_id_set(constant_text(operands[1], "the id set", "inidset"))
    ids.check(operands[0].data_type)
    is_sql = dialect is Dialect.SQL

    def evaluate(values: Sequence[Value]) -> pa.Array:
        contained = pa.array(ids.contains(lookup_values(spread(values[0], length_of(values)))))
        return contained if is_sql else contained.cast(pa.int32())

    return Bound(DataType.BOOLEAN if is_sql else DataType.INT, evaluate)


FUNCTIONS = (
    ScalarFunction(
        "inidset",
        "INIDSET(x, idSet)",
        "Whether the value is in an id set, the base64 text that IDSET answers; in PQL 1 or 0.",
        _bind,
        (Example("inidset(5, 'AA==')", False),),
        arguments_min=2,
        arguments_max=2,
    ),
)
