"""Random questions over a random table, each in PQL or SQL and in DuckDB's SQL, and the comparison of the answers.

The two texts are printed from one description, so that they mean the same; what PQL and SQL mean differently on purpose
(defaults of TOP, order of groups, text of numbers) is written down here and in docs/differences.md.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any, Protocol

import duckdb
import numpy as np
from duck_oracle import canonical, literal
from random_tables import RandomColumn, RandomTable

PATTERNS = ["a", "^a", "b$", "[0-9]+", "ü", "x.*", "null", "^$", "(ab|XY)"]
LIKES = ["a%", "%b", "%a%", "_", "__%", "%é%", "100\\%", "%"]
OPERATORS = ("=", "<>", "<", "<=", ">", ">=")


class Typed(Protocol):
    """A column or an expression."""

    @property
    def type(self) -> str: ...


@dataclass(slots=True)
class Question:
    """One question: `text` for us, `duck` for the oracle."""

    dialect: str
    kind: str
    text: str = ""
    duck: str = ""
    columns: list[RandomColumn] = field(default_factory=list)  # selected or grouped
    aggregations: list[tuple[str, RandomColumn | None]] = field(default_factory=list)
    order: list[tuple[RandomColumn, bool]] = field(default_factory=list)
    limit: int = 10
    offset: int = 0


def random_question(rng: random.Random, table: RandomTable) -> Question:
    """A selection, aggregation or group-by. PQL reads defaults for nulls, so tables with SQL nulls are asked in SQL."""
    dialect = "sql" if table.null_handling else rng.choice(["pql", "sql"])
    where = random_filter(rng, table, dialect, depth=rng.choice([0, 1, 1, 2, 3])) if rng.random() < 0.75 else None
    return question_about(rng, table, dialect, where)


def question_about(rng: random.Random, table: RandomTable, dialect: str, where: tuple[str, str] | None) -> Question:
    """Any question with this condition, in our text and DuckDB's."""
    kind = rng.choice(["selection", "aggregation", "group_by", "group_by"])
    build = {"selection": _selection, "aggregation": _aggregation, "group_by": _group_by}[kind]
    return build(rng, table, dialect, where)


# --- filters -------------------------------------------------------------------------------------------------------


def random_filter(rng: random.Random, table: RandomTable, dialect: str, depth: int) -> tuple[str, str]:
    """(our text, DuckDB's text) of a condition over columns."""
    if depth == 0:
        return _predicate(rng, table, dialect)
    parts = [
        random_filter(rng, table, dialect, depth - 1 if rng.random() < 0.7 else 0) for _ in range(rng.choice([2, 2, 3]))
    ]
    word = rng.choice([" AND ", " OR "])
    ours, duck = (f"({word.join(p[i] for p in parts)})" for i in (0, 1))
    if dialect == "sql" and rng.random() < 0.2:
        return f"NOT {ours}", f"NOT {duck}"
    return ours, duck


def _predicate(rng: random.Random, table: RandomTable, dialect: str) -> tuple[str, str]:
    column = rng.choice(table.columns)
    name = column.name
    choice = rng.random()
    if choice < 0.12:
        negated = rng.random() < 0.5
        words = "IS NOT NULL" if negated else "IS NULL"
        return f"{name} {words}", f"{'NOT ' if negated else ''}{name}__null"
    if column.type == "STRING" and choice < 0.3:
        pattern = rng.choice(PATTERNS)
        flag = "i" if dialect == "pql" else "c"
        return f"regexp_like({name}, '{pattern}')", duck_predicate(
            column, lambda x: f"regexp_matches({x}, '{pattern}', '{flag}')"
        )
    if column.type == "STRING" and dialect == "sql" and choice < 0.45:
        pattern = rng.choice(LIKES)
        return f"{name} LIKE '{pattern}'", duck_predicate(column, lambda x: f"{x} ILIKE '{pattern}' ESCAPE '\\'")
    if choice < 0.6:
        values = [probe(rng, column) for _ in range(rng.choice([1, 2, 5]))]
        excluded = rng.random() < 0.4
        ours = ", ".join(our_literal(column, v, dialect) for v in values)
        duck = ", ".join(literal(column, v) for v in values)
        return f"{name} {'NOT IN' if excluded else 'IN'} ({ours})", duck_predicate(
            column, lambda x: f"{x} IN ({duck})", excluded=excluded
        )
    if choice < 0.75:
        low, high = probe(rng, column), probe(rng, column)
        ours = f"{our_literal(column, low, dialect)} AND {our_literal(column, high, dialect)}"
        return f"{name} BETWEEN {ours}", duck_predicate(
            column, lambda x: f"{x} BETWEEN {literal(column, low)} AND {literal(column, high)}"
        )
    operator, value = rng.choice(OPERATORS), probe(rng, column)
    excluded = operator == "<>"
    duck_operator = "=" if excluded else operator
    ours = f"{name} {operator} {our_literal(column, value, dialect)}"
    return ours, duck_predicate(column, lambda x: f"{x} {duck_operator} {literal(column, value)}", excluded=excluded)


def duck_predicate(column: RandomColumn, condition: Any, *, excluded: bool = False) -> str:
    """condition: the text of a value's condition, by the value's name. A list passes if any of its values does;
    excluded: a value or a list passes if it, or none of its values, meets the condition.
    """
    if column.single_value:
        return f"{'NOT ' if excluded else ''}({condition(column.name)})"
    return f"len(list_filter({column.name}, lambda x: {condition('x')})) {'= 0' if excluded else '> 0'}"


def probe(rng: random.Random, column: RandomColumn) -> Any:
    """A literal: mostly a value of the column, else one beside it, or the default for null."""
    value = rng.choice(column.pool) if rng.random() < 0.8 else column.default
    if isinstance(value, float) and not math.isfinite(value):
        value = 0.5
    if rng.random() < 0.15 and column.type in ("INT", "LONG") and abs(value) < 2**31 - 2:
        return value + 1
    return value


def our_literal(column: RandomColumn, value: Any, dialect: str) -> str:
    match column.type:
        case "STRING" | "JSON":
            return "'" + value.replace("'", "''") + "'"
        case "BOOLEAN":
            return f"'{'true' if value else 'false'}'" if dialect == "pql" else ("true" if value else "false")
        case "BYTES":
            return f"'{value.hex()}'"
        case "FLOAT" | "DOUBLE":
            text = f"{Decimal(repr(value)):f}"
            return text if "." in text else text + ".0"
        case "BIG_DECIMAL":
            return f"'{value:f}'"
        case _:
            return str(value) if value > -(2**63) else f"'{value}'"


# --- kinds ---------------------------------------------------------------------------------------------------------


def _where(where: tuple[str, str] | None, index: int) -> str:
    return "" if where is None else f" WHERE {where[index]}"


def _selection(rng: random.Random, table: RandomTable, dialect: str, where: tuple[str, str] | None) -> Question:
    columns = rng.sample(table.columns, rng.randint(1, min(4, len(table.columns))))
    sortable = [c for c in columns if c.single_value]
    order = [(c, rng.random() < 0.6) for c in rng.sample(sortable, rng.randint(0, len(sortable)))]
    limit, offset = rng.choice([0, 1, 5, 10, 1000]), rng.choice([0, 0, 0, 3])
    names = ", ".join(c.name for c in columns)
    by = ", ".join(f"{c.name} {'ASC' if up else 'DESC'}" for c, up in order)
    ours = (
        f"SELECT {names} FROM t{_where(where, 0)}{f' ORDER BY {by}' if by else ''} LIMIT "
        f"{f'{offset}, ' if offset else ''}{limit}"
    )
    keys = ", ".join(f"{c.name} {'ASC NULLS LAST' if up else 'DESC NULLS FIRST'}" for c, up in order)
    duck = f"SELECT {names} FROM t{_where(where, 1)}{f' ORDER BY {keys}' if keys else ''}"
    return Question(dialect, "selection", ours, duck, columns, order=order, limit=limit, offset=offset)


def _aggregations(
    rng: random.Random, table: RandomTable
) -> tuple[list[tuple[str, RandomColumn | None]], RandomColumn | None]:
    """Aggregations, and the multi-value column that they are over (then all are)."""
    lists = [c for c in table.columns if not c.single_value]
    if lists and rng.random() < 0.25:
        column = rng.choice(lists)
        known = ["COUNTMV", "DISTINCTCOUNTMV"] + (
            ["SUMMV", "MINMV", "MAXMV", "AVGMV", "MINMAXRANGEMV"] if column.is_number else []
        )
        return [(name, column) for name in rng.sample(known, rng.randint(1, min(3, len(known))))], column
    chosen: list[tuple[str, RandomColumn | None]] = []
    for _ in range(rng.randint(1, 3)):
        numbers = [c for c in table.columns if c.single_value and c.is_number]
        singles = [c for c in table.columns if c.single_value]
        roll = rng.random()
        if roll < 0.3 or not singles:
            chosen.append(("COUNT", None))
        elif roll < 0.5 or not numbers:
            chosen.append(("DISTINCTCOUNT", rng.choice(singles)))
        else:
            chosen.append((rng.choice(["SUM", "MIN", "MAX", "AVG", "MINMAXRANGE"]), rng.choice(numbers)))
    return list(dict.fromkeys(chosen)), None


def _duck_aggregation(name: str, column: RandomColumn | None, over_list: bool) -> list[str]:
    """The numbers from which the expected value is computed here, exactly."""
    if column is None:
        return ["count(*)"]
    value = "v" if over_list else column.name
    match name.removesuffix("MV"):
        case "COUNT":
            return [f"count({value})"]
        case "DISTINCTCOUNT":
            return [f"count(DISTINCT {value})"]
        case "SUM" | "AVG":
            exact = f"sum({value}::HUGEINT)" if column.type in ("INT", "LONG") else f"sum({value}::DOUBLE)"
            return [exact, f"count({value})", f"sum(abs({value}::DOUBLE))"]
        case _:
            return [f"min({value})", f"max({value})"]


def _aggregation(rng: random.Random, table: RandomTable, dialect: str, where: tuple[str, str] | None) -> Question:
    chosen, over = _aggregations(rng, table)
    ours = f"SELECT {', '.join(_call(a) for a in chosen)} FROM t{_where(where, 0)}"
    parts = [part for name, column in chosen for part in _duck_aggregation(name, column, over is not None)]
    source = f"t{_where(where, 1)}" if over is None else f"(SELECT {_spread(over)} AS v FROM t{_where(where, 1)})"
    return Question(dialect, "aggregation", ours, f"SELECT {', '.join(parts)} FROM {source}", aggregations=chosen)


def _spread(column: RandomColumn) -> str:
    """One row a value; a row without a list stays, with a null, so that its group is not lost."""
    return f"unnest(coalesce({column.name}, [NULL]))"


def _call(aggregation: tuple[str, RandomColumn | None]) -> str:
    name, column = aggregation
    return "COUNT(*)" if column is None else f"{name}({column.name})"


def _group_by(rng: random.Random, table: RandomTable, dialect: str, where: tuple[str, str] | None) -> Question:
    chosen, over = _aggregations(rng, table)
    candidates = [c for c in table.columns if over is None or (c.single_value and c is not over)]
    if not candidates:
        return _aggregation(rng, table, dialect, where)
    # A row counts once per value of a multi-value key, and SQL nulls of such keys have rules of their own: one of them
    # at most.
    keys = rng.sample(candidates, rng.randint(1, min(3, len(candidates))))
    while sum(not k.single_value for k in keys) > 1 or (table.null_handling and any(not k.single_value for k in keys)):
        keys = [k for k in keys if k.single_value] or [candidates[0]]
        if len(keys) == 1 and not keys[0].single_value:
            return _aggregation(rng, table, dialect, where)
    names = ", ".join(k.name for k in keys)
    calls = ", ".join(_call(a) for a in chosen)
    having = f" HAVING COUNT(*) > {rng.randint(1, 4)}" if over is None and rng.random() < 0.2 else ""
    if dialect == "pql":
        ours = f"SELECT {calls} FROM t{_where(where, 0)} GROUP BY {names}{having} TOP 100000"
    else:
        ours = f"SELECT {names}, {calls} FROM t{_where(where, 0)} GROUP BY {names}{having} LIMIT 100000"
    parts = [part for name, column in chosen for part in _duck_aggregation(name, column, over is not None)]
    spread = {k.name: f"unnest({k.name})" for k in keys if not k.single_value}
    if spread or over is not None:
        inner = [
            f"{spread[c.name]} AS {c.name}" if c.name in spread else c.name for c in table.columns if c is not over
        ]
        inner += [f"{_spread(over)} AS v"] if over is not None else []
        source = f"(SELECT {', '.join(inner)} FROM t{_where(where, 1)})"
    else:
        source = f"t{_where(where, 1)}"
    duck = f"SELECT {names}, {', '.join(parts)} FROM {source} GROUP BY {names}{having}"
    if spread and any(column is not None and column.name in spread for _, column in chosen):
        return _aggregation(rng, table, dialect, where)
    return Question(dialect, "group_by", ours, duck, keys, chosen)


# --- comparison ----------------------------------------------------------------------------------------------------


def check(
    question: Question, answer: dict[str, Any], connection: duckdb.DuckDBPyConnection, *, null_handling: bool
) -> None:
    """Raise AssertionError unless `answer` is the right one."""
    assert not answer["exceptions"], answer["exceptions"]
    assert answer["exactness"] == "exact"
    expected = connection.execute(question.duck).fetchall()
    match question.kind:
        case "selection":
            _check_selection(question, answer, expected)
        case "aggregation":
            _check_aggregation(question, answer, expected[0], null_handling)
        case _:
            _check_groups(question, answer, expected, null_handling)


def _check_selection(question: Question, answer: dict[str, Any], expected: list[tuple[Any, ...]]) -> None:
    shown = answer["resultTable"]["rows"] if "resultTable" in answer else answer["selectionResults"]["results"]
    got = [tuple(our_value(c, v) for c, v in zip(question.columns, row, strict=True)) for row in shown]
    all_rows = [
        tuple(_hashable(canonical(c, v)) for c, v in zip(question.columns, row, strict=True)) for row in expected
    ]
    assert len(got) == max(0, min(question.limit, len(all_rows) - question.offset)), (
        f"{len(got)} rows of {len(all_rows)}"
    )
    keys = [question.columns.index(c) for c, _ in question.order]
    if keys:
        window = all_rows[question.offset : question.offset + question.limit]
        assert [tuple(row[k] for k in keys) for row in got] == [tuple(row[k] for k in keys) for row in window]
    surplus = Counter(got) - Counter(all_rows)
    assert not surplus, f"rows that are not in the table: {list(surplus)[:3]}"


def _check_aggregation(
    question: Question, answer: dict[str, Any], numbers: tuple[Any, ...], null_handling: bool
) -> None:
    shown = (
        answer["resultTable"]["rows"][0]
        if "resultTable" in answer
        else [a["value"] for a in answer["aggregationResults"]]
    )
    _check_values(question, shown, numbers, null_handling)


def _check_groups(
    question: Question, answer: dict[str, Any], expected: list[tuple[Any, ...]], null_handling: bool
) -> None:
    width = len(question.columns)
    wanted = {
        tuple(_hashable(canonical(c, v)) for c, v in zip(question.columns, row[:width], strict=True)): row[width:]
        for row in expected
    }
    if "resultTable" in answer:
        rows = [(row[:width], row[width:]) for row in answer["resultTable"]["rows"]]
    else:
        merged: dict[tuple[str, ...], list[Any]] = {}
        for aggregation in answer["aggregationResults"]:
            values = [number_of(g["value"]) for g in aggregation["groupByResult"]]
            smallest_first = aggregation["function"].lower().startswith(("min_", "minmv_"))
            assert values == sorted(values, key=total_order, reverse=not smallest_first), "groups are not in order"
            for group in aggregation["groupByResult"]:
                merged.setdefault(tuple(group["group"]), []).append(group["value"])
        rows = [(list(group), values) for group, values in merged.items()]
    got = {tuple(our_value(c, v) for c, v in zip(question.columns, key, strict=True)): values for key, values in rows}
    assert len(got) == len(rows), "a group came twice"
    assert got.keys() == wanted.keys(), (
        f"groups differ: missing {list(wanted.keys() - got.keys())[:3]}, surplus {list(got.keys() - wanted.keys())[:3]}"
    )
    for key, values in got.items():
        _check_values(question, values, wanted[key], null_handling)


def _check_values(question: Question, shown: list[Any], numbers: tuple[Any, ...], null_handling: bool) -> None:
    position = 0
    for (name, column), value in zip(question.aggregations, shown, strict=True):
        width = len(_duck_aggregation(name, column, False))
        parts = numbers[position : position + width]
        position += width
        want, tolerance = _expected(name.removesuffix("MV"), column, parts, null_handling)
        if want is None:
            assert value is None, f"{name}: {value}, expected null"
            continue
        found = number_of(value)
        same = found == want or (math.isnan(found) and math.isnan(want)) or abs(found - want) <= tolerance
        assert same, f"{name}({column.name if column else '*'}): {value}, expected {want!r}"


def _expected(
    name: str, column: RandomColumn | None, parts: tuple[Any, ...], null_handling: bool
) -> tuple[float | None, float]:
    """Expected value and how far off it may be (printed decimals, and 1e-12 of the sum of absolute values)."""
    if name in ("COUNT", "DISTINCTCOUNT"):
        return parts[0], 0.0
    if parts[0] is None:  # nothing to aggregate
        if null_handling:
            return None, 0.0
        return {"SUM": 0.0, "MIN": math.inf}.get(name, -math.inf), 0.0
    if name in ("MIN", "MAX", "MINMAXRANGE"):
        low, high = float(parts[0]), float(parts[1])
        value = {"MIN": low, "MAX": high, "MINMAXRANGE": high - low}[name]
        return value, _printed(value)
    total, count, absolute = parts
    exact = isinstance(total, int)
    value = float(total) if name == "SUM" else float(Fraction(total) / count) if exact else float(total) / count
    slack = 0.0 if exact or not math.isfinite(absolute) else 1e-12 * absolute
    return value, slack + _printed(value)


def _printed(value: float) -> float:
    """PQL prints five decimals; SQL prints all."""
    return 6e-6 if math.isfinite(value) else 0.0


def number_of(value: Any) -> float:
    """A number of an answer: integers stay exact."""
    return float(value) if not isinstance(value, int) else value


def total_order(value: float) -> tuple[int, float]:
    """A sort key: NaN above all numbers."""
    return (1, 0.0) if math.isnan(value) else (0, value)


def _hashable(value: Any) -> Any:
    return tuple(_hashable(v) for v in value) if isinstance(value, list) else value


def our_value(column: Typed, value: Any) -> Any:
    """A value of our answer (native or text) in canonical form."""
    if isinstance(value, list):
        return tuple(our_value(column, v) for v in value)
    if value is None:
        return None
    match column.type:
        case "INT" | "LONG":
            return int(value)
        case "FLOAT":
            return float(np.float32(float(value)))
        case "DOUBLE":
            return float(value)
        case "BOOLEAN":
            return value if isinstance(value, bool) else {"true": True, "false": False}[value]
        case "TIMESTAMP":
            return value if isinstance(value, int) else _millis(value)
        case "BIG_DECIMAL":
            return Decimal(value).normalize()
        case _:
            return value


def _millis(text: str) -> int:
    if text.lstrip("-").isdigit():
        return int(text)
    moment = datetime.strptime(text, "%Y-%m-%d %H:%M:%S.%f").replace(tzinfo=UTC)
    whole, part = divmod((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds(), 1)
    return int(whole) * 1000 + round(part * 1000)
