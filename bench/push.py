"""Pushing segments of 20 MB to a controller: MB/s beside what the disk takes by itself, and the controller's memory
over time.

The disk's own speed is a copy of the same archives, each forced to the disk, as the deep store does it. Servers are
registered and do not run: what is measured is the push. `--push-segments` makes it shorter; the report has the number.
Of the controller, seconds of CPU and resident memory (all of it, and without pages of files) are read from /proc while
the push runs.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from bench.tables.table import say
from pinotpy.cli.local_cluster import LocalCluster
from pinotpy.client.controller import ControllerClient
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.ingest.push.push import push
from pinotpy.ingest.push.report import PushReport
from pinotpy.ingest.push.settings import PushKind, PushSettings
from pinotpy.segment import layout
from pinotpy.segment.archive.archive import pack_segment
from pinotpy.segment.build.builder import build_segment
from pinotpy.segment.metadata import segment_crc
from pinotpy.segment.metadata_reader import read_metadata
from pinotpy.service.ports import free_port

TABLE: Final = "pushed"
ARCHIVE_BYTES: Final = 20_000_000
SCHEMA: Final[dict[str, Any]] = {
    "schemaName": TABLE,
    "dimensionFieldSpecs": [
        {"name": "country", "dataType": "STRING"},
        {"name": "campaign", "dataType": "INT"},
        {"name": "user", "dataType": "LONG"},
        {"name": "url", "dataType": "STRING"},
    ],
    "metricFieldSpecs": [{"name": "cost", "dataType": "DOUBLE"}, {"name": "clicks", "dataType": "INT"}],
    "dateTimeFieldSpecs": [
        {"name": "ts", "dataType": "LONG", "format": "1:MILLISECONDS:EPOCH", "granularity": "1:MILLISECONDS"}
    ],
}
CONFIG: Final[dict[str, Any]] = {
    "tableName": TABLE,
    "tableType": "OFFLINE",
    "segmentsConfig": {"timeColumnName": "ts", "replication": "1", "segmentPushType": "APPEND"},
    "tenants": {},
    "tableIndexConfig": {"loadMode": "MMAP", "noDictionaryColumns": ["cost", "ts", "user"]},
    "metadata": {},
}
SAMPLE_S: Final = 0.1
REPETITIONS: Final = 3


def measure_push(num_segments: int, data_dir: Path) -> dict[str, Any]:
    """By parallelism: MB/s of tar pushes, their share of the disk's, controller memory; and a metadata push beside
    them.
    """
    archives = _archives(num_segments, data_dir / "push")
    size_bytes = sum(archive.stat().st_size for archive in archives)
    result: dict[str, Any] = {"segments": num_segments, "bytes": size_bytes, "bytes_of_one": size_bytes // num_segments}
    with tempfile.TemporaryDirectory(prefix="push-", dir=data_dir) as scratch:
        copies = [_copy(archives, Path(scratch) / "copies") for _ in range(REPETITIONS)]
    result["disk_mb_per_s"] = round(size_bytes / 1e6 / min(copies), 1)
    say(f"push: the disk takes {result['disk_mb_per_s']} MB/s: {num_segments} archives copied, each forced to the disk")
    for name, kind, parallelism in (
        ("tar_1", PushKind.TAR, 1),
        ("tar_2", PushKind.TAR, 2),
        ("tar_4", PushKind.TAR, 4),
        ("metadata_4", PushKind.METADATA, 4),
    ):
        with (
            tempfile.TemporaryDirectory(prefix="push-", dir=data_dir) as scratch,
            _controller(Path(scratch), archives[0].parent) as (cluster, url),
        ):
            pid = cluster.daemons["controller"].pid
            watch, cpu_before, own_before = MemoryWatch(pid), _cpu_s(pid), sum(os.times()[:2])
            with watch:
                settings = PushSettings(TABLE, controllers=(url,), kind=kind, parallelism=parallelism)
                report: PushReport = push(settings, [f"file://{archive}" for archive in archives])
            assert not report.has_failed, report.causes()
            found = {
                "seconds": round(report.seconds, 2),
                "mb_per_s": round(size_bytes / 1e6 / report.seconds, 1),
                "controller_cpu_s": round(_cpu_s(pid) - cpu_before, 2),
                "client_cpu_s": round(sum(os.times()[:2]) - own_before, 2),
                "controller_memory": watch.facts(),
            }
            found["share_of_disk"] = round(found["mb_per_s"] / result["disk_mb_per_s"], 2)
            result[name] = found
            memory = found["controller_memory"]
            say(
                f"push: {name}: {found['mb_per_s']} MB/s, {found['share_of_disk']} of the disk; controller "
                f"{memory['peak_mib']} MiB at most, "
                f"{memory['growth_mib']:+} MiB from its first to its last quarter"
            )
    return result


@dataclass(slots=True)
class MemoryWatch:
    """Resident memory of a process while the block runs: (seconds, MiB, MiB without pages of files)."""

    pid: int
    samples: list[tuple[float, float, float]] = field(default_factory=list)
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> MemoryWatch:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        assert self._thread is not None
        self._thread.join()

    def facts(self) -> dict[str, Any]:
        """Peak, growth between the means of the second and the last quarter (the first one warms up), and ten values
        over time.
        """
        quarter = max(1, len(self.samples) // 4)
        early, late = self.samples[quarter : 2 * quarter] or self.samples, self.samples[-quarter:]
        step = max(1, len(self.samples) // 10)
        return {
            "peak_mib": round(max(rss for _, rss, _ in self.samples), 1),
            "peak_without_files_mib": round(max(anonymous for _, _, anonymous in self.samples), 1),
            "growth_mib": round(float(np.mean([rss for _, rss, _ in late]) - np.mean([rss for _, rss, _ in early])), 1),
            "over_time_mib": [round(rss, 1) for _, rss, _ in self.samples[::step]],
        }

    def _run(self) -> None:
        began = time.monotonic()
        while True:
            status = Path(f"/proc/{self.pid}/status").read_text()
            values = {
                line.partition(":")[0]: int(line.split()[1]) / 1024
                for line in status.splitlines()
                if line.startswith(("VmRSS", "RssAnon"))
            }
            self.samples.append((time.monotonic() - began, values["VmRSS"], values["RssAnon"]))
            if self._ended.wait(SAMPLE_S):
                return


@contextmanager
def _controller(scratch: Path, allowed: Path) -> Iterator[tuple[LocalCluster, str]]:
    """ZooKeeper and a controller with the table, and one server that is registered."""
    cluster = LocalCluster(scratch / "daemons")
    try:
        zookeeper = cluster.start(
            "zookeeper", "start-zookeeper", "--zk-port", str(free_port()), "--data-dir", str(scratch / "zk")
        )
        settings = (
            "--zk-address",
            zookeeper.ready["address"],
            "--controller-port",
            str(free_port()),
            "--data-dir",
            str(scratch / "store"),
        )
        cluster.start(
            "controller",
            "start-controller",
            *settings,
            env={"PINOTPY_CONTROLLER_SEGMENT_URIS_ALLOWED": f"file://{allowed}/"},
        )
        url = cluster.daemons["controller"].ready["url"]
        with ControllerClient(url) as client:
            for port, kind, tag in ((1, "SERVER", "DefaultTenant_OFFLINE"), (2, "BROKER", "DefaultTenant_BROKER")):
                client.add_instance({"host": "localhost", "port": port, "type": kind, "tags": [tag]})
            client.add_schema(SCHEMA)
            client.add_table(CONFIG)
        yield cluster, url
    finally:
        cluster.stop_all()


def _archives(num_segments: int, folder: Path) -> list[Path]:
    """Archives of about 20 MB, kept for the next run: one build, of which every segment has its own name."""
    done = folder / "done"
    if done.exists() and len(found := sorted(folder.glob("*.tar.gz"))) >= num_segments:
        return found[:num_segments]
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "built").mkdir(parents=True)
    rows = 200_000
    for _ in range(2):  # the first one tells how many rows make 20 MB
        shutil.rmtree(folder / "built" / "template", ignore_errors=True)
        build_segment(
            Schema.from_json(SCHEMA),
            TableConfig.from_json(CONFIG),
            [_rows(rows)],
            folder / "built",
            "template",
            raw_table_name=TABLE,
        )
        archive = pack_segment(folder / "built" / "template", folder / "built" / "template.tar.gz")
        rows = int(rows * ARCHIVE_BYTES / archive.stat().st_size)
    archive.unlink()
    for number in range(num_segments):
        _renamed(folder / "built" / "template", folder, f"{TABLE}_{number:04d}")
    shutil.rmtree(folder / "built")
    done.touch()
    return sorted(folder.glob("*.tar.gz"))


def _renamed(template: Path, folder: Path, name: str) -> None:
    """The archive of the same rows under another name."""
    target = folder / "built" / name
    target.mkdir()
    metadata = read_metadata((template / layout.METADATA).read_bytes(), "template")
    named = replace(metadata, segment_name=name)
    (target / layout.METADATA).write_bytes(replace(named, crc=segment_crc(named)).to_bytes())
    for columns, _ in metadata.files:
        os.link(template / columns, target / columns)
    pack_segment(target, folder / f"{name}.tar.gz")
    shutil.rmtree(target)


def _rows(count: int) -> pa.RecordBatch:
    random = np.random.default_rng(7)
    return pa.RecordBatch.from_pydict(
        {
            "country": pa.array([f"country {value}" for value in range(200)]).take(
                pa.array(random.integers(0, 200, count))
            ),
            "campaign": pa.array(random.integers(0, 5_000, count), pa.int32()),
            "user": pa.array(random.integers(0, 1 << 40, count), pa.int64()),
            "url": pa.array([f"/shop/item/{value}" for value in range(20_000)]).take(
                pa.array(random.integers(0, 20_000, count))
            ),
            "cost": pa.array(random.random(count)),
            "clicks": pa.array(random.integers(0, 50, count), pa.int32()),
            "ts": pa.array(1_700_000_000_000 + np.sort(random.integers(0, 86_400_000, count)), pa.int64()),
        }
    )


def _copy(archives: Sequence[Path], folder: Path) -> float:
    """Seconds that copies of the archives take, each forced to the disk before the next."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    began = time.perf_counter()
    for archive in archives:
        with archive.open("rb") as source, (folder / archive.name).open("xb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
            target.flush()
            os.fsync(target.fileno())
    return time.perf_counter() - began


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
