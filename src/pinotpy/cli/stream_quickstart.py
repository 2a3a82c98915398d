"""What quickstarts have in common whose tables read a stream: a topic of files or of Kafka, records all the time."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from pinotpy.cli.asking import ask
from pinotpy.cli.demo_stream import NUM_PARTITIONS, DemoStream
from pinotpy.cli.quickstart import Quickstart
from pinotpy.cli.steady_producer import SteadyProducer
from pinotpy.cli.supervision.cluster_layout import Ports
from pinotpy.errors import PinotError, RemoteError

FIRST_ROWS_TIMEOUT_S: Final = 180.0
SHOWN: Final = 10  # how often rows and freshness are shown


class StreamQuickstart(Quickstart):
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
        keeps_data: bool = False,
        kafka_brokers: str = "",
    ) -> None:
        super().__init__(directory, ports, zk_address, as_json=as_json, keeps_data=keeps_data)
        self._stream = DemoStream(kafka_brokers, self.directory / "streams")
        self._records: SteadyProducer | None = None

    def stop(self) -> bool:
        if self._records is not None:
            self._records.close()
        return super().stop()

    @property
    def _place(self) -> str:
        """Where the stream is, in words."""
        return self._stream.place

    def _stream_configs(self, topic: str, *, segment_rows: int) -> dict[str, str]:
        """Of a table that reads the topic from its beginning."""
        return self._stream.configs(topic, segment_rows=segment_rows)

    def _open_stream(
        self, topic: str, record: Callable[[int, int], dict[str, Any]], *, rate: int, first: int = 0
    ) -> SteadyProducer:
        """The topic, which is made if it is not there, and who writes records to it, from number `first` on and behind
        those that are there; it is closed with the rest.
        """
        producer = self._stream.producer(topic)
        first = max(self._stream.num_records(producer), first)
        self._records = SteadyProducer(producer, record, NUM_PARTITIONS, rate=rate, first=first)
        return self._records

    def _wait_for(self, query: str, is_reached: Callable[[dict[str, Any]], bool], what: str) -> dict[str, Any]:
        """The first whole answer that is as it shall be."""
        deadline = time.monotonic() + FIRST_ROWS_TIMEOUT_S
        answer: dict[str, Any] = {}
        while time.monotonic() < deadline:
            try:
                answer = ask(self.broker_url, query)
                if not answer["exceptions"] and is_reached(answer):
                    return answer
            except PinotError:
                pass
            time.sleep(0.1)
        raise RemoteError(f"{what}: not within {FIRST_ROWS_TIMEOUT_S:g} s; the last answer: {str(answer)[:500]}")

    def _wait_for_rows(self, query: str) -> None:
        self._wait_for(
            query,
            lambda answer: (
                len(answer.get("partitionOffsets", {})) == NUM_PARTITIONS and answer["resultTable"]["rows"][0][0] > 0
            ),
            "no rows of all partitions of the stream",
        )

    def _show_progress(self, count: str) -> None:
        """A line a second: rows that can be queried, how many came, how old the newest row is."""
        before: int | None = None
        for _ in range(SHOWN):
            answer = ask(self.broker_url, count)
            if answer["exceptions"]:
                raise RemoteError(f"the query failed: {answer['exceptions'][0]}")
            rows = answer["resultTable"]["rows"][0][0]
            age_ms = max(int(time.time() * 1000) - answer["minConsumingFreshnessTimeMs"], 0)
            rate = "" if before is None else f", {rows - before:,} a second"
            self.console.print(f"  {rows:,} rows{rate}, the newest of the slower partition is {age_ms} ms old")
            before = rows
            if self._records is not None and self._records.failure is not None:
                raise RemoteError(f"the stream cannot be written to: {self._records.failure}")
            time.sleep(1)
