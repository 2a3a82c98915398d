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
    from pinotpy.cli.documents import read_documents, read_object
    from pinotpy.client.controller import ControllerClient

    read_documents(schema_file, table_config_file).refuse()  # every fault of both at once, before anything is sent
    config = read_object(table_config_file, "table config")
    schema = read_object(schema_file, "schema") if schema_file else None
    with ControllerClient(controller_url, options.access(user, password, auth_token, tls_ca_file)) as client:
        if schema is not None:
            options.print_status(client.add_schema(schema), as_json)
        options.print_status(client.add_table(config), as_json)
