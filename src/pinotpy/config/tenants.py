"""`tenants`: which brokers and servers a table uses."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from pinotpy.config.document import Document
from pinotpy.names import DEFAULT_TENANT, TableType

_TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,99}")


def _tenant(value: Any) -> Any:
    if value is None:
        return DEFAULT_TENANT
    if not isinstance(value, str) or not _TENANT.fullmatch(value):
        raise ValueError("a tenant name: letters, digits, '_', '-', '.', at most 100, or null for DefaultTenant")
    return value


def _tag(value: Any) -> Any:
    if value is not None and (not isinstance(value, str) or not _TENANT.fullmatch(value)):
        raise ValueError("a server tag such as tenant_OFFLINE: letters, digits, '_', '-', '.', at most 100")
    return value


Tag = Annotated[str | None, BeforeValidator(_tag)]


class TagOverrideConfig(Document):
    """Other server tags for realtime segments."""

    realtime_consuming: Tag = Field(
        None, description="Tag of servers for consuming segments; default <server>_REALTIME."
    )
    realtime_completed: Tag = Field(
        None, description="Tag of servers for completed segments; default <server>_REALTIME."
    )


class TenantConfig(Document):
    """Tenants of a table; none = DefaultTenant."""

    broker: Annotated[str, BeforeValidator(_tenant)] = Field(
        DEFAULT_TENANT, description="Broker tenant; null means DefaultTenant."
    )
    server: Annotated[str, BeforeValidator(_tenant)] = Field(
        DEFAULT_TENANT, description="Server tenant; null means DefaultTenant."
    )
    tag_override_config: TagOverrideConfig | None = Field(None, description="Other server tags for realtime segments.")

    @property
    def broker_tag(self) -> str:
        return f"{self.broker}_BROKER"

    def server_tag(self, table_type: TableType, *, completed: bool = False) -> str:
        """Tag of the servers that hold a table's segments; `completed` asks for the realtime ones that no longer
        consume.
        """
        override = self.tag_override_config
        if table_type is TableType.REALTIME and override is not None:
            tag = override.realtime_completed if completed else override.realtime_consuming
            if tag is not None:
                return tag
        return f"{self.server}_{table_type}"
