"""The time boundary of a hybrid table as the cluster's records have it now: what brokers divide its halves by."""

from __future__ import annotations

from pinotpy.cluster.living_replicas import living_replicas, taking_queries
from pinotpy.cluster.time_boundary import TimeBoundary, time_boundary
from pinotpy.config.segments_config import PushFrequency
from pinotpy.controller.catalog import Catalog
from pinotpy.names import TableType, table_name_with_type


def boundary_now(catalog: Catalog, raw_name: str) -> TimeBoundary | None:
    """None if the table has not both halves, or no offline segment that a server has says until when its rows are."""
    offline, realtime = (table_name_with_type(raw_name, kind) for kind in (TableType.OFFLINE, TableType.REALTIME))
    table, schema, ideal = (
        catalog.table_config(offline),
        catalog.schema_of_table(raw_name),
        catalog.ideal_state(offline),
    )
    if table is None or schema is None or ideal is None or catalog.table_config(realtime) is None:
        return None
    live = catalog.live_instances()
    replicas = living_replicas(
        ideal,
        catalog.external_view(offline) or {},
        taking_queries(live, catalog.instances(live)),
        hidden=catalog.hidden_segments(offline),
    )
    served = catalog.segments(offline, [name for name, servers in replicas.items() if servers])
    segments = table.config.segments
    is_hourly = segments.segment_push_frequency is PushFrequency.HOURLY
    return time_boundary(served.values(), schema, segments.time_column_name, is_hourly=is_hourly)
