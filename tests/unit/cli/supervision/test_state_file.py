"""Proves that what the state file says comes back as it was, that a damaged one is told with what to do, and that only
processes that live, and are those of then, count as living.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from pinotpy.cli.supervision.data_folder import DataFolder
from pinotpy.cli.supervision.process_identity import ProcessIdentity
from pinotpy.cli.supervision.state_file import ClusterState, DaemonState, Failure, Phase
from pinotpy.errors import UserError


@pytest.fixture
def folder(tmp_path: Path) -> DataFolder:
    return DataFolder(tmp_path)


@pytest.fixture
def state() -> ClusterState:
    me = ProcessIdentity.of(os.getpid())
    assert me is not None
    failure = Failure(1_700_000_000_001, "broker (process 7) was ended by SIGKILL", "line one\n„line“ two")
    daemons = {
        "zookeeper": DaemonState(Phase.SERVING, 2181, 1_700_000_000_000, me),
        "broker": DaemonState(Phase.WAITING, 8099, 1_700_000_000_001, None, "http://x", 2, failure),
        "server-0": DaemonState(Phase.SERVING, 8098, 5, replace(me, start_ticks=me.start_ticks + 1)),
    }
    return ClusterState(me, 1_700_000_000_000, Phase.SERVING, "doing", ["a warning"], daemons)


def test_it_comes_back_as_it_was(folder: DataFolder, state: ClusterState) -> None:
    assert ClusterState.load(folder) is None
    state.save(folder)
    assert ClusterState.load(folder) == state


def test_only_the_very_processes_count_as_living(state: ClusterState) -> None:
    assert state.living() == {"zookeeper": state.supervisor}


@pytest.mark.parametrize("change", [{"phase": "dancing"}, {"daemons": []}, {"supervisor": None}, {"startedMs": "soon"}])
def test_a_damaged_file_is_told(folder: DataFolder, state: ClusterState, change: dict[str, object]) -> None:
    state.save(folder)
    file = folder.path / "state.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(UserError, match="tells which processes run here") as told:
        ClusterState.load(folder)
    assert str(file) in told.value.message
