"""What stands on the screen when a cluster is up: where it is, what becomes of its data, what to do next."""

from __future__ import annotations

import shlex

from rich.console import Console
from rich.markup import escape
from rich.panel import Panel

from pinotpy.cli.options import DEFAULT_BROKER, DEFAULT_CONTROLLER
from pinotpy.cli.own_command import own_command
from pinotpy.cli.supervision.data_folder import DataFolder, default_folder
from pinotpy.cli.supervision.state_file import ClusterState


def print_banner(
    console: Console, folder: DataFolder, state: ClusterState, tables: list[str] | None, *, is_detached: bool
) -> None:
    """`tables`: names of those that are there; None: nobody knows. Commands stand outside the frame and unwrapped, to
    be copied.
    """
    controller, broker = state.daemons["controller"].url, state.daemons["broker"].url
    places = (
        f"query page   {controller}/query\nREST, docs   {controller}/docs\nbroker       {broker}/query/sql\n"
        f"data, logs   {folder.path}"
    )
    console.print(Panel.fit(escape(places), title="the cluster is up"), soft_wrap=True)
    for warning in state.warnings:
        console.print(f"[yellow]{escape(warning)}[/yellow]", soft_wrap=True)
    command, where = own_command(), data_dir_option(folder)
    if is_detached:
        console.print(
            f"It runs in the background (process {state.supervisor.pid}). The data stay when it stops; to look, to "
            "stop, and to go on later:",
            soft_wrap=True,
        )
        following = [f"{command} status{where}", f"{command} down{where}", f"{command} up{where} --detach"]
    else:
        console.print("Ctrl-C stops the daemons. The data stay; to go on with them later:", soft_wrap=True)
        following = [f"{command} up{where}"]
    _print_commands(console, following)
    console.print("To remove all of it for ever, once it has stopped:")
    _print_commands(console, [f"rm -r {shlex.quote(str(folder.path))}"])
    if tables is None:
        console.print("Which tables it has could not be asked: the controller did not answer. To see them:")
        option = "" if controller == DEFAULT_CONTROLLER else f" --controller-url {controller}"
        _print_commands(console, [f"{command} list-tables{option}"])
    elif tables:
        console.print(f"Its tables: {', '.join(tables)}. A first query:")
        option = "" if broker == DEFAULT_BROKER else f" --broker-url {broker}"
        _print_commands(console, [f'{command} post-query{option} --query "SELECT COUNT(*) FROM {tables[0]}"'])
    else:
        console.print("It has no tables yet. To make one of a file (CSV, JSON, Parquet, Avro, ORC):")
        option = "" if controller == DEFAULT_CONTROLLER else f" --controller-url {controller}"
        _print_commands(console, [f"{command} load{option} FILE"])


def data_dir_option(folder: DataFolder) -> str:
    """As it is typed; empty for the folder that is meant without it."""
    return "" if folder.path == default_folder() else f" --data-dir {shlex.quote(str(folder.path))}"


def _print_commands(console: Console, commands: list[str]) -> None:
    for command in commands:
        console.print(f"  [cyan]{escape(command)}[/cyan]", soft_wrap=True)
