"""Run a query and print its answer as a table (or JSON with --json), or write it to a file (Arrow, Parquet, CSV)."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from pinotpy.cli import options
from pinotpy.errors import UserError

NAME = "post-query"


def run(
    query: Annotated[str, typer.Option("--query", help="the text, in SQL; - reads it from standard input")],
    pql: Annotated[bool, typer.Option("--pql", help="the text is PQL")] = False,
    query_type: Annotated[str | None, typer.Option("--query-type", help="sql or pql, instead of --pql")] = None,
    query_options: Annotated[
        str, typer.Option("--query-options", help="options like 'timeoutMs=1000;trace=true'")
    ] = "",
    trace: Annotated[bool, typer.Option("--trace", help="ask for a trace")] = False,
    broker_url: options.BrokerUrl = options.DEFAULT_BROKER,
    timeout_s: Annotated[float, typer.Option("--timeout-s", help="how long to wait for the answer")] = 60.0,
    user: options.AuthUser = None,
    password: options.AuthPassword = None,
    auth_token: options.AuthToken = None,
    tls_ca_file: options.ClientCa = None,
    as_json: options.Json = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", help="write the rows to this file instead, atomically"),
    ] = None,
    file_format: Annotated[
        str | None, typer.Option("--format", help="file format: arrow, parquet or csv (default: by file extension)")
    ] = None,
) -> None:
    from pinotpy.cli.asking import ask, ask_for_rows

    dialect = _dialect(query_type, pql=pql)
    text = sys.stdin.read() if query == "-" else query
    access = options.access(user, password, auth_token, tls_ca_file)
    if output is not None:
        from pinotpy.cli.result_files import format_of, write_result

        result_format = format_of(output, file_format)
        group = ask_for_rows(broker_url, text, dialect, access, query_options=query_options, timeout_s=timeout_s)
        typer.echo(f"{write_result(group, output, result_format):,} rows written to {output}")
        for warning in group.warnings:
            typer.echo(f"warning: {warning}", err=True)
        for reason in group.reasons:
            typer.echo(f"{group.exactness}: {reason}", err=True)
        return
    if file_format is not None:
        raise UserError("--format needs --output: it is the format of that file")
    answer = ask(broker_url, text, dialect, access, query_options=query_options, trace=trace, timeout_s=timeout_s)
    if as_json:
        typer.echo(json.dumps(answer, indent=2, ensure_ascii=False))
    else:
        from pinotpy.cli.result_table import answer_console, print_answer

        print_answer(answer_console(), answer)
    if answer.get("exceptions"):
        raise typer.Exit(1)


def _dialect(query_type: str | None, *, pql: bool) -> str:
    """Of the text; which names there are is known where it is sent."""
    if query_type is None:
        return "pql" if pql else "sql"
    if pql and query_type.lower() != "pql":
        raise UserError(f"--pql and --query-type {query_type} exclude each other: one of them is enough")
    return query_type
