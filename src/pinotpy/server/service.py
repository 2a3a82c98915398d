"""Assembles, starts and stops a server.

Start: session with ZooKeeper, kernels compiled, query port and admin port bound, then the server joins the cluster;
segments load while the daemon is running, and /health/readiness says what is still missing. Stop: the brokers are told
first (so no query fails), running queries drain, then the rest.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NoReturn

from pinotpy import __version__
from pinotpy.cluster.leader import leader_url
from pinotpy.cluster.membership import Member
from pinotpy.cluster.participant import Participant
from pinotpy.cluster.paths import ClusterPaths
from pinotpy.cluster.process_identity import this_process
from pinotpy.cluster.property_store import PropertyStore
from pinotpy.cluster.zookeeper import ZooKeeperStore
from pinotpy.config.settings import ServerSettings
from pinotpy.errors import SegmentCorruptError
from pinotpy.names import instance_id
from pinotpy.query.runtime.kernel_threads import KernelThreads
from pinotpy.rpc.security import RpcSecurity
from pinotpy.rpc.wire import FEATURES_SUPPORTED
from pinotpy.segment.decoded_cache import DECODED
from pinotpy.segment.immutable import ImmutableSegment
from pinotpy.segment.shared_codes.cache import SharedDictionaries
from pinotpy.server.api import tables
from pinotpy.server.archive_parts import ArchiveParts, controller_urls
from pinotpy.server.catch_up import CatchUp
from pinotpy.server.damaged_segments import DamagedSegments, Replace
from pinotpy.server.disk import FolderLock
from pinotpy.server.failed_transitions import FailedTransitions
from pinotpy.server.index_upkeep import IndexUpkeep
from pinotpy.server.kernel_waits import KernelWaits
from pinotpy.server.kernel_warm_up import KernelWarmUp
from pinotpy.server.left_over import LeftOver
from pinotpy.server.metrics import ServerMetrics
from pinotpy.server.query_port import QueryPort
from pinotpy.server.query_service import QueryLimits, QueryService
from pinotpy.server.readiness import Readiness, assigned_segments
from pinotpy.server.realtime.assembly import RealtimeParts, tell_where_rows_lie
from pinotpy.server.realtime.row_memory import RowMemory
from pinotpy.server.reload_jobs import ReloadJobs
from pinotpy.server.scheduler import QueryScheduler
from pinotpy.server.scrubber import Scrubber
from pinotpy.server.tables.reading_marks import ReadingMarks
from pinotpy.server.tables.registry import SegmentRegistry
from pinotpy.server.transitions import SegmentTransitions
from pinotpy.service.assembly import Equipment, run_assembled
from pinotpy.service.daemon import Part
from pinotpy.service.http import build_app
from pinotpy.service.http_server import HttpServer
from pinotpy.service.joining import ZOOKEEPER_STOP_S, await_cluster, connect, give_notice

log = logging.getLogger(__name__)
# One part in so many of the process' memory is the most that decoded columns, and shared dictionaries, may take.
DECODED_PART: Final = 4
# How long a request waits for a ZooKeeper that hangs, all its calls together; then 503.
STORE_PATIENCE_S: Final = 4.5
DICTIONARIES_PART: Final = 8
ROWS_PART: Final = 2  # of rows of streams, where no setting says how much


def run_server(settings: ServerSettings, ready_file: Path | None = None) -> NoReturn:
    """Run a server in this process until it is told to stop, and end the process."""
    run_assembled(settings, ServerParts, ready_file)


class ServerParts:
    """The parts of one server; `parts()` in the order of their start."""

    def __init__(self, settings: ServerSettings, equipment: Equipment) -> None:
        self.settings = settings
        self.equipment = equipment
        self.registry = SegmentRegistry()
        self.metrics = ServerMetrics(equipment.metrics)
        self.threads = settings.threads or os.cpu_count() or 1
        self._paths = ClusterPaths(settings.cluster_name)
        self._warm = KernelWarmUp(equipment.clock, self.metrics.kernels_compiled)
        self._kernels = KernelThreads(self.threads)
        self._store: ZooKeeperStore | None = None
        self._archives: ArchiveParts | None = None
        self._folders: list[FolderLock] = []
        self._port: QueryPort | None = None
        self._http: HttpServer | None = None
        self._participant: Participant | None = None
        self._readiness: Readiness | None = None
        self._catch_up: CatchUp | None = None
        self._damaged: DamagedSegments | None = None
        self._scrubber: Scrubber | None = None
        self._left_over: LeftOver | None = None
        self._realtime: RealtimeParts | None = None
        memory = equipment.memory.budget
        self._dictionaries = SharedDictionaries(
            min(settings.global_dictionary_max_bytes, memory.total_bytes // DICTIONARIES_PART)
        )
        DECODED.set_budget(min(settings.decoded_columns_max_bytes, memory.total_bytes // DECODED_PART))
        memory.stands(lambda: DECODED.used_bytes)
        self._queries = self._query_service()

    def parts(self) -> list[Part]:
        stop_timeout_s = self.settings.shutdown_timeout_ms / 1000
        return [
            Part("kernels", self._warm.start, lambda _: self._warm.end()),
            Part("threads", lambda: None, lambda _: self._kernels.shutdown(wait=False, cancel_futures=True)),
            Part("zookeeper", self._connect, self._disconnect, ZOOKEEPER_STOP_S),
            Part("segments", self._open_store, self._close_store),
            Part("query port", self._start_rpc, self._stop_rpc, stop_timeout_s),
            Part("admin port", self._start_http, self._stop_http, stop_timeout_s),
            Part("cluster", self._join, self._leave, self.settings.drain_timeout_ms / 1000 + 10.0),
        ]

    def facts(self) -> Mapping[str, object]:
        """What the ready line shows."""
        assert self._port is not None and self._http is not None and self._participant is not None
        return {"url": self._http.url, "instance": self._participant.instance, "query_port": self._port.port}

    # --- start -----------------------------------------------------------------------------------------------------

    def _query_service(self) -> QueryService:
        settings = self.settings
        limits = QueryLimits(
            settings.timeout_ms,
            settings.query_memory_max_bytes,
            self.threads,
            settings.groups_max,
            settings.response_bytes_max,
        )
        scheduler = QueryScheduler(
            self.equipment.clock,
            concurrent_max=settings.queries_max,
            queue_max=settings.queue_max,
            small_max=settings.queries_max,
        )
        host = settings.advertised_host or settings.host
        return QueryService(
            self.registry,
            scheduler,
            limits,
            self.equipment.clock,
            self.metrics,
            self._kernels,
            host,
            self._dictionaries,
            self._suspect,
            self.equipment.memory.budget,
            KernelWaits(self._warm.compilers, self.equipment.clock, self.metrics),
        )

    def _suspect(self, table: str, segment: ImmutableSegment | None, damage: SegmentCorruptError) -> None:
        if segment is not None and self._damaged is not None:
            self._damaged.found(table, segment, damage)
        elif self._scrubber is not None:
            self._scrubber.suspect(table)

    def _connect(self) -> None:
        self._store = connect(self.settings, self.equipment.metrics)
        await_cluster(self._store, self._paths, self.equipment.clock, self.settings.zk_connect_timeout_ms / 1000)

    def _open_store(self) -> None:
        assert self._store is not None
        store, settings = self._store, self.settings
        self._lock_folders()
        self._archives = ArchiveParts(
            settings,
            self.equipment,
            store,
            self._paths,
            self.registry,
            self.metrics,
            lambda: self._participant.instance if self._participant is not None else "",
        )
        self.segments = self._archives.segments
        self._mark_what_is_read()
        self._reloads = ReloadJobs(self.equipment.clock, settings.data_dir / ".finished-reloads")
        self._properties = PropertyStore(store, self._paths)
        self._upkeep = IndexUpkeep(self._properties)

    def _mark_what_is_read(self) -> None:
        try:
            self.registry.marks = ReadingMarks(self.settings.data_dir / ".reading")
        except OSError as error:
            log.warning("if this process dies, nobody will know which segments it was reading reason=%s", error)
            return
        for table, segment in self.registry.marks.suspects:
            self.segments.distrust(table, segment)

    def _lock_folders(self) -> None:
        settings = self.settings
        named = {settings.data_dir.resolve(): "pinot.server.instance.dataDir"}
        if settings.segment_dir is not None:
            named.setdefault(settings.segment_dir.resolve(), "pinot.server.instance.segmentTarDir")
        for folder, setting in named.items():
            lock = FolderLock(folder, setting, self.equipment.clock)
            lock.acquire()
            self._folders.append(lock)

    def _start_rpc(self) -> None:
        settings, equipment = self.settings, self.equipment
        pem = equipment.pem()
        security = RpcSecurity(
            cluster_token=equipment.cluster_token, certificate=pem.certificate, key=pem.key, ca=pem.ca
        )
        self._port = QueryPort(self._queries, settings, security)
        self._port.start()

    def _start_http(self) -> None:
        assert self._archives is not None
        settings, equipment = self.settings, self.equipment
        app = build_app(
            "server",
            [
                *tables.routes(self.registry, self.segments, self._reloads, self._upkeep, self._consuming),
                *self._archives.routes(),
            ],
            access=equipment.access,
            metrics=equipment.metrics,
            ready=self._not_ready,
            remark=self._remark,
            settings=settings.effective,
            body_max_bytes=settings.request_bytes_max,
        )
        app.store_patience_s = STORE_PATIENCE_S
        self._http = equipment.serve(app, settings.admin_port)

    def _consuming(self, table_name: str) -> list[dict[str, Any]]:
        return [] if self._realtime is None else self._realtime.tables.describe(table_name)

    def _row_memory(self) -> RowMemory:
        memory = RowMemory(self.settings.row_memory_max_bytes or self.equipment.memory.budget.total_bytes // ROWS_PART)
        watch = self.equipment.metrics.watch
        watch("consumingRowsMemory", lambda: float(memory.used_bytes))
        watch("consumingRowsMemoryMax", lambda: float(memory.max_bytes))
        watch("segmentsEndedForMemory", lambda: float(memory.num_ended))
        return memory

    def _join(self) -> None:
        assert self._store is not None and self._port is not None and self._http is not None
        settings = self.settings
        host = settings.advertised_host or settings.host
        port = settings.advertised_port or self._port.port
        ports = {"adminPort": str(self._http.port), "grpcPort": str(port), "queryServerPort": str(port)}
        # Empty, not absent: a process before this one may have had another answer.
        ports["framePort"] = str(self._port.frame_port or "")
        ports["queryFeatures"] = str(FEATURES_SUPPORTED)
        member = Member(
            instance_id("Server", host, port),
            this_process(),
            ports,
            owns_port=settings.advertised_port is None,
            version=__version__,
        )
        tell_where_rows_lie(settings)
        store, paths, retries = self._store, self._paths, FailedTransitions(self.equipment.clock)
        self._realtime = RealtimeParts(
            member.instance,
            store,
            paths,
            self.segments,
            self.equipment.clock,
            leader_url=lambda: leader_url(store, paths, self.equipment.scheme),
            controller_urls=lambda: controller_urls(store, paths, self.equipment.scheme),
            headers=self.equipment.peer_headers,
            verify=self.equipment.peer_verification(),
            num_workers=settings.ingest_workers,
            builds_max=settings.segment_builds_max or self.threads,
            is_split_commit=settings.split_commit,
            sends_metadata=settings.commit_metadata,
            keeps=self._tell_kept,
            row_memory=self._row_memory(),
        )
        if self._warm.is_complete:
            self._realtime.prepare()  # on another processor than kernels are loaded on
        self._warm.wait()
        self.registry.partitions = self._realtime.tables.partitions
        handler = SegmentTransitions(
            self.registry,
            self.segments,
            self._properties,
            self.metrics,
            self._upkeep,
            self._reloads,
            lambda table: assigned_segments(store, paths, table, member.instance),
            retries,
            self._realtime.tables,
            self._tell_content,
        )
        self._realtime.start(handler)
        self._participant = Participant(
            self._store, self._paths, member, handler, workers=settings.transition_threads, clock=self.equipment.clock
        )
        self._readiness = Readiness(
            self._store,
            self._paths,
            self._participant,
            self.equipment.clock,
            bad_after_s=settings.bad_segment_wait_ms / 1000,
        )
        self._catch_up = CatchUp(
            self.registry,
            self._participant,
            self._store,
            self._paths,
            self.equipment.clock,
            self._reloads,
            retries,
            self._realtime.tables.take_force_commits,
        )
        self._damaged = DamagedSegments(self._replaces(handler))
        self._scrubber = Scrubber(
            self.registry,
            self._replaces(handler),
            self.equipment.clock,
            period_s=settings.scrub_period_s,
            bytes_per_s=settings.scrub_rate,
            progress=self.metrics.scrubbed,
        )
        self._left_over = LeftOver(
            settings.data_dir,
            self.segments,
            handler.remove_left_over,
            self._participant,
            store,
            paths,
            self.equipment.clock,
            settings.left_over_wait_ms,
        )
        self._participant.start()
        self._left_over.start()
        self._catch_up.start()
        self._damaged.start()
        self._scrubber.start()
        self.equipment.metrics.set("ready", 1)
        self._warm.follow()

    def _replaces(self, transitions: SegmentTransitions) -> Replace:
        def replace(table: str, segment: ImmutableSegment, damage: SegmentCorruptError) -> None:
            try:
                transitions.replace_damaged(table, segment)
            except Exception as error:
                if self._participant is not None and self.registry.segment(table, segment.name) is None:
                    self._participant.fail(
                        table, segment.name, f"{damage.message}; it could not be fetched anew: {error}"
                    )
                raise

        return replace

    def _tell_content(self, table: str, segment: str, content: str) -> None:
        if self._participant is not None:
            self._participant.serve(table, segment, content)

    def _tell_kept(self, table: str, segment: str, promise: str) -> None:
        if self._participant is not None:
            self._participant.promise(table, segment, promise)

    def _not_ready(self) -> str | None:
        return self._warm.told() or "it is starting" if self._readiness is None else self._readiness.reason()

    def _remark(self) -> str:
        return "\n".join(filter(None, ["" if self._readiness is None else self._readiness.remark(), self._warm.told()]))

    # --- stop ------------------------------------------------------------------------------------------------------

    def _leave(self, timeout_s: float) -> None:
        if self._store is not None:
            self._store.hurry()
        if self._participant is None:
            return
        clock, never = self.equipment.clock, threading.Event()
        deadline_ns = clock.monotonic_ns() + int(min(timeout_s, self.settings.drain_timeout_ms / 1000) * 1e9)
        give_notice(self._participant, clock)
        while self._queries.num_running and clock.monotonic_ns() < deadline_ns:
            clock.wait(never, 0.02)
        self._queries.cancel_all()
        if self._catch_up is not None:
            self._catch_up.stop(1.0)
        if self._damaged is not None:
            self._damaged.stop(1.0)
        if self._scrubber is not None:
            self._scrubber.stop(1.0)
        if self._left_over is not None:
            self._left_over.stop(1.0)
        self._participant.stop(5.0)
        if self._realtime is not None:
            self._realtime.stop(5.0)

    def _stop_http(self, timeout_s: float) -> None:
        if self._http is not None:
            self._http.stop(timeout_s)

    def _stop_rpc(self, timeout_s: float) -> None:
        if self._port is not None:
            self._port.stop(timeout_s)

    def _disconnect(self, timeout_s: float) -> None:
        if self._store is not None:
            self._store.close()

    def _close_store(self, timeout_s: float) -> None:
        if self._archives is not None:
            self._archives.close()
        self._dictionaries.close()
        self.registry.close()
        if self.registry.marks is not None:
            self.registry.marks.close()
        for lock in self._folders:
            lock.release()
