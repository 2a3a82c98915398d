"""Start a whole cluster on this machine, load the 336,776 flights of 2013, and ask a dozen questions."""

from __future__ import annotations

import shutil
import signal
import tempfile
import threading
from pathlib import Path
from typing import Annotated

import typer

NAME = "quickstart"


def run(
    kind: Annotated[str, typer.Argument(help="which demonstration: offline")] = "offline",
    stop: Annotated[bool, typer.Option("--exit", help="stop after the queries instead of waiting for Ctrl-C")] = False,
    directory: Annotated[Path | None, typer.Option("--directory", help="where data and logs go (default: a temporary folder, removed at the end)")] = None,
    zk_port: Annotated[int | None, typer.Option("--zk-port", help="ZooKeeper's port (default 2181, or a free one)")] = None,
    controller_port: Annotated[int | None, typer.Option("--controller-port", help="controller's port (default 9000, or a free one)")] = None,
    broker_port: Annotated[int | None, typer.Option("--broker-port", help="broker's port (default 8099, or a free one)")] = None,
    zk_address: Annotated[str | None, typer.Option("--zk-address", help="use this ZooKeeper instead of the embedded one")] = None,
) -> None:
    from pinotpy.cli.quickstart import Ports, Quickstart
    from pinotpy.errors import UserError

    if kind.lower() not in ("offline", "batch"):
        raise UserError(f"no quickstart is called '{kind}': found so far: offline")
    interrupted = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: _interrupt(interrupted))
    # A folder of our own is removed at the end, unless something failed: then its logs are all there is to look at.
    scratch = directory or Path(tempfile.mkdtemp(prefix="pinotpy-quickstart-"))
    quickstart = Quickstart(scratch, Ports(zk_port, controller_port, broker_port), zk_address)
    failed, status = True, 0
    try:
        quickstart.run()
        if not stop:
            quickstart.print_addresses()
            interrupted.wait()
        failed = False
    except Exception as error:
        # A library that was at work may have made an error of its own of the interrupt (pydantic building a class does).
        if not (isinstance(error, _InterruptedError) or interrupted.is_set()):
            raise
        quickstart.console.print("interrupted")
        failed, status = False, 0 if quickstart.is_complete else 130
    finally:
        # From here on a second Ctrl-C must not leave daemons behind.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        failed = not quickstart.stop() or failed
        if failed:
            quickstart.console.print(f"data and logs are kept in {scratch}", soft_wrap=True)
        elif directory is None:
            shutil.rmtree(scratch, ignore_errors=True)
    raise typer.Exit(1 if failed else status)


class _InterruptedError(Exception):
    """Ctrl-C or SIGTERM while working."""


def _interrupt(event: threading.Event) -> None:
    if not event.is_set():
        event.set()
        raise _InterruptedError
