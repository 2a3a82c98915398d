"""Proves the part of the compose trial that needs no containers: the command of the service rsvps makes its table and
writes its stream, and the trial's steps of that table hold on daemons that are processes, each of them restarted.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from compose_stream_table import commit_now, count_rows, wait_for_rows
from live_cluster import LiveCluster, wait_until
from trial_checks import TrialError

from pinotpy.cli.rsvp_stream import TABLE
from pinotpy.errors import RemoteError

pytestmark = [pytest.mark.cluster, pytest.mark.zookeeper]

PATIENCE_S = 300.0


class Twin:
    """The cluster of the trial, as processes."""

    def __init__(self, cluster: LiveCluster) -> None:
        self.cluster = cluster
        self.rows_seen = 0

    def ask(self, query: str, dialect: str = "pql") -> dict[str, Any]:
        return self.cluster.query(query, dialect)

    def rest(self, method: str, path: str) -> dict[str, Any]:
        answer = httpx.request(method, self.cluster.controller_url + path, timeout=60)
        found: dict[str, Any] = answer.raise_for_status().json()
        return found

    def wait_until(self, condition: Callable[[], bool], timeout_s: float, what: str) -> None:
        def holds() -> bool:
            try:
                return condition()
            except (TrialError, httpx.HTTPError) as error:
                raise RemoteError(str(error)) from error  # not yet

        wait_until(holds, PATIENCE_S, what)


def write_rsvps(cluster: LiveCluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pinotpy", "stream-rsvps", "--controller-url", cluster.controller_url, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_rows_of_the_stream_survive_every_restart(tmp_path: Path) -> None:
    cluster = LiveCluster(tmp_path)
    try:
        nowhere = write_rsvps(cluster)
        assert nowhere.returncode == 1 and "expected one of --kafka-broker-list" in nowhere.stderr
        stream = ("--stream-directory", str(tmp_path / "streams"), "--rate", "500", "--seconds", "2")
        for _ in range(2):  # the second run finds the table, and writes other RSVPs
            done = write_rsvps(cluster, *stream)
            assert done.returncode == 0 and f"table {TABLE} reads them" in done.stdout, done.stderr
        twin = Twin(cluster)
        wait_for_rows(twin)
        commit_now(twin)
        for daemon in ("server-0", "server-1", "broker", "controller"):
            cluster.processes.kill(daemon)
            cluster.processes.restart(daemon)
            wait_for_rows(twin)
        before = twin.rows_seen
        assert write_rsvps(cluster, *stream).returncode == 0
        twin.wait_until(lambda: count_rows(twin) > before, PATIENCE_S, "the stream is read on")
    finally:
        cluster.close()
