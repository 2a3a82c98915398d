"""`pinotpy up` in this terminal: from the folder to a cluster that serves, until a signal; then all of it stops."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.markup import escape

from pinotpy.cli.supervision.banner import print_banner
from pinotpy.cli.supervision.cluster_layout import ClusterLayout, Ports
from pinotpy.cli.supervision.data_folder import DataFolder
from pinotpy.cli.supervision.process_identity import ProcessIdentity
from pinotpy.cli.supervision.supervisor import StopAskedError, Supervisor
from pinotpy.client.controller import ControllerClient
from pinotpy.errors import PinotError

CLUSTER: Final = "LocalCluster"
NUM_SERVERS: Final = 1
_LOOK_S: Final = 0.2


def run_cluster(folder: DataFolder, ports: Ports, num_servers: int | None, *, is_detached: bool = False) -> int:
    """Exit status: 0 after a clean stop, 1 if something failed, 130 if it was stopped while it started.

    Args:
        num_servers: None = as many as it has; `NUM_SERVERS` if it is new.
        is_detached: another process shows the banner; warnings and what happens go to the log.

    Raises: PinotError when the folder is held or cannot be used, or a daemon does not start.
    """
    console = Console(highlight=False)
    tell = _teller(console)
    with _held(folder), _signals() as asked:
        tell(what_lies_in(folder))
        layout = open_layout(folder, ports, num_servers, CLUSTER, tell)
        me = ProcessIdentity.of(os.getpid())
        assert me is not None
        supervisor = Supervisor(folder, layout, me, tell, is_asked_to_stop=lambda: bool(asked))
        status = 0
        try:
            supervisor.start()
            if is_detached:
                for text in ("the cluster is up", *supervisor.state.warnings):
                    tell(text)
            else:
                _show(console, supervisor)
            while not asked:
                supervisor.tick()
                time.sleep(_LOOK_S)
        except StopAskedError:
            tell("interrupted")
            status = 130
        finally:
            tell("stopping the daemons")
            unclean = supervisor.stop()
            if unclean:
                tell(f"these daemons did not stop cleanly (exit status): {unclean}; their logs are in {folder.logs}")
            tell(f"all daemons stopped; the data stay in {folder.path}")
    return 1 if unclean else status


def what_lies_in(folder: DataFolder) -> str:
    """What `up` begins with, in words."""
    kept = ClusterLayout.load(folder)
    return f"making a cluster in {folder.path}" if kept is None else f"going on with the data in {folder.path}"


def open_layout(
    folder: DataFolder, ports: Ports, num_servers: int | None, name: str, tell: Callable[[str], None]
) -> ClusterLayout:
    """The layout that the folder keeps, changed where the user asks for it; a new one if there is none. The caller
    holds the folder's lock.
    """
    kept = ClusterLayout.load(folder)
    if kept is None:
        layout = ClusterLayout.choose(name, folder.path, ports, num_servers or NUM_SERVERS)
        for daemon, (usual, port) in layout.unusual_ports().items():
            if not ports.are_named:
                tell(
                    f"port {usual} is in use: the {daemon} of this cluster has port {port} from now on, and clients "
                    "need its address"
                )
    else:
        layout = kept.with_ports(ports)
        if num_servers is not None:
            layout = layout.with_servers(num_servers)
        for daemon, port in layout.ports().items():
            before = kept.ports().get(daemon)
            if before != port:
                tell(f"{daemon} has port {port} from now on" + (f"; it was {before}" if before else ""))
    if layout != kept:
        layout.save(folder)
    return layout


@contextlib.contextmanager
def _held(folder: DataFolder) -> Iterator[None]:
    folder.make()
    folder.lock()
    try:
        yield
    finally:
        folder.unlock()


@contextlib.contextmanager
def _signals() -> Iterator[list[int]]:
    """The list is filled by the first signal that asks to stop. Later ones change nothing: a second Ctrl-C must not
    leave daemons behind.
    """
    asked: list[int] = []
    ends = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # else it is meant to survive its terminal: nohup
        ends.append(signal.SIGHUP)
    before = {number: signal.signal(number, lambda received, _: asked.append(received)) for number in ends}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _teller(console: Console) -> Callable[[str], None]:
    """Prints lines; with the time, where they go to a log."""

    def tell(text: str) -> None:
        stamp = "" if console.is_terminal else time.strftime("%Y-%m-%d %H:%M:%S ")
        # The terminal or the reader is gone (rich makes SystemExit of the latter): the daemons go on, or stop, all the
        # same.
        with contextlib.suppress(OSError, SystemExit):
            console.print(f"{stamp}{escape(text)}", soft_wrap=True)

    return tell


def _show(console: Console, supervisor: Supervisor) -> None:
    with contextlib.suppress(OSError, SystemExit):
        print_banner(
            console,
            supervisor.folder,
            supervisor.state,
            table_names(supervisor.state.daemons["controller"].url),
            is_detached=False,
        )


def table_names(controller_url: str) -> list[str] | None:
    """Of all tables; None: the controller does not say them."""
    try:
        with ControllerClient(controller_url, timeout_s=5.0) as client:
            return sorted(client.tables())
    except PinotError:
        return None


def given_folder(data_dir: Path | None) -> DataFolder:
    """The folder that the user named, or his usual one."""
    from pinotpy.cli.supervision.data_folder import default_folder

    return DataFolder(data_dir or default_folder())
