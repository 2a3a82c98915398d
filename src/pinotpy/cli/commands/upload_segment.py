"""Upload segments: a segment directory, a .tar.gz, or a folder of either."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from pinotpy.cli import options
from pinotpy.errors import UserError

NAME = "upload-segment"


def run(
    segment_dir: Annotated[Path, typer.Option("--segment-dir", help="segment, archive, or folder of these", exists=True)],
    table_name: Annotated[str, typer.Option("--table-name", help="table that they belong to")],
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="wait until all replicas serve them")] = True,
    timeout_s: Annotated[float, typer.Option("--timeout-s", help="longest wait")] = 120.0,
    controller_url: options.ControllerUrl = options.DEFAULT_CONTROLLER,
    user: options.AuthUser = None,
    password: options.AuthPassword = None,
    auth_token: options.AuthToken = None,
    tls_ca_file: options.ClientCa = None,
    as_json: options.Json = False,
) -> None:
    from rich.progress import Progress

    from pinotpy.client.controller import ControllerClient
    from pinotpy.segment.archive import pack_segment

    sources = segment_sources(segment_dir)
    with (
        ControllerClient(controller_url, options.access(user, password, auth_token, tls_ca_file)) as client,
        tempfile.TemporaryDirectory() as scratch,
        Progress(disable=as_json) as progress,
    ):
        task = progress.add_task("uploading", total=len(sources))
        for source in sources:
            archive = source
            if source.is_dir():
                archive = Path(scratch) / f"{source.name}.tar.gz"
                pack_segment(source, archive)
            answer = client.upload_segment(archive, table_name)
            progress.advance(task)
            if as_json:
                options.print_status(answer, as_json)
            if archive is not source:
                archive.unlink()
        if wait:
            loading = progress.add_task("loading", total=None)
            client.wait_until_online(table_name, timeout_s=timeout_s, progress=lambda done, every: progress.update(loading, completed=done, total=every))
    if not as_json:
        typer.echo(f"{len(sources)} segments of table {table_name} uploaded{' and online' if wait else ''}")


def segment_sources(path: Path) -> list[Path]:
    """Segments and archives that `path` means, sorted. A segment is a directory with a `metadata` file."""
    if path.is_file() or (path / "metadata").is_file():
        return [path]
    found = sorted(entry for entry in path.iterdir() if entry.name.endswith(".tar.gz") or (entry / "metadata").is_file())
    # A build leaves both forms of a segment: one of them is enough.
    names = {entry.name for entry in found if entry.is_dir()}
    found = [entry for entry in found if entry.is_dir() or entry.name.removesuffix(".tar.gz") not in names]
    if not found:
        raise UserError(f"'{path}' holds no segment: expected a segment directory (with its 'metadata' file) or .tar.gz archives")
    return found
