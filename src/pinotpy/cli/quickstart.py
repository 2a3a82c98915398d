"""The quickstart: real daemons, real flights, a dozen questions, and two measurements, told step by step.

Steps: start ZooKeeper, controller, broker and two servers; create schema and table; build a segment a month and upload
it; wait until every replica is ONLINE; start the daemons again on the loaded data (how long until the first full
answer?); ask the sample queries; read the memory of the idle daemons.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.panel import Panel

from pinotpy.cli.asking import ask
from pinotpy.cli.compiled_kernels import are_compiled
from pinotpy.cli.flights_loading import build_and_upload_flights, create_flights_table
from pinotpy.cli.local_cluster import LocalCluster
from pinotpy.cli.result_table import print_answer
from pinotpy.cli.sample_queries import FIRST_FULL_QUERY, SAMPLES, SampleQuery
from pinotpy.client.controller import ControllerClient
from pinotpy.errors import PinotError, RemoteError
from pinotpy.service.ports import free_port, is_free

CLUSTER = "QuickStartCluster"
# Of the machine's memory; a server's is divided by the number of servers. The rest is the system's, ZooKeeper's, and
# that of the files which servers map.
MEMORY_SHARES = {"controller": 0.05, "broker": 0.2, "servers": 0.5}
COMPILE_TIMEOUT_S = 600.0
FIRST_ANSWER_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Ports:
    """Ports that the user asked for; None = the usual one if it is free, else any free one; 0 = any free one."""

    zookeeper: int | None = None
    controller: int | None = None
    broker: int | None = None

    @property
    def are_named(self) -> bool:
        """Whether the user asked for any."""
        return (self.zookeeper, self.controller, self.broker) != (None, None, None)


def _port(requested: int | None, usual: int) -> int:
    """A number rather than 0 in any case: daemons that start again must be the same instances."""
    if requested is not None:
        return requested or free_port()
    return usual if is_free(usual) else free_port()


def _own_command() -> str:
    """How this program was called, as it can be typed again: `.venv/bin/pinotpy`."""
    called = Path(sys.argv[0])
    if called.name != "pinotpy":
        return f"{sys.executable} -m pinotpy"
    shortest = min(str(called), os.path.relpath(called), key=len)
    return called.name if shutil.which("pinotpy") == str(called) else shortest


def memory_shares(num_servers: int) -> dict[str, float]:
    """Daemon → its share of this machine's memory."""
    shares = {name: MEMORY_SHARES[name] for name in ("controller", "broker")}
    return shares | {f"server-{number}": MEMORY_SHARES["servers"] / num_servers for number in range(num_servers)}


class Quickstart:
    """One run; `stop` must be called at its end. `as_json`: what it tells goes to standard error."""

    def __init__(self, directory: Path, ports: Ports, zk_address: str | None = None, *, as_json: bool = False) -> None:
        self.console = Console(highlight=False, stderr=as_json)
        self.cluster = LocalCluster(directory / "logs")
        self.directory = directory
        self._zk_address = zk_address
        self._zk_port = _port(ports.zookeeper, 2181)
        self._controller_port = _port(ports.controller, 9000)
        self._broker_port = _port(ports.broker, 8099)
        self._restart_began = 0.0
        self.is_complete = False
        # Who names ports runs something beside it, or several of these: its servers leave the usual ports alone.
        first = (free_port(), free_port()) if ports.are_named else (_port(None, 8098), _port(None, 8097))
        self._server_ports = [first, (free_port(), free_port())]

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
            self._step("creating schema and table flights", lambda: create_flights_table(client))
            rows = build_and_upload_flights(client, self.directory / "built", self.console)
        self._step("starting the daemons again on the loaded data", self._restart)
        first_answer_s = self._first_answer_s(rows)
        self._ask_samples(SAMPLES)
        self._print_measurements(first_answer_s, time.perf_counter() - started)
        self.is_complete = True

    def addresses(self) -> dict[str, str]:
        """Where everything is."""
        assert self._zk_address is not None
        return {
            "controllerUrl": self.controller_url,
            "brokerUrl": self.broker_url,
            "zkAddress": self._zk_address,
            "clusterName": CLUSTER,
            "logs": str(self.cluster.directory),
        }

    def print_addresses(self) -> None:
        """Where everything is, and what to try. Examples are outside the frame and unwrapped, to be copied."""
        places = (
            f"query page   {self.controller_url}/query\nREST, docs   {self.controller_url}/docs\nbroker       "
            f"{self.broker_url}/query"
        )
        self.console.print(Panel.fit(f"{places}\nlogs         {self.cluster.directory}", title="the cluster is up"))
        for query in self.examples():
            for example in (
                f"""curl -s {self.broker_url}/query -d '{{"pql": "{query}"}}'""",
                f'{_own_command()} post-query --broker-url {self.broker_url} --query "{query}"',
            ):
                self.console.print(f"  [cyan]{escape(example)}[/cyan]", soft_wrap=True)
        self.console.print("Ctrl-C stops everything")

    def stop(self) -> bool:
        """Stop all daemons; return whether all exited cleanly."""
        statuses = self.cluster.stop_all()
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
        """Queries to try, in the dialect of `post-query`."""
        return ("SELECT COUNT(*) FROM flights GROUP BY carrier TOP 3",)

    # --- steps -----------------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        if not are_compiled():
            self._step("compiling the kernels, once after an installation or a change", self._compile_kernels)

    def _step(self, text: str, work: Callable[[], Any]) -> None:
        start = time.perf_counter()
        with self.console.status(text):
            work()
        self.console.print(f"[green]✓[/green] {text} [dim]({time.perf_counter() - start:.1f} s)[/dim]")

    def _compile_kernels(self) -> None:
        # In a process of its own and before the daemons: two servers that compile at once would take twice as long.
        warmup = self.cluster.launch("warmup", "warmup")
        try:
            status = warmup.process.wait(COMPILE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise RemoteError(
                f"the kernels were not compiled within {COMPILE_TIMEOUT_S:g} s; the end of the "
                f"log:\n{warmup.log_tail()}"
            ) from None
        if status != 0:
            raise RemoteError(
                f"the kernels cannot be compiled (status {status}); the end of the log:\n{warmup.log_tail()}"
            )

    def _start_all(self) -> None:
        if self._zk_address is None:
            zookeeper = self.cluster.start(
                "zookeeper",
                "start-zookeeper",
                "--zk-port",
                str(self._zk_port),
                "--data-dir",
                str(self.directory / "zookeeper"),
            )
            self._zk_address = zookeeper.ready["address"]
        common = ("--zk-address", self._zk_address, "--cluster-name", CLUSTER)
        launch = self.cluster.launch
        shares = {
            name: ("--memory-share", str(share)) for name, share in memory_shares(len(self._server_ports)).items()
        }
        daemons = [
            launch(
                "controller",
                "start-controller",
                *common,
                "--controller-port",
                str(self._controller_port),
                "--data-dir",
                str(self.directory / "controller"),
                *shares["controller"],
            ),
            launch("broker", "start-broker", *common, "--broker-port", str(self._broker_port), *shares["broker"]),
        ]
        for number, (port, admin_port) in enumerate(self._server_ports):
            folder = self.directory / f"server-{number}"
            places = ("--data-dir", str(folder / "index"), "--segment-dir", str(folder / "segments"))
            ports = ("--server-port", str(port), "--server-admin-port", str(admin_port))
            daemons.append(
                launch(f"server-{number}", "start-server", *common, *ports, *places, *shares[f"server-{number}"])
            )
        self.cluster.wait_ready(*daemons)

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
        memory = {name: self.cluster.daemons[name].rss_mib() for name in counted}
        parts = " + ".join(f"{name} {size:.0f}" for name, size in memory.items())
        self.console.print(
            f"\n[bold]daemons started on loaded data to first full answer:[/bold] {first_answer_s:.1f} s"
        )
        self.console.print(f"[bold]memory of the idle daemons:[/bold] {sum(memory.values()):.0f} MiB ({parts})")
        self.console.print(f"[dim]all steps took {total_s:.1f} s[/dim]\n")
