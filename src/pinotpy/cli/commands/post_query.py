"""Ask a query and print its answer as a table (or JSON with --json)."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from pinotpy.cli import options

NAME = "post-query"


def run(
    query: Annotated[str, typer.Option("--query", help="the text; - reads it from standard input")],
    query_type: Annotated[str, typer.Option("--query-type", help="pql or sql")] = "pql",
    query_options: Annotated[str, typer.Option("--query-options", help="options like 'timeoutMs=1000;trace=true'")] = "",
    trace: Annotated[bool, typer.Option("--trace", help="ask for a trace")] = False,
    broker_url: options.BrokerUrl = options.DEFAULT_BROKER,
    timeout_s: Annotated[float, typer.Option("--timeout-s", help="longest wait for the answer")] = 60.0,
    user: options.AuthUser = None,
    password: options.AuthPassword = None,
    auth_token: options.AuthToken = None,
    tls_ca_file: options.ClientCa = None,
    as_json: options.Json = False,
) -> None:
    from pinotpy.cli.asking import ask

    text = sys.stdin.read() if query == "-" else query
    answer = ask(
        broker_url, text, query_type, options.access(user, password, auth_token, tls_ca_file), query_options=query_options, trace=trace, timeout_s=timeout_s
    )
    if as_json:
        typer.echo(json.dumps(answer, indent=2, ensure_ascii=False))
    else:
        from pinotpy.cli.result_table import answer_console, print_answer

        print_answer(answer_console(), answer)
    if answer.get("exceptions"):
        raise typer.Exit(1)
