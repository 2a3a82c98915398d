"""Random aggregations of SQL, and what is computed from them: arithmetic, conditions, CASE and COALESCE."""

from __future__ import annotations

from dataclasses import replace

from random_expressions import compared
from sql_conditions import SqlConditions
from sql_expressions import Sql, SqlExpressions, made, nothing_as_zero
from sql_rarer_aggregates import SqlRarerAggregates

# Of no row: what plain mode shows.
_AGGREGATES = {
    "SUM": "coalesce(sum(({0})::DOUBLE) @, 0.0::DOUBLE)|sum(({0})::DOUBLE) @",
    "AVG": "coalesce(sum(({0})::DOUBLE) @ / count({0}) @, '-inf'::DOUBLE)|(sum(({0})::DOUBLE) @ / count({0}) @)",
    "MIN": "coalesce(min({0}) @, 'inf'::DOUBLE)::DOUBLE|(min({0}) @)::DOUBLE",
    "MAX": "coalesce(max({0}) @, '-inf'::DOUBLE)::DOUBLE|(max({0}) @)::DOUBLE",
    "MINMAXRANGE": "coalesce((max({0}) @)::DOUBLE - (min({0}) @)::DOUBLE, '-inf'::DOUBLE)|((max({0}) @)::DOUBLE - "
    "(min({0}) @)::DOUBLE)",
}
_NUMBERS = ("INT", "LONG", "FLOAT", "DOUBLE")
_COMPARISONS = (">", "<", ">=", "<=", "=", "<>")


def _numbers(calls: list[Sql]) -> list[Sql]:
    return [call for call in calls if call.single and not call.rough and call.type in ("INT", "LONG", "DOUBLE")] or [
        Sql("COUNT(*)", "count(*)", "count(*)", "LONG")
    ]


def _where(call: str, further: str = "", alone: str = "") -> str:
    """The call with a condition where it has room for one: `@and` in a FILTER that is there, else `@`."""
    return call.replace("@and", further).replace("@", alone)


class SqlAggregates:
    """Aggregations over the values of `maker`, in one null mode."""

    def __init__(self, maker: SqlExpressions, conditions: SqlConditions, *, null_handling: bool) -> None:
        self.maker, self.conditions, self.rng, self.seen, self.null_handling = (
            maker,
            conditions,
            maker.rng,
            maker.seen,
            null_handling,
        )
        self.rarer = SqlRarerAggregates(maker, null_handling=null_handling)

    def aggregation(self) -> Sql:
        """One call, perhaps with FILTER."""
        roll = self.rng.random()
        if roll < 0.2:
            found = Sql("COUNT(*)", "count(*) @", "count(*) @", "LONG")
        elif roll < 0.35:
            argument = self.maker.value(1)
            found = Sql(f"COUNT({argument.ours})", "count(*) @", f"count({argument.nulls}) @", "LONG")
        elif roll < 0.5:
            argument = self.maker.value(1)
            key = replace(argument, plain=argument.duck(null_handling=False), nulls=argument.duck(null_handling=True))
            name = self.rng.choice(["COUNT(DISTINCT {0})", "DISTINCTCOUNT({0})"])
            found = made("INT", name, "count(DISTINCT {0}) @", key)
        elif roll < 0.58:
            return self._percentile()
        elif roll < 0.66:
            found = self._of_lists()
        elif roll < 0.84:
            name, found = self.rarer.any()
            self.seen[f"aggregation {name}"] += 1
            return self._filtered(found)
        else:
            found = self._number(self.rng.choice(["SUM", "SUM", "AVG", "MIN", "MAX", "MINMAXRANGE"]))
        self.seen[
            f"aggregation {found.ours.partition('(')[0]}{' DISTINCT' if 'DISTINCT ' in found.ours[:16] else ''}"
        ] += 1
        return self._filtered(found)

    def _number(self, name: str) -> Sql:
        argument = self.maker.number(2)
        if name in ("MIN", "MAX") and self.rng.random() < 0.5:
            argument = self.maker.of_column(
                self.rng.choice(self.maker.columns(lambda c: c.single_value and c.type in _NUMBERS))
            )
        plain, _, nulls = _AGGREGATES[name].partition("|")
        return Sql(f"{name}({argument.ours})", plain.format(argument.plain), nulls.format(argument.nulls), "DOUBLE")

    def _of_lists(self) -> Sql:
        column = self.rng.choice(self.maker.columns(lambda c: not c.single_value and c.type == "INT"))
        name = self.rng.choice(["SUM", "MIN", "MAX"])
        function = name.lower()
        inner = f"list_{function}({column.name}{{}}::BIGINT[])::DOUBLE"
        empty = {"SUM": "0.0", "MIN": "'inf'", "MAX": "'-inf'"}[name]
        return Sql(
            f"{name}({column.name})",
            f"coalesce({function}({inner.format('')}) @, {empty}::DOUBLE)",
            f"{function}({inner.format('__n')}) @",
            "DOUBLE",
        )

    def _percentile(self) -> Sql:
        self.seen["aggregation PERCENTILE"] += 1
        argument, percentile = self.maker.number(1), self.rng.choice([0, 10, 50, 90, 99, 100])
        place = f"least(count({{0}}) * {percentile} // 100, count({{0}}) - 1)::BIGINT + 1"
        value = f"list_sort(list(({{0}})::DOUBLE) FILTER (({{0}}) IS NOT NULL))[{place}]"
        return Sql(
            f"PERCENTILE({argument.ours}, {percentile})",
            f"coalesce({value.format(argument.plain)}, '-inf'::DOUBLE)",
            value.format(argument.nulls),
            "DOUBLE",
        )

    def _filtered(self, call: Sql) -> Sql:
        if self.rng.random() < 0.2:
            self.seen["FILTER"] += 1
            condition = self.conditions.condition(1, searching=True)
            return replace(
                call,
                ours=f"{call.ours} FILTER (WHERE {condition.ours})",
                plain=_where(call.plain, f"AND ({condition.plain})", f"FILTER (WHERE {condition.plain})"),
                nulls=_where(call.nulls, f"AND ({condition.nulls})", f"FILTER (WHERE {condition.nulls})"),
            )
        return replace(call, plain=_where(call.plain), nulls=_where(call.nulls))

    # --- what is computed from them -----------------------------------------------------------------------------------

    def computed(self, calls: list[Sql]) -> Sql:
        """Arithmetic, a condition, CASE or COALESCE over aggregations that are numbers."""
        calls = _numbers(calls)
        first, second = self.rng.choice(calls), self.rng.choice(calls)
        match self.rng.choice(["+", "-", "*", "/", "compare", "case", "coalesce"]):
            case "compare":
                self.seen["comparison of aggregations selected"] += 1
                return self.condition(calls, 1)
            case "case":
                self.seen["CASE over aggregations"] += 1
                holds, other = self.condition(calls, 1), self.rng.choice([" ELSE 'few'", ""])
                text = f"CASE WHEN {{0}} THEN 'many'{other} END"
                return made("OBJECT", text, text, holds)
            case "coalesce":
                self.seen["COALESCE of aggregations"] += 1
                return made("OBJECT", "COALESCE({0}, 7)", "coalesce({0}, 7)", first)
            case sign:
                self.seen["arithmetic of aggregations"] += 1
                other = second if self.rng.random() < 0.6 else self.maker.constant("INT")
                return made("DOUBLE", f"{{0}} {sign} {{1}}", f"(({{0}})::DOUBLE {sign} ({{1}})::DOUBLE)", first, other)

    def condition(self, calls: list[Sql], depth: int) -> Sql:
        """A condition on groups."""
        calls = _numbers(calls)
        if depth > 0 and self.rng.random() < 0.6:
            if self.rng.random() < 0.25:
                return made("BOOLEAN", "NOT ({0})", "(NOT ({0}))", self.condition(calls, depth - 1))
            word = self.rng.choice(["AND", "OR"])
            self.seen[f"HAVING {word}"] += 1
            return made(
                "BOOLEAN",
                f"({{0}} {word} {{1}})",
                f"({{0}} {word} {{1}})",
                self.condition(calls, depth - 1),
                self.condition(calls, depth - 1),
            )
        call, roll = self.rng.choice(calls), self.rng.random()
        number = self.rng.choice([0, 1, 2, 3, 5, 10, -20, 100])
        if roll < 0.1:
            self.seen["HAVING BETWEEN"] += 1
            return nothing_as_zero(
                made(
                    "BOOLEAN",
                    f"{{0}} BETWEEN {number} AND {number + 20}",
                    f"({{0}} BETWEEN {number} AND {number + 20})",
                    call,
                )
            )
        if roll < 0.2:
            self.seen["HAVING IN"] += 1
            return nothing_as_zero(made("BOOLEAN", f"{{0}} IN (1, 2, {number})", f"({{0}} IN (1, 2, {number}))", call))
        if roll < 0.3 and self.null_handling:
            word = self.rng.choice(["IS NULL", "IS NOT NULL"])
            self.seen[f"HAVING {word}"] += 1
            return made("BOOLEAN", f"{{0}} {word}", f"(({{0}}) {word})", call)
        if roll < 0.45:
            self.seen["HAVING call to call"] += 1
            return self._compared(call, self.rng.choice(calls))
        return self._compared(call, Sql(str(number), str(number), str(number), "INT"))

    def _compared(self, left: Sql, right: Sql) -> Sql:
        operator = self.rng.choice(_COMPARISONS)
        return nothing_as_zero(
            made(
                "BOOLEAN",
                f"{{0}} {operator} {{1}}",
                compared(operator, "({0})::DOUBLE", "({1})::DOUBLE", "DOUBLE"),
                left,
                right,
            )
        )
