"""GET /debug/…: the routing that queries use, as the reference shows it."""

from __future__ import annotations

from typing import Any

import orjson

from pinotpy.broker.api.query import query_parameters, question_of, rights_of
from pinotpy.broker.cluster_catalog import ClusterCatalog
from pinotpy.broker.parts import Broker
from pinotpy.broker.routed_query import route_query
from pinotpy.errors import NotFoundError
from pinotpy.names import TableType, split_table_name, table_name_with_type
from pinotpy.pql.ast import Dialect
from pinotpy.service.routes import CLUSTER, IN_HANDLER, Action, FastRequest, Routes, table


def routes(broker: Broker, catalog: ClusterCatalog) -> Routes:
    """The debug routes over the broker's catalog."""
    declared = Routes("Debug")

    async def routed(request: FastRequest, key: str, dialect: Dialect) -> bytes:
        question = question_of(query_parameters(request.query_string), key, dialect)
        return orjson.dumps(await route_query(broker, question, rights_of(request)))

    @declared.fast(
        "GET",
        "/debug/routingTable",
        Action.READ,
        IN_HANDLER,
        summary="Which server would answer ?pql= for which segment, after pruning",
    )
    async def routing_of_pql(request: FastRequest) -> bytes:
        return await routed(request, "pql", Dialect.PQL)

    @declared.fast(
        "GET",
        "/debug/routingTable/sql",
        Action.READ,
        IN_HANDLER,
        summary="Which server would answer ?query= for which segment, after pruning",
    )
    async def routing_of_sql(request: FastRequest) -> bytes:
        return await routed(request, "query", Dialect.SQL)

    @declared.get(
        "/debug/routingTable/{tableName}",
        Action.READ,
        table("tableName"),
        summary="Which server answers for which segment",
    )
    def routing_table(tableName: str) -> dict[str, Any]:
        raw, kind = split_table_name(tableName)
        known = set(catalog.tables())
        names = [name for t in TableType if kind in (None, t) and (name := table_name_with_type(raw, t)) in known]
        if not names:
            raise NotFoundError(f"Cannot find routing for table: {tableName[:200]}", table=tableName)
        shown: dict[str, Any] = {}
        for name in names:
            selection = catalog.routing(name).select(0)
            shown[name] = {server: list(segments) for server, segments in sorted(selection.assignment.items())}
        return shown

    @declared.get(
        "/debug/serverRoutingStats",
        Action.READ,
        CLUSTER,
        summary="What this broker has measured of its servers, and by which rule it prefers some",
    )
    def server_statistics() -> dict[str, Any]:
        rules = broker.servers.rules
        servers = broker.servers.shown(broker.clock.monotonic_ns())
        return {"type": rules.kind.value, "statsCollection": rules.measures, "servers": servers}

    @declared.get(
        "/debug/timeBoundary/{tableName}", Action.READ, table("tableName"), summary="Time boundary of a hybrid table"
    )
    def time_boundary(tableName: str) -> dict[str, Any]:
        target = catalog.resolve(split_table_name(tableName)[0], Dialect.PQL)
        if target.boundary is None:
            raise NotFoundError(f"Cannot find time boundary for table: {tableName[:200]}", table=tableName)
        return target.boundary.as_json()

    return declared
