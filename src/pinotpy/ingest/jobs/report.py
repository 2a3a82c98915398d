"""What a job did: every input file, every row, every segment, as frozen values that travel as JSON.

    JobReport ── UnitReport* ── FileReport*      rows read + added = indexed + rejected + filtered
                     │      └── SegmentReport*   name, place, rows, sizes, crc, times
                     └ error: what ended the unit, None if it was built

Units come from other processes and machines: `to_json_dict` and `from_json_dict` are all that they send.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from pinotpy.errors import PinotError
from pinotpy.fs.uris import masked

# Rejected rows that a report keeps of a file; all of them go to the reject file where one is asked for.
SAMPLES_MAX: Final = 20
OTHERS_SHOWN_MAX: Final = 100
_COLUMNS_TOLD: Final = 5
# Fields of a FileReport that add up over files.
ROW_COUNTS: Final = (
    "num_rows_read",
    "num_rows_indexed",
    "num_rows_rejected",
    "num_rows_filtered",
    "num_rows_added",
    "num_null_times",
)
BY_COLUMN_COUNTS: Final = (
    "rejects_by_column",
    "nulls_by_column",
    "cuts_by_column",
    "defaults_by_column",
    "dropped_by_column",
    "unmapped_by_field",
    "rejects_by_cause",
)
_TOLD: Final = (
    ("nulls_by_column", "without a value"),
    ("cuts_by_column", "cut to their longest length (maxLength)"),
    ("defaults_by_column", "replaced by the default (longer than maxLength, or NaN)"),
    ("dropped_by_column", "left out of lists"),
    (
        "unmapped_by_field",
        "that no column takes: columns read fields of records, the row has none there, or two called alike",
    ),
)

# What a push's report counts of each cluster, and how its last line says so.
_PUSH_TOLD: Final = (
    ("segmentsPushed", "pushed"),
    ("segmentsPresent", "there already"),
    ("segmentsFailed", "not pushed"),
    ("segmentsReplaced", "replaced"),
    ("segmentsAdopted", "given the list of their input files, contents not compared"),
    ("segmentsOfOtherFiles", "of files that are not in this push kept"),
    ("segmentsWithoutInputs", "without a list of input files, so that nothing was compared"),
    ("segmentsPerhapsTwice", "of the table without such a list, perhaps with the same rows"),
    ("rowsTwice", "rows there twice now"),
)


@dataclass(frozen=True, slots=True)
class RejectSample:
    """One row that was left out; `row` counts from 1 in its file, `column` is '' where the row as a whole is wrong."""

    row: int
    column: str
    cause: str


@dataclass(frozen=True, slots=True)
class FileReport:
    """What became of the rows of one input file: read + added (by unnesting) = indexed + rejected + filtered.

    `error`: why it could not be read to its end; its rows are then in no segment. The columns of the schema that it
    lacks, with fields of it that fill no column; of the rows that are indexed, by column: rows without a value, values
    cut to their longest length, values in whose place the default stands, entries left out of lists; by field, values
    of which only parts would fill columns, and which have none; and rows without a value in the time column.
    `checksum`: of its bytes, as of SegmentInput. `rejects_by_cause`: rejected rows by `ledger.cause_text`.
    """

    uri: str
    size_bytes: int = 0
    num_rows_read: int = 0
    num_rows_indexed: int = 0
    num_rows_rejected: int = 0
    num_rows_filtered: int = 0
    num_rows_added: int = 0
    rejects_by_column: Mapping[str, int] = field(default_factory=dict)
    reject_samples: tuple[RejectSample, ...] = ()
    error: str | None = None
    missing_columns: tuple[str, ...] = ()
    other_fields: tuple[str, ...] = ()
    nulls_by_column: Mapping[str, int] = field(default_factory=dict)
    cuts_by_column: Mapping[str, int] = field(default_factory=dict)
    defaults_by_column: Mapping[str, int] = field(default_factory=dict)
    dropped_by_column: Mapping[str, int] = field(default_factory=dict)
    unmapped_by_field: Mapping[str, int] = field(default_factory=dict)
    num_null_times: int = 0
    checksum: str = ""
    rejects_by_cause: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SegmentReport:
    """One segment: its archive's URI, its rows, bytes of its files and of its archive, its CRC, its time range (ms
    since the epoch).

    `partition_gaps`: columns that the table partitions and of which the segment has no partitions, with the reason.
    """

    segment_name: str
    uri: str
    num_docs: int
    size_bytes: int
    archive_size_bytes: int
    crc: int
    input_uris: tuple[str, ...] = ()
    start_ms: int | None = None
    end_ms: int | None = None
    partitions: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    partition_gaps: Mapping[str, str] = field(default_factory=dict)
    build_ms: int = 0
    directory: str | None = None
    has_input_list: bool = False


@dataclass(frozen=True, slots=True)
class UnitReport:
    """One unit of work. `error` says why it was not built, `code` is Pinot's number of it, `is_input_fault` whether its
    input is to blame.
    """

    unit_id: int
    files: tuple[FileReport, ...] = ()
    segments: tuple[SegmentReport, ...] = ()
    reject_file_uri: str | None = None
    took_ms: int = 0
    error: str | None = None
    code: int | None = None
    is_input_fault: bool = False

    def to_json_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json_dict(cls, plain: Mapping[str, Any]) -> UnitReport:
        files = tuple(
            FileReport(
                **{
                    **file,
                    "reject_samples": tuple(RejectSample(**sample) for sample in file["reject_samples"]),
                    "missing_columns": tuple(file["missing_columns"]),
                    "other_fields": tuple(file["other_fields"]),
                }
            )
            for file in plain["files"]
        )
        segments = tuple(
            SegmentReport(
                **{
                    **segment,
                    "input_uris": tuple(segment["input_uris"]),
                    "partitions": {name: tuple(ids) for name, ids in segment["partitions"].items()},
                }
            )
            for segment in plain["segments"]
        )
        return cls(**{**plain, "files": files, "segments": segments})


@dataclass(frozen=True, slots=True)
class JobReport:
    """The whole job. `push` is the push's own report as JSON, None where nothing was pushed.

    warnings: sentences about what the job was told to let pass.
    other_archive_uris: what lies at its output besides its segments, and would be pushed with them by a push of the
    folder; rows of `num_mixed_archives` of them are in its segments, too. replaced_archive_uris: marked at the output,
    by this run or before: their rows are in other segments, and no push of the folder takes them.
    """

    job_type: str
    table_name: str
    output_dir_uri: str
    units: tuple[UnitReport, ...] = ()
    push: Mapping[str, Any] | None = None
    took_ms: int = 0
    error: str | None = None
    other_archive_uris: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    replaced_archive_uris: tuple[str, ...] = ()
    num_mixed_archives: int = 0

    @property
    def segments(self) -> tuple[SegmentReport, ...]:
        return tuple(segment for unit in self.units for segment in unit.segments)

    @property
    def files(self) -> tuple[FileReport, ...]:
        return tuple(file for unit in self.units for file in unit.files)

    @property
    def others_told(self) -> str | None:
        """What is to be said of other archives at the output and of segments without a list of input files, None if
        there are none.
        """
        told = []
        if self.replaced_archive_uris:
            told.append(
                "archives at the output whose rows later runs have put into other segments, or whose files have no "
                "row any more: "
                f"{len(self.replaced_archive_uris):,}, first '{masked(self.replaced_archive_uris[0])}'. No push of "
                "the folder takes them; "
                "remove them once the table does not serve them"
            )
        if self.other_archive_uris:
            mixed = (
                f" {self.num_mixed_archives:,} of them hold rows of this job's files and of others."
                if self.num_mixed_archives
                else ""
            )
            told.append(
                f"archives of other jobs or of earlier runs lie at the output, too: {len(self.other_archive_uris):,}, "
                f"first '{masked(self.other_archive_uris[0])}'.{mixed} "
                "A push of the whole folder takes them as well: remove them if their rows are old, or choose by "
                "pushJobSpec.pushFileNamePattern"
            )
        if self.num_unlisted:
            told.append(
                f"segments without a list of their input files: {self.num_unlisted:,}; a push cannot tell whether the "
                "table has their rows already"
            )
        return "; ".join(told) or None

    @property
    def num_unlisted(self) -> int:
        """Segments without a list: of tables or SQL text on Spark, or of more files than a list can have."""
        return sum(not segment.has_input_list for segment in self.segments)

    @property
    def columns_told(self) -> str | None:
        """What of the columns is not as the files have it, None if all is: columns that files lack, values that are not
        there, cut, replaced.
        """
        missing = Counter(name for file in self.files for name in file.missing_columns)
        parts = [f"missing in files: {_counts(missing)}"] if missing else []
        parts += [f"{word}: {_counts(counts)}" for name, word in _TOLD if (counts := self.by_column(name))]
        num_null_times = self.total("num_null_times")
        return "; ".join([*parts, *([f"rows without a time: {num_null_times:,}"] if num_null_times else [])]) or None

    def by_column(self, name: str) -> Counter[str]:
        """The sum of a count by column over all files, such as `nulls_by_column`."""
        return sum((Counter(getattr(file, name)) for file in self.files), Counter())

    @property
    def push_told(self) -> str:
        """What the push did, over all clusters, in a few words; empty without one."""
        if self.push is None:
            return ""
        totals = [
            (sum(int(cluster.get(key, 0)) for cluster in self.push["clusters"]), word) for key, word in _PUSH_TOLD
        ]
        return f"push {str(self.push['state']).lower()}: " + (
            ", ".join(f"{count:,} {word}" for count, word in totals if count) or "nothing"
        )

    @property
    def num_failures(self) -> int:
        """Units that were not built, and files that were left out of built ones."""
        return sum(unit.error is not None for unit in self.units) + sum(
            file.error is not None for unit in self.units if unit.error is None for file in unit.files
        )

    def total(self, name: str) -> int:
        """The sum of a count over all files, such as `num_rows_read`."""
        return sum(getattr(file, name) for file in self.files)

    def to_json_dict(self) -> dict[str, Any]:
        """The report as people and programs read it: camelCase, totals first."""
        return {
            "jobType": self.job_type,
            "tableName": self.table_name,
            "outputDirURI": self.output_dir_uri,
            "numFiles": len(self.files),
            "numRowsRead": self.total("num_rows_read"),
            "numRowsIndexed": self.total("num_rows_indexed"),
            "numRowsRejected": self.total("num_rows_rejected"),
            "numRowsFiltered": self.total("num_rows_filtered"),
            "numNullTimes": self.total("num_null_times"),
            "missingColumns": dict(Counter(name for file in self.files for name in file.missing_columns)),
            **{_camel_name(name): dict(self.by_column(name)) for name in BY_COLUMN_COUNTS},
            "numSegments": len(self.segments),
            "numDocs": sum(segment.num_docs for segment in self.segments),
            "segmentBytes": sum(segment.size_bytes for segment in self.segments),
            "archiveBytes": sum(segment.archive_size_bytes for segment in self.segments),
            "numFailures": self.num_failures,
            "tookMs": self.took_ms,
            "error": self.error,
            "warnings": list(self.warnings),
            "segments": [_camel(asdict(segment)) for segment in self.segments],
            "files": [_camel(asdict(file)) for file in self.files],
            "errors": [
                {"unitId": unit.unit_id, "error": unit.error, "code": unit.code}
                for unit in self.units
                if unit.error is not None
            ],
            "rejectFileURIs": [unit.reject_file_uri for unit in self.units if unit.reject_file_uri is not None],
            "numOtherArchives": len(self.other_archive_uris),
            "numMixedArchives": self.num_mixed_archives,
            "otherArchiveURIs": list(self.other_archive_uris[:OTHERS_SHOWN_MAX]),
            "numReplacedArchives": len(self.replaced_archive_uris),
            "replacedArchiveURIs": list(self.replaced_archive_uris[:OTHERS_SHOWN_MAX]),
            "numSegmentsWithoutInputs": self.num_unlisted,
            "numSegmentsWithoutPartitions": sum(bool(segment.partition_gaps) for segment in self.segments),
            "push": dict(self.push) if self.push is not None else None,
        }


def _counts(counts: Counter[str]) -> str:
    """The largest of some counts by column."""
    shown = ", ".join(f"{name} {count:,}" for name, count in counts.most_common(_COLUMNS_TOLD))
    return shown + (f" and {len(counts) - _COLUMNS_TOLD} more columns" if len(counts) > _COLUMNS_TOLD else "")


def failed_unit(
    unit_id: int,
    error: Exception,
    files: tuple[FileReport, ...] = (),
    *,
    is_input_fault: bool = False,
    took_ms: int = 0,
) -> UnitReport:
    """The report of a unit that ended with an error."""
    if isinstance(error, PinotError):
        return UnitReport(
            unit_id, files, error=error.message, code=error.code, took_ms=took_ms, is_input_fault=is_input_fault
        )
    if isinstance(error, OSError):
        where = f" '{error.filename}'" if error.filename else ""
        return UnitReport(
            unit_id, files, error=f"{(error.strerror or str(error)).lower()}{where}", took_ms=took_ms, code=450
        )
    return UnitReport(
        unit_id, files, error=f"internal error: {type(error).__name__}: {str(error)[:500]}", took_ms=took_ms, code=450
    )


# Names of columns are keys of these: they stay as they are.
_BY_COLUMN: Final = (*BY_COLUMN_COUNTS, "partitions", "partition_gaps")


def _camel(value: Any) -> Any:
    match value:
        case dict():
            return {_camel_name(name): item if name in _BY_COLUMN else _camel(item) for name, item in value.items()}
        case list() | tuple():
            return [_camel(item) for item in value]
    return value


def _camel_name(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join("URI" if part == "uri" else "URIs" if part == "uris" else part.capitalize() for part in rest)
