"""Enable or disable a table."""

from __future__ import annotations

from typing import Annotated

import typer

from pinotpy.cli.option_groups import ControllerOptions, controller_options, takes

NAME = "change-table-state"


@takes(controller_options)
def run(
    common: ControllerOptions,
    table_name: Annotated[str, typer.Option("--table-name", help="name of the table")],
    state: Annotated[str, typer.Option("--state", help="enable or disable")],
    table_type: Annotated[str, typer.Option("--table-type", help="OFFLINE or REALTIME")] = "OFFLINE",
) -> None:
    with common.client_of(table_name) as client:
        common.print_status(client.change_table_state(table_name, state, table_type=table_type))
