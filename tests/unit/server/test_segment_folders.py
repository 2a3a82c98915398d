"""Proves that a table's folder on a server goes with its last segment, whatever comes at the same time, and that a
segment which is discarded while it is taken over leaves what is served alone.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest
from built_segments import batch_of, config_of, schema_of

from pinotpy.errors import DiskError
from pinotpy.segment.build.builder import build_segment
from pinotpy.server.tables.store import SegmentStore

TABLE = "t_REALTIME"
SCHEMA = schema_of({"n": "INT"})


@pytest.fixture
def store(tmp_path: Path) -> SegmentStore:
    return SegmentStore(tmp_path / "index", cast(Any, None))


def adopt(store: SegmentStore, name: str) -> None:
    folder = store.scratch()
    build_segment(SCHEMA, config_of(None), [batch_of(SCHEMA, {"n": [1, 2, 3]})], folder, name)
    store.adopt(TABLE, folder / name).close()


def test_the_folder_of_a_table_goes_with_its_last_segment(store: SegmentStore, tmp_path: Path) -> None:
    adopt(store, "s0")
    adopt(store, "s1")
    store.delete(TABLE, "s0")
    assert [each.name for each in (tmp_path / "index" / TABLE).iterdir()] == ["s1"]
    store.delete(TABLE, "s1")
    store.delete(TABLE, "s2")  # never here
    assert not (tmp_path / "index" / TABLE).exists()


def test_segments_that_come_while_others_go_are_kept(store: SegmentStore, tmp_path: Path) -> None:
    def come_and_go(name: str) -> None:
        for _ in range(20):
            adopt(store, name)
            store.delete(TABLE, name)
        adopt(store, name)

    names = ["s0", "s1", "s2"]
    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(come_and_go, names))
    assert sorted(each.name for each in (tmp_path / "index" / TABLE).iterdir()) == names


def test_what_was_discarded_does_not_take_the_place_of_what_is_served(store: SegmentStore, tmp_path: Path) -> None:
    adopt(store, "s0")
    with pytest.raises(DiskError, match="'s0' is not kept"):
        store.adopt(TABLE, store.scratch() / "s0")
    assert (tmp_path / "index" / TABLE / "s0").is_dir()
