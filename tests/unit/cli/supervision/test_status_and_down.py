"""Proves with toy daemons: `status` and `down` find out by files and /proc what runs, whoever started it; a supervisor
that was killed is told, and its daemons are ended; a cluster that does not start says why; and `up --detach` leaves
one that does.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from toy_daemons import ToyDaemons

from pinotpy.cli.supervision import background, leftovers
from pinotpy.cli.supervision.data_folder import DataFolder
from pinotpy.cli.supervision.process_identity import ProcessIdentity
from pinotpy.cli.supervision.state_file import ClusterState, Phase
from pinotpy.cli.supervision.status_report import Standing, exit_status, look
from pinotpy.cli.supervision.stopping import stop_cluster
from pinotpy.errors import RemoteError

Eventually = Callable[..., float]
# `pinotpy up` with toys for daemons; every table answers.
UP = """
import sys
from pathlib import Path
from pinotpy.cli import local_cluster
from pinotpy.cli.supervision import foreground, supervisor
from pinotpy.cli.supervision.cluster_layout import Ports
from pinotpy.cli.supervision.data_folder import DataFolder
from pinotpy.errors import PinotError
toy, folder = sys.argv[1], sys.argv[-1]
local_cluster.PROGRAM = (sys.executable, toy)
supervisor.first_are_compiled = lambda: True
supervisor.wait_for_answers = lambda *_: []
try:
    sys.exit(foreground.run_cluster(DataFolder(Path(folder)), Ports(0, 0, 0), None, is_detached=True))
except PinotError as error:
    sys.exit(f"pinotpy: {error.message}")
"""


class Trial:
    """A data folder, and `pinotpy up` on it in a process of its own."""

    def __init__(self, scratch: Path, monkeypatch: pytest.MonkeyPatch, eventually: Eventually) -> None:
        self.toys = ToyDaemons(scratch / "toys", monkeypatch)
        self.up_program = scratch / "up.py"
        self.up_program.write_text(UP)
        self.folder = DataFolder(scratch / "data")
        self.told = list[str]()
        self._eventually = eventually
        self._started: list[subprocess.Popen[bytes]] = []

    @property
    def arguments(self) -> list[str]:
        return [sys.executable, str(self.up_program), self.toys.program[1]]

    def up(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([*self.arguments, str(self.folder.path)], stdout=subprocess.DEVNULL)
        self._started.append(process)
        self._eventually(lambda: self.state is not None and self.state.phase is Phase.SERVING)
        return process

    @property
    def state(self) -> ClusterState | None:
        return ClusterState.load(self.folder)

    def down(self, timeout_s: float = 60.0) -> bool:
        return stop_cluster(self.folder, timeout_s, self.told.append)

    def close(self) -> None:
        if self.folder.path.exists():
            self.down()
        for process in self._started:
            process.kill()
            process.wait()


@pytest.fixture
def trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, eventually: Any) -> Iterator[Trial]:
    trial = Trial(tmp_path, monkeypatch, eventually)
    yield trial
    trial.close()


def test_where_nothing_is_nothing_is_stopped(trial: Trial, pinotpy: Any) -> None:
    assert trial.down() and "no cluster lies in" in trial.told[-1]
    report = look(trial.folder)
    assert (report.standing, exit_status(report)) == (Standing.NONE, 3)
    ended = pinotpy("status", "--data-dir", trial.folder.path)
    assert ended.status == 3 and f"no cluster lies in {trial.folder.path}" in ended.out
    ended = pinotpy("down", "--data-dir", trial.folder.path)
    assert ended.status == 0 and "nothing to stop" in ended.out
    assert not trial.folder.path.exists()


def test_another_process_cluster_is_stopped_in_order(trial: Trial, pinotpy: Any) -> None:
    process = trial.up()
    report = look(trial.folder)
    # Its controller is a toy and tells no tables: that is said, and all is not well.
    assert (report.standing, exit_status(report)) == (Standing.DEGRADED, 1)
    assert report.supervisor_pid == process.pid and "does not tell the tables" in report.warnings[-1]
    assert trial.down() and process.wait(60) == 0
    assert trial.told == [
        f"stopping the cluster in {trial.folder.path} (process {process.pid})",
        f"stopped; the data stay in {trial.folder.path}",
    ]
    assert trial.toys.ends == ["start-broker", "start-server", "start-controller", "start-zookeeper"]
    ended = pinotpy("status", "--data-dir", trial.folder.path, "--json")
    assert ended.status == 3 and ended.document["state"] == "stopped"
    assert {daemon["state"] for daemon in ended.document["daemons"].values()} == {"stopped"}
    assert trial.down() and trial.told[-1] == f"nothing runs in {trial.folder.path}"


def test_what_a_killed_supervisor_left_is_told_and_ended(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    # As if the kernel had not ended it with its supervisor.
    monkeypatch.setattr(leftovers, "ALONE_TIMEOUT_S", 0.1)
    left = subprocess.Popen([*trial.toys.program, "start-broker"], stdout=subprocess.PIPE, text=True)
    try:
        assert left.stdout is not None and left.stdout.readline().startswith("ready")
        process = trial.up()
        process.send_signal(signal.SIGKILL)
        process.wait()
        state = trial.state
        assert state is not None
        trial._eventually(lambda: not state.living(), what="the kernel ends daemons with their supervisor")
        state.daemons["broker"].process = ProcessIdentity.of(left.pid)
        state.save(trial.folder)
        report = look(trial.folder)
        assert (report.standing, exit_status(report)) == (Standing.KILLED, 1)
        assert f"(process {process.pid}) ended without stopping" in report.warnings[0]
        assert "still ending: broker" in report.warnings[0]
        assert trial.down() and left.wait(60) == 0
        assert "was killed; ending its daemons: broker" in trial.told[0]
        report = look(trial.folder)
        assert (report.standing, exit_status(report)) == (Standing.STOPPED, 3)
    finally:
        left.kill()
        left.wait()
        assert left.stdout is not None
        left.stdout.close()


def test_a_supervisor_that_does_not_stop_is_killed(trial: Trial) -> None:
    process = trial.up()
    process.send_signal(signal.SIGSTOP)
    state = trial.state
    assert state is not None
    assert not trial.down(timeout_s=0.5)
    assert process.wait(60) == -signal.SIGKILL and state.living() == {}
    assert f"process {process.pid} did not stop within 0.5 s: it is killed" in trial.told[1]


def test_one_in_the_background_lives_on_and_says_what_it_does(
    trial: Trial, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(background, "PROGRAM", trial.arguments)
    background.start_in_background(trial.folder, [])
    state = trial.state
    assert state is not None and state.phase is Phase.SERVING and os.getsid(state.supervisor.pid) != os.getsid(0)
    told = capsys.readouterr().out
    assert "the cluster is up" in told and f"process {state.supervisor.pid}" in told
    log = trial.folder.supervisor_log.read_text()
    assert "starting ZooKeeper" in log and "the cluster is up" in log
    assert trial.down()
    os.waitpid(state.supervisor.pid, 0)


def test_one_in_the_background_that_does_not_start_says_why(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "PROGRAM", trial.arguments)
    trial.toys.make("start-controller", "end")
    with pytest.raises(RemoteError, match=r"did not start \(exit status 1\)") as told:
        background.start_in_background(trial.folder, [])
    assert "cannot start: start-controller is told not to" in told.value.message
    state = trial.state
    assert state is not None and state.living() == {} and not trial.folder.is_locked()
