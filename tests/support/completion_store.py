"""A model of what ZooKeeper holds of one partition: records of its segments, one bucket of the ideal state, the epoch
of the leader, fence nodes. SEAL and DONE are one transaction each, and every check of them can be taken out. DONE
has no fence node: it makes nothing new.

`check` is called after each write: the chain of the partition is as it has to be, or ViolationError.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

from pinotpy.controller.completion.states import RecordStatus, SegmentFacts

RECORD, BUCKET, EPOCH, FENCE = "record version", "bucket version", "leader epoch", "fence node"
FENCES = frozenset({RECORD, BUCKET, EPOCH, FENCE})
COMMITTING_MAX = 4


class ViolationError(AssertionError):
    """Rows are lost, or there twice, or would be."""


class FileReplacedError(ViolationError):
    """DONE was written twice: servers that have the first file and such that have the second one serve the segment."""


class RefusedError(Exception):
    """A fence refused the write."""


@dataclass(frozen=True, slots=True)
class Record:
    name: str
    sequence: int
    facts: SegmentFacts
    created_ms: int
    version: int = 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a leader read before it decided."""

    record: Record
    bucket_version: int


class ModelStore:
    """Names as `<sequence>@<creation time>`, so that two leaders would make two of one sequence.

    overwrites: the name says nothing of the time, and a record that exists by the name is overwritten: what is left of
        the fence node where its refusal is passed over.
    """

    def __init__(self, start_offset: int, fences: frozenset[str] = FENCES, *, overwrites: bool = False) -> None:
        self.fences, self.overwrites = fences, overwrites
        self.epoch = 0
        self.bucket_version = 0
        self.fence_nodes: set[str] = {"0"}
        first = Record("0@0", 0, SegmentFacts(RecordStatus.IN_PROGRESS, start_offset), 0)
        self.records: dict[str, Record] = {first.name: first}
        self.offline: set[tuple[str, str]] = set()
        self.num_refused = 0
        self._ends: dict[str, int] = {}
        self._files: dict[str, str] = {}

    def read(self, name: str) -> Snapshot:
        return Snapshot(self.records[name], self.bucket_version)

    def chain(self) -> list[Record]:
        return sorted(self.records.values(), key=lambda record: (record.sequence, record.name))

    def num_committing(self, name: str) -> int:
        return sum(
            record.facts.status is RecordStatus.COMMITTING and record.name != name for record in self.records.values()
        )

    def seal(self, read: Snapshot, end_offset: int, row_count: int, *, epoch: int, now_ms: int) -> None:
        """One transaction: the segment is COMMITTING and ends there; the next one is IN_PROGRESS and starts there."""
        sequence = read.record.sequence + 1
        self._check_fences(read, epoch, f"{sequence}")
        self._ends.setdefault(read.record.name, end_offset)
        sealed = replace(read.record.facts, status=RecordStatus.COMMITTING, end_offset=end_offset, row_count=row_count)
        self._write(read.record.name, sealed)
        next_name = f"{sequence}@{0 if self.overwrites else now_ms}"
        started = SegmentFacts(RecordStatus.IN_PROGRESS, end_offset)
        self.records[next_name] = Record(next_name, sequence, started, now_ms)
        self.check()

    def done(self, read: Snapshot, end_offset: int, location: str, *, epoch: int) -> None:
        """One transaction: the segment has its file."""
        self._check_fences(read, epoch, None)
        self._files.setdefault(read.record.name, location)
        facts = replace(read.record.facts, status=RecordStatus.DONE, end_offset=end_offset, location=location)
        self._write(read.record.name, facts)
        self.check()

    def _check_fences(self, read: Snapshot, epoch: int, fence_node: str | None) -> None:
        refused = {
            RECORD: self.records[read.record.name].version != read.record.version,
            BUCKET: self.bucket_version != read.bucket_version,
            EPOCH: self.epoch != epoch,
            FENCE: fence_node in self.fence_nodes,
        }
        for fence, is_refused in refused.items():
            if is_refused and fence in self.fences:
                self.num_refused += 1
                raise RefusedError(fence)
        if fence_node is not None:
            self.fence_nodes.add(fence_node)
        self.bucket_version += 1

    def _write(self, name: str, facts: SegmentFacts) -> None:
        self.records[name] = replace(self.records[name], facts=facts, version=self.records[name].version + 1)

    def check(self) -> None:
        chain = self.chain()
        statuses = [record.facts.status for record in chain]
        if statuses.count(RecordStatus.IN_PROGRESS) != 1 or statuses[-1] is not RecordStatus.IN_PROGRESS:
            raise ViolationError(f"not exactly one IN_PROGRESS at the end of {statuses}")
        if statuses.count(RecordStatus.COMMITTING) > COMMITTING_MAX:
            raise ViolationError(f"more than {COMMITTING_MAX} COMMITTING: {statuses}")
        if [record.sequence for record in chain] != list(range(len(chain))):
            raise ViolationError(f"sequences {[record.name for record in chain]}")
        for record, follower in pairwise(chain):
            if record.facts.end_offset != follower.facts.start_offset:
                raise ViolationError(f"{record.name} ends at {record.facts.end_offset}, {follower} begins elsewhere")
        for record in chain:
            if record.name in self._ends and record.facts.end_offset != self._ends[record.name]:
                raise ViolationError(f"the end of {record.name} moved to {record.facts.end_offset}")
            if record.name in self._files and record.facts.location != self._files[record.name]:
                raise FileReplacedError(f"the file of {record.name} was replaced by {record.facts.location}")
