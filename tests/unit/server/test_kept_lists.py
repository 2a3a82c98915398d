"""Proves that a server keeps the lists of segments that were asked for last, as many as its segments pay for, over all
of its tables; and that each list has its own segments in its own order, whatever was kept or dropped before.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import pytest

from pinotpy.server.tables import snapshot as snapshots
from pinotpy.server.tables.snapshot import KeptLists, Snapshot

A_LIST = snapshots._SEGMENTS_OF_A_LIST


@dataclass(eq=False)
class Named:
    """All that a set asks of a segment whose columns nobody reads."""

    name: str
    num_docs: int
    num_holders: int = 0
    visible: None = None

    def acquire(self) -> bool:
        self.num_holders += 1
        return True

    def release(self) -> None:
        self.num_holders -= 1


def snapshot_of(table: str, count: int) -> Snapshot:
    segments = {f"{table}_{number}": Named(f"{table}_{number}", number) for number in range(count)}
    return Snapshot(cast(Any, segments), None, {})


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Lists are kept for 40 segments, and four for each that is served."""
    monkeypatch.setattr(snapshots, "KEPT_SEGMENTS_MIN", 40)
    yield 40


def test_those_that_were_asked_for_last_are_kept(small: int) -> None:
    kept, snapshot = KeptLists(), snapshot_of("a", 2)
    kept.begin(snapshot)
    lists = [("a_0",), ("a_1",), ("a_0", "a_1"), ("a_1", "a_0"), ("a_0", "other")]
    count = small // (2 + A_LIST)
    parts = [kept.part(snapshot, names) for names in lists[:count]]
    assert kept.part(snapshot, lists[0]) is parts[0], "and it is the one that was asked for last, now"
    kept.part(snapshot, lists[count])
    assert list(snapshot.parts) == [lists[0], *lists[2 : count + 1]]
    assert kept.part(snapshot, lists[1]) is not parts[1]
    found = kept.part(snapshot, ("a_1", "gone", "a_0"))
    assert [each.name for each in found.segments] == ["a_1", "a_0"] and found.missing == ("gone",)


def test_a_list_of_more_than_may_be_kept_is_kept_alone(small: int) -> None:
    kept, snapshot = KeptLists(), snapshot_of("a", 5)
    kept.begin(snapshot)
    kept.part(snapshot, ("a_1",))
    absent = tuple(f"absent_{number}" for number in range(2 * small))
    long = kept.part(snapshot, absent)
    assert long.missing == absent and list(snapshot.parts) == [absent]
    assert kept.part(snapshot, absent) is long


def test_what_is_kept_grows_with_what_is_served_and_goes_with_it(small: int) -> None:
    kept = KeptLists()
    one, other = snapshot_of("a", 30), snapshot_of("b", 30)
    kept.begin(one)
    every = [(f"a_{number}",) for number in range(30)]
    for names in every:
        kept.part(one, names)
    assert len(one.parts) == 4 * 30 // (1 + A_LIST)
    kept.begin(other)
    for names in every:
        kept.part(one, names)
    assert len(one.parts) == 4 * 60 // (1 + A_LIST), "a table has what another one does not need"
    for number in range(30):
        kept.part(other, (f"b_{number}",))
    assert (len(one.parts), len(other.parts)) == (0, 4 * 60 // (1 + A_LIST))
    kept.part(one, every[0])
    for snapshot in (one, other):
        before = dict(snapshot.parts)
        kept.forget(snapshot)
        assert snapshot.parts == before, "queries may still read them"
        snapshot.let_go()
        assert not snapshot.parts, "the next snapshot takes nothing over from them"
        assert not any(cast(Any, each).num_holders for each in snapshot.held)
    assert (kept._num_kept, kept._num_served, len(kept._recent)) == (0, 0, 0)


@pytest.mark.parametrize("seed", range(20))
def test_any_order_of_asking_gives_each_list_its_own_segments(small: int, seed: int) -> None:
    chosen, kept, docs = random.Random(seed), KeptLists(), {f"{table}_{at}": at for table in "ab" for at in range(6)}
    living: dict[str, Snapshot] = {}
    for _ in range(500):
        table = chosen.choice("ab")
        if table in living and chosen.random() < 0.05:
            kept.forget(living[table])
            living.pop(table).let_go()
        if table not in living:
            living[table] = snapshot_of(table, chosen.randint(1, 6))
            kept.begin(living[table])
        names = tuple(chosen.sample([name for name in docs if name.startswith(table)], chosen.randint(0, 6)))
        here = {segment.name for segment in living[table].held}
        found = kept.part(living[table], names)
        assert [each.name for each in found.segments] == [name for name in names if name in here]
        assert found.segments.docs.tolist() == [docs[name] for name in names if name in here]
        assert found.missing == tuple(name for name in names if name not in here)
        served = sum(len(each.held) for each in living.values())
        counted = [len(names) + A_LIST for each in living.values() for names in each.parts]
        assert kept._num_kept == sum(counted) and (sum(counted) <= max(small, 4 * served) or len(counted) == 1)
        assert {(each.snapshot, each.names) for each in kept._recent.values()} == {
            (each, names) for each in living.values() for names in each.parts
        }
