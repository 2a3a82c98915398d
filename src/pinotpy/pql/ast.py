"""The one AST of both dialects: expressions, and the SELECT statement.

Everything in a statement is an expression: predicates are calls of `equals`, `and`, `in`, … as in the reference, so
that filters, HAVING and (in SQL) selected conditions share one shape. Names of functions are canonical: lower case, and
operators have the names below. The dialect's spelling rules live in its parser; how an expression is printed in column
names lives in printer.py.

Operators: plus minus times divide mod; equals not_equals greater_than greater_than_or_equal less_than
less_than_or_equal; and or not; between not_between in not_in; like not_like regexp_like text_match json_match; is_null
is_not_null is_true is_not_true is_false is_not_false; case; cast. `count(*)` has the one argument Star().
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Union

from pinotpy.data_types import DataType


class Dialect(StrEnum):
    """Which grammar a text was written in; also which response writer answers it."""

    PQL = "PQL"
    SQL = "SQL"


@dataclass(frozen=True, slots=True)
class Position:
    """Where something stands in the query text: line and column from 1. Never part of equality."""

    line: int = 1
    column: int = 1


_NOWHERE = Position()


@dataclass(frozen=True, slots=True)
class Identifier:
    """A column (or alias) by name, as written, without quotes."""

    name: str
    position: Position = field(default=_NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant. `value` is int, Decimal or float, str, bool or None; `text` is how the dialect prints it (Java number
    text in PQL: `5.` is 5.0, 0.000001 is 1.0E-6), without quotes. `is_string` tells '5' from 5. `data_type` is set
    where a computed constant has another type than such a value written out: LONG for 1 + 1, BYTES for
    hexToBytes('ff'); of a null where it was computed: NULLIF(2, 2). Such a null in a condition is unknown; one that is
    written there is refused.
    """

    value: int | float | Decimal | str | bool | None
    text: str
    is_string: bool = False
    position: Position = field(default=_NOWHERE, compare=False, repr=False)
    data_type: DataType | None = None


@dataclass(frozen=True, slots=True)
class Star:
    """The `*` of COUNT(*) and SELECT *. `qualifier` is what stands before it in SELECT f.*, `exclude` the columns that
    SELECT * EXCLUDE (a, b) leaves out.
    """

    position: Position = field(default=_NOWHERE, compare=False, repr=False)
    qualifier: str = ""
    exclude: tuple[Identifier, ...] = ()


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Call:
    """A function or operator. `name` is canonical (lower case; aggregation names without underscores); `distinct` for
    COUNT(DISTINCT x); `filter` for FILTER (WHERE …)."""

    name: str
    args: tuple[Expression, ...]
    distinct: bool = False
    filter: Expression | None = None
    position: Position = field(default=_NOWHERE, compare=False, repr=False)


Expression = Union[Identifier, Literal, Star, Call]


@dataclass(frozen=True, slots=True)
class SelectItem:
    """One entry of the select list. PQL parses aliases and ignores them."""

    expression: Expression
    alias: str | None = None


@dataclass(frozen=True, slots=True)
class OrderItem:
    """One ORDER BY key. `nulls_last` is None where the text does not say."""

    expression: Expression
    ascending: bool = True
    nulls_last: bool | None = None


@dataclass(frozen=True, slots=True)
class Statement:
    """A SELECT. Clauses that the text lacks are None or empty; defaults (LIMIT 10, TOP 10) are applied when compiling.

    `table` is the raw name as written, after the dialect's rules (`db.table`, quotes); `table_alias` the f of FROM
    flights AS f; `group_by_all` for GROUP BY ALL, beside which `group_by` is empty; `limit_all`
    for LIMIT ALL, beside which `limit` is None; `explain` for EXPLAIN PLAN FOR;
    `options` merges OPTION(…) and SET, values as text.
    """

    dialect: Dialect
    select: tuple[SelectItem, ...]
    table: str
    distinct: bool = False
    where: Expression | None = None
    group_by: tuple[Expression, ...] = ()
    having: Expression | None = None
    order_by: tuple[OrderItem, ...] = ()
    top: int | None = None
    limit: int | None = None
    offset: int | None = None
    options: tuple[tuple[str, str], ...] = ()
    explain: bool = False
    table_alias: str | None = None
    group_by_all: bool = False
    limit_all: bool = False
