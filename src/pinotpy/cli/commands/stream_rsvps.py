"""Make the table meetupRsvp in a running cluster and write RSVPs to its stream, a steady number a second."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from pinotpy.cli.option_groups import ControllerOptions, controller_options, takes

NAME = "stream-rsvps"
SEGMENT_ROWS = 10_000
NUMBERS_A_MS = 1_000  # so that no two runs give the same number to two RSVPs


@takes(controller_options)
def run(
    common: ControllerOptions,
    kafka_broker_list: Annotated[
        str, typer.Option("--kafka-broker-list", help="host:port, …: the stream is a topic there")
    ] = "",
    stream_directory: Annotated[
        Path | None,
        typer.Option("--stream-directory", help="the stream is a folder of files here, which servers see as well"),
    ] = None,
    rate: Annotated[int, typer.Option("--rate", help="RSVPs a second", min=1)] = 200,
    seconds: Annotated[float, typer.Option("--seconds", help="how long; 0: until it is stopped", min=0)] = 0.0,
) -> None:
    from pinotpy.cli.demo_stream import NUM_PARTITIONS, DemoStream
    from pinotpy.cli.rsvp_stream import TABLE, TOPIC, rsvp, schema, table_config
    from pinotpy.cli.steady_producer import SteadyProducer
    from pinotpy.errors import RemoteError, UserError

    if bool(kafka_broker_list) == (stream_directory is not None):
        raise UserError("expected one of --kafka-broker-list and --stream-directory: where the stream is")
    stream = DemoStream(kafka_broker_list, stream_directory or Path())
    first = time.time_ns() // 1_000_000 * NUMBERS_A_MS
    producer = SteadyProducer(
        stream.producer(TOPIC), lambda number, now_ms: rsvp(first + number, now_ms), NUM_PARTITIONS, rate=rate
    )
    try:
        with common.client() as client:
            if TABLE not in client.tables():
                client.add_schema(schema())
                client.add_table(table_config(stream.configs(TOPIC, segment_rows=SEGMENT_ROWS)))
        producer.start()
        until = time.monotonic() + seconds
        while producer.failure is None and (not seconds or time.monotonic() < until):
            time.sleep(0.1)
    finally:
        producer.close()
    if producer.failure is not None:
        raise RemoteError(f"the stream cannot be written to: {producer.failure}")
    typer.echo(f"{producer.num_sent:,} RSVPs were written to {stream.place}; table {TABLE} reads them")
