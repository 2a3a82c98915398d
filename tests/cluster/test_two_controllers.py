"""Proves on a real ZooKeeper with two real controllers: a change sent to the one that does not lead is made by the
leader, an upload lands where it arrives, and after SIGKILL of the leader the other one takes over within seconds and
loses nothing.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from controller_harness import PARTS_SCHEMA, PARTS_TABLE, build_parts_segment

pytestmark = [pytest.mark.cluster, pytest.mark.zookeeper]

COMMAND = "from pinotpy.cli.main import main; main()"


class Daemon:
    """One controller process."""

    def __init__(self, folder: Path, zk_address: str, cluster: str) -> None:
        folder.mkdir(parents=True)
        self._ready = folder / "ready.json"
        arguments = [
            "start-controller",
            "--controller-port",
            "0",
            "--zk-address",
            zk_address,
            "--cluster-name",
            cluster,
            "--data-dir",
            str(folder / "data"),
        ]
        with (folder / "log").open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", COMMAND, *arguments, "--ready-file", str(self._ready)], stdout=log, stderr=log
            )

    def is_ready(self) -> bool:
        assert self.process.poll() is None, "the controller ended while starting"
        return self._ready.exists()

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=json.loads(self._ready.read_text())["url"], timeout=120, trust_env=False)

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(60)


@pytest.fixture
def daemons(tmp_path: Path, zookeeper: str, eventually: Callable[..., float]) -> Iterator[list[Daemon]]:
    started = []
    try:
        for number in range(2):
            started.append(Daemon(tmp_path / f"controller-{number}", zookeeper, tmp_path.name.replace("_", "")))
            eventually(started[-1].is_ready, timeout_s=120, what="the controller is ready")
        yield started
    finally:
        for daemon in started:
            daemon.process.kill()
            daemon.process.wait(60)


def leader_of(client: httpx.Client) -> str | None:
    entries = client.get("/leader/tables").json()["leadControllerEntryMap"].values()
    return next((str(entry["leadControllerId"]) for entry in entries), None)


def test_changes_reach_the_leader_and_outlive_it(
    daemons: list[Daemon], tmp_path: Path, eventually: Callable[..., float]
) -> None:
    first, second = (daemon.client() for daemon in daemons)
    assert leader_of(second) == f"Controller_127.0.0.1_{first.base_url.port}"
    for port, kind, tag in (
        (1, "SERVER", "DefaultTenant_OFFLINE"),
        (2, "SERVER", "DefaultTenant_OFFLINE"),
        (3, "BROKER", "DefaultTenant_BROKER"),
    ):
        assert (
            second.post("/instances", json={"host": "localhost", "port": port, "type": kind, "tags": [tag]}).status_code
            == 200
        )
    assert second.post("/schemas", json=PARTS_SCHEMA).json()["status"] == "parts successfully added"
    assert second.post("/tables", json=PARTS_TABLE).json()["status"] == "Table parts_OFFLINE successfully added"
    assert second.post("/tables", json=PARTS_TABLE).status_code == 409

    def upload(client: httpx.Client, name: str) -> httpx.Response:
        archive = build_parts_segment(tmp_path / name, name)
        return client.post("/v2/segments?tableName=parts", files={"file": archive.read_bytes()})

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda number: upload((first, second)[number % 2], f"parts_{number}"), range(6)))
    assert [answer.status_code for answer in answers] == [200] * 6, [answer.text for answer in answers]
    assert first.get("/segments/parts").json() == [{"OFFLINE": [f"parts_{number}" for number in range(6)]}]
    # The bytes lie where they arrived; a server that asks the other controller gets a 404 and goes on.
    assert [client.get("/segments/parts/parts_0").status_code for client in (first, second)] == [200, 404]
    assert [client.get("/segments/parts/parts_1").status_code for client in (first, second)] == [404, 200]
    # What the leader refuses leaves nothing at the follower.
    refused = second.post(
        "/v2/segments?tableName=parts&allowRefresh=false",
        files={"file": build_parts_segment(tmp_path / "x", "parts_1", amounts=(9,)).read_bytes()},
    )
    assert refused.status_code == 409
    stored = tmp_path / "controller-1" / "data" / "store" / "segments" / "parts" / "parts_1"
    assert len(list(stored.iterdir())) == 1

    daemons[0].process.kill()
    took_s = eventually(
        lambda: leader_of(second) == f"Controller_127.0.0.1_{second.base_url.port}",
        timeout_s=120,
        what="the other one leads",
    )
    assert second.post("/schemas", json=PARTS_SCHEMA | {"schemaName": "later"}).status_code == 200
    assert upload(second, "parts_7").status_code == 200
    assert len(second.get("/tables/parts/idealstate").json()["OFFLINE"]) == 7
    print(f"the other controller led after {took_s:.1f} s")
    assert daemons[1].stop() == 0


def test_a_change_during_a_change_of_leaders_is_made_once_or_refused(
    daemons: list[Daemon], eventually: Callable[..., float]
) -> None:
    second = daemons[1].client()

    def add(number: int) -> Any:
        if number == 3:
            daemons[0].process.kill()
        return second.post("/schemas?override=false", json=PARTS_SCHEMA | {"schemaName": f"moving{number}"})

    answers = [add(number) for number in range(8)]
    eventually(
        lambda: leader_of(second) == f"Controller_127.0.0.1_{second.base_url.port}",
        timeout_s=120,
        what="the other one leads",
    )
    names = second.get("/schemas").json()
    for number, answer in enumerate(answers):
        # 503 says that nothing is known; 200 says that it is there.
        assert answer.status_code in (200, 503), answer.text
        if answer.status_code == 200:
            assert f"moving{number}" in names
    assert second.post("/schemas?override=false", json=PARTS_SCHEMA | {"schemaName": "after"}).status_code == 200
