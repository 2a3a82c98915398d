"""Check a schema, a table config, or both against each other; print every fault with its path."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from pinotpy.cli import options
from pinotpy.errors import UserError

NAME = "validate-config"


def run(
    schema_file: Annotated[Path | None, typer.Option("--schema-file", help="schema as JSON")] = None,
    table_config_file: Annotated[Path | None, typer.Option("--table-config-file", help="table config as JSON")] = None,
    as_json: options.Json = False,
) -> None:
    from pinotpy.cli.documents import read_documents

    if schema_file is None and table_config_file is None:
        raise UserError("nothing to check: give --schema-file, --table-config-file or both")
    documents = read_documents(schema_file, table_config_file, checks_plug_ins=True)
    # Kept and answered by the controller as well: most often a key that is spelt wrongly.
    unknown = {
        str(file): sorted(document.unrecognized)
        for file, document in ((schema_file, documents.schema), (table_config_file, documents.table_config))
        if document is not None and document.unrecognized
    }
    idle = (
        {str(table_config_file): sorted(config.without_effect)}
        if (config := documents.table_config) is not None and config.without_effect
        else {}
    )
    warnings = {str(table_config_file): config.warnings} if config is not None and config.warnings else {}
    if as_json:
        faults = [
            {"file": str(f.file)}
            | (
                {"message": f.summary}
                if f.fault is None
                else {"path": f.fault.path, "found": f.fault.found, "allowed": f.fault.allowed}
            )
            for f in documents.faults
        ]
        told = {"valid": not faults, "faults": faults, "unrecognizedProperties": unknown} | (
            {"propertiesWithoutEffect": idle} if idle else {}
        )
        told |= {"warnings": warnings} if warnings else {}
        typer.echo(json.dumps(told, indent=2, ensure_ascii=False))
        if faults:
            raise typer.Exit(1)
        return
    documents.refuse()
    for file, keys in unknown.items():
        typer.echo(f"note: '{file}' has keys that nothing reads: {', '.join(keys)}", err=True)
    for file, keys in idle.items():
        typer.echo(f"note: '{file}' has keys that have no effect yet: {', '.join(keys)}", err=True)
    for file, lines in warnings.items():
        for line in lines:
            typer.echo(f"warning: '{file}': {line}", err=True)
    typer.echo("valid")
