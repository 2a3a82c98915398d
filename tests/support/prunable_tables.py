"""Random tables whose segments brokers can leave out: with a time column of a drawn format, a partitioned column,
sorted columns, NaN, own values for null and lists; cut by time, by partition or by another column more often than not.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from random_tables import TYPES, RandomColumn, RandomTable, random_cell, random_config, random_value, sort_value

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.data_types import DataType
from pinotpy.segment.partition import partition_of, partition_text

FUNCTIONS: Final = ("Modulo", "Murmur", "HashCode", "ByteArray")
PARTITIONED_TYPES: Final = ("INT", "LONG", "STRING", "BOOLEAN", "BYTES", "TIMESTAMP")
FIRST_MS: Final = 1_400_000_000_000
HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS


@dataclass(frozen=True, slots=True)
class TimeFormat:
    """A format of the time column. step_ms: of its values. pattern: of strftime, "" for counts of steps."""

    type: str
    text: str
    step_ms: int
    pattern: str = ""

    @property
    def name(self) -> str:
        return "time_" + "".join(c if c.isalnum() else "_" for c in self.text.lower())

    def value(self, step: int) -> Any:
        """The column's value of the step after the first one."""
        count = FIRST_MS // self.step_ms + step
        if self.pattern:
            text = datetime.fromtimestamp(count * self.step_ms / 1000, UTC).strftime(self.pattern)
            return int(text) if self.type == "INT" else text
        return count * self.step_ms if self.text == "TIMESTAMP" else count


TIME_FORMATS: Final = (
    TimeFormat("INT", "1:DAYS:EPOCH", DAY_MS),
    TimeFormat("INT", "1:HOURS:EPOCH", HOUR_MS),
    TimeFormat("LONG", "5:MINUTES:EPOCH", 300_000),
    TimeFormat("LONG", "1:SECONDS:EPOCH", 1000),
    TimeFormat("LONG", "1:MILLISECONDS:EPOCH", 1),
    TimeFormat("INT", "1:DAYS:SIMPLE_DATE_FORMAT:yyyyMMdd", DAY_MS, "%Y%m%d"),
    TimeFormat("STRING", "1:DAYS:SIMPLE_DATE_FORMAT:yyyy-MM-dd", DAY_MS, "%Y-%m-%d"),
    TimeFormat("STRING", "1:HOURS:SIMPLE_DATE_FORMAT:yyyy-MM-dd HH", HOUR_MS, "%Y-%m-%d %H"),
    # Texts that are not in the order of time.
    TimeFormat("STRING", "1:DAYS:SIMPLE_DATE_FORMAT:dd.MM.yyyy", DAY_MS, "%d.%m.%Y"),
    TimeFormat("TIMESTAMP", "TIMESTAMP", HOUR_MS),
)


@dataclass(frozen=True, slots=True)
class PrunableTable:
    """table: what is built. read: the same with NaN as null, which is how it is stored. cut_by: the columns in whose
    order segments were cut, if any, and the partitioned one.
    """

    table: RandomTable
    read: RandomTable
    time: RandomColumn
    format: TimeFormat
    cut_by: tuple[RandomColumn, ...]


def prunable_table(rng: random.Random) -> PrunableTable:
    """4 to 7 columns, 12 to 70 rows, 5 to 9 segments, now and then an empty one."""
    form = rng.choice(TIME_FORMATS)
    span = rng.choice([8, 40, 400])
    default = form.value(rng.randrange(span)) if rng.random() < 0.5 else None
    time = RandomColumn(
        form.name,
        form.type,
        True,
        False,
        [form.value(rng.randrange(span) * rng.choice([1, 1, 7])) for _ in range(30)],
        rng.choice([0, 0, 0.1]),
        default,
    )
    kinds = [rng.choice(PARTITIONED_TYPES), "DOUBLE", *(rng.choice(TYPES) for _ in range(rng.randint(1, 4)))]
    columns = (time, *(_column(rng, number, kind) for number, kind in enumerate(kinds)))
    num_rows = rng.randint(12, 70)
    cells = {c.name: [random_cell(rng, c) for _ in range(num_rows)] for c in columns}
    null_handling = rng.random() < 0.5
    document = random_config(rng, columns).to_json_dict()
    document["segmentsConfig"]["timeColumnName"] = time.name
    partitioned, place = _partitioned(rng, columns, document)
    cut_by: tuple[RandomColumn, ...] = () if partitioned is None else (partitioned,)
    order = list(range(num_rows))
    way = rng.choices(["time", "partition", "column", "none"], [8, 4, 2, 1])[0]
    if way == "time" or (way == "partition" and partitioned is None):
        cut_by = (time, *cut_by)
        order.sort(key=lambda row: _key(time, cells[time.name][row]))
    elif way == "partition":
        assert partitioned is not None
        order.sort(key=lambda row: place(_filled(partitioned, cells[partitioned.name][row])))
    elif way == "column":
        by = rng.choice([c for c in columns if c.single_value])
        cut_by = (by, *cut_by)
        order.sort(key=lambda row: _key(by, cells[by.name][row]))
    cuts = sorted(rng.sample(range(1, num_rows), rng.choice([4, 6, 8])))
    if rng.random() < 0.5:  # sorted within each segment by another column
        by = rng.choice([c for c in columns if c.single_value])
        edges = [0, *cuts, num_rows]
        order = [
            row
            for start, stop in itertools.pairwise(edges)
            for row in sorted(order[start:stop], key=lambda row: _key(by, cells[by.name][row]))
        ]
    if rng.random() < 0.15:
        cuts = sorted([*cuts, rng.choice(cuts)])
    cells = {name: [values[row] for row in order] for name, values in cells.items()}
    schema = _schema(columns, form, null_handling)
    table = RandomTable(columns, cells, num_rows, tuple(cuts), schema, TableConfig.from_json(document), null_handling)
    return PrunableTable(table, replace(table, cells=_without_nan(cells)), time, form, cut_by)


def _column(rng: random.Random, number: int, kind: str) -> RandomColumn:
    metric = kind in ("INT", "LONG", "FLOAT", "DOUBLE", "BIG_DECIMAL") and rng.random() < 0.25
    single = metric or kind == "BIG_DECIMAL" or rng.random() < 0.75
    pool = [random_value(rng, kind) for _ in range(rng.choice([2, 5, 20]))]
    default = rng.choice([*pool, random_value(rng, kind)]) if rng.random() < 0.4 else None
    if kind in ("FLOAT", "DOUBLE") and rng.random() < 0.6:
        pool += [math.nan] * max(1, len(pool) // 4)
        if default is not None and rng.random() < 0.2:
            default = rng.choice([math.inf, -math.inf])
    return RandomColumn(f"c{number}_{kind.lower()}", kind, single, metric, pool, rng.choice([0, 0, 0.1, 0.5]), default)


def _partitioned(
    rng: random.Random, columns: tuple[RandomColumn, ...], document: dict[str, Any]
) -> tuple[RandomColumn | None, Callable[[Any], int]]:
    """The column that the config is given as the partitioned one, and the order of its values by partition."""
    able = [c for c in columns if c.type in PARTITIONED_TYPES]
    if rng.random() < 0.1:
        return None, lambda value: 0
    column = rng.choice(able)
    function = rng.choice(FUNCTIONS[1:] if column.type in ("STRING", "BOOLEAN", "BYTES") else FUNCTIONS)
    number = rng.choice([2, 7, 64])
    document["tableIndexConfig"]["segmentPartitionConfig"] = {
        "columnPartitionMap": {column.name: {"functionName": function, "numPartitions": number}}
    }

    def place(value: Any) -> int:
        first = value[0] if isinstance(value, list) else value
        text = partition_text(_stored(first), DataType(column.type))
        return 0 if text is None else partition_of(function, number, text)

    return column, place


def _stored(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else int(value) if isinstance(value, bool) else value


def _filled(column: RandomColumn, cell: Any) -> Any:
    """What is stored for a cell."""
    return column.default if cell is None or _is_nan(cell) else cell


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _key(column: RandomColumn, cell: Any) -> Any:
    return sort_value(_filled(column, cell))


def _without_nan(cells: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """NaN is stored as null, in lists as nothing."""

    def stored(cell: Any) -> Any:
        if isinstance(cell, list):
            return [value for value in cell if not _is_nan(value)] or None
        return None if _is_nan(cell) else cell

    return {name: [stored(cell) for cell in column] for name, column in cells.items()}


def _as_json(value: Any) -> Any:
    """A value for null as a schema has it."""
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value.hex() if isinstance(value, bytes) else f"{value:f}" if isinstance(value, Decimal) else value


def _schema(columns: tuple[RandomColumn, ...], form: TimeFormat, null_handling: bool) -> Schema:
    def field(column: RandomColumn) -> dict[str, Any]:
        own = column.own_default
        return {
            "name": column.name,
            "dataType": column.type,
            **({} if column.single_value else {"singleValueField": False}),
            **({} if own is None else {"defaultNullValue": _as_json(own)}),
        }

    time, *others = columns
    return Schema.from_json(
        {
            "schemaName": "t",
            "dimensionFieldSpecs": [field(c) for c in others if not c.metric],
            "metricFieldSpecs": [field(c) for c in others if c.metric],
            "dateTimeFieldSpecs": [field(time) | {"format": form.text, "granularity": "1:DAYS"}],
            "enableColumnBasedNullHandling": null_handling,
        }
    )
