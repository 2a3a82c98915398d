"""Tables: add, update, delete, enable and disable. The order of writes is that of a live Pinot 1.5.1
(control-plane-live §2).
"""

from __future__ import annotations

import logging

from pinotpy.config.document import child_path
from pinotpy.config.stream_keys import TOPIC
from pinotpy.config.stream_secrets import mask_faults, with_stored
from pinotpy.config.table import TableConfig
from pinotpy.controller.assignment.group_shape import group_shape
from pinotpy.controller.context import Controller
from pinotpy.controller.deletion import delete_segment_files, new_deletion
from pinotpy.controller.realtime.stream_plug_ins import check_stream, stream_path, stream_place
from pinotpy.controller.table_rules import broker_candidates, check_table
from pinotpy.controller.user_messages import send_config_changed
from pinotpy.errors import (
    AlreadyExistsError,
    Fault,
    InvalidConfigError,
    NotFoundError,
    StaleVersionError,
    TableNotFoundError,
    UserError,
)
from pinotpy.names import TableType, split_table_name, table_name_with_type

LOG = logging.getLogger(__name__)

ATTEMPTS_MAX = 5


def halves_named(name: str, table_type: TableType | None) -> list[str]:
    """Names with type that `name` and `table_type` may mean; none if they contradict each other."""
    raw, suffix = split_table_name(name)
    if suffix is not None and table_type is not None and suffix is not table_type:
        return []
    selected = suffix or table_type
    return [table_name_with_type(raw, kind) for kind in TableType if selected is None or kind is selected]


def existing_halves(controller: Controller, name: str, table_type: TableType | None = None) -> list[str]:
    """The halves of a table that exist, OFFLINE first."""
    return [half for half in halves_named(name, table_type) if controller.catalog.table_config(half) is not None]


def add_table(controller: Controller, config: TableConfig) -> None:
    """Create a table. Everything is checked before anything is written.

    Raises:
        InvalidConfigError, UserError: it cannot work here (see `check_table` and `check_stream`).
        AlreadyExistsError: it exists, servers still hold segments of a deleted one, or another table's name differs in
            letter case alone.
    """
    catalog, name = controller.catalog, config.name_with_type
    _refuse_masks(config)
    check_stream(controller, config, check_table(catalog, config))
    _refuse_existing(controller, name)
    if catalog.external_view(name) is not None:
        raise AlreadyExistsError(
            f"External view for {name} still exists. If the table is just deleted, please wait for the clean up to "
            "finish before recreating it. "
            "If the external view is not removed after a long time, try restarting the servers showing up in the "
            "external view",
            table=name,
        )
    catalog.create_table(config, broker_candidates(catalog, config))
    LOG.info("table added table=%s replication=%d", name, config.replication)


def _refuse_masks(config: TableConfig) -> None:
    if faults := mask_faults(config.to_json_dict()):
        raise InvalidConfigError(f"the config of table '{config.name_with_type}' is not valid:", tuple(faults))


def _refuse_other_stream(controller: Controller, config: TableConfig, stored: TableConfig) -> None:
    """Offsets of one stream say nothing of another: its rows would be read from wherever the old one was."""
    new, old = config.stream_config, stored.stream_config
    if new is None or old is None:
        return
    path, faults = stream_path(config), []
    other = "which the table's segments were read of: another one needs a table of its own"
    if (new.stream_type, new.topic) != (old.stream_type, old.topic):
        found = f"topic '{new.topic[:200]}' of a stream of type '{new.stream_type}'"
        allowed = f"topic '{old.topic[:200]}' of type '{old.stream_type}', {other}"
        faults.append(Fault(child_path(path, TOPIC.of_type(new.stream_type)), found, allowed))
    else:
        is_at, was_at = stream_place(controller, new), stream_place(controller, old)
        for key, place in was_at.items():
            if is_at and is_at.get(key) != place:
                faults.append(
                    Fault(child_path(path, key), f"'{is_at.get(key, '')[:200]}'", f"'{place[:200]}', {other}")
                )
    if faults:
        raise InvalidConfigError(f"the config of table '{config.name_with_type}' is not valid:", tuple(faults))


def update_table(controller: Controller, path_name: str, config: TableConfig) -> None:
    """Replace the config of an existing table.

    Raises:
        NotFoundError: there is no such table.
        InvalidConfigError, UserError: as `add_table`, or the path names another table.
    """
    catalog, name = controller.catalog, config.name_with_type
    if name not in halves_named(path_name, config.table_type):
        raise UserError(
            f"Invalid table config: {path_name[:200]} with error: Request table {path_name[:200]} does not match "
            f"table name in the body {name}"
        )
    for _ in range(ATTEMPTS_MAX):
        stored = catalog.table_config(name)
        if stored is None:
            raise NotFoundError(f"Table {name} does not exist", table=name)
        config = TableConfig.from_json(with_stored(config.to_json_dict(), stored.config.to_json_dict()), is_stored=True)
        _refuse_masks(config)
        _refuse_other_stream(controller, config, stored.config)
        check_stream(controller, config, check_table(catalog, config))
        try:
            catalog.replace_table_config(config, stored.version)
        except StaleVersionError:
            continue
        if stored.config.tenants.broker_tag != config.tenants.broker_tag:
            catalog.set_brokers(name, broker_candidates(catalog, config))
        if group_shape(stored.config) is not None and group_shape(config) is None:
            catalog.instance_partitions.forget(name)
        send_config_changed(controller, name)
        LOG.info("table config replaced table=%s", name)
        return
    raise StaleVersionError(
        f"table '{name}' was changed by others {ATTEMPTS_MAX} times in a row: try again", table=name
    )


def delete_table(
    controller: Controller, name: str, table_type: TableType | None, *, retention_ms: int | None = None
) -> list[str]:
    """Delete the existing halves of a table; returns their names.

    Brokers lose the table in the same write that removes the ideal state; if anything fails after that, a second delete
    completes it.

    Raises:
        NotFoundError: there is nothing to delete.
    """
    doomed = []
    for half in halves_named(name, table_type):
        segments, deletion = (
            controller.catalog.recorded_segment_names(half),
            new_deletion(controller, half, retention_ms),
        )
        try:
            controller.catalog.drop_table(half, deletion)
        except TableNotFoundError:
            continue
        controller.realtime_segments.forget(half)
        controller.catalog.instance_partitions.forget(half)
        delete_segment_files(controller, deletion)
        controller.reload_jobs.table_deleted(half, controller.clock.now_ms())
        controller.force_commit_jobs.table_deleted(half, controller.clock.now_ms())
        controller.metrics.forget_table(half)
        LOG.info("table deleted table=%s segments=%d", half, len(segments))
        doomed.append(half)
    if not doomed:
        type_text = table_type.value if table_type is not None else "null"
        raise NotFoundError(f"Table '{name[:200]}' with type {type_text} does not exist", table=name[:200])
    return doomed


def set_table_enabled(controller: Controller, name: str, enabled: bool) -> None:
    """Enable or disable the serving of a table; segments stay assigned."""
    controller.catalog.set_enabled(name, enabled)
    LOG.info("table switched table=%s enabled=%s", name, enabled)


def _refuse_existing(controller: Controller, name: str) -> None:
    if controller.catalog.table_config(name) is not None:
        raise AlreadyExistsError(
            f"Table config for {name} already exists. If this is unexpected, try deleting the table to remove all "
            "metadata associated with it "
            "before attempting to recreate.",
            table=name,
        )
