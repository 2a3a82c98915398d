"""Findings about segments, and grouping segments with the same plan. Loads no kernels: the broker groups the findings
of servers.

A finding is a dict that goes over the wire as it is. Keys in NUMBERS hold [least, most] over the segments that it
stands for; everything else is the same in all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import orjson

Finding = dict[str, Any]
NUMBERS: Final = ("docs", "percent", "toRead", "indexMicros", "scanMicros")
NAMES_SHOWN_MAX: Final = 5
SORTED, INVERTED, RANGE, TEXT, JSON, DICTIONARY = (
    "sorted index",
    "inverted index",
    "range index",
    "text index",
    "json index",
    "dictionary",
)


def merge_groups(groups: Iterable[Finding]) -> list[Finding]:
    """Groups with the same plan as one; numbers become [least, most], counts are added."""
    merged: dict[bytes, Finding] = {}
    for group in groups:
        key = orjson.dumps(_without_numbers({k: v for k, v in group.items() if k not in ("segments", "names")}))
        known = merged.get(key)
        if known is None:
            merged[key] = group
            continue
        names = [*known["names"], *group["names"]][:NAMES_SHOWN_MAX]
        merged[key] = _combined(known, group, _widen) | {
            "segments": known["segments"] + group["segments"],
            "names": names,
        }
    return list(merged.values())


def parts_as_segments(parts: Iterable[Finding]) -> list[Finding]:
    """Findings about parts of segments, one of each part, as one of each segment: its docs are those of all its parts.
    It is pruned where all parts are. Else the plan is that of the part of which most is read, with the numbers of all
    parts that have the same plan, and `toRead` counts those of all.
    """
    of_segment: dict[str, list[Finding]] = {}
    for part in parts:
        of_segment.setdefault(part["names"][0], []).append(part)
    return [found[0] if len(found) == 1 else _as_segment(found) for found in of_segment.values()]


def _as_segment(parts: list[Finding]) -> Finding:
    num_docs = sum(part["docs"][0] for part in parts)
    planned = [part for part in parts if "pruned" not in part]
    if not planned:
        pruned = dict(parts[0]["pruned"])
        if "values" in pruned:
            pruned["values"] = {column: [_hull(parts, column)] for column in pruned["values"]}
        return {**parts[0], "docs": [num_docs, num_docs], "pruned": pruned}
    outcomes = {part.get("selects") for part in planned}
    is_all_alike = len(outcomes) == 1 and (len(planned) == len(parts) or "everything" not in outcomes)
    selects = outcomes.pop() if is_all_alike else "some"
    # Where some docs are selected by a condition, that is shown; what selects all or nothing reads no condition.
    candidates = [part for part in planned if part.get("selects") == selects] or planned
    shown = max(candidates, key=lambda part: part["toRead"][0])
    key = _without_numbers(_plan_of(shown))
    whole = dict(_plan_of(shown))
    for part in planned:
        if part is not shown and _without_numbers(_plan_of(part)) == key:
            whole = _combined(whole, _plan_of(part), _add)
    to_read = sum(part["toRead"][0] for part in planned)
    whole |= {"segments": 1, "names": shown["names"], "docs": [num_docs, num_docs], "toRead": [to_read, to_read]}
    return whole | ({} if selects is None else {"selects": selects})


def _plan_of(finding: Finding) -> Finding:
    return {name: value for name, value in finding.items() if name not in ("segments", "names", "selects")}


def _hull(parts: list[Finding], column: str) -> list[Any]:
    """[least, most] of a column in the parts that were pruned by it."""
    spans = [part["pruned"]["values"][column][0] for part in parts if column in part["pruned"].get("values", {})]
    return [min(span[0] for span in spans), max(span[1] for span in spans)]


_SPANS: Final = frozenset(NUMBERS)
_ADDED: Final = frozenset(("docs", "toRead", "indexMicros", "scanMicros"))
Combine = Callable[[str, list[Any], list[Any]], list[Any]]


def _without_numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_numbers(v) for k, v in value.items() if k not in _SPANS and k != "values"}
    return [_without_numbers(item) for item in value] if isinstance(value, list) else value


def _combined(one: Any, other: Any, combine: Combine) -> Any:
    """Two findings that differ in numbers only; `combine` is given the name of numbers."""
    if isinstance(one, dict):
        return {name: _of_key(name, value, other[name], combine) for name, value in one.items()}
    if isinstance(one, list):
        return [_combined(a, b, combine) for a, b in zip(one, other, strict=True)]
    return one


def _of_key(name: str, one: Any, other: Any, combine: Combine) -> Any:
    if name in _SPANS:
        return combine(name, one, other)
    if name == "values":
        return {column: [*spans, *other[column]][:NAMES_SHOWN_MAX] for column, spans in one.items()}
    return one if name in ("segments", "names") else _combined(one, other, combine)


def _widen(name: str, one: list[Any], other: list[Any]) -> list[Any]:
    return [min(one[0], other[0]), max(one[1], other[1])]


def _add(name: str, one: list[Any], other: list[Any]) -> list[Any]:
    return [one[0] + other[0], one[1] + other[1]] if name in _ADDED else _widen(name, one, other)
