"""The rules of docs/differences.md by which our answer may differ from the recorded one, as predicates (text, recorded,
ours). Options that came beside the text stand at its end, as OPTION(…).

`row_rule` and `sketch_rule` ask further questions to judge: whether rows that a query leaves open are right ones, and
whether estimates lie within the error that the page states.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Any

from datasketches import (
    PyLongsSerDe,
    PyStringsSerDe,
    compact_theta_sketch,
    frequent_items_error_type,
    frequent_items_sketch,
)
from golden_comparison import Answer, codes, has_defined_order, result_difference, row_lists, same

from pinotpy.pql.aggregation_names import is_aggregation
from pinotpy.pql.ast import Call, Expression, Literal
from pinotpy.pql.parser import parse_sql

Ask = Callable[[str], dict[str, Any]]  # the same question with another text
Rule = Callable[[str, dict[str, Any], dict[str, Any]], bool]


def _columns(response: dict[str, Any]) -> list[str]:
    columns: list[str] = (response.get("selectionResults") or {"columns": []})["columns"]
    return columns


def _has(*words: str) -> Callable[[str], bool]:
    return lambda text: any(word in text for word in words)


def _faults(ours: dict[str, Any]) -> str:
    return str(ours.get("exceptions"))


def _same_numbers(text: str, theirs: dict[str, Any], ours: dict[str, Any]) -> bool:
    """All cells are equal read as numbers: what differs is how many digits name the same double."""
    if codes(theirs) or codes(ours):
        return False
    to_the_digit, as_numbers = (
        result_difference(theirs, ours, check_order=has_defined_order(text), tolerance=tolerance)
        for tolerance in (0.0, 1e-17)
    )
    return to_the_digit is not None and as_numbers is None


_FLOAT_HALF_STEP = 2.0**-24  # texts of one FLOAT differ by less, relative to it

# Rules about HTTP statuses: the reference's is 500, ours 200 with one exception.
STATUS_RULES: dict[str, Rule] = {
    "option-text": lambda text, theirs, ours: codes(ours) == [150] and "is not a valid entry" in _faults(ours),
    "offset-overflow": lambda text, theirs, ours: codes(ours) == [200] and "sum up to at most" in _faults(ours),
    "option-values": lambda text, theirs, ours: codes(ours) == [700] and "timeoutMs" in _faults(ours),
}
COMMON_RULES: dict[str, Rule] = {
    # Where the reference answers for one encoding or filter and fails for another, we answer for all.
    "no-encoding-errors": lambda text, theirs, ours: bool(set(codes(theirs)) & {200, 450, 500}) and not codes(ours),
    "no-timeout-errors": lambda text, theirs, ours: (
        codes(theirs) == [427] or (theirs.get("numServersResponded") == 0 and theirs.get("numServersQueried", 0) > 0)
    ),
    # The docs of segments that brokers left out.
    "broker-pruning": lambda text, theirs, ours: (
        ours.get("numSegmentsPrunedByBroker", 0) > 0
        and theirs.get("totalDocs", 0) < ours["totalDocs"]
        and theirs.get("numSegmentsQueried") == ours["numSegmentsQueried"]
        and not codes(theirs)
        and not codes(ours)
        and result_difference(theirs, ours, check_order=True) is None
    ),
}
PQL_RULES: dict[str, Rule] = {
    "having": lambda text, theirs, ours: "HAVING" in text.upper() and codes(theirs) == [150],
    "comments": lambda text, theirs, ours: codes(theirs) == [150] and _has("--", "/*")(text),
    "carriage-return": lambda text, theirs, ours: codes(theirs) == [150] and "\r" in text,
    "not-between": lambda text, theirs, ours: codes(theirs) == [150] and "NOT BETWEEN" in text,
    "infix-arithmetic": lambda text, theirs, ours: (
        codes(theirs) == [150] and bool(set("+-*/") & set(text.replace("(*)", "")))
    ),
    "unknown-column": lambda text, theirs, ours: codes(ours) == [710] and codes(theirs) in ([], [200]),
    "offset-overflow": lambda text, theirs, ours: "sum up to at most" in _faults(ours),
    "star-columns": lambda text, theirs, ours: (
        "SELECT *" in text and _columns(theirs) == ["*"] and not row_lists(ours)[0]
    ),
    "aligned-rows": lambda text, theirs, ours: (
        bool(_columns(theirs)) and any(len(json.loads(row)) < len(_columns(theirs)) for row in row_lists(theirs)[0])
    ),
    "literal-on-the-left": lambda text, theirs, ours: (
        re.search(r"WHERE '[^']*' >", text) is not None and not codes(ours)
    ),
    "order-by-counters": lambda text, theirs, ours: _only_counters_differ(
        "ORDER BY", text, theirs, ours, check_order=True
    ),
    "limit-counters": lambda text, theirs, ours: (
        ours.get("numServersQueried", 1) > 1 and _only_counters_differ("LIMIT", text, theirs, ours, check_order=False)
    ),
    "groovy": lambda text, theirs, ours: "Unsupported function: groovy" in _faults(ours),
    "nan-order": lambda text, theirs, ours: "MAX(" in text and "NaN" in json.dumps(ours.get("aggregationResults")),
    "negative-zero": lambda text, theirs, ours: (
        "GROUP BY" in text and not codes(ours) and _only_groups_of_zero_differ(theirs, ours)
    ),
    "distinct-offset": lambda text, theirs, ours: (
        "DISTINCT(" in text and re.search(r"LIMIT \d+,", text) is not None and not codes(ours)
    ),
    "shortest-digits": _same_numbers,
    "out-of-time": lambda text, theirs, ours: codes(ours) == [250] and "timeoutMs=1)" in text,
    **COMMON_RULES,
}
SQL_RULES: dict[str, Rule] = {
    # The final pass of the reference's single server turns null keys and aggregates into '', 0, 0.0, false.
    "nulls-of-groups": lambda text, theirs, ours: (
        "GROUP BY" in text and "enableNullHandling=true" in text and _equal_but_for_nulls(theirs, ours)
    ),
    "like-escape": lambda text, theirs, ours: "LIKE" in text and _has("\\", "ESCAPE")(text) and not codes(ours),
    "like-newline": lambda text, theirs, ours: (
        "Test15" in text and re.search(r"LIKE '[^']*(_|[^%']%[^%'])", text) is not None and not codes(ours)
    ),
    "like-letter-case": lambda text, theirs, ours: (
        "Test15" in text and re.search(r"LIKE '[^']*[iIİı]", text) is not None and not codes(ours)
    ),
    "big-integers": lambda text, theirs, ours: re.search(r"[0-9]{19,}", text) is not None and not codes(ours),
    "columns-compared": lambda text, theirs, ours: (
        re.search(r"\bedge\w+ ([<>]=?|=|<>) edge", text) is not None and not codes(ours)
    ),
    "nan-order": lambda text, theirs, ours: re.search(r"\bedge\w+ [-*/%]", text) is not None and not codes(ours),
    "decimal-scale": lambda text, theirs, ours: (
        _has("bigD", "bigM", "rawBig", "nulBig", "DECIMAL")(text) and _cells(theirs, ours, _same_decimal)
    ),
    "decimal-quotients": lambda text, theirs, ours: (
        re.search(r"\bbigD / [1-9]", text) is not None and _cells(theirs, ours, _same_decimal_but_rounded)
    ),
    # One of the values that the reference counts is the default of nulls.
    "distinct-of-nulls": lambda text, theirs, ours: (
        "enableNullHandling=true" in text
        and _has("DISTINCTCOUNTBITMAP(", "DISTINCTCOUNTHLL(", "DISTINCTCOUNTMV(")(text)
        and _cells(
            theirs, ours, lambda a, b: a == b or (type(a) is type(b) is int and a == b + 1) or (a == "" and b is None)
        )
    ),
    "bitmap-exact": lambda text, theirs, ours: (
        "DISTINCTCOUNTBITMAP(" in text and _cells(theirs, ours, lambda a, b: a <= b)
    ),
    "constant-functions": lambda text, theirs, ours: (
        re.search(r"CAST\((concat\('[^)]*\)|'[^']*') AS", text) is not None
        and (
            (codes(theirs) == [150] and codes(ours) == [200])
            or ("AS TIMESTAMP" in text and _cells(theirs, ours, lambda a, b: a == b or a == _millis(b)))
        )
    ),
    "far-timestamps": lambda text, theirs, ours: (
        "AS TIMESTAMP" in text
        and row_lists(theirs) != row_lists(ours)
        and _cells(
            theirs,
            ours,
            lambda a, b: a == b or (re.match(r"\d{6,}-", a) is not None and re.fullmatch(r"-?\d+", b) is not None),
        )
    ),
    "rounding": lambda text, theirs, ours: (
        _ROUND.search(text) is not None and not codes(theirs) and _only_rounding_differs(theirs, ours)
    ),
    "explain-plan": lambda text, theirs, ours: text.startswith("EXPLAIN PLAN FOR") and _same_plan_shape(theirs, ours),
    "map-key-absent": lambda text, theirs, ours: (
        "['" in text and row_lists(theirs) != row_lists(ours) and _cells(theirs, ours, _without_defaults)
    ),
    "host-name": lambda text, theirs, ours: "$hostName" in text and not codes(theirs) and not codes(ours),
    "rows-not-shown": lambda text, theirs, ours: (
        "ORDER BY" in text
        and not codes(theirs)
        and codes(ours) == [200]
        and ours["numServersQueried"] > 1
        and "on some records" in _faults(ours)
    ),
    "json-range": lambda text, theirs, ours: (
        not codes(theirs) and codes(ours) == [200] and "beyond its range" in _faults(ours)
    ),
    "shortest-digits": lambda text, theirs, ours: (
        "AS FLOAT" in text
        and not codes(ours)
        and row_lists(theirs) != row_lists(ours)
        and result_difference(theirs, ours, check_order=True, tolerance=_FLOAT_HALF_STEP) is None
    ),
    "filter-counters": lambda text, theirs, ours: _only_counters_differ(
        "FILTER", text, theirs, ours, check_order=False
    ),
    "denormal-floats": lambda text, theirs, ours: "edgeF" in text and not codes(ours),
    "conditions-selected": lambda text, theirs, ours: codes(theirs) == [700] and "= 'NaN'" in text and not codes(ours),
    "unknown-virtual-column": lambda text, theirs, ours: codes(ours) == [710] and "$" in text,
    "concatenation": lambda text, theirs, ours: codes(theirs) == [700] and "||" in text and not codes(ours),
    "backticks": lambda text, theirs, ours: codes(theirs) == [150] and "`" in text,
    "order-by-counters": lambda text, theirs, ours: _only_counters_differ(
        "ORDER BY", text, theirs, ours, check_order=True
    ),
    "catalog-statements": lambda text, theirs, ours: (
        codes(theirs) == [150] and text.startswith(("SHOW TABLES", "DESCRIBE ")) and not codes(ours)
    ),
    "unary-sign": lambda text, theirs, ours: (
        codes(theirs) == [700] and re.search(r"[-+] ?[(a-zA-Z]", text) is not None and not codes(ours)
    ),
    "constant-types": lambda text, theirs, ours: (
        re.match(r"(SET [^;]*;)?\s*SELECT [-+*/%0-9. ()]+( FROM|$)", text) is not None and not codes(ours)
    ),
    "constants-of-a-table": lambda text, theirs, ours: (
        not codes(theirs) and theirs["totalDocs"] == 0 and _repeats_constants(text, theirs, ours)
    ),
    "constants-without-table": lambda text, theirs, ours: (
        codes(theirs) == [700]
        and "FROM clause" in _faults(theirs)
        and not codes(ours)
        and re.search(r"NULL|ARRAY|split\(", text) is not None
    ),
    "limit-0-of-constants": lambda text, theirs, ours: (
        re.fullmatch(r"SELECT [^A-Za-z]* LIMIT 0", text) is not None and not codes(ours)
    ),
    "fractional-limit": lambda text, theirs, ours: "whole number after LIMIT" in _faults(ours),
    "limit-out-of-range": lambda text, theirs, ours: "after LIMIT, found" in _faults(ours) and codes(theirs) == [200],
    "total-docs": lambda text, theirs, ours: (
        theirs["totalDocs"] == 0 and _only_counters_differ("WHERE", text, theirs, ours, check_order=False)
    ),
    "number-arguments": lambda text, theirs, ours: (
        codes(theirs) == [200] and codes(ours) == [700] and "are no numbers" in _faults(ours)
    ),
    "argument-types": lambda text, theirs, ours: (
        codes(ours) == [700]
        and (
            (codes(theirs) in ([200], [450]) and "or another column" in _faults(ours))
            or (codes(theirs) == [200] and "expected " in _faults(ours))
            or (_scanned_nothing(theirs) and "use CAST or " in _faults(ours))
        )
    ),
    "any-value": lambda text, theirs, ours: (
        "ANYVALUE(" in text and _cells(theirs, ours, lambda a, b: type(a) is type(b))
    ),
    "long-sums": lambda text, theirs, ours: "SUMLONG(" in text and not codes(theirs) and "is no LONG" in _faults(ours),
    "offset": lambda text, theirs, ours: (
        re.search(r"OFFSET|LIMIT \d+ *,", text) is not None
        and re.search("GROUP BY|DISTINCT", text) is not None
        and not codes(ours)
    ),
    "literal-types": lambda text, theirs, ours: (
        codes(theirs) == [700]
        and not codes(ours)
        and re.search(r"\b(tsD|rawTs|nulTs|jsonD|jsonIdx|nulJson) ([<>=]|(NOT )?(IN|BETWEEN)\b)", text) is not None
    ),
    "numbers-in-lists": lambda text, theirs, ours: (
        codes(theirs) == [700]
        and "Cannot convert value" in _faults(theirs)
        and not codes(ours)
        and re.search(r"IN \([^')]*\d\.\d[^')]*\)", text) is not None
    ),
    "computed-bounds": lambda text, theirs, ours: (
        codes(theirs) == [150]
        and not codes(ours)
        and re.search(r"\bBETWEEN ([A-Za-z]|\S+ AND [A-Za-z])|\bIN \([^')]*[A-Za-z]", text) is not None
    ),
    "having-all-groups": lambda text, theirs, ours: (
        "HAVING" in text
        and not codes(theirs)
        and not codes(ours)
        and len(ours["resultTable"]["rows"]) > len(theirs["resultTable"]["rows"])
    ),
    "having-without-groups": lambda text, theirs, ours: "beside HAVING" in _faults(ours),
    "distinct-counters": lambda text, theirs, ours: _only_counters_differ(
        "DISTINCT", text, theirs, ours, check_order=False
    ),
    "multi-value-conditions": lambda text, theirs, ours: (
        codes(theirs) == [200] and codes(ours) == [700] and "multi-value column" in _faults(ours)
    ),
    "listagg-distinct": lambda text, theirs, ours: (
        codes(theirs) == [150] and "LISTAGG(DISTINCT" in text and not codes(ours)
    ),
    "list-order": lambda text, theirs, ours: (
        re.search(r"ARRAY_?AGG\(", text) is not None
        and (", true)" in text or ours["numSegmentsProcessed"] > 1)
        and _cells(
            theirs, ours, lambda a, b: b is None or same(a, b, 0.0) or (isinstance(b, list) and sorted(a) == sorted(b))
        )
    ),
    "equal-times": lambda text, theirs, ours: (
        re.search(r"(FIRST|LAST)_?WITH_?TIME\([^,]+, *(?!id\b)", text) is not None
        and _cells(theirs, ours, lambda a, b: b is None or type(a) is type(b))
    ),
    "moments-of-nulls": lambda text, theirs, ours: (
        "enableNullHandling=true" in text
        and re.search(r"COVAR_|SKEWNESS|KURTOSIS", text) is not None
        and _cells(theirs, ours, lambda a, b: a == b or b is None or type(b) is float)
    ),
    "groups-limit": lambda text, theirs, ours: "numGroupsLimit" in text and bool(ours.get("numGroupsLimitReached")),
    "table-aliases": lambda text, theirs, ours: (
        codes(theirs) == [150] and re.search(r"FROM \w+ (AS )?\w+\b", text) is not None and codes(ours) in ([], [710])
    ),
    "names-first": lambda text, theirs, ours: codes(theirs) == [150] and codes(ours) == [710],
    "json-fields": lambda text, theirs, ours: codes(theirs) == [710] and "json" in text and not codes(ours),
    "explain-select": lambda text, theirs, ours: (
        codes(theirs) == [150] and text.startswith("EXPLAIN SELECT") and not codes(ours)
    ),
    "distinct-by-alias": lambda text, theirs, ours: (
        codes(theirs) == [150] and "SELECT DISTINCT" in text and " AS " in text and not codes(ours)
    ),
    "times-stay-times": lambda text, theirs, ours: (
        re.search(r"(MIN|MAX)\(tsD\)|dateTrunc\('\w+', tsD\)|TIMESTAMPADD\(\w+, \S+, tsD\)", text) is not None
        and _only_times_differ(theirs, ours)
    ),
    **COMMON_RULES,
}
_ROUND = re.compile(r"\bROUND *\(.*, *-?[0-9]+ *\)", re.IGNORECASE)
_RULES = {"pql": PQL_RULES, "sql": SQL_RULES}


def rule_for(dialect: str, text: str, theirs: Answer, ours: Answer) -> str | None:
    """The name of the rule that explains a difference."""
    rules = STATUS_RULES if theirs.status != ours.status else _RULES[dialect]
    return next((name for name, explains in rules.items() if explains(text, theirs.document, ours.document)), None)


def _only_counters_differ(
    word: str, text: str, theirs: dict[str, Any], ours: dict[str, Any], *, check_order: bool
) -> bool:
    if word not in text or codes(theirs) or codes(ours):
        return False
    return result_difference(theirs, ours, check_order=check_order) is None


def _only_times_differ(theirs: dict[str, Any], ours: dict[str, Any]) -> bool:
    """Whether instants are the recorded milliseconds as TIMESTAMP, and all else is equal."""
    if codes(theirs) or codes(ours):
        return False
    shown, table = ours["resultTable"], theirs["resultTable"]
    types, recorded = shown["dataSchema"]["columnDataTypes"], table["dataSchema"]["columnDataTypes"]
    times = [kind == "TIMESTAMP" and was in ("LONG", "DOUBLE") for kind, was in zip(types, recorded, strict=True)]
    return (
        any(times)
        and shown["dataSchema"]["columnNames"] == table["dataSchema"]["columnNames"]
        and all(kind == was or is_time for kind, was, is_time in zip(types, recorded, times, strict=True))
        and len(shown["rows"]) == len(table["rows"])
        and all(
            _millis(cell) == was if is_time else cell == was
            for row, old in zip(shown["rows"], table["rows"], strict=True)
            for cell, was, is_time in zip(row, old, times, strict=True)
        )
    )


def _scanned_nothing(theirs: dict[str, Any]) -> bool:
    return not codes(theirs) and theirs.get("numDocsScanned") == 0


def _reads_rows(expression: Expression) -> bool:
    if isinstance(expression, Call):
        return is_aggregation(expression.name) or any(_reads_rows(arg) for arg in expression.args)
    return not isinstance(expression, Literal)


def _repeats_constants(text: str, theirs: dict[str, Any], ours: dict[str, Any]) -> bool:
    """Constants alone are selected from a table: the one recorded row comes for each row of the table, of which there
    may be none.
    """
    statement = parse_sql(text)
    if not statement.table or any(_reads_rows(item.expression) for item in statement.select):
        return False
    if codes(ours):
        return codes(ours) == [190]
    left, right = theirs["resultTable"], ours["resultTable"]
    return (
        left["dataSchema"] == right["dataSchema"]
        and len(left["rows"]) == 1
        and all(row == left["rows"][0] for row in right["rows"])
    )


_EXPLAINED = [("Operator", "STRING"), ("Operator_Id", "INT"), ("Parent_Id", "INT")]


def _same_plan_shape(theirs: dict[str, Any], ours: dict[str, Any]) -> bool:
    """Both are tables of operators that begin with the broker's and hang together; the broker's and the server's
    operators are as recorded.
    """
    if codes(theirs) or codes(ours):
        return False
    tables = [answer["resultTable"] for answer in (theirs, ours)]
    if any(
        list(zip(t["dataSchema"]["columnNames"], t["dataSchema"]["columnDataTypes"], strict=True)) != _EXPLAINED
        for t in tables
    ):
        return False
    left, right = (table["rows"] for table in tables)
    numbers = {number for _, number, _ in right}
    hangs_together = all(parent in numbers or parent in (-1, 0) for _, _, parent in right)
    shared = [row for row in left if row[0].startswith(("BROKER_", "COMBINE_"))]
    return (
        hangs_together
        and shared == [row for row in right if row[0].startswith(("BROKER_", "COMBINE_"))]
        and any("PLAN_START" in row[0] for row in right)
    )


def _without_defaults(theirs: Any, ours: Any) -> bool:
    """Equal, or theirs added up the least INT for rows whose map lacks the key."""
    added = theirs - ours if isinstance(theirs, float) and isinstance(ours, float) else 1
    return bool(theirs == ours) or (added < 0 and added % 2**31 == 0)


def _only_rounding_differs(theirs: dict[str, Any], ours: dict[str, Any]) -> bool:
    """Columns of ROUND(x, n) are LONG multiples of n there, decimals here; all others are as recorded."""
    if codes(ours):
        return False
    left, right = theirs["resultTable"], ours["resultTable"]
    names = left["dataSchema"]["columnNames"]
    rounded = [name.startswith("round(") and name.endswith("')") for name in names]
    types = list(zip(left["dataSchema"]["columnDataTypes"], right["dataSchema"]["columnDataTypes"], strict=True))
    if names != right["dataSchema"]["columnNames"] or len(left["rows"]) != len(right["rows"]):
        return False
    for is_rounded, (theirs_type, ours_type) in zip(rounded, types, strict=True):
        if theirs_type != ours_type and not (is_rounded and (theirs_type, ours_type) == ("LONG", "DOUBLE")):
            return False
    for a, b in zip(left["rows"], right["rows"], strict=True):
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            digits = int(names[i].rpartition(",'")[2][:-2]) if rounded[i] else 0
            if not same(x, y) and not (rounded[i] and math.isfinite(y) and abs(x - y) <= max(abs(digits), 1)):
                return False
    return any(rounded)


def _cells(theirs: dict[str, Any], ours: dict[str, Any], agree: Callable[[Any, Any], bool]) -> bool:
    """Both have as many rows, whose cells agree one by one, in order."""
    if codes(theirs) or codes(ours):
        return False
    left, right = theirs["resultTable"]["rows"], ours["resultTable"]["rows"]
    return len(left) == len(right) and all(
        len(a) == len(b) and all(map(agree, a, b)) for a, b in zip(left, right, strict=True)
    )


def _only_groups_of_zero_differ(theirs: dict[str, Any], ours: dict[str, Any]) -> bool:
    """PQL's lists of groups: those that both show are equal but for 0.0 and -0.0, which are one group here."""
    pairs = list(zip(theirs.get("aggregationResults") or [], ours.get("aggregationResults") or [], strict=False))
    for one, other in pairs:
        left, right = (
            {tuple(found["group"]): found["value"] for found in each.get("groupByResult", [])} for each in (one, other)
        )
        zeros = {group for group in left | right if {"0.0", "-0.0"} & set(group)}
        if not zeros or any(left[group] != right[group] for group in left.keys() & right.keys() - zeros):
            return False
    return bool(pairs)


def _same_decimal(one: Any, other: Any) -> bool:
    """Equal, or equal numbers of another scale."""
    try:
        return bool(one == other or Decimal(str(one)) == Decimal(str(other)))
    except ArithmeticError:
        return False


def _same_decimal_but_rounded(one: Any, other: Any) -> bool:
    """Equal where ours is rounded to the scale of theirs."""
    theirs = Decimal(str(one))
    return Decimal(str(other)).quantize(theirs, ROUND_HALF_EVEN, Context(prec=1000)) == theirs


def _millis(text: str) -> int:
    """Milliseconds of a TIMESTAMP as SQL prints it: beyond the year 9999 they are what is printed."""
    if text.removeprefix("-").isdecimal():
        return int(text)
    return round(datetime.fromisoformat(f"{text.ljust(23, '0')}+00:00").timestamp() * 1000)


def _equal_but_for_nulls(theirs: dict[str, Any], ours: dict[str, Any]) -> bool:
    """Every row as recorded where ours has no null; sorted by what both have."""
    if codes(theirs) or codes(ours):
        return False
    left, right = theirs["resultTable"]["rows"], ours["resultTable"]["rows"]

    def shown(row: list[Any], other: list[Any]) -> bool:
        return all(b is None or same(a, b, 1e-9) for a, b in zip(row, other, strict=True))

    return len(left) == len(right) and all(any(shown(row, other) for row in left) for other in right)


# --- rows that a query leaves open ---------------------------------------------------------------------------------

_CUT = re.compile(r"\b(TOP|LIMIT)\s+-?\d+(\s*,\s*\d+)?(\s+OFFSET\s+\d+)?", re.IGNORECASE)


def is_one_of_many(ask: Ask, text: str, theirs: dict[str, Any], ours: dict[str, Any]) -> bool:
    """The query defines which rows may come (ties at the cut, no ORDER BY), not which do: as many rows on both sides,
    every row is among the rows of our answer without the cut, and columns that the query orders by have the same
    values, row by row.
    """
    if codes(theirs) or codes(ours):
        return False
    left, right = row_lists(theirs), row_lists(ours)
    if (
        not left
        or [len(rows) for rows in left] != [len(rows) for rows in right]
        or _sorted_columns(text, theirs) != _sorted_columns(text, ours)
    ):
        return False
    word = "TOP" if theirs.get("aggregationResults") else "LIMIT"
    uncut = ask(f"{_CUT.sub('', text)} {word} 200000")
    whole = row_lists(uncut)
    if codes(uncut) or len(left) != len(whole):
        return False
    return all(
        not (Counter(a) - Counter(c)) and not (Counter(b) - Counter(c))
        for a, b, c in zip(left, right, whole, strict=True)
    )


def _sorted_columns(text: str, document: dict[str, Any]) -> list[list[Any]]:
    """Values of the answer's columns that are keys of ORDER BY, in the answer's order."""
    clause = re.search(r"\bORDER\s+BY\b(.*)$", _CUT.sub("", text), re.IGNORECASE | re.DOTALL)
    table = document.get("resultTable")
    if clause is None or not (table or document.get("selectionResults")):
        return []
    names = table["dataSchema"]["columnNames"] if table else _columns(document)
    rows = table["rows"] if table else document["selectionResults"]["results"]
    keys = {
        re.sub(r"\s+(ASC|DESC)\b.*", "", key.strip(), flags=re.IGNORECASE | re.DOTALL) for key in clause[1].split(",")
    }
    return [[row[i] for row in rows] for i, name in enumerate(names) if name in keys]


# --- sketches ------------------------------------------------------------------------------------------------------

_DIGEST = re.compile(r"PERCENTILE(?:EST|TDIGEST)(\d+)(MV)?\(", re.IGNORECASE)
_DIGEST_WITH_LEVEL = re.compile(r"PERCENTILE(?:EST|TDIGEST|KLL)(MV)?\((\w+),\s*(\d+)(?:,\s*\d+)?\)", re.IGNORECASE)
RANK_ERROR = 3  # in a hundred
THETA_ERROR = 0.03
# Estimates of distinct values at their default precisions: four standard errors, with 2^14 registers, 2^12 registers,
# 2^12 rows.
_COUNT = re.compile(r"DISTINCTCOUNT(HLLPLUS|ULL|CPCSKETCH)(MV)?\(([^(),]*)\)", re.IGNORECASE)
COUNT_ERRORS = {"HLLPLUS": 4 * 1.04 / 2**7, "ULL": 4 * 0.78 / 2**6, "CPCSKETCH": 4 * 0.69 / 2**6}
_FREQUENT = re.compile(r"FREQUENT(LONGS|STRINGS)SKETCH\(", re.IGNORECASE)


def is_within_sketch_error(ask: Ask, text: str, theirs: dict[str, Any], ours: dict[str, Any]) -> bool:
    """Rule `sketch`. Percentiles: both estimates of every group lie between the exact values RANK_ERROR ranks in a
    hundred below and above. Serialized theta sketches: what both estimate differs by THETA_ERROR at most. Numbers of
    distinct values: both estimates lie within COUNT_ERRORS of the exact number. Frequent items: both sketches say the
    same of every value, up to what they say they may be off.
    """
    if codes(theirs) or codes(ours):
        return False
    if "RAWTHETASKETCH" in text.upper():
        return _equal_theta_sketches(theirs, ours)
    if _FREQUENT.search(text):
        return _equal_frequent_items(text, theirs, ours)
    if _COUNT.search(text):
        return _near_exact_counts(ask, text, theirs, ours)
    if not (_DIGEST.search(text) or _DIGEST_WITH_LEVEL.search(text)) or _names(theirs) != _names(ours):
        return False
    low, high = (_values_by_group(ask(_at_moved_level(text, sign * RANK_ERROR))) for sign in (-1, 1))
    for answer in (theirs, ours):
        for key, value in _values_by_group(answer).items():
            number = _number(value)
            if number is None:
                continue
            least, most = _number(low.get(key)), _number(high.get(key))
            if least is None or most is None or not math.floor(least) <= number <= math.ceil(most):
                return False
    return True


def _at_moved_level(text: str, ranks: int) -> str:
    """The query with exact percentiles, `ranks` in a hundred further up or down, of all groups."""

    def at(level: str) -> int:
        return min(max(int(level) + ranks, 0), 100)

    if _DIGEST_WITH_LEVEL.search(text):
        return _DIGEST_WITH_LEVEL.sub(lambda match: f"PERCENTILE{match[1] or ''}({match[2]}, {at(match[3])})", text)
    moved = _DIGEST.sub(lambda match: f"PERCENTILE{match[2] or ''}(__LEVEL{at(match[1])}__", _CUT.sub("", text))
    moved = re.sub(r"\(__LEVEL([0-9.]+)__([^()]*)\)", r"(\2, \1)", moved)
    return f"{moved} TOP 100000" if "GROUP BY" in text else moved


def _equal_theta_sketches(theirs: dict[str, Any], ours: dict[str, Any]) -> bool:
    left, right = (_values_by_group(answer) for answer in (theirs, ours))
    estimates = [
        [compact_theta_sketch.deserialize(base64.b64decode(values[key])).get_estimate() for key in sorted(left)]
        for values in (left, right)
    ]
    return (
        bool(left)
        and left.keys() == right.keys()
        and all(math.isclose(a, b, rel_tol=THETA_ERROR) for a, b in zip(*estimates, strict=True))
    )


def _near_exact_counts(ask: Ask, text: str, theirs: dict[str, Any], ours: dict[str, Any]) -> bool:
    """Only the columns of estimates differ, and they are near the exact numbers of distinct values."""
    exact = _rows(ask(_COUNT.sub(lambda match: f"DISTINCTCOUNT{match[2] or ''}({match[3]})", text)))
    kinds = [match[1].upper() for match in _COUNT.finditer(text)]
    rows = [_rows(answer) for answer in (theirs, ours)]
    if _names(theirs) != _names(ours) or not exact or any(len(own) != len(exact) for own in rows):
        return False
    names = _names(theirs)["columnNames"]
    columns = [i for i, name in enumerate(names) if re.match(r"distinctcount(hllplus|ull|cpcsketch)", str(name))]
    if len(columns) != len(kinds):
        return False
    for left, right, true in zip(*rows, exact, strict=True):
        if any(left[i] != right[i] for i in range(len(names)) if i not in columns):
            return False
        for i, kind in zip(columns, kinds, strict=True):
            if any(abs(own[i] - true[i]) > COUNT_ERRORS[kind] * true[i] + 0.5 for own in (left, right)):
                return False
    return True


def _rows(answer: dict[str, Any]) -> list[list[Any]]:
    rows: list[list[Any]] = (answer.get("resultTable") or {"rows": []})["rows"]
    return rows


def _equal_frequent_items(text: str, theirs: dict[str, Any], ours: dict[str, Any]) -> bool:
    read = [
        {key: _frequent_items(value, text) for key, value in _values_by_group(answer).items()}
        for answer in (theirs, ours)
    ]
    if read[0].keys() != read[1].keys() or _names(theirs) != _names(ours):
        return False
    for key, (total, offset, counts) in read[0].items():
        own_total, own_offset, own_counts = read[1][key]
        slack = max(offset, own_offset)
        if total != own_total or any(
            abs(counts.get(item, 0) - own_counts.get(item, 0)) > slack for item in counts.keys() | own_counts.keys()
        ):
            return False
    return bool(read[0])


def _frequent_items(value: str, text: str) -> tuple[int, int, dict[Any, int]]:
    """(total, how far counts may be off, count by item) of a base64 sketch, read by DataSketches."""
    serde = PyLongsSerDe() if "LONGSSKETCH" in text.upper() else PyStringsSerDe()
    sketch = frequent_items_sketch.deserialize(base64.b64decode(value), serde)
    if sketch.is_empty():
        return 0, 0, {}
    items = sketch.get_frequent_items(frequent_items_error_type.NO_FALSE_NEGATIVES, 0)
    return (
        sketch.total_weight,
        max((upper - lower for _, _, lower, upper in items), default=0),
        {item: lower for item, _, lower, _ in items},
    )


def _values_by_group(answer: dict[str, Any]) -> dict[tuple[int, tuple[str, ...]], str]:
    """By number of the column and group (in SQL the number of the row): the value as text."""
    found: dict[tuple[int, tuple[str, ...]], str] = {}
    for number, row in enumerate((answer.get("resultTable") or {"rows": []})["rows"]):
        found |= {(i, (str(number),)): str(cell) for i, cell in enumerate(row)}
    for i, one in enumerate(answer.get("aggregationResults") or []):
        if "groupByResult" in one:
            found |= {(i, tuple(g["group"])): g["value"] for g in one["groupByResult"]}
        else:
            found[i, ()] = one["value"]
    return found


def _names(answer: dict[str, Any]) -> Any:
    table = answer.get("resultTable")
    return table["dataSchema"] if table else [one["function"] for one in answer.get("aggregationResults") or []]


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) else None
