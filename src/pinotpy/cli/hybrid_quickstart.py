"""`quickstart hybrid`: one table of which old days are pushed and new ones streamed, told step by step.

Steps: start the daemons, push a segment a day of flights, stream the last two of these days again and then flights of
today all the time, show where the broker divides the halves, and check that no flight counts twice.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Set
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from rich.panel import Panel

from pinotpy.cli.airline_flights import FLIGHTS_A_DAY, TABLE, TIME_COLUMN, TOPIC, flight, schema, table_config
from pinotpy.cli.asking import ask
from pinotpy.cli.demo_stream import NUM_PARTITIONS
from pinotpy.cli.sample_queries import SampleQuery
from pinotpy.cli.stream_quickstart import StreamQuickstart
from pinotpy.client.controller import ControllerClient
from pinotpy.errors import RemoteError

PUSHED_DAYS: Final = 30
STREAMED_DAYS: Final = 2  # of those, the last ones, which are in the stream as well
RATE: Final = 50  # flights of today a second
SEGMENT_ROWS: Final = 400
ONLINE_TIMEOUT_S: Final = 180.0
_DAY_MS: Final = 86_400_000
COUNT: Final = f"SELECT COUNT(*) FROM {TABLE}"
COUNT_OLD: Final = f"SELECT COUNT(*) FROM {TABLE} WHERE {TIME_COLUMN} < {{today}}"
SAMPLES: Final = (
    SampleQuery("How many flights were there on each of the last days?",
                f"SELECT {TIME_COLUMN}, COUNT(*) FROM {TABLE} GROUP BY {TIME_COLUMN} ORDER BY {TIME_COLUMN} DESC "
                "LIMIT 5"),
    SampleQuery("Which carriers are late?",
                f"SELECT Carrier, COUNT(*) AS flights, AVG(ArrDelay) AS delay FROM {TABLE} WHERE Cancelled = 0 "
                "GROUP BY Carrier ORDER BY delay DESC LIMIT 5"),
    SampleQuery("Where are the flights of both halves?",
                f"SELECT $segmentName, COUNT(*), MIN({TIME_COLUMN}), MAX({TIME_COLUMN}) FROM {TABLE} "
                f"GROUP BY $segmentName ORDER BY MAX({TIME_COLUMN}) DESC LIMIT 6"),
)  # fmt: skip


class HybridQuickstart(StreamQuickstart):
    """One run."""

    def run(self) -> None:
        self.console.print(
            Panel.fit(
                f"[bold]pinotpy quickstart hybrid[/bold]\n{PUSHED_DAYS} days of flights are pushed, the last "
                f"{STREAMED_DAYS} of them and today's come through {self._place}"
            )
        )
        self._prepare()
        started = time.perf_counter()
        self._step("starting ZooKeeper, controller, broker and 2 servers", self._start_all)
        with ControllerClient(self.controller_url) as client:
            halves = client.table(TABLE).keys() if TABLE in client.tables() else set()
            today = _first_day(client) if "OFFLINE" in halves else int(time.time() * 1000) // _DAY_MS
            if halves:
                self.console.print(f"[green]✓[/green] there is already: {TABLE}, {' and '.join(sorted(halves))}")
            if "OFFLINE" not in halves:
                self._step(f"creating schema and table {TABLE}_OFFLINE", lambda: self._create_offline(client))
            self._step(f"building and pushing {PUSHED_DAYS} segments, one a day", lambda: self._push(client, today))
            self._step(
                f"writing flights of {STREAMED_DAYS} days, and today's, to the stream {TOPIC}",
                lambda: self._stream_from(today, has_old="REALTIME" in halves),
            )
            if "REALTIME" not in halves:
                self._step(f"creating table {TABLE}_REALTIME", lambda: self._create_realtime(client))
        self._step("waiting for the first rows", lambda: self._wait_for_rows(f"{COUNT}_REALTIME"))
        self._step("checking that no flight counts twice", lambda: self._check(today))
        self._show_halves()
        self._show_progress(COUNT)
        self._ask_samples(SAMPLES)
        self.console.print(f"[dim]all steps took {time.perf_counter() - started:.1f} s[/dim]\n")
        self.is_complete = True

    def examples(self) -> tuple[str, ...]:
        return (f"SELECT {TIME_COLUMN}, COUNT(*) FROM {TABLE} GROUP BY {TIME_COLUMN} ORDER BY {TIME_COLUMN} LIMIT 40",)

    # --- steps -----------------------------------------------------------------------------------------------------

    def _create_offline(self, client: ControllerClient) -> None:
        client.add_schema(schema())
        client.add_table(table_config("OFFLINE"))

    def _create_realtime(self, client: ControllerClient) -> None:
        client.add_table(table_config("REALTIME", self._stream_configs(TOPIC, segment_rows=SEGMENT_ROWS)))

    def _push(self, client: ControllerClient, today: int) -> None:
        from pinotpy.segment.archive.archive import pack_segment

        folder = self.empty_folder("built")
        present = set(client.segments(TABLE).get("OFFLINE", ()))

        def push(name: str) -> None:
            archive = folder / f"{name}.tar.gz"
            pack_segment(folder / name, archive)
            client.upload_segment(archive, TABLE)

        # One is uploaded while the next one is built.
        with ThreadPoolExecutor(1, "flights-upload") as uploads:
            pending = [uploads.submit(push, name) for name in _built_days(folder, today, present)]
            for upload in pending:
                upload.result()
        client.wait_until_online(TABLE, timeout_s=ONLINE_TIMEOUT_S)

    def _stream_from(self, today: int, *, has_old: bool) -> None:
        """The last pushed days again, at once, unless an earlier run has done that; then today's flights all the
        time.
        """
        num_old = STREAMED_DAYS * FLIGHTS_A_DAY

        def record(number: int, now_ms: int) -> dict[str, Any]:
            if number < num_old:
                return flight(today - STREAMED_DAYS + number // FLIGHTS_A_DAY, number % FLIGHTS_A_DAY)
            return flight(now_ms // _DAY_MS, number)

        records = self._open_stream(TOPIC, record, rate=RATE, first=num_old if has_old else 0)
        if records.num_sent < num_old:
            records.append((num_old - records.num_sent) // NUM_PARTITIONS)
        records.start()

    def _check(self, today: int) -> None:
        """Days before today are whole, and in no answer twice, though two of them are in both halves."""
        query, expected = COUNT_OLD.format(today=today), PUSHED_DAYS * FLIGHTS_A_DAY
        self._wait_for(
            query,
            lambda answer: answer["resultTable"]["rows"] == [[expected]],
            f"expected {expected} flights before today",
        )
        for _ in range(20):
            rows = ask(self.broker_url, query)["resultTable"]["rows"]
            if rows != [[expected]]:
                raise RemoteError(f"expected {expected} flights before today, found {rows}")

    def _show_halves(self) -> None:
        answer = ask(self.broker_url, COUNT)
        boundary = answer["timeBoundary"]
        self.console.print(
            f"  time boundary: {boundary['timeColumn']} {boundary['timeValue']}; up to it flights are read from "
            f"{TABLE}_OFFLINE, behind it from {TABLE}_REALTIME"
        )
        for name in (f"{TABLE}_OFFLINE", f"{TABLE}_REALTIME", TABLE):
            rows = ask(self.broker_url, f"SELECT COUNT(*) FROM {name}")["resultTable"]["rows"][0][0]
            self.console.print(f"  {rows:,} flights in {name}")


def _first_day(client: ControllerClient) -> int:
    """The day on which this demonstration ran first, which divides what is pushed from what is streamed: days are
    pushed in order.
    """
    days = [int(name.rpartition("_")[2]) for name in client.segments(TABLE).get("OFFLINE", ())]
    return min(days) + PUSHED_DAYS if days else int(time.time() * 1000) // _DAY_MS


def _built_days(folder: Path, today: int, present: Set[str]) -> Iterator[str]:
    """Build a segment a day in `folder`, but for those that are present; gives each name when it is there."""
    import pyarrow as pa

    from pinotpy.config.schema import Schema
    from pinotpy.config.table import TableConfig
    from pinotpy.segment.build.builder import build_segment

    of_schema, config = Schema.from_json(schema()), TableConfig.from_json(table_config("OFFLINE"))
    types = pa.schema([(spec.name, spec.data_type.arrow) for spec in of_schema.field_specs.values()])
    for day in range(today - PUSHED_DAYS, today):
        name = f"{TABLE}_{day}"
        if name in present:
            continue
        rows = pa.RecordBatch.from_pylist([flight(day, number) for number in range(FLIGHTS_A_DAY)], types)
        build_segment(of_schema, config, [rows], folder, name, raw_table_name=TABLE)
        yield name
