"""Instances and their tags: add, change, enable, drop."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import Field

from pinotpy.cluster.paths import instance_folders
from pinotpy.cluster.records import ZNRecord
from pinotpy.cluster.views import InstanceConfig, LiveInstance
from pinotpy.config.document import Document, Text, WholeNumber, collect, read_object, refuse
from pinotpy.controller.context import Controller
from pinotpy.errors import (
    AlreadyExistsError,
    Fault,
    NodeExistsError,
    NoNodeError,
    NotFoundError,
    StaleVersionError,
    UserError,
)
from pinotpy.names import instance_id, split_instance_id

LOG = logging.getLogger(__name__)

ROLES = {"CONTROLLER": "Controller", "BROKER": "Broker", "SERVER": "Server", "MINION": "Minion"}
ATTEMPTS_MAX = 10
TAG_CHARACTERS = "letters, digits, '_', '-', '.'"


class InstanceDocument(Document):
    """An instance as POST /instances takes it."""

    host: Text = Field(description="Host name or address.", min_length=1)
    port: WholeNumber = Field(ge=1, le=65535, description="Query or REST port.")
    type: Text = Field(description="CONTROLLER, BROKER, SERVER or MINION.")
    tags: tuple[Text, ...] = Field((), description="Tags, such as DefaultTenant_OFFLINE.")
    pools: dict[str, Annotated[int, Field(ge=0)]] | None = Field(None, description="Tag → pool number.")

    @property
    def instance(self) -> str:
        return instance_id(ROLES[self.type], self.host, self.port)


def read_instance_document(body: bytes) -> InstanceDocument:
    """Read and check the JSON; raises InvalidConfigError with every fault."""
    raw = read_object(body, "instance")
    faults: list[Fault] = []
    document = collect(InstanceDocument, raw, "$", faults)
    if document is not None:
        if document.type not in ROLES:
            faults.append(Fault("$.type", f"'{document.type[:40]}'", "one of " + ", ".join(ROLES)))
        faults += [
            Fault(f"$.tags[{i}]", f"'{tag[:60]}'", TAG_CHARACTERS)
            for i, tag in enumerate(document.tags)
            if not is_tag(tag)
        ]
    refuse("instance", faults)
    assert document is not None
    return document


def is_tag(text: str) -> bool:
    """Whether a text can be a tag."""
    return 0 < len(text) <= 110 and text.isascii() and all(char.isalnum() or char in "_-." for char in text)


def get_instance(controller: Controller, name: str) -> InstanceConfig:
    """The config; NotFoundError if there is none."""
    config = controller.catalog.instance(name) if _is_instance(name) else None
    if config is None:
        raise NotFoundError(f"Instance {name[:200]} not found", instance=name[:200])
    return config


@dataclass(frozen=True, slots=True)
class Liveness:
    """Of a live instance: since when, in ms since the epoch, its release ("" if it does not say) and process."""

    since_ms: int
    version: str
    process: str


def living(controller: Controller) -> dict[str, Liveness]:
    """Instance → what its session says; nothing of those that do not live."""
    catalog = controller.catalog
    paths = {name: catalog.paths.live_instance(name) for name in catalog.live_instances()}
    found = {}
    for (name, path), node in zip(paths.items(), catalog.store.get_many(list(paths.values())), strict=True):
        if node is not None:
            data, stat = node
            live = LiveInstance.from_record(ZNRecord.from_bytes(data, path))
            # Written once, when the session began.
            found[name] = Liveness(stat.mtime_ms, live.version, live.process)
    return found


def add_instance(controller: Controller, document: InstanceDocument) -> str:
    """Create an instance before it starts; AlreadyExistsError if it is there."""
    catalog, name = controller.catalog, document.instance
    pools = {"pool": {tag: str(pool) for tag, pool in document.pools.items()}} if document.pools else {}
    config = InstanceConfig(name, document.host, document.port, document.tags, {}, pools)
    try:
        catalog.store.create(catalog.paths.instance_config(name), config.to_record().to_bytes(), make_parents=True)
    except NodeExistsError as error:
        raise AlreadyExistsError(f"Instance: {name} already exists", instance=name) from error
    for folder in instance_folders():
        try:
            catalog.store.create(f"{catalog.paths.instance(name)}/{folder}", make_parents=True)
        except NodeExistsError:
            continue
    LOG.info("instance added instance=%s tags=%s", name, ",".join(document.tags))
    return name


def update_instance(controller: Controller, name: str, document: InstanceDocument) -> None:
    """Replace tags and pools. Host and port are part of the name and cannot change."""
    if document.instance != name and _exists(controller, name):
        raise UserError(
            f"expected host, port and type of '{name[:200]}', found those of '{document.instance}': drop it and add "
            "the other one"
        )
    pools = {tag: str(pool) for tag, pool in (document.pools or {}).items()}

    def change(old: InstanceConfig) -> InstanceConfig:
        maps = {key: value for key, value in old.map_fields.items() if key != "pool"} | (
            {"pool": pools} if pools else {}
        )
        return replace(old, tags=document.tags, map_fields=maps)

    change_instance(controller, name, change)


def update_tags(controller: Controller, name: str, tags: tuple[str, ...]) -> None:
    """Replace the tags; UserError names a tag that is none."""
    for tag in tags:
        if not is_tag(tag):
            raise UserError(f"'{tag[:60]}' cannot be a tag: {TAG_CHARACTERS} are allowed, at most 110")
    change_instance(controller, name, lambda old: replace(old, tags=tags))


def set_instance_enabled(controller: Controller, name: str, enabled: bool) -> None:
    """Enable or disable: a disabled server's segments go OFFLINE, a disabled broker loses its tables."""
    now = str(controller.clock.now_ms())
    fields = {"HELIX_ENABLED": str(enabled).lower(), "HELIX_ENABLED_TIMESTAMP": now}
    change_instance(controller, name, lambda old: replace(old, simple_fields={**old.simple_fields, **fields}))


def change_instance(controller: Controller, name: str, change: Callable[[InstanceConfig], InstanceConfig]) -> None:
    """Read, change, write with the version read; NotFoundError if there is no such instance."""
    catalog = controller.catalog
    for _ in range(ATTEMPTS_MAX):
        if not _is_instance(name):
            break
        path = catalog.paths.instance_config(name)
        try:
            data, stat = catalog.store.get(path)
            new = change(InstanceConfig.from_record(ZNRecord.from_bytes(data, path)))
            catalog.store.set(path, new.to_record().to_bytes(), stat.version)
        except NoNodeError:
            break
        except StaleVersionError:
            continue
        LOG.info("instance changed instance=%s tags=%s enabled=%s", name, ",".join(new.tags), new.is_enabled)
        return
    else:
        raise StaleVersionError(
            f"instance '{name}' was changed by others {ATTEMPTS_MAX} times in a row: try again", instance=name
        )
    raise NotFoundError(f"Failed to find instance config for instance: {name[:200]}", instance=name[:200])


def drop_instance(controller: Controller, name: str) -> None:
    """Forget an instance that is gone for good.

    Raises:
        NotFoundError: there is none.
        AlreadyExistsError: it lives, or an ideal state lists it (409).
    """
    catalog = controller.catalog
    get_instance(controller, name)
    if name in catalog.live_instances():
        raise AlreadyExistsError(f"Failed to drop instance {name} - Instance {name} is still live", instance=name)
    table_brokers = catalog.table_brokers()
    for table in catalog.table_names():
        is_server = any(name in replicas for replicas in (catalog.ideal_state(table) or {}).values())
        if is_server or name in table_brokers.get(table, []):
            raise AlreadyExistsError(
                f"Failed to drop instance {name} - Instance {name} exists in ideal state for {table}", instance=name
            )
    catalog.store.delete(catalog.paths.instance(name), recursive=True)
    catalog.store.delete(catalog.paths.instance_config(name))
    LOG.info("instance dropped instance=%s", name)


def _exists(controller: Controller, name: str) -> bool:
    return _is_instance(name) and controller.catalog.instance(name) is not None


def _is_instance(name: str) -> bool:
    try:
        split_instance_id(name)
    except UserError:
        return False
    return "/" not in name
