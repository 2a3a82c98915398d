"""Conditions (calls of equals, and, in, …) to a tree of predicates with literals on the right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from pinotpy.data_types import DataType
from pinotpy.errors import InvalidQueryError, ParseError, PinotError, QueryExecutionError
from pinotpy.functions.scalar.number_order import FLIPPED
from pinotpy.functions.text.patterns import regexp_pattern
from pinotpy.pql.ast import Call, Dialect, Expression, Identifier, Literal, Position
from pinotpy.pql.literals import null_literal
from pinotpy.query.model.context import (
    And,
    Bound,
    Comparison,
    Constant,
    ExpressionPredicate,
    Filter,
    LiteralValue,
    Not,
    Or,
    Predicate,
)
from pinotpy.query.model.deadline import Check, no_deadline
from pinotpy.query.model.fold import fold_constants
from pinotpy.query.model.positions import position_text
from pinotpy.query.model.simplify import simplify_filter

_NULL: Final = null_literal(Position(0, 0))
_UNKNOWN: Final = ExpressionPredicate(Call("equals", (_NULL, _NULL)))  # as a value: null in every row
_TEXT_TYPES: Final = (DataType.STRING, DataType.JSON)


def parse_error(message: str, position: Position) -> ParseError:
    """A ParseError (150) found while compiling."""
    return ParseError(message + position_text(position), line=position.line, column=position.column)


class FilterCompiler:
    """Compiles resolved conditions.

    Args:
        type_of: type of a column by name, None for all else (aggregations in HAVING).
        null_handling: whether IS TRUE and its like must tell unknown from false.
        as_value: the condition's value is asked for, which may be null.
        check: the query's deadline.
    """

    def __init__(
        self,
        dialect: Dialect,
        type_of: Callable[[str], DataType | None],
        *,
        null_handling: bool,
        as_value: bool = False,
        check: Check = no_deadline,
    ) -> None:
        self._check = check
        self._as_value = as_value and null_handling
        self._dialect = dialect
        self._type_of = type_of
        self._null_handling = null_handling
        self._negated = False  # whether the part being compiled stands below an odd number of NOTs

    def compile(self, condition: Expression) -> Filter | None:
        """The filter in plain form; None if it is always true.

        Raises:
            ParseError: (150) what neither dialect has, such as x = NULL.
            InvalidQueryError: (700) LIKE over numbers.
        """
        simple = simplify_filter(self._filter(fold_constants(condition)))
        return None if simple == Constant(True) else simple

    def _filter(self, node: Expression) -> Filter:
        if isinstance(node, Literal):
            return self._constant(node)
        if isinstance(node, Identifier):
            return Predicate(node, Comparison.EQ, (True,))
        if not isinstance(node, Call):
            raise parse_error("expected a condition, found *", node.position)
        self._check()
        name, args = node.name, node.args
        if name in ("and", "or") and args:
            children = tuple([self._filter(arg) for arg in args])
            return And(children) if name == "and" else Or(children)
        if name == "not" and len(args) == 1:
            return self._not(args[0])
        if name in FLIPPED and len(args) == 2:
            return self._compare(name, args[0], args[1], node)
        build = _BUILDERS.get(name)
        if build is not None:
            return build(self, node)
        # A value alone is asked whether it is true, as a column is: BOOLEAN says it, text may, a number is 700 (1 is
        # not TRUE).
        return Predicate(node, Comparison.EQ, (True,)) if self._dialect is Dialect.SQL else ExpressionPredicate(node)

    def _not(self, node: Expression) -> Filter:
        self._negated = not self._negated
        inner = self._filter(node)
        self._negated = not self._negated
        return Not(inner)

    def _unknown(self) -> Filter:
        """A constant that is null keeps no row: it is false, and below a NOT true, because NOT of null is null
        again.
        """
        if self._as_value:
            return _UNKNOWN
        return Constant(self._null_handling and self._negated)

    def _constant(self, literal: Literal) -> Filter:
        if literal.value is None:
            return self._unknown()
        if isinstance(literal.value, bool):
            return Constant(literal.value)
        if literal.is_string:
            return Constant(literal.text.lower() == "true" or literal.text == "1")
        return Constant(literal.value != 0)

    def _compare(self, name: str, left: Expression, right: Expression, node: Call) -> Filter:
        if isinstance(left, Literal) and not isinstance(right, Literal):
            name, left, right = FLIPPED[name], right, left
        if isinstance(left, Literal):
            # Two literals of kinds that folding does not compare, such as 1 = 'a'.
            if left.value is None or (isinstance(right, Literal) and right.value is None):
                return self._unknown()
            raise parse_error("expected a column or two literals of one kind beside the comparison", node.position)
        if not isinstance(right, Literal):
            return ExpressionPredicate(Call(name, (left, right), position=node.position))
        if right.value is None:
            if right.data_type is not None:
                return self._unknown()
            compared = "= NULL" if name == "equals" else "a comparison with NULL"
            raise parse_error(f"{compared} is never true, write IS NULL or IS NOT NULL", node.position)
        if (
            isinstance(right.value, bool)
            and isinstance(left, Call)
            and left.name in _CONDITION_NAMES
            and name in ("equals", "not_equals")
        ):
            return self._filter(left) if right.value is (name == "equals") else self._not(left)
        self._refuse_bytes_beside(left, (right,))
        value = right.value
        if name == "equals":
            return Predicate(left, Comparison.EQ, (value,))
        if name == "not_equals":
            return Predicate(left, Comparison.NOT_EQ, (value,))
        bound = Bound(value, name.endswith("_or_equal"))
        if name.startswith("greater"):
            return Predicate(left, Comparison.RANGE, lower=bound)
        return Predicate(left, Comparison.RANGE, upper=bound)

    def _refuse_bytes_beside(self, operand: Expression, others: Sequence[Expression]) -> None:
        """Bytes are bytes: x'1234' is no number 1234, and no text."""
        data_type = self._type_of(operand.name) if isinstance(operand, Identifier) else None
        if data_type in (None, DataType.BYTES):
            return
        for other in others:
            if type(other) is Literal and other.data_type is DataType.BYTES:
                assert isinstance(operand, Identifier)
                raise InvalidQueryError(
                    f"column '{operand.name}' holds {data_type} and is compared with the bytes x'{other.text[:40]}': "
                    "write a number, or a text in single quotes" + position_text(other.position)
                )

    # --- one method per kind of predicate -----------------------------------------------------------------------------

    def _between(self, node: Call) -> Filter:
        if len(node.args) != 3:
            raise parse_error(
                f"expected BETWEEN to have a value and two bounds, found {len(node.args)} arguments", node.position
            )
        operand, low, high = map(self._typed, node.args)
        self._refuse_bytes_beside(operand, (low, high))
        lower = upper = None
        if isinstance(low, Literal) and isinstance(high, Literal):
            lower, upper = self._literal(low, node), self._literal(high, node)
        if isinstance(operand, Literal) or lower is None or upper is None:
            both = Call(
                "and", (Call("less_than_or_equal", (low, operand)), Call("less_than_or_equal", (operand, high)))
            )
            return self._filter(fold_constants(both))
        return Predicate(operand, Comparison.RANGE, lower=Bound(lower, True), upper=Bound(upper, True))

    def _in(self, node: Call) -> Filter:
        if len(node.args) < 2:
            raise parse_error("expected IN to have a value and a list", node.position)
        literals = [arg for arg in node.args[1:] if isinstance(arg, Literal)]
        if len(literals) < len(node.args) - 1:
            return self._in_computed(node, literals)
        listed = [arg.value if arg.value is not None else self._literal(arg, node) for arg in literals]
        values = tuple([value for value in listed if value is not None])
        is_in = node.name == "in"
        operand = node.args[0]
        self._refuse_bytes_beside(operand, node.args[1:])
        if not values or (isinstance(operand, Literal) and operand.value is None):
            return self._unknown()
        if isinstance(operand, Literal):
            equal = [fold_constants(Call("equals", (operand, arg))) for arg in literals if arg.value is not None]
            is_member = any(isinstance(same, Literal) and same.value is True for same in equal)
            return Constant(is_member is is_in) if is_member or len(values) == len(listed) else self._unknown()
        members = Predicate(operand, Comparison.IN if is_in else Comparison.NOT_IN, values)
        if len(values) == len(listed):
            return members
        # x may be the null of the list: IN is true or unknown, NOT IN false or unknown.
        return (Or if is_in else And)((members, self._unknown()))

    def _in_computed(self, node: Call, literals: Sequence[Literal]) -> Filter:
        """A list of which some members are columns or calls: those are compared one by one."""
        is_in, operand = node.name == "in", node.args[0]
        parts = [self._in(replace(node, args=(operand, *literals)))] if literals else []
        for arg in node.args[1:]:
            if not isinstance(arg, Literal):
                parts.append(self._compare("equals" if is_in else "not_equals", operand, arg, node))
        return (Or if is_in else And)(tuple(parts))

    def _typed(self, expression: Expression) -> Expression:
        """With SQL's nulls a NULL that is written is as one that is computed: unknown."""
        if self._null_handling and isinstance(expression, Literal) and expression.value is None:
            return replace(expression, data_type=expression.data_type or DataType.STRING)
        return expression

    def _literal(self, literal: Literal, node: Call) -> LiteralValue | None:
        """The value; None of one that is null."""
        if literal.value is None and literal.data_type is None and not self._null_handling:
            word = node.name.upper().replace("_", " ")
            raise parse_error(f"expected literals after {word}; write IS NULL beside the list", literal.position)
        return literal.value

    def _like(self, node: Call) -> Filter:
        if len(node.args) not in (2, 3):
            raise parse_error(
                f"expected {node.name.upper()} to have a value and a pattern, found {len(node.args)} arguments",
                node.position,
            )
        pattern = self._pattern(node)
        if pattern is None:
            return self._unknown()
        escape = "\\"
        if len(node.args) == 3:
            third = node.args[2]
            if not isinstance(third, Literal) or len(third.text) != 1:
                raise parse_error("expected one character after ESCAPE", third.position)
            escape = third.text
        return Predicate(node.args[0], Comparison.LIKE, (pattern,), flags="i", escape=escape)

    def _regexp_like(self, node: Call) -> Filter:
        if len(node.args) not in (2, 3):
            raise parse_error(
                f"expected REGEXP_LIKE to have a value and a pattern, found {len(node.args)} arguments", node.position
            )
        flags = "i" if self._dialect is Dialect.PQL else ""
        pattern = self._pattern(node)
        if pattern is None:
            return self._unknown()
        if len(node.args) == 3:
            third = node.args[2]
            if not isinstance(third, Literal) or third.text not in ("i", "c"):
                raise InvalidQueryError(
                    "expected 'i' (ignore case) or 'c' (case counts) as third argument of REGEXP_LIKE"
                    + position_text(third.position)
                )
            flags = "i" if third.text == "i" else ""
        try:
            regexp_pattern(pattern, ignore_case=flags == "i")
        except QueryExecutionError as error:
            fault: type[PinotError] = InvalidQueryError if self._dialect is Dialect.SQL else QueryExecutionError
            raise fault(error.message + position_text(node.args[1].position)) from error
        return Predicate(node.args[0], Comparison.REGEXP_LIKE, (pattern,), flags=flags)

    def _text_match(self, node: Call) -> Filter:
        if len(node.args) < 2:
            raise parse_error("expected TEXT_MATCH to have a column and a search text", node.position)
        if not isinstance(node.args[0], Identifier):
            raise parse_error(
                "expected TEXT_MATCH to have a column, whose text index is searched, found an expression", node.position
            )
        pattern = self._pattern(node)
        return self._unknown() if pattern is None else Predicate(node.args[0], Comparison.TEXT_MATCH, (pattern,))

    def _json_match(self, node: Call) -> Filter:
        if len(node.args) != 2:
            raise parse_error(
                f"expected JSON_MATCH to have a column and a condition, found {len(node.args)} arguments", node.position
            )
        column = node.args[0]
        if not isinstance(column, Identifier):
            raise parse_error(
                "expected JSON_MATCH to have a column, whose documents are searched, found an expression", node.position
            )
        data_type = self._type_of(column.name)
        if data_type is not None and data_type not in _TEXT_TYPES:
            raise InvalidQueryError(
                f"Unsupported data type: {data_type}: JSON_MATCH needs a JSON or STRING column"
                + position_text(column.position)
            )
        pattern = self._pattern(node)
        return self._unknown() if pattern is None else Predicate(column, Comparison.JSON_MATCH, (pattern,))

    def _pattern(self, node: Call) -> str | None:
        """The text of a pattern; None where it, or the value beside it, is null."""
        operand, pattern = node.args[0], node.args[1]
        if not isinstance(pattern, Literal) or (pattern.value is None and pattern.data_type is None):
            raise parse_error(f"expected a pattern in single quotes in {node.name.upper()}", pattern.position)
        if self._dialect is Dialect.SQL and isinstance(operand, Identifier):
            data_type = self._type_of(operand.name)
            if data_type is not None and data_type not in _TEXT_TYPES:
                hint = f"CAST({'…' if operand.name.startswith('$') else operand.name} AS VARCHAR) makes it text"
                raise InvalidQueryError(
                    f"Unsupported data type: {data_type}: {node.name.upper()} needs text; {hint}"
                    + position_text(operand.position)
                )
        return (
            None if pattern.value is None or (isinstance(operand, Literal) and operand.value is None) else pattern.text
        )

    def _null(self, node: Call) -> Filter:
        (operand,) = self._one(node)
        if isinstance(operand, Literal):
            return Constant((operand.value is None) is (node.name == "is_null"))
        return Predicate(operand, Comparison.IS_NULL if node.name == "is_null" else Comparison.IS_NOT_NULL)

    def _truth(self, node: Call) -> Filter:
        """IS [NOT] TRUE and IS [NOT] FALSE: never unknown themselves."""
        (operand,) = self._one(node)
        wanted = node.name.endswith("_true")
        negative = "_not_" in node.name
        if isinstance(operand, Literal):
            return Constant((operand.value is wanted) is not negative)
        if not self._null_handling:
            return self._filter(operand) if wanted is not negative else self._not(operand)
        if not isinstance(operand, Identifier):
            return ExpressionPredicate(node)
        same = Predicate(operand, Comparison.EQ, (wanted,))
        if negative:
            return Or((Predicate(operand, Comparison.IS_NULL), Predicate(operand, Comparison.NOT_EQ, (wanted,))))
        return And((Predicate(operand, Comparison.IS_NOT_NULL), same))

    def _distinct_from(self, node: Call) -> Filter:
        """IS [NOT] DISTINCT FROM: nulls are equal to each other and to nothing else."""
        if len(node.args) != 2:
            raise parse_error("expected two values beside IS DISTINCT FROM", node.position)
        left, right = node.args
        if isinstance(left, Literal):
            left, right = right, left
        same = node.name == "is_not_distinct_from"
        missing, present = Predicate(left, Comparison.IS_NULL), Predicate(left, Comparison.IS_NOT_NULL)
        if isinstance(right, Literal):
            if right.value is None:
                return self._filter(Call("is_null" if same else "is_not_null", (left,)))
            if isinstance(left, Literal):
                return self._filter(
                    fold_constants(Call("equals" if same else "not_equals", (left, right), position=node.position))
                )
            if same:
                return And((present, Predicate(left, Comparison.EQ, (right.value,))))
            return Or((missing, Predicate(left, Comparison.NOT_EQ, (right.value,))))
        other_missing, other_present = Predicate(right, Comparison.IS_NULL), Predicate(right, Comparison.IS_NOT_NULL)
        compared = ExpressionPredicate(Call("equals" if same else "not_equals", (left, right), position=node.position))
        both = And((present, other_present, compared))
        if same:
            return Or((And((missing, other_missing)), both))
        return Or((And((missing, other_present)), And((present, other_missing)), both))

    def _one(self, node: Call) -> tuple[Expression]:
        if len(node.args) != 1:
            raise parse_error(f"expected {node.name} to have one argument, found {len(node.args)}", node.position)
        return (node.args[0],)


_BUILDERS: Final[dict[str, Callable[[FilterCompiler, Call], Filter]]] = {
    "between": FilterCompiler._between,
    "in": FilterCompiler._in,
    "not_in": FilterCompiler._in,
    "like": FilterCompiler._like,
    "regexp_like": FilterCompiler._regexp_like,
    "text_match": FilterCompiler._text_match,
    "json_match": FilterCompiler._json_match,
    "is_null": FilterCompiler._null,
    "is_not_null": FilterCompiler._null,
    "is_true": FilterCompiler._truth,
    "is_not_true": FilterCompiler._truth,
    "is_false": FilterCompiler._truth,
    "is_not_false": FilterCompiler._truth,
    "is_distinct_from": FilterCompiler._distinct_from,
    "is_not_distinct_from": FilterCompiler._distinct_from,
}
_CONDITION_NAMES: Final = frozenset({*FLIPPED, *_BUILDERS, "and", "or", "not"})
