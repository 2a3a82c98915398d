"""Which instances are notified of a change: refresh of a segment, change of a config.

An instance that is down misses it: it compares CRCs and reads configs when it returns.
"""

from __future__ import annotations

from pinotpy.cluster.messages import REFRESH_SEGMENT, REFRESH_TABLE_CONFIG, send_user_message
from pinotpy.cluster.paths import BROKER_RESOURCE
from pinotpy.controller.context import Controller


def send_refresh(controller: Controller, table: str, segment: str) -> None:
    """Tell servers, then brokers, that a segment has new content."""
    catalog = controller.catalog
    servers = (catalog.ideal_state(table) or {}).get(segment, {})
    for instances in (servers, catalog.brokers_of(table)):
        send_user_message(
            catalog.store,
            catalog.paths,
            instances,
            REFRESH_SEGMENT,
            resource=table,
            partition=segment,
            fields={"segmentName": segment, "tableName": table},
            source=controller.instance,
            now_ms=controller.clock.now_ms(),
        )


def send_config_changed(controller: Controller, table: str) -> None:
    """Tell brokers that a table's config changed."""
    catalog = controller.catalog
    send_user_message(
        catalog.store,
        catalog.paths,
        catalog.brokers_of(table),
        REFRESH_TABLE_CONFIG,
        resource=BROKER_RESOURCE,
        partition=table,
        fields={"tableName": table},
        source=controller.instance,
        now_ms=controller.clock.now_ms(),
    )
