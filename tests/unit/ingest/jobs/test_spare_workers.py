"""Proves that workers wait for a load of large files, that the job takes them, and that none is left."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pinotpy.ingest.jobs import spare_workers as module
from pinotpy.ingest.jobs.spare_workers import PART_BYTES, end_workers, new_worker, spare_workers

PATIENCE_S = 120.0


def sparse(path: Path, size_bytes: int, begins: bytes = b"a,b\n") -> str:
    with path.open("wb") as stream:
        stream.write(begins)
        stream.truncate(size_bytes)
    return str(path)


@pytest.fixture(autouse=True)
def several_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})


def test_a_job_takes_those_that_wait_and_the_others_end(tmp_path: Path) -> None:
    with spare_workers([sparse(tmp_path / "large.csv", 2 * PART_BYTES)]):
        first, second = waiting = list(module._waiting)
        taken = new_worker()
        assert taken is second
    assert first.wait(PATIENCE_S) is not None and taken.poll() is None and not module._waiting
    end_workers([taken])
    assert all(one.poll() is not None for one in waiting)


def test_one_that_died_is_not_taken(tmp_path: Path) -> None:
    with spare_workers([sparse(tmp_path / "large.csv", 2 * PART_BYTES)]):
        for worker in module._waiting:
            worker.kill()
            worker.wait(PATIENCE_S)
        dead = list(module._waiting)
        worker = new_worker()
        assert worker not in dead and worker.poll() is None
        end_workers([worker])


@pytest.mark.parametrize(
    "file",
    [
        lambda folder: sparse(folder / "small.csv", 2 * PART_BYTES - 1),
        lambda folder: sparse(folder / "packed.csv", 4 * PART_BYTES, b"\x1f\x8b\x08\x00"),
        lambda folder: sparse(folder / "array.json", 4 * PART_BYTES, b'\n [{"a": 1},'),
        lambda folder: str(folder / "missing.csv"),
        lambda folder: "s3://bucket/large.csv",
        str,
    ],
)
def test_nobody_waits_for_what_is_built_in_one_piece(tmp_path: Path, file: Callable[[Path], str]) -> None:
    with spare_workers([file(tmp_path)]):
        assert not module._waiting


def test_nothing_of_a_pipe_is_read() -> None:
    read, write = os.pipe()
    os.write(write, b"a,b\n1,2\n")
    os.close(write)
    with spare_workers([f"/dev/fd/{read}"]):
        assert os.read(read, 100) == b"a,b\n1,2\n"
    os.close(read)
