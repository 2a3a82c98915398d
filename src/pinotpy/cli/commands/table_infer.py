"""Look into files and print the schema and table config that `load` would create; no cluster is asked."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from pinotpy.cli import options
from pinotpy.cli.guess_options import GuessOptions, guess_options
from pinotpy.cli.option_groups import takes

NAME = "table infer"


@takes(guess_options)
def run(
    guessing: GuessOptions,
    files: Annotated[list[str], typer.Argument(help="files or URIs; - is standard input", metavar="FILE|URI...")],
    out: Annotated[Path | None, typer.Option("--out", help="folder for schema.json and table.json")] = None,
    as_json: options.Json = False,
) -> None:
    from pinotpy.cli import loading
    from pinotpy.cli.file_patterns import expanded
    from pinotpy.cli.load_showing import show_dry_run, write_documents

    files = expanded(files)
    table = guessing.table or loading.table_name_of(files[0])
    with tempfile.TemporaryDirectory(prefix="pinotpy-infer-") as scratch:
        kept = loading.with_streams_kept(files, Path(scratch))
        request = loading.LoadRequest(kept, table, guessing.wishes, reject_share=guessing.reject_share)
        with options.progress(as_json) as bar:
            readings = loading.build(request, Path(scratch), None, loading.told_by(bar))
        if out is not None:
            write_documents(out, readings[0])
        document = show_dry_run(readings, table, out, as_json)
    if as_json:
        typer.echo(json.dumps(document, indent=2, ensure_ascii=False))
