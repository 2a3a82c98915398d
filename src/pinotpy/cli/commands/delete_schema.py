"""Delete a schema that no table uses."""

from __future__ import annotations

from typing import Annotated

import typer

from pinotpy.cli import options

NAME = "delete-schema"


def run(
    schema_name: Annotated[str, typer.Option("--schema-name", help="name of the schema")],
    controller_url: options.ControllerUrl = options.DEFAULT_CONTROLLER,
    user: options.AuthUser = None,
    password: options.AuthPassword = None,
    auth_token: options.AuthToken = None,
    tls_ca_file: options.ClientCa = None,
    as_json: options.Json = False,
) -> None:
    from pinotpy.client.controller import ControllerClient

    with ControllerClient(controller_url, options.access(user, password, auth_token, tls_ca_file)) as client:
        options.print_status(client.delete_schema(schema_name), as_json)
