"""What a table config must satisfy in this cluster: its schema exists and matches, its tags have enough instances."""

from __future__ import annotations

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig, check_against_schema
from pinotpy.controller.assignment.candidates import check_enough, rotated_candidates
from pinotpy.controller.assignment.group_shape import group_shape
from pinotpy.controller.assignment.partition_aware import deal_partitions
from pinotpy.controller.catalog import Catalog
from pinotpy.controller.instance_partitions import group_candidates
from pinotpy.controller.periods import ages_of, kept_after_deletion_ms
from pinotpy.errors import Fault, InvalidConfigError, UserError
from pinotpy.ingest.transform_checks import check_expressions
from pinotpy.names import TableType


def check_table(catalog: Catalog, config: TableConfig, schema: Schema | None = None) -> Schema:
    """Return the table's schema if the config can work here. `schema`: one that is to be stored before it.

    Raises:
        InvalidConfigError: the schema contradicts it, expressions cannot be evaluated, or there are fewer servers than
            replicas, with every fault.
        UserError: no schema, a period that is none, no broker, or the other half of the table uses another time column.
    """
    name = config.name_with_type
    if schema is None:
        stored = catalog.schema(config.raw_table_name)
        if stored is None:
            raise UserError(
                f"Failed to find schema for table: {name}; add a schema named '{config.raw_table_name}' first",
                table=name,
            )
        schema = stored.schema
    check_against_schema(config, schema)
    ages_of(config)
    kept_after_deletion_ms(config)
    check_expressions(schema, config)
    _check_other_half(catalog, config)
    if not broker_candidates(catalog, config):
        raise UserError(f"Failed to find instances with tag: {config.tenants.broker_tag} for table: {name}", table=name)
    try:
        shape = group_shape(config)
        if shape is None or config.table_type is TableType.REALTIME:
            server_candidates(catalog, config)
        if shape is not None:
            deal_partitions(group_candidates(catalog, config, shape), shape, table_name_with_type=name)
    except UserError as error:
        message = f"Failed to calculate instance partitions for table: {name}, reason: {error.message}"
        if "tag" not in error.context:  # not a matter of the number of servers
            raise UserError(message, table=name) from error
        found, tag = error.context.get("found", 0), error.context["tag"]
        allowed = f"at most {found}, the number of servers with tag '{tag}'" if found else f"a server with tag '{tag}'"
        raise InvalidConfigError(
            message, (Fault(_replication_path(config), str(config.replication), allowed),), table=name
        ) from error
    return schema


def broker_candidates(catalog: Catalog, config: TableConfig) -> list[str]:
    """Brokers of the table's tenant, sorted."""
    return catalog.instances_with_tag(config.tenants.broker_tag, role="Broker")


def server_candidates(catalog: Catalog, config: TableConfig) -> tuple[str, ...]:
    """Servers of the table's tenant in the order of assignment; UserError with the numbers if they are too few."""
    tag = config.tenants.server_tag(config.table_type)
    candidates = rotated_candidates(catalog.instances_with_tag(tag, role="Server"), config.name_with_type)
    check_enough(candidates, config.replication, tag=tag, table_name_with_type=config.name_with_type)
    return candidates


def _replication_path(config: TableConfig) -> str:
    """Where the number of replicas stands, see TableConfig.replication."""
    is_of_stream = config.table_type is TableType.REALTIME and config.segments.replicas_per_partition is not None
    return f"$.segmentsConfig.{'replicasPerPartition' if is_of_stream else 'replication'}"


def _check_other_half(catalog: Catalog, config: TableConfig) -> None:
    # A hybrid table has one time boundary: both halves must mean the same column by it.
    other_type = TableType.REALTIME if config.table_type is TableType.OFFLINE else TableType.OFFLINE
    other = catalog.table_config(f"{config.raw_table_name}_{other_type}")
    if other is None:
        return
    mine, theirs = config.segments.time_column_name, other.config.segments.time_column_name
    if mine != theirs:
        raise UserError(
            f"timeColumnName '{mine}' of {config.name_with_type} differs from '{theirs}' of "
            f"{other.config.name_with_type}: a hybrid table has one"
        )
