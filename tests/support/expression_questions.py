"""Random queries whose select lists, filters, group keys, orders and arguments are random expressions, and the full
comparison of their answers with DuckDB's.

DuckDB computes the values row by row and collects them into groups; sums, percentiles and the cut of an order are then
computed here from the collected values: exactly, with math.fsum, sorting and counting.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

import duckdb
from duck_oracle import DUCK_TYPES
from random_expressions import Expr, Expressions, compared
from random_queries import number_of, our_value, random_filter, total_order
from random_tables import RandomTable

PATTERNS = ("a", "^a", "b$", "[0-9]+", "z.*", "^$", "(ab|XY)", "é")
EVERYTHING = 100_000
NAN = ("NaN",)  # in compared rows: equal to itself and to no text


@dataclass(frozen=True, slots=True)
class Aggregation:
    """`name` without MV; `argument` None for COUNT(*)."""

    name: str
    argument: Expr | None
    percentile: int = 0

    def call(self, dialect: str) -> str:
        if self.argument is None:
            return "COUNT(*)"
        suffix = "" if self.argument.single else "MV"
        if self.name != "PERCENTILE":
            return f"{self.name}{suffix}({self.argument.ours})"
        if dialect == "pql":
            return f"PERCENTILE{self.percentile}{suffix}({self.argument.ours})"
        return f"PERCENTILE{suffix}({self.argument.ours}, {self.percentile})"


@dataclass(slots=True)
class ExpressionQuestion:
    """One question: `text` for us, `duck` for the oracle; `keys` are selected or grouped, `order` sorted by."""

    dialect: str
    kind: str
    text: str
    duck: str
    keys: list[Expr]
    order: list[tuple[Expr, bool]] = field(default_factory=list)
    aggregations: list[Aggregation] = field(default_factory=list)
    limit: int = EVERYTHING
    offset: int = 0
    having: tuple[int, int] | None = None  # (position of the COUNT(*), more than)


def random_expression_question(
    rng: random.Random, table: RandomTable, connection: duckdb.DuckDBPyConnection
) -> ExpressionQuestion:
    """A selection, DISTINCT, aggregation or group-by. Tables with SQL nulls are asked in SQL: PQL reads defaults."""
    dialect = "sql" if table.null_handling else rng.choice(["pql", "sql"])
    maker = Expressions(rng, table, dialect)
    filters = FilterMaker(rng, table, dialect, maker, connection)
    where = filters.make(rng.choice([0, 1, 1, 2])) if rng.random() < 0.7 else None
    build = rng.choice([_selection, _selection, _distinct, _aggregation, _group_by, _group_by, _group_by])
    return build(rng, maker, where)


# --- filters ----------------------------------------------------------------------------------------------------------


class FilterMaker:
    """Conditions over expressions, compared with values that the expression has, mixed with plain predicates."""

    def __init__(
        self,
        rng: random.Random,
        table: RandomTable,
        dialect: str,
        maker: Expressions,
        connection: duckdb.DuckDBPyConnection,
    ) -> None:
        self.rng, self.table, self.dialect, self.maker, self.connection = rng, table, dialect, maker, connection

    def make(self, depth: int) -> tuple[str, str]:
        """(our text, DuckDB's text)."""
        if depth > 0:
            parts = [self.make(depth - 1) for _ in range(self.rng.choice([2, 2, 3]))]
            word = self.rng.choice([" AND ", " OR "])
            ours, duck = (f"({word.join(part[i] for part in parts)})" for i in (0, 1))
            if self.dialect == "sql" and self.rng.random() < 0.25:
                return f"NOT {ours}", f"NOT {duck}"
            return ours, duck
        if self.rng.random() < 0.25:
            return random_filter(self.rng, self.table, self.dialect, 0)
        if self.dialect == "sql" and self.rng.random() < 0.15:
            condition = self.maker.condition(1)
            return condition.ours, condition.duck
        return self.predicate(self.maker.value(2))

    def predicate(self, subject: Expr) -> tuple[str, str]:
        """An expression beside literals."""
        if subject.type == "BOOLEAN":
            return subject.ours, subject.duck
        choice = self.rng.random()
        if subject.type == "STRING" and choice < 0.2:
            pattern = self.rng.choice(PATTERNS)
            return (
                f"regexp_like({subject.ours}, '{pattern}')",
                f"regexp_matches({subject.duck}, '{pattern}', '{'i' if self.dialect == 'pql' else 'c'}')",
            )
        probes = self._probes(subject)
        if choice < 0.4:
            values = [self.rng.choice(probes) for _ in range(self.rng.choice([1, 2, 5]))]
            excluded = "NOT " if self.rng.random() < 0.4 else ""
            ours, duck = (", ".join(texts) for texts in zip(*(_literals(subject, v) for v in values), strict=True))
            return f"{subject.ours} {excluded}IN ({ours})", f"({subject.duck}) {excluded}IN ({duck})"
        if choice < 0.55:
            low, high = (_literals(subject, self.rng.choice(probes)) for _ in range(2))
            excluded = "NOT " if self.rng.random() < 0.3 else ""
            return (
                f"{subject.ours} {excluded}BETWEEN {low[0]} AND {high[0]}",
                f"({subject.duck}) {excluded}BETWEEN {low[1]} AND {high[1]}",
            )
        operator = self.rng.choice(["=", "<>", "<", "<=", ">", ">="])
        value = _literals(subject, self.rng.choice(probes))
        return f"{subject.ours} {operator} {value[0]}", compared(
            operator, f"({subject.duck})", value[1], DUCK_TYPES[subject.type]
        )

    def _probes(self, subject: Expr) -> list[Any]:
        rows = self.connection.execute(
            f"SELECT DISTINCT v FROM (SELECT {subject.duck} AS v FROM t LIMIT 200) ORDER BY v LIMIT 40"
        ).fetchall()
        found = [
            row[0] for row in rows if row[0] is not None and (not isinstance(row[0], float) or math.isfinite(row[0]))
        ]
        found = [value for value in found if not (isinstance(value, int) and value == -(2**63))]
        return [*found, "a" if subject.type == "STRING" else 2]


def _literals(subject: Expr, value: Any) -> tuple[str, str]:
    if subject.type == "STRING":
        text = "'" + value.replace("'", "''") + "'"
        return text, text
    if subject.type in ("FLOAT", "DOUBLE"):
        text = f"{Decimal(repr(float(value))):f}"
        return text if "." in text else text + ".0", f"'{float(value)!r}'::{DUCK_TYPES[subject.type]}"
    return str(value), f"({value})::{DUCK_TYPES[subject.type]}"


# --- kinds ------------------------------------------------------------------------------------------------------------


def _where(where: tuple[str, str] | None, index: int) -> str:
    return "" if where is None else f" WHERE {where[index]}"


def _list(expressions: Sequence[Expr]) -> str:
    return ", ".join(e.ours for e in expressions)


def _selection(rng: random.Random, maker: Expressions, where: tuple[str, str] | None) -> ExpressionQuestion:
    shown = _unlike([maker.shown() for _ in range(rng.randint(1, 3))])
    order = [(e, rng.random() < 0.6) for e in _unlike([maker.value(1) for _ in range(rng.choice([0, 1, 1, 2]))])]
    limit, offset = rng.choice([1, 5, 10, EVERYTHING]), rng.choice([0, 0, 0, 3])
    by = f" ORDER BY {', '.join(f'{e.ours} {_direction(up)}' for e, up in order)}" if order else ""
    text = f"SELECT {_list(shown)} FROM t{_where(where, 0)}{by} LIMIT {f'{offset}, ' if offset else ''}{limit}"
    duck = f"SELECT {', '.join(e.duck for e in [*shown, *(e for e, _ in order)])} FROM t{_where(where, 1)}"
    return ExpressionQuestion(maker.dialect, "selection", text, duck, shown, order, limit=limit, offset=offset)


def _direction(up: bool) -> str:
    return "ASC" if up else "DESC"


def _unlike(expressions: list[Expr]) -> list[Expr]:
    """No two of one text, and at most one that is not exact: rows are matched by the others."""
    kept: dict[str, Expr] = {}
    for expression in expressions:
        if expression.exact or all(e.exact for e in kept.values()):
            kept.setdefault(expression.ours, expression)
    return list(kept.values())


def _distinct(rng: random.Random, maker: Expressions, where: tuple[str, str] | None) -> ExpressionQuestion:
    shown = _unlike([maker.value() for _ in range(rng.randint(1, 3))])
    text = (
        f"SELECT DISTINCT {f'({_list(shown)})' if maker.pql else _list(shown)} FROM t{_where(where, 0)} LIMIT "
        f"{EVERYTHING}"
    )
    keys = ", ".join(_key(e) for e in shown)
    return ExpressionQuestion(
        maker.dialect, "distinct", text, f"SELECT DISTINCT {keys} FROM t{_where(where, 1)}", shown
    )


def _key(expression: Expr) -> str:
    return f"p_key({expression.duck})" if expression.type in ("FLOAT", "DOUBLE") else expression.duck


def _aggregations(rng: random.Random, maker: Expressions) -> list[Aggregation]:
    """One to four; multi-value arguments only where no row lacks its list (their rules for nulls are tested
    elsewhere).
    """
    chosen: dict[str, Aggregation] = {}
    lists = [] if maker.table.null_handling else [c for c in maker.table.columns if not c.single_value]
    for _ in range(rng.randint(1, 4)):
        roll = rng.random()
        if roll < 0.2:
            found = Aggregation("COUNT", None)
        elif lists and roll < 0.4:
            argument = maker.list()
            numeric = (
                ["SUM", "MIN", "MAX", "AVG", "MINMAXRANGE", "PERCENTILE"]
                if argument.type in ("INT", "LONG", "FLOAT", "DOUBLE")
                else []
            )
            found = Aggregation(
                rng.choice(["COUNT", "DISTINCTCOUNT", *numeric]), argument, rng.choice([0, 5, 50, 95, 99, 100])
            )
        elif roll < 0.55:
            found = Aggregation("DISTINCTCOUNT", maker.value())
        else:
            argument = maker.inexact(2) if rng.random() < 0.15 else maker.number(2)
            names = ["COUNT", "SUM", "SUM", "MIN", "MAX", "AVG", "AVG", "MINMAXRANGE", "PERCENTILE", "PERCENTILE"]
            found = Aggregation(rng.choice(names), argument, rng.choice([0, 5, 50, 90, 95, 99, 100]))
        chosen[found.call(maker.dialect)] = found
    return list(chosen.values())


def _aggregation(rng: random.Random, maker: Expressions, where: tuple[str, str] | None) -> ExpressionQuestion:
    chosen = _aggregations(rng, maker)
    text = f"SELECT {', '.join(a.call(maker.dialect) for a in chosen)} FROM t{_where(where, 0)}"
    duck = (
        f"SELECT {', '.join(_collected(a, a.argument.duck if a.argument else '') for a in chosen)} FROM "
        f"t{_where(where, 1)}"
    )
    return ExpressionQuestion(maker.dialect, "aggregation", text, duck, [], aggregations=chosen)


def _collected(aggregation: Aggregation, values: str) -> str:
    """All values that the aggregation sees, as a list; of COUNT(*) the number of rows."""
    if aggregation.argument is None:
        return "count(*)"
    kept = f"list({values}) FILTER (({values}) IS NOT NULL)"
    return kept if aggregation.argument.single else f"flatten({kept})"


def _group_by(rng: random.Random, maker: Expressions, where: tuple[str, str] | None) -> ExpressionQuestion:
    chosen = _aggregations(rng, maker)
    keys = [maker.value() for _ in range(rng.randint(1, 3))]
    if not maker.table.null_handling and any(not c.single_value for c in maker.table.columns):
        keys += [maker.list() for _ in range(rng.choice([0, 0, 1, 1, 2]))]
    keys = _unlike(keys)[:4]
    counts = [number for number, a in enumerate(chosen) if a.argument is None]
    having = (counts[0], rng.randint(0, 3)) if counts and rng.random() < 0.4 else None
    calls, by = ", ".join(a.call(maker.dialect) for a in chosen), f"{_where(where, 0)} GROUP BY {_list(keys)}"
    having_text = f" HAVING COUNT(*) > {having[1]}" if having else ""
    limit = (
        rng.choice([1, 3, 10])
        if maker.pql and all(a.argument is None or a.argument.exact for a in chosen) and rng.random() < 0.3
        else EVERYTHING
    )
    if maker.pql:
        text = f"SELECT {calls} FROM t{by}{having_text} TOP {limit}"
    else:
        text = f"SELECT {_list(keys)}, {calls} FROM t{by}{having_text} LIMIT {limit}"
    return ExpressionQuestion(
        maker.dialect,
        "group_by",
        text,
        _grouped(keys, chosen, where),
        keys,
        aggregations=chosen,
        limit=limit,
        having=having,
    )


def _grouped(keys: list[Expr], chosen: list[Aggregation], where: tuple[str, str] | None) -> str:
    """A row belongs to a group for every value of a multi-value key, to all combinations of several."""
    columns = [f"{_key(k) if k.single else k.duck} AS k{n}" for n, k in enumerate(keys)]
    columns += [f"{a.argument.duck} AS a{n}" for n, a in enumerate(chosen) if a.argument is not None]
    source = f"SELECT {', '.join(columns)} FROM t{_where(where, 1)}"
    for number, key in enumerate(keys):
        if not key.single:
            source = f"SELECT * REPLACE (unnest(k{number}) AS k{number}) FROM ({source})"
    names = ", ".join(f"k{n}" for n in range(len(keys)))
    return (
        f"SELECT {names}, {', '.join(_collected(a, f'a{n}') for n, a in enumerate(chosen))} FROM ({source}) GROUP "
        f"BY {names}"
    )


# --- comparison -------------------------------------------------------------------------------------------------------


def check_expressions(
    question: ExpressionQuestion, answer: dict[str, Any], connection: duckdb.DuckDBPyConnection, *, null_handling: bool
) -> None:
    """Raise AssertionError unless `answer` is the right one."""
    assert not answer["exceptions"], answer["exceptions"]
    expected = connection.execute(question.duck).fetchall()
    match question.kind:
        case "selection":
            _check_selection(question, answer, expected)
        case "distinct":
            got = [_row(question.keys, row) for row in _rows(answer)]
            assert len(set(got)) == len(got), "a row came twice"
            wanted = {_row(question.keys, row) for row in expected}
            assert set(got) == wanted, f"missing {list(wanted - set(got))[:3]}, surplus {list(set(got) - wanted)[:3]}"
        case "aggregation":
            _check_values(question, _rows(answer)[0], expected[0], null_handling)
        case _:
            _check_groups(question, answer, expected, null_handling)


def _rows(answer: dict[str, Any]) -> list[list[Any]]:
    if "resultTable" in answer:
        rows: list[list[Any]] = answer["resultTable"]["rows"]
        return rows
    if "selectionResults" in answer:
        shown: list[list[Any]] = answer["selectionResults"]["results"]
        return shown
    return [[a["value"] for a in answer["aggregationResults"]]]


def _row(expressions: Sequence[Expr], values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(_comparable(e, v) for e, v in zip(expressions, values, strict=True))


def _comparable(expression: Expr, value: Any) -> Any:
    """A value of either side, equal where they are the same value: NaN is itself."""
    if isinstance(value, list | tuple):
        return tuple(_comparable(expression, v) for v in value)
    if isinstance(value, bytes):
        return value.hex()
    found = our_value(expression, value)
    return NAN if isinstance(found, float) and math.isnan(found) else found


def _check_selection(question: ExpressionQuestion, answer: dict[str, Any], expected: list[tuple[Any, ...]]) -> None:
    width = len(question.keys)
    rows = [(_row(question.keys, row[:width]), _row([e for e, _ in question.order], row[width:])) for row in expected]
    got = [_row(question.keys, row) for row in _rows(answer)]
    stop = min(question.offset + question.limit, len(rows))
    assert len(got) == max(0, stop - question.offset), f"{len(got)} rows of {len(rows)}"
    for position in reversed(range(len(question.order))):
        up = question.order[position][1]
        rows.sort(key=lambda row, position=position: _sort_key(row[1][position]), reverse=not up)  # type: ignore[misc]
    start = 0
    while start < len(rows):  # rows of one key: any order among them, any of them at the cut
        end = start
        while end < len(rows) and rows[end][1] == rows[start][1]:
            end += 1
        first, last = max(start, question.offset), min(end, stop)
        if first < last:
            shown = got[first - question.offset : last - question.offset]
            _check_among(question.keys, shown, [row for row, _ in rows[start:end]])
        start = end


def _sort_key(value: Any) -> tuple[int, Any]:
    """Nulls stand last, NaN before them; text by its bytes."""
    if value is None:
        return (2, 0)
    if value == NAN:
        return (1, 0)
    return (0, value.encode()) if isinstance(value, str) else (0, value)


def _check_among(expressions: Sequence[Expr], shown: list[tuple[Any, ...]], rows: list[tuple[Any, ...]]) -> None:
    fuzzy = next((n for n, e in enumerate(expressions) if not e.exact), None)
    if fuzzy is None:
        surplus = Counter(shown) - Counter(rows)
        assert not surplus, (
            f"rows that are not there: {list(surplus)[:3]}, rows: {list(Counter(rows) - Counter(shown))[:3]}"
        )
        return
    left: dict[tuple[Any, ...], list[Any]] = {}
    for row in rows:
        left.setdefault((*row[:fuzzy], *row[fuzzy + 1 :]), []).append(row[fuzzy])
    for row in shown:
        near = [v for v in left.get((*row[:fuzzy], *row[fuzzy + 1 :]), []) if _near(v, row[fuzzy])]
        assert near, f"a row that is not there: {row}"
        left[(*row[:fuzzy], *row[fuzzy + 1 :])].remove(near[0])


def _near(a: Any, b: Any, slack: float = 0.0) -> bool:
    if a == b or not isinstance(a, int | float) or not isinstance(b, int | float):
        return bool(a == b)
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return math.isfinite(a) and math.isfinite(b) and abs(a - b) <= max(slack, 1e-9 * max(abs(a), abs(b)))


def _check_groups(
    question: ExpressionQuestion, answer: dict[str, Any], expected: list[tuple[Any, ...]], null_handling: bool
) -> None:
    width = len(question.keys)
    if question.having is not None:
        place, more_than = question.having
        expected = [row for row in expected if row[width + place] > more_than]
    wanted = {_row(question.keys, row[:width]): row[width:] for row in expected}
    assert len(wanted) == len(expected)
    if "resultTable" in answer:
        rows = [(row[:width], row[width:]) for row in answer["resultTable"]["rows"]]
        got = {_row(question.keys, key): values for key, values in rows}
        assert len(got) == len(rows), "a group came twice"
        assert got.keys() == wanted.keys(), (
            f"missing {list(wanted.keys() - got.keys())[:3]}, surplus {list(got.keys() - wanted.keys())[:3]}"
        )
        for key, values in got.items():
            _check_values(question, values, wanted[key], null_handling)
        return
    for number, aggregation in enumerate(question.aggregations):
        groups = answer["aggregationResults"][number]["groupByResult"]
        shown = {_row(question.keys, group["group"]): group["value"] for group in groups}
        assert len(shown) == len(groups), "a group came twice"
        assert len(shown) == min(question.limit, len(wanted)), f"{len(shown)} groups of {len(wanted)}"
        assert shown.keys() <= wanted.keys(), (
            f"missing {list(wanted.keys() - shown.keys())[:3]}, surplus {list(shown.keys() - wanted.keys())[:3]}"
        )
        for key, value in shown.items():
            _check_value(aggregation, value, wanted[key][number], null_handling)
        ups = aggregation.name == "MIN"
        values = [number_of(group["value"]) for group in groups]
        assert values == sorted(values, key=total_order, reverse=not ups) or any(math.isnan(v) for v in values), (
            "groups are not in order"
        )
        if len(groups) < len(wanted):
            best = sorted(
                (_expected(aggregation, row[number], null_handling)[0] or 0.0 for row in wanted.values()),
                key=total_order,
                reverse=not ups,
            )
            _, slack = _expected(aggregation, wanted[_row(question.keys, groups[-1]["group"])][number], null_handling)
            assert _near(best[len(groups) - 1], values[-1], slack), (
                f"a better group is missing: {best[len(groups) - 1]} is not {values[-1]}"
            )


def _check_values(
    question: ExpressionQuestion, shown: Sequence[Any], collected: Sequence[Any], null_handling: bool
) -> None:
    for aggregation, value, values in zip(question.aggregations, shown, collected, strict=True):
        _check_value(aggregation, value, values, null_handling)


def _check_value(aggregation: Aggregation, shown: Any, values: Any, null_handling: bool) -> None:
    want, slack = _expected(aggregation, values, null_handling)
    if want is None:
        assert shown is None, f"{aggregation}: {shown}, expected null"
        return
    found = number_of(shown)
    exact = aggregation.argument is None or aggregation.argument.exact
    same = (
        found == want
        or (math.isnan(found) and math.isnan(want))
        or (not exact and _near(found, want))
        or abs(found - want) <= slack
    )
    assert same, f"{aggregation}: {shown}, expected {want!r}"


def _expected(aggregation: Aggregation, values: Any, null_handling: bool) -> tuple[Any, float]:
    """What the aggregation gives for the values, and how far off the answer may be."""
    if aggregation.argument is None:
        return values, 0.0
    kept: list[Any] = [] if values is None else values
    if aggregation.name == "COUNT":
        return len(kept), 0.0
    if aggregation.name == "DISTINCTCOUNT":
        return len({_comparable(aggregation.argument, v) for v in kept}), 0.0
    if not kept:
        return (None if null_handling else {"SUM": 0.0, "MIN": math.inf}.get(aggregation.name, -math.inf)), 0.0
    ordered: Callable[[], list[Any]] = lambda: sorted(kept, key=total_order)  # noqa: E731
    match aggregation.name:
        case "MIN":
            return float(ordered()[0]), 0.0
        case "MAX":
            return float(ordered()[-1]), 0.0
        case "MINMAXRANGE":
            return float(ordered()[-1]) - float(ordered()[0]), 0.0
        case "PERCENTILE":
            place = len(kept) * aggregation.percentile // 100
            return float(ordered()[min(place, len(kept) - 1)]), 0.0
    return _total(kept, aggregation)


def _total(values: list[Any], aggregation: Aggregation) -> tuple[float, float]:
    count = len(values) if aggregation.name == "AVG" else 1
    if all(isinstance(v, int) for v in values):
        return float(Fraction(sum(values), count)), 0.0
    infinite = {v for v in values if not math.isfinite(v)}
    if infinite:
        return sum(infinite), 0.0
    try:
        total, absolute = math.fsum(values), math.fsum(map(abs, values))
    except OverflowError:
        exact = sum(map(Fraction, values))
        return (math.copysign(math.inf, exact) if abs(exact) >= 2**1024 else float(exact) / count), 1e300
    slack = 1e-9 if aggregation.argument is not None and not aggregation.argument.exact else 1e-12
    return total / count, slack * absolute / count if math.isfinite(absolute) else 1e300
