"""Proves that a query never gives a wrong answer over damaged bytes, and never ends the process: bytes are overwritten
in a segment's mapped file, in every buffer, while it is served (the file's times tell) or while it was closed (size and
times are kept, so that the next load trusts it). Each query then is right or refused, naming the segment.

20,000 damaged segments in the full tier, 400 in the fast one; DAMAGED_SEGMENTS sets another number.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from every_buffer import SCHEMA, build_into
from thinning import cases

from pinotpy.errors import SegmentCorruptError
from pinotpy.pql.parser import parse_sql
from pinotpy.query.compile.statement import compile_query
from pinotpy.query.execute import execute
from pinotpy.query.model.context import QueryOptions
from pinotpy.query.runtime.control import QueryControl
from pinotpy.query.segments.segment_set import SegmentSet
from pinotpy.segment import layout
from pinotpy.segment.directory.file_directory import FileDirectory
from pinotpy.segment.immutable import ImmutableSegment, load_segment

FAST, FULL = int(os.environ.get("DAMAGED_SEGMENTS", "400")), cases(20_000, "DAMAGED_SEGMENTS")
QUERIES = (
    "SELECT few, SUM(z), COUNT(*), MAX(i) FROM t WHERE sorted > 7 GROUP BY few ORDER BY few LIMIT 10",  # star-tree
    "SELECT sorted, DISTINCTCOUNTHLL(s) FROM t GROUP BY sorted ORDER BY sorted LIMIT 100",
    "SELECT i, COUNT(*), SUM(r) FROM t WHERE p > 1000000 GROUP BY i ORDER BY i LIMIT 100",
    "SELECT s, MIN(p), MAX(z) FROM t WHERE i IN (3, 5, 7) GROUP BY s ORDER BY s LIMIT 100",
    "SELECT t, r, y FROM t WHERE r BETWEEN 0.2 AND 0.4 ORDER BY r LIMIT 50",
    "SELECT COUNT(*) FROM t WHERE t = 'ab' OR s LIKE '%a%'",
    "SELECT COUNT(*), SUM(z) FROM t WHERE JSON_MATCH(y, '\"$.a\" = 3')",
    "SELECT COUNT(*) FROM t WHERE TEXT_MATCH(s, 'a OR b')",
    "SELECT COUNT(*) FROM t WHERE TEXT_MATCH(ms, 'a*') AND i IS NOT NULL",
    "SELECT mi, COUNT(*) FROM t GROUP BY mi ORDER BY mi LIMIT 100",
    "SELECT ms, mt, mr FROM t WHERE mi = 4 LIMIT 50",
    "SELECT DISTINCT ms FROM t ORDER BY ms LIMIT 200",
    "SELECT COUNT(*), SUM(z) FROM t WHERE mr > 6 AND few = 1",
    "SELECT DISTINCT p FROM t WHERE s > 'b' ORDER BY p LIMIT 200",
    "SELECT MIN(i), MAX(p), AVG(r), DISTINCTCOUNT(t), COUNT(z) FROM t",
)

CONTEXTS = [compile_query(parse_sql(text), SCHEMA, QueryOptions(), null_handling=False) for text in QUERIES]


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
