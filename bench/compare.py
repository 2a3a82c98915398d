"""Whether two engines gave the same answer."""

from __future__ import annotations

import math
from typing import Any

from bench.suites.query import Query

Rows = list[list[Any]]


def require_same(query: Query, name: str, rows: Rows, other_name: str, others: Rows) -> None:
    """SystemExit with the query's name and both answers if they differ by more than the query's tolerance."""
    mine, theirs = (canonical(query, answer) for answer in (rows, others))
    if len(mine) == len(theirs) and all(_same_row(x, y, query.tolerance) for x, y in zip(mine, theirs, strict=True)):
        return
    first = next(
        (i for i, (x, y) in enumerate(zip(mine, theirs, strict=False)) if not _same_row(x, y, query.tolerance)),
        min(len(mine), len(theirs)),
    )
    raise SystemExit(
        f"{query.name}: answers differ, {name} has {len(mine)} rows and {other_name} {len(theirs)}; from row {first}:\n"
        f"  {name}: {mine[first : first + 3]}\n  {other_name}: {theirs[first : first + 3]}"
    )


def canonical(query: Query, rows: Rows) -> Rows:
    """Numbers as floats, and rows in one order: their own where the query defines it, else sorted."""
    typed = [[_cell(query, value) for value in row] for row in rows]
    return typed if query.ordered else sorted(typed, key=_rounded)


def _cell(query: Query, value: Any) -> Any:
    if value is None:
        # Without SQL nulls a sum of nothing is 0.
        return None if query.nulls else 0.0
    if isinstance(value, bool | int | float):
        return float(value)
    try:
        return float(value)
    except ValueError:
        return str(value)


def _rounded(row: list[Any]) -> tuple[tuple[int, Any], ...]:
    """Sums that differ in the last digits sort alike."""
    return tuple((0, "") if v is None else (1, f"{v:.6g}") if isinstance(v, float) else (2, v) for v in row)


def _same_row(x: list[Any], y: list[Any], tolerance: float) -> bool:
    return len(x) == len(y) and all(
        math.isclose(a, b, rel_tol=tolerance) if isinstance(a, float) and isinstance(b, float) else a == b
        for a, b in zip(x, y, strict=True)
    )
