"""Add a schema, or replace it with --override."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pinotpy.cli import options

NAME = "add-schema"


def run(
    schema_file: Annotated[Path, typer.Option("--schema-file", help="schema as JSON")],
    override: Annotated[bool, typer.Option("--override/--no-override", help="replace a schema of that name")] = True,
    controller_url: options.ControllerUrl = options.DEFAULT_CONTROLLER,
    user: options.AuthUser = None,
    password: options.AuthPassword = None,
    auth_token: options.AuthToken = None,
    tls_ca_file: options.ClientCa = None,
    as_json: options.Json = False,
) -> None:
    from pinotpy.cli.documents import read_documents, read_object
    from pinotpy.client.controller import ControllerClient

    read_documents(schema_file, None).refuse()  # every fault at once, before anything is sent
    document = read_object(schema_file, "schema")
    with ControllerClient(controller_url, options.access(user, password, auth_token, tls_ca_file)) as client:
        options.print_status(client.add_schema(document, override=override), as_json)
