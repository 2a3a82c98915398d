"""Splits what is typed into statements, which end with `;`, and backslash commands, which are a line each."""

from __future__ import annotations

import re
from dataclasses import dataclass

# Quoted parts and comments as wholes, so that a `;` in one ends nothing. Only single classes are possessive: see
# pql/lexer.py.
_PIECE = re.compile(
    r"""'[^']*+'|"[^"]*+"|`[^`]*+`|--[^\n]*+|/\*.*?\*/|;|[^'"`;/-]++|.""",
    re.DOTALL,
)
_NOTHING = re.compile(r"(?:\s|;|--[^\n]*+(?:\n|$)|/\*.*?\*/)*", re.DOTALL)
_SET = re.compile(r"set\b", re.IGNORECASE)
_OPENING = ("'", '"', "`")


@dataclass(frozen=True, slots=True)
class Piece:
    """A statement without its `;`, with the SETs before it, or a backslash command; `line`: where it begins, from 1."""

    text: str
    line: int

    @property
    def is_command(self) -> bool:
        return self.text.startswith("\\")


def pieces_of(text: str) -> tuple[list[Piece], str]:
    """What is complete in a text, and the rest, which goes on: a statement without `;`, "" if there is none. SET is of
    the statement behind it: brokers read both at once.

    A backslash command is one where a statement could begin.
    """
    pieces: list[Piece] = []
    start = 0
    while True:
        start = _skipped(text, start)
        line = text.count("\n", 0, start) + 1
        if text.startswith("\\", start):
            line_end = text.find("\n", start)
            line_end = len(text) if line_end < 0 else line_end
            pieces.append(Piece(text[start:line_end].strip(), line))
            start = line_end
            continue
        first, end = start, _end_of_statement(text, start)
        while end is not None and _SET.match(text, first):
            behind = _skipped(text, end + 1)
            if text.startswith("\\", behind):
                break
            first, end = behind, _end_of_statement(text, behind)
        if end is None:
            return pieces, text[start:]
        pieces.append(Piece(text[start:end].rstrip(), line))
        start = end + 1


def script_pieces(text: str) -> list[Piece]:
    """All of a script: what stands behind the last `;` is a statement, too."""
    pieces, rest = pieces_of(text)
    if rest:
        pieces.append(Piece(rest.rstrip(), text.count("\n", 0, len(text) - len(rest)) + 1))
    return pieces


def is_complete(text: str) -> bool:
    """Whether Enter runs what is typed rather than begins a new line."""
    return not pieces_of(text)[1]


def is_inside_quotes(text: str) -> bool:
    """Whether a text ends within a string, a quoted name or a comment."""
    at = 0
    while at < len(text):
        match = _PIECE.match(text, at)
        assert match is not None
        piece, at = match.group(), match.end()
        if piece in _OPENING or (piece == "/" and text.startswith("*", at)):
            return True
        if piece.startswith("--") and at == len(text):
            return True
    return False


def _skipped(text: str, start: int) -> int:
    match = _NOTHING.match(text, start)
    assert match is not None
    return match.end()


def _end_of_statement(text: str, start: int) -> int | None:
    """Where its `;` stands."""
    at = start
    while at < len(text):
        match = _PIECE.match(text, at)
        assert match is not None
        piece = match.group()
        if piece == ";":
            return at
        if piece in _OPENING or (piece == "/" and text.startswith("/*", at)):
            return None  # it is not closed
        at = match.end()
    return None
