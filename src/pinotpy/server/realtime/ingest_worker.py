"""The door to what reads streams: an `IngestWorker` owns whole partitions; it fetches, decodes, appends, freezes pieces
and builds segments. Everything that other processes of the cluster see is decided on this side of the door.

`local_worker` is the worker on threads of this process, `workers.process_worker` that in processes of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pinotpy.cluster.completion_messages import Offset
from pinotpy.config.schema import Schema
from pinotpy.config.stream_configs import StreamConfig
from pinotpy.config.table import TableConfig
from pinotpy.segment.consuming.log_pieces import PieceView
from pinotpy.segment.consuming.log_ranges import LogView, SegmentRange


@dataclass(frozen=True, slots=True)
class PartitionSpec:
    """What a worker has to know to read a partition. Its documents do not change while it is open.

    table: name with type. segment_name, start_offset: of the first segment that takes rows.
    """

    table: str
    partition: int
    schema: Schema
    config: TableConfig
    stream: StreamConfig
    segment_name: str
    start_offset: str


@dataclass(frozen=True, slots=True)
class BuiltSegment:
    """A segment that was built of a range of the log. directory: `<given folder>/<segment name>`."""

    directory: Path
    crc: int
    num_rows: int
    size_bytes: int
    build_time_ms: int
    wait_time_ms: int


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """How reading goes on.

    failure: why nothing can be read now; empty if it can. is_final: asking again does not help.
    last_fetch_ms: when the stream was last read, with or without records.
    layer: a StreamLayer, where the failure came from; empty if that is not known.
    is_behind: see CatchingUp.
    kept: what all rows that are here keep to of what the table says of its stream (StreamPromise.text); empty: nothing.
    stray: the first row that did not, in words; empty if there is none.
    """

    failure: str
    is_final: bool
    last_fetch_ms: int
    layer: str = ""
    is_behind: bool = False
    kept: str = ""
    stray: str = ""


class IngestPartition(Protocol):
    """A partition that is being read. Calls may come from any thread, but `seal`, `rename` and `release` from one."""

    def parse_offset(self, text: str) -> Offset: ...

    def offset_text(self, offset: Offset) -> str: ...

    def log_view(self) -> LogView:
        """What is published now."""
        ...

    def piece_view(self) -> PieceView:
        """What a query reads."""
        ...

    def status(self) -> PartitionStatus: ...

    def memory_bytes(self) -> int:
        """Memory that its rows take, those of ended segments among them."""
        ...

    @property
    def is_behind(self) -> bool:
        """Of the status, without the rest of it."""
        ...

    def ledger(self) -> dict[str, Any]:
        """Counts of records since the partition was opened, as JSON (StreamLedger)."""
        ...

    def seal(self, end_offset: Offset, next_name: str) -> SegmentRange:
        """See PartitionLog.seal."""
        ...

    def rename(self, name: str, new_name: str) -> None: ...

    def release(self, name: str) -> None:
        """See PartitionLog.release."""
        ...

    def build(self, name: str, folder: Path, creation_time_ms: int) -> BuiltSegment:
        """Build the segment `folder/<name>` of an ended range; returns when it is there. Raises PinotError, OSError."""
        ...

    def pause(self, reason: str) -> None:
        """Read no further until `pause("")`; what was read stays."""
        ...

    def close(self) -> None:
        """Stop reading; the rows go when nobody reads them any more."""
        ...


class IngestWorker(Protocol):
    """Reads partitions of streams."""

    def prepare(self) -> None:
        """Make ready what the first `open` would have to wait for; returns at once. Need not be called."""
        ...

    def open(self, spec: PartitionSpec, on_change: Callable[[], None]) -> IngestPartition:
        """Begin to read.

        Args:
            on_change: called on a thread of the worker's whenever the log or the status changed, and at least once a
                second; has to return at once.

        Raises: UserError, InvalidConfigError: the stream or its decoder cannot be made of these documents.
        """
        ...

    def close(self) -> None:
        """Close all partitions."""
        ...
