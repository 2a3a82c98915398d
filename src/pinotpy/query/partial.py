"""PartialResult: what a thread, a server or a replica contributes to an answer; and its bytes on the wire.

All merging (segments of a thread, threads of a server, servers of a broker) merges PartialResults of one query with
`query.combine.merge_partials`, in any order, with the same answer.

Columns of `rows` (Arrow, one table):
  SELECTION   o0..        one per output column, then s0.. for sort keys that are not output columns
  DISTINCT    o0..        one per output column
  AGGREGATION one row: a<i>_<state> for each state field of aggregation i (functions.spec.AggregateFunction.state_fields)
  GROUP_BY    k0..        one per group expression, then a<i>_<state>
Arrow types are `data_types.DataType.arrow` (lists of it for multi-values). Field metadata {b"type": b"INT"} or
b"STRING_ARRAY" names pinotpy's type. Nulls appear only under null handling.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, Final

import orjson
import pyarrow as pa

from pinotpy.errors import DataError

MAGIC = b"PPR1"


@dataclass(slots=True)
class Statistics:
    """True counters of a query. All add up when merged, except the flags, which are or-ed."""

    num_docs_scanned: int = 0
    num_entries_scanned_in_filter: int = 0
    num_entries_scanned_post_filter: int = 0
    num_segments_queried: int = 0
    num_segments_processed: int = 0
    num_segments_matched: int = 0
    num_segments_pruned: int = 0
    num_segments_pruned_by_bloom_filter: int = 0  # this and the next are parts of num_segments_pruned
    num_segments_pruned_by_partition: int = 0
    total_docs: int = 0
    num_groups_limit_reached: bool = False
    num_rows_of_cut_groups: int = 0  # at most so many selected rows belong to groups that a limit left out
    execution_ns: int = 0
    cpu_ns: int = 0

    def add(self, other: Statistics) -> None:
        """Merge `other` into this one."""
        for name, theirs in zip(STATISTICS, _statistics_of(other), strict=True):
            if theirs:  # most are 0
                mine = getattr(self, name)
                setattr(self, name, mine or theirs if isinstance(mine, bool) else mine + theirs)


# Names of all counters, in order.
STATISTICS: Final = tuple(item.name for item in fields(Statistics))
_statistics_of: Final = attrgetter(*STATISTICS)
# Given, so that Arrow does not look for its own in the environment for each answer.
_IPC_OPTIONS: Final = pa.ipc.IpcWriteOptions()


@dataclass(frozen=True, slots=True)
class QueryException:
    """One entry of `exceptions` in a response: Pinot's code and a message."""

    code: int
    message: str


@dataclass(slots=True)
class PartialResult:
    """Rows (None: nothing to contribute, e.g. all segments pruned or failed), counters, faults, and what is missing."""

    rows: pa.Table | None = None
    statistics: Statistics = field(default_factory=Statistics)
    exceptions: list[QueryException] = field(default_factory=list)
    missing_segments: list[str] = field(default_factory=list)
    trace: list[dict[str, Any]] = field(default_factory=list)
    explain: list[dict[str, Any]] = field(default_factory=list)  # EXPLAIN's groups of segments (query/explain/plans.py), instead of rows

    def to_bytes(self) -> bytes:
        """MAGIC, u32 little-endian length of a JSON header, the header, then an Arrow IPC stream (absent if no rows)."""
        header = orjson.dumps(
            {
                "statistics": dict(zip(STATISTICS, _statistics_of(self.statistics), strict=True)),
                "exceptions": [[e.code, e.message] for e in self.exceptions],
                "missing": self.missing_segments,
                "trace": self.trace,
                "explain": self.explain,
                "rows": self.rows is not None,
            }
        )
        parts = [MAGIC, len(header).to_bytes(4, "little"), header]
        if self.rows is not None:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, self.rows.schema, options=_IPC_OPTIONS) as writer:
                writer.write_table(self.rows)
            parts.append(sink.getvalue().to_pybytes())
        return b"".join(parts)

    @classmethod
    def from_bytes(cls, data: bytes) -> PartialResult:
        """Inverse of `to_bytes`; raises DataError for anything else (never trusts a peer's bytes)."""
        try:
            if data[:4] != MAGIC:
                raise ValueError(f"magic {data[:4]!r}")
            size = int.from_bytes(data[4:8], "little")
            header = orjson.loads(data[8 : 8 + size])
            rows = None
            if header["rows"]:
                with pa.ipc.open_stream(pa.py_buffer(data)[8 + size :]) as reader:
                    rows = reader.read_all()
                rows.validate(full=True)
            statistics = Statistics(**{k: v for k, v in header["statistics"].items() if k in STATISTICS})
            exceptions = [QueryException(int(c), str(m)) for c, m in header["exceptions"]]
            # A server of an earlier release has no word for `explain`.
            return cls(rows, statistics, exceptions, list(header["missing"]), list(header["trace"]), list(header.get("explain", [])))
        except (ValueError, KeyError, TypeError, pa.ArrowException, OSError) as error:
            raise DataError(f"a server's partial result cannot be read: {error}") from error
