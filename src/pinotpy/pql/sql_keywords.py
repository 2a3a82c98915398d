"""Words that SQL keeps for itself, names of operators, and units of time."""

from __future__ import annotations

from typing import Final

# Neither a column nor an alias without quotes. Calcite reserves many more; these are the ones whose use as a name would
# make texts ambiguous.
RESERVED: Final = frozenset(
    {
        "ALL",
        "AND",
        "ANY",
        "AS",
        "BETWEEN",
        "BY",
        "CASE",
        "CAST",
        "CROSS",
        "DISTINCT",
        "ELSE",
        "END",
        "ESCAPE",
        "EXCEPT",
        "EXISTS",
        "EXTRACT",
        "FALSE",
    }
    | {
        "FETCH",
        "FROM",
        "FULL",
        "GROUP",
        "HAVING",
        "IN",
        "INNER",
        "INTERSECT",
        "INTERVAL",
        "IS",
        "JOIN",
        "LEFT",
        "LIKE",
        "LIMIT",
        "MINUS",
        "NATURAL",
    }
    | {
        "NOT",
        "NULL",
        "OFFSET",
        "ON",
        "OR",
        "ORDER",
        "OUTER",
        "OVER",
        "RIGHT",
        "SELECT",
        "SOME",
        "THEN",
        "TIMESTAMP",
        "TRUE",
        "UNION",
        "USING",
    }
    | {"VALUES", "WHEN", "WHERE", "WINDOW", "WITH"}
)
# Names that keep their underscores in column names and in Call.name; every other function name loses them.
OPERATOR_NAMES: Final = frozenset(
    {
        "equals",
        "not_equals",
        "greater_than",
        "greater_than_or_equal",
        "less_than",
        "less_than_or_equal",
        "and",
        "or",
        "not",
        "in",
        "not_in",
        "between",
    }
    | {
        "like",
        "regexp_like",
        "text_match",
        "json_match",
        "is_null",
        "is_not_null",
        "is_true",
        "is_not_true",
        "is_false",
        "is_not_false",
    }
    | {"is_distinct_from", "is_not_distinct_from"}
)
EXTRACT_UNITS: Final = frozenset(
    {
        "YEAR",
        "QUARTER",
        "MONTH",
        "WEEK",
        "DAY",
        "DOY",
        "DOW",
        "HOUR",
        "MINUTE",
        "SECOND",
        "MILLISECOND",
        "MICROSECOND",
        "NANOSECOND",
        "EPOCH",
    }
    | {
        "ISODOW",
        "ISOYEAR",
        "DECADE",
        "CENTURY",
        "MILLENNIUM",
        "TIMEZONE_HOUR",
        "TIMEZONE_MINUTE",
        "DAY_OF_WEEK",
        "DAY_OF_YEAR",
    }
)
