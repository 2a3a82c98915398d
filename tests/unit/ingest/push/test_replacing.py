"""Proves which segments a replacement takes out and brings in, and which ones it refuses: the rule is written down here
once more, by hand, for small tables.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from controller_harness import build_parts_segment

from pinotpy.errors import AlreadyExistsError, UserError
from pinotpy.ingest.push.replacing import LiveSegment, ReplacePlan, plan_replacement
from pinotpy.ingest.push.settings import ReplaceScope
from pinotpy.ingest.push.sources import SegmentSource, read_sources

DAY_MS = 86_400_000


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> SegmentSource:
    """A segment with rows of the days 18000 to 18002."""
    archive: Path = build_parts_segment(tmp_path_factory.mktemp("built"), "new_0")
    return read_sources([str(archive)], None, parallelism=1)[0]


def named(source: SegmentSource, name: str, *, crc: int = 1) -> SegmentSource:
    return replace(source, metadata=replace(source.metadata, segment_name=name, crc=crc))


def days(first: int, last: int, crc: int = 7) -> LiveSegment:
    """A live segment with rows of these days, the last one included."""
    return LiveSegment(crc, first * DAY_MS, last * DAY_MS)


def test_the_whole_table_is_replaced(source: SegmentSource) -> None:
    live = {"old_1": days(17_000, 17_001), "old_0": days(18_000, 18_000), "timeless": LiveSegment(3, None, None)}
    assert plan_replacement(ReplaceScope(), [source], live) == ReplacePlan(("old_0", "old_1", "timeless"), ("new_0",))
    assert plan_replacement(ReplaceScope(), [source], {}) == ReplacePlan((), ("new_0",))


def test_what_is_there_already_stays_and_is_in_neither_list(source: SegmentSource) -> None:
    pushed = [named(source, "a"), named(source, "b", crc=2)]
    live = {"a": days(18_000, 18_002, crc=1), "old": days(18_000, 18_002)}
    assert plan_replacement(ReplaceScope(), pushed, live) == ReplacePlan(("old",), ("b",))
    assert plan_replacement(ReplaceScope(), pushed[:1], {"a": days(18_000, 18_002, crc=1)}) == ReplacePlan((), ())


def test_other_content_under_the_same_name_is_refused(source: SegmentSource) -> None:
    with pytest.raises(AlreadyExistsError, match="segment a: there already, with other content"):
        plan_replacement(ReplaceScope(), [named(source, "a")], {"a": days(18_000, 18_002, crc=2)})


def test_a_time_range_takes_whole_segments_within(source: SegmentSource) -> None:
    scope = ReplaceScope(18_000 * DAY_MS, 18_003 * DAY_MS)
    live = {
        "before": days(17_998, 17_999),
        "first": days(18_000, 18_000),
        "last": days(18_002, 18_002),
        "after": days(18_003, 18_004),
    }
    assert plan_replacement(scope, [source], live) == ReplacePlan(("first", "last"), ("new_0",))
    assert plan_replacement(ReplaceScope(18_000 * DAY_MS, None), [source], live).segments_from == (
        "after",
        "first",
        "last",
    )
    assert plan_replacement(ReplaceScope(None, 18_003 * DAY_MS), [source], live).segments_from == (
        "before",
        "first",
        "last",
    )


@pytest.mark.parametrize(("first", "last"), [(17_999, 18_000), (18_002, 18_003), (17_000, 19_000)])
def test_a_segment_across_the_border_is_refused(source: SegmentSource, first: int, last: int) -> None:
    with pytest.raises(UserError, match="lie across the border"):
        plan_replacement(ReplaceScope(18_000 * DAY_MS, 18_003 * DAY_MS), [source], {"x": days(first, last)})


@pytest.mark.parametrize("scope", [ReplaceScope(18_001 * DAY_MS, None), ReplaceScope(None, 18_002 * DAY_MS)])
def test_rows_outside_of_the_range_are_refused(source: SegmentSource, scope: ReplaceScope) -> None:
    with pytest.raises(UserError, match="times outside"):
        plan_replacement(scope, [source], {})


def test_a_segment_without_times_has_no_place_in_a_range(source: SegmentSource) -> None:
    timeless = replace(source, metadata=replace(source.metadata, time_range=None))
    with pytest.raises(UserError, match="no time column"):
        plan_replacement(ReplaceScope(0, None), [timeless], {})
    assert (
        plan_replacement(ReplaceScope(0, None), [source], {"timeless": LiveSegment(3, None, None)}).segments_from == ()
    )
