"""Start the cluster of a data folder on this machine, or go on with what lies there; it stays between runs."""

from __future__ import annotations

from typing import Annotated

import typer

from pinotpy.cli.options import DataDir

NAME = "up"


def run(
    data_dir: DataDir = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="return when it serves and leave it running (see status, down)")
    ] = False,
    servers: Annotated[
        int | None,
        typer.Option("--servers", min=1, max=64, help="number of servers (default 1, or as many as there are)"),
    ] = None,
    zk_port: Annotated[
        int | None,
        typer.Option("--zk-port", min=0, max=65535, help="ZooKeeper's port, kept (default 2181 or free; 0: free)"),
    ] = None,
    controller_port: Annotated[
        int | None,
        typer.Option("--controller-port", min=0, max=65535, help="controller's port, kept (default 9000 or free)"),
    ] = None,
    broker_port: Annotated[
        int | None,
        typer.Option("--broker-port", min=0, max=65535, help="broker's port, kept (default 8099 or free)"),
    ] = None,
) -> None:
    from pinotpy.cli.supervision.background import is_in_background, options_of, start_in_background
    from pinotpy.cli.supervision.cluster_layout import Ports
    from pinotpy.cli.supervision.foreground import given_folder, run_cluster

    folder = given_folder(data_dir)
    if detach:
        options = options_of(servers=servers, zk_port=zk_port, controller_port=controller_port, broker_port=broker_port)
        start_in_background(folder, options)
        return
    ports = Ports(zk_port, controller_port, broker_port)
    raise typer.Exit(run_cluster(folder, ports, servers, is_detached=is_in_background()))
