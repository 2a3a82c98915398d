"""Proves what a cluster that is up says of its tables: their names, that it has none, or that nobody knows them."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from rich.console import Console

from pinotpy.cli.supervision.banner import print_banner
from pinotpy.cli.supervision.data_folder import DataFolder
from pinotpy.cli.supervision.foreground import table_names
from pinotpy.cli.supervision.process_identity import ProcessIdentity
from pinotpy.cli.supervision.state_file import ClusterState, DaemonState, Phase
from pinotpy.service.ports import free_port


@pytest.mark.parametrize(
    ("tables", "told", "command"),
    [
        (["flights", "trips"], "Its tables: flights, trips.", "SELECT COUNT(*) FROM flights"),
        ([], "It has no tables yet", "load --controller-url http://c:1 FILE"),
        (None, "could not be asked", "list-tables --controller-url http://c:1"),
    ],
)
def test_tables_are_named_and_unknown_ones_are_not_called_none(
    tmp_path: Path, tables: list[str] | None, told: str, command: str
) -> None:
    me = ProcessIdentity.of(os.getpid())
    assert me is not None
    daemons = {
        "controller": DaemonState(Phase.SERVING, 1, 0, me, "http://c:1"),
        "broker": DaemonState(Phase.SERVING, 2, 0, me, "http://b:2"),
    }
    text = io.StringIO()
    state = ClusterState(me, 0, Phase.SERVING, "", [], daemons)
    print_banner(Console(file=text, width=200), DataFolder(tmp_path), state, tables, is_detached=True)
    assert told in text.getvalue() and command in text.getvalue()
    assert ("It has no tables yet" in text.getvalue()) == (tables == [])


def test_a_controller_that_does_not_answer_leaves_the_tables_unknown() -> None:
    assert table_names(f"http://127.0.0.1:{free_port()}") is None
