"""Asks before something is deleted."""

from __future__ import annotations

import sys

from pinotpy.errors import UserError


def confirm(what: str, *, yes: bool) -> None:
    """Go on only if the user says so: by --yes, or on the terminal.

    Args:
        what: the deed, as a sentence without its full stop: "delete schema 't'".

    Raises:
        UserError: the answer is no, or there is no terminal to ask on.
    """
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UserError(f"{what}? There is no terminal to ask on: add --yes to do it")
    print(f"{what}? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UserError("nothing was deleted")
