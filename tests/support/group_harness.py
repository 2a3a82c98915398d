"""Aggregations over segments without a parser or a broker, and what they must give, computed row by row in Python."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.data_types import DataType, FieldType, default_null_value
from pinotpy.decimals import decode_decimal, encode_decimal
from pinotpy.pql.ast import Call, Dialect, Expression, Identifier, Star
from pinotpy.query.execute import execute
from pinotpy.query.model.context import (
    Aggregation,
    AggregationRef,
    ColumnRef,
    OutputColumn,
    QueryContext,
    QueryKind,
    QueryOptions,
)
from pinotpy.query.model.grouping_method import GroupingMethod
from pinotpy.query.model.options import GROUPING_METHOD
from pinotpy.query.result.combine import merge_partials
from pinotpy.query.result.partial import PartialResult
from pinotpy.query.result.reduce import reduce_partials
from pinotpy.query.runtime.control import QueryControl
from pinotpy.segment.build.builder import build_segment
from pinotpy.segment.immutable import load_segment
from pinotpy.segment.shared_codes.cache import SharedDictionaries

Cells = dict[str, list[Any]]  # by column; None = no value


@dataclass(frozen=True)
class Column:
    """A column of a test table: a dimension, raw or with a dictionary."""

    name: str
    data_type: DataType
    single_value: bool = True
    raw: bool = False

    @property
    def ref(self) -> ColumnRef:
        return ColumnRef(self.name, self.data_type, self.single_value)


def build(folder: Path, columns: Sequence[Column], cells: Cells, name: str) -> Any:
    """An open segment of these rows."""
    fields = [{"name": c.name, "dataType": c.data_type.value, "singleValueField": c.single_value} for c in columns]
    schema = Schema.from_json({"schemaName": "t", "dimensionFieldSpecs": fields, "enableColumnBasedNullHandling": True})
    config = {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1"},
        "tenants": {},
        "metadata": {},
    }
    config["tableIndexConfig"] = {
        "noDictionaryColumns": [c.name for c in columns if c.raw],
        "nullHandlingEnabled": True,
    }
    arrays = {}
    for c in columns:
        values = cells[c.name]
        if c.data_type is DataType.BIG_DECIMAL:
            values = [
                encode_decimal(v) if isinstance(v, Decimal) else v and [encode_decimal(part) for part in v]
                for v in values
            ]
        arrays[c.name] = pa.array(values, c.data_type.arrow if c.single_value else pa.list_(c.data_type.arrow))
    build_segment(schema, TableConfig.from_json(config), [pa.RecordBatch.from_pydict(arrays)], folder, name)
    return load_segment(folder / name)


def drawn_cells(rng: random.Random, columns: Sequence[Column], pools: Mapping[str, Sequence[Any]], rows: int) -> Cells:
    """Rows of one part of a table: each part knows some values of the pools only, so that its dictionaries differ from
    those of others; a tenth has no value.
    """
    known = {name: rng.sample(pool, rng.randint(1, len(pool))) for name, pool in pools.items()}

    def value(column: Column) -> Any:
        if rng.random() < 0.1:
            return None
        pool = known[column.name]
        return rng.choice(pool) if column.single_value else [rng.choice(pool) for _ in range(rng.randint(0, 3))]

    return {column.name: [value(column) for _ in range(rows)] for column in columns}


def joined(parts: Sequence[Cells]) -> Cells:
    """The rows of all parts."""
    return {name: [value for part in parts for value in part[name]] for name in parts[0]}


def cut(cells: Cells, ends: Sequence[int]) -> list[Cells]:
    """The rows in runs that end at `ends`."""
    starts = [0, *ends[:-1]]
    return [
        {name: values[start:end] for name, values in cells.items()} for start, end in zip(starts, ends, strict=True)
    ]


def expression(text: str) -> Expression:
    """`*`, a column, or a call like plus(a,b) of columns."""
    if text == "*":
        return Star()
    if "(" in text:
        name, rest = text.rstrip(")").split("(", 1)
        return Call(name, tuple(expression(part) for part in rest.split(",")))
    return Identifier(text)


def make_context(
    columns: Sequence[Column],
    calls: Sequence[tuple[str, str]],
    group_by: Sequence[str] = (),
    *,
    where: Any = None,
    null_handling: bool = False,
    dialect: Dialect = Dialect.SQL,
    filters: Sequence[Any] = (),
    options: QueryOptions | None = None,
) -> QueryContext:
    """SELECT keys, calls … GROUP BY keys, all groups."""
    wanted = [*filters, *[None] * (len(calls) - len(filters))]
    aggregations = tuple(
        Aggregation(f, (expression(a),), f"{f}({a})", w) for (f, a), w in zip(calls, wanted, strict=True)
    )
    keys = tuple(expression(key) for key in group_by)
    output = [OutputColumn(str(key), key) for key in keys] + [
        OutputColumn(a.name, AggregationRef(i)) for i, a in enumerate(aggregations)
    ]
    return QueryContext(
        dialect,
        QueryKind.GROUP_BY if keys else QueryKind.AGGREGATION,
        "t",
        tuple(output),
        filter=where,
        group_by=keys,
        aggregations=aggregations,
        limit=10_000_000,
        null_handling=null_handling,
        columns=tuple(c.ref for c in columns),
        options=options or QueryOptions(),
    )


def forcing(method: GroupingMethod | None) -> QueryOptions:
    """Options of a query that takes this method; None: the one that the server chooses."""
    return QueryOptions() if method is None else QueryOptions(other=((GROUPING_METHOD, method.name.lower()),))


def run(
    context: QueryContext,
    segments: Sequence[Any],
    *,
    threads: int = 1,
    executor: Any = None,
    control: QueryControl | None = None,
    dictionaries: SharedDictionaries | None = None,
    is_final: bool = False,
) -> PartialResult:
    """One server's partial result."""
    return execute(
        context,
        segments,
        control or QueryControl(),
        threads=threads,
        executor=executor,
        dictionaries=dictionaries,
        is_final=is_final,
    )


def answer(context: QueryContext, partials: Sequence[PartialResult]) -> list[tuple[Any, ...]]:
    """Merged and reduced rows, as Python values."""
    columns = [
        column.values.to_pylist() for column in reduce_partials(context, merge_partials(context, partials)).columns
    ]
    return list(zip(*columns, strict=True))


# --- the oracle ----------------------------------------------------------------------------------------------------


def expected(
    columns: Sequence[Column],
    cells: Cells,
    calls: Sequence[tuple[str, str]],
    group_by: Sequence[str] = (),
    *,
    null_handling: bool,
    keep: Callable[[int], bool] = lambda row: True,
) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """Values of all aggregations by group; a group's key in the Arrow form of its type (BIG_DECIMAL encoded)."""
    by_name = {c.name: c for c in columns}
    count = len(next(iter(cells.values())))
    rows: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for row in filter(keep, range(count)):
        keys: list[tuple[Any, ...]] = [()]
        for name in group_by:
            column = by_name[name]
            cell = read(column, cells[name][row], null_handling=null_handling and column.single_value)
            parts = [cell] if column.single_value else cell
            keys = [(*key, _key(column, part)) for key in keys for part in parts]
        for key in keys:
            rows[key].append(row)
    if not group_by and not rows:
        rows[()] = []
    return {
        key: tuple(_aggregate(f, by_name.get(a), cells, group, null_handling) for f, a in calls)
        for key, group in rows.items()
    }


def read(column: Column, cell: Any, *, null_handling: bool) -> Any:
    """A cell as a query sees it: no value is null, or the column's default."""
    if cell is None or (not column.single_value and cell == []):
        if null_handling:
            return None
        default = default_null_value(column.data_type, FieldType.DIMENSION)
        if column.data_type is DataType.BIG_DECIMAL:
            default = decode_decimal(default)  # type: ignore[arg-type]
        elif column.data_type.is_text:
            default = default.decode()  # type: ignore[union-attr]
        elif column.data_type is DataType.BOOLEAN:
            default = bool(default)
        return default if column.single_value else [default]
    return cell


def _key(column: Column, value: Any) -> Any:
    if isinstance(value, Decimal):
        return encode_decimal(value)
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def _aggregate(function: str, column: Column | None, cells: Cells, rows: list[int], null_handling: bool) -> Any:
    if column is None:
        return len(rows)
    seen = [read(column, cells[column.name][row], null_handling=null_handling) for row in rows]
    seen = [value for value in seen if value is not None]
    if function == "count":
        return len(seen)
    if not column.single_value:
        seen = [value for values in seen for value in values]
    name = function.removesuffix("mv")
    if name == "count":
        return len(seen)
    if name == "distinctcount":
        return len({_key(column, value) for value in seen})
    if not seen:
        return None if null_handling else {"sum": 0.0, "min": math.inf}.get(name, -math.inf)
    ordered = sorted(seen, key=lambda v: (isinstance(v, float) and math.isnan(v), v))
    if name in ("min", "max"):
        return float(ordered[0 if name == "min" else -1])
    if name == "minmaxrange":
        return float(ordered[-1]) - float(ordered[0])
    if name == "sum":
        return exact_sum(seen)
    return (
        exact_sum(seen) / len(seen)
        if isinstance(seen[0], float)
        else float(Fraction(sum(map(Fraction, seen)), len(seen)))
    )


def exact_sum(values: Sequence[Any]) -> float:
    """The sum, rounded once."""
    floats = [v for v in values if isinstance(v, float)]
    if any(map(math.isnan, floats)) or (math.inf in floats and -math.inf in floats):
        return math.nan
    infinite = [v for v in floats if math.isinf(v)]
    if infinite:
        return infinite[0]
    total = sum(map(Fraction, values), Fraction(0))
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def same(found: Any, wanted: Any) -> bool:
    """Equal, bit by bit for doubles except that NaN equals NaN and zeros have no sign."""
    if isinstance(found, float) and isinstance(wanted, float):
        return found == wanted or (math.isnan(found) and math.isnan(wanted))
    return type(found) is type(wanted) and bool(found == wanted)


def check(found: list[tuple[Any, ...]], wanted: dict[tuple[Any, ...], tuple[Any, ...]], num_keys: int) -> None:
    """Assert that the rows are exactly the expected groups with the expected values."""
    assert len(found) == len(wanted), f"{len(found)} groups, expected {len(wanted)}"
    for row in found:
        key = tuple("NaN" if isinstance(k, float) and math.isnan(k) else k for k in row[:num_keys])
        assert key in wanted, f"group {key!r} should not exist"
        for value, right in zip(row[num_keys:], wanted[key], strict=True):
            assert same(value, right), f"group {key!r}: {row[num_keys:]} expected {wanted[key]}"
