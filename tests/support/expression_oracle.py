"""What pinotpy's scalar functions mean, written down in DuckDB's SQL: one macro where DuckDB has no function of that
meaning.

Arithmetic is in doubles and never fails (division by zero is an infinity or NaN), casts to whole numbers cut off and
end at the range, positions count from 0, calendar fields are those of a zone's wall clock, epoch buckets count toward
zero.
"""

from __future__ import annotations

import duckdb

_LONG_MAX, _LONG_MIN = "9223372036854775807", "(-9223372036854775808)"
MACROS = (
    "p_div(a, b) AS (a)::DOUBLE / (b)::DOUBLE",
    "p_mod(a, b) AS (a)::DOUBLE % (b)::DOUBLE",
    # Of a double: cut off, NaN is 0, the ends of the range hold what is beyond.
    f"p_long(x) AS CASE WHEN isnan(x) THEN 0 WHEN x >= 9223372036854775807 THEN {_LONG_MAX} WHEN x <= {_LONG_MIN} "
    f"THEN {_LONG_MIN} ELSE trunc(x)::BIGINT END",
    "p_int_of_double(x) AS CASE WHEN isnan(x) THEN 0 WHEN x >= 2147483647 THEN 2147483647 WHEN x <= -2147483648 THEN "
    "-2147483648 ELSE trunc(x)::INTEGER END",
    "p_int_of_long(x) AS ((((x)::HUGEINT + 2147483648) % 4294967296 + 4294967296) % 4294967296 - 2147483648)::INTEGER",
    # Java's text of a double, of those between 1 and 10,000,000 and of 0.
    "p_double_text(x) AS CASE WHEN isnan(x) THEN 'NaN' ELSE (x)::VARCHAR END",
    # Doubles: NaN is equal to itself, and neither above nor below anything.
    "p_less(a, b) AS CASE WHEN a IS NULL OR b IS NULL THEN NULL ELSE a < b AND NOT isnan(a) AND NOT isnan(b) END",
    "p_up_to(a, b) AS CASE WHEN a IS NULL OR b IS NULL THEN NULL ELSE a <= b AND NOT isnan(a) AND NOT isnan(b) END",
    # A whole number beside a double, by value: rounding keeps the order but for what it makes equal. NaN as above.
    "p_whole_side(w, d) AS CASE WHEN (w)::DOUBLE < d THEN -1 WHEN (w)::DOUBLE > d THEN 1 ELSE sign((w)::HUGEINT - "
    "TRY_CAST(d AS HUGEINT)) END",
    "p_whole_equal(w, d) AS CASE WHEN w IS NULL OR d IS NULL THEN NULL ELSE NOT isnan(d) AND p_whole_side(w, d) = 0 "
    "END",
    "p_whole_less(w, d) AS CASE WHEN w IS NULL OR d IS NULL THEN NULL ELSE NOT isnan(d) AND p_whole_side(w, d) < 0 END",
    "p_whole_up_to(w, d) AS CASE WHEN w IS NULL OR d IS NULL THEN NULL ELSE NOT isnan(d) AND p_whole_side(w, d) <= 0 "
    "END",
    "p_whole_more(w, d) AS CASE WHEN w IS NULL OR d IS NULL THEN NULL ELSE NOT isnan(d) AND p_whole_side(w, d) > 0 END",
    "p_whole_from(w, d) AS CASE WHEN w IS NULL OR d IS NULL THEN NULL ELSE NOT isnan(d) AND p_whole_side(w, d) >= 0 "
    "END",
    # UTF-16 units: of the random texts, 😀 alone has two.
    "p_length(s) AS (2 * length(s) - length(replace(s, '😀', '')))::INTEGER",
    "p_upper(s) AS upper(replace(s, 'ß', 'ss'))",
    "p_trim(s) AS trim(s, chr(32) || chr(9) || chr(10))",
    "p_substr(s, b, e) AS substring(s, b + 1, e - b)",
    "p_strpos(s, f) AS (strpos(s, f) - 1)::INTEGER",
    "p_local(ts, zone) AS (epoch_ms((ts)::BIGINT) AT TIME ZONE 'UTC') AT TIME ZONE zone",
    "p_trunc(unit, ts, zone) AS epoch_ms(date_trunc(unit, p_local(ts, zone)) AT TIME ZONE zone)",
    "p_bucket(ts, granularity, unit) AS (((ts)::BIGINT // granularity) * granularity) // unit",
    # 0.0 and -0.0 are one key.
    "p_key(x) AS CASE WHEN x = 0 THEN 0 ELSE x END",
)


def define_macros(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the functions above known to a connection."""
    for macro in MACROS:
        connection.execute(f"CREATE OR REPLACE MACRO {macro}")
