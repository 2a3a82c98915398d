"""IDSET(x[, 'sizeThresholdInBytes=…;expectedInsertions=…;fpp=…']): the values as an id set in base64, which INIDSET
reads. Integers are kept exactly up to the threshold (default 8 MiB); other types become a Bloom filter
(sketches/idset.py).
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import ClassVar

import pyarrow as pa

from pinotpy.arrays import Int64Array
from pinotpy.data_types import DataType
from pinotpy.functions.sketches.answer_size import check_answer_size
from pinotpy.functions.sketches.idset import IdSetOptions, parse_options, write_id_set
from pinotpy.functions.spec import AggregateExample, AggregateFunction, Argument, Groups, Parameter
from pinotpy.functions.state.plans import ValueSetPlan
from pinotpy.functions.state.states import assemble_sets, distinct_sets, merge_sets, set_field


class IdSetFunction(AggregateFunction):
    """The state is the set of values; text stands as Arrow strings, so that the answer knows it from BYTES."""

    name = "idset"
    display_name = "idSet"
    result_type: ClassVar[DataType] = DataType.STRING
    summary: ClassVar[str] = (
        "The values as an id set in base64, for INIDSET(column, '…') of another query. Bloom filters are sized for "
        "expectedInsertions: "
        "5,000,000 by default are 6 MB of text, more than a query may have (2 MiB); ask for as many as there are "
        "values."
    )
    parameters: ClassVar[str] = "[, 'sizeThresholdInBytes=…;expectedInsertions=…;fpp=…']"
    accuracy: ClassVar[str] = (
        "integers exact up to the threshold (8 MiB); other types a Bloom filter, false positives 3 %"
    )
    examples: ClassVar[Mapping[str, AggregateExample]] = {
        "idset": AggregateExample("IDSET(points)", "ATowAAABAAAAAAAEABAAAAABAAMABAAFAAkA"),
    }

    def __init__(self, options: IdSetOptions | None = None) -> None:
        self.options = options or IdSetOptions()

    def with_parameters(self, parameters: Sequence[Parameter]) -> IdSetFunction:
        return IdSetFunction(parse_options(str(parameters[0]))) if parameters else self

    def state_fields(self, argument: Argument) -> list[pa.Field]:
        assert argument.data_type is not None
        return [
            pa.field("values", pa.list_(pa.string()))
            if argument.data_type.is_text
            else set_field("values", argument.data_type)
        ]

    def plan(self, argument: Argument, *, sum_fits_long: bool) -> ValueSetPlan:
        is_text = argument.data_type is not None and argument.data_type.is_text

        def collect(rows: Int64Array, values: pa.Array, counts: Int64Array, num_rows: int) -> list[pa.Array]:
            return [distinct_sets(rows, values.cast(pa.string()) if is_text else values, num_rows)]

        def assemble(offsets: Int64Array, values: pa.Array, counts: Int64Array) -> list[pa.Array]:
            return assemble_sets(offsets, values.cast(pa.string()) if is_text else values, counts)

        return ValueSetPlan(collect, counted=False, assemble=assemble)

    def merge(self, states: Sequence[pa.Array], groups: Groups, num_groups: int) -> list[pa.Array]:
        return [merge_sets(states[0], groups, num_groups)]

    def finish(self, states: Sequence[pa.Array], *, null_handling: bool) -> pa.Array:
        answers, size_bytes = [], 0
        for row in range(len(states[0])):
            values = states[0][row].values
            written = write_id_set(pa.array([], states[0].type.value_type) if values is None else values, self.options)
            size_bytes += len(written)
            check_answer_size(size_bytes, len(states[0]), "id sets", "expectedInsertions")
            answers.append(base64.b64encode(written).decode("ascii"))
        return pa.array(answers, pa.string())


FUNCTION = IdSetFunction()
