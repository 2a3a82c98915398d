"""Start a whole cluster here and query it: the flights of 2013, a stream (`realtime`), or both kinds (`hybrid`)."""

from __future__ import annotations

import json
import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pinotpy.cli.stream_quickstart import StreamQuickstart

NAME = "quickstart"
# Not one long wait: a signal that the system gave to another thread does not end it.
_LOOK_S = 0.5


def run(
    kind: Annotated[str, typer.Argument(help="which demonstration: offline, realtime or hybrid")] = "offline",
    stop: Annotated[bool, typer.Option("--exit", help="stop after the queries instead of waiting for Ctrl-C")] = False,
    directory: Annotated[
        Path | None,
        typer.Option(
            "--directory",
            help="folder for data and logs, which stay; the next run goes on with them (default: a temporary folder, "
            "removed at the end)",
            file_okay=False,
        ),
    ] = None,
    zk_port: Annotated[
        int | None,
        typer.Option("--zk-port", min=0, max=65535, help="ZooKeeper's port (default 2181, or a free one)"),
    ] = None,
    controller_port: Annotated[
        int | None,
        typer.Option("--controller-port", min=0, max=65535, help="controller's port (default 9000, or a free one)"),
    ] = None,
    broker_port: Annotated[
        int | None,
        typer.Option("--broker-port", min=0, max=65535, help="broker's port (default 8099, or a free one)"),
    ] = None,
    zk_address: Annotated[
        str | None, typer.Option("--zk-address", help="use this ZooKeeper instead of the embedded one")
    ] = None,
    kafka_brokers: Annotated[
        str | None,
        typer.Option(
            "--kafka-broker-list",
            help="realtime, hybrid: write and read a topic of this Kafka (host:port, …) instead of files",
        ),
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="print one line of JSON with the addresses when the cluster is up; everything else goes to standard "
            "error",
        ),
    ] = False,
) -> None:
    from pinotpy.cli.quickstart import Quickstart
    from pinotpy.cli.supervision.cluster_layout import Ports
    from pinotpy.errors import UserError

    of_stream = _of_stream(kind)
    if kafka_brokers and of_stream is None:
        raise UserError("--kafka-broker-list is for quickstart realtime and hybrid")
    interrupted: list[bool] = []  # no Event: its handler may run while the main thread holds the event's own lock
    ends = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # else it is meant to survive its terminal: nohup
        ends.append(signal.SIGHUP)
    # A folder of our own is removed at the end, unless something failed: then its logs are all there is to look at.
    scratch = directory or Path(tempfile.mkdtemp(prefix="pinotpy-quickstart-"))
    keeps_data = directory is not None
    ports = Ports(zk_port, controller_port, broker_port)
    quickstart = (
        of_stream(scratch, ports, zk_address, as_json=as_json, keeps_data=keeps_data, kafka_brokers=kafka_brokers or "")
        if of_stream is not None
        else Quickstart(scratch, ports, zk_address, as_json=as_json, keeps_data=keeps_data)
    )
    failed, status = True, 0
    try:
        for number in ends:
            signal.signal(number, lambda *_: _interrupt(interrupted))
        quickstart.run()
        if as_json:
            typer.echo(json.dumps(quickstart.addresses()))
        if not stop:
            quickstart.print_addresses()
            while not interrupted:
                time.sleep(_LOOK_S)
        failed = False
    except Exception as error:
        # A library that was at work may have made an error of its own of the interrupt (pydantic building a class
        # does).
        if not (isinstance(error, _InterruptedError) or interrupted):
            raise
        quickstart.say("interrupted")
        failed, status = False, 0 if quickstart.is_complete else 130
    except SystemExit:
        # rich's way to say that nobody reads any more: quickstart | head -1.
        failed, status = False, 1
    finally:
        # From here on a second Ctrl-C must not leave daemons behind.
        for number in ends:
            signal.signal(number, signal.SIG_IGN)
        failed = not quickstart.stop() or failed
        if failed:
            quickstart.say(f"data and logs are kept in {scratch}")
        elif directory is None:
            shutil.rmtree(scratch, ignore_errors=True)
    raise typer.Exit(1 if failed else status)


def _of_stream(kind: str) -> type[StreamQuickstart] | None:
    """The demonstration of that name, where its table reads a stream; None for the offline one."""
    if kind.lower() in ("offline", "batch"):
        return None
    from pinotpy.cli.hybrid_quickstart import HybridQuickstart
    from pinotpy.cli.realtime_quickstart import RealtimeQuickstart
    from pinotpy.errors import UserError

    of_streams: dict[str, type[StreamQuickstart]] = {
        "realtime": RealtimeQuickstart,
        "stream": RealtimeQuickstart,
        "hybrid": HybridQuickstart,
    }
    if kind.lower() not in of_streams:
        raise UserError(f"no quickstart is called '{kind}': expected offline, realtime or hybrid")
    return of_streams[kind.lower()]


class _InterruptedError(Exception):
    """Ctrl-C or SIGTERM while working."""


def _interrupt(interrupted: list[bool]) -> None:
    if not interrupted:
        interrupted.append(True)
        raise _InterruptedError
