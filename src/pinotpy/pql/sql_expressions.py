"""SQL's expressions: literals, names, calls with their special forms, CASE, CAST, and predicates.

Conditions are expressions like others. Subqueries, OVER and WITHIN GROUP are refused with what to write instead
(sql_elsewhere.py). Source: sql-live.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import InvalidOperation
from typing import Final

from pinotpy.data_types import DataType
from pinotpy.errors import ParseError
from pinotpy.pql.aggregation_names import canonical_aggregation
from pinotpy.pql.ast import Call, Expression, Identifier, Literal, Star
from pinotpy.pql.cursor import Cursor
from pinotpy.pql.expressions import ADD, INDEX, IS, MATCH, ExpressionParser
from pinotpy.pql.lexer import HEX, LIST, QUOTED, STRING, SYMBOL, WORD, Token
from pinotpy.pql.literals import EXPONENT_MAX, boolean_literal, decimal_literal, is_beyond, null_literal, string_literal
from pinotpy.pql.sql_elsewhere import FORMS_OF_CALLS, NOT_THERE
from pinotpy.pql.sql_instants import read_moment, with_instants
from pinotpy.pql.sql_keywords import EXTRACT_UNITS, OPERATOR_NAMES, RESERVED
from pinotpy.pql.sql_types import read_type

_SUPER_GROUPS: Final = frozenset({"CUBE", "ROLLUP", "GROUPING"})


class SqlExpressionParser(ExpressionParser):
    """SQL."""

    quotes_names = True

    def __init__(self, cursor: Cursor) -> None:
        super().__init__(cursor)
        self._instants: dict[int, Literal] = {}  # literals written as TIMESTAMP '…', by identity

    def number(self, token: Token) -> Literal:
        try:
            if is_beyond(token.value):
                raise self.cursor.error(f"expected a number from 1E-{EXPONENT_MAX} to 1E{EXPONENT_MAX}", token)
            return decimal_literal(token.value, self.cursor.position(token))
        except InvalidOperation as error:
            raise self.cursor.error(
                f"expected a number, found '{token.value[:40]}', whose exponent is out of any range", token
            ) from error

    # --- primaries -------------------------------------------------------------------------------------------------

    def primary(self) -> Expression:
        cursor = self.cursor
        literal = self.literal()
        if literal is not None:
            return literal
        token = cursor.token
        if cursor.symbol == "(":
            return self._bracket()
        if token.kind == LIST:
            raise cursor.unexpected("one value, not a list")
        if token.kind == HEX:
            return self._hex()
        if token.kind == QUOTED:
            return self._name(cursor.take())
        if token.kind == WORD:
            special = _SPECIAL.get(cursor.word)
            if special is not None:
                expression = special(self)
                if expression is not None:
                    return expression
            called = cursor.ahead().kind == SYMBOL and cursor.ahead().value == "("
            if cursor.word not in RESERVED or (called and cursor.word in ("LIKE", "LEFT", "RIGHT")):
                return self._call(cursor.take()) if called else self._name(cursor.take())
            raise self._reserved(token)
        raise cursor.unexpected("a column, a function or a literal")

    def _reserved(self, token: Token) -> ParseError:
        cursor = self.cursor
        ahead = cursor.ahead()
        # `SELECT select, order FROM t` names a column, a query goes on with what it selects.
        is_name = ahead.kind == SYMBOL and ahead.value in (",", ")", "=", "<", ">", "<=", ">=", "<>", "!=", ".")
        is_name = is_name or (ahead.kind == WORD and ahead.value.upper() == "FROM")
        if cursor.word in ("SELECT", "EXISTS", "WITH") and not is_name:
            return cursor.error(NOT_THERE["subquery"])
        if cursor.word == "INTERVAL":
            return cursor.error("expected a value, found INTERVAL; write dateAdd('DAY', 1, column)")
        return cursor.unexpected(
            "a column, a function or a literal", hint=f'quote a column of this name: "{token.value}"'
        )

    def _bracket(self) -> Expression:
        cursor = self.cursor
        start = cursor.take()
        if cursor.word in ("SELECT", "WITH"):
            raise self._reserved(cursor.token)
        inner = self.expression()
        if cursor.symbol == ",":
            raise cursor.error(NOT_THERE["row values"], start)
        cursor.expect_symbol(")")
        return inner

    def _hex(self) -> Literal:
        cursor = self.cursor
        token = cursor.take()
        digits = token.value.lower()
        if len(digits) % 2 or any(c not in "0123456789abcdef" for c in digits):
            raise cursor.error("expected pairs of hexadecimal digits in x'…'", token)
        return replace(string_literal(digits, cursor.position(token)), data_type=DataType.BYTES)

    def _name(self, first: Token) -> Identifier:
        cursor = self.cursor
        parts = [first.value]
        while cursor.symbol == "." and cursor.ahead().kind in (WORD, QUOTED):
            cursor.take()
            parts.append(cursor.take().value)
        if cursor.symbol == "." and cursor.ahead().value == "*":
            raise cursor.error("expected a column after '.', found *; all columns stand alone in a select list")
        return Identifier(".".join(parts), cursor.position(first))

    # --- calls -----------------------------------------------------------------------------------------------------

    def _call(self, name: Token) -> Expression:
        cursor = self.cursor
        if cursor.token.kind == LIST:
            raise cursor.unexpected("at most 64 literals as arguments")
        cursor.expect_symbol("(")
        cursor.check_function_name(name)
        if name.value.upper() in _SUPER_GROUPS:
            raise cursor.error(NOT_THERE["sets of groups"], name)
        distinct = cursor.take_word("DISTINCT")
        if not distinct:
            cursor.take_word("ALL")
        args: list[Expression] = []
        if cursor.symbol == "*" and cursor.ahead().value == ")":
            args.append(Star(cursor.position(cursor.take())))
        elif cursor.symbol != ")":
            try:
                args.append(self.expression())
            except ParseError:
                if name.value.upper() == "POSITION":  # ('o' IN city) began as a list
                    raise cursor.error(NOT_THERE["position"], name) from None
                raise
            if name.value.upper() == "SUBSTRING" and cursor.take_word(
                "FROM"
            ):  # SUBSTRING(text FROM 2 FOR 3) is substring(text,2,3)
                args.append(self.expression())
                if cursor.take_word("FOR"):
                    args.append(self.expression())
            while cursor.take_symbol(","):
                args.append(self.expression())
        if cursor.word == "ORDER":
            raise cursor.error(NOT_THERE["order in call"])
        if cursor.symbol != ")":
            form = FORMS_OF_CALLS.get((name.value.upper(), cursor.word))
            if form is not None:
                raise cursor.error(form, name)
            raise cursor.unexpected(f"',' or ')' in the arguments of {name.value}")
        cursor.take()
        call = Call(function_name(name.value), tuple(args), distinct, position=cursor.position(name))
        return self._after_call(call, name)

    def _after_call(self, call: Call, name: Token) -> Expression:
        cursor = self.cursor
        following = cursor.ahead()
        if cursor.word == "WITHIN" and following.value.upper() == "GROUP":
            raise cursor.error(NOT_THERE["within group"], name)
        if cursor.word == "OVER" and (following.value == "(" or following.kind == WORD):
            raise cursor.error(NOT_THERE["window"], name)
        if cursor.word == "FILTER" and following.value == "(":
            cursor.take()
            cursor.take()
            cursor.expect_word("WHERE", "FILTER (")
            condition = self.expression()
            cursor.expect_symbol(")")
            if canonical_aggregation(call.name) is None:
                raise cursor.error(f"expected an aggregation before FILTER, found {name.value}", name)
            return Call(call.name, call.args, call.distinct, condition, call.position)
        return call

    # --- special forms; each returns None if the text is an ordinary name after all -----------------------------------

    def _boolean(self) -> Expression | None:
        token = self.cursor.take()
        return boolean_literal(token.value.upper() == "TRUE", self.cursor.position(token))

    def _null(self) -> Expression | None:
        return null_literal(self.cursor.position(self.cursor.take()))

    def _dated(self) -> Expression | None:
        """DATE '…', TIME '…' and TIMESTAMP '…' are their text; what the last one is beside decides (sql_instants)."""
        if self.cursor.ahead().kind == QUOTED and self.cursor.word in RESERVED:
            self.cursor.take()
            raise self.cursor.unexpected("a text")
        if self.cursor.ahead().kind != STRING:
            return None
        word = self.cursor.take().value.upper()
        literal = self.literal()
        if word == "TIMESTAMP" and literal is not None:
            self._instants[id(literal)] = literal
        return literal

    def finished(self, expression: Expression) -> Expression:
        """A whole expression, as it stands in a statement."""
        return with_instants(expression, self._instants) if self._instants else expression

    def _moment(self) -> Expression | None:
        return read_moment(self.cursor)

    def _case(self) -> Expression | None:
        cursor = self.cursor
        start = cursor.take()
        subject = None if cursor.word == "WHEN" else self.expression()
        args: list[Expression] = []
        while cursor.word == "WHEN":
            when = cursor.take()
            condition = self.expression()
            args.append(
                condition if subject is None else Call("equals", (subject, condition), position=cursor.position(when))
            )
            cursor.expect_word("THEN", "the condition of WHEN")
            args.append(self.expression())
        if not args:
            raise cursor.unexpected("WHEN after CASE", keywords=("WHEN",))
        args.append(self.expression() if cursor.take_word("ELSE") else null_literal(cursor.position()))
        if cursor.word != "END":
            raise cursor.unexpected("WHEN, ELSE or END in CASE", keywords=("WHEN", "ELSE", "END"))
        cursor.take()
        return Call("case", tuple(args), position=cursor.position(start))

    def _cast(self) -> Expression | None:
        cursor = self.cursor
        start = cursor.take()
        cursor.expect_symbol("(")
        value = self.expression()
        if cursor.symbol == ",":
            name = cursor.ahead()
            raise cursor.error(f"expected AS and a type in CAST, found ','; write CAST(x AS {name.value or 'INT'})")
        cursor.expect_word("AS", "the value of CAST")
        target = read_type(cursor, "AS")
        cursor.expect_symbol(")")
        return Call("cast", (value, target), position=cursor.position(start))

    def _extract(self) -> Expression | None:
        cursor = self.cursor
        start = cursor.take()
        cursor.expect_symbol("(")
        unit = self._unit("EXTRACT(YEAR FROM column)")
        cursor.expect_word("FROM", "the unit of EXTRACT")
        value = self.expression()
        cursor.expect_symbol(")")
        return Call("extract", (unit, value), position=cursor.position(start))

    def _timestamp_unit(self) -> Expression | None:
        """TIMESTAMPADD(unit, n, x) and TIMESTAMPDIFF(unit, a, b)."""
        cursor = self.cursor
        if cursor.ahead().value != "(":
            return None
        name = cursor.take()
        cursor.take()
        args: list[Expression] = [self._unit(f"{name.value.upper()}(DAY, …)")]
        while cursor.take_symbol(","):
            args.append(self.expression())
        cursor.expect_symbol(")")
        return Call(function_name(name.value), tuple(args), position=cursor.position(name))

    def _unit(self, example: str) -> Literal:
        cursor = self.cursor
        if cursor.word not in EXTRACT_UNITS and not cursor.word.startswith("SQL_TSI_"):
            raise cursor.unexpected(f"a unit of time without quotes, as in {example}", keywords=EXTRACT_UNITS)
        token = cursor.take()
        return string_literal(token.value.upper().removeprefix("SQL_TSI_"), cursor.position(token))

    def _trim(self) -> Expression | None:
        """TRIM([BOTH | LEADING | TRAILING] [characters] [FROM] text) is trim('BOTH',' ',text)."""
        cursor = self.cursor
        if cursor.ahead().value != "(":
            return None
        start = cursor.take()
        cursor.take()
        position = cursor.position(start)
        side = "BOTH"
        if cursor.word in ("BOTH", "LEADING", "TRAILING"):
            side = cursor.take().value.upper()
        characters: Expression = string_literal(" ", position)
        if cursor.take_word("FROM"):
            value = self.expression()
        else:
            value = self.expression()
            if cursor.take_word("FROM"):
                characters, value = value, self.expression()
        cursor.expect_symbol(")")
        return Call("trim", (string_literal(side, position), characters, value), position=position)

    def _array(self) -> Expression | None:
        """ARRAY[a, b] is array(a,b)."""
        cursor = self.cursor
        if cursor.ahead().value != "[":
            return None
        start = cursor.take()
        cursor.take()
        args = [self.expression()]
        while cursor.take_symbol(","):
            args.append(self.expression())
        cursor.expect_symbol("]")
        return Call("array", tuple(args), position=cursor.position(start))

    # --- predicates ------------------------------------------------------------------------------------------------

    def suffix_precedence(self) -> int:
        cursor = self.cursor
        if not cursor.word:
            return INDEX if cursor.symbol in ("[", "::") else 0
        if cursor.word == "IS":
            return IS
        if cursor.word in ("IN", "BETWEEN", "LIKE", "ILIKE"):
            return MATCH
        if cursor.word == "NOT" and cursor.ahead().value.upper() in ("IN", "BETWEEN", "LIKE", "ILIKE"):
            return MATCH
        return 0

    def suffix(self, left: Expression, precedence: int) -> Expression | None:
        cursor = self.cursor
        start = cursor.token
        if cursor.take_symbol("["):
            key = self.expression()
            cursor.expect_symbol("]")
            return Call("item", (left, key), position=cursor.position(start))
        if cursor.take_symbol("::"):
            return Call("cast", (left, read_type(cursor, "::")), position=cursor.position(start))
        if cursor.take_word("IS"):
            return self._is(left, start)
        negative = cursor.take_word("NOT")
        if cursor.take_word("IN"):
            return self._in(left, start, negative)
        if cursor.take_word("BETWEEN"):
            cursor.take_word("ASYMMETRIC")
            low = self.expression(ADD)
            cursor.expect_word("AND", "the lower end of BETWEEN")
            call = Call("between", (left, low, self.expression(ADD)), position=cursor.position(start))
        else:
            cursor.take()  # LIKE, or ILIKE, which is the same here: both ignore case
            args = [left, self.expression(ADD)]
            if cursor.take_word("ESCAPE"):
                args.append(self.expression(ADD))
            call = Call("like", tuple(args), position=cursor.position(start))
        return Call("not", (call,), position=call.position) if negative else call

    def _is(self, left: Expression, start: Token) -> Call:
        cursor = self.cursor
        position = cursor.position(start)
        middle = "not_" if cursor.take_word("NOT") else ""
        if cursor.take_word("DISTINCT"):
            cursor.expect_word("FROM", "IS DISTINCT")
            return Call(f"is_{middle}distinct_from", (left, self.expression(ADD)), position=position)
        for word in ("NULL", "TRUE", "FALSE"):
            if cursor.take_word(word):
                return Call(f"is_{middle}{word.lower()}", (left,), position=position)
        raise cursor.unexpected(
            "NULL, TRUE, FALSE or DISTINCT FROM after IS", keywords=("NULL", "TRUE", "FALSE", "NOT", "DISTINCT")
        )

    def _in(self, left: Expression, start: Token, negative: bool) -> Call:
        cursor = self.cursor
        position = cursor.position(start)
        name = "not_in" if negative else "in"
        if cursor.token.kind == LIST:
            return Call(name, (left, *self.literal_list("after IN")), position=position)
        cursor.expect_symbol("(")
        if cursor.word in ("SELECT", "WITH"):
            raise self._reserved(cursor.token)
        items = [self.expression(ADD)]
        while cursor.take_symbol(","):
            items.append(self.expression(ADD))
        if cursor.symbol != ")":
            raise cursor.unexpected("',' or ')' in the list of IN")
        cursor.take()
        return Call(name, (left, *items), position=position)


def function_name(written: str) -> str:
    """Lower case without underscores; operators (regexp_like, is_null) keep theirs."""
    lower = written.lower()
    return lower if lower in OPERATOR_NAMES else canonical_aggregation(lower) or lower.replace("_", "")


_SPECIAL: Final[dict[str, Callable[[SqlExpressionParser], Expression | None]]] = {
    "TRUE": SqlExpressionParser._boolean,
    "FALSE": SqlExpressionParser._boolean,
    "NULL": SqlExpressionParser._null,
    "DATE": SqlExpressionParser._dated,
    "TIME": SqlExpressionParser._dated,
    "TIMESTAMP": SqlExpressionParser._dated,
    "CURRENT_DATE": SqlExpressionParser._moment,
    "CURRENT_TIMESTAMP": SqlExpressionParser._moment,
    "LOCALTIMESTAMP": SqlExpressionParser._moment,
    "CASE": SqlExpressionParser._case,
    "CAST": SqlExpressionParser._cast,
    "EXTRACT": SqlExpressionParser._extract,
    "TIMESTAMPADD": SqlExpressionParser._timestamp_unit,
    "TIMESTAMPDIFF": SqlExpressionParser._timestamp_unit,
    "TRIM": SqlExpressionParser._trim,
    "ARRAY": SqlExpressionParser._array,
}
