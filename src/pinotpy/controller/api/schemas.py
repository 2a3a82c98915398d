"""REST of schemas."""

from __future__ import annotations

from typing import Any

from fastapi import Query, Request, Response

from pinotpy.config.schema import Schema
from pinotpy.controller import schemas
from pinotpy.controller.api.answers import counted, pretty, success, told_of_twins
from pinotpy.controller.api.bodies import JsonOrFile, json_body
from pinotpy.controller.context import Controller
from pinotpy.controller.reload import reload_table
from pinotpy.data_types import FieldType
from pinotpy.errors import NotFoundError
from pinotpy.service.http import authorise, visible_tables
from pinotpy.service.rights import table_resource
from pinotpy.service.routes import EACH_TABLE, IN_HANDLER, Action, Routes, table

EXAMPLE = {
    "schemaName": "flights",
    "dimensionFieldSpecs": [{"name": "carrier", "dataType": "STRING"}],
    "metricFieldSpecs": [{"name": "distance", "dataType": "LONG"}],
    "dateTimeFieldSpecs": [
        {"name": "time", "dataType": "LONG", "format": "1:MILLISECONDS:EPOCH", "granularity": "1:MILLISECONDS"}
    ],
}
SCHEMA_BODY = json_body("A schema, as JSON or as one file of a multipart body.", multipart=True, example=EXAMPLE)


def schema_routes(controller: Controller) -> Routes:
    """Declare them."""
    routes = Routes("Schema")
    catalog = controller.catalog

    @routes.get("/schemas", Action.READ, EACH_TABLE, summary="Names of all schemas")
    def list_schemas(request: Request) -> list[str]:
        return visible_tables(request, catalog.schema_names())

    @routes.get("/schemas/info", Action.READ, EACH_TABLE, summary="Every schema with its numbers of columns")
    def schemas_info(request: Request) -> dict[str, Any]:
        return {
            "schemasInfo": [
                _info(stored.schema)
                for name in visible_tables(request, catalog.schema_names())
                if (stored := catalog.schema(name)) is not None
            ]
        }

    @routes.get("/schemas/{schemaName}", Action.READ, table("schemaName"), summary="One schema")
    def get_schema(schemaName: str) -> Response:
        return pretty(schemas.get_schema(catalog, schemaName).to_json_dict())

    @routes.post(
        "/schemas/validate",
        Action.READ,
        EACH_TABLE,
        summary="Check a schema without storing it",
        openapi_extra=SCHEMA_BODY,
    )
    def validate_schema(body: JsonOrFile) -> Response:
        schema = Schema.from_json(body)
        return pretty(schema.to_json_dict() | {"unrecognizedProperties": schema.unrecognized})

    @routes.post(
        "/schemas",
        Action.WRITE,
        IN_HANDLER,
        summary="Add a schema, or replace it by a compatible one",
        openapi_extra=SCHEMA_BODY,
    )
    def post_schema(
        request: Request,
        body: JsonOrFile,
        override: bool = Query(True, description="false: refuse if the schema exists."),
        force: bool = Query(False, description="true: replace it even if old segments cannot be read with it."),
    ) -> dict[str, Any]:
        schema = Schema.from_json(body)
        authorise(request, Action.WRITE, table_resource(schema.schema_name))
        with counted(controller.metrics, "controllerSchemaUploadError"), told_of_twins(request):
            schemas.add_schema(catalog, schema, override=override, force=force)
        return success(f"{schema.schema_name} successfully added", schema.unrecognized)

    @routes.put(
        "/schemas/{schemaName}",
        Action.WRITE,
        table("schemaName"),
        summary="Replace a schema by a compatible one",
        openapi_extra=SCHEMA_BODY,
    )
    def put_schema(
        schemaName: str,
        body: JsonOrFile,
        reload: bool = Query(
            False, description="true: tell servers to reload the table's segments, so that new columns appear."
        ),
        force: bool = Query(False, description="true: replace it even if old segments cannot be read with it."),
    ) -> dict[str, Any]:
        schema = Schema.from_json(body)
        # Parameters are checked before anything is done: the reference stores the schema and then says 404.
        tables = catalog.tables_of(schemaName)
        if reload and not tables:
            raise NotFoundError(f"Failed to find table {schemaName} to reload")
        schemas.update_schema(catalog, schemaName, schema, force=force)
        if reload:
            for name in tables:
                reload_table(controller, name)
        return success(f"{schemaName} successfully added", schema.unrecognized)

    @routes.delete(
        "/schemas/{schemaName}", Action.ADMIN, table("schemaName"), summary="Delete a schema that no table uses"
    )
    def delete_schema(schemaName: str) -> dict[str, Any]:
        schemas.delete_schema(catalog, schemaName)
        return success(f"Schema {schemaName} deleted")

    @routes.get("/tables/{tableName}/schema", Action.READ, table("tableName"), summary="Schema of a table")
    def table_schema(tableName: str) -> Response:
        schema = catalog.schema_of_table(tableName)
        if schema is None:
            raise NotFoundError(f"Schema not found for table: {tableName[:200]}")
        return pretty(schema.to_json_dict())

    return routes


def _info(schema: Schema) -> dict[str, Any]:
    kinds = [spec.field_type for spec in schema.field_specs.values()]
    return {
        "schemaName": schema.schema_name,
        "numDimensionFields": kinds.count(FieldType.DIMENSION),
        "numDateTimeFields": kinds.count(FieldType.DATE_TIME) + kinds.count(FieldType.TIME),
        "numMetricFields": kinds.count(FieldType.METRIC),
        "numComplexFields": kinds.count(FieldType.COMPLEX),
    }
