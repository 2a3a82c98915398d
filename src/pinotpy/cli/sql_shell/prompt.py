"""The prompt, by prompt_toolkit: the only file that knows it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, ThreadedCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.filters import completion_is_selected
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import create_output

from pinotpy import __version__
from pinotpy.cli.sql_shell.backslash_commands import COMMANDS, Quit, run_command, values_of
from pinotpy.cli.sql_shell.completion import candidates, word_before
from pinotpy.cli.sql_shell.session import Session
from pinotpy.cli.sql_shell.statements import is_complete, pieces_of


def history_file() -> Path:
    """In the user's state folder: $XDG_STATE_HOME/pinotpy, or ~/.local/state/pinotpy."""
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "pinotpy" / "sql_history"


def run_prompt(session: Session, *, terminal_input: Any = None, terminal_output: Any = None) -> None:
    """Ask for statements and run them until `\\q` or Ctrl-D.

    Args:
        terminal_input, terminal_output: prompt_toolkit's, instead of this process's terminal.
    """
    session.is_interactive = True
    history = _history(session)
    typed: PromptSession[str] = PromptSession(
        history=history,
        completer=ThreadedCompleter(_Completer(session)),
        complete_while_typing=False,
        multiline=True,
        prompt_continuation=lambda width, line, wrapped: "-> ".rjust(width),
        key_bindings=_bindings(),
        input=terminal_input,
        output=terminal_output or create_output(always_prefer_tty=True),
    )
    session.tell(f"pinotpy {__version__}, broker {session.broker_url}. \\? helps, \\q leaves.")
    while True:
        try:
            text = typed.prompt(f"{session.dialect}> ")
        except KeyboardInterrupt:
            continue  # what was typed is discarded
        except EOFError:
            return
        if session.catalogue.fault:
            session.tell(f"note: {session.catalogue.fault}")
            session.catalogue.fault = ""
        try:
            for piece in pieces_of(text)[0]:
                is_well = run_command(session, piece.text) if piece.is_command else session.run(piece.text)
                if not is_well:
                    break  # what follows may build on it
        except Quit:
            return
        except KeyboardInterrupt:
            continue


def _history(session: Session) -> History:
    path = history_file()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Statements may hold what others should not read.
        os.close(os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600))
        path.chmod(0o600)
    except OSError as error:
        session.tell(f"note: the history is not kept: {(error.strerror or str(error)).lower()} '{path}'")
        return InMemoryHistory()
    return FileHistory(str(path))


def _bindings() -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add("enter", filter=~completion_is_selected)
    def enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if is_complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    @bindings.add("enter", filter=completion_is_selected)
    def take(event: KeyPressEvent) -> None:
        event.current_buffer.complete_state = None

    return bindings


class _Completer(Completer):  # type: ignore[misc]  # without the library its types are Any
    def __init__(self, session: Session) -> None:
        self._session = session

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        before = document.text_before_cursor
        start = -len(word_before(before))
        session = self._session
        for found in candidates(
            before, document.text_after_cursor, session.catalogue, COMMANDS, values_of, session.dialect
        ):
            yield Completion(found.text, start, display_meta=found.kind)
