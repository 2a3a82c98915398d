"""PartialResult: what a thread, a server or a replica contributes to an answer; and its bytes on the wire.

All merging (segments of a thread, threads of a server, servers of a broker) merges PartialResults of one query with
`query.result.combine.merge_partials`, in any order, with the same answer.

Columns of `rows` (Arrow, one table):
  SELECTION   o0..        one per output column, then s0.. for sort keys that are not output columns
  DISTINCT    o0..        one per output column
  AGGREGATION one row: a<i>_<state> for each state field of aggregation i
              (functions.spec.AggregateFunction.state_fields)
  GROUP_BY    k0..        one per group expression, then a<i>_<state>
Arrow types are `data_types.DataType.arrow` (lists of it for multi-values). Field metadata {b"type": b"INT"} or
b"STRING_ARRAY" names pinotpy's type. Nulls appear only under null handling.

Small results are `few` (compact_rows.py) instead of an Arrow table; `rows` makes the table of them when somebody asks
for it, so whoever can read `few` should ask for that first.

On the wire a peer that says so (wire.FLAG_COMPACT_ROWS) gets magic "PPR2", everybody else "PPR1" (see `to_bytes`):

    0      4    magic "PPR2"
    4      2    number of counters
    6      1    what the rows are: 0 none, 1 few, 2 an Arrow IPC stream
    7      1    0
    8      4    number of rows (of few)
   12      4    number of columns (of few)
   16      4    bytes of the JSON object of everything that is rare (exceptions, missing, trace, explain, …);
                0: there is none
   20      4    0
   24      8*k  counters, i64 in the order of `STATISTICS`; flags are 0 or 1. A later release may add counters at the
                end
           …    the JSON object, padded to 8 bytes; the rows
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, Final

import orjson
import pyarrow as pa

from pinotpy.errors import DataError
from pinotpy.query.result.compact_rows import CompactRows

MAGIC = b"PPR1"
MAGIC_COMPACT = b"PPR2"
_ROWS_NONE, _ROWS_FEW, _ROWS_ARROW = 0, 1, 2
_HEAD: Final = struct.Struct("<4sHBxIIIxxxx")
# Counters that a peer of a later release may have.
_COUNTERS_MAX: Final = 256


@dataclass(slots=True)
class Statistics:
    """True counters of a query. All add up when merged, except the flags, which are or-ed.

    parts_processed, parts_matched: names of segments of which parts were read, on this server; they become counters
        before they leave it, as a segment may have parts in several sets.
    """

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
    num_consuming_segments_processed: int = 0  # this and the next are parts of num_segments_…
    num_consuming_segments_matched: int = 0
    parts_processed: frozenset[str] = frozenset()
    parts_matched: frozenset[str] = frozenset()

    def add(self, other: Statistics) -> None:
        """Merge `other` into this one."""
        for name, theirs in zip(STATISTICS, _statistics_of(other), strict=True):
            if theirs:  # most are 0
                mine = getattr(self, name)
                setattr(self, name, mine or theirs if isinstance(mine, bool) else mine + theirs)
        if other.parts_processed or other.parts_matched:
            self.parts_processed |= other.parts_processed
            self.parts_matched |= other.parts_matched

    def processed(self, counted: tuple[int, frozenset[str]]) -> None:
        """Segments were processed; see SegmentSet.counted."""
        self.num_segments_processed += counted[0]
        self.parts_processed |= counted[1]

    def matched(self, counted: tuple[int, frozenset[str]]) -> None:
        """Some docs of segments were selected."""
        self.num_segments_matched += counted[0]
        self.parts_matched |= counted[1]


# Names of all counters, in order.
STATISTICS: Final = tuple(item.name for item in fields(Statistics) if not item.name.startswith("parts_"))
_statistics_of: Final = attrgetter(*STATISTICS)
_END_OF_STREAM: Final = b"\xff\xff\xff\xff\0\0\0\0"


@dataclass(frozen=True, slots=True)
class QueryException:
    """One entry of `exceptions` in a response: Pinot's code and a message."""

    code: int
    message: str


CATCHING_UP: Final = "CATCHING_UP"


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Which records of a stream's partition an answer has, of one segment: [start, end), offsets as text; empty where
    they are not known.

    sequence: the segment's number in its partition.
    status: IN_PROGRESS (takes rows), CATCHING_UP (likewise, and the server still reads what the stream had when it
        began: others may have more), COMMITTING (ended, not served as a file here) or DONE.
    last_time_ms: of one that takes rows the stream's time of the newest row; 0 = not known.
    """

    partition: int
    sequence: int
    segment: str
    start: str
    end: str
    status: str
    last_time_ms: int = 0


class PartialResult:
    """Rows (None: nothing to contribute, e.g. all segments pruned or failed), counters, faults, and what is missing.

    few: the rows as CompactRows, None where they are an Arrow table or there are none.
    explain: EXPLAIN's groups of segments (query/explain/plans.py), instead of rows.
    partition_offsets: of segments of streams that consume, which records the rows are made of.
    nulls_as_values: by column, how many stored nulls at most count as its default value (filter/nulls_as_values.py).
    kernels_waited: names of kernels that were compiled while the query waited, each with milliseconds.
    """

    __slots__ = (
        "_num_bytes",
        "_rows",
        "exceptions",
        "explain",
        "few",
        "kernels_waited",
        "missing_segments",
        "nulls_as_values",
        "partition_offsets",
        "statistics",
        "trace",
    )

    def __init__(
        self,
        rows: pa.Table | CompactRows | None = None,
        statistics: Statistics | None = None,
        exceptions: list[QueryException] | None = None,
        missing_segments: list[str] | None = None,
        trace: list[dict[str, Any]] | None = None,
        explain: list[dict[str, Any]] | None = None,
        partition_offsets: list[OffsetRange] | None = None,
        nulls_as_values: dict[str, int] | None = None,
        kernels_waited: dict[str, int] | None = None,
    ) -> None:
        self.few: CompactRows | None = None
        self._rows: pa.Table | None = None
        self._num_bytes: int | None = None
        if isinstance(rows, CompactRows):
            self.few = rows
        else:
            self._rows = rows
        self.statistics = Statistics() if statistics is None else statistics
        self.exceptions: list[QueryException] = [] if exceptions is None else exceptions
        self.missing_segments: list[str] = [] if missing_segments is None else missing_segments
        self.trace: list[dict[str, Any]] = [] if trace is None else trace
        self.explain: list[dict[str, Any]] = [] if explain is None else explain
        self.partition_offsets: list[OffsetRange] = [] if partition_offsets is None else partition_offsets
        self.nulls_as_values: dict[str, int] = {} if nulls_as_values is None else nulls_as_values
        self.kernels_waited: dict[str, int] = {} if kernels_waited is None else kernels_waited

    @property
    def rows(self) -> pa.Table | None:
        """The rows as an Arrow table, made of `few` at the first call."""
        if self._rows is None and self.few is not None:
            self._rows = self.few.table()
        return self._rows

    @rows.setter
    def rows(self, rows: pa.Table | CompactRows | None) -> None:
        self.few, self._rows = (rows, None) if isinstance(rows, CompactRows) else (None, rows)
        self._num_bytes = None

    @property
    def has_rows(self) -> bool:
        """Whether there are rows, or a table of none; makes no table."""
        return self.few is not None or self._rows is not None

    @property
    def num_rows(self) -> int:
        """Number of rows, 0 if there are none; makes no table."""
        if self.few is not None:
            return self.few.num_rows
        return 0 if self._rows is None else int(self._rows.num_rows)

    @property
    def num_bytes(self) -> int:
        """Bytes that the rows take; makes no table."""
        if self.few is not None:
            return self.few.nbytes
        if self._num_bytes is None:  # adding up thousands of columns takes tenths of a second
            self._num_bytes = 0 if self._rows is None else int(self._rows.nbytes)
        return self._num_bytes

    def to_bytes(self, *, few: bool = False) -> bytes:
        """The result on the wire: "PPR2" with `few`, which the reader must know; else MAGIC, u32 little-endian length
        of a JSON header, the header, then an Arrow IPC stream (absent if no rows).
        """
        if few:
            return self._few_bytes()
        rows = self.rows
        counters = dict(zip(STATISTICS, _statistics_of(self.statistics), strict=True))
        header = orjson.dumps({"statistics": counters, **self._rare(), "rows": rows is not None})
        parts = [MAGIC, len(header).to_bytes(4, "little"), header]
        return b"".join(parts if rows is None else [*parts, *_ipc_stream(rows)])

    def _few_bytes(self) -> bytes:
        few = self.few
        if few is None and self._rows is not None:
            few = CompactRows.of(self._rows)
        is_rare = (
            self.exceptions
            or self.missing_segments
            or self.trace
            or self.explain
            or self.partition_offsets
            or self.nulls_as_values
            or self.kernels_waited
        )
        rare = orjson.dumps(self._rare()) if is_rare else b""
        form, num_rows, num_columns = _ROWS_NONE, 0, 0
        content: list[bytes | pa.Buffer] = []
        if few is not None:
            form, num_rows, num_columns, content = _ROWS_FEW, few.num_rows, len(few.column_names), [few.to_bytes()]
        elif self._rows is not None:
            form, content = _ROWS_ARROW, _ipc_stream(self._rows)
        head = _HEAD.pack(MAGIC_COMPACT, len(STATISTICS), form, num_rows, num_columns, len(rare))
        return b"".join((head, _COUNTERS.pack(*_statistics_of(self.statistics)), rare, bytes(-len(rare) & 7), *content))

    def _rare(self) -> dict[str, Any]:
        rare: dict[str, Any] = {
            "exceptions": [[e.code, e.message] for e in self.exceptions],
            "missing": self.missing_segments,
            "trace": self.trace,
            "explain": self.explain,
        }
        if self.partition_offsets:
            rare["offsets"] = [
                [each.partition, each.sequence, each.segment, each.start, each.end, each.status, each.last_time_ms]
                for each in self.partition_offsets
            ]
        if self.nulls_as_values:
            rare["nullsAsValues"] = self.nulls_as_values
        if self.kernels_waited:
            rare["kernelsWaited"] = self.kernels_waited
        return rare

    @classmethod
    def from_bytes(cls, data: bytes) -> PartialResult:
        """Inverse of `to_bytes` in both forms; raises DataError for anything else (never trusts a peer's bytes)."""
        try:
            if data[:4] == MAGIC_COMPACT:
                return cls._of_few_bytes(data)
            if data[:4] != MAGIC:
                raise ValueError(f"magic {data[:4]!r}")
            size = int.from_bytes(data[4:8], "little")
            header = orjson.loads(data[8 : 8 + size])
            rows = _table_of(data, 8 + size) if header["rows"] else None
            statistics = Statistics(**{k: v for k, v in header["statistics"].items() if k in STATISTICS})
            return cls(rows, statistics, *_read_rare(header))
        except (ValueError, KeyError, TypeError, struct.error, pa.ArrowException, OSError) as error:
            raise DataError(f"a server's partial result cannot be read: {error}") from error

    @classmethod
    def _of_few_bytes(cls, data: bytes) -> PartialResult:
        _, num_counters, form, num_rows, num_columns, rare_bytes = _HEAD.unpack_from(data)
        position = _HEAD.size + 8 * num_counters
        end = position + rare_bytes
        if num_counters > _COUNTERS_MAX or end > len(data):
            raise ValueError(f"{num_counters} counters and {rare_bytes} bytes beside rows in {len(data)} bytes")
        counters = struct.unpack_from(f"<{num_counters}q", data, _HEAD.size)
        statistics = Statistics(
            *[counter != 0 if is_flag else counter for counter, is_flag in zip(counters, _IS_FLAG, strict=False)]
        )
        position = end + (-rare_bytes & 7)
        rows: pa.Table | CompactRows | None = None
        if form == _ROWS_FEW:
            rows = CompactRows.from_bytes(bytes(data), position, num_columns, num_rows)  # a long answer is a bytearray
        elif form == _ROWS_ARROW:
            rows = _table_of(data, position)
        elif form != _ROWS_NONE or position != len(data):
            raise ValueError(f"rows of form {form} after byte {position} of {len(data)}")
        return (
            cls(rows, statistics, *_read_rare(orjson.loads(data[end - rare_bytes : end])))
            if rare_bytes
            else cls(rows, statistics)
        )


_COUNTERS: Final = struct.Struct(f"<{len(STATISTICS)}q")
_IS_FLAG: Final = tuple(isinstance(item.default, bool) for item in fields(Statistics) if item.name in STATISTICS)


def _ipc_stream(rows: pa.Table) -> list[bytes | pa.Buffer]:
    """The parts of an Arrow IPC stream. Messages are made one by one, each in one allocation: a growing stream is
    copied as it grows.
    """
    assert not any(pa.types.is_dictionary(kind) for kind in rows.schema.types), (
        "dictionaries have messages of their own"
    )
    return [rows.schema.serialize(), *(batch.serialize() for batch in rows.to_batches()), _END_OF_STREAM]


def _table_of(data: bytes, position: int) -> pa.Table:
    with pa.ipc.open_stream(pa.py_buffer(data)[position:]) as reader:
        rows = reader.read_all()
    rows.validate(full=True)
    return rows


def _read_rare(
    found: dict[str, Any],
) -> tuple[
    list[QueryException],
    list[str],
    list[dict[str, Any]],
    list[dict[str, Any]],
    list[OffsetRange],
    dict[str, int],
    dict[str, int],
]:
    exceptions = [QueryException(int(c), str(m)) for c, m in found["exceptions"]]
    # A server of an earlier release has no word for `explain`; most answers have none for `offsets`.
    offsets = [
        OffsetRange(int(partition), int(sequence), str(segment), str(start), str(end), str(status), int(last_time_ms))
        for partition, sequence, segment, start, end, status, last_time_ms in found.get("offsets", [])
    ]
    nulls = {str(name): int(count) for name, count in found.get("nullsAsValues", {}).items()}
    kernels = {str(name): int(took_ms) for name, took_ms in found.get("kernelsWaited", {}).items()}
    missing, trace, explain = list(found["missing"]), list(found["trace"]), list(found.get("explain", []))
    return exceptions, missing, trace, explain, offsets, nulls, kernels
