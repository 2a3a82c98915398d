"""Reads one partition into a log of rows, in whichever process this is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pinotpy.clock import Clock
from pinotpy.config.stream_keys import without_secrets
from pinotpy.ingest.decoders.ledger import StreamLedger
from pinotpy.ingest.decoders.registry import make_decoder
from pinotpy.segment.build.indexing import resolve_indexing
from pinotpy.segment.consuming.chunk import Chunk
from pinotpy.segment.consuming.memory import ChunkMemory
from pinotpy.segment.consuming.partition_log import PartitionLog
from pinotpy.segment.consuming.record_counts import BatchCounts
from pinotpy.server.realtime.fetch_loop import FetchLoop
from pinotpy.server.realtime.ingest_worker import PartitionSpec, PartitionStatus
from pinotpy.server.realtime.partition_watch import PartitionWatch
from pinotpy.stream.registry import consumer_factory
from pinotpy.stream.settings import StreamSettings
from pinotpy.stream.spec import StreamLayer

_STOP_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class LogParts:
    """What a reader's log is made with, where it is not the usual.

    memory: where chunks lie. on_chunk: called with each new chunk, before rows of it are published. on_counts: see
    FetchLoop.
    """

    memory: ChunkMemory | None = None
    on_chunk: Callable[[Chunk], None] = lambda chunk: None
    on_counts: Callable[[BatchCounts], None] | None = None


class PartitionReader:
    """Fetches, decodes and appends on a thread of its own.

    Args:
        on_change: see IngestWorker.open. on_rows: called after rows were appended, on the thread that appends.

    Raises: UserError, InvalidConfigError: the stream or its decoder cannot be made of these documents.
    """

    def __init__(
        self,
        spec: PartitionSpec,
        clock: Clock,
        *,
        on_change: Callable[[], None],
        on_rows: Callable[[], None] = lambda: None,
        parts: LogParts | None = None,
    ) -> None:
        self._spec = spec
        settings = StreamSettings.from_config(spec.stream)
        factory = consumer_factory(settings, clock)
        self.offsets = factory.offset_type
        parts = parts or LogParts()
        self.log = PartitionLog(
            spec.schema,
            resolve_indexing(spec.schema, spec.config),
            segment_name=spec.segment_name,
            start_offset=self.offsets.parse(spec.start_offset),
            offset_dtype=self.offsets.dtype,
            memory=parts.memory,
            on_chunk=parts.on_chunk,
        )
        self.ledger = StreamLedger()
        self._watch = PartitionWatch(spec)
        self._fetching = FetchLoop(
            f"{spec.table}-{spec.partition}",
            factory,
            spec.partition,
            make_decoder(spec.stream, spec.schema, spec.config),
            self.log,
            self.ledger,
            clock,
            on_change=on_change,
            look=self._watch.look,
            on_rows=on_rows,
            on_counts=parts.on_counts,
            shown=lambda text: without_secrets(text, settings.properties),
            fetch_timeout_s=settings.fetch_timeout_s,
            idle_timeout_s=settings.idle_timeout_s,
        )

    def start(self) -> None:
        self._fetching.start()

    def close(self) -> None:
        self._fetching.stop(_STOP_S)

    def pause(self, reason: str) -> None:
        self._fetching.paused = reason

    def status(self) -> PartitionStatus:
        fetching = self._fetching
        failure, layer = fetching.failure
        if fetching.paused:
            failure, layer = fetching.paused, ""
        elif not failure and (cause := self.ledger.rejects_all()):
            failure = f"none of {self.ledger.records} records became a row: {cause}: check the decoder and the schema"
            layer = StreamLayer.DECODE.value
        elif not failure and (found := self.ledger.no_field(self._spec.schema.schema_name)):
            failure = f"{self.ledger.records:,} records became rows without a value: {found}"
            layer = StreamLayer.DECODE.value
        is_behind = fetching.catching_up.is_behind
        watch = self._watch
        return PartitionStatus(
            failure, fetching.is_final, fetching.last_fetch_ms, layer, is_behind, watch.kept, watch.stray
        )
