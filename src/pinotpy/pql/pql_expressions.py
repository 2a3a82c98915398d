"""PQL's expressions: names, literals, calls, arithmetic; and the conditions of WHERE and HAVING.

A comparison has a column or call on one side and a literal on the other; IN and BETWEEN take literals. Sources: PQL's
grammar as Pinot 0.6.0 answers it; infix arithmetic, NOT BETWEEN and comments are ours (docs/differences.md).
"""

from __future__ import annotations

from pinotpy.errors import ParseError
from pinotpy.pql.aggregation_names import canonical_aggregation, is_aggregation
from pinotpy.pql.ast import Call, Dialect, Expression, Identifier, Literal, Position, Star
from pinotpy.pql.cursor import Cursor
from pinotpy.pql.expressions import ARITHMETIC, COMPARISONS, IS, MATCH, ExpressionParser
from pinotpy.pql.lexer import END, QUOTED, STRING, WORD, QueryText, Token
from pinotpy.pql.literals import double_literal

KEYWORDS = frozenset(
    [
        "AND",
        "AS",
        "ASC",
        "BETWEEN",
        "BY",
        "DESC",
        "FROM",
        "GROUP",
        "HAVING",
        "IN",
        "IS",
        "NULL",
        "LIMIT",
        "NOT",
        "OR",
        "REGEXP_LIKE",
        "TEXT_MATCH",
        "JSON_MATCH",
        "ORDER",
        "SELECT",
        "TOP",
        "WHERE",
        "OPTION",
    ]
)
_INFIX = frozenset({"plus", "minus", "times", "divide", "mod", "concat"})
_CONDITIONS = frozenset(
    {
        "and",
        "or",
        "not",
        "in",
        "not_in",
        "between",
        "is_null",
        "is_not_null",
        "regexp_like",
        "text_match",
        "json_match",
        *COMPARISONS.values(),
    }
)
_LOGIC = frozenset({"and", "or", "not", "in", "not_in", "between", "is_null", "is_not_null"})
_MATCHES = {"REGEXP_LIKE": "regexp_like", "TEXT_MATCH": "text_match", "JSON_MATCH": "json_match"}


class PqlExpressionParser(ExpressionParser):
    """PQL. `infix` remembers the brackets that hold arithmetic: only those, and conditions, may stand in brackets."""

    allows_not = False
    longs_only = True

    def __init__(self, cursor: Cursor) -> None:
        super().__init__(cursor)
        self._in_condition = False

    def number(self, token: Token) -> Literal:
        return double_literal(float(token.value), self.cursor.position(token))

    def value(self) -> Expression:
        """An expression without conditions: what SELECT, GROUP BY, ORDER BY and arguments take."""
        outer, self._in_condition = self._in_condition, False
        expression = self.expression(ARITHMETIC)
        self._in_condition = outer
        return expression

    def condition(self) -> Expression:
        """What WHERE and HAVING take; `check_where` and `check_having` look at its comparisons."""
        self._in_condition = True
        expression = self.expression()
        self._in_condition = False
        return expression

    def primary(self) -> Expression:
        cursor = self.cursor
        literal = self.literal()
        if literal is not None:
            return literal
        token = cursor.token
        if token.kind == QUOTED:
            return Identifier(cursor.take().value, cursor.position(token))
        if cursor.symbol == "(":
            return self._bracket()
        if cursor.word in _MATCHES and self._in_condition:
            return self._match(_MATCHES[cursor.word])
        if token.kind == WORD and cursor.word not in KEYWORDS:
            cursor.take()
            return self._call(token) if cursor.symbol == "(" else self._name(token)
        if cursor.word == "NOT" and self._in_condition:
            raise cursor.unexpected(
                "a condition", hint="PQL has no NOT before a condition; write <>, NOT IN, NOT BETWEEN or IS NOT NULL"
            )
        raise cursor.unexpected("a column, a function or a literal")

    def _bracket(self) -> Expression:
        cursor = self.cursor
        start = cursor.take()
        inner = self.expression() if self._in_condition else self.expression(ARITHMETIC)
        cursor.expect_symbol(")")
        if isinstance(inner, Call) and (inner.name in _INFIX or (self._in_condition and inner.name in _CONDITIONS)):
            return inner
        raise cursor.error(
            "expected no brackets around a column or a literal; they group arithmetic and conditions", start
        )

    def _name(self, token: Token) -> Expression:
        cursor = self.cursor
        name = token.value
        if cursor.symbol == "." and cursor.ahead().kind in (WORD, QUOTED):
            cursor.take()
            name = f"{name}.{cursor.take().value}"
        return Identifier(name, cursor.position(token))

    def _call(self, name: Token) -> Expression:
        cursor = self.cursor
        cursor.take()
        outer, self._in_condition = self._in_condition, False
        cursor.check_function_name(name)
        canonical = canonical_aggregation(name.value)
        args: list[Expression] = []
        if cursor.symbol == "*" and cursor.ahead().value == ")":
            args.append(Star(cursor.position(cursor.take())))
        elif cursor.symbol != ")":
            if cursor.word == "DISTINCT" and cursor.ahead().value != "(":
                raise cursor.error(
                    f"expected an argument, found DISTINCT; write DISTINCTCOUNT(x) for {name.value}(DISTINCT x)"
                )
            args.append(self.expression(ARITHMETIC))
            while cursor.take_symbol(","):
                args.append(self.expression(ARITHMETIC))
        if cursor.symbol != ")":
            raise cursor.unexpected("',' or ')' in the arguments")
        cursor.take()
        self._in_condition = outer
        if canonical not in (None, "count") and args:
            args[0] = expression_of_string(args[0])
        return Call(canonical or name.value.lower(), tuple(args), position=cursor.position(name))

    def _match(self, name: str) -> Expression:
        """REGEXP_LIKE(expression, 'pattern') TEXT_MATCH(expression, 'query') and JSON_MATCH(column, 'condition')."""
        cursor = self.cursor
        token = cursor.take()
        cursor.expect_symbol("(")
        value = self.value()
        cursor.expect_symbol(",")
        if cursor.token.kind != STRING:
            raise cursor.unexpected("a pattern in quotes")
        pattern = self.literal()
        assert pattern is not None
        cursor.expect_symbol(")")
        return Call(name, (value, pattern), position=cursor.position(token))

    def suffix_precedence(self) -> int:
        if not self._in_condition:
            return 0
        word = self.cursor.word
        if word == "IS":
            return IS
        if word in ("IN", "BETWEEN"):
            return MATCH
        if word == "NOT" and self.cursor.ahead().value.upper() in ("IN", "BETWEEN"):
            return MATCH
        if word in ("LIKE", "NOT"):
            raise self.cursor.unexpected(
                "a comparison, IN, BETWEEN or IS", hint="PQL has no LIKE; write REGEXP_LIKE(column, 'pattern')"
            )
        return 0

    def suffix(self, left: Expression, precedence: int) -> Expression | None:
        cursor = self.cursor
        start = cursor.token
        position = cursor.position(start)
        if cursor.take_word("IS"):
            negative = cursor.take_word("NOT")
            cursor.expect_word("NULL", "IS NOT" if negative else "IS")
            return Call("is_not_null" if negative else "is_null", (left,), position=position)
        negative = cursor.take_word("NOT")
        if cursor.take_word("IN"):
            return Call("not_in" if negative else "in", (left, *self.literal_list("after IN")), position=position)
        cursor.expect_word("BETWEEN")
        low = self.signed_literal("after BETWEEN")
        cursor.expect_word("AND", "the lower end of BETWEEN")
        between = Call("between", (left, low, self.signed_literal("after AND")), position=position)
        return Call("not", (between,), position=position) if negative else between

    def signed(self, name: str, operand: Expression, token: Token, position: Position) -> Expression:
        raise self.cursor.error(f"expected a number after '{name}'; write sub(0, x) for -x", token)


def expression_of_string(expression: Expression) -> Expression:
    """A string as argument of an aggregation or in GROUP BY is read as PQL ('add(runs,hits)'); a text that is none
    names a column. Source: pql-live §1.5.
    """
    if not isinstance(expression, Literal) or not expression.is_string:
        return expression
    try:
        parser = PqlExpressionParser(Cursor(QueryText(str(expression.value), Dialect.PQL)))
        parsed = parser.value()
        if parser.cursor.token.kind == END:
            return parsed
    except ParseError:
        pass
    return Identifier(str(expression.value), expression.position)


def check_where(expression: Expression, cursor: Cursor) -> None:
    """Raise unless every leaf compares a column or call with literals."""
    for leaf in _leaves(expression):
        if not isinstance(leaf, Call) or leaf.name not in _CONDITIONS:
            raise cursor.query.error_at("expected a condition such as column = 5", leaf.position)
        inner = next((arg for arg in leaf.args if isinstance(arg, Call) and arg.name in _LOGIC), None)
        if inner is not None:
            raise cursor.query.error_at(
                "expected a column, a function or a literal beside the operator, found a condition", inner.position
            )
        constants = [_is_constant(arg) for arg in leaf.args]
        if leaf.name in COMPARISONS.values():
            if all(constants):
                raise cursor.query.error_at(
                    "expected a column or function on one side; a comparison of two constants is not supported",
                    leaf.position,
                )
            if not any(constants):
                hint = "put text in single quotes; columns cannot be compared with each other in PQL (SQL can)"
                raise cursor.query.error_at(f"expected a literal on one side of the comparison; {hint}", leaf.position)
        elif constants[0]:
            raise cursor.query.error_at(
                f"expected a column or function before {leaf.name.upper().replace('_', ' ')}, found a literal",
                leaf.position,
            )


def check_having(expression: Expression, cursor: Cursor) -> None:
    """Raise unless every leaf compares an aggregation with numbers."""
    check_where(expression, cursor)
    for leaf in _leaves(expression):
        assert isinstance(leaf, Call)
        if leaf.name not in ("in", "not_in", "between") and leaf.name not in COMPARISONS.values():
            raise cursor.query.error_at("expected a comparison, IN or BETWEEN in HAVING", leaf.position)
        for arg in leaf.args:
            if isinstance(arg, Literal):
                if not _is_number(arg):
                    raise cursor.query.error_at(f"expected a number in HAVING, found '{arg.text[:60]}'", arg.position)
            elif not _is_constant(arg) and not (isinstance(arg, Call) and is_aggregation(arg.name)):
                raise cursor.query.error_at("expected an aggregation such as SUM(x) in HAVING", arg.position)


def _leaves(expression: Expression) -> list[Expression]:
    leaves, stack = [], [expression]
    while stack:
        node = stack.pop()
        if isinstance(node, Call) and node.name in ("and", "or", "not"):
            stack.extend(reversed(node.args))
        else:
            leaves.append(node)
    return leaves


def _is_constant(expression: Expression) -> bool:
    stack = [expression]
    while stack:
        node = stack.pop()
        if isinstance(node, Call) and node.name in _INFIX:
            stack.extend(node.args)
        elif not isinstance(node, Literal):
            return False
    return True


def _is_number(literal: Literal) -> bool:
    try:
        float(literal.text)
    except ValueError:
        return False
    return True
