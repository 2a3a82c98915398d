"""Conditions that leave segments of a prunable table out, each in our text and in DuckDB's: narrow ones of the columns
by which segments are cut, of the partitioned and of the time column, in all its units and functions.
"""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime
from typing import Any

from duck_oracle import literal
from prunable_tables import DAY_MS, HOUR_MS, PrunableTable
from random_queries import OPERATORS, Question, duck_predicate, our_literal, question_about, random_filter
from random_tables import RandomColumn, sort_value

Texts = tuple[str, str]
UNITS_MS = {"DAYS": DAY_MS, "HOURS": HOUR_MS, "MINUTES": 60_000, "SECONDS": 1000, "MILLISECONDS": 1}


def narrow_question(rng: random.Random, prunable: PrunableTable) -> Question:
    """Any question with a condition, most often a narrow one, alone or beside others."""
    table = prunable.read
    dialect = "sql" if table.null_handling else rng.choice(["pql", "sql"])

    def narrow() -> Texts:
        return _narrow(rng, prunable, dialect)

    def other() -> Texts:
        return random_filter(rng, table, dialect, depth=rng.choice([0, 0, 1]))

    way = rng.random()
    if way < 0.4:
        where = narrow()
    elif way < 0.6:
        where = _joined(" AND ", narrow(), other())
    elif way < 0.7:
        where = _joined(" AND ", narrow(), narrow())
    elif way < 0.8:
        where = _joined(" OR ", narrow(), narrow())
    elif way < 0.85:
        where = _joined(" AND ", narrow(), _joined(" OR ", narrow(), other()))
    elif way < 0.93 and dialect == "sql":
        where = _not(_joined(" OR ", _not(narrow()), other()) if rng.random() < 0.6 else _not(narrow()))
    else:
        where = other()
    return question_about(rng, table, dialect, where)


def _joined(word: str, *parts: Texts) -> Texts:
    return f"({word.join(part[0] for part in parts)})", f"({word.join(part[1] for part in parts)})"


def _not(texts: Texts) -> Texts:
    return f"NOT ({texts[0]})", f"NOT ({texts[1]})"


def _narrow(rng: random.Random, prunable: PrunableTable, dialect: str) -> Texts:
    by = rng.random()
    if by < 0.25:
        asked = _of_time(rng, prunable, dialect)
        if asked is not None:
            return asked
    columns = prunable.cut_by if prunable.cut_by and by < 0.9 else prunable.read.columns
    return _of_values(rng, prunable, rng.choice(columns), dialect)


def _of_values(rng: random.Random, prunable: PrunableTable, column: RandomColumn, dialect: str) -> Texts:
    name = column.name
    values = _values(prunable, column)

    def texts(value: Any) -> Texts:
        return our_literal(column, value, dialect), literal(column, value)

    def near(share: float) -> Any:
        """A value at about this share of all."""
        return values[min(len(values) - 1, max(0, int(share * len(values)) + rng.randrange(-1, 2)))]

    match rng.randrange(9):
        case 8:
            negated = rng.random() < 0.5
            return f"{name} IS {'NOT ' if negated else ''}NULL", f"{'NOT ' if negated else ''}{name}__null"
        case 0 | 1:
            ours, duck = texts(_beside(rng, column, near(rng.random())))
            return f"{name} = {ours}", duck_predicate(column, lambda x: f"{x} = {duck}")
        case 2:
            pairs = [texts(_beside(rng, column, near(rng.random()))) for _ in range(rng.choice([1, 2, 3]))]
            ours, duck = (", ".join(pair[side] for pair in pairs) for side in (0, 1))
            return f"{name} IN ({ours})", duck_predicate(column, lambda x: f"{x} IN ({duck})")
        case 3 | 4:
            share = rng.random()
            low, high = texts(near(share)), texts(near(share + rng.choice([0, 0.05, 0.2])))
            return (
                f"{name} BETWEEN {low[0]} AND {high[0]}",
                duck_predicate(column, lambda x: f"{x} BETWEEN {low[1]} AND {high[1]}"),
            )
        case 5 | 6:
            operator = rng.choice(OPERATORS[2:])
            is_low = operator.startswith("<")
            share = rng.random() * 0.3
            ours, duck = texts(_beside(rng, column, near(share if is_low else 1 - share)))
            return f"{name} {operator} {ours}", duck_predicate(column, lambda x: f"{x} {operator} {duck}")
        case _:
            excluded = {min(values, key=sort_value), near(rng.random()), near(rng.random())}
            pairs = [texts(value) for value in sorted(excluded, key=sort_value)]
            if len(pairs) == 1 and rng.random() < 0.5:
                duck = pairs[0][1]
                return f"{name} <> {pairs[0][0]}", duck_predicate(column, lambda x: f"{x} = {duck}", excluded=True)
            ours, duck = (", ".join(pair[side] for pair in pairs) for side in (0, 1))
            return f"{name} NOT IN ({ours})", duck_predicate(column, lambda x: f"{x} IN ({duck})", excluded=True)


def _values(prunable: PrunableTable, column: RandomColumn) -> list[Any]:
    """All finite values that are stored, in their order; at least one."""
    cells = [column.default if cell is None else cell for cell in prunable.read.cells[column.name]]
    flat = [value for cell in cells for value in (cell if isinstance(cell, list) else [cell])]
    finite = [value for value in flat if not isinstance(value, float) or math.isfinite(value)]
    return sorted(finite or [0.5], key=sort_value)


def _beside(rng: random.Random, column: RandomColumn, value: Any) -> Any:
    """Now and then the next whole number instead."""
    is_whole = column.type in ("INT", "LONG", "TIMESTAMP") and abs(value) < 2**31 - 2
    return value + rng.choice([-1, 1]) if is_whole and rng.random() < 0.15 else value


# --- time ----------------------------------------------------------------------------------------------------------


def _of_time(rng: random.Random, prunable: PrunableTable, dialect: str) -> Texts | None:
    """A condition of a function of the time column, or of a literal in another form; None: this column has none."""
    time, form = prunable.time, prunable.format
    values = _values(prunable, time)
    moment = rng.choice(values)
    name = time.name
    if form.text == "TIMESTAMP" and rng.random() < 0.4:
        operator = rng.choice(OPERATORS[:1] + OPERATORS[2:])
        text = datetime.fromtimestamp(moment / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
        return f"{name} {operator} '{text}'", f"{name} {operator} {literal(time, moment)}"
    if form.type == "STRING" or form.pattern or values[0] < 0 or dialect == "pql":
        return None  # functions of values before 1970, as of defaults for null, have tests of their own
    step = 1 if form.text == "TIMESTAMP" else form.step_ms
    unit = next((unit for unit, size_ms in UNITS_MS.items() if size_ms == step), None)
    if unit is None:  # of five minutes
        call, duck = f"DATETIMECONVERT({name}, '{form.text}', '1:DAYS:EPOCH', '1:DAYS')", _floor(name, step, DAY_MS)
        return _compared(rng, call, duck, moment * step // DAY_MS)
    if step == 1 and rng.random() < 0.2:
        # All values are long ago.
        return rng.choice([(f"{name} > ago('PT1H')", f"{name} IS NULL AND {name} > 0"),
                           (f"{name} <= ago('PT1H')", f"{name} >= 0")])  # fmt: skip
    to, size_ms = rng.choice(list(UNITS_MS.items()))
    ways = [
        (f"TIMECONVERT({name}, '{unit}', '{to}')", _floor(name, step, size_ms), moment * step // size_ms),
        (
            f"DATETIMECONVERT({name}, '1:{unit}:EPOCH', '1:DAYS:EPOCH', '1:DAYS')",
            _floor(name, step, DAY_MS),
            moment * step // DAY_MS,
        ),
    ]
    if step <= HOUR_MS:
        day = moment * step // DAY_MS * DAY_MS // step
        ways.append((f"DATETRUNC('DAY', {name}, '{unit}')", f"({_floor(name, step, DAY_MS)} * {DAY_MS // step})", day))
    if form.text == "TIMESTAMP":
        ways += [
            (f"toEpochDays({name})", _floor(name, 1, DAY_MS), moment // DAY_MS),
            (
                f"DATETRUNC('MONTH', {name})",
                f"epoch_ms(date_trunc('month', make_timestamp({name} * 1000)))",
                _month(moment),
            ),
        ]
    return _compared(rng, *rng.choice(ways))


def _floor(name: str, step_ms: int, size_ms: int) -> str:
    return f"({name}::HUGEINT * {step_ms} // {size_ms})"


def _month(moment_ms: int) -> int:
    first = datetime.fromtimestamp(moment_ms / 1000, UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return int(first.timestamp()) * 1000


def _compared(rng: random.Random, call: str, duck: str, number: int) -> Texts:
    number += rng.choice([0, 0, 0, 1, -1])
    if rng.random() < 0.3:
        words = f"BETWEEN {number} AND {number + rng.choice([0, 1, 100])}"
        return f"{call} {words}", f"{duck} {words}"
    operator = rng.choice(OPERATORS[:1] + OPERATORS)
    return f"{call} {operator} {number}", f"{duck} {operator} {number}"
