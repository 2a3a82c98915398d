"""Random values of SQL, each with its text for us and two for DuckDB: `plain` where a null reads as its default,
`nulls` where it is NULL. IS NULL, COALESCE and IS DISTINCT FROM look at the nulls in both modes, so that a plain text
may hold a `nulls` one.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from duck_oracle import DUCK_TYPES, literal
from random_expressions import Expr, Expressions
from random_queries import our_literal, probe
from random_tables import DEFAULTS, RandomColumn, RandomTable

_COLUMN = re.compile(r"\bc\d+_[a-z_]+\b")
ZEROS = {
    "INT": "0", "LONG": "0::BIGINT", "FLOAT": "0::FLOAT", "DOUBLE": "0.0::DOUBLE", "STRING": "''", "BOOLEAN": "false",
    "TIMESTAMP": "0::BIGINT",
    "BIG_DECIMAL": "0::DECIMAL(38, 10)", "BYTES": "''::BLOB",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sql:
    """A value. `bounded`: a number whose sums are exact; `constant`: no column in it; `rough`: a number that DuckDB
    rounds otherwise.
    """

    ours: str
    plain: str
    nulls: str
    type: str
    single: bool = True
    bounded: bool = False
    constant: bool = False
    rough: bool = False

    def duck(self, *, null_handling: bool) -> str:
        """DuckDB's text in this mode; 0.0 and -0.0 are one key."""
        text = self.nulls if null_handling else self.plain
        return f"p_key({text})" if self.type in ("FLOAT", "DOUBLE") and self.single else text


def made(kind: str, ours: str, duck: str, *parts: Sql, **flags: bool) -> Sql:
    """A value of others: {0}, {1} … stand for them."""
    return Sql(
        ours.format(*(p.ours for p in parts)),
        duck.format(*(p.plain for p in parts)),
        duck.format(*(p.nulls for p in parts)),
        kind,
        **flags,
    )


def nothing_as_zero(value: Sql) -> Sql:
    """What plain mode reads where CASE or NULLIF has no value."""
    return replace(value, plain=f"coalesce({value.plain}, {ZEROS[value.type]})")


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


class SqlExpressions:
    """The generator over one table; `seen` counts what was generated. `condition` is set by SqlConditions."""

    def __init__(self, rng: random.Random, table: RandomTable, seen: Counter[str]) -> None:
        self.rng, self.table, self.seen = rng, table, seen
        self.functions = Expressions(rng, table, "sql")
        self.condition: Callable[[int], Sql]

    # --- columns and constants ----------------------------------------------------------------------------------------

    def columns(self, wanted: Callable[[RandomColumn], bool]) -> list[RandomColumn]:
        return [c for c in self.table.columns if wanted(c)]

    def of_column(self, column: RandomColumn) -> Sql:
        self.seen[f"type {column.type}{'' if column.single_value else ' multi-value'}"] += 1
        return Sql(
            column.name, column.name, f"{column.name}__n", column.type, column.single_value, "_bounded_" in column.name
        )

    def column(self, kind: str = "") -> Sql:
        """A single-value column, of a type if one is named."""
        return self.of_column(self.rng.choice(self.columns(lambda c: c.single_value and kind in ("", c.type))))

    def constant(self, kind: str) -> Sql:
        """A literal of INT, DOUBLE, STRING or BOOLEAN."""
        match kind:
            case "INT":
                text = str(self.rng.choice([0, 1, 2, 3, 7, -1, -20]))
            case "DOUBLE":
                text = self.rng.choice(["0.5", "2.25", "-1.75"])
                return Sql(text, f"({text})::DOUBLE", f"({text})::DOUBLE", kind, bounded=True, constant=True)
            case "STRING":
                text = quoted(self.rng.choice(["", "a", "x y", "it's", "é"]))
            case _:
                text = self.rng.choice(["true", "false"])
        return Sql(text, f"({text})", f"({text})", kind, bounded=True, constant=True)

    def literals(self, column: RandomColumn) -> tuple[str, str]:
        """A literal beside a column: (ours, DuckDB's)."""
        value = probe(self.rng, column)
        if column.type == "TIMESTAMP" and value % 1000 == 0 and self.rng.random() < 0.5:
            return str(value), literal(column, value)
        if column.type in ("INT", "LONG") and abs(value) < 2**50 and self.rng.random() < 0.15:
            self.seen["fraction beside whole numbers"] += 1
            return f"{value}.5", f"{value}.5::DOUBLE"
        return our_literal(column, value, "sql"), literal(column, value)

    # --- values -------------------------------------------------------------------------------------------------------

    def value(self, depth: int = 2) -> Sql:
        """A single value of any type, that can be a key."""
        makers = [
            self.column,
            self.column,
            lambda: self.number(depth),
            lambda: self.text(depth),
            lambda: self.condition(min(depth, 1)),
            self.function,
        ]
        return self.rng.choice(makers)()

    def function(self) -> Sql:
        """Nested functions of every family."""
        self.seen["functions"] += 1
        found: Expr = self.functions.value(2)
        return Sql(found.ours, found.duck, _COLUMN.sub(lambda match: f"{match.group()}__n", found.duck), found.type)

    def number(self, depth: int) -> Sql:
        """A bounded number."""
        if depth <= 0:
            return self.of_column(self.rng.choice(self.columns(lambda c: "_bounded_" in c.name)))
        makers = [
            self._arithmetic,
            self._arithmetic,
            self._case,
            self._case,
            self._coalesce,
            self._nullif,
            self._cast,
            lambda d: self.number(0),
        ]
        return self.rng.choice(makers)(depth)

    def _arithmetic(self, depth: int) -> Sql:
        self.seen["arithmetic"] += 1
        left = self.number(depth - 1)
        match self.rng.choice("+-*na"):
            case "+" | "-" as sign:
                right = (
                    self.number(depth - 1)
                    if self.rng.random() < 0.5
                    else self.constant(self.rng.choice(["INT", "DOUBLE"]))
                )
                return made(
                    "DOUBLE",
                    f"({{0}} {sign} {{1}})",
                    f"(({{0}})::DOUBLE {sign} ({{1}})::DOUBLE)",
                    left,
                    right,
                    bounded=True,
                )
            case "*":
                factor = self.rng.choice(["2", "0.5", "3"])
                return made("DOUBLE", f"{{0}} * {factor}", f"(({{0}})::DOUBLE * {factor}::DOUBLE)", left, bounded=True)
            case "n":
                self.seen["unary minus"] += 1
                return made("DOUBLE", "(-{0})", "(0.0::DOUBLE - ({0})::DOUBLE)", left, bounded=True)
            case _:
                return made("DOUBLE", "ABS({0})", "abs(({0})::DOUBLE)", left, bounded=True)

    def _case(self, depth: int) -> Sql:
        """Both forms, with and without ELSE."""
        first, second = self.number(depth - 1), self.number(depth - 1)
        kind = max(first.type, second.type, key=("INT", "LONG", "DOUBLE").index)
        cast = DUCK_TYPES[kind]
        if self.rng.random() < 0.3:
            self.seen["CASE value WHEN"] += 1
            column = self.rng.choice(
                self.columns(lambda c: c.single_value and c.type in ("INT", "STRING", "LONG") and "_body" not in c.name)
            )
            ours, duck = our_literal(column, wanted := self.rng.choice(column.pool), "sql"), literal(column, wanted)
            subject = self.of_column(column)
            return made(kind, f"CASE {{0}} WHEN {ours} THEN {{1}} ELSE {{2}} END",
                        f"CASE {{0}} WHEN {duck} THEN ({{1}})::{cast} ELSE ({{2}})::{cast} END", subject, first, second,
                            bounded=True)  # fmt: skip
        holds = self.condition(depth - 1)
        if self.rng.random() < 0.35:
            self.seen["CASE without ELSE"] += 1
            other = self.rng.choice(["", " ELSE NULL"])
            return nothing_as_zero(
                made(
                    first.type,
                    f"CASE WHEN {{0}} THEN {{1}}{other} END",
                    "CASE WHEN {0} THEN {1} END",
                    holds,
                    first,
                    bounded=True,
                )
            )
        self.seen["CASE WHEN"] += 1
        also = self.condition(0)
        return made(kind, "CASE WHEN {0} THEN {1} WHEN {3} THEN {2} ELSE {1} END",
                    f"CASE WHEN {{0}} THEN ({{1}})::{cast} WHEN {{3}} THEN ({{2}})::{cast} ELSE ({{1}})::{cast} END",
                    holds, first, second, also, bounded=True)  # fmt: skip

    def _coalesce(self, depth: int) -> Sql:
        self.seen["COALESCE"] += 1
        first = self.number(depth - 1)
        second = self.number(0) if self.rng.random() < 0.5 else self.constant("INT")
        kind = max(first.type, second.type, key=("INT", "LONG", "DOUBLE").index)
        return self.coalesced(kind, first, second, bounded=second.constant)

    def coalesced(self, kind: str, first: Sql, second: Sql, *, bounded: bool = False) -> Sql:
        """Nulls decide in both modes; where all are null, plain mode reads the default of the type."""
        cast = DUCK_TYPES[kind]
        default = literal(RandomColumn("", kind, True, False, [], 0), DEFAULTS[kind])
        both = f"coalesce(({first.nulls})::{cast}, ({second.nulls})::{cast})"
        plain = (
            f"CASE WHEN ({first.nulls}) IS NOT NULL THEN ({first.plain})::{cast} WHEN ({second.nulls}) IS NOT "
            f"NULL THEN ({second.plain})::{cast}"
        )
        return Sql(f"COALESCE({first.ours}, {second.ours})", f"{plain} ELSE {default} END", both, kind, bounded=bounded)

    def _nullif(self, depth: int) -> Sql:
        self.seen["NULLIF"] += 1
        first = self.number(depth - 1)
        return nothing_as_zero(
            made(first.type, "NULLIF({0}, {1})", "nullif({0}, {1})", first, self.constant("INT"), bounded=True)
        )

    def _cast(self, depth: int) -> Sql:
        self.seen["CAST"] += 1
        if self.rng.random() < 0.4:
            holds = self.condition(0)
            holds = (
                self.column("BOOLEAN") if holds.constant else holds
            )  # constants are computed before: their types are others
            return made("INT", "CAST({0} AS INT)", "({0})::INTEGER", holds, bounded=True)
        inner, target = self.number(depth - 1), self.rng.choice(["LONG", "DOUBLE"])
        name = {"LONG": self.rng.choice(["LONG", "BIGINT"]), "DOUBLE": "DOUBLE"}[target]
        return made(
            target,
            f"CAST({{0}} AS {name})",
            "p_long(({0})::DOUBLE)" if target == "LONG" else "({0})::DOUBLE",
            inner,
            bounded=True,
        )

    # --- text ---------------------------------------------------------------------------------------------------------

    def text(self, depth: int) -> Sql:
        """STRING."""
        if depth <= 0:
            return self.column("STRING")
        inner = self.text(depth - 1)
        match self.rng.choice(["upper", "concat", "cast", "case", "coalesce", "nullif", "json", "column", "bars"]):
            case "upper":
                return made("STRING", "UPPER({0})", "p_upper({0})", inner)
            case "concat":
                return made("STRING", "CONCAT({0}, {1})", "({0} || {1})", inner, self.column("STRING"))
            case "bars":
                self.seen["||"] += 1
                return made("STRING", "({0} || '-')", "({0} || '-')", inner)
            case "cast":
                self.seen["CAST AS VARCHAR"] += 1
                kind = self.rng.choice(["INT", "LONG", "BOOLEAN"])
                return made("STRING", "CAST({0} AS VARCHAR)", "({0})::VARCHAR", self.column(kind))
            case "case":
                self.seen["CASE of texts"] += 1
                if self.rng.random() < 0.5:
                    return nothing_as_zero(
                        made(
                            "STRING",
                            "CASE WHEN {0} THEN {1} END",
                            "CASE WHEN {0} THEN {1} END",
                            self.condition(depth - 1),
                            inner,
                        )
                    )
                return made(
                    "STRING",
                    "CASE WHEN {0} THEN {1} ELSE 'other' END",
                    "CASE WHEN {0} THEN {1} ELSE 'other' END",
                    self.condition(depth - 1),
                    inner,
                )
            case "coalesce":
                self.seen["COALESCE of texts"] += 1
                return self.coalesced(
                    "STRING", inner, self.rng.choice([self.column("STRING"), self.constant("STRING")])
                )
            case "nullif":
                self.seen["NULLIF of texts"] += 1
                return nothing_as_zero(
                    made("STRING", "NULLIF({0}, {1})", "nullif({0}, {1})", inner, self.constant("STRING"))
                )
            case "json":
                self.seen["JSON_EXTRACT_SCALAR"] += 1
                document = self.column("JSON")
                ours = f"JSON_EXTRACT_SCALAR({document.ours}, '$.a', 'STRING', 'none')"
                duck = "coalesce(json_extract_string({0}, '$.a'), 'none')"
                return Sql(
                    ours,
                    duck.format(document.plain),
                    f"CASE WHEN {document.nulls} IS NOT NULL THEN {duck.format(document.nulls)} END",
                    "STRING",
                )
            case _:
                return self.column("STRING")

    def list(self) -> Sql:
        """A multi-value column."""
        return self.of_column(self.rng.choice(self.columns(lambda c: not c.single_value)))

    def any_of(self, kinds: list[Any]) -> Any:
        return self.rng.choice(kinds)
