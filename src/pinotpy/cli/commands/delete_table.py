"""Delete a table with its segments."""

from __future__ import annotations

from typing import Annotated

import typer

from pinotpy.cli.option_groups import ControllerOptions, controller_options, takes

NAME = "delete-table"


@takes(controller_options)
def run(
    common: ControllerOptions,
    table_name: Annotated[str, typer.Option("--table-name", help="name of the table, with or without type")],
) -> None:
    with common.client() as client:
        common.print_status(client.delete_table(table_name))
