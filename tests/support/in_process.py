"""A cluster without sockets: the real broker handler, the real query service of every server, real segments on disk.

What is replaced: ZooKeeper's view of the tables (a dict), and gRPC (a direct call; partial results still go through
their bytes). Tests that need those run a LocalCluster.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from index_ways import inverted_form, reloaded, without_indexes

from pinotpy.broker.catalog import Half, Target
from pinotpy.broker.gathering import read_answer
from pinotpy.broker.handler import Broker, BrokerLimits, Question, answer_query
from pinotpy.broker.metrics import BrokerMetrics
from pinotpy.broker.parts import EVERY_TABLE
from pinotpy.broker.query_log import QueryLog
from pinotpy.broker.routing.segment_pruner import PrunedTable
from pinotpy.broker.routing.table_routing import TableRouting
from pinotpy.broker.system.tables import SystemTables
from pinotpy.client.arrow_answers import parse_arrow
from pinotpy.client.result import ResultSetGroup, parse_response
from pinotpy.clock import SystemClock
from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.cluster.spectator import ClusterView
from pinotpy.cluster.views import ExternalView, IdealState, InstanceConfig, LiveInstance
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.controller.upload import segment_record
from pinotpy.errors import TableNotFoundError
from pinotpy.memory.budget import ProcessBudget
from pinotpy.names import split_table_name
from pinotpy.pql.ast import Dialect
from pinotpy.query.result.partial import PartialResult
from pinotpy.query.result.response import arrow
from pinotpy.rpc.channel import ServerAddress
from pinotpy.rpc.template_sender import TemplateSender
from pinotpy.rpc.wire import FEATURES_SUPPORTED, ServerRequest
from pinotpy.segment.build.builder import build_segment
from pinotpy.segment.immutable import load_segment
from pinotpy.server.metrics import ServerMetrics
from pinotpy.server.query_service import QueryLimits, QueryService
from pinotpy.server.scheduler import QueryScheduler
from pinotpy.server.tables.registry import SegmentRegistry
from pinotpy.service.metric_catalogue import BROKER_METRICS, SERVER_METRICS
from pinotpy.service.metrics import Metrics

CLOCK = SystemClock()


class _DictCatalog:
    def __init__(self) -> None:
        self.targets: dict[str, Target] = {}

    def true_name(self, table: str, dialect: Dialect) -> str | None:
        raw, _ = split_table_name(table)
        return next(
            (name for name in self.targets if raw == name or (dialect is Dialect.SQL and raw.lower() == name.lower())),
            None,
        )

    def twins(self, table: str, dialect: Dialect) -> tuple[str, ...]:
        return ()

    def not_found(self, table: str, dialect: Dialect) -> TableNotFoundError:
        return TableNotFoundError(f"no table '{table}'", table=table)

    def resolve(self, table: str, dialect: Dialect) -> Target:
        raw, _ = split_table_name(table)
        for name, target in self.targets.items():
            if raw == name or (dialect is Dialect.SQL and raw.lower() == name.lower()):
                return target
        raise self.not_found(table, dialect)


class InProcessCluster:
    """Tables over segments, spread over `num_servers` query services."""

    def __init__(
        self,
        directory: Path,
        *,
        num_servers: int = 1,
        threads: int = 2,
        memory_max_bytes: int = 2 << 30,
        registry: type[SegmentRegistry] = SegmentRegistry,
        server_memory: ProcessBudget | None = None,
        null_handling: bool = True,
        query_log: QueryLog | None = None,
        prunes: bool = False,
    ) -> None:
        """prunes: the broker prunes by the records that an upload of the segments would write."""
        self.directory = directory
        self._prunes = prunes
        self.catalog = _DictCatalog()
        self.registries = {f"Server_test_{number}": registry() for number in range(num_servers)}
        limits = QueryLimits(timeout_ms=600_000, memory_max_bytes=memory_max_bytes, threads=threads)
        self.services = {
            name: QueryService(
                registry,
                QueryScheduler(CLOCK, concurrent_max=8, queue_max=100),
                limits,
                CLOCK,
                ServerMetrics(Metrics("server", SERVER_METRICS)),
                None,
                memory=server_memory,
            )
            for name, registry in self.registries.items()
        }
        self._sender = TemplateSender(self._call)
        log = QueryLog() if query_log is None else query_log
        self.broker = Broker(
            broker_id="Broker_test_1",
            catalog=self.catalog,
            send=self._send,
            limits=BrokerLimits(timeout_ms=600_000, hedge_after_ms=600_000, null_handling=null_handling),
            clock=CLOCK,
            metrics=BrokerMetrics(Metrics("broker", BROKER_METRICS)),
            log=log,
            system=SystemTables(self.view, log),
        )

    def view(self) -> ClusterView:
        """The tables as ZooKeeper would show them; a new one each time."""
        ideal, records, configs, schemas = {}, {}, {}, {}
        for raw, target in self.catalog.targets.items():
            schemas[raw] = target.schema.to_json_dict()
            for half in target.halves:
                name = half.routing.table
                states = {segment: dict.fromkeys(on, "ONLINE") for segment, on in half.routing.replicas.items()}
                ideal[name] = IdealState(name, states, {"REPLICAS": "1"})
                configs[name] = {"tableName": name}
                records[name] = {
                    segment: SegmentZkMetadata(
                        segment, name, 1, self.registries[on[0]].num_docs(name, [segment]), 1_700_000_000_000
                    )
                    for segment, on in half.routing.replicas.items()
                }
        features = {"queryFeatures": str(FEATURES_SUPPORTED)}
        return ClusterView(
            external_views={name: ExternalView(name, state.partitions) for name, state in ideal.items()},
            ideal_states=ideal,
            live_instances={server: LiveInstance(server, "1", version="test") for server in self.registries},
            instance_configs={
                server: InstanceConfig(server, "test", 1, simple_fields=features) for server in self.registries
            },
            table_configs=configs,
            schemas=schemas,
            segments=records,
        )

    def add_table(
        self,
        schema: Schema,
        config: TableConfig,
        splits: Sequence[Iterable[pa.RecordBatch]],
        *,
        segment_names: Sequence[str] | None = None,
        by_reload: bool = False,
        mixed_forms: bool = False,
        as_served: Callable[[int, Any], Any] = lambda number, segment: segment,
    ) -> list[str]:
        """Build one segment per split (record batches in storage form) and spread them over the servers. `by_reload`:
        their indexes are built afterwards, by a reload. `mixed_forms`: inverted indexes of one segment are as their
        bytes say, of the next ones lists, then bitmaps. `as_served`: what queries see of the segment of a split.
        """
        raw = config.raw_table_name
        names = (
            list(segment_names)
            if segment_names is not None
            else [f"{raw}_{number:04d}" for number in range(len(splits))]
        )
        for number, (name, batches) in enumerate(zip(names, splits, strict=True)):
            with inverted_form(number if mixed_forms else 0):
                build_segment(
                    schema,
                    without_indexes(config) if by_reload else config,
                    batches,
                    self.directory / raw,
                    name,
                    raw_table_name=raw,
                )
                if by_reload:
                    reloaded(load_segment(self.directory / raw / name), schema, config).close()
        self.add_built_table(schema, config, [self.directory / raw / name for name in names], as_served)
        return names

    def add_built_table(
        self,
        schema: Schema,
        config: TableConfig,
        directories: Sequence[Path],
        as_served: Callable[[int, Any], Any] = lambda number, segment: segment,
    ) -> None:
        """Serve segments that are built already."""
        table = config.name_with_type
        servers = list(self.registries)
        replicas = {}
        records = {}
        for number, directory in enumerate(directories):
            server = servers[number % len(servers)]
            segment = as_served(number, load_segment(directory))
            self.registries[server].put(table, segment)
            replicas[segment.name] = (server,)
            if self._prunes:
                records[segment.name] = segment_record(segment.metadata, table, size_bytes=1, download_url="", now_ms=1)
        routing = TableRouting(table, replicas)
        pruner = PrunedTable(table).pruner(routing, records, {}, schema) if self._prunes else None
        without_nulls = frozenset() if config.indexing.null_handling_enabled else schema.columns_without_nulls
        self.catalog.targets[config.raw_table_name] = Target(
            config.raw_table_name,
            schema,
            (Half(routing, pruner=pruner, without_nulls=without_nulls),),
            null_handling=(config.query.enable_null_handling if config.query else None,),
        )

    def ask(self, text: str, dialect: Dialect = Dialect.PQL, **fields: Any) -> dict[str, Any]:
        """One query; `fields` are query_options, debug_options, trace."""
        answer: dict[str, Any] = json.loads(
            asyncio.run(answer_query(self.broker, Question(text, dialect, **fields), EVERY_TABLE))
        )
        return answer

    def sql_all(self, texts: Sequence[str], **fields: Any) -> list[dict[str, Any]]:
        """Queries one after the other, in one event loop: less than half the time."""

        async def run() -> list[dict[str, Any]]:
            questions = [Question(text, Dialect.SQL, **fields) for text in texts]
            return [json.loads(await answer_query(self.broker, question, EVERY_TABLE)) for question in questions]

        return asyncio.run(run())

    def ask_arrow(self, text: str, dialect: Dialect = Dialect.SQL, **fields: Any) -> ResultSetGroup:
        """One query as the client reads it that asked for Arrow: its stream's bytes, or JSON where there is no
        table.
        """
        answer = asyncio.run(
            answer_query(self.broker, Question(text, dialect, **fields), EVERY_TABLE, wants_arrow=True)
        )
        return (
            parse_response(json.loads(answer))
            if isinstance(answer, bytes)
            else parse_arrow(b"".join(arrow.stream_pieces(answer)))
        )

    def pql(self, text: str, **fields: Any) -> dict[str, Any]:
        return self.ask(text, Dialect.PQL, **fields)

    def sql(self, text: str, **fields: Any) -> dict[str, Any]:
        return self.ask(text, Dialect.SQL, **fields)

    def close(self) -> None:
        for registry in self.registries.values():
            registry.close()

    async def _send(self, server: str, request: ServerRequest, timeout_s: float) -> PartialResult:
        address = ServerAddress(server, "test", 1, features=FEATURES_SUPPORTED)
        return await read_answer(await self._sender.send(address, request, timeout_s))

    async def _call(self, server: ServerAddress, content: bytes, timeout_s: float) -> bytes:
        service = self.services[server.instance]

        def answer() -> bytes:
            # As the frame server does.
            quick = service.handle_quickly(content, timeout_s, "test")
            return service.handle(content, timeout_s, "test") if quick is None else quick

        return await asyncio.to_thread(answer)


def _scheduler() -> QueryScheduler:
    return QueryScheduler(CLOCK, concurrent_max=8, queue_max=100)
