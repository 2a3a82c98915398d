"""Start an embedded ZooKeeper (for one machine; production uses its own ensemble)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pinotpy.cli.options import ReadyFile

NAME = "start-zookeeper"


def run(
    zk_port: Annotated[int, typer.Option("--zk-port", help="client port on loopback; 0 picks a free one")] = 2181,
    data_dir: Annotated[Path, typer.Option("--data-dir", help="data folder")] = Path("pinotpy-data/zookeeper"),
    ready_file: ReadyFile = None,
) -> None:
    from pinotpy.service.daemon import Daemon, Part, run_daemon
    from pinotpy.service.embedded_zookeeper import EmbeddedZooKeeper

    running: list[EmbeddedZooKeeper] = []

    def parts(daemon: Daemon) -> list[Part]:
        def stop(timeout_s: float) -> None:
            for zookeeper in running:
                zookeeper.stop(timeout_s / 2)  # the other half is for one that must be killed

        def start() -> None:
            running.append(EmbeddedZooKeeper(data_dir, zk_port))
            # Nobody else would tell that what this process is for has ended.
            running[0].watch(daemon.fail)

        return [Part("zookeeper", start, stop)]

    run_daemon("zookeeper", parts, ready=lambda: {"address": running[0].address}, ready_file=ready_file)
