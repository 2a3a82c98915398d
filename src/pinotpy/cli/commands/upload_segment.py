"""Push segments to a table: a segment folder, a .tar.gz, or a folder of either, on this machine or any file system."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pinotpy.cli.option_groups import ControllerOptions, controller_options, takes
from pinotpy.errors import RemoteError, UserError

if TYPE_CHECKING:
    from pinotpy.ingest.push.report import PushReport
    from pinotpy.ingest.push.settings import ReplaceScope

NAME = "upload-segment"


class PushType(StrEnum):
    """See `ingest.push.settings.PushKind`."""

    TAR = "tar"
    URI = "uri"
    METADATA = "metadata"


@takes(controller_options)
def run(
    common: ControllerOptions,
    segment_dir: Annotated[
        str,
        typer.Option(
            "--segment-dir",
            help="segment, archive, or folder of these; archives also by URI, such as s3://bucket/folder",
        ),
    ],
    table_name: Annotated[str, typer.Option("--table-name", help="table of the segments, with or without type")],
    push_type: Annotated[
        PushType, typer.Option("--push-type", help="send the archives, only their address, or address and metadata")
    ] = PushType.TAR,
    parallelism: Annotated[int, typer.Option("--parallelism", min=1, max=256, help="segments sent concurrently")] = 2,
    attempts: Annotated[int, typer.Option("--attempts", min=1, max=100, help="attempts for each segment")] = 5,
    uri_prefix: Annotated[
        str,
        typer.Option("--uri-prefix", help="prefix of a segment's path in the address sent to the controller"),
    ] = "",
    uri_suffix: Annotated[str, typer.Option("--uri-suffix", help="suffix of that address")] = "",
    copy_to_deep_store: Annotated[
        bool,
        typer.Option(
            "--copy-to-deep-store", help="metadata push: let the controller copy the segments into the deep store"
        ),
    ] = False,
    replace_table: Annotated[
        bool, typer.Option("--replace-table", help="atomically replace all segments of the table")
    ] = False,
    replace_from: Annotated[
        str | None,
        typer.Option("--replace-from", help="atomically replace the segments from this time on (ISO or epoch ms)"),
    ] = None,
    replace_until: Annotated[
        str | None, typer.Option("--replace-until", help="… and up to this time (exclusive)")
    ] = None,
    allow_duplicates: Annotated[
        bool,
        typer.Option(
            "--allow-duplicates",
            help="also push rows of input files that are, or may be, in other segments; these rows are then duplicated",
        ),
    ] = False,
    adopt: Annotated[
        bool,
        typer.Option(
            "--adopt",
            help="give segments of the table without a list of input files the list of a pushed one with the same time "
            "range and rows",
        ),
    ] = False,
    again: Annotated[bool, typer.Option("--again", help="also send segments that exist with the same CRC")] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="wait until all replicas serve them")] = True,
    timeout_s: Annotated[float, typer.Option("--timeout-s", help="how long to wait for that")] = 120.0,
) -> None:
    from pinotpy.cli.options import progress
    from pinotpy.ingest.push.push import push
    from pinotpy.ingest.push.settings import PushKind, PushSettings
    from pinotpy.names import TableType, split_table_name

    replaced = replace_scope(replace_table, replace_from, replace_until)
    table, table_type = split_table_name(table_name)
    sources = segment_sources(segment_dir)
    settings = PushSettings(
        table=table,
        table_type=table_type or TableType.OFFLINE,
        controllers=tuple(url for url in common.controller_url.split(",") if url.strip()),
        kind=PushKind(push_type.value),
        attempts_max=attempts,
        parallelism=parallelism,
        uri_prefix=uri_prefix,
        uri_suffix=uri_suffix,
        copy_to_deep_store=copy_to_deep_store,
        sends_again=again,
        replace=replaced,
        asks_table=replaced is None,
        allows_duplicates=allow_duplicates,
        adopts=adopt,
        online_timeout_s=timeout_s if wait else None,
    )
    with progress(common.as_json) as bar:
        task = bar.add_task("uploading", total=len(sources))
        report = push(settings, sources, access=common.access(), progress=lambda segment: bar.advance(task))
    if common.as_json:
        typer.echo(json.dumps(report.to_json(), indent=2, ensure_ascii=False))
    else:
        typer.echo(report_line(report, table, is_online=wait))
    if report.has_failed:
        raise RemoteError(f"the push to table '{table}' failed: " + "; ".join(report.causes()))


def replace_scope(whole_table: bool, first: str | None, end: str | None) -> ReplaceScope | None:
    """What the options say is replaced. Raises UserError for times that cannot be read, or both."""
    from pinotpy.ingest.push.settings import ReplaceScope

    if not whole_table and first is None and end is None:
        return None
    if whole_table and (first is not None or end is not None):
        raise UserError("give either --replace-table, or --replace-from and --replace-until: found both")
    scope = ReplaceScope(_millis(first, "--replace-from"), _millis(end, "--replace-until"))
    if scope.start_ms is not None and scope.end_ms is not None and scope.start_ms >= scope.end_ms:
        raise UserError("--replace-until must be after --replace-from")
    return scope


def report_line(report: PushReport, table: str, *, is_online: bool) -> str:
    """`2 segments of table t uploaded and online`, and what else is to be said."""
    from pinotpy.ingest.push.report import Outcome

    pushed, present, failed = (report.count(outcome) for outcome in (Outcome.PUSHED, Outcome.PRESENT, Outcome.FAILED))
    line = f"{pushed} segments of table {table} uploaded" + (
        " and online" if is_online and not report.has_failed else ""
    )
    line += f", {present} were there already" if present else ""
    line += f", {failed} failed" if failed else ""
    for cluster in report.clusters:
        if cluster.replacement is not None and cluster.replacement.is_complete:
            line += f"; they replaced {len(cluster.replacement.segments_from)}"
        line += "".join(f"; {told}" for told in (cluster.inputs.told, cluster.missing_told) if told)
    return line


def segment_sources(place: str) -> list[str]:
    """Segments and archives that a path or URI means, sorted. A segment is a directory with a `metadata` file."""
    from pinotpy.fs.uris import LOCAL_SCHEMES, local_path, masked, scheme_of
    from pinotpy.ingest.archive_listing import ARCHIVE_ENDING, archives_among
    from pinotpy.ingest.push.sources import find_archives

    sources: list[str] = []
    if scheme_of(place) in LOCAL_SCHEMES and (path := local_path(place)).is_dir():
        if (path / "metadata").is_file():
            return [str(path)]
        # A build leaves both forms of a segment: one of them is enough.
        there = archives_among(str(entry) for entry in path.iterdir())
        packed = {Path(uri).name.removesuffix(ARCHIVE_ENDING) for uri in (*there.current, *there.replaced)}
        folders = [
            str(entry) for entry in path.iterdir() if (entry / "metadata").is_file() and entry.name not in packed
        ]
        sources = sorted([*folders, *there.current])
        if there.replaced:
            typer.echo(
                f"{len(there.replaced)} archives in '{place}' are marked as replaced by a later run of their job and "
                "not pushed",
                err=True,
            )
    elif (scheme_of(place) in LOCAL_SCHEMES and path.is_file()) or place.endswith(ARCHIVE_ENDING):
        return [place]
    sources = sources or find_archives(place)
    if not sources:
        raise UserError(
            f"'{masked(place)}' holds no segment: expected a segment directory (with its 'metadata' file) or "
            f"{ARCHIVE_ENDING} archives"
        )
    return sources


def _millis(text: str | None, option: str) -> int | None:
    from datetime import UTC, datetime

    if text is None:
        return None
    if text.lstrip("-").isdigit() and len(text.lstrip("-")) > 8:
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UserError(
            f"{option} is '{text[:60]}': expected a time such as 2013-01-31 or 2013-01-31T12:00:00Z, or ms of the epoch"
        ) from None
    return int((moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp() * 1000)
