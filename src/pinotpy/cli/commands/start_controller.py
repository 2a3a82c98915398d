"""Start a controller: REST, the query page, and (one of them) the leader that assigns segments."""

from __future__ import annotations

from typing import Annotated

import typer

from pinotpy.cli.option_groups import DaemonOptions, daemon_options, takes

NAME = "start-controller"


@takes(daemon_options)
def run(
    common: DaemonOptions,
    controller_host: Annotated[
        str | None, typer.Option("--controller-host", help="address to listen on (default 127.0.0.1)")
    ] = None,
    controller_port: Annotated[
        int | None, typer.Option("--controller-port", help="port (default 9000); 0 picks a free one")
    ] = None,
    data_dir: Annotated[
        str | None, typer.Option("--data-dir", help="deep store: a folder or a URI such as s3://bucket/pinot")
    ] = None,
) -> None:
    from pinotpy.service.lean_imports import keep_imports_lean

    keep_imports_lean()
    from pinotpy.config.settings import ControllerSettings
    from pinotpy.controller.service import run_controller

    run_controller(
        common.settings(ControllerSettings, host=controller_host, port=controller_port, data_dir=data_dir),
        common.ready_file,
    )
