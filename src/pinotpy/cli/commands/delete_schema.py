"""Delete a schema that no table uses."""

from __future__ import annotations

from typing import Annotated

import typer

from pinotpy.cli import options
from pinotpy.cli.confirming import confirm
from pinotpy.cli.option_groups import ControllerOptions, controller_options, takes

NAME = "delete-schema"


@takes(controller_options)
def run(
    common: ControllerOptions,
    schema_name: Annotated[str, typer.Option("--schema-name", help="name of the schema")],
    yes: options.Yes = False,
) -> None:
    confirm(f"Delete schema '{schema_name}'", yes=yes)
    with common.client() as client:
        common.print_status(client.delete_schema(schema_name))
