"""Proves pushes on a real cluster: every form of a push gives the answers that DuckDB gives over the same rows, a
controller that is killed while segments come in loses and doubles nothing, and a replacement under continuous queries
shows the old rows or the new ones, never a mixture, never a hole.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from live_cluster import LiveCluster, wait_until

from pinotpy.cluster.paths import ClusterPaths
from pinotpy.cluster.property_store import PropertyStore
from pinotpy.cluster.segment_uploads import SegmentUploads
from pinotpy.cluster.zookeeper import ZooKeeperStore
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.ingest.push.push import push
from pinotpy.ingest.push.report import Outcome
from pinotpy.ingest.push.settings import PushKind, PushSettings, ReplaceScope
from pinotpy.segment.archive.archive import pack_segment
from pinotpy.segment.build.builder import build_segment

pytestmark = [pytest.mark.cluster, pytest.mark.zookeeper]

DAY_MS = 86_400_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("push")


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[LiveCluster]:
    allowed = f"file://{folder}/shared/"
    (folder / "shared").mkdir()
    with pytest.MonkeyPatch.context() as patched:
        # Servers have no list: what lies elsewhere they get through the controller.
        patched.setenv("PINOTPY_CONTROLLER_SEGMENT_URIS_ALLOWED", allowed)
        started = LiveCluster(folder)
        try:
            yield started
        finally:
            started.close()


def schema_of(table: str) -> dict[str, Any]:
    return {
        "schemaName": table,
        "dimensionFieldSpecs": [{"name": "city", "dataType": "STRING"}],
        "metricFieldSpecs": [{"name": "amount", "dataType": "LONG"}],
        "dateTimeFieldSpecs": [{"name": "day", "dataType": "INT", "format": "1:DAYS:EPOCH", "granularity": "1:DAYS"}],
    }


def config_of(table: str) -> dict[str, Any]:
    return {
        "tableName": table,
        "tableType": "OFFLINE",
        "segmentsConfig": {"timeColumnName": "day", "replication": "2", "segmentPushType": "APPEND"},
        "tenants": {},
        "tableIndexConfig": {"loadMode": "MMAP"},
        "metadata": {},
    }


def rows(count: int, seed: int, *, first_day: int = 18_000, num_days: int = 5) -> pa.RecordBatch:
    random = np.random.default_rng(seed)
    return pa.RecordBatch.from_pydict(
        {
            "city": pa.array([f"city {value}" for value in random.integers(0, 40, count)]),
            "amount": pa.array(random.integers(-1_000, 1_000, count), pa.int64()),
            "day": pa.array((first_day + random.integers(0, num_days, count)).astype(np.int32)),
        }
    )


def built(folder: Path, table: str, batches: Sequence[pa.RecordBatch], *, prefix: str = "") -> list[str]:
    """An archive of each batch; their URIs."""
    folder.mkdir(parents=True, exist_ok=True)
    schema, config = Schema.from_json(schema_of(table)), TableConfig.from_json(config_of(table))
    archives = []
    for number, batch in enumerate(batches):
        name = f"{table}_{prefix}{number}"
        build_segment(schema, config, [batch], folder / "built", name, raw_table_name=table)
        archives.append(f"file://{pack_segment(folder / 'built' / name, folder / f'{name}.tar.gz')}")
    return archives


def settings(cluster: LiveCluster, table: str, **changes: Any) -> PushSettings:
    return PushSettings(
        **{
            "table": table,
            "controllers": (cluster.controller_url,),
            "parallelism": 3,
            "online_timeout_s": 60.0,
            **changes,
        }
    )


def answer(cluster: LiveCluster, table: str) -> list[list[Any]]:
    found = cluster.query(
        f"SELECT city, COUNT(*), SUM(amount) FROM {table} GROUP BY city ORDER BY city LIMIT 1000", "sql"
    )
    assert not found["exceptions"], found["exceptions"]
    return [[city, int(count), int(total)] for city, count, total in found["resultTable"]["rows"]]


def expected(batches: Sequence[pa.RecordBatch]) -> list[list[Any]]:
    pushed_rows = pa.Table.from_batches(batches)
    assert pushed_rows.num_rows
    return [
        list(row)
        for row in duckdb.sql(
            "SELECT city, COUNT(*), SUM(amount) FROM pushed_rows GROUP BY city ORDER BY city"
        ).fetchall()
    ]


@pytest.mark.parametrize("kind", ["tar", "uri", "metadata", "metadata_copied"])
def test_every_form_of_a_push_gives_the_rows_that_were_pushed(cluster: LiveCluster, folder: Path, kind: str) -> None:
    table = f"push_{kind}"
    batches = [rows(2_000, seed) for seed in range(5)]
    archives = built(folder / "shared" / table, table, batches)
    cluster.controller.add_schema(schema_of(table))
    cluster.controller.add_table(config_of(table))
    asked = settings(cluster, table, kind=PushKind(kind.partition("_")[0]), copy_to_deep_store=kind.endswith("copied"))
    report = push(asked, archives)
    assert (report.has_failed, report.count(Outcome.PUSHED)) == (False, 5), report.causes()
    assert answer(cluster, table) == expected(batches)
    records = cluster.controller.segment_records(table)
    stays = kind == "metadata"
    assert {record["segment.download.url"].startswith("file://") for record in records.values()} == {stays}
    assert {segment.name: str(segment.crc) for segment in report.clusters[0].segments} == {
        name: record["segment.crc"] for name, record in records.items()
    }
    # The same again sends nothing, new content of one segment sends that one, and queries see it.
    assert push(asked, archives).count(Outcome.PRESENT) == 5
    batches[1] = rows(3_000, 99)
    other = built(folder / "shared" / table / "again", table, batches[:2])[1]
    again = push(asked, [archives[0], other])
    assert [segment.outcome for segment in again.clusters[0].segments] == [Outcome.PRESENT, Outcome.PUSHED]
    wait_until(lambda: answer(cluster, table) == expected(batches), 120, "the new content answers")


def test_addresses_that_are_not_allowed_are_refused(cluster: LiveCluster, folder: Path) -> None:
    table = "push_refused"
    archives = built(folder / "private", table, [rows(10, 1)])
    cluster.controller.add_schema(schema_of(table))
    cluster.controller.add_table(config_of(table))
    for kind in (PushKind.URI, PushKind.METADATA):
        for prefix in ("", "http://169.254.169.254", "http://127.0.0.1:9", f"file://{folder}/shared/../private"):
            report = push(settings(cluster, table, kind=kind, uri_prefix=prefix), archives)
            assert report.count(Outcome.FAILED) == 1, (kind, prefix)
            assert report.clusters[0].segments[0].attempts == 1, (kind, prefix)
    assert cluster.controller.segments(table) == {"OFFLINE": []}


def recorded_archives(cluster: LiveCluster, table: str) -> tuple[set[tuple[str, int]], set[tuple[str, int]]]:
    """(segment, CRC) of the archives that records of segments name, and of those that uploads recorded that they may
    leave.
    """
    store, paths = ZooKeeperStore(cluster.zk_address), ClusterPaths("TestCluster")
    try:
        named = {
            (name, segment.crc) for name, segment in PropertyStore(store, paths).segments(f"{table}_OFFLINE").items()
        }
        return named, {(upload.segment, crc) for upload in SegmentUploads(store, paths).all() for crc in upload.crcs}
    finally:
        store.close()


def test_a_controller_killed_in_the_middle_of_a_push_loses_and_doubles_nothing(
    cluster: LiveCluster, folder: Path
) -> None:
    table = "push_killed"
    batches = [rows(20_000, seed) for seed in range(24)]
    archives = built(folder / "killed", table, batches)
    cluster.controller.add_schema(schema_of(table))
    cluster.controller.add_table(config_of(table))
    done: list[str] = []
    enough = threading.Event()

    def progress(segment: Any) -> None:
        done.append(segment.name)
        if len(done) >= 5:
            enough.set()

    # One attempt each: what is under way when the controller dies fails, and so does all that comes after it.
    first = replace(settings(cluster, table, attempts_max=1, parallelism=4), online_timeout_s=None)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(push, first, archives, progress=progress)
        assert enough.wait(60)
        cluster.processes.kill("controller")
        report = running.result(120)
    pushed = report.count(Outcome.PUSHED)
    assert 5 <= pushed < 24, report.causes()
    # No record lacks its archive, and whoever leads next finds in a record what was left that none names.
    store = folder / "deep-store" / "store" / "segments" / table
    named, recorded = recorded_archives(cluster, table)
    lying = {(path.parent.name, int(path.name.partition(".")[0])) for path in store.rglob("*.tar.gz")}
    assert named <= lying and lying - named <= recorded
    with ThreadPoolExecutor(1) as pool:
        # Taken up while the controller is still down: the push waits for it.
        again = pool.submit(push, settings(cluster, table, attempts_max=20, retry_wait_ms=500), archives)
        cluster.processes.restart("controller")
        resumed = again.result(180)
    assert not resumed.has_failed, resumed.causes()
    # A segment may have been registered although its answer was lost, never the reverse.
    assert resumed.count(Outcome.PRESENT) >= pushed
    assert resumed.count(Outcome.PRESENT) + resumed.count(Outcome.PUSHED) == 24
    assert answer(cluster, table) == expected(batches)
    assert sorted(len(list(segment.iterdir())) for segment in store.iterdir()) == [1] * 24
    uploads = folder / "deep-store" / "uploads"
    assert not uploads.exists() or list(uploads.iterdir()) == [], "what the killed controller had half received is gone"


class Watch:
    """Asks for count and sum over and over; keeps every answer."""

    def __init__(self, cluster: LiveCluster, table: str) -> None:
        self._cluster, self._table, self._ended = cluster, table, threading.Event()
        self.seen: list[tuple[int, int]] = []
        self.faults: list[Any] = []
        self._threads = [threading.Thread(target=self._run) for _ in range(2)]

    def __enter__(self) -> Watch:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            found = self._cluster.query(f"SELECT COUNT(*), SUM(amount) FROM {self._table}", "sql")
            if found["exceptions"] or found.get("partialResult"):
                self.faults.append(found)
            else:
                ((count, total),) = found["resultTable"]["rows"]
                self.seen.append((int(count), int(total)))


def totals(batches: Sequence[pa.RecordBatch]) -> tuple[int, int]:
    return sum(batch.num_rows for batch in batches), int(
        sum(int(np.asarray(batch["amount"]).sum()) for batch in batches)
    )


def test_a_replacement_shows_the_old_rows_or_the_new_ones(cluster: LiveCluster, folder: Path) -> None:
    table = "push_replaced"
    old, new, third = ([rows(1_000 + 100 * seed, seed) for seed in range(start, start + 6)] for start in (0, 10, 20))
    first = built(folder / "replaced", table, old, prefix="a")
    second = built(folder / "replaced", table, new, prefix="b")
    cluster.controller.add_schema(schema_of(table))
    cluster.controller.add_table(config_of(table))
    assert not push(settings(cluster, table), first).has_failed
    assert answer(cluster, table) == expected(old)
    asked = settings(cluster, table, replace=ReplaceScope(), parallelism=2)
    with Watch(cluster, table) as watch:
        wait_until(lambda: len(watch.seen) > 10, 120, "queries run")
        report = push(asked, second)
        assert not report.has_failed, report.causes()
        wait_until(lambda: watch.seen[-1] == totals(new), 120, "the new rows answer")
        after = len(watch.seen)
        wait_until(lambda: len(watch.seen) > after + 20, 120, "queries go on")
    assert watch.faults == []
    assert set(watch.seen) == {totals(old), totals(new)}, "a mixture or a hole"
    replacement = report.clusters[0].replacement
    assert replacement is not None
    assert (replacement.is_complete, len(replacement.segments_from), len(replacement.segments_to)) == (True, 6, 6)
    assert answer(cluster, table) == expected(new)
    # The same once more changes nothing.
    again = push(asked, second)
    assert (again.has_failed, again.count(Outcome.PRESENT), again.clusters[0].replacement) == (False, 6, None)

    # A push that fails is reverted: the rows that answered go on answering.
    broken = built(folder / "replaced", table, third, prefix="c")
    torn = Path(broken[3].removeprefix("file://"))
    whole = torn.read_bytes()
    torn.write_bytes(whole[:-40])
    with Watch(cluster, table) as watch:
        failed = push(asked, broken)
        after = len(watch.seen)
        wait_until(lambda: len(watch.seen) > after + 20, 120, "queries go on")
    assert (failed.has_failed, failed.count(Outcome.FAILED)) == (True, 1)
    assert (watch.faults, set(watch.seen)) == ([], {totals(new)})
    # Mended and pushed again, it goes through.
    torn.write_bytes(whole)
    mended = push(asked, broken)
    assert not mended.has_failed, mended.causes()
    wait_until(lambda: answer(cluster, table) == expected(third), 120, "the mended rows answer")


def test_a_time_range_is_replaced_and_the_rest_stays(cluster: LiveCluster, folder: Path) -> None:
    table = "push_range"
    old = [rows(500, seed, first_day=18_000 + seed, num_days=1) for seed in range(6)]
    cluster.controller.add_schema(schema_of(table))
    cluster.controller.add_table(config_of(table))
    assert not push(settings(cluster, table), built(folder / "range", table, old, prefix="a")).has_failed
    new = [rows(800, 50, first_day=18_002, num_days=1), rows(900, 51, first_day=18_003, num_days=1)]
    scope = ReplaceScope(18_002 * DAY_MS, 18_004 * DAY_MS)
    with Watch(cluster, table) as watch:
        report = push(settings(cluster, table, replace=scope), built(folder / "range", table, new, prefix="b"))
        assert not report.has_failed, report.causes()
        kept = [*old[:2], *old[4:], *new]
        wait_until(lambda: bool(watch.seen) and watch.seen[-1] == totals(kept), 120, "the new rows answer")
    assert (watch.faults, set(watch.seen) <= {totals(old), totals(kept)}) == ([], True)
    assert answer(cluster, table) == expected(kept)


def test_a_replacement_whose_pusher_died_is_taken_up(cluster: LiveCluster, folder: Path) -> None:
    table = "push_taken_up"
    old, new = [rows(700, seed) for seed in range(3)], [rows(900, seed) for seed in range(10, 14)]
    cluster.controller.add_schema(schema_of(table))
    cluster.controller.add_table(config_of(table))
    assert not push(settings(cluster, table), built(folder / "taken", table, old, prefix="a")).has_failed
    archives = built(folder / "taken", table, new, prefix="b")
    names = [f"{table}_b{number}" for number in range(4)]
    # What a pusher does that dies after two segments.
    entry = cluster.controller.start_replace_segments(table, [f"{table}_a{number}" for number in range(3)], names)
    for uri in archives[:2]:
        cluster.controller.upload_segment(Path(uri.removeprefix("file://")), table)
    time.sleep(0.5)
    assert answer(cluster, table) == expected(old)
    report = push(settings(cluster, table, replace=ReplaceScope()), archives)
    assert not report.has_failed, report.causes()
    replacement = report.clusters[0].replacement
    assert replacement is not None
    assert (replacement.lineage_entry_id, report.count(Outcome.PRESENT), report.count(Outcome.PUSHED)) == (entry, 2, 2)
    wait_until(lambda: answer(cluster, table) == expected(new), 120, "the new rows answer")


def test_the_command_pushes_and_reports(cluster: LiveCluster, folder: Path) -> None:
    table = "push_command"
    batches = [rows(600, seed) for seed in range(3)]
    place = folder / "shared" / table
    built(place, table, batches)
    cluster.controller.add_schema(schema_of(table))
    cluster.controller.add_table(config_of(table))

    def run(*more: str) -> subprocess.CompletedProcess[str]:
        command = [
            sys.executable,
            "-m",
            "pinotpy",
            "upload-segment",
            "--controller-url",
            cluster.controller_url,
            "--table-name",
            table,
        ]
        return subprocess.run(
            [*command, "--segment-dir", str(place), *more], check=False, capture_output=True, text=True, timeout=120
        )

    document = json.loads(run("--json", "--parallelism", "3").stdout)
    assert (document["state"], document["clusters"][0]["segmentsPushed"]) == ("DONE", 3)
    assert answer(cluster, table) == expected(batches)
    unlisted = "have no list of their input files, so that nothing was compared"
    assert run().stdout == f"0 segments of table {table} uploaded and online, 3 were there already; 3 {unlisted}\n"
    assert (
        run("--again", "--push-type", "metadata").stdout
        == f"3 segments of table {table} uploaded and online; 3 {unlisted}\n"
    )
    refused = run("--table-name", "none")
    assert (refused.returncode, "none" in refused.stderr) == (1, True)
    assert run("--replace-table", "--replace-from", "2020-01-01").returncode == 1
    new = [rows(50, 77)]
    other = folder / "shared" / f"{table}-new"
    built(other, table, new, prefix="n")
    swapped = run("--segment-dir", str(other), "--replace-table")
    assert (swapped.returncode, swapped.stdout) == (
        0,
        f"1 segments of table {table} uploaded and online; they replaced 3; 1 {unlisted}\n",
    ), swapped.stderr
    wait_until(lambda: answer(cluster, table) == expected(new), 120, "the new rows answer")
