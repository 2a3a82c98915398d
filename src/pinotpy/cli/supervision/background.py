"""`pinotpy up --detach`: the same in a process of its own, which lives on; this one waits until it serves."""

from __future__ import annotations

import os
import subprocess
import time
from typing import Final

from rich.console import Console
from rich.markup import escape

from pinotpy.cli.daemon_process import tail_of
from pinotpy.cli.local_cluster import PROGRAM
from pinotpy.cli.supervision.banner import print_banner
from pinotpy.cli.supervision.data_folder import DataFolder
from pinotpy.cli.supervision.foreground import table_names, what_lies_in
from pinotpy.cli.supervision.state_file import ClusterState, Phase
from pinotpy.errors import RemoteError

# In the environment of the process in the background: its banner is shown by the one that waits for it.
_MARK: Final = "PINOTPY_UP_IN_BACKGROUND"
_LOOK_S: Final = 0.1
_LOG_LINES: Final = 20


def start_in_background(folder: DataFolder, options: list[str]) -> None:
    """Returns when the cluster serves, and has told so. Ctrl-C until then stops it.

    Args:
        options: of `pinotpy up`, but for the folder.

    Raises: RemoteError with the end of the supervisor's log if it ended; PinotError where the folder cannot be used.
    """
    console = Console(highlight=False)
    folder.make()
    folder.lock()  # says who holds it, before anything is started
    folder.unlock()
    console.print(escape(what_lies_in(folder)), soft_wrap=True)
    with folder.supervisor_log.open("a") as log:
        said_before = log.tell()
        process = subprocess.Popen(
            [*PROGRAM, "up", "--data-dir", str(folder.path), *options],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd="/",
            env={**os.environ, _MARK: "1"},
        )
    try:
        state = _wait(folder, process, console, said_before)
    except BaseException:
        if process.poll() is None:
            process.terminate()
            console.print("stopping the daemons")
            process.wait()
        raise
    print_banner(console, folder, state, table_names(state.daemons["controller"].url), is_detached=True)
    console.print(f"The log of its supervisor: {folder.supervisor_log}", soft_wrap=True)


def is_in_background() -> bool:
    """Whether this process was started by `start_in_background`."""
    return os.environ.get(_MARK) == "1"


def _wait(folder: DataFolder, process: subprocess.Popen[bytes], console: Console, said_before: int) -> ClusterState:
    shown = ""
    while True:
        # First whether it ended, then what it said: its last state is not missed.
        status = process.poll()
        state = ClusterState.load(folder)
        if state is not None and state.supervisor.pid == process.pid:
            if state.phase is Phase.SERVING and status is None:
                return state
            if state.doing != shown:
                shown = state.doing
                if shown:
                    console.print(escape(shown), soft_wrap=True)
        if status is not None:
            raise RemoteError(
                f"the cluster did not start (exit status {status}); '{folder.supervisor_log}' says:\n"
                f"{tail_of(folder.supervisor_log, _LOG_LINES, since=said_before)}"
            )
        time.sleep(_LOOK_S)


def options_of(**given: int | None) -> list[str]:
    """Options that the user gave, as he would type them: zk_port=2181 → --zk-port 2181."""
    return [
        part
        for name, value in given.items()
        if value is not None
        for part in (f"--{name.replace('_', '-')}", str(value))
    ]
