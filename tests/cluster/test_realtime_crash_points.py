"""Proves that a process may end at each of the 19 points of completion, and stand still at some of them until its
session has ended and another does its work: every answer that says it is exact has exactly the stream's records, and in
the end none is lost or doubled, each segment starts where the one before it ends, and every one that ended is done.
See pinotpy/failpoints.py.
"""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from events_table import SCHEMA, table_config
from live_cluster import LiveCluster, wait_until
from stream_asking import Asking, Producing, stream_records, wait_until_done

from pinotpy.cli.daemon_process import DaemonProcess
from pinotpy.client.controller import ControllerClient
from pinotpy.cluster.realtime_records import SegmentStatus
from pinotpy.failpoints import FailPoint
from pinotpy.service.ports import free_port

pytestmark = [pytest.mark.cluster, pytest.mark.zookeeper, pytest.mark.full]

PATIENCE_S = 300.0
# A process that stands still loses its session after this long, and another takes its work.
SESSION_MS = 5_000
LEASE_S = "15"  # of a committer: how long the others wait for one that stands still
ZOMBIES = (FailPoint.COMMIT_STARTED, FailPoint.UPLOADED, FailPoint.SEALED, FailPoint.BEFORE_DONE)


@pytest.fixture
def points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "points"
    folder.mkdir()
    monkeypatch.setenv("PINOTPY_FAILPOINTS", str(folder))  # for the daemons
    return folder


@pytest.fixture
def cluster(tmp_path: Path, points: Path) -> Iterator[LiveCluster]:
    settings = tmp_path / "settings.json"
    settings.write_text(json.dumps({"pinot.zk.session.timeoutMs": SESSION_MS}))
    started = LiveCluster(tmp_path, num_servers=2, daemon_options=("--config-file", str(settings)))
    try:
        other = started.processes.launch(
            "controller-1", "start-controller", "--zk-address", started.zk_address, "--cluster-name", "TestCluster",
            "--controller-port", str(free_port()), "--data-dir", str(tmp_path / "deep-store"),
            "--config-file", str(settings),
        )  # fmt: skip
        started.processes.wait_ready(other)
        yield started
    finally:
        started.close()


def reached(points: Path, point: FailPoint, action: str) -> int:
    """Ask for it, and wait until a process is there; its pid."""
    (points / "drafts").mkdir(exist_ok=True)
    draft = points / "drafts" / point
    draft.write_text(action)
    draft.rename(points / point)
    found: list[int] = []

    def is_there() -> bool:
        found[:] = [int(each.name.split(".")[1]) for each in points.glob(f"{point}.*")]
        return bool(found)

    wait_until(is_there, PATIENCE_S, f"a process reaches {point} {point.name}")
    (points / f"{point}.{found[0]}").unlink()
    return found[0]


def wait_for_another(cluster: LiveCluster, pid: int) -> None:
    """Until the session of a daemon that stands still has ended, and what was being completed is done by others."""
    stopped = next(each for each in cluster.processes.daemons.values() if each.pid == pid)
    awake = next(each for name, each in cluster.processes.daemons.items()
                 if name.startswith("controller") and each is not stopped)  # fmt: skip
    with ControllerClient(awake.ready["url"]) as controller:
        if stopped.name.startswith("controller"):
            wait_until(lambda: leads(awake), PATIENCE_S, "the other controller leads")
        else:
            wait_until(lambda: not serves(controller, stopped), PATIENCE_S, f"{stopped.name} is gone")
        begun = unfinished(controller)
        wait_until(lambda: not begun & unfinished(controller), PATIENCE_S, "others complete what had begun")


def unfinished(controller: ControllerClient) -> set[str]:
    return {str(each.name) for each in stream_records(controller) if each.status is not SegmentStatus.DONE}


def leads(controller: DaemonProcess) -> bool:
    url = controller.ready["url"]
    entries = httpx.get(f"{url}/leader/tables", timeout=30).json()["leadControllerEntryMap"].values()
    return [each["leadControllerId"].rpartition("_")[2] for each in entries] == [url.rpartition(":")[2]]


def serves(controller: ControllerClient, server: DaemonProcess) -> bool:
    view = controller.external_view("events").get("REALTIME") or {}
    return any(server.ready["instance"] in replicas for replicas in view.values())


def test_completion_survives_the_end_of_a_process_at_each_point(
    cluster: LiveCluster, points: Path, tmp_path: Path
) -> None:
    producing = Producing.files(tmp_path / "topics")
    cluster.controller.add_schema(SCHEMA)
    config = table_config(tmp_path / "topics", rows=1_500)
    config["tableIndexConfig"]["streamConfigs"]["realtime.segment.commit.timeoutSeconds"] = LEASE_S
    cluster.controller.add_table(config)
    producing.start()
    asking = Asking(cluster, producing.truth)
    wait_until(lambda: asking.counts["right"] > 0, PATIENCE_S, "rows of all partitions are answered")
    asking.wrong.clear()  # one partition begins after the other
    ended: Counter[str] = Counter()
    try:
        for point in FailPoint:
            reached(points, point, "kill")
            dead: list[str] = []

            def has_ended(dead: list[str] = dead) -> bool:
                dead[:] = [name for name, each in cluster.processes.daemons.items() if each.process.poll() is not None]
                return bool(dead)

            wait_until(has_ended, PATIENCE_S, f"the process at {point} {point.name} is gone")
            ended[f"{point} {dead[0]}"] += 1
            assert dead[0].startswith("server" if point.startswith("S") else "controller")
            cluster.processes.restart(dead[0])
            assert not asking.wrong, f"{point} {point.name}: {asking.wrong[:3]}"
        for point in ZOMBIES:
            pid = reached(points, point, "stop")
            try:
                wait_for_another(cluster, pid)
            finally:
                os.kill(pid, signal.SIGCONT)
            ended[f"{point} stood still"] += 1
            assert not asking.wrong, f"{point} {point.name} stood still: {asking.wrong[:3]}"
    finally:
        expected = producing.stop()
        asking.stop()
        print(f"{producing.produced} records a partition, {dict(ended)}, answers {dict(asking.counts)}")
    assert not asking.wrong, asking.wrong[:3]
    wait_until(lambda: asking.rows() == expected, 900, "all rows are answered")
    assert wait_until_done(cluster) > len(FailPoint)
    wait_until(lambda: asking.rows() == expected, 900, "all rows are answered")
    assert not asking.wrong, asking.wrong[:3]
