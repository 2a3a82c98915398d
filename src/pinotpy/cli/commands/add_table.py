"""Create a table from its config (and its schema first, if --schema-file is given)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pinotpy.cli.option_groups import ControllerOptions, controller_options, takes

NAME = "add-table"


@takes(controller_options)
def run(
    common: ControllerOptions,
    table_config_file: Annotated[Path, typer.Option("--table-config-file", help="table config as JSON")],
    schema_file: Annotated[
        Path | None, typer.Option("--schema-file", help="schema as JSON; added before the table")
    ] = None,
) -> None:
    from pinotpy.cli.documents import read_documents, read_object

    read_documents(schema_file, table_config_file).refuse()  # every fault of both at once, before anything is sent
    config = read_object(table_config_file, "table config")
    schema = read_object(schema_file, "schema") if schema_file else None
    with common.client() as client:
        if schema is not None:
            client.validate_table(config, schema)  # a table that is refused leaves no schema behind
            common.print_status(client.add_schema(schema))
        common.print_status(client.add_table(config))
