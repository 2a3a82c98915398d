"""The parser's place in a list of tokens: look, take, expect, complain."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from pinotpy.errors import ParseError
from pinotpy.pql.ast import Position
from pinotpy.pql.lexer import END, INTEGER, LIST, QUOTED, STRING, SYMBOL, WORD, QueryText, Token, tokenize

DEPTH_MAX = 200
FUNCTION_CHARACTERS_MAX = 200


class Cursor:
    """Tokens of one text and where the parser stands. `word` is the current token's word in upper case, "" for all else
    (a quoted word is never a keyword); `symbol` likewise for operators."""

    def __init__(self, query: QueryText) -> None:
        self.query = query
        self._tokens = tokenize(query)
        self._index = 0
        self.depth = 0
        self._show(self._tokens[0])

    def _show(self, token: Token) -> None:
        self.token = token
        # Some letters beyond ASCII have upper cases within: `ın` is a name, not IN.
        self.word = token.value.upper() if token.kind == WORD and token.value.isascii() else ""
        self.symbol = token.value if token.kind == SYMBOL else ""

    def ahead(self, count: int = 1) -> Token:
        """The token `count` places further (or back, if negative), END beyond the end."""
        return self._tokens[max(0, min(self._index + count, len(self._tokens) - 1))]

    def take(self) -> Token:
        """The current token; go on to the next."""
        token = self.token
        if token.kind != END:
            self._index += 1
            self._show(self._tokens[self._index])
        return token

    def take_word(self, *words: str) -> bool:
        """Take the next token if it is one of these keywords."""
        if self.word and self.word in words:
            self.take()
            return True
        return False

    def take_symbol(self, symbol: str) -> bool:
        """Take the next token if it is this symbol."""
        if self.symbol == symbol:
            self.take()
            return True
        return False

    def expect_word(self, word: str, after: str = "") -> Token:
        """Take a keyword or raise, naming what it should follow."""
        if self.word != word:
            raise self.unexpected(f"{word}{f' after {after}' if after else ''}", keywords=(word,))
        return self.take()

    def expect_symbol(self, symbol: str) -> Token:
        """Take a symbol or raise."""
        if self.symbol != symbol:
            raise self.unexpected(f"'{symbol}'")
        return self.take()

    def position(self, token: Token | None = None) -> Position:
        """Line and column of a token, by default of the current one."""
        return self.query.position((token or self.token).start)

    def enter(self) -> None:
        """One level deeper; raises ParseError beyond DEPTH_MAX. Pair it with `leave`."""
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise self.error(f"expressions nest deeper than {DEPTH_MAX} levels; split the query")

    def leave(self) -> None:
        """One level up."""
        self.depth -= 1

    def found(self) -> str:
        """The current token as messages name it."""
        token = self.token
        if token.kind == END:
            return "the end of the text"
        if token.kind == STRING:
            return f"the string '{_clip(token.value)}'"
        if token.kind == QUOTED:
            return f"the quoted name '{_clip(token.value)}'"
        if token.kind == LIST:
            return "a list of literals"
        return f"'{_clip(token.value)}'"

    def error(self, message: str, token: Token | None = None) -> ParseError:
        """A ParseError at a token, by default the current one."""
        return self.query.error(message, (token or self.token).start)

    def unexpected(self, expected: str, *, keywords: Iterable[str] = (), hint: str = "") -> ParseError:
        """expected …, found …; with the keyword that was perhaps meant."""
        hint = self._sign_hint() or hint or self._quotes_hint() or self.near(keywords)
        return self.error(f"expected {expected}, found {self.found()}{'; ' + hint if hint else ''}")

    def _sign_hint(self) -> str:
        """What to write for a sign of another language, whose parts are signs here: `==`, `->>`, `->`."""
        before = self.ahead(-1)
        if self._index == 0 or before.kind != SYMBOL or before.end != self.token.start:
            return ""
        if before.value == self.symbol == "=":
            return "equality is a single ="
        if before.value == "-" and self.symbol == ">":
            field = self.ahead(1 if self.ahead(1).kind == STRING else 2)
            path = f"$.{field.value.removeprefix('$.')}" if field.kind == STRING else "$.field"
            column = self.ahead(-2).value if self.ahead(-2).kind in (WORD, QUOTED) else "column"
            return (
                f"a field of a JSON document is JSON_EXTRACT_SCALAR({column}, '{_clip(path)}', 'STRING'), "
                f"or {column}.{_clip(path.removeprefix('$.'))} in SQL"
            )
        return ""

    def _quotes_hint(self) -> str:
        """How `DATE "2025-01-10"` is written: in double quotes it is a name."""
        word = self.ahead(-1).value.upper()
        if self.token.kind != QUOTED or word not in ("DATE", "TIME", "TIMESTAMP"):
            return ""
        return f"texts have single quotes: {word} '{_clip(self.token.value)}'"

    def near(self, keywords: Iterable[str], token: Token | None = None) -> str:
        """The question whether a keyword was meant by a word, the current one if none is given; "" if none is near."""
        word = self.word if token is None else token.value.upper()
        if not word or len(word) > 40:
            return ""
        near = get_close_matches(word, [k for k in keywords if k != word], n=1, cutoff=0.75)
        return f"did you mean {near[0]}?" if near else ""

    def check_function_name(self, name: Token) -> None:
        """Names are kept in caches for later queries: what no function is called is refused before."""
        if len(name.value) > FUNCTION_CHARACTERS_MAX:
            raise self.error(f"expected the name of a function, of at most {FUNCTION_CHARACTERS_MAX} characters", name)

    def integer(self, what: str) -> int:
        """A whole number with an optional sign that fits 32 bits, as LIMIT and TOP take."""
        start = self.token
        negative = self.symbol == "-"
        if self.symbol in ("-", "+"):
            self.take()
        if self.token.kind != INTEGER:
            raise self.unexpected(f"a whole number after {what}")
        token = self.take()
        value = int(token.value) if len(token.value.lstrip("0")) <= 10 else 2**31
        value = -value if negative else value
        if not -(2**31) <= value <= 2**31 - 1:
            raise self.error(f"expected a number up to {2**31 - 1} after {what}, found {_clip(token.value)}", start)
        return value


def _clip(text: str) -> str:
    return text if len(text) <= 60 else text[:60] + "…"
