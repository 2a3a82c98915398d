"""Computed columns and the filter of a table: what is computed from what, and the values of a batch.

    plan = TransformPlan(schema, table_config)      # parsed and checked once
    rows = plan.rows(batch, stored)                 # one batch; `stored` gives columns of the schema in storage form
    rows.filtered()   rows.computed(name)

An expression reads columns of the schema by their values in storage form (after the conversion of times, before length
limits), other computed columns by their results, and all other names as the file has them; a name that the file lacks
is null. An expression that names its own column means the field of the file by it, before any conversion, so that
`fromDateTime(day, 'dd.MM.yyyy')` reads a column `day`. Errors of a row's values are its own: the other rows are
computed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.errors import Fault, InvalidConfigError, QueryExecutionError
from pinotpy.ingest.conversion import Bad, Converted
from pinotpy.ingest.expressions import Inputs, RecordExpression, evaluate, evaluate_condition, parse_record_expression
from pinotpy.ingest.record_time import with_record_time
from pinotpy.ingest.typed_values import TypedValues, from_input, from_schema, to_input

# Columns that are computed from one another, one after the other.
CHAIN_MAX: Final = 32
FILTER_PATH: Final = "$.ingestionConfig.filterConfig.filterFunction"

Stored = Callable[[str], Converted]
"""A column of the schema in storage form (dictionaries allowed), computed ones among them."""


class TransformPlan:
    """The expressions of a schema and its table: transforms by column, and the filter (None: all rows stay).

    Args:
        of_records: the rows are records of a stream, and batches have the column RECORD_TIME (record_time.py).

    Raises:
        InvalidConfigError: with every expression that cannot be evaluated: scripts, faults of syntax, functions that
            there are not, columns that the schema lacks, columns that are computed from themselves.
    """

    def __init__(self, schema: Schema, table_config: TableConfig | None = None, *, of_records: bool = False) -> None:
        self.schema = schema
        self._adapted = with_record_time if of_records else lambda parsed: parsed
        self.filter: RecordExpression | None = None
        self.transforms: dict[str, RecordExpression] = {}
        faults: list[Fault] = []
        for name, (text, path) in _transform_texts(schema, table_config).items():
            if name not in schema.field_specs:
                faults.append(Fault(path, f"the column '{name}'", "a column of the schema"))
            elif (parsed := _parsed(text, path, faults)) is not None:
                self.transforms[name] = self._adapted(parsed)
        condition = _filter_text(table_config)
        if condition is not None:
            parsed = _parsed(condition, FILTER_PATH, faults)
            self.filter = self._adapted(parsed) if parsed is not None else None
        # Columns whose expression names themselves: what the file has is only the expression's input.
        self.mapped_columns = frozenset(name for name, parsed in self.transforms.items() if name in parsed.columns)
        faults += self._circles()
        if faults:
            raise InvalidConfigError("rows cannot be ingested as the config asks:", tuple(faults))

    @property
    def source_columns(self) -> tuple[str, ...]:
        """Names in expressions that are no columns of the schema: what a reader has to read besides."""
        expressions = [*self.transforms.values(), *([self.filter] if self.filter is not None else [])]
        names = dict.fromkeys(name for parsed in expressions for name in parsed.columns)
        return tuple(name for name in names if name not in self.schema.field_specs)

    def rows(self, batch: pa.RecordBatch, stored: Stored) -> TransformRows:
        """The rows of one batch."""
        return TransformRows(self, batch, stored)

    def _circles(self) -> list[Fault]:
        """Columns that are computed from themselves, or through so many others that it is surely a mistake."""
        faults = []
        done: set[str] = set()
        for start in self.transforms:
            trail: list[str] = []
            if self._leads_back(start, trail, done):
                shown = " → ".join(trail)
                faults.append(
                    Fault(
                        self.transforms[start].path,
                        f"a column computed from itself or too many others: {shown}",
                        f"at most {CHAIN_MAX} steps",
                    )
                )
                done.update(trail)
        return faults

    def _leads_back(self, name: str, trail: list[str], done: set[str]) -> bool:
        """Whether what `name` is computed from leads to a column on the trail, which then shows the circle."""
        if name in done or name not in self.transforms:
            return False
        if name in trail:
            trail[:] = [*trail[trail.index(name) :], name]
            return True
        trail.append(name)
        if len(trail) > CHAIN_MAX or any(
            source != name and self._leads_back(source, trail, done) for source in self.transforms[name].columns
        ):
            return True
        trail.pop()
        done.add(name)
        return False


class TransformRows:
    """Expressions over the rows of one batch."""

    def __init__(self, plan: TransformPlan, batch: pa.RecordBatch, stored: Stored) -> None:
        self._plan, self._batch, self._stored = plan, batch, stored
        self._names = set(batch.schema.names)
        self._inputs: dict[str, TypedValues] = {}

    def filtered(self) -> Converted:
        """Which rows the filter leaves out (BOOLEAN), and those for which it cannot be evaluated."""
        parsed = self._plan.filter
        assert parsed is not None
        inputs = self._inputs_of(parsed)
        return _by_rows(
            lambda part, count: evaluate_condition(parsed, part, count),
            inputs,
            self._batch.num_rows,
            pa.bool_(),
            "filterFunction",
        )

    def computed(self, name: str, needed: pa.Array | None = None) -> Converted:
        """The computed column in input form: where `needed` (BOOLEAN) is true, else null; default: in every row."""
        parsed = self._plan.transforms[name]
        inputs = self._inputs_of(parsed) if name not in parsed.columns else self._inputs_of(parsed, of_file=name)
        count = self._batch.num_rows
        if needed is not None:
            inputs = {source: typed.where(needed) for source, typed in inputs.items()}
            count = pc.sum(needed).as_py() or 0
        computed = _by_rows(
            lambda part, rows: to_input(evaluate(parsed, part, rows), rows), inputs, count, None, "transformFunction"
        )
        return computed if needed is None else _spread_out(computed, needed)

    def _inputs_of(self, parsed: RecordExpression, of_file: str | None = None) -> Inputs:
        return {name: self._field(name) if name == of_file else self._input(name) for name in parsed.columns}

    def _field(self, name: str) -> TypedValues:
        """As the file has it."""
        return from_input(self._batch.column(name) if name in self._names else pa.nulls(self._batch.num_rows))

    def _input(self, name: str) -> TypedValues:
        if name not in self._inputs:
            spec = self._plan.schema.field_specs.get(name)
            if spec is not None:
                self._inputs[name] = from_schema(
                    self._stored(name).array, spec.data_type, single_value=spec.single_value
                )
            else:
                self._inputs[name] = self._field(name)
        return self._inputs[name]


def _by_rows(
    compute: Callable[[Inputs, int], pa.Array], inputs: Inputs, count: int, out_type: pa.DataType | None, what: str
) -> Converted:
    """compute(inputs, count); where values of rows make it fail, the halves, down to the rows that are bad (null
    there).
    """
    bad: list[Bad] = []
    pieces: list[pa.Array | int] = []  # an int stands for so many nulls
    # No function that calls itself: see `halving`.
    waiting = [(0, count)] if count else []
    while waiting:
        start, length = waiting.pop()
        try:
            pieces.append(compute({name: typed.rows(start, length) for name, typed in inputs.items()}, length))
        except QueryExecutionError as error:
            half = length // 2
            if half:
                waiting += [(start + half, length - half), (start, half)]
            else:
                bad.append(Bad(start, f"{what}: {error.message}"))
                pieces.append(1)
    arrays = [piece for piece in pieces if isinstance(piece, pa.Array)]
    known = out_type if out_type is not None else arrays[0].type if arrays else pa.null()
    # Types of constants do not depend on rows, nor do those of functions: all pieces have one type.
    whole = [piece if isinstance(piece, pa.Array) else pa.nulls(piece, known) for piece in pieces]
    if not whole:
        return Converted(pa.nulls(0, known))
    return Converted(whole[0] if len(whole) == 1 else pa.concat_arrays(whole), bad)


def _spread_out(converted: Converted, needed: pa.Array) -> Converted:
    """Values of the needed rows in their places among all rows."""
    places = np.flatnonzero(needed.to_numpy(zero_copy_only=False))
    positions = pc.if_else(
        needed, pc.subtract(pc.cumulative_sum(needed.cast(pa.int64())), 1), pa.scalar(None, pa.int64())
    )
    return Converted(converted.array.take(positions), [Bad(int(places[bad.row]), bad.cause) for bad in converted.bad])


def _parsed(text: str, path: str, faults: list[Fault]) -> RecordExpression | None:
    try:
        return parse_record_expression(text, path)
    except InvalidConfigError as error:
        faults.extend(error.faults)
        return None


def _transform_texts(schema: Schema, table_config: TableConfig | None) -> Mapping[str, tuple[str, str]]:
    """Column → expression and where it stands; the table's expression counts where both have one."""
    texts = {
        spec.name: (spec.transform_function, f"$.{spec.name}.transformFunction")
        for spec in schema.field_specs.values()
        if spec.transform_function
    }
    ingestion = table_config.ingestion if table_config is not None else None
    for index, transform in enumerate(ingestion.transform_configs if ingestion is not None else ()):
        texts[transform.column_name] = (
            transform.transform_function,
            f"$.ingestionConfig.transformConfigs[{index}].transformFunction",
        )
    return texts


def _filter_text(table_config: TableConfig | None) -> str | None:
    ingestion = table_config.ingestion if table_config is not None else None
    if ingestion is None or ingestion.filter_config is None:
        return None
    return ingestion.filter_config.filter_function or None
