"""Create a table from its config (and its schema first, if --schema-file is given)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pinotpy.cli import options

NAME = "add-table"


def run(
    table_config_file: Annotated[Path, typer.Option("--table-config-file", help="table config as JSON")],
    schema_file: Annotated[Path | None, typer.Option("--schema-file", help="schema as JSON; added before the table")] = None,
    controller_url: options.ControllerUrl = options.DEFAULT_CONTROLLER,
    user: options.AuthUser = None,
    password: options.AuthPassword = None,
    auth_token: options.AuthToken = None,
    tls_ca_file: options.ClientCa = None,
    as_json: options.Json = False,
) -> None:
    from pinotpy.client.controller import ControllerClient
    from pinotpy.config.schema import Schema
    from pinotpy.config.table import TableConfig

    config = options.read_json(table_config_file)
    TableConfig.from_json(config)
    schema = options.read_json(schema_file) if schema_file else None
    if schema is not None:
        Schema.from_json(schema)
    with ControllerClient(controller_url, options.access(user, password, auth_token, tls_ca_file)) as client:
        if schema is not None:
            options.print_status(client.add_schema(schema), as_json)
        options.print_status(client.add_table(config), as_json)
