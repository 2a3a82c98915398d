"""QueryContext: what both dialects compile to, and what a broker sends to servers.

Columns are resolved and typed against the schema, aliases and ordinals are gone, aggregations are extracted into one
list, filters are a tree of predicates. A context is immutable and has a JSON form (context_codec.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Union

from pinotpy.data_types import DataType
from pinotpy.pql.ast import Dialect, Expression


class QueryKind(StrEnum):
    """The four shapes of a query; each has its operator and its partial result."""

    SELECTION = "SELECTION"
    AGGREGATION = "AGGREGATION"
    GROUP_BY = "GROUP_BY"
    DISTINCT = "DISTINCT"


# --- filters -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class And:
    children: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Or:
    children: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Not:
    child: Filter


@dataclass(frozen=True, slots=True)
class Constant:
    """TRUE or FALSE (or unknown: False) regardless of the row."""

    value: bool


class Comparison(StrEnum):
    """Predicates with literals on the right."""

    EQ = "EQ"
    NOT_EQ = "NOT_EQ"
    IN = "IN"
    NOT_IN = "NOT_IN"
    RANGE = "RANGE"
    REGEXP_LIKE = "REGEXP_LIKE"  # find(); flags in `flags` ("i" or "")
    LIKE = "LIKE"  # whole string; `flags` = "i" when case-insensitive, `escape` the escape character
    NOT_LIKE = "NOT_LIKE"
    TEXT_MATCH = "TEXT_MATCH"
    JSON_MATCH = "JSON_MATCH"
    IS_NULL = "IS_NULL"
    IS_NOT_NULL = "IS_NOT_NULL"


# A literal as written; converted to the column's type when the predicate is compiled for execution.
LiteralValue = Union[int, float, Decimal, str, bool, None]


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of a range."""

    value: LiteralValue
    inclusive: bool


@dataclass(frozen=True, slots=True)
class Predicate:
    """`lhs` (column or expression) against literals. EQ/NOT_EQ/LIKE/REGEXP/TEXT_MATCH/JSON_MATCH: values[0]; IN/NOT_IN:
    values;
    RANGE: lower and upper, None = open.
    """

    lhs: Expression
    comparison: Comparison
    values: tuple[LiteralValue, ...] = ()
    lower: Bound | None = None
    upper: Bound | None = None
    flags: str = ""
    escape: str = "\\"


@dataclass(frozen=True, slots=True)
class ExpressionPredicate:
    """A boolean expression that is no literal comparison (column to column, CASE …): true where it is true."""

    expression: Expression


Filter = Union[And, Or, Not, Constant, Predicate, ExpressionPredicate]

# --- the rest of a query -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Aggregation:
    """One aggregation call: canonical function name (`sum`, `distinctcount`), arguments, optional FILTER.

    `name` is how the dialect prints it: `sum_runs`, `count_star` (PQL); `sum(runs)`, `count(*)` (SQL).
    """

    function: str
    args: tuple[Expression, ...]
    name: str
    filter: Filter | None = None


@dataclass(frozen=True, slots=True)
class OrderBy:
    """A resolved sort key; `expression` is one of the selected/grouped expressions, or AggregationRef(index)."""

    expression: Expression | AggregationRef
    ascending: bool = True
    nulls_last: bool | None = None


@dataclass(frozen=True, slots=True)
class AggregationRef:
    """Stands for the value of aggregations[index] in post-aggregation expressions, HAVING and ORDER BY."""

    index: int


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """One column of the answer: its printed name (alias if the dialect honours it) and what it shows.

    For SELECTION and DISTINCT an expression over columns. For AGGREGATION and GROUP_BY an AggregationRef, a group
    expression, or an expression over both where AggregationRefs appear as Call('$agg', (Literal(index),)).
    """

    name: str
    expression: Expression | AggregationRef


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """Options of a query; unknown ones are kept in `other`. A client may lower limits, never raise them.

    enable_null_handling: None where the query does not say; true or false in a compiled query.
    """

    timeout_ms: int | None = None
    preserve_type: bool = False
    response_format_sql: bool = False
    group_by_mode_sql: bool = False
    enable_null_handling: bool | None = None
    num_groups_limit: int | None = None
    trace: bool = False
    use_star_tree: bool = True
    max_threads: int | None = None
    other: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class QueryContext:
    """A compiled query.

    columns: every physical or virtual column that the query reads, with its type and whether it is single-valued
        (from the table's schema at the broker; servers check it against each segment).
    having: over AggregationRefs and group expressions (lhs of its predicates may be Call('$agg', …)).
    num_groups: PQL: TOP n; SQL: LIMIT. None for the other kinds.
    null_handling: SQL nulls (True) or default values (False); decides filters, aggregates, groups and output.
    user_functions: (canonical name, signature) of every user function in the query, by name (user_functions.py).
    """

    dialect: Dialect
    kind: QueryKind
    table: str
    output: tuple[OutputColumn, ...]
    filter: Filter | None = None
    group_by: tuple[Expression, ...] = ()
    aggregations: tuple[Aggregation, ...] = ()
    having: Filter | None = None
    order_by: tuple[OrderBy, ...] = ()
    limit: int = 10
    offset: int = 0
    null_handling: bool = False
    columns: tuple[ColumnRef, ...] = ()
    options: QueryOptions = field(default_factory=QueryOptions)
    explain: bool = False
    user_functions: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ColumnRef:
    """A column that the query reads, as the schema has it.

    default_null: what stands for null, in stored form: the value of docs whose segment was built before the schema had
        the column. None for virtual columns.
    """

    name: str
    data_type: DataType
    single_value: bool = True
    default_null: int | float | bytes | None = None
