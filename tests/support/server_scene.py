"""A server's segments without cluster and network: records and documents that a test changes, real segments on disk,
real transitions.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
from built_segments import batch_of, config_of, schema_of

from pinotpy.clock import SystemClock
from pinotpy.cluster.reload_jobs import SEALED_ENDS, SealedEnds
from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.cluster.views import Message
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.errors import RemoteError
from pinotpy.segment.archive.archive import pack_segment
from pinotpy.segment.build.builder import build_segment
from pinotpy.server.failed_transitions import FailedTransitions
from pinotpy.server.index_upkeep import IndexUpkeep
from pinotpy.server.reload_jobs import ReloadJobs
from pinotpy.server.tables.registry import SegmentRegistry
from pinotpy.server.tables.store import SegmentStore
from pinotpy.server.transitions import SegmentTransitions

TABLE = "t_OFFLINE"
SCHEMA = schema_of({"city": "STRING", "n": "INT"})
ROWS = {"city": ["rome", "oslo", "rome"] * 50, "n": list(range(149, -1, -1))}


class Properties:
    """Records of segments, and documents that a test changes."""

    def __init__(self) -> None:
        self.crcs: dict[str, int] = {}
        self.index: dict[str, Any] = {}
        self.config: dict[str, Any] = {}  # further keys of the table config
        self.fields = SCHEMA.to_json_dict()

    def segment(self, table: str, name: str) -> Any:
        if name not in self.crcs:
            return None  # it was deleted
        record = SegmentZkMetadata(
            name, table, self.crcs[name], total_docs=0, creation_time_ms=0, download_url=f"http://c/{name}"
        )
        return SimpleNamespace(value=record)

    def table_config(self, table: str) -> Any:
        document = {
            "tableName": table,
            "tableType": "OFFLINE",
            "segmentsConfig": {"replication": "1"},
            "tenants": {},
            "metadata": {},
        }
        return SimpleNamespace(value=document | {"tableIndexConfig": self.index} | self.config)

    def schema(self, name: str) -> Any:
        return SimpleNamespace(value=self.fields)


class DeepStore:
    """Archives by the last part of their address; `failure` is raised instead."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.failure: Exception | None = None
        self.fetched: list[str] = []

    def fetch(self, url: str, target: Path, rest_path: str) -> None:
        if self.failure is not None:
            raise self.failure
        name = url.rpartition("/")[2]
        if not (self.folder / name).exists():
            raise RemoteError(f"no archive of {name}")
        self.fetched.append(name)
        shutil.copyfile(self.folder / name, target)


class Scene:
    """Segments s0, s1 … of one table, all of them served. `failures`: tables by what was counted of them; `index`: how
    they are built.

    properties, splits: other documents, and the rows of each segment; registry: who serves them.
    """

    def __init__(
        self,
        directory: Path,
        num_segments: int,
        *,
        with_archives: bool = False,
        index: dict[str, Any] | None = None,
        properties: Properties | None = None,
        splits: Sequence[Iterable[pa.RecordBatch]] | None = None,
        registry: SegmentRegistry | None = None,
    ) -> None:
        self.directory = directory / "index"
        self.properties = properties or Properties()
        self.registry = registry or SegmentRegistry()
        self.jobs = ReloadJobs(SystemClock())
        self.failures: list[str] = []
        self.counted: Counter[str] = Counter()
        self.deep_store = DeepStore(directory / "deep-store")
        self.deep_store.folder.mkdir(parents=True)
        schema = Schema.from_json(self.properties.fields)
        config = config_of(index) if properties is None else TableConfig.from_json(properties.table_config(TABLE).value)
        for number in range(num_segments):
            batches = [batch_of(SCHEMA, ROWS)] if splits is None else splits[number]
            metadata = build_segment(schema, config, batches, self.directory / TABLE, f"s{number}")
            self.properties.crcs[f"s{number}"] = metadata.crc
            if with_archives:
                pack_segment(self.directory / TABLE / f"s{number}", self.deep_store.folder / f"s{number}")

        def nothing(*_: Any) -> None:
            return None

        def counts(what: str) -> Any:
            return lambda *_: self.counted.update([what])

        fails = self.failures.append
        metrics = SimpleNamespace(
            segment_dropped=nothing,
            table_holds=nothing,
            reload_failed=fails,
            load_failed=fails,
            download_failed=fails,
            segment_damaged=counts("damaged"),
        )
        store = SegmentStore(self.directory, self.deep_store)
        properties = cast(Any, self.properties)
        self.assigned = list(self.properties.crcs)
        self.upkeep = IndexUpkeep(properties)
        self.retries = FailedTransitions(SystemClock())
        self.transitions = SegmentTransitions(
            self.registry,
            store,
            properties,
            cast(Any, metrics),
            self.upkeep,
            self.jobs,
            lambda table: self.assigned if table == TABLE else (),
            self.retries,
        )
        for name in self.properties.crcs:
            self.transitions.on_transition(TABLE, name, "OFFLINE", "ONLINE")

    def reload(self, job: str, segment: str = "", *, anew: bool = False, ends: SealedEnds | None = None) -> None:
        fields = {
            "MSG_SUBTYPE": "RELOAD_SEGMENT",
            "RESOURCE_NAME": TABLE,
            "PARTITION_NAME": segment,
            "reloadJobId": job,
            SEALED_ENDS: (ends or SealedEnds()).to_text(),
        }
        fields["forceDownload"] = str(anew).lower()
        self.transitions.on_message(Message("m1", fields))

    def status(self, job: str) -> dict[str, Any]:
        found = self.jobs.status(job, TABLE, self.registry.segments(TABLE))
        assert found is not None
        return found

    def counts(self, job: str) -> tuple[int, int, int]:
        found = self.status(job)
        return found["totalSegmentCount"], found["successCount"], found["failureCount"]

    def kinds(self, name: str, column: str) -> set[str]:
        return {entry.kind for entry in self.registry.segments(TABLE)[name].column(column).metadata.buffers}
