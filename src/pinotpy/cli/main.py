"""`pinotpy <command>`: finds the commands, turns errors into one clear sentence and an exit status.

Exit status: 0 done, 1 failed, 2 wrong usage. Commands import what they need when they run, so that `--help` is quick.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from typing import Annotated

import typer

from pinotpy import __version__
from pinotpy.cli import commands
from pinotpy.errors import PinotError
from pinotpy.service.arrow_memory import take_arrow_memory_from_c_library
from pinotpy.service.lean_imports import keep_imports_lean

app = typer.Typer(
    name="pinotpy",
    help="A distributed OLAP store: run a cluster, load data, run queries.",
    no_args_is_help=True,
    add_completion=True,  # of bash, zsh, fish and PowerShell, by --install-completion
    pretty_exceptions_enable=False,
)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"pinotpy {__version__}")
        raise typer.Exit


@app.callback()
def _global(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="print the version and exit")
    ] = False,
) -> None:
    """Options before the command."""


def _register() -> None:
    if app.registered_commands:
        return
    for info in sorted(pkgutil.iter_modules(commands.__path__), key=lambda i: i.name):
        module = importlib.import_module(f"{commands.__name__}.{info.name}")
        group, _, name = module.NAME.rpartition(" ")
        (_group(group) if group else app).command(name, help=module.__doc__)(module.run)


def _group(name: str) -> typer.Typer:
    """The group of commands that are called `pinotpy <name> <command>`."""
    for known in app.registered_groups:
        if known.name == name and known.typer_instance is not None:
            return known.typer_instance
    group = typer.Typer(name=name, help=commands.GROUPS[name], no_args_is_help=True, pretty_exceptions_enable=False)
    app.add_typer(group, name=name)
    return group


def main(arguments: list[str] | None = None) -> None:
    """Entry point of the `pinotpy` executable; `arguments` instead of the process's own. Ends with SystemExit."""
    take_arrow_memory_from_c_library()
    if arguments is None and sys.argv[1:2] == ["load"]:
        # Jobs may run plug-ins that want pandas, load has none.
        keep_imports_lean()
    try:
        _register()
        app(arguments)
    except PinotError as error:
        print(f"pinotpy: {error.message}", file=sys.stderr)
        sys.exit(1)
    except OSError as error:
        # A folder that cannot be written, a full disk: the caller's world, not our bug.
        where = f" '{error.filename}'" if error.filename else ""
        print(f"pinotpy: {(error.strerror or str(error)).lower()}{where}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("pinotpy: interrupted", file=sys.stderr)
        sys.exit(130)
