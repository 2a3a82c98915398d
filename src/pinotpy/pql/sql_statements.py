"""SQL's SELECT.

{SET k = v;}* [EXPLAIN [PLAN FOR]] SELECT [DISTINCT] [t.]* [EXCLUDE (a, …)] | expression [[AS] alias], …
    [FROM table [[AS] alias]] [WHERE …] [GROUP BY … | ALL] [HAVING …]
    [ORDER BY … [ASC|DESC] [NULLS FIRST|LAST], …] [LIMIT n | LIMIT a, b | LIMIT ALL] [OFFSET n]
    [FETCH FIRST [n] ROWS ONLY] [OPTION(k=v, …)] [;] {SET k = v;}*
"""

from __future__ import annotations

from dataclasses import replace

from pinotpy.pql.ast import Dialect, Expression, OrderItem, SelectItem, Statement
from pinotpy.pql.cursor import Cursor
from pinotpy.pql.expressions import check_height
from pinotpy.pql.lexer import END, INTEGER, NUMBER, QUOTED, STRING, WORD
from pinotpy.pql.sql_elsewhere import FORMS_OF_VALUES, NOT_THERE, elsewhere, set_operation_error
from pinotpy.pql.sql_expressions import SqlExpressionParser
from pinotpy.pql.sql_keywords import RESERVED
from pinotpy.pql.sql_stars import read_star
from pinotpy.pql.sql_tables import CLAUSES, read_table


class SqlStatementParser:
    """Reads one SQL statement with the SETs around it."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.expressions = SqlExpressionParser(cursor)

    def statement(self) -> Statement:
        """The whole text."""
        cursor = self.cursor
        before = self._sets(require_semicolon=True)
        explain = False
        if cursor.word == "EXPLAIN":
            cursor.take()
            if cursor.take_word("PLAN"):
                cursor.expect_word("FOR", "EXPLAIN PLAN")
            explain = True
        if cursor.word != "SELECT":
            raise elsewhere(cursor) or cursor.unexpected("SELECT", keywords=("SELECT", "EXPLAIN"))
        cursor.take()
        statement = self._select_statement()
        ended = False
        while cursor.take_symbol(";"):
            ended = True
        after = self._sets(require_semicolon=False) if ended else []
        if cursor.token.kind != END:
            raise self._trailing(ended)
        return replace(statement, options=(*before, *statement.options, *after), explain=explain)

    def _trailing(self, ended: bool) -> Exception:
        cursor = self.cursor
        word = cursor.word
        if ended:
            return cursor.unexpected("SET or the end after ';'", hint="one query at a time")
        not_there = set_operation_error(cursor)
        if not_there is not None:
            return not_there
        for place in (-1, 0):  # the first word may have been taken for an alias
            form = FORMS_OF_VALUES.get((cursor.ahead(place).value.upper(), cursor.ahead(place + 1).value.upper()))
            if form is not None:
                return cursor.error(form, cursor.ahead(place))
        hint = ""
        if word in CLAUSES:
            hint = "clauses come in the order FROM, WHERE, GROUP BY, HAVING, ORDER BY, LIMIT"
        elif cursor.ahead(-1).value.upper() == "TOP" and cursor.token.kind == INTEGER:
            hint = f"SQL writes LIMIT {cursor.token.value} at the end"
        elif cursor.ahead(-1).kind == WORD and not cursor.near(CLAUSES):
            hint = cursor.near(CLAUSES, cursor.ahead(-1))  # SELECT a FORM t: it was taken for an alias
        return cursor.unexpected("the next clause or the end", keywords=CLAUSES, hint=hint)

    # --- SET and OPTION --------------------------------------------------------------------------------------------

    def _sets(self, *, require_semicolon: bool) -> list[tuple[str, str]]:
        cursor = self.cursor
        options: list[tuple[str, str]] = []
        while cursor.word == "SET":
            cursor.take()
            options.append(self._assignment())
            if cursor.symbol == ";":
                while cursor.take_symbol(";"):
                    pass
            elif require_semicolon or cursor.token.kind != END:
                raise cursor.unexpected("';' after SET")
        return options

    def _assignment(self, *, words: bool = False) -> tuple[str, str]:
        cursor = self.cursor
        if cursor.token.kind not in (WORD, QUOTED):
            raise cursor.unexpected("the name of an option, such as timeoutMs")
        name = cursor.take().value
        cursor.expect_symbol("=")
        token = cursor.token
        if cursor.word in ("TRUE", "FALSE"):
            return name, cursor.take().value.lower()
        if token.kind in (STRING, INTEGER, NUMBER) or cursor.symbol in ("-", "+"):
            return name, self.expressions.signed_literal(f"for {name}").text
        if words and token.kind in (WORD, QUOTED):
            return name, cursor.take().value
        raise cursor.unexpected(f"a literal for {name}", hint="put text in single quotes")

    def _options(self) -> list[tuple[str, str]]:
        cursor = self.cursor
        cursor.expect_symbol("(")
        options = [self._assignment(words=True)]
        while cursor.take_symbol(","):
            options.append(self._assignment(words=True))
        cursor.expect_symbol(")")
        return options

    # --- clauses ---------------------------------------------------------------------------------------------------

    def _select_statement(self) -> Statement:
        cursor = self.cursor
        distinct = cursor.take_word("DISTINCT")
        if not distinct:
            cursor.take_word("ALL")
        statement = Statement(Dialect.SQL, self._select_list(), "", distinct=distinct)
        if cursor.take_word("FROM"):
            table, alias = read_table(cursor)
            statement = replace(statement, table=table, table_alias=alias)
        if cursor.take_word("WHERE"):
            statement = replace(statement, where=self._expression())
        if cursor.take_word("GROUP"):
            cursor.expect_word("BY", "GROUP")
            if cursor.take_word("ALL"):
                statement = replace(statement, group_by_all=True)
            else:
                statement = replace(statement, group_by=tuple(self._expressions()))
        if cursor.take_word("HAVING"):
            statement = replace(statement, having=self._expression())
        if cursor.word == "WINDOW":
            raise cursor.error(NOT_THERE["window"])
        if cursor.take_word("ORDER"):
            cursor.expect_word("BY", "ORDER")
            statement = replace(statement, order_by=self._order_by())
        statement = self._rows(statement)
        while cursor.word == "OPTION" and cursor.ahead().value == "(":
            cursor.take()
            statement = replace(statement, options=(*statement.options, *self._options()))
        return statement

    def _expression(self) -> Expression:
        return check_height(self.expressions.finished(self.expressions.expression()), self.cursor)

    def _expressions(self) -> list[Expression]:
        items = [self._expression()]
        while self.cursor.take_symbol(","):
            items.append(self._expression())
        return items

    def _select_list(self) -> tuple[SelectItem, ...]:
        items = [self._item()]
        while self.cursor.take_symbol(","):
            if self.cursor.word == "FROM":
                raise self.cursor.unexpected("a column, a function or a literal after ','")
            items.append(self._item())
        return tuple(items)

    def _item(self) -> SelectItem:
        cursor = self.cursor
        star = read_star(cursor)
        return SelectItem(self._expression() if star is None else star, self._alias())

    def _alias(self) -> str | None:
        cursor = self.cursor
        if cursor.take_word("AS"):
            if cursor.token.kind == QUOTED or (cursor.token.kind == WORD and cursor.word not in RESERVED):
                return cursor.take().value
            raise cursor.unexpected(
                "an alias after AS",
                hint=f'quote it: "{cursor.token.value}"' if cursor.token.kind in (WORD, STRING) else "",
            )
        if cursor.token.kind == QUOTED or (
            cursor.token.kind == WORD and cursor.word not in RESERVED and cursor.word != "OPTION"
        ):
            return cursor.take().value
        return None

    def _order_by(self) -> tuple[OrderItem, ...]:
        cursor = self.cursor
        items: list[OrderItem] = []
        while True:
            expression = self._expression()
            ascending = not cursor.take_word("DESC")
            if ascending:
                cursor.take_word("ASC")
            nulls_last: bool | None = None
            if cursor.take_word("NULLS"):
                nulls_last = cursor.word == "LAST"
                if not cursor.take_word("FIRST", "LAST"):
                    raise cursor.unexpected("FIRST or LAST after NULLS", keywords=("FIRST", "LAST"))
            items.append(OrderItem(expression, ascending, nulls_last))
            if not cursor.take_symbol(","):
                return tuple(items)

    def _rows(self, statement: Statement) -> Statement:
        """LIMIT, OFFSET and FETCH, each at most once, in any order."""
        cursor = self.cursor
        limited = skipped = False
        while True:
            if cursor.word == "LIMIT" and not limited:
                limited = True
                cursor.take()
                if cursor.take_word("ALL"):
                    statement = replace(statement, limit_all=True)
                    continue
                count = self._count("LIMIT")
                if cursor.symbol == "," and not skipped:
                    cursor.take()
                    skipped = True
                    statement = replace(statement, offset=count, limit=self._count("LIMIT offset,"))
                else:
                    statement = replace(statement, limit=count)
            elif cursor.word == "OFFSET" and not skipped:
                skipped = True
                cursor.take()
                statement = replace(statement, offset=self._count("OFFSET"))
                cursor.take_word("ROW", "ROWS")
            elif cursor.word == "FETCH" and not limited:
                limited = True
                cursor.take()
                if not cursor.take_word("FIRST", "NEXT"):
                    raise cursor.unexpected("FIRST or NEXT after FETCH")
                is_single = cursor.word in ("ROW", "ROWS")
                statement = replace(statement, limit=1 if is_single else self._count("FETCH FIRST"))
                cursor.take_word("ROW", "ROWS")
                cursor.take_word("ONLY")
            else:
                return statement

    def _count(self, what: str) -> int:
        start = self.cursor.token
        count = self.cursor.integer(what)
        if count < 0:
            raise self.cursor.error(f"expected 0 or more after {what}", start)
        return count
