"""What became of input files, from the ledgers of their rows; and what a job says of the columns that all of them
lack.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from pinotpy.config.field_spec import json_from_stored
from pinotpy.config.ingestion import MissingColumns
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.ingest.jobs.report import BY_COLUMN_COUNTS, ROW_COUNTS, SAMPLES_MAX, FileReport, RejectSample, UnitReport
from pinotpy.ingest.ledger import RejectedRow, RowLedger
from pinotpy.ingest.missing_columns import OTHER_FIELDS_MAX, fault_text
from pinotpy.ingest.pipeline import RowPipeline
from pinotpy.segment.build.indexing import resolve_indexing

_SAMPLES_OF_A_CAUSE: Final = 3


def file_report(uri: str, size_bytes: int, ledger: RowLedger, error: str | None = None) -> FileReport:
    """The report of a file, or of the rows of it that one task saw."""
    samples = tuple(RejectSample(reject.row, reject.column, reject.cause) for reject in _samples(ledger.rejects))
    missing: dict[str, Any] = {"missing_columns": ledger.missing_columns, "other_fields": ledger.other_fields}
    if error is not None:
        # Its rows are in no segment: they are not counted, the samples stay.
        return FileReport(uri, size_bytes, reject_samples=samples, error=error, **missing)
    counts: dict[str, Any] = {name: getattr(ledger, name) for name in ROW_COUNTS}
    by_column = {
        "rejects_by_column": ledger.rejects_by_column,
        "nulls_by_column": ledger.nulls,
        "cuts_by_column": ledger.cuts,
        "defaults_by_column": ledger.replaced,
        "dropped_by_column": ledger.dropped,
        "unmapped_by_field": ledger.unmapped,
        "rejects_by_cause": ledger.causes,
    }
    counts |= {name: dict(sorted(column_counts.items())) for name, column_counts in by_column.items()}
    return FileReport(uri, size_bytes, reject_samples=samples, **missing, **counts)


def _samples(rejects: Sequence[RejectedRow]) -> list[RejectedRow]:
    """SAMPLES_MAX of the rows, in their order: of each cause some, so that a frequent one does not hide the others."""
    if len(rejects) <= SAMPLES_MAX:
        return list(rejects)
    seen: Counter[tuple[str, str]] = Counter()
    first: list[int] = []
    rest: list[int] = []
    for place, rejected in enumerate(rejects):
        seen[rejected.column, rejected.cause] += 1
        (first if seen[rejected.column, rejected.cause] <= _SAMPLES_OF_A_CAUSE else rest).append(place)
    return [rejects[place] for place in sorted([*first, *rest][:SAMPLES_MAX])]


def joined_report(files: Sequence[FileReport]) -> FileReport:
    """Reports of parts of one input as one."""
    counts: dict[str, Any] = {name: sum(getattr(file, name) for file in files) for name in ROW_COUNTS}
    for name in BY_COLUMN_COUNTS:
        counts[name] = dict(sorted(sum((Counter(getattr(file, name)) for file in files), Counter[str]()).items()))
    missing = [set(file.missing_columns) for file in files]
    return FileReport(
        uri=files[0].uri if files else "",
        reject_samples=tuple(sample for file in files for sample in file.reject_samples)[:SAMPLES_MAX],
        missing_columns=tuple(name for name in files[0].missing_columns if all(name in names for names in missing))
        if files
        else (),
        other_fields=tuple(sorted({name for file in files for name in file.other_fields})[:OTHER_FIELDS_MAX]),
        **counts,
    )


def missing_in_all(pipeline: RowPipeline, reports: Sequence[UnitReport]) -> str | None:
    """A fault if no record of any file has a column that must be there; of records that name their own fields only the
    job can tell.

    Files that declare their fields were refused for such columns where they were read.
    """
    if pipeline.missing_columns is not MissingColumns.FAIL:
        return None
    files = [file for report in reports for file in report.files if file.error is None and file.num_rows_read]
    whole = joined_report(files)
    faults = pipeline.expected.faults(whole.missing_columns)
    if not faults:
        return None
    num_built = sum(len(report.segments) for report in reports)
    built = (
        f"; {num_built:,} segments were built by then and lie at the output, nothing was pushed" if num_built else ""
    )
    return (
        f"no record of {_named([file.uri for file in files])} has "
        f"{'this column' if len(faults) == 1 else f'these {len(faults)} columns'} "
        f"of schema '{pipeline.schema.schema_name}': {fault_text(faults, whole.other_fields)}{built}"
    )


def missing_warnings(
    pipeline: RowPipeline, table_config: TableConfig | None, reports: Sequence[UnitReport]
) -> tuple[str, ...]:
    """With WARN: each column that files lack, and what queries read in its rows."""
    if pipeline.missing_columns is not MissingColumns.WARN:
        return ()
    files = [file for report in reports for file in report.files if file.error is None]
    warnings = []
    for name in pipeline.expected.required:
        lacking = [file.uri for file in files if name in file.missing_columns]
        if lacking:
            warnings.append(
                f"{_named(lacking)} of {len(files):,} lack{'s' if len(lacking) == 1 else ''} column '{name}': "
                f"{_what_is_read(pipeline.schema, table_config, name)}"
            )
    return tuple(sorted(warnings))


def partition_warnings(reports: Sequence[UnitReport]) -> tuple[str, ...]:
    """Each column that the table partitions and some segments have no partitions of: how many, and why the first."""
    segments = [segment for report in reports for segment in report.segments]
    reasons: dict[str, list[str]] = {}
    for segment in segments:
        for name, reason in segment.partition_gaps.items():
            reasons.setdefault(name, []).append(reason)
    return tuple(
        f"{len(found):,} of {len(segments):,} segments have no partitions of column '{name}', and every query asks "
        f"them: {found[0]}"
        for name, found in sorted(reasons.items())
    )


def _what_is_read(schema: Schema, table_config: TableConfig | None, name: str) -> str:
    spec = schema.field_specs[name]
    default = f"{json_from_stored(spec.default_in_segments, spec.data_type)!r}"
    if not resolve_indexing(schema, table_config)[name].null_vector:
        return f"its rows have the default, {default}: the table keeps no null vector of it"
    return f"its rows have no value: in SQL null, or the default without null handling; in PQL the default, {default}"


def _named(uris: Sequence[str]) -> str:
    return f"'{uris[0]}'" if len(uris) == 1 else f"{len(uris):,} files ('{uris[0]}' …)"
