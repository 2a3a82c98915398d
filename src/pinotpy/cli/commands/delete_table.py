"""Delete a table with its segments."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

import typer

from pinotpy.cli import options
from pinotpy.cli.confirming import confirm
from pinotpy.cli.option_groups import ControllerOptions, controller_options, takes
from pinotpy.cli.showing import counted
from pinotpy.errors import PinotError
from pinotpy.names import raw_table_name

NAME = "delete-table"


@takes(controller_options)
def run(
    common: ControllerOptions,
    table: Annotated[
        str | None, typer.Argument(metavar="TABLE", help="name of the table, with or without type")
    ] = None,
    option_name: Annotated[str | None, typer.Option("--table-name", help="the same, as an option")] = None,
    yes: options.Yes = False,
) -> None:
    table_name = options.one_name(NAME, "table", "flights or flights_OFFLINE", table, option_name)
    with common.client_of(table_name) as client:
        if not yes:
            num_segments = sum(len(names) for names in client.segments(table_name).values())
            confirm(f"Delete table '{table_name}' with its {counted(num_segments, 'segment')}", yes=yes)
        common.print_status(client.delete_table(table_name))
        kept, schema, has_schema = 0, raw_table_name(table_name), False
        if not common.as_json:
            with suppress(PinotError):  # the table is deleted, whatever these lists say
                has_schema = schema in client.schemas() and schema not in client.tables()
                kept = len(client.deleted_segments(table_name))
    if kept:
        typer.echo(
            f"archives of {counted(kept, 'segment')} are kept for a time: a table of this name, made again, gets them "
            f"back by restore-segments {table_name}"
        )
    if has_schema:
        typer.echo(
            f"the schema '{schema}' stays: a table of this name, made again, must fit it. delete-schema {schema} "
            "deletes it"
        )
