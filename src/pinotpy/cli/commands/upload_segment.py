"""Upload segments: a segment directory, a .tar.gz, or a folder of either."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from pinotpy.cli.option_groups import ControllerOptions, controller_options, takes
from pinotpy.errors import UserError

NAME = "upload-segment"


@takes(controller_options)
def run(
    common: ControllerOptions,
    segment_dir: Annotated[Path, typer.Option("--segment-dir", help="segment, archive, or folder of these", exists=True)],
    table_name: Annotated[str, typer.Option("--table-name", help="table that they belong to")],
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="wait until all replicas serve them")] = True,
    timeout_s: Annotated[float, typer.Option("--timeout-s", help="longest wait")] = 120.0,
) -> None:
    from rich.progress import Progress

    from pinotpy.segment.archive import pack_segment

    sources = segment_sources(segment_dir)
    with (
        common.client() as client,
        tempfile.TemporaryDirectory() as scratch,
        Progress(disable=common.as_json) as progress,
    ):
        task = progress.add_task("uploading", total=len(sources))
        for source in sources:
            archive = source
            if source.is_dir():
                archive = Path(scratch) / f"{source.name}.tar.gz"
                pack_segment(source, archive)
            answer = client.upload_segment(archive, table_name)
            progress.advance(task)
            if common.as_json:
                common.print_status(answer)
            if archive is not source:
                archive.unlink()
        if wait:
            loading = progress.add_task("loading", total=None)
            client.wait_until_online(table_name, timeout_s=timeout_s, progress=lambda done, every: progress.update(loading, completed=done, total=every))
    if not common.as_json:
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
