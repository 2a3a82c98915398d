"""Segments of `every_buffer` whose bytes were overwritten and all of whose checksums were made right again: what a
hostile or buggy writer could send. They are opened and asked in a process of its own, whose death is seen.

As a program, `forged_segments.py SCRATCH SOUND SEED FIRST LAST`, it says a line for each case.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from every_buffer import CONTEXTS, QUERIES

from pinotpy.errors import DataError, PinotError
from pinotpy.query.execute import execute
from pinotpy.query.runtime.control import QueryControl
from pinotpy.query.segments.segment_set import SegmentSet
from pinotpy.segment import layout
from pinotpy.segment.checksum import crc32c
from pinotpy.segment.immutable import ImmutableSegment, load_segment
from pinotpy.segment.layout import BufferEntry
from pinotpy.segment.metadata import SegmentMetadata, segment_crc
from pinotpy.segment.metadata_reader import read_metadata

# A process that is silent for so long, on whatever machine, will say no more.
PATIENCE_S = 600.0
DEATHS_MAX = 5  # enough to know
# Queries that a segment is asked, beside those that read what was damaged.
ASKED = 3


def with_right_checksums(metadata: SegmentMetadata, columns: bytes) -> SegmentMetadata:
    """The metadata of other bytes in the file `columns`."""

    def right(entry: BufferEntry) -> BufferEntry:
        return replace(entry, crc=crc32c(columns[entry.offset : entry.offset + layout.aligned(entry.size_bytes)]))

    made = replace(
        metadata,
        columns=tuple(replace(column, buffers=tuple(map(right, column.buffers))) for column in metadata.columns),
        star_trees=tuple(replace(tree, buffers=tuple(map(right, tree.buffers))) for tree in metadata.star_trees),
    )
    return replace(made, crc=segment_crc(made))


class Forged:
    """Asks forged segments; `deaths` says of each process that died, or fell silent, at which case."""

    def __init__(self, scratch: Path, sound: Path, *, seed: int) -> None:
        self._scratch, self._sound, self._seed = scratch, sound, seed
        self.deaths: list[str] = []

    def ask(self, count: int) -> Counter[str]:
        """What became of `count` segments."""
        outcomes: Counter[str] = Counter()
        first = 0
        while first < count and len(self.deaths) < DEATHS_MAX:
            said = list(self._said(first, count))
            outcomes.update(said)
            first += len(said)
            if first < count:
                outcomes["death"] += 1
                first += 1
        return outcomes

    def _said(self, first: int, last: int) -> Iterator[str]:
        command = [sys.executable, __file__, str(self._scratch), str(self._sound), *map(str, (self._seed, first, last))]
        errors = self._scratch / "errors"
        number = first
        with errors.open("wb") as written, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=written) as process:
            assert process.stdout is not None
            for line in process.stdout:
                yield line.decode().strip()
                number += 1
            status = process.wait(PATIENCE_S)
        if status or number < last:
            tail = errors.read_text(errors="replace")[-2000:]
            self.deaths.append(f"case {number} of seed {self._seed}: status {status}\n{tail}")


def _damaged(dice: random.Random, metadata: SegmentMetadata, sound: bytes) -> tuple[bytes, set[str]]:
    """Other bytes in some buffers, and the columns that these are of."""
    content = bytearray(sound)
    owners: list[tuple[str, BufferEntry]] = [
        *((column.name, entry) for column in metadata.columns for entry in column.buffers if entry.size_bytes),
        *(("", entry) for tree in metadata.star_trees for entry in tree.buffers if entry.size_bytes),
    ]
    names = set()
    for _ in range(dice.choice([1, 1, 1, 3])):
        name, entry = dice.choice(owners)
        names.add(name)
        at = entry.offset + dice.randrange(entry.size_bytes)
        length = min(dice.choice([1, 1, 4, 8]), entry.offset + entry.size_bytes - at)
        flipped = bytes([sound[at] ^ (1 << dice.randrange(8))])
        # Ids and offsets of the same buffer, at places of others: many pass all checks.
        steps = min(entry.size_bytes - length, at - entry.offset) // 4
        moved = sound[(other := at - 4 * dice.randint(0, steps)) : other + length]
        junk = [flipped + sound[at + 1 : at + length], bytes(length), b"\xff" * length, b"\x7f" * length]
        content[at : at + length] = dice.choice([*junk, dice.randbytes(length), moved, moved, moved])
    return bytes(content), names


def _answer(segment: ImmutableSegment, number: int) -> Any:
    partial = execute(CONTEXTS[number], SegmentSet([segment]), QueryControl())
    return None if partial.rows is None else partial.rows.to_pydict()


def _outcome(folder: Path, numbers: list[int], expected: list[Any]) -> str:
    try:
        segment = load_segment(folder, verify=True)
    except DataError:
        return "refused when opened"
    outcomes = set()
    with segment:
        for number in numbers:
            try:
                outcomes.add("right" if repr(_answer(segment, number)) == expected[number] else "other")
            except PinotError:
                outcomes.add("refused when asked")
    return next(outcome for outcome in ("other", "refused when asked", "right") if outcome in outcomes)


def main(scratch: Path, sound: Path, seed: int, first: int, last: int) -> None:
    columns = (sound / layout.COLUMNS).read_bytes()
    metadata = read_metadata((sound / layout.METADATA).read_bytes(), "metadata")
    with load_segment(sound) as segment:
        expected = [repr(_answer(segment, number)) for number in range(len(QUERIES))]
    reading = [{column.name for column in context.columns} for context in CONTEXTS]
    for case in range(first, last):
        dice = random.Random(f"{seed} {case}")
        content, names = _damaged(dice, metadata, columns)
        folder = scratch / "seg"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        (folder / layout.COLUMNS).write_bytes(content)
        (folder / layout.METADATA).write_bytes(with_right_checksums(metadata, content).to_bytes())
        # A star-tree answers the first one.
        meeting = [n for n in range(len(QUERIES)) if reading[n] & names or ("" in names and n == 0)]
        numbers = [*dice.sample(meeting, min(ASKED, len(meeting))), *dice.sample(range(len(QUERIES)), ASKED)]
        try:
            outcome = _outcome(folder, numbers, expected)
        except Exception as error:
            outcome = f"raised {type(error).__name__}: {error}".replace("\n", " ")[:200]
        print(outcome, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:]))
