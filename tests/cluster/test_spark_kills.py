"""Proves what becomes of a Spark job whose driver or executor dies: a killed driver takes its JVM along and leaves only
whole archives, the job that runs again gives the bytes of one that was left in peace; SIGTERM ends with status 143 and
no trace; an executor's JVM that dies (plain spark-submit on local-cluster, where a Java 17 or newer is found) changes
nothing in the result.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from job_data import archives, job, write_inputs
from processes import command_line, descendants

from pinotpy.ingest.jobs.run import run_job
from pinotpy.spark_jobs.java import find_spark_home

pytestmark = [pytest.mark.cluster, pytest.mark.full]
ROOT = Path(__file__).resolve().parents[2]
NAMES = {"configs": {"use.global.directory.sequence.id": "true"}}


def job_file(tmp_path: Path, out: str) -> Path:
    """A job of 24 files, into `out`."""
    spec = job(tmp_path, out, segmentCreationJobParallelism=0, segmentNameGeneratorSpec=NAMES)
    file = tmp_path / f"{out}.json"
    file.write_text(json.dumps(spec.to_json_dict()))
    return file


def expected_archives(tmp_path: Path) -> dict[str, bytes]:
    """What the job gives on one machine."""
    assert run_job(job(tmp_path, "alone", segmentNameGeneratorSpec=NAMES)).error is None
    return archives(tmp_path / "alone")


def begin(command: list[str], errors: int = subprocess.STDOUT, **environment: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=errors)


def wait_for(condition: Callable[[], object], process: subprocess.Popen[bytes], timeout_s: float = 300.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert process.poll() is None, process.communicate()[0].decode()
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM])
def test_a_driver_that_ends_mid_job_leaves_whole_archives_and_the_next_run_completes_them(
    tmp_path: Path, sent: signal.Signals
) -> None:
    write_inputs(tmp_path / "in", num_files=24)
    expected, file = expected_archives(tmp_path), job_file(tmp_path, "out")
    command = [
        sys.executable,
        "-m",
        "pinotpy",
        "spark",
        "build-segments",
        str(file),
        "--master",
        "local[2,4]",
        "--json",
    ]
    driver = begin(command)
    wait_for(lambda: any((tmp_path / "out").rglob("*.tar.gz")), driver)
    below = descendants(driver.pid)
    driver.send_signal(sent)
    driver.communicate(timeout=60)
    assert driver.returncode == (-signal.SIGKILL if sent is signal.SIGKILL else 128 + signal.SIGTERM)
    deadline = time.monotonic() + 60
    while [command_line(pid) for pid in below if command_line(pid)] and time.monotonic() < deadline:
        time.sleep(0.05)
    assert [command_line(pid) for pid in below if command_line(pid)] == []
    left = {name: content for name, content in archives(tmp_path / "out").items() if name.endswith(".tar.gz")}
    assert left and all(expected[name] == content for name, content in left.items())
    again = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=300)
    assert json.loads(again.stdout)["numSegments"] == 24
    assert archives(tmp_path / "out") == expected


def java_version() -> int:
    """The version of the java of the path; 0: there is none."""
    if shutil.which("java") is None:
        return 0
    said = subprocess.run(["java", "-version"], stderr=subprocess.PIPE, check=False).stderr.decode()
    found = re.search(r'version "(\d+)', said)
    return int(found[1]) if found else 0


def test_plain_spark_submit_survives_the_death_of_an_executor(tmp_path: Path) -> None:
    if java_version() < 17:
        pytest.skip("plain spark-submit needs Java 17 or newer on the path: not found here")
    write_inputs(tmp_path / "in", num_files=24)
    expected, file = expected_archives(tmp_path), job_file(tmp_path, "out")
    script = ROOT / "spark_jobs" / "build_segments.py"
    submit = [
        str(find_spark_home() / "bin" / "spark-submit"),
        "--master",
        "local-cluster[2,1,1024]",
        "--conf",
        "spark.ui.enabled=false",
    ]
    environment = {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(find_spark_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    with (tmp_path / "errors").open("wb") as errors:
        driver = begin([*submit, str(script), str(file), "--json"], errors.fileno(), **environment)
    wait_for(lambda: any((tmp_path / "out").rglob("*.tar.gz")), driver)
    executors = [pid for pid in descendants(driver.pid) if "CoarseGrainedExecutorBackend" in command_line(pid)]
    assert len(executors) == 2
    os.kill(executors[0], signal.SIGKILL)
    said = driver.communicate(timeout=400)[0].decode()
    assert driver.returncode == 0, said[-3000:] + (tmp_path / "errors").read_text()[-3000:]
    assert archives(tmp_path / "out") == expected
    assert json.loads(said)["numSegments"] == sum(
        name.endswith(".tar.gz") for name in expected
    )  # the JSON alone: warnings and Spark's log are elsewhere
