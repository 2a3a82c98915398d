"""Proves that a segment whose bytes were damaged is out of service with the first query that would read them: the
answer is made with another replica of it, or says that it lacks it, and the segment is handed over to be replaced.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from in_process import InProcessCluster
from server_scene import TABLE, Scene

from pinotpy.broker.catalog import Half, Target
from pinotpy.broker.routing.table_routing import TableRouting
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.errors import SegmentCorruptError
from pinotpy.memory.budget import ProcessBudget
from pinotpy.query.segments import checked_bytes
from pinotpy.segment import layout
from pinotpy.segment.immutable import ImmutableSegment, load_segment
from pinotpy.server import query_runs

SCHEMA = Schema.from_json({"schemaName": "t", "dimensionFieldSpecs": [{"name": "n", "dataType": "LONG"}]})
CONFIG = TableConfig.from_json(
    {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "2"},
        "tenants": {},
        "tableIndexConfig": {"noDictionaryColumns": ["n"]},
        "metadata": {},
    }
)
NUM_SEGMENTS, NUM_ROWS = 3, 1000
SUM_OF_ALL = sum(range(NUM_SEGMENTS * NUM_ROWS))
ASKED = "SELECT SUM(n), COUNT(*) FROM t"


def flip(folder: Path, *, keeps_time: bool) -> None:
    """One bit of the middle of the file; its time tells, or does not."""
    file = folder / layout.COLUMNS
    before = file.stat()
    file.chmod(0o600)
    with file.open("r+b") as stream:
        stream.seek(before.st_size // 2)
        byte = stream.read(1)[0]
        stream.seek(before.st_size // 2)
        stream.write(bytes([byte ^ 4]))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + (0 if keeps_time else 1_000_000)))


class Replicas:
    """Two servers with the same segments, each in a folder of its own; found: what they hand over to be replaced."""

    def __init__(self, directory: Path, *, num_replicas: int = 2, server_memory: ProcessBudget | None = None) -> None:
        self.cluster = InProcessCluster(directory / "0", num_servers=num_replicas, server_memory=server_memory)
        splits = [
            [pa.record_batch({"n": pa.array(range(first * NUM_ROWS, (first + 1) * NUM_ROWS), pa.int64())})]
            for first in range(NUM_SEGMENTS)
        ]
        self.names = self.cluster.add_table(SCHEMA, CONFIG, splits)
        shutil.copytree(directory / "0", directory / "1")
        self.folders = [directory / str(number) / "t" for number in range(num_replicas)]
        servers = list(self.cluster.registries)[:num_replicas]
        routing = TableRouting("t_OFFLINE", {name: tuple(servers) for name in self.names})
        self.cluster.catalog.targets["t"] = Target("t", SCHEMA, (Half(routing),))
        self.found: list[tuple[str, ImmutableSegment | None]] = []
        for server, folder in zip(servers, self.folders, strict=True):
            for name in self.names:
                self.cluster.registries[server].put("t_OFFLINE", load_segment(folder / name))
            self.cluster.services[server]._runs._on_damage = self._found

    def _found(self, table: str, segment: ImmutableSegment | None, damage: SegmentCorruptError) -> None:
        assert "does not match its CRC" in damage.message
        self.found.append((table, segment))

    def right(self) -> bool:
        answer = self.cluster.sql(ASKED)
        return not answer["exceptions"] and answer["resultTable"]["rows"] == [[SUM_OF_ALL, NUM_SEGMENTS * NUM_ROWS]]


@pytest.mark.parametrize("when", ["while it is served", "before it was loaded"])
def test_another_replica_is_asked_for_a_damaged_segment(tmp_path: Path, when: str) -> None:
    replicas = Replicas(tmp_path)
    name, server = replicas.names[1], next(iter(replicas.cluster.registries))
    registry = replicas.cluster.registries[server]
    if when == "while it is served":
        assert all(replicas.right() for _ in range(4)), "both have read all of their bytes by then"
        flip(replicas.folders[0] / name, keeps_time=False)
        # Files are looked at again when a hundred times as long as a look takes has passed.
        registry.put("t_OFFLINE", registry.segments("t_OFFLINE")[name])
    else:
        flip(replicas.folders[0] / name, keeps_time=True)
        registry.put("t_OFFLINE", load_segment(replicas.folders[0] / name, verify=False))
    damaged = registry.segments("t_OFFLINE")[name]
    assert all(replicas.right() for _ in range(6))
    assert replicas.found == [("t_OFFLINE", damaged)]
    assert sorted(registry.segments("t_OFFLINE")) == [replicas.names[0], replicas.names[2]]
    replicas.cluster.close()


def test_without_another_replica_the_answer_says_what_it_lacks(tmp_path: Path) -> None:
    replicas = Replicas(tmp_path, num_replicas=1)
    for name in replicas.names[:2]:
        flip(replicas.folders[0] / name, keeps_time=True)
        registry = next(iter(replicas.cluster.registries.values()))
        registry.put("t_OFFLINE", load_segment(replicas.folders[0] / name, verify=False))
    answer = replicas.cluster.sql(ASKED)
    replicas.cluster.close()
    assert [error["errorCode"] for error in answer["exceptions"]] == [305]
    assert all(name in answer["exceptions"][0]["message"] for name in replicas.names[:2])
    assert answer["resultTable"]["rows"] == [[sum(range(2 * NUM_ROWS, 3 * NUM_ROWS)), NUM_ROWS]]
    assert len(replicas.found) == 2


def test_the_run_without_the_damaged_segment_begins_with_nothing_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    budget = ProcessBudget(256 << 20)
    replicas = Replicas(tmp_path, num_replicas=1, server_memory=budget)
    [registry] = replicas.cluster.registries.values()
    name = replicas.names[1]
    damaged, looks = registry.segments("t_OFFLINE")[name], []
    look, run = ImmutableSegment.look, query_runs.execute
    charged: list[tuple[int, int, bool]] = []

    def look_after_damage(segment: ImmutableSegment) -> None:
        if segment is damaged:
            looks.append(segment)
            if len(looks) == 2:  # the query has ended, and looks whether its bytes are as they were
                charged.append(held())
                flip(replicas.folders[0] / name, keeps_time=False)
        look(segment)

    def held() -> tuple[int, int, bool]:
        [control] = replicas.cluster.services[next(iter(replicas.cluster.services))]._running.values()
        return control.held_bytes, budget.used_by_queries_bytes, bool(control.checks or control.grouping_methods)

    def run_noting_charges(*args: Any, **kwargs: Any) -> Any:
        charged.append(held())
        return run(*args, **kwargs)

    # A query that ends within a hundred times as long as its first look took would not look again.
    monkeypatch.setattr(checked_bytes, "_LOOK_SHARE", 0)
    monkeypatch.setattr(ImmutableSegment, "look", look_after_damage)
    monkeypatch.setattr(query_runs, "execute", run_noting_charges)
    answer = replicas.cluster.sql("SELECT n, COUNT(*) FROM t GROUP BY n ORDER BY n LIMIT 3000")
    replicas.cluster.close()
    assert [error["errorCode"] for error in answer["exceptions"]] == [305]
    assert [row[0] for row in answer["resultTable"]["rows"]] == [n for n in range(3000) if n // NUM_ROWS != 1]
    first, ended, second, *_ = charged
    assert first == second == (0, 0, False)
    assert min(ended[:2]) > NUM_SEGMENTS * NUM_ROWS, "it had more than a byte a group, and gave it back"
    assert budget.used_by_queries_bytes == 0


def test_a_withdrawn_segment_is_replaced_and_one_that_is_sound_comes_back(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 2, with_archives=True)
    damaged, sound = (scene.registry.segments(TABLE)[name] for name in ("s0", "s1"))
    flip(scene.directory / TABLE / "s0", keeps_time=True)
    for segment in (damaged, sound):
        assert scene.registry.withdraw(TABLE, segment)
        assert not scene.registry.withdraw(TABLE, segment), "once"
    assert not scene.registry.segments(TABLE)
    for segment in (damaged, sound):
        assert scene.transitions.replace_damaged(TABLE, segment)
        assert not scene.transitions.replace_damaged(TABLE, segment), "there is another one in its place"
    assert scene.deep_store.fetched == ["s0"] and sorted(scene.registry.segments(TABLE)) == ["s0", "s1"]
    load_segment(scene.directory / TABLE / "s0", verify=True).close()


def test_a_withdrawn_segment_that_was_dropped_stays_away(tmp_path: Path) -> None:
    scene = Scene(tmp_path, 1, with_archives=True)
    segment = scene.registry.segments(TABLE)["s0"]
    assert scene.registry.withdraw(TABLE, segment)
    scene.transitions.on_transition(TABLE, "s0", "ONLINE", "OFFLINE")
    assert not scene.transitions.replace_damaged(TABLE, segment) and not scene.registry.segments(TABLE)
