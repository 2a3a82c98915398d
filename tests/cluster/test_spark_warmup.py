"""Proves `pinotpy spark warmup` with a real JVM: its cache is used by the next job, which gives the same archives; a
second warmup makes none; Java itself goes on without a cache that is cut, garbage, or not there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from job_data import archives, job, write_inputs

from pinotpy.ingest.jobs.run import run_job
from pinotpy.kernels import cache as kernel_cache
from pinotpy.spark_jobs.java import find_spark_java

pytestmark = [pytest.mark.cluster, pytest.mark.full]

# Files of two folders with the same times: their numbers run through all.
NUMBERS: dict[str, Any] = {
    "segmentCreationJobParallelism": 0,
    "segmentNameGeneratorSpec": {"configs": {"use.global.directory.sequence.id": "true"}},
}


def spark(caches: Path, *arguments: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "pinotpy", "spark", *arguments],
        env={**os.environ, "PINOTPY_KERNEL_CACHE": str(caches)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    return done.returncode, done.stdout, done.stderr


def test_a_warmed_spark_gives_the_same_archives(tmp_path: Path) -> None:
    caches = tmp_path / "caches"
    caches.mkdir()
    kernels = kernel_cache.prepare()  # that nothing is compiled again here
    (caches / kernels.name).symlink_to(kernels)
    status, out, error = spark(caches, "warmup", "--master", "local[2,4]", "--json")
    assert status == 0, error
    made: dict[str, Any] = json.loads(out)
    cache = Path(made["cache"])
    assert (
        not made["wasThere"]
        and cache.parent == caches / "java"
        and cache.stat().st_size == made["sizeBytes"] > 10_000_000
    )
    assert [path.name for path in cache.parent.iterdir()] == [cache.name]

    again = json.loads(spark(caches, "warmup", "--json")[1])
    assert again["wasThere"] and again["cache"] == str(cache)

    write_inputs(tmp_path / "in")
    expected = run_job(job(tmp_path, "alone", **NUMBERS))
    assert expected.error is None
    told = job(tmp_path, "spark", **NUMBERS).model_dump(mode="json", by_alias=True, exclude_none=True)
    (tmp_path / "job.json").write_text(json.dumps(told))
    for name in ("with the cache", "with a damaged one"):
        log = tmp_path / f"{name}.log"
        options = ["--master", "local[2,4]", "--conf", "spark.log.level=INFO", "--spark-log", str(log)]
        status, _, error = spark(caches, "build-segments", str(tmp_path / "job.json"), *options)
        assert status == 0, error
        assert archives(tmp_path / "spark") == archives(tmp_path / "alone")
        # What Java could not map it would have told.
        assert "Unable to map" not in log.read_text()
        assert ("damaged" in error) is (name == "with a damaged one")
        for archive in (tmp_path / "spark").rglob("*.tar.gz"):
            archive.unlink()
        # Java does not notice this by itself, and dies of it.
        with cache.open("r+b") as opened:
            opened.seek(100)
            opened.write(b"\xff" * 8)


def test_java_goes_on_without_a_cache_that_it_cannot_use(tmp_path: Path) -> None:
    (tmp_path / "garbage").write_bytes(os.urandom(100_000))
    (tmp_path / "empty").touch()
    for name in ("garbage", "empty", "missing"):
        done = subprocess.run(
            [find_spark_java(), f"-XX:AOTCache={tmp_path / name}", "-version"],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0 and "version" in done.stderr
