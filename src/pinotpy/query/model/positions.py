"""Where in the text of a query something stands, as messages say it."""

from __future__ import annotations

from typing import Final

from pinotpy.errors import PinotError
from pinotpy.pql.ast import Position

_NOWHERE: Final = Position()


def position_text(position: Position) -> str:
    """` at line 1, column 5`, as all messages end; nothing for what stands nowhere: servers read no text."""
    return "" if position == _NOWHERE else f" at line {position.line}, column {position.column}"


def at_position(error: PinotError, position: Position) -> PinotError:
    """The error with the position in its message, unless that says one."""
    where = position_text(position)
    return error if not where or " at line " in error.message else type(error)(error.message + where, **error.context)
