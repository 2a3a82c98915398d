"""Proves that a query never gives a wrong answer over damaged bytes, and never ends the process: bytes are overwritten
in a segment's mapped file, in every buffer, while it is served (the file's times tell) or while it was closed (size and
times are kept, so that the next load trusts it). Each query then is right or refused, naming the segment.

Segments whose checksums fit their damaged bytes cannot be told from others. These are opened as a server does it and
asked in a process of their own: it refuses or answers, and never ends.

20,000 damaged segments in the full tier, 2,000 of them with checksums that fit; 400 in the fast one. DAMAGED_SEGMENTS
and FORGED_SEGMENTS set other numbers.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from every_buffer import CONTEXTS, QUERIES, build_into
from forged_segments import Forged
from thinning import cases

from pinotpy.errors import SegmentCorruptError
from pinotpy.query.execute import execute
from pinotpy.query.runtime.control import QueryControl
from pinotpy.query.segments.segment_set import SegmentSet
from pinotpy.segment import layout
from pinotpy.segment.directory.file_directory import FileDirectory
from pinotpy.segment.immutable import ImmutableSegment, load_segment

FAST, FULL = int(os.environ.get("DAMAGED_SEGMENTS", "400")), cases(18_000, "DAMAGED_SEGMENTS")
FORGED = cases(2_000, "FORGED_SEGMENTS")


class Damaged:
    """The file `columns` of a segment, and what may be overwritten in it."""

    def __init__(self, folder: Path) -> None:
        build_into(FileDirectory(folder), star_tree=True)
        self.folder, self.file = folder, folder / layout.COLUMNS
        self.file.chmod(0o600)
        with load_segment(folder) as segment:
            assert segment.star_trees
            self.entries = [entry for entry in segment.metadata.buffers() if entry.size_bytes]
            columns = [{column.name for column in context.columns} for context in CONTEXTS]
            self.entries_of = [
                [
                    entry
                    for column in segment.metadata.columns
                    for entry in column.buffers
                    if column.name in names and entry.size_bytes
                ]
                for names in columns
            ]
        self.sound = self.file.read_bytes()
        # The marker has the times that the file has from now on.
        stat = self.file.stat()
        self.times = stat.st_atime_ns, stat.st_mtime_ns
        self.descriptor = os.open(self.file, os.O_RDWR)

    def damage(self, rng: random.Random, query: int, *, keeps_times: bool) -> None:
        """Overwrite bytes, mostly in buffers of columns that the query reads."""
        for _ in range(rng.choice([1, 1, 1, 4])):
            entry = rng.choice(self.entries if rng.random() < 0.3 else self.entries_of[query])
            at = entry.offset + rng.randrange(entry.size_bytes)
            length = min(rng.choice([1, 1, 4, 8, 64]), entry.offset + entry.size_bytes - at)
            flipped = bytes([self.sound[at] ^ (1 << rng.randrange(8))])
            content = rng.choice([flipped, flipped, bytes(length), b"\xff" * length, rng.randbytes(length)])
            os.pwrite(self.descriptor, content, at)
        # Else the clock of the file system may not have ticked since the file was mended.
        os.utime(self.file, ns=self.times if keeps_times else (self.times[0], self.times[1] + 1_000_000))

    def mend(self) -> None:
        os.pwrite(self.descriptor, self.sound, 0)
        os.utime(self.file, ns=self.times)


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Damaged:
    return Damaged(tmp_path_factory.mktemp("damaged") / "seg")


def answer(segment: ImmutableSegment, number: int) -> Any:
    partial = execute(CONTEXTS[number], SegmentSet([segment]), QueryControl())
    return None if partial.rows is None else partial.rows.to_pydict()


def outcome_of(segment: ImmutableSegment, number: int, expected: Any) -> str:
    """`refused` or `right`."""
    try:
        assert answer(segment, number) == expected, f"wrong and not refused: {QUERIES[number]}"
    except SegmentCorruptError as error:
        assert error.context["segment"] == "seg" and "does not match its CRC" in error.message
        return "refused"
    return "right"


def try_damage(damaged: Damaged, count: int, *, seed: int) -> Counter[str]:
    rng = random.Random(seed)
    outcomes: Counter[str] = Counter()
    with load_segment(damaged.folder, verify=False) as served:
        expected = [answer(served, number) for number in range(len(QUERIES))]
        for case in range(count):
            number = rng.randrange(len(QUERIES))
            try:
                damaged.damage(rng, number, keeps_times=case % 4 == 0)
                if case % 4:
                    # Queries have seen all of its bytes before these changed.
                    outcomes[outcome_of(served, number, expected[number])] += 1
                else:
                    with load_segment(damaged.folder, verify=False) as loaded:
                        outcomes[outcome_of(loaded, number, expected[number])] += 1
            finally:
                damaged.mend()
        assert [answer(served, number) for number in range(len(QUERIES))] == expected, "mended"
    print(f"{count} damaged segments: {dict(outcomes)}")
    return outcomes


def test_answers_over_damaged_bytes_are_right_or_refused(damaged: Damaged) -> None:
    outcomes = try_damage(damaged, FAST, seed=1)
    assert min(outcomes["right"], outcomes["refused"]) > FAST // 20, outcomes


@pytest.mark.full
def test_answers_over_many_damaged_segments_are_right_or_refused(damaged: Damaged) -> None:
    outcomes = try_damage(damaged, FULL, seed=2)
    assert min(outcomes["right"], outcomes["refused"]) > FULL // 20, outcomes


@pytest.mark.full
def test_segments_with_checksums_that_fit_their_damage_end_no_process(damaged: Damaged, tmp_path: Path) -> None:
    forged = Forged(tmp_path, damaged.folder, seed=3)
    outcomes = forged.ask(FORGED)
    print(f"{FORGED} forged segments: {dict(sorted(outcomes.items()))}; {forged.deaths}")
    assert not forged.deaths, "\n".join(forged.deaths)
    assert outcomes.total() == FORGED and set(outcomes) <= {
        "refused when opened",
        "refused when asked",
        "right",
        "other",
    }
    # Some pass all checks, and kernels meet their bytes.
    assert min(outcomes["refused when opened"], outcomes["right"], outcomes["other"]) >= FORGED // 100
