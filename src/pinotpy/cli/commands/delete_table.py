"""Delete a table with its segments."""

from __future__ import annotations

from typing import Annotated

import typer

from pinotpy.cli import options

NAME = "delete-table"


def run(
    table_name: Annotated[str, typer.Option("--table-name", help="name of the table, with or without type")],
    controller_url: options.ControllerUrl = options.DEFAULT_CONTROLLER,
    user: options.AuthUser = None,
    password: options.AuthPassword = None,
    auth_token: options.AuthToken = None,
    tls_ca_file: options.ClientCa = None,
    as_json: options.Json = False,
) -> None:
    from pinotpy.client.controller import ControllerClient

    with ControllerClient(controller_url, options.access(user, password, auth_token, tls_ca_file)) as client:
        options.print_status(client.delete_table(table_name), as_json)
