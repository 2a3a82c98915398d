"""Expressions of both dialects: operators by precedence, on explicit stacks, so that only brackets, calls and CASE
nest.

A dialect gives the operators it knows and how it reads a primary (literal, name, call, bracket). Chains of AND and OR
become one call with many arguments; other chains lean to the left. No text, however deep, ends in a RecursionError:
brackets nest at most DEPTH_MAX deep and finished expressions are at most DEPTH_MAX high (`check_height`).

    precedence   1 OR   2 AND   3 NOT   4 IS   5 = <> < <= > >=   6 BETWEEN IN LIKE   7 + - ||   8 * / %
                 9 sign   10 [ ]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from pinotpy.pql.ast import Call, Expression, Literal, Position
from pinotpy.pql.cursor import DEPTH_MAX, Cursor
from pinotpy.pql.lexer import INTEGER, LIST, NUMBER, PQL_LIST_ITEM, SQL_LIST_ITEM, STRING, SYMBOL, Token
from pinotpy.pql.literals import LONG_MAX, LONG_MIN, NUMBER_CHARACTERS_MAX, integer_literal, negated, string_literal

OR, AND, NOT, IS, COMPARE, MATCH, ADD, MULTIPLY, SIGN, INDEX = range(1, 11)
ANY: Final = OR
ARITHMETIC: Final = ADD

COMPARISONS: Final = {
    "=": "equals",
    "<>": "not_equals",
    "!=": "not_equals",
    "<": "less_than",
    "<=": "less_than_or_equal",
    ">": "greater_than",
    ">=": "greater_than_or_equal",
}
_DIGITS: Final = frozenset("0123456789")
_BINARY: Final[dict[str, tuple[int, str]]] = {
    **{symbol: (COMPARE, name) for symbol, name in COMPARISONS.items()},
    "+": (ADD, "plus"),
    "-": (ADD, "minus"),
    "||": (ADD, "concat"),
    "*": (MULTIPLY, "times"),
    "/": (MULTIPLY, "divide"),
    "%": (MULTIPLY, "mod"),
}
LIST_LITERALS_MAX: Final = 50_000


class _Operator(NamedTuple):
    precedence: int
    name: str
    token: Token
    is_prefix: bool = False


class ExpressionParser:
    """Reads expressions from a cursor. Subclasses: `primary`, and which words are operators."""

    allows_not = True  # whether NOT is an operator
    longs_only = False  # whether whole numbers must fit 64 bits
    quotes_names = False  # whether double quotes make names (SQL) or strings (PQL)

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor

    # --- what a dialect adds ---------------------------------------------------------------------------------------

    def primary(self) -> Expression:
        """A literal, name, call or bracket, with its postfixes."""
        raise NotImplementedError

    def number(self, token: Token) -> Literal:
        """An unsigned number with a point or an exponent."""
        raise NotImplementedError

    def suffix(self, left: Expression, precedence: int) -> Expression | None:
        """IS, BETWEEN, IN, LIKE and their like after `left`, if the text goes on with one of this precedence."""
        raise NotImplementedError

    def suffix_precedence(self) -> int:
        """IS or MATCH if the text goes on with such an operator, else 0."""
        raise NotImplementedError

    # --- the machine -----------------------------------------------------------------------------------------------

    def expression(self, floor: int = ANY) -> Expression:
        """The longest expression whose operators bind at least as tightly as `floor`."""
        cursor = self.cursor
        cursor.enter()
        operands: list[Expression] = []
        operators: list[_Operator] = []
        while True:
            self._prefixes(operators, floor)
            operands.append(self.primary())
            while True:
                precedence = self.suffix_precedence()
                if precedence < floor or not precedence:
                    break
                self._reduce(operands, operators, precedence)
                extended = self.suffix(operands[-1], precedence)
                assert extended is not None
                operands[-1] = extended
            operator = self._binary()
            if operator is None or operator.precedence < floor:
                break
            if operator.precedence == COMPARE and _is_pending(operators, COMPARE):
                is_joined = operators[-1].name == "concat"
                hint = "|| joins texts, write OR between conditions" if is_joined else "comparisons do not chain"
                raise cursor.unexpected("AND, OR or the end of the comparison", hint=hint)
            self._reduce(operands, operators, operator.precedence)
            operators.append(operator)
            cursor.take()
        self._reduce(operands, operators, 0)
        cursor.leave()
        assert len(operands) == 1
        return operands[0]

    def _prefixes(self, operators: list[_Operator], floor: int) -> None:
        cursor = self.cursor
        waiting = len(operators)  # the ANDs of a long chain wait too
        while True:
            if cursor.word == "NOT" and self.allows_not and floor <= NOT:
                operators.append(_Operator(NOT, "not", cursor.take(), True))
            elif cursor.symbol in ("-", "+"):
                operators.append(_Operator(SIGN, cursor.symbol, cursor.take(), True))
            else:
                return
            if len(operators) - waiting > DEPTH_MAX:
                raise cursor.error(f"expressions nest deeper than {DEPTH_MAX} levels; split the query")

    def _binary(self) -> _Operator | None:
        cursor = self.cursor
        if cursor.token.kind == SYMBOL:
            known = _BINARY.get(cursor.symbol)
            return None if known is None else _Operator(known[0], known[1], cursor.token)
        if cursor.word == "AND":
            return _Operator(AND, "and", cursor.token)
        if cursor.word == "OR":
            return _Operator(OR, "or", cursor.token)
        return None

    def _reduce(self, operands: list[Expression], operators: list[_Operator], precedence: int) -> None:
        """Apply the operators on the stack that bind at least as tightly; AND and OR wait for the whole chain."""
        chains = precedence in (AND, OR)
        while operators and (
            operators[-1].precedence > precedence or (operators[-1].precedence == precedence and not chains)
        ):
            operator = operators.pop()
            if operator.is_prefix:
                operands[-1] = self.prefixed(operator.name, operands[-1], operator.token)
                continue
            count = 2
            if operator.precedence in (AND, OR):
                while operators and operators[-1].precedence == operator.precedence:
                    operators.pop()
                    count += 1
            args = tuple(operands[-count:])
            del operands[-count:]
            operands.append(self.combined(operator.name, args, operator.token))

    # --- building --------------------------------------------------------------------------------------------------

    def combined(self, name: str, args: tuple[Expression, ...], token: Token) -> Expression:
        """The call that a binary operator (or a chain of AND, OR) stands for; brackets inside a chain melt into it."""
        if name in ("and", "or"):
            args = tuple(
                leaf for arg in args for leaf in (arg.args if isinstance(arg, Call) and arg.name == name else (arg,))
            )
        return Call(name, args, position=self.cursor.position(token))

    def prefixed(self, name: str, operand: Expression, token: Token) -> Expression:
        """NOT x, -x, +x; a sign before a number makes a literal."""
        position = self.cursor.position(token)
        if name == "not":
            return Call("not", (operand,), position=position)
        if isinstance(operand, Literal) and negated(operand, position) is not None:
            if name == "+":
                return operand
            self._check_long(operand, token, negative=True)
            literal = negated(operand, position)
            assert literal is not None
            return literal
        return self.signed(name, operand, token, position)

    def signed(self, name: str, operand: Expression, token: Token, position: Position) -> Expression:
        """A sign before something that is no number."""
        return operand if name == "+" else Call("minus", (integer_literal(0, position), operand), position=position)

    def literal(self) -> Literal | None:
        """A string or an unsigned number, if the text goes on with one."""
        cursor = self.cursor
        token = cursor.token
        if token.kind == STRING:
            cursor.take()
            return string_literal(token.value, cursor.position(token))
        if token.kind == INTEGER:
            cursor.take()
            return self.integer(token)
        if token.kind == NUMBER:
            cursor.take()
            self._check_size(token)
            return self.number(token)
        return None

    def integer(self, token: Token) -> Literal:
        """An unsigned whole number; PQL's are 64 bits wide, where 2^63 is let through after a minus sign only."""
        self._check_size(token)
        literal = integer_literal(int(token.value), self.cursor.position(token))
        if self.longs_only and len(token.value) > 18:
            self._check_long(literal, token, negative=self.cursor.query.text[: token.start].rstrip()[-1:] == "-")
        return literal

    def _check_size(self, token: Token) -> None:
        if len(token.value) > NUMBER_CHARACTERS_MAX:
            raise self.cursor.error(f"expected a number of at most {NUMBER_CHARACTERS_MAX} characters", token)

    def _check_long(self, literal: Literal, token: Token, *, negative: bool) -> None:
        value = literal.value
        if self.longs_only and isinstance(value, int) and not LONG_MIN <= (-value if negative else value) <= LONG_MAX:
            raise self.cursor.error(f"expected a whole number of 64 bits ({LONG_MIN} to {LONG_MAX})", token)

    # --- lists of literals -----------------------------------------------------------------------------------------

    def literal_list(self, what: str) -> tuple[Literal, ...]:
        """`(literal, …)`: what IN takes. Long lists were one token already."""
        cursor = self.cursor
        if cursor.token.kind == LIST:
            return self._long_list(cursor.take())
        start = cursor.expect_symbol("(")
        literals = [self.signed_literal(what)]
        while cursor.take_symbol(","):
            literals.append(self.signed_literal(what))
            if len(literals) > LIST_LITERALS_MAX:
                raise cursor.error(f"expected at most {LIST_LITERALS_MAX} literals in a list", start)
        if cursor.symbol != ")":
            raise cursor.unexpected("',' or ')' in a list of literals")
        cursor.take()
        return tuple(literals)

    def signed_literal(self, what: str) -> Literal:
        """A literal with an optional sign; anything else is an error that names `what` needs one."""
        cursor = self.cursor
        start = cursor.token
        sign = cursor.take().value if cursor.symbol in ("-", "+") else ""
        literal = self.literal()
        if literal is None or (sign and literal.is_string):
            raise cursor.unexpected(
                f"a literal {what}", hint="put text in single quotes" if cursor.word and not sign else ""
            )
        if sign == "-":
            signed = self.prefixed("-", literal, start)
            assert isinstance(signed, Literal)
            return signed
        return literal

    def _long_list(self, token: Token) -> tuple[Literal, ...]:
        items = (SQL_LIST_ITEM if self.quotes_names else PQL_LIST_ITEM).findall(token.value)
        if len(items) > LIST_LITERALS_MAX:
            raise self.cursor.error(
                f"expected at most {LIST_LITERALS_MAX} literals in a list, found {len(items)}", token
            )
        position = self.cursor.position(token)
        kinds = {item[0] for item in items}
        if kinds == {"'"} and token.value.count("'") == 2 * len(items):
            return tuple([Literal(value := item[1:-1], value, True, position) for item in items])
        if kinds <= _DIGITS and max(map(len, items)) <= 18 and "".join(items).isdigit():
            return tuple([Literal(number := int(item), str(number), False, position) for item in items])
        literals: list[Literal] = []
        append = literals.append
        for item in items:
            first = item[0]
            if first in "'\"":
                value = item[1:-1]
                append(
                    Literal(value, value, True, position)
                    if first not in value
                    else string_literal(value.replace(first * 2, first), position)
                )
                continue
            digits = item.lstrip("+-")
            if len(digits) <= 18 and digits.isdigit():
                number = int(item)
                append(Literal(number, str(number), False, position))
                continue
            number_token = Token(INTEGER if digits.isdigit() else NUMBER, digits, token.start, token.end)
            self._check_size(number_token)
            literal = integer_literal(int(digits), position) if digits.isdigit() else self.number(number_token)
            signed = negated(literal, position) if first == "-" else literal
            assert signed is not None
            self._check_long(signed, token, negative=False)
            append(signed)
        return tuple(literals)


def _is_pending(operators: Sequence[_Operator], precedence: int) -> bool:
    """Whether an operator that binds so waits for its right side, which what stands behind it belongs to."""
    waiting = next((one for one in reversed(operators) if one.precedence <= precedence), None)
    return waiting is not None and waiting.precedence == precedence


def check_height(expression: Expression, cursor: Cursor) -> Expression:
    """The expression, if no branch of it is higher than DEPTH_MAX; walks without recursion."""
    level: list[Expression] = [expression]
    for _ in range(DEPTH_MAX):
        level = [
            child
            for node in level
            if isinstance(node, Call)
            for child in (*node.args, *((node.filter,) if node.filter is not None else ()))
        ]
        if not level:
            return expression
    raise cursor.query.error_at(f"expressions nest deeper than {DEPTH_MAX} levels; split the query", level[0].position)
