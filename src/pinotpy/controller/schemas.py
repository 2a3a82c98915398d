"""Schemas: add, update, delete. Reads and writes through the catalog; rules in `schema_evolution`."""

from __future__ import annotations

import logging

from pinotpy.cluster.table_state import refuse_letter_case_twin
from pinotpy.config.schema import Schema
from pinotpy.controller.catalog import Catalog
from pinotpy.controller.schema_evolution import incompatibilities
from pinotpy.errors import AlreadyExistsError, NotFoundError, StaleVersionError, UserError

LOG = logging.getLogger(__name__)

ATTEMPTS_MAX = 5


def get_schema(catalog: Catalog, name: str) -> Schema:
    """The schema, or NotFoundError."""
    stored = catalog.schema(name)
    if stored is None:
        raise NotFoundError("Schema not found", schema=name[:200])
    return stored.schema


def add_schema(catalog: Catalog, schema: Schema, *, override: bool = True, force: bool = False) -> None:
    """Create a schema, or replace it by a compatible one.

    Raises:
        AlreadyExistsError: it exists and `override` is false, or a table's name differs from it in letter case alone.
        UserError: it exists, and segments of the old one could not be read with the new one, and `force` is false.
    """
    name = schema.schema_name
    for _ in range(ATTEMPTS_MAX):
        stored = catalog.schema(name)
        if stored is None:
            refuse_letter_case_twin(name, catalog.table_names())  # no table could have it
            try:
                catalog.create_schema(schema)
            except AlreadyExistsError:
                continue  # somebody was faster
            LOG.info("schema added schema=%s columns=%d", name, len(schema.field_specs))
            return
        if not override:
            raise AlreadyExistsError(f"Schema: {name} already exists", schema=name)
        reasons = [] if force else incompatibilities(stored.schema, schema)
        if reasons:
            details = "\n".join(f"- {reason}" for reason in reasons)
            raise UserError(
                f"New schema: {name} is not backward-compatible with the existing schema.\n\nIncompatibility "
                f"Details:\n{details}\n\n"
                "Keep all columns as they are and only add new ones, or send force=true if no segment of the old "
                "schema is left.",
                schema=name,
            )
        if _replace(catalog, schema, stored.version):
            return
    raise StaleVersionError(
        f"schema '{name}' was changed by others {ATTEMPTS_MAX} times in a row: try again", schema=name
    )


def update_schema(catalog: Catalog, name: str, schema: Schema, *, force: bool = False) -> None:
    """Replace an existing schema by a compatible one.

    Raises:
        NotFoundError: there is none.
        UserError: another name, or incompatible and `force` is false.
    """
    if schema.schema_name != name:
        raise UserError(
            f"Schema name mismatch for uploaded schema, tried to add schema with name {schema.schema_name} as "
            f"{name[:200]}"
        )
    for _ in range(ATTEMPTS_MAX):
        stored = catalog.schema(name)
        if stored is None:
            raise NotFoundError(f"Failed to find schema {name}", schema=name)
        reasons = [] if force else incompatibilities(stored.schema, schema)
        if reasons:
            raise UserError(
                f"Backward incompatible schema {name}. Only allow adding new columns. {'; '.join(reasons)}", schema=name
            )
        if _replace(catalog, schema, stored.version):
            return
    raise StaleVersionError(
        f"schema '{name}' was changed by others {ATTEMPTS_MAX} times in a row: try again", schema=name
    )


def delete_schema(catalog: Catalog, name: str) -> None:
    """Delete a schema that no table uses.

    Raises:
        NotFoundError: there is none.
        AlreadyExistsError: a table uses it (409, as Pinot).
    """
    if catalog.schema(name) is None:
        raise NotFoundError(f"Schema {name[:200]} not found", schema=name[:200])
    users = catalog.tables_of(name)
    if users:
        raise AlreadyExistsError(
            f"Cannot delete schema {name}, as it is associated with table {users[0]}", schema=name, tables=users
        )
    catalog.delete_schema(name)
    LOG.info("schema deleted schema=%s", name)


def _replace(catalog: Catalog, schema: Schema, version: int) -> bool:
    try:
        catalog.replace_schema(schema, version)
    except StaleVersionError:
        return False
    LOG.info("schema replaced schema=%s columns=%d", schema.schema_name, len(schema.field_specs))
    return True
