"""A broker over tables of which a client may see some only, and whose servers cannot be reached: what a query is
answered tells whether it got so far.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from pinotpy.broker.cluster_catalog import ClusterCatalog
from pinotpy.broker.handler import answer_query
from pinotpy.broker.metrics import BrokerMetrics
from pinotpy.broker.parts import Broker, BrokerLimits, Question, TableRights
from pinotpy.broker.query_log import QueryLog
from pinotpy.broker.system.tables import SystemTables
from pinotpy.clock import SystemClock
from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.cluster.spectator import ClusterView
from pinotpy.cluster.views import ExternalView, IdealState, InstanceConfig, LiveInstance
from pinotpy.errors import ServerUnreachableError
from pinotpy.pql.ast import Dialect
from pinotpy.query.result.partial import PartialResult
from pinotpy.rpc.given_rows import decode_given_rows
from pinotpy.rpc.wire import FEATURES_SUPPORTED, ServerRequest
from pinotpy.service.metric_catalogue import BROKER_METRICS
from pinotpy.service.metrics import Metrics
from pinotpy.service.rights import CLUSTER, Action, Rights, table_resource

TABLES = ("ev_open", "EV_secret", "ev_Secret2", "other", "Other_hidden")
SERVER = "Server_a_1"
RIGHTS = Rights(tables=(("ev_*", frozenset({Action.READ})), ("oth*", frozenset({Action.READ}))))


def view(tables: Sequence[str]) -> ClusterView:
    names = [f"{name}_OFFLINE" for name in tables]
    schema = {"dimensionFieldSpecs": [{"name": "id", "dataType": "LONG"}]}
    return ClusterView(
        external_views={name: ExternalView(name, {"s": {SERVER: "ONLINE"}}) for name in names},
        ideal_states={name: IdealState(name, {"s": {SERVER: "ONLINE"}}, {"HELIX_ENABLED": "true"}) for name in names},
        live_instances={SERVER: LiveInstance(SERVER, "1")},
        instance_configs={
            SERVER: InstanceConfig(SERVER, "a", 1, simple_fields={"queryFeatures": str(FEATURES_SUPPORTED)})
        },
        table_configs={name: {} for name in names},
        schemas={name: {"schemaName": name, **schema} for name in tables},
        segments={
            name: {f"{name}_s": SegmentZkMetadata(f"{name}_s", name, 1, 10, 1_000, size_bytes=100)} for name in names
        },
    )


class Scene:
    """The broker, and what it asked for rights, and its servers for."""

    def __init__(self, *more: str, tables: Sequence[str] = TABLES) -> None:
        self.view = view([*tables, *more])
        self.asked: list[str] = []
        self.seen: list[str] = []
        self.rows: list[dict[str, Any]] = []  # that the last query brought along
        log = QueryLog()

        async def send(server: str, request: ServerRequest, timeout_s: float) -> PartialResult:
            if request.given_rows:
                _, batches = decode_given_rows(request.given_rows)
                self.rows = [row for batch in batches for row in batch.to_pylist()]
            raise ServerUnreachableError("nobody is there", server=server)

        self.catalog = ClusterCatalog(lambda: self.view, SystemClock())
        self.broker = Broker(
            broker_id="b",
            catalog=self.catalog,
            send=send,
            limits=BrokerLimits(),
            clock=SystemClock(),
            metrics=BrokerMetrics(Metrics("broker", BROKER_METRICS)),
            log=log,
            system=SystemTables(lambda: self.view, log),
        )

    def ask(
        self, text: str, dialect: Dialect = Dialect.SQL, rights: Rights = RIGHTS, user: str = "bob"
    ) -> dict[str, Any]:
        self.rows = []
        given = rights

        def allowed(names: list[str], name: str) -> bool:
            names.append(name)
            return given.allows(Action.READ, table_resource(name))

        asking = TableRights(
            user,
            lambda name: allowed(self.asked, name),
            lambda name: allowed(self.seen, name),
            lambda: given.allows(Action.READ, CLUSTER),
            lambda: given.allows(Action.ADMIN, CLUSTER),
        )
        answer: dict[str, Any] = json.loads(asyncio.run(answer_query(self.broker, Question(text, dialect), asking)))
        return answer
