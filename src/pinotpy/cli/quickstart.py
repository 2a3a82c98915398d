"""The quickstart: real daemons, real flights, a dozen questions, and two measurements, told step by step.

Steps: start ZooKeeper, controller, broker and two servers; create schema and table; build a segment a month and upload
it; wait until every replica is ONLINE; start the daemons again on the loaded data (how long until the first full
answer?); ask the sample queries; read the memory of the idle daemons.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.panel import Panel

from pinotpy.cli.asking import ask
from pinotpy.cli.beside import beside
from pinotpy.cli.compiled_kernels import first_are_compiled
from pinotpy.cli.flights_loading import TABLE, build_and_upload_flights, create_flights_table
from pinotpy.cli.local_cluster import LocalCluster
from pinotpy.cli.own_command import own_command
from pinotpy.cli.pulse import pulse
from pinotpy.cli.result_table import print_answer
from pinotpy.cli.sample_queries import FIRST_FULL_QUERY, SAMPLES, SampleQuery
from pinotpy.cli.supervision.cluster_layout import ClusterLayout, Ports
from pinotpy.cli.supervision.data_folder import DataFolder
from pinotpy.cli.supervision.foreground import open_layout
from pinotpy.cli.supervision.leftovers import make_room
from pinotpy.cli.supervision.process_identity import ProcessIdentity
from pinotpy.cli.supervision.state_file import Phase, record_state
from pinotpy.client.controller import ControllerClient
from pinotpy.errors import PinotError, RemoteError
from pinotpy.service.zookeeper_jars import find_jars

CLUSTER = "QuickStartCluster"
NUM_SERVERS = 2
FIRST_ANSWER_TIMEOUT_S = 60.0


class Quickstart:
    """One run; `stop` must be called at its end.

    Args:
        directory: a folder with the data of an earlier run, or an empty or missing one.
        as_json: what it tells goes to standard error.
        keeps_data: whether the folder stays, as the banner says.
    """

    def __init__(
        self,
        directory: Path,
        ports: Ports,
        zk_address: str | None = None,
        *,
        as_json: bool = False,
        keeps_data: bool = False,
    ) -> None:
        self.console = Console(highlight=False, stderr=as_json)
        self.folder = DataFolder(directory)
        self.cluster = LocalCluster(self.folder.logs)
        self.directory = self.folder.path
        self._ports, self._zk_address, self._keeps_data = ports, zk_address, keeps_data
        self._layout: ClusterLayout | None = None
        self._restart_began = 0.0
        self.is_complete = False

    @property
    def controller_url(self) -> str:
        return self.cluster.daemons["controller"].ready["url"]

    @property
    def broker_url(self) -> str:
        return self.cluster.daemons["broker"].ready["url"]

    def run(self) -> None:
        """All steps; raises PinotError when one fails."""
        self.console.print(
            Panel.fit(
                "[bold]pinotpy quickstart[/bold]\nthe flights that left New York in 2013, in a cluster on this machine"
            )
        )
        self._prepare()
        started = time.perf_counter()
        self._step("starting ZooKeeper, controller, broker and 2 servers", self._start_all)
        with ControllerClient(self.controller_url) as client:
            if TABLE in client.tables():
                self.console.print(f"[green]✓[/green] table {TABLE} is there: only segments that are not are loaded")
            else:
                self._step("creating schema and table flights", lambda: create_flights_table(client))
            with self._pulse("loading the flights"):
                rows = build_and_upload_flights(client, self.empty_folder("built"), self.console)
        self._step("starting the daemons again on the loaded data", self._restart)
        first_answer_s = self._first_answer_s(rows)
        self._ask_samples(SAMPLES)
        self._print_measurements(first_answer_s, time.perf_counter() - started)
        self.is_complete = True

    def addresses(self) -> dict[str, str]:
        """Where everything is."""
        assert self._zk_address is not None and self._layout is not None
        return {
            "controllerUrl": self.controller_url,
            "brokerUrl": self.broker_url,
            "zkAddress": self._zk_address,
            "clusterName": self._layout.name,
            "logs": str(self.cluster.directory),
        }

    def print_addresses(self) -> None:
        """Where everything is, and what to try. Examples are outside the frame and unwrapped, to be copied."""
        places = (
            f"query page   {self.controller_url}/query\nREST, docs   {self.controller_url}/docs\nbroker       "
            f"{self.broker_url}/query/sql"
        )
        self.console.print(Panel.fit(f"{places}\nlogs         {self.cluster.directory}", title="the cluster is up"))
        for query in self.examples():
            for example in (
                f"""curl -s {self.broker_url}/query/sql -d '{{"sql": "{query}"}}'""",
                f'{own_command()} sql --broker-url {self.broker_url} "{query}"',
            ):
                self.console.print(f"  [cyan]{escape(example)}[/cyan]", soft_wrap=True)
        self._print_what_stays()

    def _print_what_stays(self) -> None:
        if self._keeps_data:
            place = shlex.quote(str(self.directory))
            text = (
                f"Ctrl-C stops everything; the data stay in {self.directory}. The same command goes on with them, "
                f"`{own_command()} up --data-dir {place}` without the demonstration; `rm -r {place}` removes them"
            )
        else:
            text = (
                "Ctrl-C stops everything and removes the data: this is a demonstration. `quickstart --directory D` "
                f"keeps them; `{own_command()} up` is a cluster that stays"
            )
        self.console.print(escape(text), soft_wrap=True)

    def stop(self) -> bool:
        """Stop all daemons; return whether all exited cleanly."""
        statuses = self.cluster.stop_all()
        if self._layout is not None:
            self._record(Phase.STOPPED)
        self.folder.unlock()
        # One that had not come as far as its own handler was ended by the signal itself.
        failed = {name: status for name, status in statuses.items() if status not in (0, -signal.SIGTERM)}
        if failed:
            self.say(f"[red]these daemons did not stop cleanly:[/red] {failed}")
        else:
            self.say("all daemons stopped")
        return not failed

    def say(self, text: str) -> None:
        """Print, unless the terminal is gone."""
        with contextlib.suppress(OSError):
            self.console.print(text, soft_wrap=True)

    def examples(self) -> tuple[str, ...]:
        """Queries to try, in SQL, without double quotes."""
        return ("SELECT carrier, COUNT(*) AS n FROM flights GROUP BY carrier ORDER BY n DESC LIMIT 3",)

    # --- steps -----------------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        self.folder.make()
        self.folder.lock()
        is_going_on = ClusterLayout.load(self.folder) is not None
        self._layout = open_layout(self.folder, self._ports, None if is_going_on else NUM_SERVERS, CLUSTER, self.say)
        if is_going_on:
            for text in (f"going on with the data in {self.directory}", *self._layout.warnings(self.folder.path)):
                self.console.print(text, soft_wrap=True, markup=False)
            if self._zk_address is None:  # else its own ZooKeeper's port may be another's by now
                make_room(self.folder, self._layout, self.say)
        with beside(self._find_jars, self.say) as wait_for_jars:
            if not first_are_compiled():
                text = "compiling kernels, once for this CPU"
                self._step(text, lambda: self.cluster.compile_kernels(say=self.say), tells=True)
            wait_for_jars()

    def _find_jars(self, tell: Callable[[str], None]) -> None:
        if self._zk_address is None:
            find_jars(tell)

    def empty_folder(self, name: str) -> Path:
        """A folder for this run's work, without what an earlier run left."""
        folder = self.directory / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    def _record(self, phase: Phase) -> None:
        """For `pinotpy status`, and for who goes on here after a kill."""
        me = ProcessIdentity.of(os.getpid())
        assert me is not None and self._layout is not None
        with contextlib.suppress(OSError):  # told where it matters: by the daemons, which write far more
            record_state(self.folder, self._layout, me, phase, list(self.cluster.daemons.values()))

    def _step(self, text: str, work: Callable[[], Any], *, tells: bool = False) -> None:
        """tells: the work says itself how far it is."""
        start = time.perf_counter()
        with self.console.status(text), nullcontext() if tells else self._pulse(text):
            work()
        self.console.print(f"[green]✓[/green] {text} [dim]({time.perf_counter() - start:.1f} s)[/dim]")

    def _pulse(self, text: str) -> AbstractContextManager[None]:
        """Signs of life in a long step, where no spinner can turn."""
        return nullcontext() if self.console.is_terminal else pulse(lambda s: self.say(f"{text}: {s:.0f} s"))

    def _start_all(self) -> None:
        assert self._layout is not None
        arguments = self._layout.arguments(self.directory, zk_address=self._zk_address)
        if "zookeeper" in arguments:
            zookeeper = self.cluster.start("zookeeper", *arguments.pop("zookeeper"))
            self._zk_address = zookeeper.ready["address"]
        self.cluster.wait_ready(*[self.cluster.launch(name, *given) for name, given in arguments.items()])
        self._record(Phase.SERVING)

    def _restart(self) -> None:
        names = [name for name in self.cluster.daemons if name not in ("zookeeper", "warmup")]
        for name in names:
            self.cluster.daemons[name].ask_to_stop()
        for name in names:
            status = self.cluster.stop(name)
            if status != 0:
                raise RemoteError(
                    f"{name} ended with status {status}; the end of its log:\n{self.cluster.daemons[name].log_tail()}"
                )
        self._restart_began = time.perf_counter()
        self.cluster.wait_ready(*[self.cluster.launch(name, *self.cluster.daemons[name].args) for name in names])
        self._record(Phase.SERVING)

    def _first_answer_s(self, rows: int) -> float:
        """Seconds from the start of the daemons to the first answer over all rows of both replicas' segments."""
        while True:
            elapsed = time.perf_counter() - self._restart_began
            try:
                answer = ask(self.broker_url, FIRST_FULL_QUERY)
                if not answer["exceptions"] and answer["totalDocs"] == rows:
                    return time.perf_counter() - self._restart_began
            except PinotError:
                answer = {}
            if elapsed > FIRST_ANSWER_TIMEOUT_S:
                raise RemoteError(
                    f"no full answer over {rows:,} rows within {FIRST_ANSWER_TIMEOUT_S:g} s; the last one: "
                    f"{str(answer)[:500]}"
                )
            time.sleep(0.02)

    def _ask_samples(self, samples: Sequence[SampleQuery]) -> None:
        for number, sample in enumerate(samples, 1):
            self.console.print(
                f"\n[bold]{number} of {len(samples)}: "
                f"{escape(sample.question)}[/bold]\n[cyan]{escape(sample.text)}[/cyan]"
            )
            answer = ask(self.broker_url, sample.text, sample.dialect)
            print_answer(self.console, answer)
            if answer["exceptions"]:
                raise RemoteError(f"the query failed: {answer['exceptions'][0]}")

    def _print_measurements(self, first_answer_s: float, total_s: float) -> None:
        counted = [name for name in ("zookeeper", "controller", "broker", "server-0") if name in self.cluster.daemons]
        memory = {name: self.cluster.daemons[name].share_mib() for name in counted}
        parts = " + ".join(f"{name} {size:.0f}" for name, size in memory.items())
        self.console.print(
            f"\n[bold]daemons started on loaded data to first full answer:[/bold] {first_answer_s:.1f} s"
        )
        self.console.print(f"[bold]memory of the idle daemons:[/bold] {sum(memory.values()):.0f} MiB ({parts})")
        self.console.print(f"[dim]all steps took {total_s:.1f} s[/dim]\n")
