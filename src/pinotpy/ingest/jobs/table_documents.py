"""Schema and table config of a job's table: from the URIs that tableSpec names, or from the controller."""

from __future__ import annotations

from typing import Any

from pinotpy.client.http_calls import TIMEOUT_S, HttpCalls, retrying
from pinotpy.config.document import parse_json
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig, check_against_schema
from pinotpy.errors import NotFoundError, UserError
from pinotpy.fs.file_systems import file_system_for
from pinotpy.fs.settings import FileSystemSettings
from pinotpy.fs.uris import masked
from pinotpy.ingest.jobs.access import access_of
from pinotpy.ingest.jobs.spec import IngestionJobSpec
from pinotpy.ingest.transform_checks import check_expressions
from pinotpy.names import TableType, raw_table_name

_DOCUMENT_BYTES_MAX = 8 << 20


def read_table_documents(spec: IngestionJobSpec, settings: FileSystemSettings) -> tuple[Schema, TableConfig | None]:
    """Schema and OFFLINE table config, checked against each other; no config where neither place nor controller is
    named.

    URIs that begin with a controller's of pinotClusterSpecs are asked for with the job's credentials, others without.

    Raises:
        NotFoundError: no such document or table. InvalidConfigError: it has faults, or the two contradict each other.
        UserError: they are of another table than tableName.
    """
    table = raw_table_name(spec.table_spec.table_name)
    controller = spec.pinot_cluster_specs[0].controller_uri.rstrip("/") if spec.pinot_cluster_specs else None
    schema_uri = spec.table_spec.schema_uri or (f"{controller}/tables/{table}/schema" if controller else None)
    config_uri = spec.table_spec.table_config_uri or (f"{controller}/tables/{table}" if controller else None)
    if schema_uri is None:
        raise UserError(
            "tableSpec.schemaURI is missing, and pinotClusterSpecs names no controller to ask for the schema"
        )
    schema = Schema.from_json(_read(schema_uri, spec, settings, "schema"))
    config = None
    if config_uri is not None:
        document = _read(config_uri, spec, settings, "table config")
        config = TableConfig.from_json(_half(document, config_uri))
    if schema.schema_name != table or (config is not None and config.raw_table_name != table):
        names = f"the schema is of '{schema.schema_name}'" + (
            f", the table config of '{config.raw_table_name}'" if config is not None else ""
        )
        raise UserError(f"tableSpec.tableName is '{table}', {names}: expected one name")
    if config is not None:
        check_against_schema(config, schema)
        check_expressions(schema, config)
    return schema, config


def _read(uri: str, spec: IngestionJobSpec, settings: FileSystemSettings, what: str) -> Any:
    if any(uri.startswith(cluster.controller_uri.rstrip("/") + "/") for cluster in spec.pinot_cluster_specs):
        calls = HttpCalls(access_of(spec))
        try:
            return retrying(lambda: calls.call("GET", uri), deadline_s=TIMEOUT_S).json()
        finally:
            calls.close()
    with file_system_for(uri, settings).open(uri) as stream:
        text = stream.read(_DOCUMENT_BYTES_MAX + 1)
    if len(text) > _DOCUMENT_BYTES_MAX:
        raise UserError(f"the {what} '{masked(uri)}' has more than {_DOCUMENT_BYTES_MAX} bytes")
    return parse_json(text, f"{what} '{masked(uri)}'")


def _half(document: Any, uri: str) -> Any:
    """The OFFLINE half of a controller's answer `{"OFFLINE": {…}, "REALTIME": {…}}`; a document by itself as it is."""
    if not isinstance(document, dict) or "tableName" in document:
        return document
    if TableType.OFFLINE.value not in document:
        raise NotFoundError(
            f"'{masked(uri)}' has no OFFLINE table config: segments of batch jobs are for OFFLINE tables"
        )
    return document[TableType.OFFLINE.value]
