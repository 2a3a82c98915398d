"""Replace the config of a table (and its schema first, if --schema-file is given)."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pinotpy.cli.option_groups import ControllerOptions, controller_options, takes
from pinotpy.cli.showing import counted, days_text, some_of, utc
from pinotpy.errors import PinotError, UserError
from pinotpy.names import split_table_name

if TYPE_CHECKING:
    from pinotpy.client.controller import ControllerClient

NAME = "update-table"


@takes(controller_options)
def run(
    common: ControllerOptions,
    table_config_file: Annotated[
        Path | None, typer.Option("--table-config-file", help="the whole new table config as JSON")
    ] = None,
    schema_file: Annotated[
        Path | None, typer.Option("--schema-file", help="the whole new schema as JSON; replaced before the config")
    ] = None,
    reload: Annotated[
        bool, typer.Option("--reload", help="then let servers update the segments, and wait for it")
    ] = False,
    timeout_s: Annotated[float, typer.Option("--timeout-s", help="how long to wait for the reload")] = 600.0,
) -> None:
    from pinotpy.cli.documents import read_documents, read_object
    from pinotpy.cli.reloading import follow_reloads

    if table_config_file is None and schema_file is None:
        raise UserError("expected --table-config-file, --schema-file or both: what shall be replaced?")
    documents = read_documents(schema_file, table_config_file)  # every fault of both at once, before anything is sent
    documents.refuse()
    with common.client() as client:
        tables = []
        if schema_file is not None:
            schema = read_object(schema_file, "schema")
            common.print_status(client.update_schema(str(schema["schemaName"]), schema))
            tables.append(str(schema["schemaName"]))
        if table_config_file is not None and documents.table_config is not None:
            config = read_object(table_config_file, "table config")
            name = documents.table_config.raw_table_name
            common.print_status(client.update_table(name, config))
            tables = [documents.table_config.name_with_type] if schema_file is None else [name]
            if not common.as_json:
                _tell_of_retention(client, documents.table_config.name_with_type)
        if not reload:
            if not common.as_json:
                typer.echo("Segments stay as they are until they are reloaded: --reload, or reload-segments", err=True)
            return
        jobs = [job for table in tables for job in client.reload_segments(table)["reloadJobIds"]]
        follow_reloads(client, jobs, wait=True, timeout_s=timeout_s, as_json=common.as_json)


def _tell_of_retention(client: ControllerClient, table: str) -> None:
    """What the new config lets retention delete: the next run does it, and no query sees those rows any more."""
    _, kind = split_table_name(table)
    with suppress(PinotError):  # the config is replaced, whatever this read says
        plan = client.retention(table).get(str(kind)) or {}
        expired = plan.get("expiredSegments") or {}
        if not expired or plan["retentionMs"] is None:
            return
        rows = f"rows older than {days_text(plan['retentionMs'])}"
        typer.echo(
            f"Retention deletes {counted(len(expired), 'segment')} of {table} at its next run ({rows}; the newest of "
            f"them is of {utc(max(expired.values()))}): {some_of(list(expired))}. show-retention {table} lists them; a "
            "longer retentionTimeValue keeps them",
            err=True,
        )
