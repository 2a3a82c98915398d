"""What queries take at most: `python -m bench.memory_ceiling --rows 6000000 --clients 24 --rounds 20`; results as JSON.

Real daemons, one broker and two servers, in a control group with `--limit-mib` where one can be made (the system kills
what is over it), else beside each other: `group` in the results says which. In each round `--clients` connections ask
GROUP BYs with as many groups as rows, and DISTINCTCOUNTs of sets as large; a process of its own asks tiny queries
meanwhile, over one connection. Per daemon: the most of RssAnon + RssShmem with its children, its budget, whether it
lives. Answers: right, refused by code, wrong. Tiny queries: p50, p95, longest, in ms.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from bench.machine import commit_name, machine
from bench.tiny_client import asking
from pinotpy.cli.asking import ask
from pinotpy.cli.local_cluster import LocalCluster
from pinotpy.client.controller import ControllerClient
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.errors import PinotError
from pinotpy.memory.resident import children_of, resident_bytes
from pinotpy.segment.archive.archive import pack_segment
from pinotpy.segment.build.builder import build_segment
from pinotpy.service.ports import free_port

MIB: Final = 1 << 20
PROGRESS_S: Final = 30.0
SHARES: Final = {"controller": 0.05, "broker": 0.3, "server-0": 0.25, "server-1": 0.25}
SCHEMA: Final = {
    "schemaName": "t",
    "dimensionFieldSpecs": [{"name": "id", "dataType": "LONG"}, {"name": "name", "dataType": "STRING"}],
    "metricFieldSpecs": [{"name": "d", "dataType": "DOUBLE"}],
}
CONFIG: Final = {
    "tableName": "t",
    "tableType": "OFFLINE",
    "segmentsConfig": {"replication": "1"},
    "tenants": {},
    "tableIndexConfig": {"noDictionaryColumns": ["id", "name", "d"]},
    "metadata": {},
}
GROUPS: Final = "SELECT id, name, SUM(d), COUNT(*) FROM t GROUP BY id, name LIMIT 5"
DISTINCT: Final = "SELECT DISTINCTCOUNT(id), DISTINCTCOUNT(name) FROM t"
TINY: Final = "SELECT COUNT(*) FROM t"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rows", type=int, default=6_000_000)
    arguments.add_argument("--segments", type=int, default=12)
    arguments.add_argument("--clients", type=int, default=24)
    arguments.add_argument("--rounds", type=int, default=20)
    arguments.add_argument("--minutes", type=float, help="as many rounds as these take")
    arguments.add_argument("--limit-mib", type=int, default=3_072)
    arguments.add_argument("--out", type=Path)
    asked = arguments.parse_args()
    shown = {"commit": commit_name(), "machine": machine(), "asked": {**vars(asked), "out": None}, **measure(asked)}
    text = json.dumps(shown, indent=1)
    if asked.out is not None:
        asked.out.write_text(text + "\n", encoding="utf-8")
    print(text)


def measure(asked: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        archives = built(Path(folder) / "built", asked.rows, asked.segments)
        cluster = LocalCluster(Path(folder) / "daemons")
        group = ""
        try:
            zookeeper = cluster.start(
                "zookeeper", "start-zookeeper", "--zk-port", str(free_port()), "--data-dir", f"{folder}/zk"
            )
            with control_group(asked.limit_mib * MIB) as group:
                start(cluster, Path(folder), zookeeper.ready["address"], asked.limit_mib * MIB, in_group=bool(group))
            with ControllerClient(cluster.daemons["controller"].ready["url"]) as controller:
                controller.add_schema(SCHEMA)
                controller.add_table(CONFIG)
                for archive in archives:
                    controller.upload_segment(archive, "t")
                controller.wait_until_online("t", timeout_s=300)
            return {"group": group, **load(cluster, asked)}
        finally:
            cluster.stop_all()
            if group:
                Path(group).rmdir()


def built(folder: Path, rows: int, segments: int) -> list[Path]:
    """Archives of the table's segments."""
    archives = []
    for number in range(segments):
        ids = np.arange(number * rows // segments, (number + 1) * rows // segments)
        names = pa.array([f"name {i:012d}" for i in ids])
        batch = pa.RecordBatch.from_pydict({"id": pa.array(ids), "name": names, "d": pa.array(ids / 2)})
        name = f"t_{number}"
        build_segment(
            Schema.from_json(SCHEMA), TableConfig.from_json(CONFIG), [batch], folder, name, raw_table_name="t"
        )
        archives.append(folder / f"{name}.tar.gz")
        pack_segment(folder / name, archives[-1])
    return archives


@contextmanager
def control_group(limit_bytes: int) -> Iterator[str]:
    """What is started meanwhile is in a group with this limit; "" where none can be made."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        top = Path("/sys/fs/cgroup/memory" if "memory" in controllers.split(",") else "/sys/fs/cgroup")
        name = "memory.limit_in_bytes" if controllers else "memory.max"
        before = top / path.lstrip("/")
        group = before / f"pinotpy-bench-{os.getpid()}"
        if "memory" not in controllers.split(",") and controllers:
            continue
        try:
            group.mkdir()
            (group / name).write_text(str(limit_bytes))
            (group / "cgroup.procs").write_text(str(os.getpid()))
        except OSError:
            continue
        try:
            yield str(group)
        finally:
            (before / "cgroup.procs").write_text(str(os.getpid()))
        return
    yield ""


def start(cluster: LocalCluster, folder: Path, zk_address: str, limit_bytes: int, *, in_group: bool) -> None:
    """Daemons whose shares are of the group, or of the machine such that they come to the same."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    settings = folder / "daemons.properties"
    settings.write_text("pinot.broker.timeoutMs=60000\npinot.server.query.executor.timeout=60000\n", encoding="utf-8")
    launched = []
    for name, share in SHARES.items():
        role = name.split("-")[0]
        places = {
            "controller": ("--controller-port", str(free_port()), "--data-dir", f"{folder}/deep-store"),
            "broker": ("--broker-port", str(free_port())),
            "server": ("--server-port", "0", "--server-admin-port", "0", "--data-dir", f"{folder}/{name}"),
        }[role]
        part = str(share if in_group else share * limit_bytes / total)
        common = ("--zk-address", zk_address, "--cluster-name", "Bench", "--config-file", str(settings))
        launched.append(cluster.launch(name, f"start-{role}", *common, *places, "--memory-share", part))
    cluster.wait_ready(*launched)


def load(cluster: LocalCluster, asked: argparse.Namespace) -> dict[str, Any]:
    """All rounds, and what was seen of them."""
    url = cluster.daemons["broker"].ready["url"]
    most, done = dict.fromkeys(SHARES, 0), threading.Event()

    def look() -> None:
        while not done.wait(0.05):
            for name in SHARES:
                pid = cluster.daemons[name].pid
                most[name] = max(most[name], resident_bytes(pid, children_of(pid)))

    outcomes: Counter[str] = Counter()

    def large(number: int) -> None:
        text = DISTINCT if number % 4 == 3 else GROUPS
        outcomes[outcome(url, text, asked.rows)] += 1

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    ends_s = time.monotonic() + 60 * (asked.minutes or math.inf)

    def client(number: int) -> None:
        for turn in itertools.count() if asked.minutes else range(asked.rounds):
            if time.monotonic() > ends_s:
                return
            large(turn * asked.clients + number)

    with asking(url, TINY, [[asked.rows]]) as tiny, ThreadPoolExecutor(asked.clients) as pool:
        clients = [pool.submit(client, number) for number in range(asked.clients)]
        while wait(clients, timeout=PROGRESS_S).not_done:
            print(f"{dict(outcomes)}, most MiB {[size // MIB for size in most.values()]}", file=sys.stderr)
        for each in clients:
            each.result()
    done.set()
    looking.join()
    tiny_ms = sorted(tiny["ms"])
    return {
        "outcomes": dict(outcomes),
        "tinyOutcomes": tiny["outcomes"],
        "tinyMs": {f"p{part}": round(tiny_ms[len(tiny_ms) * part // 100], 1) for part in (50, 95)}
        | {"longest": round(tiny_ms[-1], 1), "number": len(tiny_ms)},
        "daemons": {
            name: {
                "mostMiB": most[name] // MIB,
                "budgetMiB": int(cluster.daemons[name].ready["memory_budget"]) // MIB,
                "lives": cluster.daemons[name].process.poll() is None,
            }
            for name in SHARES
        },
    }


def outcome(url: str, text: str, rows: int) -> str:
    """right, wrong, or the code of the error."""
    try:
        answer = ask(url, text, "sql")
    except PinotError as error:
        return f"failed: {error.message[:60]}"
    if answer["exceptions"]:
        return str(answer["exceptions"][0]["errorCode"])
    shown = answer["resultTable"]["rows"]
    if text == DISTINCT:
        return "right" if shown == [[rows, rows]] else "wrong"
    is_right = len(shown) == 5 and all(row == [row[0], f"name {row[0]:012d}", row[0] / 2, 1] for row in shown)
    return "right" if is_right else "wrong"


if __name__ == "__main__":
    main()
