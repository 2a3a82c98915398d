"""When a recorded answer and ours are equal: keys, names, number text, order where the query defines it, error codes,
counters.

`difference` compares to the digit; with a tolerance, numbers may differ by it (docs/differences.md, sum-rounding).
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back over HTTP: status, and the document if the status is 200."""

    status: int
    document: dict[str, Any]


SUM_TOLERANCE = 1e-9


def recorded_answer(line: dict[str, Any], *, alternative: bool) -> Answer:
    """The line's answer in one of its splits."""
    response = line["response"]
    if alternative and "response" in line.get("alt", {}):
        response = line["alt"]["response"]
    return Answer(response["httpStatus"], {}) if "httpStatus" in response else Answer(200, response)


def difference(
    theirs: Answer, ours: Answer, line: dict[str, Any], *, check_order: bool, tolerance: float = 0.0
) -> str | None:
    """None if equal, else what differs first."""
    if theirs.status != ours.status:
        return f"status: recorded {theirs.status}, ours {ours.status} {json.dumps(ours.document)[:300]}"
    expected, found = theirs.document, ours.document
    their_codes, our_codes = codes(expected), codes(found)
    if their_codes or our_codes:
        if set(their_codes) & set(our_codes):
            return None
        return f"codes: recorded {their_codes}, ours {our_codes} {[e['message'][:200] for e in found['exceptions']]}"
    for key in ("selectionResults", "aggregationResults", "resultTable"):
        if (expected.get(key) is not None) != (key in found):
            return f"key {key}: recorded {key in expected}, ours {key in found}"
    in_results = result_difference(expected, found, check_order=check_order, tolerance=tolerance)
    if in_results:
        return in_results
    for counter in ("numDocsScanned", "totalDocs", "numGroupsLimitReached"):
        if (
            counter in expected
            and expected[counter] != found.get(counter)
            and line.get("stats_stable", True)
            and line.get("stable", True)
        ):
            return f"{counter}: recorded {expected[counter]}, ours {found.get(counter)}"
    return None


def result_difference(
    expected: dict[str, Any], found: dict[str, Any], *, check_order: bool, tolerance: float = 0.0
) -> str | None:
    """The same of names, types and rows only."""
    if expected.get("selectionResults"):
        a, b = expected["selectionResults"], found.get("selectionResults", {"columns": None, "results": []})
        if a["columns"] != b["columns"]:
            return f"columns: recorded {a['columns']}, ours {b['columns']}"
        return _row_difference(a["results"], b["results"], check_order, tolerance)
    if expected.get("resultTable"):
        a, b = (
            expected["resultTable"],
            found.get("resultTable", {"dataSchema": {"columnNames": None, "columnDataTypes": None}, "rows": []}),
        )
        for part in ("columnNames", "columnDataTypes"):
            if a["dataSchema"][part] != b["dataSchema"][part]:
                return f"{part}: recorded {a['dataSchema'][part]}, ours {b['dataSchema'][part]}"
        return _row_difference(a["rows"], b["rows"], check_order, tolerance)
    if expected.get("aggregationResults") is not None:
        return _aggregation_difference(expected["aggregationResults"], found.get("aggregationResults", []), tolerance)
    return None


def _aggregation_difference(
    expected: list[dict[str, Any]], found: list[dict[str, Any]], tolerance: float
) -> str | None:
    if len(expected) != len(found):
        return f"aggregations: recorded {len(expected)}, ours {len(found)}"
    for x, y in zip(expected, found, strict=True):
        if x["function"] != y["function"] or x.get("groupByColumns") != y.get("groupByColumns"):
            return (
                f"names: recorded {x['function']} {x.get('groupByColumns')}, ours {y['function']} "
                f"{y.get('groupByColumns')}"
            )
        if ("value" in x) != ("value" in y):
            return f"shape of {x['function']}"
        if "value" in x:
            if not same(x["value"], y["value"], tolerance):
                return f"{x['function']}: recorded {x['value']}, ours {y['value']}"
            continue
        left = [[*g["group"], g["value"]] for g in x["groupByResult"]]
        right = [[*g["group"], g["value"]] for g in y["groupByResult"]]
        # Order by value is defined, among equal values it is not; at the cut any of them may stand.
        if len(left) != len(right) or not all(same(p[-1], q[-1], tolerance) for p, q in zip(left, right, strict=True)):
            return f"{x['function']}: recorded {left[:4]}, ours {right[:4]}"
        cut = left[-1][-1] if left else None
        inner = [row for row in left if not same(row[-1], cut, tolerance)]
        in_rows = _row_difference(inner, [row for row in right if not same(row[-1], cut, tolerance)], False, tolerance)
        if in_rows:
            return f"{x['function']}: {in_rows}"
    return None


def _row_difference(a: list[Any], b: list[Any], check_order: bool, tolerance: float) -> str | None:
    if len(a) != len(b):
        return f"rows: recorded {len(a)}, ours {len(b)}: {a[:2]} {b[:2]}"
    if not check_order:
        a, b = sorted(a, key=_sort_key), sorted(b, key=_sort_key)
    for x, y in zip(a, b, strict=True):
        if not same(x, y, tolerance):
            return f"row{'' if check_order else ' (any order)'}: recorded {x}, ours {y}"
    return None


def _sort_key(row: Any) -> str:
    return json.dumps(row, sort_keys=True)


def same(a: Any, b: Any, tolerance: float = 0.0) -> bool:
    """Whether two cells or rows are equal. Text of numbers keeps its decimals whatever the tolerance."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(same(x, y, tolerance) for x, y in zip(a, b, strict=True))
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, int | float) and isinstance(b, int | float):
        return a == b or (tolerance > 0 and math.isclose(a, b, rel_tol=tolerance))
    if tolerance > 0 and isinstance(a, str) and isinstance(b, str) and a != b:
        try:
            x, y = float(a), float(b)
        except ValueError:
            return False
        return len(a.rpartition(".")[2]) == len(b.rpartition(".")[2]) and math.isclose(x, y, rel_tol=tolerance)
    return bool(a == b)


def codes(document: dict[str, Any]) -> list[int]:
    """Error codes of an answer."""
    return [exception["errorCode"] for exception in document.get("exceptions") or []]


def row_lists(document: dict[str, Any]) -> list[list[str]]:
    """The rows of each result table as JSON text; groups are [*keys, value]."""
    if document.get("selectionResults"):
        return [[json.dumps(row) for row in document["selectionResults"]["results"]]]
    if document.get("resultTable"):
        return [[json.dumps(row) for row in document["resultTable"]["rows"]]]
    lists = document.get("aggregationResults") or []
    return [
        [json.dumps([*group["group"], group["value"]]) for group in one["groupByResult"]]
        for one in lists
        if "groupByResult" in one
    ]


def has_defined_order(text: str) -> bool:
    """Whether the query orders its rows."""
    return re.search(r"\bORDER\s+BY\b", text, re.IGNORECASE) is not None
