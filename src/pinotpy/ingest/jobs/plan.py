"""Which work a job is cut into: input files → units, each with its number. Equal input gives equal units.

A unit is one of
    FILE    a file becomes a segment
    DEAL    a file's rows are dealt to groups, in the working folder (jobs that regroup rows)
    GROUP   rows of one group, of any number of files, become a segment
    TRIAL   like GROUP, but what comes out is measured and dropped
Units are plain values that travel as JSON, to processes here or to Spark's executors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any, Final

from pinotpy.config.segments_config import PushFrequency
from pinotpy.errors import UserError
from pinotpy.ingest.jobs.context import JobContext
from pinotpy.ingest.jobs.input_files import InputEntry, find_inputs
from pinotpy.ingest.jobs.report import UnitReport
from pinotpy.ingest.jobs.segment_naming import numbers_by_folder, tag_of
from pinotpy.ingest.segment_names import FixedName, NormalizedDateNames

# Rows that a trial segment is built of: enough for its bytes a row to be those of a whole one.
TRIAL_ROWS: Final = 200_000


class UnitKind(StrEnum):
    """The kinds of work items."""

    FILE = "FILE"
    DEAL = "DEAL"
    GROUP = "GROUP"
    TRIAL = "TRIAL"


@dataclass(frozen=True, slots=True)
class RowSlice:
    """Rows [first, first + count) of a group in a file of dealt rows, `path` on this machine."""

    path: str
    group: str
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class Unit:
    """One work item. `folder`: where below the output its segment goes. `tag`: in its name instead of the number, "" =
    the number.
    """

    unit_id: int
    kind: UnitKind
    sequence_id: int
    inputs: tuple[InputEntry, ...]
    folder: str = ""
    group: str = ""
    slices: tuple[RowSlice, ...] = ()
    tag: str = ""

    @property
    def size_bytes(self) -> int:
        """Bytes of input files to read; of dealt rows 0."""
        return (
            sum(max(entry.size_bytes, 0) for entry in self.inputs) if self.kind in (UnitKind.FILE, UnitKind.DEAL) else 0
        )

    @property
    def modified_ms(self) -> int:
        """When the newest of its files was written; 0 = unknown. Segments are dated by it, not by the clock."""
        return max((entry.modified_ms for entry in self.inputs), default=0)

    @property
    def identity(self) -> str:
        """What the segment is made of: equal texts mean equal content."""
        files = "\n".join(f"{entry.uri} {entry.size_bytes} {entry.modified_ms}" for entry in self.inputs)
        return f"{files}\n{self.group}\n{[(row_slice.first, row_slice.count) for row_slice in self.slices]}"

    def to_json_dict(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json_dict(plain: Mapping[str, Any]) -> Unit:
        return Unit(
            **{
                **plain,
                "kind": UnitKind(plain["kind"]),
                "inputs": tuple(InputEntry.from_json_dict(entry) for entry in plain["inputs"]),
                "slices": tuple(RowSlice(**row_slice) for row_slice in plain["slices"]),
            }
        )


@dataclass(frozen=True, slots=True)
class DealtRows:
    """The result of a DEAL item in the working folder: rows of each group in `path`. `entry`: the input file."""

    entry: InputEntry
    path: str
    num_rows: Mapping[str, int]


def plan_units(context: JobContext, inputs: Sequence[InputEntry] | None = None) -> list[Unit]:
    """The units of the first step: FILE units, or DEAL units where the job regroups rows.

    Args:
        inputs: default: the files that the spec names, listed now.

    Raises:
        NotFoundError: there is no input. UserError: one fixed name for several files.
    """
    entries = sorted(
        inputs if inputs is not None else find_inputs(context.spec, context.file_systems), key=lambda entry: entry.uri
    )
    if context.regroups:
        return [Unit(index, UnitKind.DEAL, index, (entry,)) for index, entry in enumerate(entries)]
    if isinstance(context.names, FixedName) and len(entries) > 1:
        raise UserError(
            f"the fixed segment name '{context.names.name}' serves one input file, found {len(entries)}: use simple "
            "or normalizedDate names"
        )
    by_folder = numbers_by_folder(context.spec.segment_name_generator_spec)
    ids = _numbers([entry.folder if by_folder else "" for entry in entries])
    tags = [tag_of(entry.below) if by_folder is None else "" for entry in entries]
    return [
        Unit(index, UnitKind.FILE, number, (entry,), entry.folder, tag=tag)
        for index, (entry, number, tag) in enumerate(zip(entries, ids, tags, strict=True))
    ]


def plan_groups(
    context: JobContext, dealt: Sequence[DealtRows], first_unit_id: int, rows_per_segment: int | None
) -> list[Unit]:
    """The GROUP units over dealt rows: groups ascending, their rows by file and position, cut into segments of about
    equal size.

    Args:
        dealt: in the order of their files.
        rows_per_segment: largest number of rows; None = a segment a group.
    """
    totals: Counter[str] = Counter()
    for rows in dealt:
        totals.update(rows.num_rows)
    cuts = [
        (group, cut, first, last)
        for group in sorted(totals)
        for cut, (first, last) in enumerate(_cuts(totals[group], rows_per_segment))
    ]
    by_bucket = numbers_by_folder(context.spec.segment_name_generator_spec)
    # Numbered within a time bucket, another day's data changes no name of this one.
    ids = _numbers(
        [
            _name_part(context, group) if by_bucket and context.spec.pinotpy.time_bucket is not None else ""
            for group, *_ in cuts
        ]
    )
    units = []
    for index, ((group, cut, first, last), number) in enumerate(zip(cuts, ids, strict=True)):
        unit = _group_unit(UnitKind.GROUP, first_unit_id + index, number, group, dealt, first, last)
        units.append(replace(unit, tag=tag_of(f"{group}#{cut}")) if by_bucket is None else unit)
    return units


def with_contents(units: Sequence[Unit], reports: Sequence[UnitReport]) -> list[Unit]:
    """DEAL units whose entries have the sizes, checksums and rows that were found when they were read; those that
    failed stay as they were.
    """
    read = {report.unit_id: report.files[0] for report in reports if report.error is None and report.files}
    completed = []
    for unit in units:
        (entry,), file = unit.inputs, read.get(unit.unit_id)
        if file is not None:
            entry = replace(entry, size_bytes=file.size_bytes, checksum=file.checksum, num_rows=file.num_rows_indexed)
        completed.append(replace(unit, inputs=(entry,)))
    return completed


def _name_part(context: JobContext, group: str) -> str:
    """What of a group's time bucket stands in the names of its segments: two hours of a day are one where names tell
    days.
    """
    label = group.rpartition("/")[2]
    names = context.names
    tells_days = isinstance(names, NormalizedDateNames) and names.push_frequency is not PushFrequency.HOURLY
    return label.partition("T")[0] if tells_days else label


def plan_trial(dealt: Sequence[DealtRows], unit_id: int, rows_max: int = TRIAL_ROWS) -> Unit | None:
    """A unit over the first rows of the largest group, to learn the bytes of a row; None without rows."""
    totals: Counter[str] = Counter()
    for rows in dealt:
        totals.update(rows.num_rows)
    if not totals:
        return None
    group = min(totals, key=lambda name: (-totals[name], name))
    return _group_unit(UnitKind.TRIAL, unit_id, 0, group, dealt, 0, min(totals[group], rows_max))


def _group_unit(
    kind: UnitKind, unit_id: int, number: int, group: str, dealt: Sequence[DealtRows], first: int, last: int
) -> Unit:
    """Rows [first, last) of a group, counted over all files."""
    slices, entries, start = [], [], 0
    for rows in dealt:
        count = rows.num_rows.get(group, 0)
        low, high = max(first, start), min(last, start + count)
        if low < high:
            slices.append(RowSlice(rows.path, group, low - start, high - low))
            entries.append(rows.entry)
        start += count
    return Unit(unit_id, kind, number, tuple(entries), "", group, tuple(slices))


def _cuts(num_rows: int, rows_max: int | None) -> Iterator[tuple[int, int]]:
    """[first, last) of parts of about equal size, none above `rows_max`."""
    parts = 1 if rows_max is None else -(-num_rows // rows_max)
    for part in range(parts):
        yield num_rows * part // parts, num_rows * (part + 1) // parts


def _numbers(keys: Sequence[str]) -> list[int]:
    """The place of each key among its equals."""
    seen: Counter[str] = Counter()
    numbers = []
    for key in keys:
        numbers.append(seen[key])
        seen[key] += 1
    return numbers
