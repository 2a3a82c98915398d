"""Random expressions over the columns of a random table, each as pinotpy's text in PQL or SQL and as DuckDB's.

Both texts come from one description, so that they mean the same. `exact` says that both compute the same double bit for
bit; what is not (EXP, LN, sums of fractions within a list) is generated at the outside only: nothing compares, groups
or cuts it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from duck_oracle import DUCK_TYPES, literal
from random_tables import RandomColumn, RandomTable

NUMBER_TYPES = ("INT", "LONG", "FLOAT", "DOUBLE")
ZONES_WITHOUT_SUMMER_TIME = ("UTC", "Asia/Tokyo", "Asia/Kolkata")
ZONES = (*ZONES_WITHOUT_SUMMER_TIME, "America/New_York", "Europe/Berlin")
UNIT_MS = {"MILLISECONDS": 1, "SECONDS": 1_000, "MINUTES": 60_000, "HOURS": 3_600_000, "DAYS": 86_400_000}
PARTS = {
    "year": "year", "quarter": "quarter", "month": "month", "weekOfYear": "week", "yearOfWeek": "isoyear",
    "dayOfYear": "dayofyear", "day": "day",
    "dayOfWeek": "isodow", "hour": "hour", "minute": "minute", "second": "second",
}  # fmt: skip
_WHOLE = {"INT", "LONG"}
COMPARISONS = {
    "=": "equals",
    "<>": "not_equals",
    "<": "less_than",
    "<=": "less_than_or_equal",
    ">": "greater_than",
    ">=": "greater_than_or_equal",
}
ARITHMETIC = {
    "+": ("ADD", "plus"),
    "-": ("SUB", "minus"),
    "*": ("MULT", "times"),
    "/": ("DIV", "divide"),
    "%": ("MOD", "mod"),
}
WORDS = ("a", "ab", "X", "0", "é", " ", "null")


@dataclass(frozen=True, slots=True)
class Expr:
    """`ours` and `duck` are the texts, `type` the type of the values (of a list's elements if not `single`)."""

    ours: str
    duck: str
    type: str
    single: bool = True
    exact: bool = True
    pool: tuple[object, ...] = ()  # of a multi-value column: what its lists are made of


class Expressions:
    """The generator over one table; the same `rng` gives the same expressions."""

    def __init__(self, rng: random.Random, table: RandomTable, dialect: str) -> None:
        self.rng, self.table, self.dialect = rng, table, dialect
        self.pql = dialect == "pql"

    # --- what queries take --------------------------------------------------------------------------------------------

    def value(self, depth: int = 2) -> Expr:
        """A single value of any type, exact: a key of groups or of an order."""
        makers: list[Callable[[int], Expr]] = [self.number, self.number, self.condition]
        if self._columns(lambda c: c.single_value and c.type == "STRING"):
            makers += [self.text, self.text]
        return self.rng.choice(makers)(depth)

    def shown(self, depth: int = 2) -> Expr:
        """Anything that can be selected: also multi-values, and what is not exact."""
        roll = self.rng.random()
        if roll < 0.1 and self._columns(lambda c: not c.single_value):
            return self.list()
        return self.inexact(depth) if roll < 0.2 else self.value(depth)

    def inexact(self, depth: int) -> Expr:
        """A double whose last digits depend on the library."""
        lists = self._columns(lambda c: not c.single_value and c.type in NUMBER_TYPES)
        if lists and self.rng.random() < 0.4:
            column = self.rng.choice(lists)
            name, duck = self.rng.choice([("arraySum", "list_sum"), ("arrayAverage", "list_avg")])
            return Expr(f"{name}({column.name})", f"{duck}({column.name}::DOUBLE[])", "DOUBLE", exact=False)
        inner = self.number(depth - 1)
        name = self.rng.choice(["EXP", "LN"])
        return Expr(f"{name}({inner.ours})", f"{name}(({inner.duck})::DOUBLE)", "DOUBLE", exact=False)

    def list(self) -> Expr:
        """A multi-value column, or VALUEIN of one."""
        column = self.rng.choice(self._columns(lambda c: not c.single_value))
        plain = self._leaf(column)
        if self.rng.random() < 0.4 or column.type in ("FLOAT", "DOUBLE", "BYTES", "BOOLEAN", "TIMESTAMP"):
            return plain
        wanted = [self.rng.choice(column.pool) for _ in range(self.rng.randint(1, 4))]
        ours = ", ".join(_quoted(value) for value in wanted)
        duck = ", ".join(literal(column, value) for value in wanted)
        return replace(
            plain, ours=f"VALUEIN({column.name}, {ours})", duck=f"list_filter({column.name}, lambda v: v IN ({duck}))"
        )

    # --- numbers ------------------------------------------------------------------------------------------------------

    def number(self, depth: int) -> Expr:
        """INT, LONG, FLOAT or DOUBLE, exact."""
        if depth <= 0:
            return self._number_leaf()
        makers = [
            self._arithmetic,
            self._arithmetic,
            self._arithmetic,
            self._rounding,
            self._cast_to_number,
            self._case_of_numbers,
            self._number_leaf_at,
        ]
        if self._columns(lambda c: c.single_value and c.type == "STRING"):
            makers += [self._of_text]
        makers += [self._calendar, self._calendar]
        if self._columns(lambda c: not c.single_value):
            makers += [self._of_list]
        return self.rng.choice(makers)(depth)

    def _number_leaf(self) -> Expr:
        columns = self._columns(lambda c: c.single_value and c.is_number)
        if columns:
            return self._leaf(self.rng.choice(columns))
        lists = self._columns(lambda c: not c.single_value)
        if lists:
            return self._of_list(0)
        if self._columns(lambda c: c.single_value and c.type == "STRING"):
            return self._of_text(0)
        column = self.rng.choice(self._columns(lambda c: c.single_value and c.type == "TIMESTAMP"))
        return Expr(f"TIMECONVERT({column.name}, 'MILLISECONDS', 'SECONDS')", f"({column.name} // 1000)", "LONG")

    def _number_leaf_at(self, depth: int) -> Expr:
        return self._number_leaf()

    def _constant(self, beside: Expr | None = None) -> Expr:
        """A small number; a whole one beside whole numbers, which are compared with no other."""
        whole = beside is not None and beside.type in ("INT", "LONG")
        value = self.rng.choice([0, 1, 2, 3, 7, 10, 100, 1000, *([] if whole else [0.5, 2.5, 0.125])])
        return Expr(str(value), f"({value})::{'BIGINT' if whole else 'DOUBLE'}", "LONG" if whole else "DOUBLE")

    def _arithmetic(self, depth: int) -> Expr:
        sign = self.rng.choice(list(ARITHMETIC))
        left = self.number(depth - 1)
        right = self._constant() if self.rng.random() < 0.4 else self.number(depth - 1)
        if self.rng.random() < 0.2:
            left, right = right, left
        duck = f"((({left.duck})::DOUBLE) {sign} (({right.duck})::DOUBLE))"
        if self.rng.random() < 0.4:
            return Expr(f"({left.ours} {sign} {right.ours})", duck, "DOUBLE")
        name = (
            ARITHMETIC[sign][0] if sign == "-" and not self.pql else self.rng.choice(ARITHMETIC[sign])
        )  # MINUS is a word of SQL
        return Expr(f"{name}({left.ours}, {right.ours})", duck, "DOUBLE")

    def _rounding(self, depth: int) -> Expr:
        inner, name = self.number(depth - 1), self.rng.choice(["ABS", "CEIL", "FLOOR", "SQRT"])
        return Expr(f"{name}({inner.ours})", f"{name}(({inner.duck})::DOUBLE)", "DOUBLE")

    def _cast_to_number(self, depth: int) -> Expr:
        inner = self.number(depth - 1)
        target = self.rng.choice(["LONG", "DOUBLE", "INT"])
        fractional = inner.type in ("FLOAT", "DOUBLE")
        if target == "DOUBLE":
            return Expr(self._cast(inner.ours, "DOUBLE"), f"({inner.duck})::DOUBLE", "DOUBLE")
        if target == "INT" and not self.pql:
            return Expr(
                self._cast(inner.ours, "INT"), f"p_int_of_{'double' if fractional else 'long'}({inner.duck})", "INT"
            )
        return Expr(
            self._cast(inner.ours, target), f"p_long({inner.duck})" if fractional else f"({inner.duck})::BIGINT", "LONG"
        )

    def _cast(self, text: str, target: str) -> str:
        return f"cast({text}, '{target}')" if self.pql else f"CAST({text} AS {target})"

    def _case_of_numbers(self, depth: int) -> Expr:
        first, second = self.number(depth - 1), self.number(depth - 1)
        common = max(first.type, second.type, key=NUMBER_TYPES.index)
        if common == "FLOAT" and first.type != second.type:
            common = "DOUBLE"  # 24 bits hold few whole numbers
        return self._case(first, second, common, depth)

    def _case(self, first: Expr, second: Expr, common: str, depth: int) -> Expr:
        holds = self.condition(depth - 1)
        kind = DUCK_TYPES[common]
        duck = f"CASE WHEN {holds.duck} THEN ({first.duck})::{kind} ELSE ({second.duck})::{kind} END"
        if self.pql:
            return Expr(f"case({holds.ours}, {first.ours}, {second.ours})", duck, common)
        return Expr(f"CASE WHEN {holds.ours} THEN {first.ours} ELSE {second.ours} END", duck, common)

    def _of_text(self, depth: int) -> Expr:
        inner = self.text(depth - 1)
        if self.rng.random() < 0.5:
            return Expr(f"length({inner.ours})", f"p_length({inner.duck})", "INT")
        word = self.rng.choice(WORDS)
        plain = _without_emoji(inner)
        return Expr(f"strpos({plain.ours}, {_quoted(word)})", f"p_strpos({plain.duck}, {_quoted(word)})", "INT")

    def _of_list(self, depth: int) -> Expr:
        column = self.rng.choice(self._columns(lambda c: not c.single_value))
        if column.type in NUMBER_TYPES and self.rng.random() < 0.7:
            if column.type == "INT" and self.rng.random() < 0.5:
                total = f"list_sum({column.name}::BIGINT[])::DOUBLE"
                if self.rng.random() < 0.5:
                    return Expr(f"arraySum({column.name})", total, "DOUBLE")
                return Expr(f"arrayAverage({column.name})", f"({total} / len({column.name}))", "DOUBLE")
            end = self.rng.choice(["Min", "Max"])
            return Expr(f"array{end}({column.name})", f"list_{end.lower()}({column.name})", column.type)
        return Expr(f"arrayLength({column.name})", f"len({column.name})::INTEGER", "INT")

    # --- times --------------------------------------------------------------------------------------------------------

    def _moment(self, depth: int) -> Expr:
        """Milliseconds since 1970 within DuckDB's calendar."""
        columns = self._columns(lambda c: c.single_value and c.type == "TIMESTAMP")
        if columns and self.rng.random() < 0.7:
            return self._leaf(self.rng.choice(columns))
        inner = self.number(min(depth - 1, 1))
        cut = f"MOD({inner.ours}, 1000000000000)"
        return Expr(self._cast(cut, "LONG"), f"p_long((({inner.duck})::DOUBLE) % 1e12)", "LONG")

    def _calendar(self, depth: int) -> Expr:
        moment = self._moment(depth)
        kind = self.rng.choice(["part", "part", "trunc", "trunc", "convert", "bucket"])
        if kind == "part":
            name, zone = self.rng.choice(list(PARTS)), self.rng.choice(ZONES)
            ours = (
                f"{name}({moment.ours})"
                if zone == "UTC" and self.rng.random() < 0.5
                else f"{name}({moment.ours}, '{zone}')"
            )
            return Expr(ours, f"date_part('{PARTS[name]}', p_local({moment.duck}, '{zone}'))::INTEGER", "INT")
        if kind == "trunc":
            return self._truncated(moment)
        unit = self.rng.choice(list(UNIT_MS))
        if kind == "convert":
            return Expr(
                f"TIMECONVERT({moment.ours}, 'MILLISECONDS', '{unit}')",
                f"(({moment.duck})::BIGINT // {UNIT_MS[unit]})",
                "LONG",
            )
        size, grain = self.rng.choice([1, 1, 5, 7, 15]), self.rng.choice(list(UNIT_MS))
        ours = f"DATETIMECONVERT({moment.ours}, '1:MILLISECONDS:EPOCH', '1:{unit}:EPOCH', '{size}:{grain}')"
        return Expr(ours, f"p_bucket({moment.duck}, {size * UNIT_MS[grain]}, {UNIT_MS[unit]})", "LONG")

    def _truncated(self, moment: Expr) -> Expr:
        unit = self.rng.choice(["second", "minute", "hour", "day", "week", "month", "quarter", "year"])
        # Below a day, the repeated hour at the end of summer time is no one's to define: zones without it.
        zone = self.rng.choice(
            ZONES if unit in ("day", "week", "month", "quarter", "year") else ZONES_WITHOUT_SUMMER_TIME
        )
        out = self.rng.choice(["", "", *UNIT_MS])
        start = f"p_trunc('{unit}', {moment.duck}, '{zone}')"
        if not out:
            ours = (
                f"DATETRUNC('{unit}', {moment.ours})"
                if zone == "UTC"
                else f"DATETRUNC('{unit}', {moment.ours}, 'MILLISECONDS', '{zone}')"
            )
        else:
            ours = f"DATETRUNC('{unit}', {moment.ours}, 'MILLISECONDS', '{zone}', '{out}')"
            start = f"({start} // {UNIT_MS[out]})"
        # SQL's start of a TIMESTAMP is one, which DuckDB's macro counts in milliseconds.
        return Expr(ours if self.pql else self._cast(ours, "LONG"), start, "LONG")

    # --- text ---------------------------------------------------------------------------------------------------------

    def text(self, depth: int) -> Expr:
        """STRING."""
        columns = self._columns(lambda c: c.single_value and c.type == "STRING")
        if depth <= 0 or self.rng.random() < 0.2:
            return self._leaf(self.rng.choice(columns))
        inner = self.text(depth - 1)
        match self.rng.choice(["upper", "lower", "trim", "reverse", "concat", "replace", "substr", "cast", "case"]):
            case "upper":
                return Expr(f"upper({inner.ours})", f"p_upper({inner.duck})", "STRING")
            case "lower" | "reverse" as name:
                return Expr(f"{name}({inner.ours})", f"{name}({inner.duck})", "STRING")
            case "trim":
                # SQL's TRIM takes off spaces only, PQL's all white space.
                return Expr(
                    f"trim({inner.ours})", f"p_trim({inner.duck})" if self.pql else f"trim({inner.duck}, ' ')", "STRING"
                )
            case "concat":
                other = self.text(depth - 1)
                if self.rng.random() < 0.5:
                    separator = ", ''" if self.pql else ""
                    return Expr(
                        f"concat({inner.ours}, {other.ours}{separator})", f"({inner.duck} || {other.duck})", "STRING"
                    )
                return Expr(
                    f"concat({inner.ours}, {other.ours}, '-')", f"({inner.duck} || '-' || {other.duck})", "STRING"
                )
            case "replace":
                find, put = self.rng.choice(WORDS), self.rng.choice(["", "zz", "ü"])
                return Expr(
                    f"replace({inner.ours}, {_quoted(find)}, '{put}')",
                    f"replace({inner.duck}, {_quoted(find)}, '{put}')",
                    "STRING",
                )
            case "substr":
                begin = self.rng.randint(0, 4)
                end = begin + self.rng.randint(0, 4)
                # In PQL a position beyond the text is an error: the text is made long enough.
                plain = _without_emoji(inner)
                return Expr(
                    f"substr(concat({plain.ours}, 'abcdefgh', ''), {begin}, {end})",
                    f"p_substr({plain.duck} || 'abcdefgh', {begin}, {end})",
                    "STRING",
                )
            case "cast":
                number = self.number(depth - 1)
                if number.type in ("FLOAT", "DOUBLE"):
                    cut, duck = (
                        f"FLOOR(MOD({number.ours}, 1000))",
                        f"p_double_text(floor((({number.duck})::DOUBLE) % 1000))",
                    )
                    return Expr(self._cast(cut, "STRING"), duck, "STRING")
                return Expr(self._cast(number.ours, "STRING"), f"({number.duck})::VARCHAR", "STRING")
            case _:
                return self._case(inner, self.text(depth - 1), "STRING", depth)

    # --- conditions ---------------------------------------------------------------------------------------------------

    def condition(self, depth: int) -> Expr:
        """A comparison as a value, in SQL also with AND, OR, NOT: INT 1 or 0 in PQL, BOOLEAN in SQL."""
        if not self.pql and depth > 0 and self.rng.random() < 0.25:
            left, right = self.condition(depth - 1), self.condition(depth - 1)
            word = self.rng.choice(["AND", "OR"])
            if self.rng.random() < 0.3:
                return Expr(f"(NOT {left.ours})", f"(NOT {left.duck})", "BOOLEAN")
            return Expr(f"({left.ours} {word} {right.ours})", f"({left.duck} {word} {right.duck})", "BOOLEAN")
        sign, is_constant = self.rng.choice(list(COMPARISONS)), False
        if self._columns(lambda c: c.single_value and c.type == "STRING") and self.rng.random() < 0.25:
            left, right, kind = self.text(depth - 1), self.text(depth - 1), "VARCHAR"
        else:
            left = self.number(depth - 1)
            is_constant = self.rng.random() < 0.4
            right = self._constant(left) if is_constant else self.number(depth - 1)
            kind = "BIGINT" if {left.type, right.type} <= _WHOLE else "DOUBLE"
        if kind == "DOUBLE" and (left.type in _WHOLE or (right.type in _WHOLE and not is_constant)):
            # A literal beside a double is rounded to one; all else meets by value.
            duck = compared_with_whole(sign, left.duck, right.duck, whole_is_left=left.type in _WHOLE)
        else:
            duck = compared(sign, f"({left.duck})::{kind}", f"({right.duck})::{kind}", kind)
        if self.pql:
            return Expr(f"{COMPARISONS[sign]}({left.ours}, {right.ours})", f"({duck})::INTEGER", "INT")
        return Expr(f"({left.ours} {sign} {right.ours})", duck, "BOOLEAN")

    # --- columns ------------------------------------------------------------------------------------------------------

    def _columns(self, wanted: Callable[[RandomColumn], bool]) -> list[RandomColumn]:
        return [column for column in self.table.columns if wanted(column)]

    def _leaf(self, column: RandomColumn) -> Expr:
        return Expr(
            column.name,
            column.name,
            column.type,
            column.single_value,
            pool=() if column.single_value else tuple(column.pool),
        )


def can_compute(table: RandomTable) -> bool:
    """Whether the table has a column from which numbers can be computed."""
    return any(not c.single_value or c.is_number or c.type in ("STRING", "TIMESTAMP") for c in table.columns)


def compared(sign: str, left: str, right: str, kind: str) -> str:
    """DuckDB's text of a comparison of two values of a type of DuckDB."""
    if kind not in ("FLOAT", "DOUBLE") or sign in ("=", "<>"):
        return f"({left} {sign} {right})"
    if sign in (">", ">="):
        left, right = right, left
    return f"(p_less({left}, {right}))" if sign in ("<", ">") else f"(p_up_to({left}, {right}))"


def compared_with_whole(sign: str, left: str, right: str, *, whole_is_left: bool) -> str:
    """DuckDB's text of a comparison of an INT or LONG with a FLOAT or DOUBLE, or the other way round, by value."""
    whole, double = (f"({left})", f"({right})::DOUBLE") if whole_is_left else (f"({right})", f"({left})::DOUBLE")
    sign = sign if whole_is_left else {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(sign, sign)
    if sign == "<>":
        return f"(NOT p_whole_equal({whole}, {double}))"
    name = {"=": "equal", "<": "less", "<=": "up_to", ">": "more", ">=": "from"}[sign]
    return f"p_whole_{name}({whole}, {double})"


def _without_emoji(inner: Expr) -> Expr:
    """Half an emoji is no text: where positions count, none is left."""
    return Expr(f"replace({inner.ours}, '😀', 'e')", f"replace({inner.duck}, '😀', 'e')", "STRING")


def _quoted(value: object) -> str:
    return "'" + str(value).replace("'", "''") + "'"
