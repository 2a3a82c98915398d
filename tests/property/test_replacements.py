"""Proves that whatever is replaced, reverted, deleted, refreshed and cleaned up, in any order and over few names that
come again and again, queries see exactly the rows that they should.

The oracle is a model that knows nothing of hidden segments: it keeps the set of segments that queries see, and every
accepted step changes this set as the step's own words say (end: old ones out, new ones in; revert: the other way round;
a clean-up: nothing). The shipped rules, writes, spectator and routing must show the same set after every step. Which
steps are refused is the rules' business, but for those that nobody could have a reason to refuse. A failure prints its
seed.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from manual_dispatcher import ManualDispatcher

from pinotpy.broker.cluster_catalog import ClusterCatalog
from pinotpy.clock import ManualClock
from pinotpy.cluster.cluster_setup import create_cluster
from pinotpy.cluster.lineage import (
    SETTLE_MS,
    AgeLineage,
    Ages,
    EndReplace,
    LineageEvent,
    RevertReplace,
    StartReplace,
    doomed_segments,
)
from pinotpy.cluster.memory import MemoryStore, MemoryTree
from pinotpy.cluster.paths import ClusterPaths
from pinotpy.cluster.property_store import table_config_record
from pinotpy.cluster.records import ZNRecord
from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.cluster.spectator import Spectator
from pinotpy.cluster.table_changes import (
    AddSegments,
    ChangeLineage,
    CreateTable,
    RemoveSegments,
    ReplaceSegment,
    TableChange,
)
from pinotpy.cluster.table_reading import Reading
from pinotpy.cluster.table_state import apply, new_table_ideal_state
from pinotpy.cluster.views import InstanceConfig, LiveInstance
from pinotpy.errors import PinotError

PATHS, TABLE, SERVER = ClusterPaths("C"), "t_OFFLINE", "Server_a_1"
NAMES = tuple(f"s{number}" for number in range(10))
AGES = Ages(replaced_ms=60_000, entries_ms=90_000)
NUM_SEEDS, NUM_STEPS = 250, 80


@dataclass
class Entry:
    """What the model knows of a replacement."""

    old: tuple[str, ...]
    new: tuple[str, ...]
    state: str = "under way"


@dataclass
class Model:
    """What queries see. `rows`: rows of each segment that the table has."""

    seen: set[str] = field(default_factory=set)
    rows: dict[str, int] = field(default_factory=dict)
    entries: dict[str, Entry] = field(default_factory=dict)

    def arriving(self, name: str) -> bool:
        return any(entry.state == "under way" and name in entry.new for entry in self.entries.values())


class Table:
    """One table over the in-memory store, with one server that loads what it is told to, and one broker."""

    def __init__(self, seed: int) -> None:
        self.randomness = random.Random(seed)
        random.seed(seed)
        self.clock = ManualClock(1_000_000)
        self.store = MemoryStore(MemoryTree(self.clock), dispatcher=ManualDispatcher())
        create_cluster(self.store, PATHS)
        self.change(
            CreateTable(
                table_config_record(TABLE, {"tableName": TABLE, "tableType": "OFFLINE"}),
                new_table_ideal_state(TABLE, 1),
                (),
            )
        )
        self.store.create(PATHS.instance_config(SERVER), InstanceConfig(SERVER, "a", 1, (), {}).to_record().to_bytes())
        self.store.create(PATHS.live_instance(SERVER), LiveInstance(SERVER, "1").to_record().to_bytes())
        self.store.create(PATHS.external_view(TABLE), ZNRecord(TABLE).to_bytes())
        self.hints = ManualDispatcher()
        self.spectator = Spectator(
            MemoryStore(self.store._tree, dispatcher=self.hints), PATHS, with_segments=True, clock=self.clock
        )
        self.broker = ClusterCatalog(lambda: self.spectator.view, self.clock)
        self.loaded: set[str] = set()
        self.model = Model()
        self.next_id = 0
        self.accepted: dict[str, int] = {}

    def change(self, change: TableChange) -> None:
        apply(self.store, PATHS, TABLE, change, pause=lambda _: None)

    def replace(self, event: LineageEvent) -> bool:
        try:
            self.change(ChangeLineage(event, self.clock.now_ms(), AGES))
        except PinotError:
            return False
        return True

    # Steps

    def add(self) -> None:
        arriving = [name for name in NAMES if self.model.arriving(name) and name not in self.model.rows]
        name = self.randomness.choice(arriving if arriving and self.randomness.random() < 0.6 else NAMES)
        rows = self.randomness.randrange(1, 1000)
        record = SegmentZkMetadata(name, TABLE, crc=rows, total_docs=rows, creation_time_ms=1, push_time_ms=1)
        is_new = name not in self.model.rows
        try:
            self.change(AddSegments(((record, {SERVER: "ONLINE"}),)) if is_new else ReplaceSegment(record))
        except PinotError:
            assert not self.model.arriving(name), f"{name} was announced and may come"
            assert name not in self.model.seen, f"{name} is seen and may be refreshed"
            return
        assert is_new or name in self.model.seen or self.model.arriving(name), (
            f"rows of {name} came in that nobody will see"
        )
        self.model.rows[name] = rows
        if not self.model.arriving(name) and is_new:
            self.model.seen.add(name)
            self.loaded.add(name)

    def load(self) -> None:
        self.loaded.update(name for name in self.model.rows if self.randomness.random() < 0.7)

    def delete(self) -> None:
        name = self.randomness.choice(NAMES)
        self.change(RemoveSegments((name,)))
        self.forget([name])

    def forget(self, names: list[str]) -> None:
        for name in names:
            self.model.rows.pop(name, None)
            self.model.seen.discard(name)
            self.loaded.discard(name)

    def start(self) -> None:
        model, pick = self.model, self.randomness
        old = (
            tuple(pick.sample(sorted(model.seen), min(pick.randrange(4), len(model.seen))))
            if pick.random() < 0.8
            else tuple(pick.sample(NAMES, 2))
        )
        likely = sorted(set(NAMES) - model.rows.keys()) if pick.random() < 0.6 else NAMES
        new = tuple(pick.sample(likely, min(pick.randrange(0, 4), len(likely))))
        force = pick.random() < 0.4
        self.next_id += 1
        event = StartReplace(f"e{self.next_id}", old, new, force)
        # Names that nothing knows, for segments that queries see and nobody replaces: nobody could say no.
        named = {name for entry in model.entries.values() for name in (*entry.old, *entry.new)}
        is_plain = (
            bool(old or new)
            and set(old) <= model.seen
            and not {*old, *new} & named
            and not set(new) & {*model.rows, *old}
        )
        if not self.replace(event):
            assert not is_plain, f"{event} was refused"
            return
        assert self.replace(event), "a repeated start is the same"
        for entry in model.entries.values():
            if entry.state == "under way" and ({*old} & {*entry.old} or {*new} & {*entry.new}):
                assert force, "two replacements of one segment"
                entry.state = "given up"
        for entry_id, entry in list(model.entries.items()):
            if entry.state == "given up" and {*entry.new} & {*new}:
                entry.new = tuple(name for name in entry.new if name not in new)
                if not entry.new:
                    del model.entries[entry_id]
        model.entries[event.entry_id] = Entry(old, new)
        self.count("start")

    def end(self) -> None:
        entry_id, entry = self.some_entry()
        if entry is None:
            return
        came = tuple(name for name in entry.new if name in self.model.rows)
        announced = self.randomness.choice([entry.new, came, came[:-1]]) or entry.new
        is_done = self.replace(EndReplace(entry_id, announced if announced != entry.new else ()))
        is_ready = entry.state == "under way" and set(came) <= set(announced) <= self.loaded
        assert is_done == (is_ready or entry.state == "done"), f"end of {entry_id} ({entry})"
        if is_ready:
            entry.state, entry.new = "done", announced
            self.model.seen = (self.model.seen - set(entry.old)) | set(announced)
            self.count("end")

    def revert(self) -> None:
        entry_id, entry = self.some_entry()
        if entry is None:
            return
        force = self.randomness.random() < 0.5
        is_done = self.replace(RevertReplace(entry_id, force))
        if entry.state == "given up":
            assert is_done, "a repeated revert is the same"
        elif entry.state == "under way":
            assert is_done == force
            entry.state = "given up" if force else entry.state
        elif is_done:
            assert set(entry.old) <= self.model.rows.keys(), "old segments are gone"
            entry.state = "given up"
            self.model.seen = (self.model.seen - set(entry.new)) | set(entry.old)
            self.count("revert")
        else:
            others = [
                other for other in self.model.entries.values() if other is not entry and other.state != "given up"
            ]
            is_built_on = any(set(entry.new) & set(other.old) for other in others)
            assert is_built_on or not set(entry.old) <= (self.model.rows.keys() if force else self.loaded), (
                f"{entry_id} ({entry}) can be reverted"
            )

    def clean(self) -> None:
        lineage, version = Reading(self.store, PATHS, TABLE).lineage()
        doomed = doomed_segments(lineage, self.model.rows, AGES, self.clock.now_ms())
        assert not set(doomed) & self.model.seen, "a clean-up deletes rows that queries see"
        if doomed:
            self.change(RemoveSegments(tuple(doomed), version))
            self.forget(doomed)
            self.count("delete replaced")
        assert self.replace(AgeLineage())
        left = Reading(self.store, PATHS, TABLE).lineage()[0].entries
        for entry_id, entry in list(self.model.entries.items()):
            if entry_id not in left:
                assert entry.state != "under way", "what is under way is given up first"
                del self.model.entries[entry_id]
                self.count("forget")
            elif left[entry_id].state == "REVERTED":
                entry.state = "given up"

    def wait(self) -> None:
        self.clock.advance(self.randomness.choice([1, 100, SETTLE_MS, 30_000, 61_000, 91_000]))

    def some_entry(self) -> tuple[str, Entry | None]:
        if not self.model.entries:
            return "", None
        return self.randomness.choice(list(self.model.entries.items()))

    def count(self, what: str) -> None:
        self.accepted[what] = self.accepted.get(what, 0) + 1

    def check(self) -> None:
        view = {name: {SERVER: "ONLINE"} for name in sorted(self.loaded)}
        data = ZNRecord(TABLE, {}, view).to_bytes()
        if self.store.get(PATHS.external_view(TABLE))[0] != data:
            self.store.set(PATHS.external_view(TABLE), data)
        self.hints.deliver()
        self.spectator.step(is_full=False)
        replicas = self.broker.routing(TABLE).replicas
        assert replicas == dict.fromkeys(self.model.seen, (SERVER,)), (
            f"queries see {sorted(replicas)}, not {sorted(self.model.seen)}"
        )
        records = self.spectator.view.segments[TABLE]
        assert {name: records[name].total_docs for name in replicas} == {
            name: self.model.rows[name] for name in self.model.seen
        }


def run(seed: int) -> dict[str, int]:
    table = Table(seed)
    steps = (
        [table.add] * 6
        + [table.start] * 4
        + [table.end] * 4
        + [table.load] * 3
        + [table.revert] * 3
        + [table.delete, table.clean, table.wait, table.wait]
    )
    done = []
    for number in range(NUM_STEPS):
        step = table.randomness.choice(steps)
        done.append(step.__name__)
        try:
            step()
            table.check()
        except (AssertionError, PinotError) as error:
            raise AssertionError(f"seed {seed}, step {number} after {done[-12:]}: {error}") from error
    return table.accepted


@pytest.mark.parametrize("chunk", range(5))
def test_queries_see_what_the_steps_say(chunk: int) -> None:
    accepted: dict[str, int] = {}
    for seed in range(chunk, NUM_SEEDS, 5):
        for what, count in run(seed).items():
            accepted[what] = accepted.get(what, 0) + count
    # The random steps do reach what they are about.
    assert all(accepted.get(what, 0) > 10 for what in ("start", "end", "revert", "delete replaced", "forget")), accepted
