"""Start a broker: it answers POST /query by querying the servers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pinotpy.cli.option_groups import DaemonOptions, daemon_options, takes

NAME = "start-broker"


@takes(daemon_options)
def run(
    common: DaemonOptions,
    broker_host: Annotated[
        str | None, typer.Option("--broker-host", help="address to listen on (default 127.0.0.1)")
    ] = None,
    broker_port: Annotated[
        int | None, typer.Option("--broker-port", help="port (default 8099); 0 picks a free one")
    ] = None,
    query_log_file: Annotated[
        Path | None,
        typer.Option("--query-log-file", help="file of the query log, a JSON line a query (default: none is written)"),
    ] = None,
) -> None:
    from pinotpy.service.lean_imports import keep_imports_lean

    keep_imports_lean()
    from pinotpy.broker.service import run_broker
    from pinotpy.config.settings import BrokerSettings

    settings = common.settings(BrokerSettings, host=broker_host, port=broker_port, query_log_file=query_log_file)
    run_broker(settings, common.ready_file)
