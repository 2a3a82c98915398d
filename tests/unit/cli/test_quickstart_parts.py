"""Proves of the quickstart's parts what needs no cluster: ports are fixed numbers, the kernels count as compiled only once they were,
the command that it prints can be typed again, and every sample query compiles against the flights' schema."""

from __future__ import annotations

import io
import signal
import socket
import sys
from pathlib import Path

import pytest
import typer
from rich.console import Console

from pinotpy.cli import compiled_kernels, quickstart
from pinotpy.cli.commands import quickstart as command
from pinotpy.cli.sample_queries import FIRST_FULL_QUERY, SAMPLES
from pinotpy.ingest.flights import flights_schema
from pinotpy.pql.parser import parse_pql, parse_sql
from pinotpy.query.compile import compile_query
from pinotpy.query.context import QueryOptions
from pinotpy.service.ports import free_port


def test_a_wanted_port_is_taken_literally_zero_means_any_and_none_the_usual_one_if_free() -> None:
    assert quickstart._port(4711, 9000) == 4711
    assert quickstart._port(0, 9000) not in (0, 9000)
    usual = free_port()
    assert quickstart._port(None, usual) == usual
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        usual = taken.getsockname()[1]
        assert quickstart._port(None, usual) not in (0, usual)


def test_kernels_count_as_compiled_once_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PINOTPY_KERNEL_CACHE", str(tmp_path))
    for name in ("NUMBA_CACHE_DIR", "NUMBA_CACHE_LOCATOR_CLASSES"):
        monkeypatch.setenv(name, "")  # restored at the end: `prepare` sets it
    assert not compiled_kernels.are_compiled()
    monkeypatch.setattr("pinotpy.query.execute.warm", lambda: None)
    monkeypatch.setattr(compiled_kernels, "_import_all", lambda processes: None)
    folder = compiled_kernels.compile_all()
    assert folder.parent == tmp_path and compiled_kernels.are_compiled()
    # Equal code elsewhere has byte code of its own.
    monkeypatch.setattr(compiled_kernels.pinotpy, "__file__", str(tmp_path / "pinotpy" / "__init__.py"))
    assert not compiled_kernels.are_compiled()


def test_a_module_is_compiled_after_all_that_it_imports_and_what_others_wait_for_goes_first() -> None:
    waiting = {"alone": set[str](), "groups": {"abi", "memory"}, "memory": {"abi"}, "abi": set[str]()}
    done = set[str]()
    assert compiled_kernels.take_ready(waiting, done) == "abi"
    assert compiled_kernels.take_ready(waiting, done) == "alone"
    assert compiled_kernels.take_ready(waiting, done) is None
    done.add("abi")
    assert compiled_kernels.take_ready(waiting, done) == "memory"
    done |= {"alone", "memory"}
    assert (compiled_kernels.take_ready(waiting, done), waiting) == ("groups", {})


def test_imports_among_kernels_have_no_circle() -> None:
    imports = compiled_kernels.cache.imports()
    assert "abi" in imports["driver"]
    assert not [(name, other) for name, imported in imports.items() for other in imported if name in imports[other]]


def test_the_printed_command_can_be_typed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin" / "pinotpy"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(sys, "argv", [str(program)])
    assert quickstart._own_command() == "bin/pinotpy"
    monkeypatch.setenv("PATH", str(program.parent))
    assert quickstart._own_command() == "pinotpy"
    monkeypatch.setattr(sys, "argv", ["/somewhere/pinotpy/__main__.py"])
    assert quickstart._own_command() == f"{sys.executable} -m pinotpy"


@pytest.mark.parametrize(("text", "dialect"), [(FIRST_FULL_QUERY, "pql"), *((sample.text, sample.dialect) for sample in SAMPLES)])
def test_every_sample_query_means_something(text: str, dialect: str) -> None:
    statement = (parse_sql if dialect == "sql" else parse_pql)(text)
    assert compile_query(statement, flights_schema(), QueryOptions(), null_handling=True).table == "flights"


def test_an_interrupt_that_a_library_wraps_is_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    output = io.StringIO()

    class Interrupted:
        console = Console(file=output)
        is_complete = False

        def __init__(self, *_: object) -> None: ...

        def run(self) -> None:
            try:
                signal.raise_signal(signal.SIGINT)
            except Exception as error:
                raise RuntimeError("a class could not be built") from error

        def stop(self) -> bool:
            return True

    monkeypatch.setattr(quickstart, "Quickstart", Interrupted)
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with pytest.raises(typer.Exit) as ended:
            command.run(directory=tmp_path)
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
    assert ended.value.exit_code == 130 and output.getvalue() == "interrupted\n"
