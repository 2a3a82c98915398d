"""Proves that a job that is killed leaves nothing half-written, takes its workers with it, and gives the same bytes
when it runs again; that a worker's death is noticed and its unit done again; and that SIGTERM ends a job cleanly. Real
processes, real signals.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from job_data import archives, job, write_inputs

from pinotpy.ingest.jobs.run import run_job
from pinotpy.ingest.jobs.spec import IngestionJobSpec
from pinotpy.segment.archive.archive import unpack_segment

pytestmark = pytest.mark.full

DEADLINE_S = 120.0


def wait_for(condition: Callable[[], bool], what: str) -> None:
    ends = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < ends, f"not within {DEADLINE_S} s: {what}"
        time.sleep(0.01)


def children(pid: int) -> list[int]:
    return [
        int(child) for task in Path(f"/proc/{pid}/task").glob("*") for child in (task / "children").read_text().split()
    ]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


NUM_SEGMENTS = 21
THROUGH = {"configs": {"use.global.directory.sequence.id": "true"}}


def a_job(tmp_path: Path, calm: Path) -> IngestionJobSpec:
    """Over the files of the calm job, to an output of its own."""
    ours = {"rowsPerSegment": 10_000, "workingDir": str(tmp_path / "work")}
    return job(
        calm,
        outputDirURI=str(tmp_path / "out"),
        segmentCreationJobParallelism=2,
        segmentNameGeneratorSpec=THROUGH,
        pinotpy=ours,
    )


def start(tmp_path: Path, spec: IngestionJobSpec) -> subprocess.Popen[str]:
    file = tmp_path / "job.json"
    file.write_text(json.dumps(spec.to_json_dict()))
    command = [sys.executable, "-m", "pinotpy", "launch-data-ingestion-job", "--job-spec-file", str(file), "--json"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job that nobody disturbs: its input, documents and output."""
    folder = tmp_path_factory.mktemp("calm")
    write_inputs(folder / "in", 4, 50_000)
    report = run_job(a_job(folder, folder))
    assert report.error is None and len(report.segments) == NUM_SEGMENTS
    return folder


@pytest.fixture
def expected(calm: Path) -> dict[str, bytes]:
    return archives(calm / "out")


def test_a_job_killed_in_the_middle_runs_again_to_the_same_bytes(
    tmp_path: Path, calm: Path, expected: dict[str, bytes]
) -> None:
    spec, out = a_job(tmp_path, calm), tmp_path / "out"
    running = start(tmp_path, spec)
    wait_for(lambda: len(list(out.glob("*.tar.gz"))) >= 3, "some segments")
    workers = children(running.pid)
    assert len(workers) == 2
    running.kill()
    running.wait()
    wait_for(lambda: not any(is_alive(worker) for worker in workers), "workers end with their parent")
    done = {path.name: path for path in out.glob("*.tar.gz")}
    assert 3 <= len(done) < NUM_SEGMENTS
    for name, path in done.items():
        # Whole, each of them, and as they shall be.
        assert path.read_bytes() == expected[name]
        unpack_segment(path, tmp_path / "scratch" / name)
    assert list((tmp_path / "work").iterdir()), "the killed job left its working folder"
    again = start(tmp_path, spec)
    output, errors = again.communicate(timeout=DEADLINE_S)
    assert again.returncode == 0, errors
    assert json.loads(output)["numSegments"] == NUM_SEGMENTS
    assert archives(out) == expected
    assert not list((tmp_path / "work").iterdir())


def test_a_worker_that_dies_is_noticed_and_its_unit_is_done_again(
    tmp_path: Path, calm: Path, expected: dict[str, bytes]
) -> None:
    out = tmp_path / "out"
    running = start(tmp_path, a_job(tmp_path, calm))
    wait_for(lambda: len(list(out.glob("*.tar.gz"))) >= 1, "a segment")
    os.kill(children(running.pid)[0], signal.SIGKILL)
    _, errors = running.communicate(timeout=DEADLINE_S)
    assert running.returncode == 0, errors
    assert archives(out) == expected


def test_sigterm_ends_a_job_with_nothing_half_written(tmp_path: Path, calm: Path, expected: dict[str, bytes]) -> None:
    out = tmp_path / "out"
    running = start(tmp_path, a_job(tmp_path, calm))
    wait_for(lambda: len(list(out.glob("*.tar.gz"))) >= 1, "a segment")
    workers = children(running.pid)
    running.terminate()
    _, errors = running.communicate(timeout=DEADLINE_S)
    assert running.returncode == 143 and "SIGTERM" in errors and "Traceback" not in errors
    assert not any(is_alive(worker) for worker in workers)
    assert not list((tmp_path / "work").iterdir())
    done = archives(out)
    assert done.items() <= expected.items()


def test_a_unit_that_takes_its_worker_down_each_time_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_inputs(tmp_path / "in", 3, 1_000)
    # An extension of Python that ends the process when it sees the second file, as a crash in a library would.
    (tmp_path / "crashing").mkdir()
    (tmp_path / "crashing" / "sitecustomize.py").write_text(
        "import os, signal, sys\n"
        "def watch(event, arguments):\n"
        "    if event == 'open' and str(arguments[0]).endswith('part-01.parquet'):\n"
        "        os.kill(os.getpid(), signal.SIGSEGV)\n"
        "if 'pinotpy.ingest.jobs.worker' in ' '.join(sys.orig_argv):\n"
        "    sys.addaudithook(watch)\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'crashing'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    spec = job(
        tmp_path, segmentCreationJobParallelism=2, pinotpy={"onFileError": "SKIP"}, segmentNameGeneratorSpec=THROUGH
    )
    report = run_job(spec)
    assert report.error is None and report.num_failures == 1 and len(report.segments) == 2
    (bad,) = [file for file in report.files if file.error is not None]
    assert "part-01" in bad.uri and "died 2 times" in str(bad.error) and "SIGSEGV" in str(bad.error)
