"""Proves on real processes that replicas and the deep store heal each other: a server without its files gets a segment
whose archive is damaged in the deep store from the other replica; the lead controller rebuilds damaged and missing
archives, byte by byte as they were uploaded; where nobody has a good copy, uploading the archive again and resetting
the replicas brings all back. What a server was reading when it died of a signal is checked whole before it is served
again; one that cannot load a segment is ready without it where another serves it, and tells of it. The oracles are the
rows and the archives that were uploaded.
"""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import orjson
import pyarrow as pa
import pytest
from live_cluster import LiveCluster, wait_until

from pinotpy.cli.daemon_process import DaemonProcess
from pinotpy.errors import PinotError

pytestmark = [pytest.mark.cluster, pytest.mark.full]

PATIENCE_S = 120.0
ROWS = 500
SEGMENT, TABLE = "rides_0", "rides_OFFLINE"
# Hashes of long texts: a server is reading nearly all the time.
LONG = "SELECT COUNT(*), COUNT(DISTINCT SHA512(TOUTF8(REPEAT(CAST(fare AS VARCHAR), 20000)))) FROM rides"
SCHEMA = {
    "schemaName": "rides",
    "dimensionFieldSpecs": [{"name": "city", "dataType": "STRING"}],
    "metricFieldSpecs": [{"name": "fare", "dataType": "LONG"}],
}
CONFIG = {
    "tableName": "rides",
    "tableType": "OFFLINE",
    "segmentsConfig": {"replication": "2"},
    "tenants": {},
    "tableIndexConfig": {"invertedIndexColumns": ["city"]},
    "metadata": {},
}


def rows(number: int) -> list[pa.RecordBatch]:
    fares = pa.array(range(number * ROWS, (number + 1) * ROWS), pa.int64())
    return [pa.RecordBatch.from_pydict({"city": pa.array([f"c{i % 7}" for i in range(ROWS)]), "fare": fares})]


class Scene:
    """The cluster, and the archive of one of its two segments."""

    def __init__(self, folder: Path) -> None:
        # Archives are read only when somebody misses them: what a test damages stays so until it wants.
        (folder / "controller.properties").write_text(
            "pinotpy.controller.deepStoreScrub.frequencyInSeconds=0\ncontroller.periodic.initialDelayInSeconds=3600\n"
        )
        places = ("--config-file", str(folder / "controller.properties"), "--data-dir", str(folder / "deep-store"))
        self.cluster = LiveCluster(folder, controller_options=places)
        # Uploaded without the index that each server adds then: what it gives to others must be without it.
        plain = CONFIG | {"tableIndexConfig": {}}
        self.cluster.controller.add_schema(SCHEMA)
        self.cluster.controller.add_table(CONFIG)
        self.num_segments = 2
        for number in range(self.num_segments):
            self.cluster.upload(SCHEMA, plain, f"rides_{number}", rows(number))
        self.cluster.controller.wait_until_online("rides", timeout_s=PATIENCE_S)
        self.uploaded = folder / "built" / f"{SEGMENT}.tar.gz"
        (self.archive,) = (folder / "deep-store" / "store" / "segments" / "rides" / SEGMENT).iterdir()
        assert self.archive.read_bytes() == self.uploaded.read_bytes()

    def damage(self) -> None:
        content = bytearray(self.uploaded.read_bytes())
        content[len(content) // 2] ^= 1
        damaged = self.archive.with_name(".damaged")  # a new file: the old one may share its bytes with another
        damaged.write_bytes(content)
        damaged.replace(self.archive)

    def is_whole(self) -> bool:
        return self.archive.is_file() and self.archive.read_bytes() == self.uploaded.read_bytes()

    def server(self, number: int) -> DaemonProcess:
        return self.cluster.processes.daemons[f"server-{number}"]

    def lose_files(self, *numbers: int) -> None:
        """Restart servers without the segment's files."""
        for number in numbers:
            self.cluster.processes.stop(f"server-{number}")
            shutil.rmtree(self.cluster.directory / f"server-{number}" / "index" / TABLE / SEGMENT)
        processes = self.cluster.processes
        names = [f"server-{number}" for number in numbers]
        processes.wait_ready(*[processes.launch(name, *processes.daemons[name].args) for name in names])

    def states(self) -> list[str]:
        view = self.cluster.controller.external_view("rides")["OFFLINE"] or {}
        return sorted(view.get(SEGMENT, {}).values())

    def answers_right(self) -> bool:
        answer = self.cluster.query("SELECT COUNT(*), SUM(fare) FROM rides WHERE city <> ''")
        total = self.num_segments * ROWS
        values = [each["value"] for each in answer.get("aggregationResults", [])]
        return not answer["exceptions"] and values == [str(total), f"{total * (total - 1) // 2}.00000"]

    def deep_store(self) -> dict[str, Any]:
        (half,) = httpx.get(f"{self.cluster.controller_url}/debug/tables/rides", timeout=60).raise_for_status().json()
        found: dict[str, Any] = half["deepStore"]
        return found

    def scrub(self) -> None:
        url = f"{self.cluster.controller_url}/periodictask/run"
        httpx.post(url, params={"taskname": "DeepStoreScrub"}, timeout=60).raise_for_status()

    def upload(self) -> None:
        self.cluster.controller.upload_segment(self.uploaded, "rides")

    def reset(self) -> None:
        httpx.post(f"{self.cluster.controller_url}/segments/{TABLE}/{SEGMENT}/reset", timeout=60).raise_for_status()


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    started = Scene(tmp_path_factory.mktemp("healing"))
    try:
        yield started
    finally:
        statuses = started.cluster.close()
    assert set(statuses.values()) <= {0}, statuses


def test_a_server_gets_from_its_replica_what_is_damaged_in_the_deep_store_and_the_leader_mends_it(scene: Scene) -> None:
    scene.damage()
    scene.lose_files(0)
    wait_until(lambda: scene.states() == ["ONLINE", "ONLINE"], PATIENCE_S, "both replicas serve")
    wait_until(scene.answers_right, PATIENCE_S, "answers are right")
    metrics = httpx.get(f"{scene.server(0).ready['url']}/metrics", timeout=60).text
    counted = [line for line in metrics.splitlines() if "FetchedFromPeers" in line and not line.startswith("#")]
    assert counted and 'rides_OFFLINE"' in counted[0] and float(counted[0].split()[-1]) == 1

    def is_told() -> bool:
        faults = [each for each in scene.deep_store()["serverFaults"] if each["segmentName"] == SEGMENT]
        return [bool(each["reason"]) and each["givenBy"] for each in faults] == [scene.server(1).ready["url"]]

    wait_until(is_told, PATIENCE_S, "the fault is told")

    scene.scrub()
    wait_until(scene.is_whole, PATIENCE_S, "the archive is as it was uploaded")
    wait_until(
        lambda: scene.deep_store()["numArchivesRepaired"] >= 1 and not scene.deep_store()["serverFaults"],
        PATIENCE_S,
        "it is known to be mended",
    )


def test_a_missing_archive_is_rebuilt_from_a_replica_with_the_crc_of_its_record(scene: Scene) -> None:
    record = httpx.get(f"{scene.cluster.controller_url}/segments/rides/{SEGMENT}/metadata", timeout=60).json()
    scene.archive.unlink()
    scene.scrub()
    wait_until(scene.is_whole, PATIENCE_S, "the archive is as it was uploaded")
    after = httpx.get(f"{scene.cluster.controller_url}/segments/rides/{SEGMENT}/metadata", timeout=60).json()
    assert after == record and scene.archive.name == f"{record['segment.crc']}.tar.gz"


def test_where_nobody_has_a_good_copy_the_upload_and_a_reset_bring_all_back(scene: Scene) -> None:
    scene.damage()
    scene.lose_files(0, 1)
    wait_until(lambda: scene.states() == ["ERROR", "ERROR"], PATIENCE_S, "nobody has it")
    scene.scrub()

    def is_told() -> bool:
        return [each["state"] for each in scene.deep_store()["findings"]] == ["DAMAGED"]

    wait_until(is_told, PATIENCE_S, "the damage is told")
    with pytest.raises(PinotError):
        scene.cluster.controller.wait_until_online("rides", timeout_s=0.1)
    scene.upload()
    assert scene.is_whole()
    scene.reset()
    wait_until(lambda: scene.states() == ["ONLINE", "ONLINE"], PATIENCE_S, "both replicas serve")
    wait_until(scene.answers_right, PATIENCE_S, "answers are right")


def test_bytes_that_change_under_a_running_server_are_in_no_answer_and_are_replaced(scene: Scene) -> None:
    assert all(scene.answers_right() for _ in range(10)), "both servers have read all bytes by then"
    file = scene.cluster.directory / "server-0" / "index" / TABLE / SEGMENT / "columns"
    sound = file.read_bytes()
    file.chmod(0o600)
    with file.open("r+b") as stream:  # in place: the server has the file mapped
        for position in range(64, len(sound), 16):
            stream.seek(position)
            stream.write(bytes([sound[position] ^ 1]))
    time.sleep(0.1)  # longer than servers pause between two looks at their files (docs/reliability.md)
    assert all(scene.answers_right() for _ in range(20))
    wait_until(lambda: file.read_bytes() == sound, PATIENCE_S, "the segment was fetched anew")
    wait_until(lambda: scene.states() == ["ONLINE", "ONLINE"], PATIENCE_S, "both replicas serve")
    metrics = httpx.get(f"{scene.server(0).ready['url']}/metrics", timeout=60).text
    counted = [line for line in metrics.splitlines() if "segmentsFoundDamaged" in line and not line.startswith("#")]
    assert counted and float(counted[0].split()[-1]) == 1
    assert scene.answers_right()


def being_read(folder: Path) -> set[str]:
    """Segments that queries are reading, or were when the server died, as it marks them."""
    counts = np.fromfile(folder / "counts", np.uint32)
    names = [orjson.loads(line)[1] for line in (folder / "segments").read_bytes().splitlines()]
    return {name for slot, name in enumerate(names, 1) if counts[slot]}


@contextmanager
def asked_without_end(scene: Scene) -> Iterator[list[bool]]:
    """Long queries from several threads; whether each answer that claims to be whole was right."""
    answers: list[bool] = []
    done = threading.Event()

    def ask() -> None:
        while not done.is_set():
            answer = scene.cluster.query(LONG, "sql")
            total = scene.num_segments * ROWS
            answers.append(bool(answer["exceptions"]) or answer["resultTable"]["rows"] == [[total, total]])

    threads = [threading.Thread(target=ask, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        yield answers
    finally:
        done.set()
        for thread in threads:
            thread.join(PATIENCE_S)


def test_what_was_read_when_a_server_died_of_a_signal_is_checked_whole_before_it_is_served(scene: Scene) -> None:
    folder = scene.cluster.directory / "server-0" / "index"
    file = folder / TABLE / SEGMENT / "columns"

    def dies_reading() -> bool:
        server = scene.server(0)
        wait_until(lambda: SEGMENT in being_read(folder / ".reading"), PATIENCE_S, "it reads the segment")
        os.kill(server.pid, signal.SIGSEGV)
        assert server.process.wait(PATIENCE_S) == -signal.SIGSEGV
        if SEGMENT in being_read(folder / ".reading"):
            return True
        # Its other threads go on until it is dead, and had just ended all of their queries.
        scene.cluster.processes.wait_ready(scene.cluster.processes.launch("server-0", *server.args))
        return False

    with asked_without_end(scene) as answers:
        wait_until(dies_reading, PATIENCE_S, "it dies while it reads the segment")
        num_answers = len(answers)
        wait_until(lambda: len(answers) > num_answers + 4, PATIENCE_S, "the other replica answers")
    assert all(answers)

    server = scene.server(0)
    sound, before = file.read_bytes(), file.stat()
    middle = len(sound) // 2
    file.chmod(0o600)
    file.write_bytes(sound[:middle] + bytes([sound[middle] ^ 1]) + sound[middle + 1 :])
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))  # nothing tells of it: a load would trust it
    processes = scene.cluster.processes
    restarted = processes.launch("server-0", *server.args)
    # No query is asked until it serves the segment: none can have met the damage.
    admin = f"http://127.0.0.1:{server.args[server.args.index('--server-admin-port') + 1]}"

    def serves_it() -> bool:
        try:
            return SEGMENT in httpx.get(f"{admin}/tables/{TABLE}/segments", timeout=60).json().get("segments", [])
        except httpx.TransportError:
            return False

    wait_until(serves_it, PATIENCE_S, "it serves the segment")
    assert file.read_bytes() == sound, "fetched anew before it was served"
    processes.wait_ready(restarted)
    log = restarted.log.read_text()
    assert f"local segment refused segment={SEGMENT}" in log and "does not match its CRC" in log
    wait_until(lambda: scene.states() == ["ONLINE", "ONLINE"], PATIENCE_S, "both replicas serve")
    assert all(scene.answers_right() for _ in range(20))


def test_a_server_without_one_of_its_segments_is_ready_and_tells_of_it_where_another_serves_it(scene: Scene) -> None:
    url = scene.server(0).ready["url"]
    arriving = scene.cluster.directory / "server-0" / "segments" / "arriving"
    away = arriving.rename(arriving.with_name("away"))  # it can take in no segment
    name = f"rides_{scene.num_segments}"
    scene.cluster.upload(SCHEMA, CONFIG, name, rows(scene.num_segments))

    def states() -> list[str]:
        view = scene.cluster.controller.external_view("rides")["OFFLINE"] or {}
        return sorted(view.get(name, {}).values())

    wait_until(lambda: states() == ["ERROR", "ONLINE"], PATIENCE_S, "one of two replicas serves it")

    def tells() -> bool:
        answer = httpx.get(f"{url}/health/readiness", timeout=60)
        return (answer.status_code, answer.text) == (200, "OK\n1 segments are in ERROR here")

    wait_until(tells, PATIENCE_S, "it is ready, and says what is bad")
    assert httpx.get(f"{url}/health", timeout=60).status_code == 200
    assert f"in ERROR here: {TABLE}/{name}" in scene.server(0).log.read_text(), "by name in its log"
    scene.num_segments += 1
    wait_until(scene.answers_right, PATIENCE_S, "the other replica answers")

    away.rename(arriving)
    httpx.post(f"{scene.cluster.controller_url}/segments/{TABLE}/{name}/reset", timeout=60).raise_for_status()
    wait_until(lambda: states() == ["ONLINE", "ONLINE"], PATIENCE_S, "both replicas serve it")

    def is_whole() -> bool:
        return httpx.get(f"{url}/health/readiness", timeout=60).text == "OK"

    wait_until(is_whole, PATIENCE_S, "nothing is bad")
