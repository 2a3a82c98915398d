"""What surrounds the rows of every answer: counters, exceptions, and whether the answer is exact."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pinotpy.query.result.explained_answer import Explanation
from pinotpy.query.result.partial import QueryException, Statistics


@dataclass(slots=True)
class Envelope:
    """Counters of servers and segments, filled by the broker; `statistics` is the sum over servers.

    trace: by server, and "broker", the text of a JSON list of stages (query/runtime/trace.py).
    explanation: what EXPLAIN answers instead of rows.
    warnings: what the client asked for and did not get, although the answer is right.
    missing_segments: segments of the table that no server answered for; their rows are absent from the answer.
    """

    request_id: str | None = None
    broker_id: str | None = None
    tables_queried: tuple[str, ...] = ()
    num_servers_queried: int = 0
    num_servers_responded: int = 0
    statistics: Statistics = field(default_factory=Statistics)
    num_segments_pruned_by_broker: int = 0
    exceptions: list[QueryException] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    missing_segments: tuple[str, ...] = ()
    time_used_ms: int = 0
    reduce_time_ms: int = 0
    trace: dict[str, str] = field(default_factory=dict)
    explanation: Explanation | None = None

    @property
    def partial(self) -> bool:
        """True when rows may be missing: a fault, or a segment without an answer."""
        return bool(self.exceptions or self.missing_segments)

    def exactness(self) -> dict[str, Any]:
        """`exactness` is exact, bounded or partial, with the reasons when it is not exact; then `warnings`, where there
        are any.
        """
        warned = {"warnings": self.warnings} if self.warnings else {}
        reasons = [f"{e.code}: {e.message.splitlines()[0] if e.message else ''}" for e in self.exceptions]
        if self.missing_segments:
            reasons.append(
                "no answer for segments: "
                f"{', '.join(self.missing_segments[:10])}{' …' if len(self.missing_segments) > 10 else ''}"
            )
        is_partial = bool(reasons)
        if self.statistics.num_groups_limit_reached:
            reasons.append(
                "the configured limit on groups (the option numGroupsLimit, or "
                "pinot.server.query.executor.num.groups.limit) was reached: "
                "groups beyond it are missing or lack rows, "
                f"at most {self.statistics.num_rows_of_cut_groups} of the selected rows in all"
            )
        if not reasons:
            return {"exactness": "exact", **warned}
        return {"exactness": "partial" if is_partial else "bounded", "exactnessReasons": reasons, **warned}
