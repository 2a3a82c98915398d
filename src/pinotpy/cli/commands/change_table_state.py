"""Enable or disable a table."""

from __future__ import annotations

from typing import Annotated

import typer

from pinotpy.cli import options

NAME = "change-table-state"


def run(
    table_name: Annotated[str, typer.Option("--table-name", help="name of the table")],
    state: Annotated[str, typer.Option("--state", help="enable or disable")],
    table_type: Annotated[str, typer.Option("--table-type", help="OFFLINE or REALTIME")] = "OFFLINE",
    controller_url: options.ControllerUrl = options.DEFAULT_CONTROLLER,
    user: options.AuthUser = None,
    password: options.AuthPassword = None,
    auth_token: options.AuthToken = None,
    tls_ca_file: options.ClientCa = None,
    as_json: options.Json = False,
) -> None:
    from pinotpy.client.controller import ControllerClient

    with ControllerClient(controller_url, options.access(user, password, auth_token, tls_ca_file)) as client:
        options.print_status(client.change_table_state(table_name, state, table_type=table_type), as_json)
