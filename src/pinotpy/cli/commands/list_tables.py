"""List tables with their types, states and replicas."""

from __future__ import annotations

import json

import typer

from pinotpy.cli.option_groups import ControllerOptions, controller_options, takes
from pinotpy.cli.showing import plain_table, replica_counts

NAME = "list-tables"


@takes(controller_options)
def run(common: ControllerOptions) -> None:
    with common.client() as client:
        rows = []
        for table in client.tables():
            ideal, view = client.ideal_state(table), client.external_view(table)
            for kind, segments in ideal.items():
                if segments is not None:
                    counts = replica_counts(segments, view.get(kind) or {})
                    state = client.table_state(table, table_type=kind)
                    rows.append({"table": table, "type": kind, "state": state, **counts})
    if common.as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    if not rows:
        typer.echo("there are no tables: `load` makes one of a file, `add-table` one of a table config")
        return
    from pinotpy.cli.result_table import answer_console

    numbers = ("segments", "replicas serving", "replicas wanted", "in error")
    shown = plain_table("table", "type", "state", *numbers, right=numbers)
    for row in rows:
        shown.add_row(*(f"{row[key]}" for key in ("table", "type", "state", "segments", "serving", "wanted", "error")))
    answer_console().print(shown)
