"""`quickstart realtime`: a cluster that reads a stream, told step by step.

Steps: start the daemons, write RSVPs to a stream all the time, create a table that reads it, show how many rows can be
queried and how old the newest is, ask some queries. Without Kafka the stream is a folder of files.
"""

from __future__ import annotations

import time
from typing import Final

from rich.panel import Panel

from pinotpy.cli.rsvp_stream import RATE, TABLE, TOPIC, rsvp, schema, table_config
from pinotpy.cli.sample_queries import SampleQuery
from pinotpy.cli.stream_quickstart import StreamQuickstart
from pinotpy.client.controller import ControllerClient

SEGMENT_ROWS: Final = 500
COUNT: Final = f"SELECT COUNT(*) FROM {TABLE}"
SAMPLES: Final = (
    SampleQuery("How many RSVPs are there, and how many guests come along?",
                f"SELECT COUNT(*), SUM(guests) FROM {TABLE} WHERE response = 'yes'"),
    SampleQuery("Which cities meet most?",
                f"SELECT group_city, COUNT(*) AS rsvps FROM {TABLE} GROUP BY group_city ORDER BY rsvps DESC LIMIT 5"),
    SampleQuery("In which segments are the rows?",
                f"SELECT $segmentName, COUNT(*), MIN(rsvp_id), MAX(rsvp_id) FROM {TABLE} GROUP BY $segmentName "
                "ORDER BY $segmentName LIMIT 20"),
    SampleQuery("What came last?",
                f"SELECT rsvp_id, event_name, response, guests, mtime FROM {TABLE} ORDER BY mtime DESC LIMIT 10"),
)  # fmt: skip


class RealtimeQuickstart(StreamQuickstart):
    """One run."""

    def run(self) -> None:
        self.console.print(
            Panel.fit(
                f"[bold]pinotpy quickstart realtime[/bold]\nRSVPs to meetups, {RATE} a second, through {self._place}"
            )
        )
        self._prepare()
        started = time.perf_counter()
        self._step("starting ZooKeeper, controller, broker and 2 servers", self._start_all)
        self._step(f"writing RSVPs to the stream {TOPIC}", lambda: self._open_stream(TOPIC, rsvp, rate=RATE).start())
        with ControllerClient(self.controller_url) as client:
            if TABLE in client.tables():
                self.console.print(f"[green]✓[/green] table {TABLE} is there, with its rows")
            else:
                self._step(f"creating schema and table {TABLE}", lambda: self._create_table(client))
        self._step("waiting for the first rows", lambda: self._wait_for_rows(COUNT))
        self._show_progress(COUNT)
        self._ask_samples(SAMPLES)
        self.console.print(f"[dim]all steps took {time.perf_counter() - started:.1f} s[/dim]\n")
        self.is_complete = True

    def examples(self) -> tuple[str, ...]:
        return (f"SELECT * FROM {TABLE} ORDER BY mtime DESC LIMIT 50",)

    def _create_table(self, client: ControllerClient) -> None:
        client.add_schema(schema())
        client.add_table(table_config(self._stream_configs(TOPIC, segment_rows=SEGMENT_ROWS)))
