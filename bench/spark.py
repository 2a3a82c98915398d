"""Spark builds segments of Parquet files of a million rows × 12 columns, beside the same job on this machine without
Spark.

Java's cache is warmed up first (`pinotpy spark warmup`), as on a machine that runs jobs. The builder alone and Spark on
two cores take turns, three times: the first run of Spark on a machine reads 400 MB of jars from its disk. The ratio is
that of their medians.

By number of rows: seconds of the job by itself and of the whole command (Spark's start is in it), rows a second over
those of the builder alone, and the most memory that the driver, its JVM (in local mode the executors are in it) and
each Python worker had.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from bench.build import BUILD_CONFIG, BUILD_SCHEMA, _table
from bench.tables.table import say

FILE_ROWS: Final = 1_000_000
_PARTITIONED: Final = {
    **BUILD_CONFIG,
    "tableIndexConfig": {
        **BUILD_CONFIG["tableIndexConfig"],
        "segmentPartitionConfig": {"columnPartitionMap": {"campaign": {"functionName": "Murmur", "numPartitions": 8}}},
    },
}
_POLL_S: Final = 0.2
_ROUNDS: Final = 3  # odd: the median is one of them
_ON_ONE_CORE: Final = (
    sys.executable,
    "-c",
    "import os, sys; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))]); os.execv(sys.argv[1], sys.argv[1:])",
)


def measure_spark(rows: int, data_dir: Path) -> dict[str, Any]:
    """The builder alone, Spark on two cores and on one, regrouped, and with a twentieth and two and a half times the
    rows.
    """
    folder = data_dir / "spark"
    result: dict[str, Any] = {"rows": rows, "columns": 12}
    job = _job(folder, rows, {})
    result |= _warm_up()
    alone = [sys.executable, "-m", "pinotpy", "launch-data-ingestion-job", "--job-spec-file", str(job), "--json"]
    result["rounds"] = [
        {
            name: _timed(name, rows, command, folder)
            for name, command in (("alone", alone), ("local[2]", _spark(job, "local[2,4]")))
        }
        for _ in range(_ROUNDS)
    ]
    for name in ("alone", "local[2]"):
        result[name] = _median([found[name] for found in result["rounds"]])
    # Java and Python work side by side even in local[1]: one core is what the machine gives, not what Spark takes.
    result["one core"] = _timed("one core", rows, [*_ON_ONE_CORE, *_spark(job, "local[1,4]")], folder)
    result["local[2] by partition"] = _timed(
        "local[2] by partition", rows, _spark(_job(folder, rows, {"repartition": True}), "local[2,4]"), folder
    )
    few, many = max(min(FILE_ROWS, rows), rows // 20), rows * 5 // 2
    for name, number in (("few rows", few), ("many rows", many)):
        result[name] = {"rows": number, **_timed(name, number, _spark(_job(folder, number, {}), "local[2,4]"), folder)}
    result["ratio_to_builder"] = round(result["local[2]"]["rows_per_second"] / result["alone"]["rows_per_second"], 3)
    result["two_cores_over_one"] = round(
        result["local[2]"]["rows_per_second"] / result["one core"]["rows_per_second"], 3
    )
    say(f"spark: {result['ratio_to_builder']} of the builder alone, two cores {result['two_cores_over_one']} times one")
    return result


def _warm_up() -> dict[str, Any]:
    """Java's cache made anew, so that its seconds are those of this machine."""
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "pinotpy", "spark", "warmup", "--force", "--json"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    took_s = round(time.perf_counter() - started, 2)
    say(f"spark: Java's cache made in {took_s} s")
    return {"warmup_s": took_s, "warmup_bytes": json.loads(done.stdout)["sizeBytes"]}


def _median(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """The round in the middle by the seconds of its job, with the most memory of any round."""
    kinds = {kind for found in rounds for kind in found["peak_bytes"]}
    peaks = {kind: max(found["peak_bytes"].get(kind, 0) for found in rounds) for kind in sorted(kinds)}
    return {**sorted(rounds, key=lambda found: found["job_s"])[len(rounds) // 2], "peak_bytes": peaks}


def _spark(job: Path, master: str) -> list[str]:
    return [sys.executable, "-m", "pinotpy", "spark", "build-segments", str(job), "--master", master, "--json"]


def _job(folder: Path, rows: int, changes: dict[str, Any]) -> Path:
    source, file_rows = folder / f"in-{rows}", min(FILE_ROWS, rows)
    for number in range(rows // file_rows):
        file = source / f"part-{number:04d}.parquet"
        if not file.exists():
            source.mkdir(parents=True, exist_ok=True)
            pq.write_table(
                _table(file_rows), file.with_suffix(".partial"), compression="snappy", row_group_size=250_000
            )
            file.with_suffix(".partial").rename(file)
    (folder / "schema.json").write_text(json.dumps(BUILD_SCHEMA))
    (folder / "table.json").write_text(json.dumps(_PARTITIONED if changes else BUILD_CONFIG))
    job = folder / "job.json"
    spec = {
        "jobType": "SegmentCreation",
        "inputDirURI": str(source),
        "outputDirURI": str(folder / "out"),
        "tableSpec": {
            "tableName": BUILD_SCHEMA["schemaName"],
            "schemaURI": str(folder / "schema.json"),
            "tableConfigURI": str(folder / "table.json"),
        },
        "pinotpy": {"workingDir": str(folder), **changes},
    }
    job.write_text(json.dumps(spec))
    return job


def _timed(name: str, rows: int, command: list[str], folder: Path) -> dict[str, Any]:
    shutil.rmtree(folder / "out", ignore_errors=True)
    started = time.perf_counter()
    peaks: dict[int, tuple[str, int]] = {}
    with (folder / "report.json").open("w+b") as output:
        process = subprocess.Popen(command, stdout=output)
        while process.poll() is None:
            _look(process.pid, peaks)
            time.sleep(_POLL_S)
        command_s = time.perf_counter() - started
        assert process.returncode == 0, process.returncode
        output.seek(0)
        report = json.loads(output.read())
    of_kind: dict[str, int] = {}
    for kind, size in peaks.values():
        of_kind[kind] = max(size, of_kind.get(kind, 0))
    job_s = report["tookMs"] / 1000
    assert report["numRowsIndexed"] == rows, report["error"]
    found = {
        "job_s": round(job_s, 2),
        "command_s": round(command_s, 2),
        "rows_per_second": round(rows / job_s),
        "segments": report["numSegments"],
        "peak_bytes": of_kind,
    }
    say(
        f"spark: {name}: {rows:,} rows in {job_s:.1f} s, {found['rows_per_second']:,} rows/s; peaks "
        + ", ".join(f"{k} {v >> 20} MiB" for k, v in of_kind.items())
    )
    return found


def _look(root: int, peaks: dict[int, tuple[str, int]]) -> None:
    """The most memory so far of the driver, its JVM and each Python process below it."""
    parents: dict[int, int] = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    for pid in parents:
        above = pid
        while above not in (root, 0, 1):
            above = parents.get(above, 0)
        if above == root:
            try:
                status = Path(f"/proc/{pid}/status").read_text().splitlines()
                name = status[0].split()[-1]
            except (OSError, IndexError):
                continue
            kind = "driver" if pid == root else "jvm" if name == "java" else "worker"
            size = next((int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM")), 0)
            peaks[pid] = (kind, max(size, peaks.get(pid, ("", 0))[1]))
