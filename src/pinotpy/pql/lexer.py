"""Query text to tokens, by one regular expression a dialect, and the errors that point into the text.

Names may have letters of any script. Unquoted ones are read in Unicode's composed form (NFC), as schemas have them;
what is quoted stays as it is written, for a field of a file may be called so.
The dialects differ in four things: PQL's identifiers may hold hyphens, PQL's double quotes make strings where SQL's
make identifiers, PQL's numbers have no exponent, and SQL has the sign `::`. A list of 64 or more literals after IN is
one token, so that lists of 50,000 values stay cheap. Comments (`--` and `/* */`) and all white space, \\r included,
separate tokens.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from typing import Final, NamedTuple

from pinotpy.errors import ParseError
from pinotpy.names import is_letter, is_name_character
from pinotpy.pql.ast import Dialect, Position

TEXT_BYTES_MAX: Final = 2 * 1024 * 1024
TOKENS_MAX: Final = 100_000
# Open brackets: more levels than the parser takes (cursor.DEPTH_MAX) in any case, so that the rest need not be read.
BRACKETS_MAX: Final = 200
_EXCERPT_CHARACTERS: Final = 100
_CODE_POINT_MAX: Final = 0x10FFFF

WORD: Final = "word"  # unquoted identifier or keyword; text as written
QUOTED: Final = "quoted"  # backticked (both) or double-quoted (SQL) identifier; value without quotes
STRING: Final = "string"  # value without quotes
INTEGER: Final = "integer"  # digits, no sign
NUMBER: Final = "number"  # with a point (or, in SQL, an exponent), no sign
HEX: Final = "hex"  # x'ff' (SQL); value: the digits
UNICODE: Final = "unicode"  # U&'\\0041' and U&"\\0041" (SQL): a STRING or QUOTED once read
LIST: Final = "list"  # `(1, 2, …)` after IN
SYMBOL: Final = "symbol"
END: Final = "end"


class Token(NamedTuple):
    """`value` is the text, for quoted things what is inside; `start` and `end` are offsets into the query text."""

    kind: str
    value: str
    start: int
    end: int


# Characters beyond ASCII that are no white space; which of them are letters is looked up for those in names.
BEYOND_ASCII: Final = (
    r"\x80-\x84\x86-\x9f\xa1-\u167f\u1681-\u1fff\u200b-\u2027\u202a-\u202e\u2030-\u205e\u2060-\u2fff\u3001-\U0010ffff"
)
_LETTER = rf"[A-Za-z_{BEYOND_ASCII}]"

# Possessive quantifiers only on single character classes: on groups Python before 3.11.5 matches wrongly (gh-106052).
# The groups are unrolled loops, of which each step begins with a character that no other does: nothing is tried twice.
_SKIP = r"(?:\s++|--[^\n]*+|/\*[^*]*+\*++(?:[^/*][^*]*+\*++)*/)*"
_PQL_STRING = r"'[^']*+(?:''[^']*+)*'|\"[^\"]*+(?:\"\"[^\"]*+)*\""
_SQL_STRING = r"'[^']*+(?:''[^']*+)*'"
_PQL_NUMBER = r"[0-9]++\.[0-9]*+|\.[0-9]++|[0-9]++"
_SQL_NUMBER = r"(?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?"

_UNICODE_PARTS = re.compile(
    r"[uU]&(?:'(?P<body>[^']*+(?:''[^']*+)*)'|\"(?!\"(?!\"))(?P<name>[^\"]*+(?:\"\"[^\"]*+)*)\")(?:\s*+[uU][eE][sS][cC][aA][pP][eE]\s*+'(?P<escape>[^'])')?"
)
_UNICODE = f"(?P<unicode>{re.sub(r'[?]P<[a-z]+>', '?:', _UNICODE_PARTS.pattern)})"


def _list_pattern(string: str, number: str) -> str:
    item = rf"\s*+(?:{string}|[+-]?(?:{number}))\s*+"
    return rf"\((?:{item},){{63,}}{item}\)"


def _compile(
    word: str, string: str, number: str, quoted: str, hexadecimal: str = "", symbol: str = ""
) -> re.Pattern[str]:
    return re.compile(
        rf"(?P<string>{string})"
        rf"{hexadecimal}"
        rf"|(?P<word>{word})"
        rf"|(?P<quoted>{quoted})"
        rf"|(?P<number>{number})"
        rf"|(?P<symbol>{symbol}<=|>=|<>|!=|\|\||/(?!\*)|[-+*%(),.;=<>\[\]])"
    )


_PQL = _compile(
    rf"\$?{_LETTER}[A-Za-z0-9_{BEYOND_ASCII}]*+(?:-(?!-)[A-Za-z0-9_{BEYOND_ASCII}]*+)*",
    _PQL_STRING,
    _PQL_NUMBER,
    r"`[^`]++`",
)
_SQL = _compile(
    rf"\$?{_LETTER}[A-Za-z0-9_${BEYOND_ASCII}]*+",
    _SQL_STRING,
    _SQL_NUMBER,
    r"`[^`]++`|\"(?!\"(?!\"))[^\"]*+(?:\"\"[^\"]*+)*\"",
    rf"|(?P<hex>[xX]'[^']*+')|{_UNICODE}",
    "::|",
)
_SKIPPED = re.compile(_SKIP)
_PQL_LIST = re.compile(_list_pattern(_PQL_STRING, _PQL_NUMBER))
_SQL_LIST = re.compile(_list_pattern(_SQL_STRING, _SQL_NUMBER))
PQL_LIST_ITEM: Final = re.compile(rf"{_PQL_STRING}|[+-]?(?:{_PQL_NUMBER})")
SQL_LIST_ITEM: Final = re.compile(rf"{_SQL_STRING}|[+-]?(?:{_SQL_NUMBER})")


class QueryText:
    """A query text of one dialect with its line starts; makes positions and errors."""

    __slots__ = ("_lines", "dialect", "text")

    def __init__(self, text: str, dialect: Dialect) -> None:
        self.text = text
        self.dialect = dialect
        self._lines: list[int] | None = None
        if len(text) > TEXT_BYTES_MAX or len(text.encode("utf-8", "surrogatepass")) > TEXT_BYTES_MAX:
            raise ParseError(
                f"the query text has more than {TEXT_BYTES_MAX} bytes; split the query or shorten its lists"
            )
        lone = re.search(r"[\ud800-\udfff]", text)
        if lone is not None:
            raise self.error("the query text holds half a character (a lone surrogate)", lone.start())

    def position(self, offset: int) -> Position:
        """Line and column, from 1, of an offset."""
        if self._lines is None:
            self._lines = [0, *(match.end() for match in re.finditer("\n", self.text))]
        line = bisect_right(self._lines, offset)
        return Position(line, offset - self._lines[line - 1] + 1)

    def error_at(self, message: str, position: Position) -> ParseError:
        """A ParseError where an expression stands."""
        self.position(0)
        assert self._lines is not None
        return self.error(
            message, min(self._lines[min(position.line, len(self._lines)) - 1] + position.column - 1, len(self.text))
        )

    def error(self, message: str, offset: int) -> ParseError:
        """A ParseError at an offset: the message, where, and the line with a caret below."""
        position = self.position(offset)
        start = offset - position.column + 1
        end = self.text.find("\n", start)
        line = self.text[start : end if end >= 0 else len(self.text)].rstrip("\r")
        caret = position.column - 1
        first = max(0, min(caret - _EXCERPT_CHARACTERS // 2, len(line) - _EXCERPT_CHARACTERS))
        shown = line[first : first + _EXCERPT_CHARACTERS].replace("\t", " ")
        prefix = "…" if first else ""
        suffix = "…" if first + _EXCERPT_CHARACTERS < len(line) else ""
        indentation = " " * (len(prefix) + caret - first)
        excerpt = f"{prefix}{shown}{suffix}\n{indentation}^"
        return ParseError(
            f"{message} at line {position.line}, column {position.column}\n{excerpt}",
            line=position.line,
            column=position.column,
            excerpt=excerpt,
        )


def tokenize(query: QueryText) -> list[Token]:
    """All tokens of the text, the last one of kind END; raises ParseError for characters that start none."""
    text, pql = query.text, query.dialect is Dialect.PQL
    match_token = (_PQL if pql else _SQL).match
    match_list = (_PQL_LIST if pql else _SQL_LIST).match
    skip = _SKIPPED.match
    tokens: list[Token] = []
    append = tokens.append
    offset, size, after_in, open_brackets = 0, len(text), False, 0
    while True:
        skipped = skip(text, offset)
        assert skipped is not None
        offset = skipped.end()
        if offset >= size:
            break
        if after_in:
            after_in = False
            list_match = match_list(text, offset)
            if list_match is not None:
                append(Token(LIST, list_match.group(), offset, list_match.end()))
                offset = list_match.end()
                continue
        match = match_token(text, offset)
        if match is None:
            raise _bad_character(query, offset)
        kind, value, end = match.lastgroup, match.group(), match.end()
        assert kind is not None
        if kind == WORD:
            if not value.isascii():
                value = _composed(query, value, offset)
            after_in = len(value) == 2 and value in ("IN", "in", "In", "iN")
        elif kind in (STRING, QUOTED):
            quote = value[0]
            value = value[1:-1]
            if quote in value:
                value = value.replace(quote + quote, quote)
        elif kind == NUMBER:
            _check_number_end(query, text, end)
            if value.isdigit():
                kind = INTEGER
        elif kind == HEX:
            value = value[2:-1]
        elif kind == UNICODE:
            kind, value = _read_unicode(query, value, offset)
        elif value == "(":
            open_brackets += 1
            if open_brackets > BRACKETS_MAX:
                raise query.error(f"expressions nest deeper than {BRACKETS_MAX} levels; split the query", offset)
        elif value == ")":
            open_brackets -= 1
        append(Token(kind, value, offset, end))
        if len(tokens) > TOKENS_MAX:
            raise query.error(f"the query text has more than {TOKENS_MAX} words and signs; split the query", offset)
        offset = end
    append(Token(END, "", size, size))
    return tokens


def _composed(query: QueryText, word: str, offset: int) -> str:
    """A name in composed form; raises ParseError at the first character that cannot stand in one."""
    first = 1 if word[0] == "$" else 0
    for place, character in enumerate(word):
        if not character.isascii() and not (is_letter if place == first else is_name_character)(character):
            raise _bad_character(query, offset + place)
    return unicodedata.normalize("NFC", word)


def _read_unicode(query: QueryText, written: str, offset: int) -> tuple[str, str]:
    """Kind and value of U&'…' or U&"…", in which \\XXXX and \\+XXXXXX are characters; UESCAPE names another sign than
    the backslash.
    """
    match = _UNICODE_PARTS.fullmatch(written)
    assert match is not None
    quote, escape = written[2], match["escape"] or "\\"
    if escape.isspace() or escape in '+"0123456789abcdefABCDEF':
        raise query.error(
            f"expected a sign that is no digit after UESCAPE, found '{escape}'", offset + match.start("escape")
        )
    sign = re.escape(escape)
    parts = re.split(rf"{sign}({sign}|[0-9a-fA-F]{{4}}|\+[0-9a-fA-F]{{6}})", match["body"] or match["name"] or "")
    for place, piece in enumerate(parts):
        if place % 2 == 0:
            if escape in piece:
                raise query.error(
                    f"expected four hexadecimal digits after {escape}, or + and six, or {escape} again, in "
                    f"U&{quote}…{quote}",
                    offset,
                )
            parts[place] = piece.replace(quote + quote, quote)
        elif piece != escape:
            code = int(piece.removeprefix("+"), 16)
            if code > _CODE_POINT_MAX:
                raise query.error(f"expected a character of Unicode, at most 10FFFF, found {piece}", offset)
            parts[place] = chr(code)
    try:  # two halves of a character, written one by one, make it
        value = "".join(parts).encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError as error:
        raise query.error(
            f"expected both halves of a character in U&{quote}…{quote}, found one (a lone surrogate)", offset
        ) from error
    return (STRING if quote == "'" else QUOTED), value


def _check_number_end(query: QueryText, text: str, end: int) -> None:
    """A number must not run into a word: `1e5` (no exponents in PQL), `0x10`, `12abc`."""
    if end < len(text) and (text[end].isalnum() or text[end] in "_$`"):
        hint = (
            "; PQL numbers have no exponent, write all digits"
            if query.dialect is Dialect.PQL and text[end] in "eE"
            else ""
        )
        raise query.error(f"expected a number, found a number that runs into '{text[end]}'{hint}", end)


_HINTS: Final = {
    "!": "; write <> or !=, and NOT before a condition",
    "&": "; write AND",
    "|": "; write OR",
    **dict.fromkeys("‘’‚‛′", "; write straight quotes: ' around a text"),
    **dict.fromkeys("“”„‟″", "; write straight quotes: ' around a text, \" around a name"),
}


def _bad_character(query: QueryText, offset: int) -> ParseError:
    character = query.text[offset]
    if character in "'\"`":
        what = (
            "string" if character == "'" or (character == '"' and query.dialect is Dialect.PQL) else "quoted identifier"
        )
        return query.error(
            f"expected the closing {character} of the {what} that starts here (a quote inside is written twice)", offset
        )
    if query.text.startswith("/*", offset):
        return query.error("expected the closing */ of the comment that starts here", offset)
    shown = character if character.isprintable() else f"U+{ord(character):04X}"
    hint = _HINTS.get(character, "")
    if character == ":" and query.dialect is Dialect.SQL and query.text[offset - 1 : offset].isdigit():
        hint = "; an instant is a text in single quotes: '2024-01-01 00:00:00'"
    return query.error(f"expected a name, a literal or an operator, found the character '{shown}'{hint}", offset)
