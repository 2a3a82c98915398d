"""Tenants: names under which brokers and servers are tagged. All information comes from the tags of instances."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from dataclasses import replace

from pydantic import Field

from pinotpy.cluster.views import InstanceConfig
from pinotpy.config.document import Document, Text, WholeNumber, collect, read_object, refuse
from pinotpy.controller.context import Controller
from pinotpy.controller.instances import change_instance
from pinotpy.errors import Fault, UserError

LOG = logging.getLogger(__name__)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,99}")
_SUFFIXES = {"SERVER": ("_OFFLINE", "_REALTIME"), "BROKER": ("_BROKER",), "MINION": ("_MINION",)}
_UNTAGGED = {"SERVER": "server_untagged", "BROKER": "broker_untagged", "MINION": "minion_untagged"}


class TenantDocument(Document):
    """A tenant as POST /tenants takes it."""

    tenant_role: Text = Field(description="SERVER, BROKER or MINION.")
    tenant_name: Text = Field(description="Name of the tenant, without suffix.")
    number_of_instances: WholeNumber = Field(0, ge=0, description="Instances in all.")
    offline_instances: WholeNumber = Field(0, ge=0, description="Servers for OFFLINE tables.")
    realtime_instances: WholeNumber = Field(0, ge=0, description="Servers for REALTIME tables.")


def read_tenant_document(body: bytes) -> TenantDocument:
    """Read and check the JSON; raises InvalidConfigError with every fault."""
    faults: list[Fault] = []
    document = collect(TenantDocument, read_object(body, "tenant"), "$", faults)
    if document is not None:
        if document.tenant_role not in _SUFFIXES:
            faults.append(Fault("$.tenantRole", f"'{document.tenant_role[:40]}'", "one of " + ", ".join(_SUFFIXES)))
        bears_suffix = document.tenant_name.endswith(
            tuple(suffix for suffixes in _SUFFIXES.values() for suffix in suffixes)
        )
        if not _NAME.fullmatch(document.tenant_name) or bears_suffix:
            faults.append(
                Fault(
                    "$.tenantName",
                    f"'{document.tenant_name[:60]}'",
                    "letters, digits, '_', '-', '.', at most 100, without _OFFLINE, _REALTIME, _BROKER",
                )
            )
    refuse("tenant", faults)
    assert document is not None
    more = max(document.offline_instances, document.realtime_instances)
    if document.tenant_role == "SERVER" and more > document.number_of_instances:
        raise UserError(
            f"Cannot request more offline instances: {document.offline_instances} or realtime instances: "
            f"{document.realtime_instances} "
            f"than total instances: {document.number_of_instances}"
        )
    return document


def tenant_names(controller: Controller, role: str) -> list[str]:
    """Tenants that some instance of this role (SERVER, BROKER) has."""
    tags = {tag for config in controller.catalog.instances().values() for tag in config.tags}
    return sorted({tag.removesuffix(suffix) for suffix in _SUFFIXES[role] for tag in tags if tag.endswith(suffix)})


def instances_of(controller: Controller, tenant: str, suffixes: Iterable[str]) -> list[str]:
    """Instances that bear one of the tenant's tags."""
    tags = {f"{tenant}{suffix}" for suffix in suffixes}
    return sorted(name for name, config in controller.catalog.instances().items() if tags & set(config.tags))


def tables_of_tenant(controller: Controller, tenant: str, role: str) -> list[str]:
    """Tables whose config names the tenant for servers or brokers."""
    names = []
    for name in controller.catalog.table_names():
        stored = controller.catalog.table_config(name)
        if stored is not None and tenant == (
            stored.config.tenants.broker if role == "BROKER" else stored.config.tenants.server
        ):
            names.append(name)
    return names


def create_tenant(controller: Controller, document: TenantDocument) -> None:
    """Tag live untagged instances for a new tenant.

    Raises:
        UserError: it exists, or there are too few free instances; nothing is changed then.
    """
    if document.tenant_name in tenant_names(controller, document.tenant_role):
        raise UserError(f"Failed to create tenant: '{document.tenant_name}' exists")
    _tag_free_instances(controller, document, {})


def update_tenant(controller: Controller, document: TenantDocument) -> None:
    """Give an existing tenant the requested numbers of instances, from untagged ones; it never shrinks here.

    Raises:
        UserError: there is no such tenant, or there are too few free instances.
    """
    if document.tenant_name not in tenant_names(controller, document.tenant_role):
        raise UserError(f"Failed to update tenant: '{document.tenant_name}' does not exist")
    held = {
        suffix: len(instances_of(controller, document.tenant_name, (suffix,)))
        for suffix in _SUFFIXES[document.tenant_role]
    }
    _tag_free_instances(controller, document, held)


def delete_tenant(controller: Controller, tenant: str, role: str) -> None:
    """Untag the instances of a tenant that no table uses; deleting a missing one succeeds.

    Raises:
        UserError: tables use it.
    """
    users = tables_of_tenant(controller, tenant, role)
    members = instances_of(controller, tenant, _SUFFIXES[role])
    if users or (tenant == "DefaultTenant" and members):
        shown = f", it is used by {', '.join(users[:5])}" if users else ": new instances join it"
        raise UserError(f"{role.capitalize()} tenant is not null, can not delete it{shown}")
    doomed = {f"{tenant}{suffix}" for suffix in _SUFFIXES[role]}
    for name in members:

        def change(old: InstanceConfig) -> InstanceConfig:
            remaining = tuple(tag for tag in old.tags if tag not in doomed)
            return replace(old, tags=remaining or (_UNTAGGED[role],))

        change_instance(controller, name, change)
    LOG.info("tenant deleted tenant=%s role=%s instances=%d", tenant, role, len(members))


def _tag_free_instances(controller: Controller, document: TenantDocument, held: dict[str, int]) -> None:
    role, tenant = document.tenant_role, document.tenant_name
    required = (
        {"_OFFLINE": document.offline_instances, "_REALTIME": document.realtime_instances}
        if role == "SERVER"
        else dict.fromkeys(_SUFFIXES[role], document.number_of_instances)
    )
    missing = {suffix: max(count - held.get(suffix, 0), 0) for suffix, count in required.items()}
    total = max(document.number_of_instances - max(held.values(), default=0), max(missing.values(), default=0))
    live = set(controller.catalog.live_instances())
    free = [
        name
        for name, config in sorted(controller.catalog.instances().items())
        if name in live and _UNTAGGED[role] in config.tags
    ]
    if len(free) < total:
        raise UserError(
            f"tenant '{tenant}' needs {total} more live instances tagged {_UNTAGGED[role]}, found {len(free)}: tag "
            "some with PUT /instances/<name>/updateTags"
        )
    for index, name in enumerate(free[:total]):
        # The first ones get the offline tag, the last ones the realtime tag; where they overlap the instance has both.
        tags = [
            f"{tenant}{suffix}"
            for suffix, count in missing.items()
            if (index < count if suffix != "_REALTIME" else index >= total - count)
        ]

        def change(old: InstanceConfig, tags: list[str] = tags) -> InstanceConfig:
            return replace(old, tags=tuple([tag for tag in old.tags if tag != _UNTAGGED[role]] + tags))

        if tags:
            change_instance(controller, name, change)
    LOG.info("tenant tagged tenant=%s role=%s instances=%d", tenant, role, total)
