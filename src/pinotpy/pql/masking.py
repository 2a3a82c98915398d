"""A query text without its literals: what logs may show where values are private.

Every literal becomes `?` (a list of literals becomes `(?)`), comments go, and all else stays as it is written:
keywords, names of tables, columns and functions. Quoted names are names, whatever somebody meant by them.
"""

from __future__ import annotations

from typing import Final

from pinotpy.errors import ParseError
from pinotpy.pql.ast import Dialect
from pinotpy.pql.lexer import END, HEX, INTEGER, LIST, NUMBER, STRING, WORD, QueryText, Token, tokenize

UNREADABLE: Final = "(a text without its literals cannot be shown: it cannot be read)"
CUT: Final = " …"
_LITERALS: Final = frozenset({STRING, INTEGER, NUMBER, HEX})


def masked(text: str, dialect: Dialect) -> str:
    """`text` with `?` for each literal. Of a text that cannot be read to its end, what stands before that place; a
    literal that is not closed there is not shown.
    """
    for candidate, ending in ((text, ""), (_readable_part(text, dialect), CUT)):
        if candidate is None:
            break
        try:
            tokens = tokenize(QueryText(candidate, dialect))
        except ParseError:
            continue
        return _without_literals(candidate, tokens) + ending
    return UNREADABLE


def _readable_part(text: str, dialect: Dialect) -> str | None:
    """What stands before the place where the lexer stops; None if nothing does, or no place is known."""
    try:
        tokenize(QueryText(text, dialect))
    except ParseError as error:
        line, column = error.context.get("line"), error.context.get("column")
        if not isinstance(line, int) or not isinstance(column, int):
            return None
        start = sum(len(one) + 1 for one in text.split("\n")[: line - 1])
        return text[: start + column - 1].rstrip() or None
    return text


def _without_literals(text: str, tokens: list[Token]) -> str:
    pieces: list[str] = []
    position, before = 0, ""
    for token in tokens:
        between = text[position : token.start]
        # A comment may hold a literal, too.
        pieces.append(between if not between.strip() else " ")
        if token.kind == END:
            break
        word = token.value.upper() if token.kind == WORD else ""
        if token.kind in _LITERALS or (word in ("TRUE", "FALSE") and before not in ("IS", "NOT")):
            pieces.append("?")
        elif token.kind == LIST:
            pieces.append("(?)")
        else:
            pieces.append(text[token.start : token.end])
        position, before = token.end, word
    return "".join(pieces).strip()
