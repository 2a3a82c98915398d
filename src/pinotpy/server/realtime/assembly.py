"""Puts together what reads streams in a server."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, Protocol

from pinotpy.clock import Clock
from pinotpy.cluster.paths import ClusterPaths
from pinotpy.cluster.store import ClusterStore
from pinotpy.config.settings import ServerSettings
from pinotpy.errors import ClusterError
from pinotpy.failpoints import FailPoint, reach
from pinotpy.server.realtime.blocking_work import Services
from pinotpy.server.realtime.cluster_documents import ClusterDocuments
from pinotpy.server.realtime.completion_client import CompletionClient
from pinotpy.server.realtime.consuming_tables import ConsumingTables
from pinotpy.server.realtime.event_loop import EventLoop
from pinotpy.server.realtime.ingest_worker import BuiltSegment, IngestWorker
from pinotpy.server.realtime.local_worker import LocalWorker
from pinotpy.server.realtime.row_memory import RowMemory
from pinotpy.server.realtime.workers.process_worker import ProcessWorker
from pinotpy.server.tables.store import SegmentStore

log = logging.getLogger(__name__)

MESSAGE_THREADS: Final = 8
# A build waits for its turn on one of these threads; so do swaps and downloads, which are short. More where more are
# built at once.
BUILD_THREADS: Final = 16


def tell_where_rows_lie(settings: ServerSettings) -> None:
    """Keys of the reference that choose it are taken, and change nothing."""
    if not (settings.realtime_offheap and settings.realtime_direct):
        log.warning("rows of streams lie outside of the heap, whatever pinot.server.instance.realtime.alloc.* say")


class Transitions(Protocol):
    """How segments come to be served."""

    def adopt(self, table: str, built: Path, offsets: tuple[str, str]) -> None: ...

    def download(self, table: str, segment_name: str) -> None: ...


class _Sealed:
    """Implements SealedSegments."""

    def __init__(self, store: SegmentStore) -> None:
        self._store = store
        self.transitions: Transitions | None = None

    def adopt(self, table: str, built: BuiltSegment, offsets: tuple[str, str]) -> None:
        assert self.transitions is not None
        self.transitions.adopt(table, built.directory, offsets)
        reach(FailPoint.BEFORE_CLEAN_UP)

    def download(self, table: str, segment_name: str) -> None:
        assert self.transitions is not None
        self.transitions.download(table, segment_name)

    def scratch(self) -> Path:
        return self._store.scratch()


class RealtimeParts:
    """What one server has to read streams; nothing of it runs before the first consuming segment comes."""

    def __init__(
        self,
        instance: str,
        store: ClusterStore,
        paths: ClusterPaths,
        segments: SegmentStore,
        clock: Clock,
        *,
        leader_url: Callable[[], str | None],
        controller_urls: Callable[[], Sequence[str]],
        headers: Callable[[], dict[str, str]],
        verify: object,
        num_workers: int,
        builds_max: int,
        is_split_commit: bool,
        sends_metadata: bool,
        keeps: Callable[[str, str, str], None],
        row_memory: RowMemory,
    ) -> None:
        self._sealed = _Sealed(segments)
        self._loop = EventLoop("consuming", clock)
        self._messages = ThreadPoolExecutor(MESSAGE_THREADS, thread_name_prefix="completion")
        self._builds = ThreadPoolExecutor(max(BUILD_THREADS, builds_max), thread_name_prefix="sealing")
        self._client = CompletionClient(leader_url, controller_urls, headers, verify)
        services = Services(
            instance,
            self._loop,
            clock,
            self._messages,
            self._builds,
            self._client,
            self._sealed,
            is_split_commit,
            sends_metadata,
            keeps,
            row_memory,
        )
        worker: IngestWorker = (
            ProcessWorker(clock, num_processes=num_workers, builds_max=builds_max)
            if num_workers
            else LocalWorker(clock, builds_max=builds_max)
        )
        self._worker = worker
        self._documents = ClusterDocuments(store, paths, clock, instance)
        self.tables = ConsumingTables(services, worker, self._documents)

    def prepare(self) -> None:
        """Where segments are to consume here, make ready what reads them: before the server joins, so that a restarted
        one does not begin with it when it could read.
        """
        try:
            if self._documents.any_assigned():
                self._worker.prepare()
        except ClusterError as error:
            log.warning("whether segments consume here is not known yet reason=%s", error.message)

    def start(self, transitions: Transitions) -> None:
        self._sealed.transitions = transitions
        self._loop.start()

    def stop(self, timeout_s: float) -> None:
        """Stop reading; queries that run keep what they read."""
        self.tables.close()
        self._loop.stop(timeout_s)
        self._messages.shutdown(wait=False, cancel_futures=True)
        self._builds.shutdown(wait=False, cancel_futures=True)
        self._client.close()
