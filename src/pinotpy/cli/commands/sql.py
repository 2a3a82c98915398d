"""Ask in SQL: at a prompt with history and completion, or one statement, a file, standard input."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from pinotpy.cli import options
from pinotpy.errors import UserError

NAME = "sql"


def run(
    statement: Annotated[
        str | None, typer.Argument(metavar="STATEMENT", help="what to ask; without it, a prompt")
    ] = None,
    command: Annotated[str | None, typer.Option("--command", "-c", help="the same as an option")] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="file of statements, each ending with ;")] = None,
    pql: Annotated[bool, typer.Option("--pql", help="statements are PQL")] = False,
    form: Annotated[str, typer.Option("--format", help="table, vertical, csv, json or jsonl")] = "table",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", help="write the first answer to this file: .csv, .parquet, .arrow, .json, .jsonl, .txt"
        ),
    ] = None,
    timing: Annotated[bool, typer.Option("--timing", help="show how long statements take")] = False,
    query_options: Annotated[
        str, typer.Option("--query-options", help="options of every statement, like 'timeoutMs=1000'")
    ] = "",
    broker_url: options.BrokerUrl = options.DEFAULT_BROKER,
    controller_url: options.ControllerUrl = options.DEFAULT_CONTROLLER,
    timeout_s: Annotated[float, typer.Option("--timeout-s", help="how long to wait for an answer")] = 60.0,
    user: options.AuthUser = None,
    password: options.AuthPassword = None,
    auth_token: options.AuthToken = None,
    tls_ca_file: options.ClientCa = None,
) -> None:
    from pinotpy.cli.sql_shell.backslash_commands import format_named
    from pinotpy.cli.sql_shell.catalogue import Catalogue
    from pinotpy.cli.sql_shell.script import run_script
    from pinotpy.cli.sql_shell.session import Session, output_file

    if sum(given is not None for given in (statement, command, file)) > 1:
        raise UserError("expected a statement, --command or --file, found several of them")
    access = options.access(user, password, auth_token, tls_ca_file)
    session = Session(
        broker_url,
        access,
        Catalogue(controller_url, broker_url, access),
        dialect="pql" if pql else "sql",
        form=format_named(form),
        timing=timing,
        output=output_file(str(output)) if output is not None else None,
        query_options=query_options,
        timeout_s=timeout_s,
    )
    text, name = statement if statement is not None else command, "the command line"
    if file is not None:
        text, name = file.read_text(), str(file)
    elif text is None and not sys.stdin.isatty():
        text, name = sys.stdin.read(), "standard input"
    if text is None:
        if find_spec("prompt_toolkit") is None:
            raise UserError(
                "the prompt needs the package prompt_toolkit, which is not installed: pip install 'pinotpy[shell]'; "
                "a statement, --file and standard input work without"
            )
        from pinotpy.cli.sql_shell.prompt import run_prompt

        run_prompt(session)
    elif not run_script(session, text, name):
        raise typer.Exit(1)
