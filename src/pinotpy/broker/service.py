"""Assembles, starts and stops a broker.

Start: session with ZooKeeper, the first view of the cluster, HTTP (the gRPC channel runs on its loop), then the broker
joins the cluster: the controller assigns the tables. Stop: leave the cluster, let running queries finish, close.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import NoReturn

from pinotpy import __version__
from pinotpy.broker.api import debug, query
from pinotpy.broker.cluster_catalog import ClusterCatalog
from pinotpy.broker.gathering import read_answer
from pinotpy.broker.handler import Broker, BrokerLimits
from pinotpy.broker.metrics import BrokerMetrics, UnusedRecords
from pinotpy.broker.query_log import STOP_TIMEOUT_S as LOG_STOP_TIMEOUT_S
from pinotpy.broker.query_log import QueryLog
from pinotpy.broker.routing.server_statistics import SERVER_GAUGES, AdaptiveRules, ServerStatistics
from pinotpy.broker.system.tables import SystemTables
from pinotpy.cluster.membership import Member
from pinotpy.cluster.participant import Participant
from pinotpy.cluster.paths import ClusterPaths
from pinotpy.cluster.process_identity import this_process
from pinotpy.cluster.spectator import Spectator
from pinotpy.cluster.views import Message
from pinotpy.cluster.zookeeper import ZooKeeperStore
from pinotpy.config.adaptive_selection import AdaptiveType
from pinotpy.config.settings import BrokerSettings
from pinotpy.names import instance_id
from pinotpy.query.result.partial import PartialResult
from pinotpy.rpc.channel import QueryChannel
from pinotpy.rpc.frame_channel import FrameChannel
from pinotpy.rpc.listening import has_grpc
from pinotpy.rpc.preferring_channel import PreferringChannel
from pinotpy.rpc.security import RpcSecurity
from pinotpy.rpc.template_sender import TemplateSender
from pinotpy.rpc.wire import ServerRequest
from pinotpy.service.assembly import Equipment, run_assembled
from pinotpy.service.daemon import Part
from pinotpy.service.errors import StartError
from pinotpy.service.http import build_app
from pinotpy.service.http_server import HttpServer
from pinotpy.service.joining import ZOOKEEPER_STOP_S, await_cluster, connect, give_notice


def run_broker(settings: BrokerSettings, ready_file: Path | None = None) -> NoReturn:
    """Run a broker in this process until it is told to stop, and end the process."""
    run_assembled(settings, BrokerParts, ready_file)


class BrokerParts:
    """The parts of one broker; `parts()` in the order of their start."""

    def __init__(self, settings: BrokerSettings, equipment: Equipment) -> None:
        self.settings = settings
        self.equipment = equipment
        self._paths = ClusterPaths(settings.cluster_name)
        self._store: ZooKeeperStore | None = None
        self._spectator: Spectator | None = None
        self._http: HttpServer | None = None
        self._participant: Participant | None = None
        self._log = QueryLog.of(settings, lambda count: equipment.metrics.count("queryLogDropped", count))
        security, answer_max_bytes = self._security(), settings.server_response_bytes_max
        # A query may ask a server twice, if it replaces another one: an admitted query must not be refused later.
        in_flight_max = 2 * settings.queries_max
        frames = FrameChannel(
            security,
            in_flight_max=in_flight_max,
            answer_max_bytes=answer_max_bytes,
            memory=equipment.memory.budget,
        )

        def open_grpc() -> QueryChannel:
            from pinotpy.rpc.grpc_channel import GrpcChannel

            return GrpcChannel(security, in_flight_max=in_flight_max, answer_max_bytes=answer_max_bytes)

        self._channel = PreferringChannel(frames, open_grpc if has_grpc() else None)

    def parts(self) -> list[Part]:
        return [
            Part("zookeeper", self._connect, self._disconnect, ZOOKEEPER_STOP_S),
            Part("cluster view", self._watch, self._stop_watching, 4.0),
            # Before HTTP, so that it ends after the last query.
            Part("query log", self._start_log, self._stop_log, LOG_STOP_TIMEOUT_S),
            Part("http", self._start_http, self._stop_http, self.settings.shutdown_timeout_ms / 1000),
            Part("cluster", self._join, self._leave),
        ]

    def facts(self) -> Mapping[str, object]:
        """What the ready line shows."""
        assert self._http is not None and self._participant is not None
        return {"url": self._http.url, "instance": self._participant.instance}

    # --- start -----------------------------------------------------------------------------------------------------

    def _security(self) -> RpcSecurity:
        pem = self.equipment.pem()
        return RpcSecurity(
            cluster_token=self.equipment.cluster_token, certificate=pem.certificate, key=pem.key, ca=pem.ca
        )

    def _connect(self) -> None:
        self._store = connect(self.settings, self.equipment.metrics)
        await_cluster(self._store, self._paths, self.equipment.clock, self.settings.zk_connect_timeout_ms / 1000)

    def _watch(self) -> None:
        assert self._store is not None
        self._spectator = Spectator(self._store, self._paths, with_segments=True, clock=self.equipment.clock)
        self._spectator.start()

    def _start_log(self) -> None:
        try:
            self._log.start()
        except OSError as problem:
            raise StartError(
                f"query log '{self.settings.query_log_file}' (pinot.broker.query.log.file) cannot be written: "
                f"{problem.strerror}"
            ) from problem

    def _start_http(self) -> None:
        assert self._spectator is not None
        settings, equipment, spectator = self.settings, self.equipment, self._spectator
        catalog = ClusterCatalog(
            lambda: spectator.view,
            equipment.clock,
            case_insensitive=settings.case_insensitive,
            tell_unused=UnusedRecords(equipment.metrics).tell,
        )

        sender = TemplateSender(self._channel.call)

        async def send(server: str, request: ServerRequest, timeout_s: float) -> PartialResult:
            answer = await sender.send(catalog.address(server), request, timeout_s)
            equipment.metrics.count("totalServerResponseSize", len(answer))
            return await read_answer(answer)

        broker = Broker(
            broker_id=self._instance(settings.port),
            catalog=catalog,
            send=send,
            limits=BrokerLimits(
                timeout_ms=settings.timeout_ms,
                response_rows_max=settings.response_rows_max,
                limit_override=settings.limit_override,
                case_insensitive=settings.case_insensitive,
                null_handling=settings.null_handling,
                query_text_bytes_max=settings.query_text_bytes_max,
                memory_max_bytes=settings.memory_max_bytes,
                queries_max=settings.queries_max,
                queue_max=settings.queue_max,
                constants_bytes_max=settings.constants_bytes_max,
                constants_timeout_ms=settings.constants_timeout_ms,
            ),
            clock=equipment.clock,
            metrics=BrokerMetrics(equipment.metrics),
            memory=equipment.memory.budget,
            log=self._log,
            servers=self._server_statistics(),
            system=SystemTables(lambda: spectator.view, self._log),
        )
        self._show_statistics(broker.servers)
        equipment.metrics.watch("routedTables", lambda: float(len(catalog.tables())))
        equipment.metrics.watch("unhealthyServers", lambda: float(broker.num_quarantined()))
        app = build_app(
            "broker",
            [*query.routes(broker), *debug.routes(broker, catalog)],
            access=equipment.access,
            metrics=equipment.metrics,
            ready=self._not_ready,
            settings=settings.effective,
            body_max_bytes=settings.request_bytes_max,
        )
        self._http = equipment.serve(
            app, settings.port, advertised_port=settings.advertised_port, threads=settings.threads
        )
        # Queries that run at stop still ask over the channel.
        self._http.close_last(self._channel.close)
        # Servers tell the queries of two brokers apart by it: with port 0 only the bound port does.
        broker.broker_id = self._instance(self._http.port)

    def _instance(self, port: int) -> str:
        return instance_id(
            "Broker", self.settings.advertised_host or self.settings.host, self.settings.advertised_port or port
        )

    def _join(self) -> None:
        assert self._store is not None and self._http is not None
        settings = self.settings
        member = Member(
            self._instance(self._http.port),
            this_process(),
            {},
            owns_port=settings.advertised_port is None,
            version=__version__,
        )
        self._participant = Participant(
            self._store, self._paths, member, _BrokerTransitions(), workers=2, clock=self.equipment.clock
        )
        self._participant.start()
        self.equipment.metrics.set("ready", 1)

    def _not_ready(self) -> str | None:
        return "it is starting" if self._participant is None else None

    def _server_statistics(self) -> ServerStatistics:
        settings = self.settings
        return ServerStatistics(
            AdaptiveRules(
                settings.adaptive_type,
                settings.adaptive_statistics or settings.adaptive_type is not AdaptiveType.NO_OP,
                settings.adaptive_alpha,
                settings.adaptive_decay_ms * 1_000_000,
                settings.adaptive_first_value,
                settings.adaptive_exponent,
                settings.adaptive_queue_floor,
            )
        )

    def _show_statistics(self, servers: ServerStatistics) -> None:
        metrics, clock = self.equipment.metrics, self.equipment.clock

        def read(name: str) -> dict[str, float]:
            return {server: values[name] for server, values in servers.shown(clock.monotonic_ns()).items()}

        for name in SERVER_GAUGES if servers.rules.measures else ():
            metrics.watch_each(name, partial(read, name))

    # --- stop ------------------------------------------------------------------------------------------------------

    def _leave(self, timeout_s: float) -> None:
        if self._store is not None:
            self._store.hurry()
        if self._participant is not None:
            give_notice(self._participant, self.equipment.clock)
            self._participant.stop(5.0)

    def _stop_http(self, timeout_s: float) -> None:
        if self._http is not None:
            self._http.stop(timeout_s)

    def _stop_log(self, timeout_s: float) -> None:
        self._log.stop(timeout_s)

    def _stop_watching(self, timeout_s: float) -> None:
        if self._spectator is not None:
            self._spectator.stop(timeout_s)

    def _disconnect(self, timeout_s: float) -> None:
        if self._store is not None:
            self._store.close()


class _BrokerTransitions:
    """The broker resource's transitions: routing follows the view, so there is nothing to build or drop."""

    def on_transition(self, resource: str, partition: str, from_state: str, to_state: str) -> None:
        """A table comes or goes."""

    def on_message(self, message: Message) -> None:
        """Refreshes and config changes arrive through the view's watches."""
