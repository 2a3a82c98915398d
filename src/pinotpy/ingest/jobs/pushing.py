"""The push of a job: the archives that it built, or those that lie at its output."""

from __future__ import annotations

from dataclasses import replace

from pinotpy.errors import NotFoundError, PinotError, UserError
from pinotpy.fs.file_systems import file_system_for
from pinotpy.fs.uris import LOCAL_SCHEMES, masked, scheme_of
from pinotpy.ingest.jobs.context import file_system_settings
from pinotpy.ingest.jobs.file_patterns import file_pattern
from pinotpy.ingest.jobs.input_files import ARCHIVE_ENDING
from pinotpy.ingest.jobs.places import path_below, real_path
from pinotpy.ingest.jobs.report import JobReport
from pinotpy.ingest.jobs.spec import ConsistentPush, IngestionJobSpec
from pinotpy.ingest.segment_names import path_of


def push_archives(spec: IngestionJobSpec, report: JobReport) -> JobReport:
    """The report of a job with that of its push; what was not pushed is an error of the job.

    A job that builds pushes what it built, one that only pushes what lies at outputDirURI. What replaces other segments is pushed whole or
    not at all: with a file left out, its rows would go from the table.
    """
    from pinotpy.ingest.push.job import push_segments

    uris = [segment.uri for segment in report.segments] if spec.job_type.creates else find_archives(spec)
    settings = file_system_settings(spec)
    try:
        if report.num_failures and replaces_at_once(spec):
            raise UserError(f"{report.num_failures} input files were left out, and what replaces the table's rows (consistentPush) must be whole")
        pushed = push_segments(spec, uris, file_systems=settings)
    except PinotError as error:
        if not spec.job_type.creates:
            raise
        # What was built stays, and the report says so.
        return replace(report, error=f"built, not pushed: {error.message}")
    report = replace(report, push=pushed.to_json(), error="; ".join(["not everything was pushed", *pushed.causes()]) if pushed.has_failed else None)
    if report.error is None and spec.clean_up_output_dir:
        for uri in uris:
            file_system_for(uri, settings).delete(uri)
    return report


def find_archives(spec: IngestionJobSpec) -> list[str]:
    """The archives at outputDirURI, by URI ascending, those that pushFileNamePattern takes. Raises NotFoundError if there is none."""
    root = spec.output_dir_uri or ""
    pattern = spec.push_job_spec.push_file_name_pattern
    takes = file_pattern(pattern, "pushJobSpec.pushFileNamePattern") if pattern else None
    entries = [entry.uri for entry in file_system_for(root, file_system_settings(spec)).list(root) if entry.uri.endswith(ARCHIVE_ENDING)]
    found = [uri for uri in entries if takes is None or takes(path_of(uri), path_below(uri, root))]
    if not found:
        raise NotFoundError(f"no segment archive (….tar.gz) in '{masked(root)}'{f' that {pattern!r} takes' if pattern else ''}", uri=masked(root))
    return found


def replaces_at_once(spec: IngestionJobSpec) -> bool:
    """Whether a job's push replaces what is there: by its consistentPush, else by the controller's table config."""
    from pinotpy.ingest.jobs.table_documents import read_table_documents

    if spec.pinotpy.consistent_push is not None:
        return spec.pinotpy.consistent_push is not ConsistentPush.NONE
    from_controller = spec.model_copy(update={"table_spec": spec.table_spec.model_copy(update={"table_config_uri": None})})
    _, config = read_table_documents(from_controller, file_system_settings(spec))
    batch = config.ingestion.batch_ingestion_config if config is not None and config.ingestion is not None else None
    return batch is not None and batch.consistent_data_push


def with_other_archives(spec: IngestionJobSpec, report: JobReport) -> JobReport:
    """The report of a job that built, with the archives at its output that are not its segments.

    Names tell times and numbers, so corrected input gives new names, and the old archives stay: pushed together, rows would be there twice.
    """
    if report.error is not None:
        return report
    root = spec.output_dir_uri or ""
    own = {_identity(segment.uri) for segment in report.segments}
    try:
        entries = [entry.uri for entry in file_system_for(root, file_system_settings(spec)).list(root) if entry.uri.endswith(ARCHIVE_ENDING)]
    except PinotError:
        return report  # everything is built; a push of it will say what is wrong with the storage
    return replace(report, other_archive_uris=tuple(uri for uri in entries if _identity(uri) not in own))


def _identity(uri: str) -> object:
    return real_path(uri) if scheme_of(uri) in LOCAL_SCHEMES else uri
