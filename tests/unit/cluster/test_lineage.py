"""Proves the rules of replacements, one by one, against expectations written down from docs/segment-lineage.md, and
that the record has Pinot's shape.
"""

from __future__ import annotations

from collections.abc import Collection

import pytest

from pinotpy.cluster.lineage import (
    DAY_MS,
    SETTLE_MS,
    AgeLineage,
    Ages,
    EndReplace,
    LineageEvent,
    NotReadyError,
    RevertReplace,
    Situation,
    StartReplace,
    check_start,
    decide,
    doomed_segments,
)
from pinotpy.cluster.records import GZIP_FROM_BYTES, ZNRecord
from pinotpy.cluster.segment_lineage import (
    LineageEntry,
    LineageState,
    SegmentLineage,
    lineage_from_bytes,
    lineage_or_reason,
)
from pinotpy.errors import AlreadyExistsError, DecodeError, NotFoundError, UserError

NOW_MS = 1_700_000_000_000
IN_PROGRESS, COMPLETED, REVERTED = LineageState.IN_PROGRESS, LineageState.COMPLETED, LineageState.REVERTED


def lineage(**entries: tuple[str, str, LineageState] | tuple[str, str, LineageState, int]) -> SegmentLineage:
    """Entries as ("a b", "c", state[, age in ms])."""
    made = {}
    for name, (old, new, state, *age) in entries.items():
        made[name] = LineageEntry(
            tuple(old.split()), tuple(new.split()), state, NOW_MS - (age[0] if age else DAY_MS // 2)
        )
    return SegmentLineage("t_OFFLINE", made)


def after(
    before: SegmentLineage, event: LineageEvent, wanted: str = "", served: str | None = None, *, now_ms: int = NOW_MS
) -> SegmentLineage:
    """The lineage after an event; `served` is what `wanted` is, unless said."""
    new = decide(
        before,
        event,
        Situation(frozenset(wanted.split()), frozenset((wanted if served is None else served).split())),
        now_ms,
    )
    return before if new is None else new


def states(found: SegmentLineage) -> dict[str, tuple[str, str, str]]:
    return {
        name: (" ".join(entry.segments_from), " ".join(entry.segments_to), entry.state.value)
        for name, entry in found.entries.items()
    }


def start(old: str, new: str, entry_id: str = "e", *, force: bool = False) -> StartReplace:
    return StartReplace(entry_id, tuple(old.split()), tuple(new.split()), force)


def seen(wanted: str, found: SegmentLineage) -> Collection[str]:
    return sorted(set(wanted.split()) - found.hidden)


def test_a_replacement_from_start_to_end_and_back() -> None:
    started = after(SegmentLineage("t_OFFLINE"), start("a b", "c"), "a b")
    assert states(started) == {"e": ("a b", "c", "IN_PROGRESS")} and seen("a b c", started) == ["a", "b"]
    done = after(started, EndReplace("e", (), {"job": "7"}), "a b c")
    assert states(done) == {"e": ("a b", "c", "COMPLETED")} and seen("a b c", done) == ["c"]
    assert (done.entries["e"].timestamp_ms, done.custom_map, done.awaited) == (NOW_MS, {"job": "7"}, {"c"})
    undone = after(done, RevertReplace("e"), "a b c")
    assert states(undone) == {"e": ("a b", "c", "REVERTED")} and seen("a b c", undone) == ["a", "b"]


def test_rows_are_added_and_taken_away_at_once_too() -> None:
    added = after(after(SegmentLineage("t"), start("", "c d"), "a"), EndReplace("e"), "a c d")
    assert seen("a c d", added) == ["a", "c", "d"]
    taken = after(after(SegmentLineage("t"), start("a", ""), "a b"), EndReplace("e"), "a b")
    assert seen("a b", taken) == ["b"]


def test_every_step_may_be_repeated() -> None:
    started = after(SegmentLineage("t"), start("a", "b"), "a")
    done = after(started, EndReplace("e"), "a b")
    undone = after(done, RevertReplace("e"), "a b")
    assert after(started, start("a", "b"), "a") is started and after(done, start("a", "b"), "a b") is done
    assert after(done, EndReplace("e"), "a b", "") is done and after(undone, RevertReplace("e"), "") is undone
    with pytest.raises(AlreadyExistsError, match="with other segments"):
        after(started, start("a", "c"), "a")
    with pytest.raises(AlreadyExistsError, match="was reverted"):
        after(undone, EndReplace("e"), "a b")


@pytest.mark.parametrize(
    ("event", "error", "text"),
    [
        (start("", ""), UserError, "both empty"),
        (start("a a", "z"), UserError, "twice: 'a'"),
        (start("a", "a"), UserError, "own place: 'a'"),
        (start("a", "x,y"), UserError, "separates names by commas"),
        (start("a", "x/y"), UserError, "cannot be a segment name"),
        (start("none", "z"), UserError, "not in table 't_OFFLINE': 'none'"),
        (start("old", "z"), AlreadyExistsError, r"entry 'done' \(COMPLETED\) hides it"),
        (start("coming", "z"), AlreadyExistsError, r"entry 'busy' \(IN_PROGRESS\) hides it"),
        (start("a", "b"), AlreadyExistsError, "in table 't_OFFLINE' already: 'b'"),
        (start("a", "old"), AlreadyExistsError, "'old' of 'segmentsTo' is replaced by entry 'done'"),
        (
            start("b", "z"),
            AlreadyExistsError,
            "entry 'busy', in progress for 43200 s, replaces or brings some of these segments: 'b'",
        ),
        (start("a", "coming"), AlreadyExistsError, "forceCleanup=true"),
        (start("a", "gone"), AlreadyExistsError, "'gone' came with entry 'done'"),
        (start("a", "gone", force=True), AlreadyExistsError, "choose other names"),
        (EndReplace("none"), NotFoundError, "no entry 'none'"),
        (EndReplace("busy", ("a",)), UserError, "not announced"),
        (EndReplace("busy", ("later",)), AlreadyExistsError, "'coming' of entry 'busy' was uploaded and is left out"),
        (
            EndReplace("busy"),
            AlreadyExistsError,
            "1 of 2 segments of entry 'busy' are not in table 't_OFFLINE': 'later'; upload them first",
        ),
        (RevertReplace("none"), NotFoundError, "no entry"),
        (RevertReplace("busy"), AlreadyExistsError, "forceRevert=true"),
    ],
)
def test_what_cannot_be_is_refused_and_says_why(event: LineageEvent, error: type[Exception], text: str) -> None:
    before = lineage(done=("old", "new gone", COMPLETED), busy=("b", "coming later", IN_PROGRESS))
    with pytest.raises(error, match=text):
        after(before, event, "a b old new coming")


def test_a_name_among_twenty_thousand_that_is_there_twice_is_found_at_once() -> None:
    comparisons = 0

    class Name(str):
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            nonlocal comparisons
            comparisons += 1
            return str.__eq__(self, other)

    names = (*(Name(f"segment_{number}") for number in range(20_000)), Name("segment_7"))
    with pytest.raises(UserError, match=r"twice: 'segment_7'$"):
        check_start(StartReplace("e", (), names))
    assert comparisons < 200_000, "each with each would be 200 million: the controller answers nobody meanwhile"


def test_the_end_waits_until_every_segment_is_served() -> None:
    busy = lineage(e=("a", "b c", IN_PROGRESS))
    with pytest.raises(
        NotReadyError, match="1 of 2 segments of entry 'e' of table 't_OFFLINE' are not served yet: 'c'"
    ):
        after(busy, EndReplace("e"), "a b c", "a b")
    with pytest.raises(AlreadyExistsError, match="upload them first"):
        after(busy, EndReplace("e"), "a b", "a b")
    fewer = after(busy, EndReplace("e", ("b",)), "a b", "a b")
    assert states(fewer) == {"e": ("a", "b", "COMPLETED")}
    assert states(after(busy, EndReplace("e", ("b", "b")), "a b", "a b")) == states(fewer)


def test_a_revert_needs_the_old_segments_served_or_force() -> None:
    done = lineage(e=("a", "b", COMPLETED))
    with pytest.raises(NotReadyError):
        after(done, RevertReplace("e"), "a b", "b")
    assert seen("a b", after(done, RevertReplace("e", force=True), "a b", "b")) == ["a"]
    with pytest.raises(AlreadyExistsError, match="old segments are deleted: 'a'"):
        after(done, RevertReplace("e", force=True), "b")


def test_what_another_replacement_builds_on_is_not_reverted() -> None:
    chain = lineage(first=("a", "b", COMPLETED), second=("b", "c", COMPLETED))
    with pytest.raises(
        AlreadyExistsError, match=r"entry 'second' \(COMPLETED\) replaces 'b' of it; revert that one first"
    ):
        after(chain, RevertReplace("first"), "a b c")
    back = after(after(chain, RevertReplace("second"), "a b c"), RevertReplace("first"), "a b c")
    assert seen("a b c", back) == ["a"]


def test_a_forced_start_takes_over_and_never_shows_what_was_hidden() -> None:
    busy = lineage(busy=("a", "b c", IN_PROGRESS), other=("x", "y", IN_PROGRESS))
    again = after(busy, start("a", "c d", force=True), "a b c x")
    assert states(again) == {
        "busy": ("a", "b", "REVERTED"),
        "other": ("x", "y", "IN_PROGRESS"),
        "e": ("a", "c d", "IN_PROGRESS"),
    }
    assert seen("a b c d x y", again) == ["a", "x"]
    same = after(busy, start("a", "b c", force=True), "a b c x")
    assert states(same) == {"other": ("x", "y", "IN_PROGRESS"), "e": ("a", "b c", "IN_PROGRESS")}


def test_names_that_were_visible_a_moment_ago_wait_before_they_come_again() -> None:
    with pytest.raises(NotReadyError, match="start again in 7 s"):
        after(lineage(old=("a", "b c", REVERTED, 3_000)), start("a", "b"), "a b c")
    again = after(lineage(old=("a", "b c", REVERTED, SETTLE_MS)), start("a", "b"), "a b c")
    assert states(again) == {"old": ("a", "c", "REVERTED"), "e": ("a", "b", "IN_PROGRESS")}


def test_what_is_deleted_was_invisible_for_its_time() -> None:
    found = lineage(
        fresh=("a", "b", COMPLETED, DAY_MS - 1), old=("c d", "e", COMPLETED, DAY_MS),
            busy=("e", "f", IN_PROGRESS, 9 * DAY_MS),
        late=("b", "g", REVERTED, SETTLE_MS - 1), back=("b", "h", REVERTED, SETTLE_MS),
    )  # fmt: skip
    wanted = ["a", "b", "c", "e", "f", "g", "h"]
    assert doomed_segments(found, wanted, Ages(), NOW_MS) == ["c", "h"]
    assert doomed_segments(found, wanted, Ages(), NOW_MS, replaced_now=["fresh"]) == ["a", "c", "h"]
    assert doomed_segments(found, wanted, Ages(replaced_ms=0), NOW_MS) == ["a", "c", "h"]
    just_now = lineage(e=("a", "b", COMPLETED, SETTLE_MS - 1))
    assert doomed_segments(just_now, wanted, Ages(replaced_ms=0), NOW_MS, replaced_now=["e"]) == []


def test_entries_go_when_nothing_needs_them() -> None:
    found = lineage(
        kept=("a", "b", COMPLETED, DAY_MS - 1), held=("c", "d", COMPLETED, 2 * DAY_MS),
            gone=("e", "f", COMPLETED, 2 * DAY_MS),
        stuck=("f", "g", IN_PROGRESS, DAY_MS), young=("f", "h", IN_PROGRESS, DAY_MS - 1),
        zombie=("x", "i", REVERTED, DAY_MS - 1), forgotten=("x", "j", REVERTED, DAY_MS),
            left=("x", "k", REVERTED, 2 * DAY_MS),
    )  # fmt: skip
    aged = after(found, AgeLineage(), "a b c d f g k")
    assert {name: entry.state.value for name, entry in aged.entries.items()} == {
        "kept": "COMPLETED", "held": "COMPLETED", "stuck": "REVERTED", "young": "IN_PROGRESS", "zombie": "REVERTED",
        "left": "REVERTED",
    }  # fmt: skip
    assert aged.entries["stuck"].timestamp_ms == NOW_MS
    assert after(aged, AgeLineage(), "a b c d f g k") is aged


def test_an_entry_stays_as_long_as_one_below_it_could_be_reverted() -> None:
    chain = lineage(
        first=("a", "b", COMPLETED, 2 * DAY_MS),
        second=("b", "c", COMPLETED, 2 * DAY_MS),
        third=("c", "d", COMPLETED, 2 * DAY_MS),
    )
    assert list(after(chain, AgeLineage(), "a d").entries) == ["first", "second", "third"], (
        "b and c are deleted, a is not"
    )
    assert after(chain, AgeLineage(), "d").entries == {}


def test_the_record_has_the_shape_of_the_reference() -> None:
    found = SegmentLineage(
        "t_OFFLINE",
        {"e2": LineageEntry(("a", "b"), ("c",), COMPLETED, 7), "e1": LineageEntry((), ("x",), IN_PROGRESS, 5)},
        {"k": "v"},
    )
    assert found.to_record() == ZNRecord(
        "t_OFFLINE",
        {},
        {"custom.map": {"k": "v"}},
        {"e2": ["a,b", "c", "COMPLETED", "7"], "e1": ["", "x", "IN_PROGRESS", "5"]},
    )
    again = lineage_from_bytes(found.to_record().to_bytes(), "/C/PROPERTYSTORE/SEGMENT_LINEAGE/t_OFFLINE")
    assert again == found and list(again.entries) == ["e1", "e2"], "oldest first"
    assert found.to_json_dict() | {"lineageEntries": {}} == {
        "tableNameWithType": "t_OFFLINE",
        "lineageEntries": {},
        "customMap": {"k": "v"},
    }
    assert again.to_json_dict()["lineageEntries"]["e1"] == {
        "segmentsFrom": [],
        "segmentsTo": ["x"],
        "state": "IN_PROGRESS",
        "timestamp": 5,
    }


def test_a_large_record_is_packed_and_one_that_cannot_be_read_says_so() -> None:
    many = SegmentLineage("t", {"e": LineageEntry(tuple(f"segment_{n}" for n in range(9_000)), (), COMPLETED, 1)})
    data = many.to_record().to_bytes()
    assert data[:2] == b"\x1f\x8b" and len(data) < GZIP_FROM_BYTES and lineage_from_bytes(data, "/t") == many
    for texts in (["a", "b", "DONE", "1"], ["a", "b", "COMPLETED"], ["a", "b", "COMPLETED", "soon"]):
        broken = ZNRecord("t", {}, {}, {"e": texts}).to_bytes()
        with pytest.raises(DecodeError, match="entry 'e' of the segment lineage of 't'"):
            lineage_from_bytes(broken, "/t")
        assert "entry 'e'" in lineage_or_reason(broken, "/t").unreadable
    assert lineage_or_reason(b"{", "/t").unreadable and lineage_or_reason(b"", "/t") == SegmentLineage("t")
