"""A controller with a table `events` over a file stream, and what its servers say while segments complete."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
from controller_harness import Harness
from events_table import SCHEMA, table_config

from pinotpy.cluster.realtime_records import SegmentStatus
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.controller.periodic.realtime_validation import RealtimeValidation
from pinotpy.segment.archive.archive import pack_metadata, pack_segment
from pinotpy.segment.build.builder import build_segment
from pinotpy.stream.file import create_topic

TABLE = "events_REALTIME"


class CompletionScene:
    def __init__(self, harness: Harness, folder: Path) -> None:
        self.harness, self.folder = harness, folder
        harness.post_json("/schemas", SCHEMA).raise_for_status()
        self.config = table_config(folder, rows=100)
        harness.post_json("/tables", self.config).raise_for_status()
        self.segments = harness.controller.realtime_segments
        self.validation = RealtimeValidation(harness.controller, self.segments, 60.0)

    def begin(self, num_partitions: int = 1) -> str:
        create_topic(self.folder / "events", num_partitions)
        self.validation.run_table(TABLE)
        (name,) = self.segments.chains(TABLE)[0]
        return str(name)

    def says(self, kind: str, name: str, instance: str, offset: int = 100, **more: Any) -> dict[str, Any]:
        params = {"name": name, "instance": instance, "offset": str(offset), "streamPartitionMsgOffset": str(offset)}
        files = more.pop("files", None)
        url = f"{self.harness.server.url}/{kind}"
        params |= {key: str(value) for key, value in more.items()}
        response = httpx.post(url, params=params, files=files, timeout=60)
        assert response.status_code == 200, response.text
        reply: dict[str, Any] = response.json()
        return reply

    def archive(
        self, name: str, rows: int, time_ms: int | None = 1_700_000_000_000, last_ms: int = 1_700_000_000_000
    ) -> tuple[Path, bytes]:
        """A segment's archive, and the archive of its metadata. time_ms: of its first record, last_ms: of the others,
        where the first one has a time.
        """
        batch = pa.RecordBatch.from_pydict(
            {
                "kind": pa.array(["k"] * rows),
                "id": pa.array(range(rows), pa.int64()),
                "ts": pa.array([time_ms] + [last_ms if time_ms else time_ms] * (rows - 1), pa.int64()),
            }
        )
        build_segment(
            Schema.from_json(SCHEMA), TableConfig.from_json(self.config), [batch], self.folder / "built", name
        )
        archive = self.folder / f"{name}.tar.gz"
        pack_segment(self.folder / "built" / name, archive)
        return archive, pack_metadata((self.folder / "built" / name / "metadata").read_bytes(), name)

    def status(self, name: str) -> SegmentStatus:
        stored = self.segments.read(TABLE, name)
        assert stored is not None
        return stored.record.status
