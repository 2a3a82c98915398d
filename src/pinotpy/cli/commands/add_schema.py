"""Add a schema, or replace it with --override."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pinotpy.cli.option_groups import ControllerOptions, controller_options, takes

NAME = "add-schema"


@takes(controller_options)
def run(
    common: ControllerOptions,
    schema_file: Annotated[Path, typer.Option("--schema-file", help="schema as JSON")],
    override: Annotated[bool, typer.Option("--override/--no-override", help="replace an existing schema")] = True,
) -> None:
    from pinotpy.cli.documents import read_documents, read_object

    read_documents(schema_file, None).refuse()  # every fault at once, before anything is sent
    document = read_object(schema_file, "schema")
    with common.client() as client:
        common.print_status(client.add_schema(document, override=override))
