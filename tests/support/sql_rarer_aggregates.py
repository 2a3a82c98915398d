"""Random aggregations of SQL beyond sums and extremes: of texts and booleans, of different values, of several values of
a row, moments, lists. Each says what DuckDB computes for it; `@` is where FILTER goes.

Rows in no order: functions whose value depends on it (LISTAGG, ARRAYAGG) are asked for their different values,
ascending.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

from random_tables import RandomColumn
from sql_expressions import Sql, SqlExpressions

_WHOLE = ("INT", "LONG", "TIMESTAMP")


def _product(first: str, second: str) -> str:
    """The covariance of two arguments: in whole numbers of quarters, because the defaults of nulls leave no digits of
    doubles.
    """
    x, y = (f"((({{{place}}})::DOUBLE * 4)::HUGEINT)" for place in (first, second))
    number = f"(count({x} * {y}) @)::HUGEINT"
    sums = (f"sum(CASE WHEN {other} IS NOT NULL THEN {one} END) @" for one, other in ((x, y), (y, x)))
    return (
        f"(({number} * (sum({x} * {y}) @) - {' * '.join(f'({total})' for total in sums)})::DOUBLE / 16 / "
        f"nullif({number}, 0) / nullif({number}, 0))"
    )


class SqlRarerAggregates:
    """Aggregations over the values of `maker`; what they answer of no row in plain mode is sql-live's."""

    def __init__(self, maker: SqlExpressions, *, null_handling: bool) -> None:
        self.maker, self.rng, self.null_handling = maker, maker.rng, null_handling

    def any(self) -> tuple[str, Sql]:
        """One call and its name."""
        makers: list[Callable[[], tuple[str, Sql]]] = [
            self._of_texts, self._of_conditions, self._whole, self._distinct_numbers, self._rows, self._mode,
            self._moments, self._covariance, self._list,
            self._joined, self._picked, self._histogram, self._least_of_all, self._precise,
        ]  # fmt: skip
        return self.rng.choice(makers)()

    def _made(
        self, name: str, kind: str, ours: str, duck: str, nothing: str, *args: Sql, single: bool = True
    ) -> tuple[str, Sql]:
        """`nothing`: what plain mode says of no row; "" for null, too."""
        plain = duck.format(*(f"({arg.duck(null_handling=False)})" for arg in args))
        nulls = duck.format(*(f"({arg.duck(null_handling=True)})" for arg in args))
        plain = f"coalesce({plain}, {nothing})" if nothing else plain
        return name, Sql(ours.format(*(arg.ours for arg in args)), plain, nulls, kind, single)

    def _of_texts(self) -> tuple[str, Sql]:
        name = self.rng.choice(["MINSTRING", "MAXSTRING"])
        # By the bytes of UTF-8, which is what DuckDB compares.
        return self._made(name, "STRING", f"{name}({{0}})", f"{name[:3].lower()}({{0}}) @", "", self.maker.text(1))

    def _of_conditions(self) -> tuple[str, Sql]:
        name, nothing = self.rng.choice([("BOOL_AND", "true"), ("BOOL_OR", "false")])
        holds = self.maker.condition(1)
        holds = self.maker.column("BOOLEAN") if holds.constant else holds
        return self._made(name, "BOOLEAN", f"{name}({{0}})", f"{name.lower()}({{0}}) @", nothing, holds)

    def _whole(self) -> tuple[str, Sql]:
        name = self.rng.choice(["MINLONG", "MAXLONG"])
        nothing = "9223372036854775807" if name == "MINLONG" else "(-9223372036854775807 - 1)"
        column = self.maker.column(self.rng.choice(_WHOLE))
        return self._made(
            name, "LONG", f"{name}({{0}})", f"({name[:3].lower()}({{0}}) @)::BIGINT", f"{nothing}::BIGINT", column
        )

    def _distinct_numbers(self) -> tuple[str, Sql]:
        name = self.rng.choice(["SUM", "AVG"])
        written = self.rng.choice([f"{name}(DISTINCT {{0}})", f"DISTINCT{name}({{0}})"])
        values = "list({0}::DOUBLE) FILTER (WHERE {0} IS NOT NULL @and)"
        duck = f"list_{name.lower()}(list_distinct({values}))"
        return self._made(
            f"DISTINCT{name}",
            "DOUBLE",
            written,
            duck,
            "0.0::DOUBLE" if name == "SUM" else "'nan'::DOUBLE",
            self.maker.number(1),
        )

    def _rows(self) -> tuple[str, Sql]:
        first, second = self.maker.value(1), self.maker.value(1)
        both = "CASE WHEN {0} IS NOT NULL AND {1} IS NOT NULL THEN row({0}, {1}) END"
        return self._made(
            "COUNT DISTINCT of several",
            "INT",
            "COUNT(DISTINCT {0}, {1})",
            f"count(DISTINCT {both}) @",
            "",
            first,
            second,
        )

    def _mode(self) -> tuple[str, Sql]:
        choice = self.rng.choice(["", ", 'MIN'", ", 'MAX'"])
        sign = "-" if choice == ", 'MAX'" else ""
        # The most often seen stands first, of several the least (or greatest).
        counted = "map_entries(histogram({0}::DOUBLE) FILTER (WHERE {0} IS NOT NULL @and))"
        duck = f"{sign}(list_sort(list_transform({counted}, lambda e: [-(e.value::DOUBLE), {sign}e.key])))[1][2]"
        name, found = self._made(
            "MODE", "DOUBLE", f"MODE({{0}}{choice})", duck, "'-inf'::DOUBLE", self.maker.of_column(self._bounded())
        )
        return name, replace(found, rough=True)  # DuckDB takes no lambda in HAVING

    def _moments(self) -> tuple[str, Sql]:
        name = self.rng.choice(["VAR_POP", "STDDEV_POP"])
        square = _product("0", "0")
        duck = f"sqrt({square})" if name == "STDDEV_POP" else square
        name, found = self._made(
            name, "DOUBLE", f"{name}({{0}})", duck, "'-inf'::DOUBLE", self.maker.of_column(self._bounded())
        )
        return name, replace(found, rough=True)

    def _covariance(self) -> tuple[str, Sql]:
        columns = [self.maker.of_column(self._bounded()) for _ in range(2)]
        name, found = self._made(
            "COVAR_POP", "DOUBLE", "COVAR_POP({0}, {1})", _product("0", "1"), "'-inf'::DOUBLE", *columns
        )
        return name, replace(found, rough=True)

    def _list(self) -> tuple[str, Sql]:
        kind, type_name = self.rng.choice([("INT", "INT"), ("LONG", "LONG"), ("STRING", "STRING")])
        duck = "list_sort(list_distinct(coalesce(list({0}) FILTER (WHERE {0} IS NOT NULL @and), [])))"
        return self._made(
            "ARRAYAGG", kind, f"ARRAYAGG({{0}}, '{type_name}', true)", duck, "", self.maker.column(kind), single=False
        )

    def _joined(self) -> tuple[str, Sql]:
        written = self.rng.choice(["LISTAGG({0}, ';', true)", "LISTAGG(DISTINCT {0}, ';')"])
        duck = "array_to_string(list_sort(list_distinct(list({0}) FILTER (WHERE {0} IS NOT NULL @and))), ';')"
        return self._made("LISTAGG", "STRING", written, duck, "''", self.maker.column("STRING"))

    def _picked(self) -> tuple[str, Sql]:
        name, best = self.rng.choice([("EXPRMIN", "min"), ("EXPRMAX", "max")])
        # The least of a number decides for the value itself: no ties.
        column = self.maker.of_column(self._bounded())
        return self._made(name, column.type, f"{name}({{0}}, {{0}})", f"{best}({{0}}) @", "", column)

    def _histogram(self) -> tuple[str, Sql]:
        column = self.maker.of_column(self._bounded())
        bucket = "count(*) FILTER (WHERE {0} >= %d AND {0} %s %d @and)::DOUBLE"
        edges = (-100, 0, 100, 300)
        buckets = [bucket % (low, "<" if high < edges[-1] else "<=", high) for low, high in itertools.pairwise(edges)]
        # Not null-aware: nulls read as defaults in both modes.
        column = replace(column, nulls=column.plain) if not self.null_handling else column
        ours = f"HISTOGRAM({{0}}, ARRAY[{', '.join(map(str, edges))}])"
        return self._made("HISTOGRAM", "DOUBLE", ours, f"[{', '.join(buckets)}]", "", column, single=False)

    def _least_of_all(self) -> tuple[str, Sql]:
        column = self.maker.column(self.rng.choice(["INT", "LONG", "STRING", "BOOLEAN", "BYTES"]))
        return self._made("ANYVALUE", column.type, "ANYVALUE({0})", "min({0}) @", "", column)

    def _precise(self) -> tuple[str, Sql]:
        column = self.maker.of_column(self._bounded())
        if column.type == "DOUBLE":
            return self._least_of_all()
        return self._made(
            "SUMPRECISION", "STRING", "SUMPRECISION({0})", "(sum({0}::HUGEINT) @)::VARCHAR", "'0'", column
        )

    def _bounded(self) -> RandomColumn:
        return self.rng.choice(self.maker.columns(lambda c: "_bounded_" in c.name))
