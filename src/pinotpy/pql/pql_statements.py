"""PQL's SELECT: clauses in any order, none twice.

[EXPLAIN PLAN FOR] SELECT [TOP n] * | expression [AS alias], … FROM table
    {WHERE … | GROUP BY … | HAVING … | ORDER BY … [ASC|DESC], … | TOP n | LIMIT [offset,] n | OPTION(k=v, …)}* [;]
"""

from __future__ import annotations

from dataclasses import replace

from pinotpy.pql.ast import Call, Dialect, Expression, Literal, OrderItem, SelectItem, Star, Statement
from pinotpy.pql.cursor import Cursor
from pinotpy.pql.expressions import check_height
from pinotpy.pql.lexer import END, INTEGER, LIST, NUMBER, QUOTED, STRING, WORD
from pinotpy.pql.pql_expressions import KEYWORDS, PqlExpressionParser, check_having, check_where, expression_of_string

_CLAUSES = ("WHERE", "GROUP", "HAVING", "ORDER", "TOP", "LIMIT", "OPTION")


class PqlStatementParser:
    """Reads one PQL statement."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.expressions = PqlExpressionParser(cursor)
        self._seen: set[str] = set()

    def statement(self) -> Statement:
        """The whole text as one statement."""
        cursor = self.cursor
        explain = cursor.take_word("EXPLAIN")
        if explain:
            cursor.expect_word("PLAN", "EXPLAIN")
            cursor.expect_word("FOR", "EXPLAIN PLAN")
        if cursor.word != "SELECT":
            hint = "PQL answers SELECT only" if cursor.word else ""
            raise cursor.unexpected(
                "SELECT",
                keywords=("SELECT",),
                hint=hint if cursor.word in ("INSERT", "DELETE", "DROP", "SHOW", "SET") else "",
            )
        cursor.take()
        statement = Statement(Dialect.PQL, (), "")
        if cursor.word == "TOP" and cursor.ahead().kind == INTEGER:
            statement = self._top(statement)
        statement = replace(statement, select=self._select())
        cursor.expect_word("FROM", "the columns")
        statement = replace(statement, table=self._table())
        while cursor.word in _CLAUSES:
            statement = self._clause(statement)
        cursor.take_symbol(";")
        if cursor.token.kind != END:
            raise cursor.unexpected(
                "WHERE, GROUP BY, HAVING, ORDER BY, TOP, LIMIT, OPTION or the end", keywords=_CLAUSES, hint=self._hint()
            )
        return replace(statement, explain=explain)

    def _hint(self) -> str:
        word = self.cursor.word
        if word == "OFFSET":
            return "PQL writes LIMIT offset, count"
        if word in ("JOIN", "UNION"):
            return f"PQL has no {word}"
        if self.cursor.symbol == ",":
            return "PQL reads one table and joins conditions with AND or OR"
        return ""

    # --- SELECT and FROM -------------------------------------------------------------------------------------------

    def _select(self) -> tuple[SelectItem, ...]:
        cursor = self.cursor
        if cursor.symbol == "*":
            items = (SelectItem(Star(cursor.position(cursor.take()))),)
            if cursor.symbol == ",":
                raise cursor.unexpected("FROM after *", hint="PQL selects either * or a list")
            return items
        if cursor.word == "DISTINCT" and cursor.ahead().value != "(":
            raise cursor.error("expected the columns of DISTINCT in brackets; write SELECT DISTINCT(a, b)")
        selected = [self._item()]
        while cursor.take_symbol(","):
            selected.append(self._item())
        return tuple(selected)

    def _item(self) -> SelectItem:
        cursor = self.cursor
        start = cursor.token
        expression = check_height(self.expressions.value(), cursor)
        if isinstance(expression, Literal):
            raise cursor.error(
                "expected a column or a function, found a literal; columns stand without quotes or in backticks", start
            )
        alias = None
        if cursor.take_word("AS"):
            token = cursor.token
            if token.kind not in (WORD, QUOTED, STRING) or cursor.word in KEYWORDS:
                raise cursor.unexpected("an alias after AS")
            alias = cursor.take().value
        return SelectItem(expression, alias)

    def _table(self) -> str:
        """`x.y` reads as x; backticks stay part of the name. Source: pql-live §1.3."""
        cursor = self.cursor
        token = cursor.token
        if token.kind not in (WORD, QUOTED, STRING) or cursor.word in KEYWORDS:
            raise cursor.unexpected("a table after FROM", hint="PQL has no subqueries" if cursor.symbol == "(" else "")
        cursor.take()
        if token.kind == STRING:
            return token.value
        if cursor.symbol == "." and cursor.ahead().kind in (WORD, QUOTED):
            cursor.take()
            cursor.take()
        return f"`{token.value}`" if token.kind == QUOTED else token.value

    # --- clauses ---------------------------------------------------------------------------------------------------

    def _clause(self, statement: Statement) -> Statement:
        cursor = self.cursor
        word = cursor.word
        if word == "TOP":
            return self._top(statement)
        if word != "OPTION":
            self._once("GROUP BY" if word == "GROUP" else "ORDER BY" if word == "ORDER" else word)
        cursor.take()
        if word == "WHERE":
            return replace(statement, where=self._condition(having=False))
        if word == "HAVING":
            return replace(statement, having=self._condition(having=True))
        if word == "GROUP":
            cursor.expect_word("BY", "GROUP")
            return replace(statement, group_by=self._group_by())
        if word == "ORDER":
            cursor.expect_word("BY", "ORDER")
            return replace(statement, order_by=self._order_by())
        if word == "LIMIT":
            count = cursor.integer("LIMIT")
            if cursor.take_symbol(","):
                return replace(statement, offset=count, limit=cursor.integer("LIMIT offset,"))
            return replace(statement, limit=count)
        return replace(statement, options=(*statement.options, *self._options()))

    def _once(self, clause: str) -> None:
        if clause in self._seen:
            raise self.cursor.error(f"expected at most one {clause} clause, found a second one")
        self._seen.add(clause)

    def _top(self, statement: Statement) -> Statement:
        cursor = self.cursor
        self._once("TOP")
        start = cursor.take()
        count = cursor.integer("TOP")
        if count < 0:
            raise cursor.error("expected TOP 0 or more", start)
        return replace(statement, top=count)

    def _condition(self, *, having: bool) -> Expression:
        expression = check_height(self.expressions.condition(), self.cursor)
        (check_having if having else check_where)(expression, self.cursor)
        return expression

    def _group_by(self) -> tuple[Expression, ...]:
        return tuple(expression_of_string(expression) for expression in self._values())

    def _values(self) -> list[Expression]:
        values = [check_height(self.expressions.value(), self.cursor)]
        while self.cursor.take_symbol(","):
            values.append(check_height(self.expressions.value(), self.cursor))
        return values

    def _order_by(self) -> tuple[OrderItem, ...]:
        cursor = self.cursor
        items: list[OrderItem] = []
        known: set[Expression] = set()
        while True:
            start = cursor.token
            expression = check_height(self.expressions.value(), cursor)
            if isinstance(expression, Call) and expression.args and isinstance(expression.args[0], Star):
                raise cursor.error(
                    "expected a column or a function of one in ORDER BY; PQL cannot order by COUNT(*) (SQL can)", start
                )
            ascending = not cursor.take_word("DESC")
            if ascending:
                cursor.take_word("ASC")
            if expression not in known:
                known.add(expression)
                items.append(OrderItem(expression, ascending))
            if not cursor.take_symbol(","):
                return tuple(items)

    def _options(self) -> list[tuple[str, str]]:
        cursor = self.cursor
        cursor.expect_symbol("(")
        options: list[tuple[str, str]] = []
        while True:
            if cursor.token.kind != WORD:
                raise cursor.unexpected("an option such as timeoutMs=5000")
            name = cursor.take().value
            if cursor.symbol != "=":
                raise cursor.unexpected(f"'=' after the option '{name}'")
            cursor.take()
            options.append((name, self._option_value()))
            if not cursor.take_symbol(","):
                break
        cursor.expect_symbol(")")
        return options

    def _option_value(self) -> str:
        cursor = self.cursor
        if cursor.token.kind in (STRING, INTEGER, NUMBER, LIST) or cursor.symbol in ("-", "+"):
            return self.expressions.signed_literal("after '='").text
        if cursor.token.kind in (WORD, QUOTED):
            return cursor.take().value
        raise cursor.unexpected("a value after '='")
