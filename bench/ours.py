"""pinotpy with one table loaded: over HTTP through broker and server (`OverHttp`), or in this process without them
(`InProcess`).
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow.parquet as pq

import pinotpy
from bench.http import Connection
from bench.suites.query import Parameters, Query
from bench.tables.table import Table, say
from pinotpy.cli.local_cluster import PROGRAM, LocalCluster
from pinotpy.client.controller import ControllerClient
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.pql.parser import parse_pql, parse_sql
from pinotpy.query.compile.statement import compile_query
from pinotpy.query.execute import execute
from pinotpy.query.model.context import QueryOptions
from pinotpy.query.model.options import query_options
from pinotpy.query.result.combine import merge_partials
from pinotpy.query.result.partial import PartialResult
from pinotpy.query.result.reduce import reduce_partials
from pinotpy.query.result.response import pql as pql_response
from pinotpy.query.result.response import sql as sql_response
from pinotpy.query.runtime.control import QueryControl
from pinotpy.segment.archive.archive import pack_segment
from pinotpy.segment.build.builder import build_segment
from pinotpy.segment.immutable import ImmutableSegment, load_segment

THREADS: Final = 2
# Peers have no limits either: a query of a large run on a slow machine is measured, not refused.
ROOMY: Final = {
    "PINOTPY_BROKER_TIMEOUT_MS": "600000",
    "PINOTPY_BROKER_MEMORY_MAX_BYTES": str(4 << 30),
    "PINOTPY_SERVER_TIMEOUT_MS": "600000",
    "PINOTPY_SERVER_QUERY_MEMORY_MAX_BYTES": str(8 << 30),
    "PINOTPY_SERVER_RESPONSE_BYTES_MAX": str(2 * 10**9),
    "PINOTPY_BROKER_SERVER_RESPONSE_BYTES_MAX": str(2 * 10**9),
}
Config = dict[str, Any]


def _with_nulls(options: QueryOptions, *, pql: bool = False) -> bool:
    """As a broker has it where neither table nor setting says: in SQL nulls are nulls."""
    return not pql and options.enable_null_handling is not False


class Ours(Protocol):
    """Answers texts; milliseconds from the text to the parsed answer, and the answer as the broker writes it.

    pages_read: how often the process with the segments had to wait for a page of a file from disk, so far.
    """

    def ask_text(self, text: str, *, pql: bool = False, options: str = "") -> tuple[float, dict[str, Any]]: ...

    def pages_read(self) -> int: ...

    def close(self) -> None: ...


def _major_faults(pid: int) -> int:
    """0 where the system does not tell."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[9])
    except (OSError, ValueError, IndexError):
        return 0


def ask(ours: Ours, query: Query, parameters: Parameters) -> tuple[float, list[list[Any]]]:
    """Milliseconds and rows. SystemExit if the answer has exceptions or is not whole."""
    took_ms, answer = ours.ask_text(query.text_of_ours(parameters), pql=query.pql is not None)
    if answer.get("exceptions") or answer.get("partialResult"):
        raise SystemExit(f"{query.name}: pinotpy failed: {answer.get('exceptions')}")
    return took_ms, rows_of(answer)


def rows_of(answer: dict[str, Any]) -> list[list[Any]]:
    """The rows of an answer to SQL or PQL; of PQL's lists one row a group, its values in the order of the
    aggregations.
    """
    if "resultTable" in answer:
        return list(answer["resultTable"]["rows"])
    if "selectionResults" in answer:
        return list(answer["selectionResults"]["results"])
    first, *others = answer["aggregationResults"]
    if "groupByResult" not in first:
        return [[aggregation["value"] for aggregation in (first, *others)]]
    rows = {tuple(group["group"]): [*group["group"], group["value"]] for group in first["groupByResult"]}
    for aggregation in others:
        for group in aggregation["groupByResult"]:
            rows[tuple(group["group"])].append(group["value"])
    return list(rows.values())


def segment_directories(
    table: Table,
    rows: int,
    data_dir: Path,
    *,
    config: Config | None = None,
    variant: str = "plain",
    chunks: int | None = None,
) -> list[Path]:
    """One segment a chunk, built with `config` (default: the table's own) and kept for the next run of the same
    builder.
    """
    config = config or table.config
    folder = table.folder(data_dir, rows, chunks) / f"pinotpy-{variant}-{_build_key(config)[:10]}"
    files = table.parquet_files(data_dir, rows, chunks)
    folder.mkdir(exist_ok=True)
    directories = []
    for number, file in enumerate(files):
        name = f"{table.name}_{number:04d}"
        if not (folder / name).exists():
            if number % max(1, len(files) // 10) == 0:
                say(f"{table.name}: building segment {number + 1} of {len(files)} ({variant})")
            build(table, file, folder, name, config)
        directories.append(folder / name)
    return directories


def build(table: Table, file: Path, folder: Path, name: str, config: Config) -> None:
    """One Parquet file → one segment."""
    batches = pq.read_table(file).combine_chunks().to_batches()
    build_segment(
        Schema.from_json(table.schema),
        TableConfig.from_json(config),
        batches,
        folder,
        name,
        raw_table_name=config["tableName"],
    )


def _build_key(config: Config) -> str:
    """What decides the bytes of a segment: the config and the room that builds; segments of another key lie in another
    folder.
    """
    root = Path(pinotpy.__file__).parent
    digest = hashlib.sha256(json.dumps(config, sort_keys=True).encode())
    for file in sorted((root / "segment").rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


@functools.cache
def _compile_kernels() -> None:
    """Once: kernels that are compiled for the first time would take longer than a daemon may need to start."""
    subprocess.run([*PROGRAM, "warmup"], check=True, stdout=sys.stderr)


class OverHttp:
    """A cluster of real daemons, one broker and one server, and a kept connection to the broker."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        _compile_kernels()
        self.cluster = LocalCluster(scratch / "cluster")
        try:
            zookeeper = self.cluster.start(
                "zookeeper", "start-zookeeper", "--zk-port", "0", "--data-dir", str(scratch / "zk")
            )
            common = ("--zk-address", zookeeper.ready["address"], "--cluster-name", "Bench")
            controller = self.cluster.start(
                "controller",
                "start-controller",
                *common,
                "--controller-port",
                "0",
                "--data-dir",
                str(scratch / "controller"),
            )
            broker = self.cluster.launch("broker", "start-broker", *common, "--broker-port", "0", env=ROOMY)
            server = self.cluster.launch(
                "server",
                "start-server",
                *common,
                "--server-port",
                "0",
                "--server-admin-port",
                "0",
                "--data-dir",
                str(scratch / "server"),
                env=ROOMY,
            )
            self.cluster.wait_ready(broker, server)
        except BaseException:
            self.cluster.stop_all()
            raise
        self.url = broker.ready["url"]
        self.controller_url = controller.ready["url"]
        self._connection = Connection(self.url, timeout_s=600.0)

    def load(self, table: Table, directories: list[Path], *, config: Config | None = None) -> None:
        """Upload the segments as the table of `config` (default: the table's own) and wait until they serve."""
        config = config or table.config
        raw_name = config["tableName"]
        client = ControllerClient(self.controller_url)
        client.add_schema({**table.schema, "schemaName": raw_name})
        client.add_table(config)
        for number, directory in enumerate(directories):
            if number % max(1, len(directories) // 10) == 0:
                say(f"{raw_name}: loading segment {number + 1} of {len(directories)}")
            archive = self._scratch / f"{directory.name}.tar.gz"
            pack_segment(directory, archive)
            client.upload_segment(archive, raw_name)
            archive.unlink()
        client.wait_until_online(raw_name, timeout_s=600)
        self._wait_until_queried(raw_name, len(directories))

    def _wait_until_queried(self, raw_name: str, num_segments: int, timeout_s: float = 600.0) -> None:
        """The broker hears of a segment that serves a moment after the controller."""
        deadline = time.monotonic() + timeout_s
        while True:
            _, answer = self.ask_text(f"SELECT COUNT(*) FROM {raw_name}")
            if not answer["exceptions"] and answer["numSegmentsQueried"] == num_segments:
                return
            if time.monotonic() > deadline:
                raise SystemExit(f"the broker does not query all {num_segments} segments after {timeout_s} s: {answer}")
            time.sleep(0.02)

    def ask_text(self, text: str, *, pql: bool = False, options: str = "") -> tuple[float, dict[str, Any]]:
        timeout = "timeoutMs=600000" + (f";{options}" if options else "")
        body = (
            {"pql": text, "queryOptions": f"preserveType=true;{timeout}"}
            if pql
            else {"sql": text, "queryOptions": timeout}
        )
        start = time.perf_counter()
        answer = self._connection.post("/query" if pql else "/query/sql", body)
        return (time.perf_counter() - start) * 1000, answer

    def pages_read(self) -> int:
        return _major_faults(self.cluster.daemons["server"].pid)

    def close(self) -> None:
        self._connection.close()
        self.cluster.stop_all()


class InProcess:
    """Compile, execute, reduce and write in this process: the engine without daemons, for a look at where time goes."""

    def __init__(self, table: Table, directories: list[Path], threads: int = THREADS) -> None:
        self._schema = Schema.from_json(table.schema)
        self.segments: list[ImmutableSegment] = [load_segment(directory) for directory in directories]
        self._executor = ThreadPoolExecutor(threads)
        self._threads = threads
        # Kernels load on the first query otherwise.
        from pinotpy.query.warm import warm

        warm()

    def ask_text(self, text: str, *, pql: bool = False, options: str = "") -> tuple[float, dict[str, Any]]:
        start = time.perf_counter()
        statement = parse_pql(text) if pql else parse_sql(text)
        query_options_ = query_options(statement, "preserveType=true" if pql else options)
        context = compile_query(
            statement, self._schema, query_options_, null_handling=_with_nulls(query_options_, pql=pql)
        )
        partial = execute(context, self.segments, QueryControl(), threads=self._threads, executor=self._executor)
        reduced = reduce_partials(context, merge_partials(context, [partial]))
        show: Callable[..., dict[str, Any]] = pql_response.result_keys if pql else sql_response.result_keys
        keys = show(context, reduced)
        took_ms = (time.perf_counter() - start) * 1000
        # Rows are JSON fragments there; parsed as any client would.
        import orjson

        return took_ms, json.loads(orjson.dumps(keys))

    def execute_text(self, text: str) -> tuple[float, PartialResult]:
        """Milliseconds of the server's part alone, and its result."""
        statement = parse_sql(text)
        options = query_options(statement)
        context = compile_query(statement, self._schema, options, null_handling=_with_nulls(options))
        start = time.perf_counter()
        partial = execute(context, self.segments, QueryControl(), threads=self._threads, executor=self._executor)
        return (time.perf_counter() - start) * 1000, partial

    def pages_read(self) -> int:
        return _major_faults(os.getpid())

    def close(self) -> None:
        self._executor.shutdown()
        for segment in self.segments:
            segment.close()
