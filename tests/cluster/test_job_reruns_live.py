"""Proves on a real cluster that a job that runs again after its files changed leaves the rows of each file in the table
once: files added, corrected, renamed, moved, copied and removed, in tables that are appended to and refreshed, compared
with DuckDB's reading of the same files; that what would double rows is refused and changes nothing; and that a push
killed in between and made again is as one.
"""

from __future__ import annotations

import csv
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from live_cluster import LiveCluster, wait_until

from pinotpy.errors import AlreadyExistsError
from pinotpy.ingest.jobs.pushing import empty_files
from pinotpy.ingest.jobs.report import JobReport
from pinotpy.ingest.jobs.run import run_job
from pinotpy.ingest.jobs.spec import IngestionJobSpec, read_job_spec
from pinotpy.ingest.push.job import push_segments

pytestmark = [pytest.mark.cluster, pytest.mark.zookeeper]

ROWS = 200
# Names by the file's place among all: each file that comes or goes gives others new names. And names by the file and
# its time range.
NUMBERED = "{type: simple, configs: {use.global.directory.sequence.id: 'true'}}"
BY_FILE = (
    r"{type: inputFile, configs: {file.path.pattern: '.+/(\w+)\.csv', segment.name.template: "
    r"'appended_${filePathPattern:\1}'}}"
)
SPEC = """
jobType: SegmentCreation
inputDirURI: {folder}/{place}
includeFileNamePattern: 'glob:**/*.csv'
outputDirURI: {folder}/output
overwriteOutput: true
segmentCreationJobParallelism: 1
tableSpec:
  tableName: {table}
  schemaURI: '{controller}/tables/{table}/schema'
  tableConfigURI: '{controller}/tables/{table}'
segmentNameGeneratorSpec: {names}
pinotClusterSpecs: [{{controllerURI: '{controller}'}}]
pushJobSpec: {{pushParallelism: 2}}
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    started = LiveCluster(tmp_path_factory.mktemp("reruns"), num_servers=1)
    try:
        yield started
    finally:
        started.close()


class Rerun:
    """A table, the folder of files that its job reads, and those whose rows it should have: `expected`."""

    def __init__(self, cluster: LiveCluster, folder: Path, table: str, push_type: str, names: str = NUMBERED) -> None:
        self.cluster, self.folder, self.table, self.names = cluster, folder, table, names
        self.files = folder / "in"
        self.files.mkdir()
        self.gone: list[Path] = []
        cluster.controller.add_schema(
            {
                "schemaName": table,
                "dimensionFieldSpecs": [{"name": "town", "dataType": "STRING"}],
                "metricFieldSpecs": [{"name": "amount", "dataType": "LONG"}],
                "dateTimeFieldSpecs": [
                    {"name": "day", "dataType": "INT", "format": "1:DAYS:EPOCH", "granularity": "1:DAYS"}
                ],
            }
        )
        segments = {"timeColumnName": "day", "replication": "1", "segmentPushType": push_type}
        cluster.controller.add_table(
            {
                "tableName": table,
                "tableType": "OFFLINE",
                "segmentsConfig": segments,
                "tenants": {},
                "tableIndexConfig": {"loadMode": "MMAP"},
                "metadata": {},
            }
        )

    def write(self, name: str, seed: int, *, first_day: int = 18_000) -> Path:
        random = np.random.default_rng(seed)
        place = self.files / name
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("town", "amount", "day"))
            writer.writerows(
                (f"town {town}", amount, first_day + day)
                for town, amount, day in zip(
                    random.integers(0, 9, ROWS), random.integers(0, 999, ROWS), random.integers(0, 4, ROWS), strict=True
                )
            )
        return place

    def spec(self, place: str = "in", more: str = "") -> IngestionJobSpec:
        return read_job_spec(
            SPEC.format(
                folder=self.folder,
                place=place,
                table=self.table,
                names=self.names,
                controller=self.cluster.controller_url,
            )
            + more
        )

    def build(self, spec: IngestionJobSpec) -> JobReport:
        shutil.rmtree(self.folder / "output", ignore_errors=True)
        report = run_job(spec)
        assert report.error is None, report.error
        return report

    def run(self, place: str = "in", more: str = "") -> dict[str, Any]:
        """Build and push; the push's report of the cluster."""
        spec = self.spec(place, more)
        built = self.build(spec)
        pushes = spec.model_copy(update={"job_type": type(spec.job_type)("SegmentCreationAndTarPush")})
        report = push_segments(
            pushes, [segment.uri for segment in built.segments], are_whole=True, empty_files=empty_files(built)
        )
        assert not report.has_failed, report.causes()
        cluster: dict[str, Any] = report.to_json()["clusters"][0]
        return cluster

    def answer(self) -> list[list[Any]]:
        found = self.cluster.query(
            f"SELECT town, COUNT(*), SUM(amount), MIN(day), MAX(day) FROM {self.table} GROUP BY town ORDER BY town "
            "LIMIT 100",
            "sql",
        )
        assert not found["exceptions"], found["exceptions"]
        return [[town, *map(int, numbers)] for town, *numbers in found["resultTable"]["rows"]]

    def expected(self) -> list[list[Any]]:
        """DuckDB's reading of the files, and of those that are gone and keep their rows."""
        files = [str(file) for file in [*self.files.rglob("*.csv"), *self.gone]]
        text = (
            "SELECT town, COUNT(*), SUM(amount)::BIGINT, MIN(day), MAX(day) FROM read_csv(?) GROUP BY town ORDER "
            "BY town"
        )
        return [list(row) for row in duckdb.execute(text, [files]).fetchall()]

    def check(self) -> None:
        wait_until(lambda: self.answer() == self.expected(), 60, "the table has the rows of the files, once")


def test_an_appended_table_has_the_rows_of_each_file_once(cluster: LiveCluster, tmp_path: Path) -> None:
    job = Rerun(cluster, tmp_path, "appended", "APPEND", BY_FILE)
    for number in range(6):
        job.write(f"f{number}.csv", number)
    assert job.run()["segmentsPushed"] == 6
    job.check()
    # One that sorts first, and one corrected: other days, so another name.
    job.write("a.csv", 90)
    job.write("f3.csv", 91, first_day=18_200)
    job.run()
    job.check()
    # Renamed, moved, and a copy beside its original: both are wanted.
    (job.files / "f1.csv").rename(job.files / "g1.csv")
    (job.files / "later").mkdir()
    (job.files / "f2.csv").rename(job.files / "later" / "f2.csv")
    shutil.copy(job.files / "f0.csv", job.files / "h0.csv")
    job.run()
    job.check()
    again = job.run()
    assert (again["segmentsPushed"], again["segmentsReplaced"]) == (0, 0)
    # A file that is gone keeps its rows here, and the report says so.
    job.gone.append((job.files / "f5.csv").rename(tmp_path / "f5.csv"))
    assert job.run()["segmentsOfOtherFiles"] == 1
    job.check()
    # A file that has no row any more: what the table has of it goes.
    (job.files / "g1.csv").write_text("town,amount,day\n")
    assert job.run()["segmentsReplaced"] == 1
    job.check()
    # A job over copies of what is there would add their rows once more.
    (tmp_path / "copies").mkdir()
    shutil.copy(job.files / "f4.csv", tmp_path / "copies" / "other.csv")
    with pytest.raises(AlreadyExistsError, match=f"{ROWS} rows would be there twice.*--allow-duplicates"):
        job.run("copies")
    job.check()
    assert job.run("copies", "pinotpy: {allowDuplicates: true}\n")["rowsTwice"] == ROWS
    job.gone.append(tmp_path / "copies" / "other.csv")
    job.check()


def test_a_refreshed_table_is_what_lies_in_the_folder(cluster: LiveCluster, tmp_path: Path) -> None:
    job = Rerun(cluster, tmp_path, "refreshed", "REFRESH")
    for number in range(4):
        job.write(f"f{number}.csv", number)
    job.run()
    job.check()
    job.write("a.csv", 90)
    job.write("f3.csv", 91, first_day=18_200)
    (job.files / "f1.csv").rename(job.files / "g1.csv")
    (job.files / "f0.csv").unlink()
    (job.files / "f2.csv").write_text("town,amount,day\n")
    job.run()
    job.check()


def test_a_push_that_is_killed_and_made_again_is_as_one(cluster: LiveCluster, tmp_path: Path) -> None:
    job = Rerun(cluster, tmp_path, "killed", "APPEND")
    for number in range(8):
        job.write(f"f{number}.csv", number)
    job.run()
    job.check()
    before = job.expected()
    for number in range(0, 8, 2):
        job.write(f"f{number}.csv", 100 + number, first_day=18_300)
    built = {segment.segment_name for segment in job.build(job.spec()).segments}
    command = [
        sys.executable,
        "-m",
        "pinotpy",
        "upload-segment",
        "--controller-url",
        cluster.controller_url,
        "--table-name",
        job.table,
        "--parallelism",
        "1",
    ]
    command += ["--segment-dir", str(tmp_path / "output")]
    known = set(cluster.controller.segment_records(job.table))
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as pushing:
        # What comes is hidden until all of it is there.
        wait_until(
            lambda: set(cluster.controller.segment_records(job.table)) - known, 60, "the first new segment is there"
        )
        pushing.kill()
    assert built - known, "names that the table did not have"
    assert job.answer() in (before, job.expected())
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    job.check()
