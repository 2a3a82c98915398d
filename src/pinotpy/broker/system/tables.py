"""The system tables of a broker: which there are, and one as the target of a query of one caller."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import Final

from pinotpy.broker.catalog import Half, Target
from pinotpy.broker.query_log import QueryLog
from pinotpy.broker.routing.table_routing import TableRouting
from pinotpy.broker.system.catalog_tables import Schemas, catalog_tables
from pinotpy.broker.system.cluster_tables import system_tables
from pinotpy.broker.system.system_table import Known, SystemTable, Viewer
from pinotpy.cluster.living_replicas import taking_queries
from pinotpy.cluster.spectator import ClusterView
from pinotpy.errors import AccessDeniedError, InvalidQueryError, ServerUnreachableError
from pinotpy.rpc.given_rows import encode_given_rows
from pinotpy.rpc.wire import FEATURE_GIVEN_ROWS, REQUEST_MAX_BYTES

# Of a name that is none, as far as it is compared with others.
NAME_CHARACTERS_MAX: Final = 100
# What the rows of a query are called where segments are named.
SEGMENT_NAME: Final = "rows"
# Of a request the part for the query itself and the names around it.
_REST_OF_REQUEST_BYTES: Final = 5 << 20
ROWS_MAX_BYTES: Final = REQUEST_MAX_BYTES - _REST_OF_REQUEST_BYTES


class SystemTables:
    """What the broker answers itself of the cluster. `view`: the newest one; `log`: of this broker's queries."""

    def __init__(self, view: Callable[[], ClusterView], log: QueryLog) -> None:
        self._view = view
        self._log = log
        schemas = Schemas()
        tables = [*system_tables(schemas)]
        catalog_tables(schemas, tables)
        self._tables = {table.name: table for table in tables}

    def find(self, name: str) -> SystemTable | None:
        """The table of this name, whatever its letter case; None if there is none."""
        return self._tables.get(name.lower()) if "." in name else None

    def nearest(self, name: str, *, reads_cluster: bool) -> str | None:
        """The table that is spelled most like a name, of those that a caller may read."""
        if "." not in name:
            return None
        readable = [each.name for each in self._tables.values() if reads_cluster or not each.takes_cluster_right]
        return next(iter(get_close_matches(name[:NAME_CHARACTERS_MAX].lower(), readable, 1)), None)

    def num_records(self, table: SystemTable) -> int:
        """About how many records are looked at for the table's rows."""
        view = self._view()
        if table.name in ("system.queries", "information_schema.tables"):
            return len(self._log.recent()) if table.name == "system.queries" else len(view.table_configs)
        return sum(map(len, view.segments.values())) + sum(map(len, view.schemas.values()))

    def known(self) -> Known:
        """What rows are made from, as of now. Call it on the event loop; any thread may read what it gives."""
        return Known(self._view(), self._log.recent(), self._log)

    def target(self, table: SystemTable, known: Known, viewer: Viewer) -> Target:
        """The table for one caller: its rows, and the servers that can read them.

        Raises:
            AccessDeniedError: the table takes a right that the caller lacks. ServerUnreachableError: no server is there
                to run queries. InvalidQueryError: more rows than a request can bring.
        """
        if table.takes_cluster_right and not viewer.reads_cluster:
            raise AccessDeniedError(
                f"'{viewer.name}' may not read '{table.name}': it takes READ on the cluster", table=table.name
            )
        servers = _servers(known.view)
        if not servers:
            raise ServerUnreachableError(
                f"no server is alive that could run a query on '{table.name}': servers run those on system tables; "
                "the controller lists tables and instances without them (GET /tables, GET /instances)"
            )
        rows = encode_given_rows(table.schema, table.batch(known, viewer))
        if len(rows) > ROWS_MAX_BYTES:
            raise InvalidQueryError(
                f"'{table.name}' has {len(rows)} bytes of rows here, at most {ROWS_MAX_BYTES} can be queried: ask the "
                "controller for the segments of one table (GET /segments/{table})",
                table=table.name,
            )
        routing = TableRouting(table.name, {SEGMENT_NAME: servers})
        return Target(table.name, table.schema, (Half(routing),), null_handling=(True,), given_rows=rows)


def _servers(view: ClusterView) -> tuple[str, ...]:
    """Servers that live, take queries, and can read rows that a request brings."""
    able = []
    for instance in sorted(taking_queries(view.live_instances, view.instance_configs)):
        config = view.instance_configs.get(instance)
        features = "" if config is None else config.simple_fields.get("queryFeatures", "")
        if instance.startswith("Server_") and features.isdigit() and int(features) & FEATURE_GIVEN_ROWS:
            able.append(instance)
    return tuple(able)
