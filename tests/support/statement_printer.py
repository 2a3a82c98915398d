"""Statements as text that parses back to the same statement, for tests that printing and parsing are inverse.

Names are always quoted, arithmetic is written as calls where the dialect allows it, conditions are parenthesised.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Final

from pinotpy.pql.ast import Call, Dialect, Expression, Identifier, Literal, Star, Statement

_INFIX: Final = {
    "equals": "=",
    "not_equals": "<>",
    "less_than": "<",
    "less_than_or_equal": "<=",
    "greater_than": ">",
    "greater_than_or_equal": ">=",
    "and": "AND",
    "or": "OR",
    "is_distinct_from": "IS DISTINCT FROM",
    "is_not_distinct_from": "IS NOT DISTINCT FROM",
}
_SUFFIX: Final = {
    f"is_{middle}{word}": f"IS {middle.upper().replace('_', ' ')}{word.upper()}"
    for middle in ("", "not_")
    for word in ("null", "true", "false")
}


def print_statement(statement: Statement) -> str:
    """The statement as one line of its dialect."""
    return _StatementPrinter(statement.dialect).statement(statement)


class _StatementPrinter:
    def __init__(self, dialect: Dialect) -> None:
        self._sql = dialect is Dialect.SQL

    def statement(self, statement: Statement) -> str:
        parts = ["EXPLAIN PLAN FOR"] if statement.explain else []
        parts.append("SELECT DISTINCT" if statement.distinct else "SELECT")
        if statement.top is not None:
            parts.append(f"TOP {statement.top}")
        items = [
            self.expression(item.expression) + (f" AS {self.name(item.alias)}" if item.alias is not None else "")
            for item in statement.select
        ]
        parts.append(", ".join(items))
        if statement.table or not self._sql:
            parts += ["FROM", self.name(statement.table) if self._sql else _string(statement.table)]
            parts += [] if statement.table_alias is None else ["AS", self.name(statement.table_alias)]
        if statement.where is not None:
            parts += ["WHERE", self.condition(statement.where)]
        if statement.group_by_all:
            parts.append("GROUP BY ALL")
        if statement.group_by:
            parts += ["GROUP BY", ", ".join([self.expression(expression) for expression in statement.group_by])]
        if statement.having is not None:
            parts += ["HAVING", self.condition(statement.having)]
        if statement.order_by:
            keys = []
            for key in statement.order_by:
                nulls = "" if key.nulls_last is None else f" NULLS {'LAST' if key.nulls_last else 'FIRST'}"
                keys.append(f"{self.expression(key.expression)} {'ASC' if key.ascending else 'DESC'}{nulls}")
            parts += ["ORDER BY", ", ".join(keys)]
        parts += self._rows(statement)
        if statement.options:
            parts.append(f"OPTION({', '.join([f'{name}={_string(value)}' for name, value in statement.options])})")
        return " ".join(parts)

    def _rows(self, statement: Statement) -> list[str]:
        limit, offset = statement.limit, statement.offset
        if self._sql:
            return [*([] if limit is None else [f"LIMIT {limit}"]), *([] if offset is None else [f"OFFSET {offset}"])]
        if limit is None:
            return []
        return [f"LIMIT {limit}"] if offset is None else [f"LIMIT {offset}, {limit}"]

    def name(self, name: str) -> str:
        return '"' + name.replace('"', '""') + '"' if self._sql else f"`{name}`"

    def expression(self, node: Expression) -> str:
        if isinstance(node, Identifier):
            return self.name(node.name)
        if isinstance(node, Literal):
            return self._literal(node)
        if isinstance(node, Star):
            qualifier = f"{self.name(node.qualifier)}." if node.qualifier else ""
            names = ", ".join([self.name(column.name) for column in node.exclude])
            return f"{qualifier}*{f' EXCLUDE ({names})' if names else ''}"
        if self._sql:
            return self.condition(node)
        return self._call(node, [self.expression(arg) for arg in node.args])

    def condition(self, node: Expression) -> str:
        """An expression that may hold operators: all of SQL; in PQL only WHERE and HAVING, where arguments are values
        again.
        """
        if not isinstance(node, Call):
            return self.expression(node)
        inside = self._sql or node.name in ("and", "or", "not")
        args = [self.condition(arg) if inside else self.expression(arg) for arg in node.args]
        name = node.name
        if name in _INFIX and len(args) >= 2:
            return f"({f' {_INFIX[name]} '.join(args)})"
        if name in _SUFFIX:
            return f"({args[0]} {_SUFFIX[name]})"
        special = _SPECIAL.get(name)
        if special is not None:
            text = special(self, node, args)
            if text is not None:
                return text
        return self._call(node, args)

    def _call(self, node: Call, args: list[str]) -> str:
        text = f"{node.name}({'DISTINCT ' if node.distinct else ''}{', '.join(args)})"
        return text if node.filter is None else f"{text} FILTER (WHERE {self.expression(node.filter)})"

    def _literal(self, literal: Literal) -> str:
        if literal.is_string:
            return _string(literal.text)
        if isinstance(literal.value, float) and not self._sql:
            text = format(Decimal(repr(literal.value)), "f")
            return text if "." in text else f"{text}.0"
        return literal.text

    # --- forms of their own -------------------------------------------------------------------------------------------

    def _not(self, node: Call, args: list[str]) -> str | None:
        inner = node.args[0]
        if isinstance(inner, Call) and inner.name == "between":
            return self._between(inner, [self.expression(arg) for arg in inner.args], word="NOT BETWEEN")
        return f"(NOT {args[0]})"

    def _between(self, node: Call, args: list[str], *, word: str = "BETWEEN") -> str | None:
        return f"({args[0]} {word} {args[1]} AND {args[2]})"

    def _in(self, node: Call, args: list[str]) -> str | None:
        return f"({args[0]} {'IN' if node.name == 'in' else 'NOT IN'} ({', '.join(args[1:])}))"

    def _like(self, node: Call, args: list[str]) -> str | None:
        return f"({args[0]} LIKE {args[1]}{f' ESCAPE {args[2]}' if len(args) > 2 else ''})"

    def _minus(self, node: Call, args: list[str]) -> str | None:
        return f"({args[0]} - {args[1]})" if self._sql else None  # MINUS is a word of SQL

    def _case(self, node: Call, args: list[str]) -> str | None:
        if not self._sql:
            return None
        whens = [f"WHEN {args[i]} THEN {args[i + 1]}" for i in range(0, len(args) - 1, 2)]
        return f"CASE {' '.join(whens)} ELSE {args[-1]} END"

    def _cast(self, node: Call, args: list[str]) -> str | None:
        return f"CAST({args[0]} AS {args[1]})" if self._sql else None

    def _extract(self, node: Call, args: list[str]) -> str | None:
        unit = node.args[0]
        return f"EXTRACT({unit.text} FROM {args[1]})" if self._sql and isinstance(unit, Literal) else None

    def _timestamp(self, node: Call, args: list[str]) -> str | None:
        unit = node.args[0]
        return f"{node.name}({', '.join([unit.text, *args[1:]])})" if self._sql and isinstance(unit, Literal) else None

    def _trim(self, node: Call, args: list[str]) -> str | None:
        side = node.args[0]
        return (
            f"TRIM({side.text} {args[1]} FROM {args[2]})"
            if self._sql and isinstance(side, Literal) and len(args) == 3
            else None
        )

    def _item(self, node: Call, args: list[str]) -> str | None:
        return f"{args[0]}[{args[1]}]" if self._sql else None

    def _array(self, node: Call, args: list[str]) -> str | None:
        return f"ARRAY[{', '.join(args)}]" if self._sql else None


_SPECIAL: Final[dict[str, Callable[[_StatementPrinter, Call, list[str]], str | None]]] = {
    "not": _StatementPrinter._not,
    "between": _StatementPrinter._between,
    "in": _StatementPrinter._in,
    "not_in": _StatementPrinter._in,
    "like": _StatementPrinter._like,
    "minus": _StatementPrinter._minus,
    "case": _StatementPrinter._case,
    "cast": _StatementPrinter._cast,
    "extract": _StatementPrinter._extract,
    "timestampadd": _StatementPrinter._timestamp,
    "timestampdiff": _StatementPrinter._timestamp,
    "trim": _StatementPrinter._trim,
    "item": _StatementPrinter._item,
    "array": _StatementPrinter._array,
}


def _string(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
