"""Proves of the quickstart's parts what needs no cluster: ports are fixed numbers, the kernels count as compiled only
once they were, the command that it prints can be typed again, every sample query compiles against the flights' schema,
and however it is interrupted, it stops its daemons and leaves nothing.
"""

from __future__ import annotations

import io
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import cast

import pytest
import typer
from rich.console import Console

from pinotpy.cli import compiled_kernels, flights_loading, pulse, quickstart
from pinotpy.cli.commands import quickstart as command
from pinotpy.cli.demo_stream import NUM_PARTITIONS, DemoStream
from pinotpy.cli.own_command import own_command
from pinotpy.cli.sample_queries import FIRST_FULL_QUERY, SAMPLES
from pinotpy.cli.steady_producer import SteadyProducer
from pinotpy.cli.supervision.cluster_layout import Ports, choose_port
from pinotpy.client.controller import ControllerClient
from pinotpy.clock import ManualClock
from pinotpy.errors import OutOfCapacityError
from pinotpy.ingest.flights import flights_schema
from pinotpy.kernels import cache
from pinotpy.kernels.compiling import Stage, marker
from pinotpy.pql.parser import parse_pql, parse_sql
from pinotpy.query.compile.statement import compile_query
from pinotpy.query.model.context import QueryOptions
from pinotpy.service.ports import free_port


def test_a_wanted_port_is_taken_literally_zero_means_any_and_none_the_usual_one_if_free() -> None:
    assert choose_port(4711, 9000) == 4711
    assert choose_port(0, 9000) not in (0, 9000)
    usual = free_port()
    assert choose_port(None, usual) == usual
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        usual = taken.getsockname()[1]
        assert choose_port(None, usual) not in (0, usual)


def test_kernels_count_as_compiled_once_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PINOTPY_KERNEL_CACHE", str(tmp_path))
    for name in ("NUMBA_CACHE_DIR", "NUMBA_CACHE_LOCATOR_CLASSES"):
        monkeypatch.setenv(name, "")  # restored at the end: `prepare` sets it
    assert not compiled_kernels.first_are_compiled()
    marker(cache.prepare(), Stage.ALL).touch()
    assert compiled_kernels.first_are_compiled()
    monkeypatch.setattr(compiled_kernels, "byte_code_beside", lambda: nullcontext(lambda: None))
    said = list[str]()
    assert compiled_kernels.compile_first(said.append).parent == tmp_path and not said
    assert compiled_kernels.progress_text(37, 100) == "compiling kernels, once for this CPU: 37 %"
    assert compiled_kernels.progress_text(0, 0) == "compiling kernels, once for this CPU: 0 %"


def test_long_steps_give_signs_of_life_where_no_spinner_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, eventually: Callable[..., float]
) -> None:
    monkeypatch.setattr(quickstart, "pulse", partial(pulse.pulse, every_s=0.01))
    run = quickstart.Quickstart(tmp_path, Ports())
    out = io.StringIO()
    run.console = Console(file=out, width=200)
    run._step("waiting for something", lambda: eventually(lambda: "waiting for something: 0 s" in out.getvalue()))
    run._step("telling by itself", lambda: None, tells=True)
    assert "✓ waiting for something (" in out.getvalue() and "telling by itself: " not in out.getvalue()


def test_imports_among_kernels_have_no_circle() -> None:
    imports = compiled_kernels.cache.imports()
    assert "runtime.abi" in imports["scan.driver"]
    assert not [(name, other) for name, imported in imports.items() for other in imported if name in imports[other]]


def test_the_printed_command_can_be_typed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin" / "pinotpy"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(sys, "argv", [str(program)])
    assert own_command() == "bin/pinotpy"
    monkeypatch.setenv("PATH", str(program.parent))
    assert own_command() == "pinotpy"
    monkeypatch.setattr(sys, "argv", ["/somewhere/pinotpy/__main__.py"])
    assert own_command() == f"{sys.executable} -m pinotpy"


@pytest.mark.parametrize(
    ("text", "dialect"), [(FIRST_FULL_QUERY, "sql"), *((sample.text, sample.dialect) for sample in SAMPLES)]
)
def test_every_sample_query_means_something(text: str, dialect: str) -> None:
    statement = (parse_sql if dialect == "sql" else parse_pql)(text)
    assert compile_query(statement, flights_schema(), QueryOptions(), null_handling=True).table == "flights"


class Faked:
    """Instead of a quickstart: `ending` is what its run comes to."""

    is_complete = False

    def __init__(self, output: io.StringIO, ending: Callable[[], None]) -> None:
        self.console = Console(file=output)
        self.run = ending

    def __call__(self, *_: object, **__: object) -> Faked:
        return self

    def stop(self) -> bool:
        return True

    def say(self, text: str) -> None:
        self.console.print(text)


@pytest.fixture
def handlers() -> Iterator[None]:
    """The signals' handlers, as they were before. A hang-up ends this process, also where the tests run under nohup."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


def wrapped(number: signal.Signals) -> Callable[[], None]:
    def run() -> None:
        try:
            signal.raise_signal(number)
        except Exception as error:
            raise RuntimeError("a class could not be built") from error

    return run


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_that_a_library_wraps_is_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: signal.Signals, handlers: None
) -> None:
    output = io.StringIO()
    monkeypatch.setattr(quickstart, "Quickstart", Faked(output, wrapped(number)))
    with pytest.raises(typer.Exit) as ended:
        command.run(directory=tmp_path)
    assert ended.value.exit_code == 130 and output.getvalue() == "interrupted\n"


def test_a_reader_that_is_gone_ends_it_and_leaves_no_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, handlers: None
) -> None:
    output = io.StringIO()
    monkeypatch.setattr(quickstart, "Quickstart", Faked(output, lambda: sys.exit(1)))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(typer.Exit) as ended:
        command.run()
    assert ended.value.exit_code == 1 and not list(tmp_path.iterdir())


def test_a_quickstart_that_is_meant_to_survive_its_terminal_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, handlers: None
) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    output = io.StringIO()
    monkeypatch.setattr(quickstart, "Quickstart", Faked(output, lambda: signal.raise_signal(signal.SIGHUP)))
    with pytest.raises(typer.Exit) as ended:
        command.run(directory=tmp_path, stop=True)
    assert ended.value.exit_code == 0


def test_a_daemon_that_the_signal_ended_before_its_handler_was_there_stopped_cleanly(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = quickstart.Quickstart(tmp_path, Ports(0, 0, 0))
    for status, is_clean in ((0, True), (-signal.SIGTERM, True), (1, False), (-signal.SIGKILL, False)):
        monkeypatch.setattr(run.cluster, "stop_all", lambda status=status: {"broker": status})
        assert run.stop() is is_clean


def test_nobody_is_told_when_the_terminal_is_gone(tmp_path: Path) -> None:
    run = quickstart.Quickstart(tmp_path, Ports(0, 0, 0))

    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(5, "Input/output error")

    run.console = Console(file=Gone())
    assert run.stop()


def test_an_interrupt_does_not_wait_for_uploads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    uploading, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    class Slow:
        def segments(self, table: str) -> dict[str, list[str]]:
            return {}

        def upload_segment(self, archive: Path, table: str) -> None:
            uploading.set()
            go_on.wait(120)
            ended.set()

    def months() -> Iterator[tuple[int, list[object]]]:
        yield 1, []
        assert uploading.wait(60)
        raise InterruptedError

    monkeypatch.setattr("pinotpy.ingest.flights.flights_by_month", months)
    monkeypatch.setattr("pinotpy.segment.build.builder.build_segment", lambda *_, **__: None)
    monkeypatch.setattr("pinotpy.segment.archive.archive.pack_segment", lambda *_: None)
    try:
        with pytest.raises(InterruptedError):
            flights_loading.build_and_upload_flights(
                cast(ControllerClient, Slow()), tmp_path, Console(file=io.StringIO())
            )
        assert not ended.is_set()
    finally:
        go_on.set()


@pytest.mark.parametrize(
    ("keeps_data", "said"),
    [
        (False, "Ctrl-C stops everything and removes the data"),
        (True, "Ctrl-C stops everything; the data stay in {folder}. The same command goes on with them"),
    ],
)
def test_the_banner_says_what_becomes_of_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keeps_data: bool, said: str
) -> None:
    run = quickstart.Quickstart(tmp_path, Ports(0, 0, 0), keeps_data=keeps_data)
    run.console = Console(file=io.StringIO())
    monkeypatch.setattr(quickstart.Quickstart, "controller_url", "http://127.0.0.1:1")
    monkeypatch.setattr(quickstart.Quickstart, "broker_url", "http://127.0.0.1:2")
    run.print_addresses()
    told = run.console.file.getvalue()  # type: ignore[attr-defined]
    assert said.format(folder=tmp_path) in told
    for query in run.examples():
        assert f'http://127.0.0.1:2/query/sql -d \'{{"sql": "{query}"}}\'' in told
        compile_query(parse_sql(query), flights_schema(), QueryOptions(), null_handling=True)


def test_a_quickstart_of_which_another_process_holds_the_folder_changes_nothing(tmp_path: Path) -> None:
    run = quickstart.Quickstart(tmp_path / "data", Ports(0, 0, 0))
    run.console = Console(file=io.StringIO())
    run.folder.make()
    run.folder.lock()
    try:
        second = quickstart.Quickstart(tmp_path / "data", Ports(0, 0, 0))
        second.console = run.console
        with pytest.raises(OutOfCapacityError, match="is held by process"):
            second.run()
        assert second.stop() and run.folder.is_locked()
        assert sorted(entry.name for entry in (tmp_path / "data").iterdir()) == ["VERSION", "lock", "logs"]
    finally:
        assert run.stop()


def test_records_of_a_stream_go_on_behind_those_that_are_there(tmp_path: Path) -> None:
    def write(count: int) -> list[int]:
        numbers: list[int] = []

        def record(number: int, now_ms: int) -> dict[str, int]:
            numbers.append(number)
            return {"number": number}

        stream = DemoStream("", tmp_path)
        producer = stream.producer("topic")
        records = SteadyProducer(
            producer, record, NUM_PARTITIONS, rate=1, first=stream.num_records(producer), clock=ManualClock()
        )
        records.append(count)
        records.close()
        return numbers

    assert [write(2), write(3), write(1)] == [[0, 1, 2, 3], [4, 5, 6, 7, 8, 9], [10, 11]]
