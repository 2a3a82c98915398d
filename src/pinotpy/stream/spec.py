"""The interface of streams: partitions of records that are read by offset, and the plug-ins that read them.

Pinot's names: StreamConsumerFactory, PartitionLevelConsumer (here PartitionConsumer), StreamMetadataProvider,
StreamPartitionMsgOffset (here an offset and its OffsetType). A batch is a few arrays, never an object a record.

Offsets ascend but need not be contiguous (compaction, transaction markers): go on at a batch's `next_offset`, never at
last + 1. Only their OffsetType knows what they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.errors import DataError, DecodeError, NotFoundError, PinotError, RemoteError

Offset = int | bytes  # an int, or bytes of one length; compared with < and ==
UNKNOWN_TIME_MS: Final = -1


class OffsetType(Protocol):
    """How the offsets of a stream are stored, ordered and written in records.

    dtype: of an array of offsets; its order is the stream's: int64, or byte strings of one length (`S16`).
    """

    dtype: np.dtype[Any]

    def parse(self, text: str) -> Offset:
        """The offset that `text` gave; raises DataError."""
        ...

    def text(self, offset: Offset) -> str:
        """The offset as records, URLs and messages have it."""
        ...


class LongOffsets:
    """Offsets that are whole numbers from 0 on, as those of Kafka; implements OffsetType."""

    dtype: np.dtype[Any] = np.dtype(np.int64)

    def parse(self, text: str) -> int:
        # int() would take blanks, signs and underscores as well.
        if not (text.isascii() and text.isdigit()) or len(text) > 19 or int(text) >= 1 << 63:
            raise DataError(f"expected an offset (a whole number from 0 to 2^63 - 1), found '{text[:40]}'")
        return int(text)

    def text(self, offset: Offset) -> str:
        return str(int(offset))


LONG_OFFSETS: Final = LongOffsets()


class OffsetOutOfRangeError(DataError):
    """The offset has expired or was never written; the caller decides what to do, and reports it."""

    def __init__(self, offset: Offset, earliest: Offset, end: Offset) -> None:
        super().__init__(
            f"offset {offset!r} is not in the stream: expected {earliest!r} to {end!r}",
            offset=offset,
            earliest=earliest,
            end=end,
        )
        self.offset, self.earliest, self.end = offset, earliest, end


class StreamLayer(StrEnum):
    """Where reading a stream failed, from the outside in: to the topic, its records, and the rows that they are."""

    DNS = "DNS"
    TCP = "TCP"
    TLS = "TLS"
    SASL = "SASL"
    TOPIC = "TOPIC"
    FETCH = "FETCH"
    DECODE = "DECODE"


class StreamUnavailableError(RemoteError):
    """The stream does not answer, or refuses: by layer, and with what to do.

    is_transient: asking again may help, without anybody changing a setting.
    """

    retriable = True

    def __init__(self, message: str, *, layer: StreamLayer, is_transient: bool = True, **context: Any) -> None:
        super().__init__(f"{layer.value}: {message}", layer=layer.value, **context)
        self.layer, self.is_transient = layer, is_transient


def layer_of(error: BaseException) -> StreamLayer | None:
    """Which layer an error of a plug-in or a decoder came from; None if it does not say."""
    if isinstance(error, PinotError) and error.context.get("layer") in set(StreamLayer):
        return StreamLayer(error.context["layer"])
    if isinstance(error, NotFoundError):  # see StreamMetadataProvider
        return StreamLayer.TOPIC
    if isinstance(error, OffsetOutOfRangeError):
        return StreamLayer.FETCH
    return StreamLayer.DECODE if isinstance(error, DecodeError) else None


@dataclass(frozen=True, slots=True, eq=False)
class StreamBatch:
    """The records from the asked offset on, as columns of the same length.

    payloads: Arrow binary; null is a tombstone.
    keys: Arrow binary; null where a record has none.
    offsets: of the stream's OffsetType.dtype, ascending, shape (n,).
    times_ms: when each was written, as the stream says, ms since the epoch; UNKNOWN_TIME_MS where it does not say.
    next_offset: where to go on; equal to the asked one if nothing new came.
    """

    payloads: pa.Array
    keys: pa.Array
    offsets: NDArray[Any]
    times_ms: Int64Array
    next_offset: Offset

    def __len__(self) -> int:
        return len(self.offsets)

    @classmethod
    def empty(cls, offset: Offset, offset_type: OffsetType = LONG_OFFSETS) -> StreamBatch:
        """Nothing new."""
        none = pa.array([], pa.binary())
        return cls(none, none, np.zeros(0, offset_type.dtype), np.zeros(0, np.int64), offset)

    @classmethod
    def joined(cls, pieces: list[StreamBatch]) -> StreamBatch:
        """Pieces that follow one another, at least one, as one batch."""
        if len(pieces) == 1:
            return pieces[0]
        return cls(
            pa.concat_arrays([piece.payloads for piece in pieces]),
            pa.concat_arrays([piece.keys for piece in pieces]),
            np.concatenate([piece.offsets for piece in pieces]),
            np.concatenate([piece.times_ms for piece in pieces]),
            pieces[-1].next_offset,
        )


class StreamMetadataProvider(Protocol):
    """What a topic tells of itself. Every call returns within its `timeout_s`; raises StreamUnavailableError, and
    NotFoundError for a topic or partition that there is not.
    """

    def num_partitions(self, *, timeout_s: float) -> int: ...

    def earliest_offset(self, partition: int, *, timeout_s: float) -> Offset: ...

    def end_offset(self, partition: int, *, timeout_s: float) -> Offset:
        """The offset that the next record written will have."""
        ...

    def offset_at_time(self, partition: int, timestamp_ms: int, *, timeout_s: float) -> Offset:
        """First offset whose record is not older than `timestamp_ms`; the end offset if there is none."""
        ...

    def close(self) -> None: ...


class PartitionConsumer(Protocol):
    """Reads one partition of one topic; used by one thread at a time."""

    def fetch(self, offset: Offset, *, records_max: int, timeout_s: float) -> StreamBatch:
        """Records from `offset` on, as soon as there is one; none after `timeout_s` seconds.

        A batch may have fewer records than `records_max`, but at least one whatever its size.

        Raises:
            OffsetOutOfRangeError: `offset` is before the earliest or behind the end; never skipped silently.
            StreamUnavailableError: by layer.
        """
        ...

    def close(self) -> None: ...


class StreamConsumerFactory(Protocol):
    """A plug-in with the settings of one table. Making one opens no connection.

    offset_type: of all partitions.

    It may have `addresses`, too: URIs, or host:port, of what it will open for this table. Tables may name only those
    that the operator lists (pinotpy.stream.allowedUris). And `place`: settings, key to value, without which the topic's
    name and offsets mean another stream: a table cannot change them.
    """

    offset_type: OffsetType

    def metadata_provider(self) -> StreamMetadataProvider: ...

    def consumer(self, partition: int) -> PartitionConsumer: ...


class StreamProducer(Protocol):
    """Appends to one topic; returns when the records are durable. For tests and quickstarts."""

    def append(self, partition: int, records: Sequence[tuple[bytes | None, bytes | None]]) -> int:
        """Append (key, payload) pairs in order; return the offset after the last one."""
        ...

    def close(self) -> None: ...
