"""The shape of a query text: the text with its literals taken out. Texts of one shape parse alike.

Two texts of equal `parts` and equal kinds of literals give the same tokens but for the values of those literals, given
that the lexer sees a literal where one was cut out of one of them: before a literal the texts are equal, a literal ends
where the lexer ends it (same expressions; a number is followed by nothing that could belong to it), and what follows is
equal again. Whatever is not surely a literal stays in the shape, which costs nothing but hits.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from pinotpy.pql.ast import Dialect, Position
from pinotpy.pql.lexer import BEYOND_ASCII
from pinotpy.pql.literals import decimal_literal, is_beyond

SHAPE_CHARACTERS_MAX: Final = 8 << 10
LITERALS_MAX: Final = 24
# Longer numbers may be refused, or cut, for their size.
NUMBER_CHARACTERS_MAX: Final = 18

_NOWHERE: Final = Position()
# Not within a word (PQL's may hold hyphens) or a number, and not running into one.
_WORD = rf"A-Za-z0-9_${BEYOND_ASCII}"
_NUMBER = rf"(?<![{_WORD}.])(?<![{_WORD}]-)(?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?![{_WORD}.`])"
_PQL = re.compile(rf"('[^']*+(?:''[^']*+)*'|\"[^\"]*+(?:\"\"[^\"]*+)*\"|`[^`]*+`|{_NUMBER})")
_SQL = re.compile(rf"('[^']*+(?:''[^']*+)*'|\"[^\"]*+(?:\"\"[^\"]*+)*\"|`[^`]*+`|{_NUMBER})")
_DIGITS = frozenset("0123456789")


class Shape(NamedTuple):
    """`parts`: alternately text between literals and the kind of a literal: "s" string, "i" whole number, "n" number
    with a point; quoted names stay as they are. `literals`: the literals as written, in order; `places`: where in
    `parts` each stood.
    """

    parts: tuple[str, ...]
    literals: list[str]
    places: list[int]


def shape_of(text: str, dialect: Dialect) -> Shape | None:
    """The shape of a text; None if it is too long, has too many literals, comments, U&'…', or nothing to take out."""
    if len(text) > SHAPE_CHARACTERS_MAX or "--" in text or "/*" in text or "&'" in text:
        return None
    if not text.isascii() and not _is_whole(text):
        return None
    is_pql = dialect is Dialect.PQL
    parts = (_PQL if is_pql else _SQL).split(text)
    if not 1 < len(parts) <= 2 * LITERALS_MAX + 1:
        return None
    literals, places = [], []
    for place in range(1, len(parts), 2):
        literal = parts[place]
        first = literal[0]
        if first in _DIGITS or first == ".":
            parts[place] = "n" if "." in literal else "i"
        elif first == "'" or (is_pql and first == '"'):
            parts[place] = "s"
        else:
            continue  # a quoted name
        literals.append(literal)
        places.append(place)
    return Shape(tuple(parts), literals, places) if literals else None


def literal_value(literal: str, kind: str, dialect: Dialect) -> object:
    """The value that the parser gives a literal as written; None if only the parser can tell."""
    if kind == "s":
        quote = literal[0]
        inner = literal[1:-1]
        return inner.replace(quote + quote, quote) if quote in inner else inner
    if len(literal) > NUMBER_CHARACTERS_MAX:
        return None
    if kind == "i":
        return int(literal)
    if dialect is Dialect.PQL:
        return float(literal)
    return None if is_beyond(literal) else decimal_literal(literal, _NOWHERE).value


def text_of(shape: Shape, literals: list[str]) -> str:
    """The text of this shape with other literals, each of the same kind."""
    parts = list(shape.parts)
    for place, literal in zip(shape.places, literals, strict=True):
        parts[place] = literal
    return "".join(parts)


def _is_whole(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half a character
        return False
    return True
