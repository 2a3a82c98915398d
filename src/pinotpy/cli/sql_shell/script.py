"""Runs the statements of a text: of the command line, a file or standard input."""

from __future__ import annotations

from pinotpy.cli.sql_shell.backslash_commands import Quit, run_command
from pinotpy.cli.sql_shell.session import Session
from pinotpy.cli.sql_shell.statements import script_pieces
from pinotpy.errors import UserError


def run_script(session: Session, text: str, name: str) -> bool:
    """Run one after the other up to the first that fails; whether all went well.

    Args:
        name: of the text in messages: "script.sql".

    Raises:
        UserError: there is no statement.
    """
    pieces = script_pieces(text)
    if not pieces:
        raise UserError(f"{name} has no statement")
    for number, piece in enumerate(pieces, 1):
        try:
            is_well = run_command(session, piece.text) if piece.is_command else session.run(piece.text)
        except Quit:
            return True
        if not is_well:
            if len(pieces) > 1:
                left = len(pieces) - number
                session.tell(
                    f"statement {number} of {len(pieces)}, in line {piece.line} of {name}, failed"
                    f"{f'; the {left} after it were not run' if left else ''}"
                )
            return False
    return True
