"""Start a server: it holds segments and executes queries over them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pinotpy.cli.option_groups import DaemonOptions, daemon_options, takes

NAME = "start-server"


@takes(daemon_options)
def run(
    common: DaemonOptions,
    server_host: Annotated[
        str | None, typer.Option("--server-host", help="address to listen on (default 127.0.0.1)")
    ] = None,
    server_port: Annotated[
        int | None, typer.Option("--server-port", help="query port (default 8098); 0 picks a free one")
    ] = None,
    server_admin_port: Annotated[
        int | None, typer.Option("--server-admin-port", help="admin REST port (default 8097); 0 picks a free one")
    ] = None,
    data_dir: Annotated[Path | None, typer.Option("--data-dir", help="folder of loaded segments")] = None,
    segment_dir: Annotated[Path | None, typer.Option("--segment-dir", help="download folder")] = None,
) -> None:
    from pinotpy.kernels.packed_bitcode import keep_bitcode_packed
    from pinotpy.service.lean_imports import keep_imports_lean

    keep_imports_lean()
    keep_bitcode_packed()
    from pinotpy.config.settings import ServerSettings
    from pinotpy.server.service import run_server

    run_server(
        common.settings(
            ServerSettings,
            host=server_host,
            port=server_port,
            admin_port=server_admin_port,
            data_dir=data_dir,
            segment_dir=segment_dir,
        ),
        common.ready_file,
    )
