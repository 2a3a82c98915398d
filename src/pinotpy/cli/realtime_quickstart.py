"""`quickstart realtime`: a cluster that reads a stream, told step by step.

Steps: start the daemons, write RSVPs to a stream all the time, create a table that reads it, show how many rows can be
queried and how old the newest is, ask some queries. Without Kafka the stream is a folder of files.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

from rich.panel import Panel

from pinotpy.cli.asking import ask
from pinotpy.cli.quickstart import Ports, Quickstart
from pinotpy.cli.rsvp_stream import NUM_PARTITIONS, RATE, TABLE, TOPIC, RsvpProducer, file_topic, schema, table_config
from pinotpy.cli.sample_queries import SampleQuery
from pinotpy.client.controller import ControllerClient
from pinotpy.clock import SystemClock
from pinotpy.errors import PinotError, RemoteError
from pinotpy.stream.spec import StreamProducer

FIRST_ROWS_TIMEOUT_S: Final = 60.0
SHOWN: Final = 10  # how often rows and freshness are shown
SEGMENT_ROWS: Final = 500
COUNT: Final = f"SELECT COUNT(*) FROM {TABLE}"
SAMPLES: Final = (
    SampleQuery("How many RSVPs are there, and how many guests come along?",
                f"SELECT COUNT(*), SUM(guests) FROM {TABLE} WHERE response = 'yes'", "sql"),
    SampleQuery("Which cities meet most?",
                f"SELECT group_city, COUNT(*) AS rsvps FROM {TABLE} GROUP BY group_city ORDER BY rsvps DESC LIMIT 5",
                "sql"),
    SampleQuery("In which segments are the rows?",
                f"SELECT $segmentName, COUNT(*), MIN(rsvp_id), MAX(rsvp_id) FROM {TABLE} GROUP BY $segmentName "
                "ORDER BY $segmentName LIMIT 20", "sql"),
    SampleQuery("What came last?",
                f"SELECT rsvp_id, event_name, response, guests, mtime FROM {TABLE} ORDER BY mtime DESC LIMIT 10",
                "sql"),
)  # fmt: skip


class RealtimeQuickstart(Quickstart):
    """One run.

    Args:
        kafka_brokers: host:port, …: the stream is a topic there, which is made if it is not there; empty: files.
    """

    def __init__(
        self,
        directory: Path,
        ports: Ports,
        zk_address: str | None = None,
        *,
        as_json: bool = False,
        kafka_brokers: str = "",
    ) -> None:
        super().__init__(directory, ports, zk_address, as_json=as_json)
        self._kafka_brokers = kafka_brokers
        self._rsvps: RsvpProducer | None = None

    def run(self) -> None:
        where = f"Kafka at {self._kafka_brokers}" if self._kafka_brokers else "files on this machine"
        self.console.print(
            Panel.fit(f"[bold]pinotpy quickstart realtime[/bold]\nRSVPs to meetups, {RATE} a second, through {where}")
        )
        self._prepare()
        started = time.perf_counter()
        self._step("starting ZooKeeper, controller, broker and 2 servers", self._start_all)
        self._step(f"writing RSVPs to the stream {TOPIC}", self._start_stream)
        with ControllerClient(self.controller_url) as client:
            self._step(f"creating schema and table {TABLE}", lambda: self._create_table(client))
        self._step("waiting for the first rows", self._wait_for_rows)
        self._show_progress()
        self._ask_samples(SAMPLES)
        self.console.print(f"[dim]all steps took {time.perf_counter() - started:.1f} s[/dim]\n")
        self.is_complete = True

    def examples(self) -> tuple[str, ...]:
        return (f"SELECT * FROM {TABLE} ORDER BY mtime DESC LIMIT 50",)

    def stop(self) -> bool:
        if self._rsvps is not None:
            self._rsvps.close()
        return super().stop()

    # --- steps -----------------------------------------------------------------------------------------------------

    @property
    def _stream(self) -> dict[str, str]:
        if self._kafka_brokers:
            return {"streamType": "kafka", "stream.kafka.broker.list": self._kafka_brokers}
        return {"streamType": "file", "stream.file.directory": str(self.directory / "streams")}

    def _start_stream(self) -> None:
        self._rsvps = RsvpProducer(self._producer())
        self._rsvps.start()

    def _producer(self) -> StreamProducer:
        if not self._kafka_brokers:
            return file_topic(self.directory / "streams")
        from pinotpy.stream.kafka.producer import KafkaStreamProducer, make_topic
        from pinotpy.stream.settings import StreamSettings

        settings = StreamSettings("kafka", TOPIC, self._stream)
        make_topic(settings, NUM_PARTITIONS, SystemClock())
        return KafkaStreamProducer(settings, SystemClock())

    def _create_table(self, client: ControllerClient) -> None:
        client.add_schema(schema())
        client.add_table(table_config(self._stream, segment_rows=SEGMENT_ROWS))

    def _wait_for_rows(self) -> None:
        deadline = time.monotonic() + FIRST_ROWS_TIMEOUT_S
        answer: dict[str, Any] = {}
        while time.monotonic() < deadline:
            try:
                answer = ask(self.broker_url, COUNT, "sql")
                if not answer["exceptions"] and len(answer.get("partitionOffsets", {})) == NUM_PARTITIONS:
                    return
            except PinotError:
                pass
            time.sleep(0.1)
        raise RemoteError(
            f"no rows of the stream within {FIRST_ROWS_TIMEOUT_S:g} s; the last answer: {str(answer)[:500]}"
        )

    def _show_progress(self) -> None:
        """A line a second: rows that can be queried, how many came, how old the newest row is."""
        before: int | None = None
        for _ in range(SHOWN):
            answer = ask(self.broker_url, COUNT, "sql")
            if answer["exceptions"]:
                raise RemoteError(f"the query failed: {answer['exceptions'][0]}")
            rows = answer["resultTable"]["rows"][0][0]
            age_ms = max(int(time.time() * 1000) - answer["minConsumingFreshnessTimeMs"], 0)
            rate = "" if before is None else f", {rows - before:,} a second"
            self.console.print(f"  {rows:,} rows{rate}, the newest of the slower partition is {age_ms} ms old")
            before = rows
            if self._rsvps is not None and self._rsvps.failure is not None:
                raise RemoteError(f"the stream cannot be written to: {self._rsvps.failure}")
            time.sleep(1)
