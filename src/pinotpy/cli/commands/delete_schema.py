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
    schema: Annotated[str | None, typer.Argument(metavar="SCHEMA", help="name of the schema")] = None,
    option_name: Annotated[str | None, typer.Option("--schema-name", help="the same, as an option")] = None,
    yes: options.Yes = False,
) -> None:
    schema_name = options.one_name(NAME, "schema", "flights", schema, option_name)
    confirm(f"Delete schema '{schema_name}'", yes=yes)
    with common.client() as client:
        common.print_status(client.delete_schema(schema_name))
