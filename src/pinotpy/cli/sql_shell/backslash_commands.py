"""Backslash commands: settings of the session, and what tables there are."""

from __future__ import annotations

import io
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches

from pinotpy.cli.sql_shell.formats import HELP, Format
from pinotpy.cli.sql_shell.session import Session, output_file
from pinotpy.errors import NotFoundError, PinotError, UserError


class Quit(Exception):
    """`\\q`."""


@dataclass(frozen=True, slots=True)
class Command:
    """usage: as help shows it. run: gets the session and what stands behind the name. values: what may stand there."""

    usage: str
    help: str
    run: Callable[[Session, str], None]
    values: tuple[str, ...] = ()


def run_command(session: Session, text: str) -> bool:
    """Do what a line such as `\\d flights` says; whether it could be done. Raises Quit."""
    name, _, rest = text.partition(" ")
    command = COMMANDS.get(name)
    try:
        if command is None:
            near = get_close_matches(name, COMMANDS, n=1)
            raise UserError(f"there is no {name}{f', did you mean {near[0]}' if near else ''}? \\? lists the commands")
        command.run(session, rest.strip().removesuffix(";").rstrip())
    except PinotError as error:
        session.tell(f"error: {error.message}")
        return False
    return True


def values_of(name: str) -> tuple[str, ...]:
    """The words that a command takes, for completion."""
    command = COMMANDS.get(name)
    return command.values if command is not None else ()


def _describe(session: Session, table: str) -> None:
    if not table:
        tables = session.catalogue.tables()
        session.catalogue.forget()  # whoever looks wants to complete what is new, too
        _print_table(session, ["table"], [[name] for name in tables], "no tables")
        return
    name = _one_word("\\d", table).strip('"`')
    try:
        columns = session.catalogue.columns(name)
    except NotFoundError:
        near = get_close_matches(name, session.catalogue.tables(), n=1)
        raise NotFoundError(f"there is no table '{name}'{f', did you mean {near[0]}?' if near else ''}") from None
    _print_table(session, ["column", "type", "field"], [list(column) for column in columns], "no columns")


def _print_table(session: Session, names: list[str], rows: list[list[str]], empty: str) -> None:
    from rich.console import Console

    from pinotpy.cli.showing import add_texts, plain_table

    if not rows:
        session.show(empty + "\n")
        return
    table = plain_table(*names)
    add_texts(table, rows)
    text = io.StringIO()
    Console(file=text, width=200).print(table)
    session.show(text.getvalue())


def _timing(session: Session, value: str) -> None:
    switch = {"": not session.timing, "on": True, "off": False}.get(value.lower())
    if switch is None:
        raise UserError(f"\\timing takes on, off or nothing, found '{value}'")
    session.timing = switch
    session.tell(f"timing is {'on' if switch else 'off'}")


def _format(session: Session, value: str) -> None:
    if not value:
        session.tell(f"the format is {session.form}; there are {', '.join(Format)}")
        return
    session.form = format_named(value)
    session.tell(f"the format is {session.form}: {HELP[session.form]}")


def format_named(value: str) -> Format:
    """UserError names those that there are."""
    try:
        return Format(value.lower())
    except ValueError:
        raise UserError(f"the format is one of {', '.join(Format)}, found '{value}'") from None


def _output(session: Session, value: str) -> None:
    session.output = output_file(_one_word("\\o", value)) if value else None
    session.tell(
        f"the next answer goes to {session.output}" if session.output is not None else "answers are printed here"
    )


def _dialect(dialect: str) -> Callable[[Session, str], None]:
    def switch(session: Session, value: str) -> None:
        session.dialect = dialect
        session.tell(f"statements are {dialect.upper()}")

    return switch


def _help(session: Session, value: str) -> None:
    width = max(len(command.usage) for command in COMMANDS.values())
    lines = [f"{command.usage:<{width}}  {command.help}" for command in dict.fromkeys(COMMANDS.values())]
    lines += [
        "",
        "A statement may have several lines and ends with ; and Enter. Tab completes, the arrows go through the",
        "history, Ctrl-C ends a running query or discards what is typed, Ctrl-D leaves.",
    ]
    session.show("\n".join(lines) + "\n")


def _quit(session: Session, value: str) -> None:
    raise Quit


def _one_word(name: str, value: str) -> str:
    try:
        words = shlex.split(value)
    except ValueError as error:
        raise UserError(f"{name}: {str(error).lower()} in {value}") from None
    if len(words) != 1:
        raise UserError(f"{name} takes one name, found '{value}'")
    return words[0]


_HELP = Command("\\?, \\help", "this list", _help)
COMMANDS = {
    "\\d": Command("\\d [TABLE]", "the tables, or the columns of one", _describe),
    "\\format": Command(f"\\format {'|'.join(Format)}", "how answers are shown", _format, tuple(Format)),
    "\\o": Command(
        "\\o [FILE]", "the next answer goes to a file: .csv, .parquet, .arrow, .json, .jsonl, .txt", _output
    ),
    "\\pql": Command("\\pql", "statements are PQL", _dialect("pql")),
    "\\q": Command("\\q", "leave", _quit),
    "\\sql": Command("\\sql", "statements are SQL", _dialect("sql")),
    "\\timing": Command("\\timing [on|off]", "show how long statements take", _timing, ("on", "off")),
    "\\?": _HELP,
    "\\help": _HELP,
}
