"""The push of a job: the archives that it built, or those at its output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pinotpy.errors import NotFoundError, PinotError, UserError
from pinotpy.fs.file_systems import file_system_for
from pinotpy.fs.settings import FileSystemSettings
from pinotpy.fs.uris import masked
from pinotpy.ingest.archive_listing import ArchiveListing, input_list_uri, list_archives
from pinotpy.ingest.jobs.context import file_system_settings
from pinotpy.ingest.jobs.file_patterns import file_pattern
from pinotpy.ingest.jobs.input_lists import listed_uri
from pinotpy.ingest.jobs.places import path_below
from pinotpy.ingest.jobs.report import JobReport
from pinotpy.ingest.jobs.spec import ConsistentPush, IngestionJobSpec
from pinotpy.ingest.segment_names import path_of


def push_archives(spec: IngestionJobSpec, report: JobReport) -> JobReport:
    """The report of a job with that of its push; what was not pushed is an error of the job.

    A job that builds pushes what it built, one that only pushes what lies at outputDirURI. What replaces other segments
    is pushed whole or not at all: with a file left out, its rows would go from the table.
    """
    from pinotpy.ingest.push.job import push_segments

    settings = file_system_settings(spec)
    if spec.job_type.creates:
        uris = [segment.uri for segment in report.segments]
    else:
        archives = find_archives(spec)
        uris, report = list(archives.current), replace(report, replaced_archive_uris=archives.replaced)
    try:
        if report.num_failures and replaces_at_once(spec):
            raise UserError(
                f"{report.num_failures} input files were left out, and what replaces the table's rows "
                "(consistentPush) must be whole"
            )
        pushed = push_segments(
            spec,
            uris,
            file_systems=settings,
            are_whole=spec.job_type.creates and not report.num_failures,
            empty_files=empty_files(report),
        )
    except PinotError as error:
        if not spec.job_type.creates:
            raise
        # What was built stays, and the report says so.
        return replace(report, error=f"built, not pushed: {error.message}")
    report = replace(
        report,
        push=pushed.to_json(),
        error="; ".join(["not everything was pushed", *pushed.causes()]) if pushed.has_failed else None,
    )
    if report.error is None and spec.clean_up_output_dir:
        delete_archives(uris, settings)
    return report


def empty_files(report: JobReport) -> list[str]:
    """URIs, as lists write them, of the files that a job read and that have no row for the table."""
    return [listed_uri(file.uri) for file in report.files if file.error is None and not file.num_rows_indexed]


def delete_archives(uris: Sequence[str], settings: FileSystemSettings) -> None:
    """Delete archives, and the lists of their input files after them."""
    for uri in uris:
        files = file_system_for(uri, settings)
        files.delete(uri)
        files.delete(input_list_uri(uri))


def find_archives(spec: IngestionJobSpec) -> ArchiveListing:
    """The archives at outputDirURI, those that pushFileNamePattern takes. Raises NotFoundError if none is to be
    pushed.
    """
    root = spec.output_dir_uri or ""
    pattern = spec.push_job_spec.push_file_name_pattern
    takes = file_pattern(pattern, "pushJobSpec.pushFileNamePattern") if pattern else None
    there = list_archives(root, file_system_settings(spec))

    def taken(uris: Sequence[str]) -> tuple[str, ...]:
        return tuple(uri for uri in uris if takes is None or takes(path_of(uri), path_below(uri, root)))

    matching = replace(there, current=taken(there.current), replaced=taken(there.replaced))
    if not matching.current:
        besides = f"; {len(matching.replaced)} are marked as replaced" if matching.replaced else ""
        raise NotFoundError(
            "no segment archive (….tar.gz) in "
            f"'{masked(root)}'{f' that {pattern!r} takes' if pattern else ''}{besides}",
            uri=masked(root),
        )
    return matching


def replaces_at_once(spec: IngestionJobSpec) -> bool:
    """Whether a job's push replaces atomically: by its consistentPush, otherwise by the controller's table config."""
    from pinotpy.ingest.jobs.table_documents import read_table_documents

    if spec.pinotpy.consistent_push is not None:
        return spec.pinotpy.consistent_push is not ConsistentPush.NONE
    from_controller = spec.model_copy(
        update={"table_spec": spec.table_spec.model_copy(update={"table_config_uri": None})}
    )
    _, config = read_table_documents(from_controller, file_system_settings(spec))
    batch = config.ingestion.batch_ingestion_config if config is not None and config.ingestion is not None else None
    return batch is not None and batch.consistent_data_push
