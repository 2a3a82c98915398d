"""Findings about segments, and grouping segments with the same plan. Loads no kernels: the broker groups the findings
of servers.

A finding is a dict that goes over the wire as it is. Keys in NUMBERS hold [least, most] over the segments that it
stands for; everything else is the same in all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
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
        merged[key] = _widened(known, group) | {"segments": known["segments"] + group["segments"], "names": names}
    return list(merged.values())


_SPANS: Final = frozenset(NUMBERS)


def _without_numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_numbers(v) for k, v in value.items() if k not in _SPANS and k != "values"}
    return [_without_numbers(item) for item in value] if isinstance(value, list) else value


def _widened(one: Any, other: Any) -> Any:
    """Two findings that differ in numbers only."""
    if isinstance(one, dict):
        return {k: _span(k, v, other[k]) for k, v in one.items()}
    return [_widened(a, b) for a, b in zip(one, other, strict=True)] if isinstance(one, list) else one


def _span(name: str, one: Any, other: Any) -> Any:
    if name in _SPANS:
        return [min(one[0], other[0]), max(one[1], other[1])]
    if name == "values":
        return {column: [*spans, *other[column]][:NAMES_SHOWN_MAX] for column, spans in one.items()}
    return one if name in ("segments", "names") else _widened(one, other)
