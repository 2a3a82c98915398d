"""Proves that a deletion is finished whatever ends it between the records and the archives, and that it spares what
came in since.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from controller_harness import Harness

from pinotpy.clock import ManualClock
from pinotpy.controller.deletion import FINISHED_AFTER_MS, delete_segments
from pinotpy.controller.periodic.retention import RetentionManager
from pinotpy.controller.segment_files import SegmentFiles
from pinotpy.controller.tables import delete_table
from pinotpy.errors import DataError

Builder = Callable[..., Path]


class Killed(BaseException):
    """What a test ends a controller with."""


def stored(harness: Harness) -> tuple[list[str], list[str]]:
    """Names of segments with an archive in its place, and among the deleted ones."""
    parts = [name.split("/") for name in harness.files() if name.startswith("store/")]
    return tuple([part[3] for part in parts if part[1] == kind] for kind in ("segments", "Deleted_Segments"))  # type: ignore[return-value]


def recorded(harness: Harness) -> list[str]:
    return [name for left in harness.controller.catalog.deletions.all() for name in left.segments]


def broken_off(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, error: BaseException, delete: Callable[[], object]
) -> None:
    """A deletion that gets no further than the records."""

    def fail(*_: Any, **__: Any) -> None:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(SegmentFiles, "retire", fail)
        if isinstance(error, Killed):
            with pytest.raises(Killed):
                delete()
        else:
            delete()


def retention(harness: Harness) -> None:
    RetentionManager(harness.controller, 1).run_once()


@pytest.mark.parametrize("whole_table", [False, True])
@pytest.mark.parametrize("error", [Killed(), DataError("the deep store is away")], ids=["killed", "store away"])
def test_archives_go_later_where_the_deletion_broke_off(
    start: Callable[..., Harness],
    segment: Builder,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    whole_table: bool,
) -> None:
    clock = ManualClock()
    harness = start(clock=clock)
    harness.add_parts()
    for name in ("a", "b", "c"):
        assert harness.upload(segment(name), tableName="parts").status_code == 200
    gone = ["a", "b", "c"] if whole_table else ["a", "b"]
    delete = (
        (lambda: delete_table(harness.controller, "parts", None))
        if whole_table
        else (lambda: delete_segments(harness.controller, "parts_OFFLINE", gone))
    )
    broken_off(harness, monkeypatch, error, delete)
    assert stored(harness) == (["a", "b", "c"], []) and recorded(harness) == gone
    retention(harness)
    assert stored(harness) == (["a", "b", "c"], []), "who began it may be at it"
    clock.advance(FINISHED_AFTER_MS)
    retention(harness)
    assert stored(harness) == ([name for name in ("a", "b", "c") if name not in gone], gone) and recorded(harness) == []


def test_a_namesake_that_came_in_since_keeps_its_archive(
    start: Callable[..., Harness], segment: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    harness = start(clock=clock)
    harness.add_parts()
    old, new = segment("a", amounts=(1,)), segment("a", amounts=(2,))
    assert harness.upload(old, tableName="parts").status_code == 200
    broken_off(
        harness,
        monkeypatch,
        Killed(),
        lambda: delete_segments(harness.controller, "parts_OFFLINE", ["a"], retention_ms=0),
    )
    assert harness.upload(new, tableName="parts").status_code == 200
    clock.advance(FINISHED_AFTER_MS)
    retention(harness)
    assert stored(harness) == (["a"], []) and recorded(harness) == []
    assert harness.http.get("/segments/parts/a").content == new.read_bytes()


def test_a_deletion_that_is_done_leaves_no_record(harness: Harness, segment: Builder) -> None:
    harness.add_parts()
    harness.upload(segment("a"), tableName="parts")
    assert delete_segments(harness.controller, "parts_OFFLINE", ["a", "never-was"]) == 1
    assert recorded(harness) == [] and stored(harness) == ([], ["a"])
    assert delete_segments(harness.controller, "parts_OFFLINE", ["a"]) == 0
    assert recorded(harness) == []
