"""Assembles, starts and stops a controller.

Start: session with ZooKeeper, base tree of the cluster, REST port, then the controller joins the cluster and the
election; the leader runs the transition pipeline and the periodic tasks. Stop: the lead is given up first, so that
another controller takes over while running requests finish.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import httpx

from pinotpy import __version__
from pinotpy.cluster.cluster_setup import create_cluster
from pinotpy.cluster.leader import LeaderElection
from pinotpy.cluster.membership import Member
from pinotpy.cluster.participant import Participant
from pinotpy.cluster.paths import ClusterPaths
from pinotpy.cluster.pipeline import TransitionPipeline
from pinotpy.cluster.process_identity import this_process
from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.cluster.store import Check
from pinotpy.cluster.views import Message
from pinotpy.cluster.zookeeper import ZooKeeperStore
from pinotpy.config.settings import ControllerSettings
from pinotpy.controller.app import build_controller_app
from pinotpy.controller.catalog import Catalog
from pinotpy.controller.check_room import CheckRoom
from pinotpy.controller.context import Controller
from pinotpy.controller.idempotency import IdempotentAnswers
from pinotpy.controller.identity import Identity
from pinotpy.controller.leader_forwarding import LeaderForwarding
from pinotpy.controller.leadership import ElectedLeadership, register_at_leader
from pinotpy.controller.periodic.broker_resource import BrokerResourceValidation
from pinotpy.controller.periodic.deep_store_scrub import DeepStoreScrub
from pinotpy.controller.periodic.deep_store_sweep import DeepStoreSweep
from pinotpy.controller.periodic.realtime_validation import RealtimeValidation
from pinotpy.controller.periodic.refreshed_segments import RefreshedSegments
from pinotpy.controller.periodic.retention import RetentionManager
from pinotpy.controller.periodic.scheduler import PeriodicScheduler
from pinotpy.controller.periodic.segment_status import SegmentStatusChecker
from pinotpy.controller.realtime.allowed_streams import AllowedStreams
from pinotpy.controller.segment_files import SegmentFiles
from pinotpy.controller.upload_conditions import UploadConditions
from pinotpy.controller.upload_folder import take_upload_folder
from pinotpy.errors import NotLeaderError
from pinotpy.fs.crypters import Crypters
from pinotpy.fs.fetchers import SegmentFetchers
from pinotpy.fs.fetchers import settings_of as fetcher_settings
from pinotpy.fs.file_systems import deep_store_for
from pinotpy.fs.settings import FileSystemSettings
from pinotpy.fs.uris import LOCAL_SCHEMES, local_path, scheme_of
from pinotpy.names import instance_id
from pinotpy.service.archive_download import DownloadLimits
from pinotpy.service.assembly import Equipment, run_assembled
from pinotpy.service.daemon import Part
from pinotpy.service.forwarded_peers import ForwardedPeers
from pinotpy.service.http_server import HttpServer
from pinotpy.service.joining import ZOOKEEPER_STOP_S, connect
from pinotpy.service.peer_archives import PeerArchives, replica_urls

LOG = logging.getLogger(__name__)
LOCAL_FOLDER = Path("pinotpy-data/controller")


def run_controller(settings: ControllerSettings, ready_file: Path | None = None) -> NoReturn:
    """Run a controller in this process until it is told to stop, and end the process."""
    run_assembled(settings, ControllerParts, ready_file)


def deep_store_uri(settings: ControllerSettings) -> str:
    """The deep store's URI: below the data folder, or directly below a URI of other storage."""
    is_local = scheme_of(settings.data_dir) in LOCAL_SCHEMES
    return str(local_path(settings.data_dir) / "store") if is_local else settings.data_dir


def local_folder(settings: ControllerSettings) -> Path:
    """This controller's private folder: uploads in progress."""
    if settings.local_temp_dir is not None:
        return settings.local_temp_dir
    return local_path(settings.data_dir) if scheme_of(settings.data_dir) in LOCAL_SCHEMES else LOCAL_FOLDER


class _NoTransitions:
    """A controller joins the cluster only to be seen; it has no states of its own."""

    def on_transition(self, resource: str, partition: str, from_state: str, to_state: str) -> None:
        LOG.info("transition ignored resource=%s partition=%s from=%s to=%s", resource, partition, from_state, to_state)

    def on_message(self, message: Message) -> None:
        LOG.info("message ignored subtype=%s resource=%s", message.subtype, message.resource)


class ControllerParts:
    """The parts of one controller; `parts()` in the order of their start."""

    def __init__(self, settings: ControllerSettings, equipment: Equipment) -> None:
        self.settings, self.equipment = settings, equipment
        self.identity = Identity()
        self._paths = ClusterPaths(settings.cluster_name)
        self._store: ZooKeeperStore | None = None
        self._http: HttpServer | None = None
        self._peers: httpx.Client | None = None
        self._participant: Participant | None = None
        self._election: LeaderElection | None = None
        self._pipeline: TransitionPipeline | None = None
        self._scheduler: PeriodicScheduler | None = None
        self._scrub: DeepStoreScrub | None = None
        self._replicas: PeerArchives | None = None
        self._leadership: ElectedLeadership | None = None
        self._fetchers: SegmentFetchers | None = None

    def parts(self) -> list[Part]:
        return [
            Part("zookeeper", self._connect, self._disconnect, ZOOKEEPER_STOP_S),
            Part("rest", self._start_rest, self._stop_rest, self.settings.shutdown_timeout_ms / 1000),
            Part("cluster", self._join, self._leave),
            Part("leader", self._stand, self._resign),
        ]

    def facts(self) -> Mapping[str, object]:
        """What the ready line shows."""
        return {"url": self.identity.url, "instance": self.identity.instance}

    # --- start -----------------------------------------------------------------------------------------------------

    def _connect(self) -> None:
        self._store = connect(self.settings, self.equipment.metrics)
        create_cluster(self._store, self._paths)

    def _start_rest(self) -> None:
        settings, equipment = self.settings, self.equipment
        controller = self._controller()
        streams = RealtimeValidation(controller, controller.realtime_segments, settings.realtime_validation_interval_s)
        self._scrub = self._deep_store_scrub(controller)
        self._scheduler = PeriodicScheduler(
            [
                RetentionManager(controller, settings.retention_interval_s),
                DeepStoreSweep(controller, settings.retention_interval_s),
                self._scrub,
                SegmentStatusChecker(controller, settings.status_check_interval_s),
                BrokerResourceValidation(controller, settings.broker_resource_interval_s),
                streams,
                RefreshedSegments(controller),
            ],
            equipment.clock,
            controller.is_leader,
            initial_delay_s=settings.periodic_initial_delay_s,
            on_run=self._count_run,
        )
        app = build_controller_app(
            controller,
            self._scheduler,
            access=equipment.access,
            ready=self._not_ready,
            settings=settings.effective,
            failure_of=streams.failure,
            body_max_bytes=settings.request_bytes_max,
        )
        assert self._leadership is not None
        app.forwarded = ForwardedPeers(equipment.cluster_token) if equipment.cluster_token else None
        app.fastapi.add_middleware(
            LeaderForwarding,
            leadership=self._leadership,
            answers=IdempotentAnswers(equipment.clock),
            admit=app.admit,
            forwarded=app.forwarded,
            instance=lambda: self.identity.instance,
            client=controller.async_peers,
        )
        self._http = equipment.serve(
            app, settings.port, advertised_port=settings.advertised_port, threads=settings.threads
        )
        host, port = settings.advertised_host or settings.host, settings.advertised_port or self._http.port
        self.identity.url, self.identity.instance = self._http.url, instance_id("Controller", host, port)
        equipment.metrics.watch("pinotControllerLeader", lambda: float(controller.is_leader()))

    def _deep_store_scrub(self, controller: Controller) -> DeepStoreScrub:
        settings, equipment, store = self.settings, self.equipment, controller.catalog.store
        self._replicas = PeerArchives(
            lambda table, segment: list(replica_urls(store, self._paths, equipment.scheme, table, segment).values()),
            equipment.peer_headers,
            equipment.clock,
            equipment.peer_verification(),
            # What is refused or away is asked again by a later look.
            DownloadLimits(
                settings.upload_timeout_ms, 3, settings.upload_bytes_max, "controller.segment.upload.maxSizeBytes"
            ),
        )
        return DeepStoreScrub(
            controller,
            self._replicas,
            period_s=settings.deep_store_scrub_period_s,
            bytes_per_s=settings.deep_store_scrub_rate,
        )

    def _controller(self) -> Controller:
        assert self._store is not None
        settings, equipment, store = self.settings, self.equipment, self._store
        storage = FileSystemSettings.from_properties(settings.storage_factory)
        leadership = self._leadership = ElectedLeadership(store, self._paths, lambda: self._election, equipment.scheme)
        AllowedStreams(settings.stream_uris_allowed)  # what is wrong with the list is told at the start
        verify = equipment.peer_verification()
        self._peers = httpx.Client(headers=equipment.peer_headers(), verify=verify, trust_env=False)
        # As many connections as requests: queries that a broker keeps waiting must not keep others from the leader.
        async_peers = httpx.AsyncClient(verify=verify, trust_env=False, limits=httpx.Limits(max_connections=None))
        self._fetchers = SegmentFetchers(
            fetcher_settings(
                settings.segment_uris_allowed,
                settings.segment_fetcher,
                settings.storage_factory,
                bytes_max=settings.upload_bytes_max,
                timeout_ms=settings.upload_timeout_ms,
            ),
            equipment.clock,
        )

        async def register(segment: SegmentZkMetadata, conditions: UploadConditions) -> SegmentZkMetadata | None:
            return await register_at_leader(leadership, async_peers, equipment.peer_headers(), segment, conditions)

        return Controller(
            identity=self.identity,
            settings=settings,
            catalog=Catalog(store, self._paths, self._fences),
            files=SegmentFiles(deep_store_for(deep_store_uri(settings), storage), self.identity),
            fetchers=self._fetchers,
            crypters=Crypters(settings.crypter),
            # Locked until the process ends, as its threads may be at an upload until then.
            scratch_dir=take_upload_folder(local_folder(settings)).path,
            check_room=CheckRoom(settings.upload_check_bytes_max),
            clock=equipment.clock,
            metrics=equipment.metrics,
            peers=self._peers,
            async_peers=async_peers,
            is_leader=leadership.is_leader,
            leader=leadership.leader,
            register_at_leader=register,
        )

    def _join(self) -> None:
        assert self._store is not None
        member = Member(
            self.identity.instance,
            this_process(),
            {},
            owns_port=self.settings.advertised_port is None,
            version=__version__,
        )
        self._participant = Participant(
            self._store, self._paths, member, _NoTransitions(), workers=1, clock=self.equipment.clock
        )
        self._participant.start()

    def _stand(self) -> None:
        assert self._store is not None and self._scheduler is not None and self._scrub is not None
        clock = self.equipment.clock
        election = LeaderElection(self._store, self._paths, self.identity.instance, clock=clock, version=__version__)
        full_period_s = self.settings.reconcile_interval_ms / 1000
        self._pipeline = TransitionPipeline(
            self._store, self._paths, election, source=self.identity.instance, clock=clock, full_period_s=full_period_s
        )
        counts = self._pipeline.counts
        self.equipment.metrics.watch("transitionMessagesSent", lambda: float(counts.messages_sent))
        self._election = election
        election.step()
        self._pipeline.start()
        self._scheduler.start()
        self._scrub.start()
        self.equipment.metrics.set("ready", 1)

    def _count_run(self, task: str, failures: int) -> None:
        self.equipment.metrics.count("controllerPeriodicTaskRun", task=task)
        if failures:
            self.equipment.metrics.count("controllerPeriodicTaskError", failures, task=task)

    def _fences(self) -> Sequence[Check]:
        if self._election is None:
            raise NotLeaderError("this controller is starting: try again in a moment")
        return self._election.fence()

    def _not_ready(self) -> str | None:
        if self._election is None or self._participant is None:
            return "it is starting"
        if not self._participant.is_live:
            return "it has no session with ZooKeeper"
        return None

    # --- stop ------------------------------------------------------------------------------------------------------

    def _resign(self, timeout_s: float) -> None:
        if self._store is not None:
            self._store.hurry()
        if self._replicas is not None:
            self._replicas.close()
        if self._scrub is not None:
            self._scrub.stop(timeout_s / 4)
        if self._scheduler is not None:
            self._scheduler.stop(timeout_s / 4)
        if self._pipeline is not None:
            self._pipeline.stop(timeout_s / 2)
        if self._election is not None:
            self._election.resign()

    def _leave(self, timeout_s: float) -> None:
        if self._participant is not None:
            self._participant.stop(timeout_s / 2)

    def _stop_rest(self, timeout_s: float) -> None:
        if self._http is not None:
            self._http.stop(timeout_s)
        if self._peers is not None:
            self._peers.close()
        if self._fetchers is not None:
            self._fetchers.close()

    def _disconnect(self, timeout_s: float) -> None:
        if self._store is not None:
            self._store.close()
