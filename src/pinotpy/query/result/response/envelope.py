"""What surrounds the rows of every answer: counters, exceptions, and whether the answer is exact."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from pinotpy.query.result.explained_answer import Explanation
from pinotpy.query.result.partial import OffsetRange, QueryException, Statistics


@dataclass(slots=True)
class Envelope:
    """Counters of servers and segments, filled by the broker; `statistics` is the sum over servers.

    trace: by server, and "broker", the text of a JSON list of stages (query/runtime/trace.py).
    explanation: what EXPLAIN answers instead of rows.
    warnings: what the client asked for and did not get, although the answer is right.
    missing_segments: segments of the table that no server answered for; their rows are absent from the answer.
    partition_offsets: by server, which records of a stream it answered for.
    time_boundary, boundary_fault: of a hybrid table, what divides its halves, or why nothing does.
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
    partition_offsets: dict[str, list[OffsetRange]] = field(default_factory=dict)
    time_boundary: dict[str, str] | None = None
    boundary_fault: str = ""

    def forget_answers(self) -> None:
        """Everything but which query it is of which tables: it is asked again."""
        fresh = Envelope(self.request_id, self.broker_id, self.tables_queried)
        for item in fields(self):
            setattr(self, item.name, getattr(fresh, item.name))

    @property
    def num_consuming_segments(self) -> int:
        """Segments that were answered from rows of a stream that are in no file yet."""
        return sum(each.status != "DONE" for ranges in self.partition_offsets.values() for each in ranges)

    @property
    def consuming_freshness_ms(self) -> int:
        """The oldest of the partitions' newest rows, by the time of the stream; 0 where nothing consumes."""
        times = [
            each.last_time_ms for ranges in self.partition_offsets.values() for each in ranges if each.last_time_ms
        ]
        return min(times, default=0)

    def offsets_as_json(self) -> dict[str, Any]:
        """`partitionOffsets`, where there are any: partition of the stream → segments in their order, with the records
        of each that the answer has, and the server that answered; `timeBoundary` of a hybrid table.
        """
        boundary = {"timeBoundary": self.time_boundary} if self.time_boundary is not None else {}
        if not self.partition_offsets:
            return boundary
        partitions: dict[str, list[dict[str, Any]]] = {}
        answered = [(each, server) for server, ranges in self.partition_offsets.items() for each in ranges]
        for each, server in sorted(answered, key=lambda entry: (entry[0].partition, entry[0].sequence)):
            shown = {"segment": each.segment, "start": each.start, "end": each.end, "status": each.status}
            partitions.setdefault(str(each.partition), []).append({**shown, "server": server})
        return {"partitionOffsets": partitions, **boundary}

    @property
    def partial(self) -> bool:
        """True when rows may be missing: a fault, or a segment without an answer."""
        return bool(self.exceptions or self.missing_segments or self.boundary_fault)

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
        if self.boundary_fault:
            reasons.append(self.boundary_fault)
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
