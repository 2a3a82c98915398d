"""Proves with toy daemons and a virtual clock: what died is started again after its wait, not before and not for ever,
with what it said last; one that is never ready is replaced; nothing starts without ZooKeeper; a start that fails says
why; and all are stopped in order. (Real daemons: tests/cluster/test_up_live.py.)
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from toy_daemons import ToyDaemons

from pinotpy.cli.supervision import supervisor as module
from pinotpy.cli.supervision.cluster_layout import ClusterLayout, Ports
from pinotpy.cli.supervision.data_folder import DataFolder
from pinotpy.cli.supervision.process_identity import ProcessIdentity
from pinotpy.cli.supervision.restart_policy import ENDS_MAX
from pinotpy.cli.supervision.state_file import ClusterState, Phase
from pinotpy.cli.supervision.supervisor import START_TIMEOUT_S, StopAskedError, Supervisor
from pinotpy.clock import ManualClock
from pinotpy.errors import RemoteError, UserError

Eventually = Callable[..., float]


class Trial:
    """A supervisor of toys; its tables always answer."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, eventually: Eventually) -> None:
        self.toys = ToyDaemons(folder / "toys", monkeypatch)
        monkeypatch.setattr(module, "first_are_compiled", lambda: True)
        monkeypatch.setattr(module, "wait_for_answers", lambda *_: ["table t does not answer"])
        self.folder = DataFolder(folder / "data")
        self.folder.make()
        self.clock, self.told, self.asked = ManualClock(), list[str](), False
        layout = ClusterLayout.choose("Trial", self.folder.path, Ports(0, 0, 0), 2)
        me = ProcessIdentity.of(os.getpid())
        assert me is not None
        self.supervisor = Supervisor(
            self.folder, layout, me, self.told.append, is_asked_to_stop=lambda: self.asked, clock=self.clock
        )
        self._eventually = eventually

    def phase(self, name: str) -> Phase:
        return self.supervisor.state.daemons[name].phase

    def tick_until(self, name: str, phase: Phase) -> None:
        def reached() -> bool:
            self.supervisor.tick()
            return self.phase(name) is phase

        self._eventually(reached, what=f"{name} {phase.value}")

    def kill(self, name: str) -> None:
        self.supervisor.cluster.kill(name)
        self.tick_until(name, Phase.WAITING)

    @property
    def kept(self) -> ClusterState:
        state = ClusterState.load(self.folder)
        assert state is not None
        return state


@pytest.fixture
def trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, eventually: Any) -> Iterator[Trial]:
    trial = Trial(tmp_path, monkeypatch, eventually)
    yield trial
    trial.supervisor.stop()


def test_all_start_and_are_stopped_in_order(trial: Trial) -> None:
    trial.supervisor.start()
    state = trial.kept
    assert state == trial.supervisor.state and state.phase is Phase.SERVING
    assert state.warnings == ["table t does not answer"]
    assert list(state.living()) == ["zookeeper", "controller", "broker", "server-0", "server-1"]
    assert state.daemons["broker"].url == "http://127.0.0.1:1/start-broker"
    assert trial.supervisor.stop() == {}
    assert trial.toys.ends == [
        "start-broker", "start-server", "start-server", "start-controller", "start-zookeeper",
    ]  # fmt: skip
    assert trial.kept.phase is Phase.STOPPED and trial.kept.living() == {}


def test_a_folder_that_was_moved_is_warned_of_wherever_the_state_is_shown(trial: Trial) -> None:
    trial.supervisor.layout = replace(trial.supervisor.layout, folder=Path("/old/place"))
    trial.supervisor.start()
    moved, other = trial.kept.warnings
    assert moved.startswith(f"warning: the data folder was '/old/place' before, it is '{trial.folder.path}' now")
    assert "Its segments and their archives came with it" in moved and other == "table t does not answer"


def test_what_died_is_started_again_after_its_wait_and_says_why(trial: Trial) -> None:
    trial.supervisor.start()
    trial.kill("server-1")
    assert "server-1" not in trial.kept.living()
    (failure,) = [daemon.failure for daemon in trial.kept.daemons.values() if daemon.failure]
    assert failure.reason.endswith("was ended by SIGKILL") and failure.log_tail == "log of start-server"
    assert "SIGKILL; it is started again in 1 s" in trial.told[-1] and "    log of start-server" in trial.told[-1]
    trial.clock.advance(999)
    trial.supervisor.tick()
    assert trial.phase("server-1") is Phase.WAITING
    trial.clock.advance(1)
    trial.tick_until("server-1", Phase.SERVING)
    kept = trial.kept.daemons["server-1"]
    assert kept.restarts == 1 and kept.is_alive and kept.failure == failure
    assert "server-1 serves again" in trial.told[-1]


def test_what_ends_again_and_again_is_given_up_and_the_others_go_on(trial: Trial) -> None:
    trial.supervisor.start()
    trial.toys.make("start-broker", "end")
    trial.kill("broker")
    for number in range(1, ENDS_MAX + 1):
        trial.clock.advance(30_000)
        trial.tick_until("broker", Phase.FAILED if number == ENDS_MAX else Phase.WAITING)
        if number < ENDS_MAX:
            trial.supervisor.tick()
    assert trial.kept.daemons["broker"].restarts == ENDS_MAX
    assert "is not started again: mend what its log says" in trial.told[-1]
    assert "cannot start: start-broker is told not to" in trial.told[-1]
    trial.clock.advance(3_600_000)
    trial.supervisor.tick()
    assert trial.phase("broker") is Phase.FAILED and trial.phase("server-0") is Phase.SERVING


def test_one_that_is_never_ready_is_killed_and_started_again(trial: Trial) -> None:
    trial.supervisor.start()
    trial.toys.make("start-broker", "silent")
    trial.kill("broker")
    trial.clock.advance(1_000)
    trial.tick_until("broker", Phase.STARTING)
    trial.clock.advance(int(START_TIMEOUT_S * 1000))
    trial.supervisor.tick()
    assert trial.phase("broker") is Phase.STARTING
    trial.clock.advance(1)
    trial.tick_until("broker", Phase.WAITING)
    assert f"was not ready within {START_TIMEOUT_S:g} s and was killed" in trial.told[-1]
    trial.toys.heal("start-broker")
    trial.clock.advance(2_000)
    trial.tick_until("broker", Phase.SERVING)


def test_the_others_wait_for_zookeeper(trial: Trial) -> None:
    trial.supervisor.start()
    trial.toys.make("start-zookeeper", "silent")
    trial.kill("zookeeper")
    trial.kill("controller")
    trial.clock.advance(2_000)
    trial.tick_until("zookeeper", Phase.STARTING)
    trial.supervisor.tick()
    assert trial.phase("controller") is Phase.WAITING
    trial.toys.heal("start-zookeeper")
    trial.kill("zookeeper")
    trial.clock.advance(4_000)
    trial.tick_until("zookeeper", Phase.SERVING)
    trial.tick_until("controller", Phase.SERVING)


def test_a_start_that_fails_says_why(trial: Trial) -> None:
    trial.toys.make("start-controller", "end")
    with pytest.raises(RemoteError, match=r"controller .* ended with status 1: cannot start: start-controller is told"):
        trial.supervisor.start()
    trial.supervisor.stop()
    assert trial.kept.living() == {}


def test_a_start_ends_when_the_user_asks(trial: Trial) -> None:
    trial.toys.make("start-server", "silent")
    trial.asked = True
    with pytest.raises(StopAskedError):
        trial.supervisor.start()
    assert trial.supervisor.stop() == {}


def test_what_a_killed_supervisor_left_is_ended_before_the_start(
    trial: Trial, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial.supervisor.start()
    before = trial.kept.living()
    monkeypatch.setattr("pinotpy.cli.supervision.leftovers.ALONE_TIMEOUT_S", 0.1)
    second = Supervisor(trial.folder, trial.supervisor.layout, trial.kept.supervisor, trial.told.append)
    try:
        second.start()
        assert not any(process.is_alive() for process in before.values())
        assert set(second.state.living()) == set(before)
        assert any("was killed; waiting for the end of its daemons: zookeeper" in line for line in trial.told)
        assert trial.toys.ends[-1] == "start-zookeeper"
    finally:
        second.stop()


def test_a_start_whose_state_cannot_be_written_fails_rather_than_let_its_caller_wait_for_ever(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object) -> None:
        raise OSError(13, "Permission denied")

    real = ClusterState.save
    monkeypatch.setattr(ClusterState, "save", denied)
    expected = "state.json in the data folder .* cannot be written: permission denied; give this process the right"
    with pytest.raises(UserError, match=expected):
        trial.supervisor.start()
    assert not trial.supervisor.cluster.daemons, "nothing was started"

    def fails_in_the_end(state: ClusterState, folder: DataFolder) -> None:
        if state.phase is Phase.SERVING:
            denied()
        real(state, folder)

    monkeypatch.setattr(ClusterState, "save", fails_in_the_end)
    with pytest.raises(UserError, match=expected):
        trial.supervisor.start()


def test_a_full_disk_ends_no_daemon(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    trial.supervisor.start()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ClusterState, "save", full)
    trial.supervisor.cluster.daemons["broker"].process.send_signal(signal.SIGKILL)
    trial.tick_until("broker", Phase.WAITING)
    trial.clock.advance(1_000)
    trial.tick_until("broker", Phase.SERVING)
    assert sum("state.json cannot be written" in line for line in trial.told) == 1
