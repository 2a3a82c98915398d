"""Random conditions over numbers near the edges of their types, and what they are of a row by exact arithmetic:
Python's fractions.

The rule (docs/differences.md): a literal beside FLOAT or DOUBLE is rounded to that type, all else is compared by value.
NaN equals NaN and is neither above nor below anything.
"""

from __future__ import annotations

import math
import operator
import random
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from random_tables import DEFAULTS, RandomColumn, RandomTable, random_config, random_schema

from pinotpy.config.table import TableConfig


def as_float(value: Any) -> float:
    """The nearest FLOAT."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", float(value)))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


_WHOLE = [0, 1, 5, -1, 2**24 - 1, 2**24, 2**24 + 1]
_WIDE = [s * (2**53 + k) for s in (1, -1) for k in (-1, 0, 1)] + [2**63 - 1, 2**63 - 512, -(2**63), 1 - 2**63]
_REAL = [
    0.1,
    as_float(0.1),
    5.5,
    0.0,
    -0.0,
    5.0,
    float(2**24),
    float(2**53),
    float(2**63),
    -float(2**63),
    math.inf,
    -math.inf,
]  # a NaN is stored as null
VALUES: dict[str, list[Any]] = {
    "INT": [*_WHOLE, 2**31 - 1, -(2**31)],
    "LONG": [*_WHOLE, *_WIDE],
    "FLOAT": [*map(as_float, _REAL), as_float(1e-45), as_float(3.4028235e38), as_float(1e-38), as_float(16777218)],
    "DOUBLE": [
        *_REAL,
        5e-324,
        1.7976931348623157e308,
        9007199254740994.0,
        2.0**24 + 1,
        0.30000000000000004,
        2.0**63 - 1024,
    ],
    "BIG_DECIMAL": [
        Decimal(v)
        for v in (
            *_WHOLE,
            *_WIDE,
            0.1,
            as_float(0.1),
            5.5,
            "0.1",
            "9007199254740992.5",
            "1e-30",
            2**63,
            "123456789012345678901.5",
        )
    ],
}
TYPES = tuple(VALUES)
LITERALS = (
    "0", "-0.0", "0.1", "5", "5.0", "5.5", "-1", "1e0", "16777217", "16777216.5", "16777216.000000001",
    "9007199254740993", "-9007199254740993",
    "9007199254740992.5", "9007199254740992", "9007199254740993.0", "9223372036854775807", "-9223372036854775808",
    "9223372036854775808",
    "9223372036854775807.5", "-9223372036854775808.5", "1e30", "-1e39", "1e400", "-1e400", "1.4e-45", "7e-46", "5e-324",
    "1e-400", "3.4028235e38",
    "3.4028236e38", "0.1000000014901161193847656", "0.10000000000000000555", "0.30000000000000004", "2147483647.5",
    "123456789012345678901.5",
    "-9007199254740992.5", "4.999999999999999999999", "0.1000000000000000055511151231257827021181583404541015625",
)  # fmt: skip
OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
Row = Mapping[str, Any]
Truth = Callable[[Row], "bool | None"]


@dataclass(frozen=True, slots=True)
class Subject:
    """What is compared: its text, its type, its value in a row (None: null)."""

    text: str
    type: str
    value: Callable[[Row], Any]


@dataclass(frozen=True, slots=True)
class Condition:
    """Its text, whether it is true of a row, and whether it asks for the nulls of columns, which groups in
    default-value mode have not.
    """

    text: str
    holds: Truth
    asks_nulls: bool = False


def exact(value: Any) -> Any:
    """As Python compares it exactly: fractions, and floats that are none."""
    return value if isinstance(value, float) and not math.isfinite(value) else Fraction(value)


def compare(sign: str, left: Any, right: Any) -> bool | None:
    """Two values, exactly."""
    if left is None or right is None:
        return None
    if sign in ("=", "<>") and _is_nan(left) and _is_nan(right):
        return sign == "="
    return OPERATORS[sign](exact(left), exact(right))


def beside(literal: str, data_type: str) -> Any:
    """What a literal is beside values of a type."""
    value = Decimal(literal)
    return as_float(float(value)) if data_type == "FLOAT" else float(value) if data_type == "DOUBLE" else value


def edge_table(rng: random.Random) -> RandomTable:
    """Two columns of every type, one with nulls, and `id`; up to four segments, any encodings and indexes, trees and
    partitions.
    """
    columns = [RandomColumn("id", "INT", True, False, [], 0.0)]
    for kind in TYPES:
        pool = rng.sample(VALUES[kind], min(len(VALUES[kind]), rng.choice([3, 8, 30])))
        columns += [RandomColumn(f"{kind[0].lower()}{n}", kind, True, False, pool, 0.25 * n) for n in range(2)]
    num_rows = rng.choice([1, 12, 30, 40])
    cells = {
        c.name: [None if rng.random() < c.null_share else rng.choice(c.pool) for _ in range(num_rows)]
        for c in columns[1:]
    }
    if rng.random() < 0.5:  # some segments have a sorted column
        by = rng.choice(columns[1:])
        place = sorted(
            range(num_rows),
            key=lambda row: _sort_key(DEFAULTS[by.type] if cells[by.name][row] is None else cells[by.name][row]),
        )
        cells = {name: [values[row] for row in place] for name, values in cells.items()}
    cells["id"] = list(range(1, num_rows + 1))
    cuts = tuple(sorted({rng.randrange(num_rows) for _ in range(rng.choice([0, 1, 3]))} - {0}))
    config = random_config(rng, tuple(columns)).to_json_dict()
    if rng.random() < 0.5:
        parts = {c.name: {"functionName": "Murmur", "numPartitions": 3} for c in columns[1:] if rng.random() < 0.5}
        config["tableIndexConfig"]["segmentPartitionConfig"] = {"columnPartitionMap": parts}
    return RandomTable(
        tuple(columns), cells, num_rows, cuts, random_schema(tuple(columns), True), TableConfig.from_json(config), True
    )


def _sort_key(value: Any) -> Any:
    return exact(value)


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


class Conditions:
    """Draws conditions over the columns of an edge table."""

    def __init__(self, rng: random.Random, table: RandomTable, *, null_handling: bool) -> None:
        self._rng, self._null_handling = rng, null_handling
        self._columns = table.columns[1:]

    def next(self) -> Condition:
        """A comparison, or a few of them."""
        roll = self._rng.random()
        if roll < 0.75:
            return self._atom()
        if roll < 0.83:
            inner = self._atom()
            return Condition(f"NOT ({inner.text})", lambda row: _negated(inner.holds(row)), inner.asks_nulls)
        one, other, is_and = self._atom(), self._atom(), roll < 0.92
        text = f"({one.text}) {'AND' if is_and else 'OR'} ({other.text})"
        return Condition(
            text, lambda row: _joined(is_and, one.holds(row), other.holds(row)), one.asks_nulls or other.asks_nulls
        )

    def _atom(self) -> Condition:
        kind = self._rng.choice(
            ["literal", "literal", "literal", "subjects", "subjects", "list", "between", "distinct"]
        )
        subject = self._subject()
        negated = self._rng.random() < 0.4
        match kind:
            case "literal":
                sign, literal = self._rng.choice(list(OPERATORS)), self._rng.choice(LITERALS)
                shown, right = self._written(literal, subject), beside(literal, subject.type)
                if negated:
                    return Condition(
                        f"{shown} {sign} {subject.text}", lambda row: compare(sign, right, subject.value(row))
                    )
                return Condition(f"{subject.text} {sign} {shown}", lambda row: compare(sign, subject.value(row), right))
            case "subjects":
                sign, other = self._rng.choice(list(OPERATORS)), self._subject()
                return Condition(
                    f"{subject.text} {sign} {other.text}",
                    lambda row: compare(sign, subject.value(row), other.value(row)),
                )
            case "list":
                literals = self._rng.sample(LITERALS, self._rng.choice([1, 2, 5]))
                members = [beside(literal, subject.type) for literal in literals]
                text = (
                    f"{subject.text} {'NOT ' * negated}IN "
                    f"({', '.join(self._written(literal, subject) for literal in literals)})"
                )
                return Condition(text, lambda row: _any_equal(subject.value(row), members, negated))
            case "between":
                low, high = self._rng.sample(LITERALS, 2)
                text = (
                    f"{subject.text} {'NOT ' * negated}BETWEEN {self._written(low, subject)} AND "
                    f"{self._written(high, subject)}"
                )
                ends = beside(low, subject.type), beside(high, subject.type)

                def within(row: Row) -> bool | None:
                    inside = _joined(
                        True, compare(">=", subject.value(row), ends[0]), compare("<=", subject.value(row), ends[1])
                    )
                    return _negated(inside) if negated else inside

                return Condition(text, within)
        left, column = self._rng.sample(self._columns, 2)
        literal = self._rng.choice([None, *LITERALS])
        text = f"{left.name} IS {'NOT ' * negated}DISTINCT FROM {column.name if literal is None else literal}"

        def distinct(row: Row) -> bool:
            one, two = row[left.name], row[column.name] if literal is None else beside(literal, left.type)
            same = one is None and two is None if one is None or two is None else compare("=", one, two)
            return bool(same) is negated

        return Condition(text, distinct, asks_nulls=True)

    def _written(self, literal: str, subject: Subject) -> str:
        quoted = subject.type in ("FLOAT", "DOUBLE") and self._rng.random() < 0.15 and "(" not in subject.text
        return f"'{literal}'" if quoted else literal

    def _subject(self) -> Subject:
        roll = self._rng.random()
        column = self._of_column(self._rng.choice(self._columns))
        if roll < 0.6:
            return column
        if roll < 0.75:
            return self._cast(column)
        if roll < 0.85 and column.type != "BIG_DECIMAL":  # DOUBLE, and often NaN
            sign = self._rng.choice("+/")
            return Subject(f"{column.text} {sign} 0", "DOUBLE", lambda row: _with_zero(column.value(row), sign))
        other = self._of_column(self._rng.choice([c for c in self._columns if c.type == column.type]))
        place = self._rng.randint(1, 30)
        text = f"CASE WHEN id > {place} THEN {column.text} ELSE {other.text} END"
        return Subject(text, column.type, lambda row: (column if row["id"] > place else other).value(row))

    def _of_column(self, column: RandomColumn) -> Subject:
        default = None if self._null_handling else DEFAULTS[column.type]
        return Subject(column.name, column.type, lambda row: default if row[column.name] is None else row[column.name])

    def _cast(self, column: Subject) -> Subject:
        targets = {
            "INT": ["LONG", "DOUBLE", "FLOAT"],
            "LONG": ["DOUBLE", "FLOAT", "BIG_DECIMAL"],
            "FLOAT": ["DOUBLE"],
            "DOUBLE": ["FLOAT"],
        }
        target = self._rng.choice(targets.get(column.type, ["DOUBLE"]))
        convert: Callable[[Any], Any] = {
            "LONG": int,
            "DOUBLE": float,
            "FLOAT": lambda v: as_float(float(v)),
            "BIG_DECIMAL": Decimal,
        }[target]
        return Subject(
            f"CAST({column.text} AS {target})",
            target,
            lambda row: None if column.value(row) is None else convert(column.value(row)),
        )


def _with_zero(value: Any, sign: str) -> float | None:
    """x + 0 or x / 0 in doubles."""
    if value is None or sign == "+":
        return None if value is None else float(value)
    return math.nan if value == 0 else math.copysign(math.inf, value)


def _negated(truth: bool | None) -> bool | None:
    return None if truth is None else not truth


def _joined(is_and: bool, one: bool | None, other: bool | None) -> bool | None:
    deciding = not is_and
    return deciding if deciding in (one, other) else None if None in (one, other) else is_and


def _any_equal(value: Any, members: list[Any], negated: bool) -> bool | None:
    return None if value is None else any(compare("=", value, member) for member in members) is not negated
