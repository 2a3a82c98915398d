r"""Search texts of TEXT_MATCH → a tree of terms, phrases and boolean clauses: the language of Lucene's classic query
parser.

    quick fox              either                             quick AND fox, +quick +fox   both
    quick -fox, quick NOT fox                                 without
    "brown fox"            next to each other, in order       "fox brown"~3                within 3 moves of that
    real*  te?t  t*t       prefix, wildcards (not in front)   /do.*/                       RE2 over whole terms
    fox~  fox~1            at most 2 (1) edits away           [ant TO cow}                 terms in a range, * = no end
    (a OR b) AND c         grouping                           a^2                          a weight, accepted
    \+  \"                 the character itself

Operators stand in capitals; && || ! are the same as AND OR NOT. Words and phrases are analyzed like the indexed texts,
so that a word may become several terms (wi-fi: any of them) or none (stop words: the clause counts for nothing).
Patterns, ranges and fuzzy words are only lower-cased.

Precedence is Lucene's, not that of algebra: a clause is *required* if it stands beside AND or behind +, *prohibited*
behind NOT or -, else *optional*. A doc must satisfy all required clauses and no prohibited one; of the optional ones it
needs one only if nothing is required. So `a OR b AND c` is `b AND c`, and prohibited clauses alone match nothing. Write
parentheses.

Refused: fields (`title:fox`), except that `*:*` is every doc.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final, Union

from pinotpy.errors import QueryExecutionError
from pinotpy.functions.text.patterns import TextPattern, like_pattern, regexp_pattern
from pinotpy.functions.text.text_analysis import analyze, lower_case

TEXT_QUERY_BYTES_MAX: Final = 16_384
TEXT_QUERY_DEPTH_MAX: Final = 200
# Words and clauses of one search text; Lucene's limit for a boolean query.
TEXT_QUERY_CLAUSES_MAX: Final = 1024
FUZZY_EDITS_MAX: Final = 2
SLOP_MAX: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class Term:
    """Docs with this term."""

    text: str


@dataclass(frozen=True, slots=True)
class Phrase:
    """Docs with two or more terms at these offsets from each other; `slop` moves by one position are allowed in all."""

    slots: tuple[tuple[str, int], ...]
    slop: int = 0


@dataclass(frozen=True, slots=True)
class TermRange:
    """Docs with a term between two, each None = no end."""

    low: str | None
    high: str | None
    low_inclusive: bool = True
    high_inclusive: bool = True


@dataclass(frozen=True, slots=True)
class Prefix:
    """Docs with a term that begins so."""

    text: str


@dataclass(frozen=True, slots=True)
class TermPattern:
    """Docs with a term that begins with `prefix` and matches `pattern` as a whole."""

    pattern: TextPattern
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class Fuzzy:
    """Docs with a term at most so many edits away: characters inserted, deleted, replaced, or two neighbours
    swapped.
    """

    text: str
    edits: int


@dataclass(frozen=True, slots=True)
class EveryDoc:
    """All docs."""


@dataclass(frozen=True, slots=True)
class Clauses:
    """All of `required`, none of `prohibited`, and any of `optional` if nothing is required. Without required and
    optional clauses: no doc.
    """

    required: tuple[TextQuery, ...] = ()
    optional: tuple[TextQuery, ...] = ()
    prohibited: tuple[TextQuery, ...] = ()


TextQuery = Union[Term, Phrase, TermRange, Prefix, TermPattern, Fuzzy, EveryDoc, Clauses]


def parse_text_query(text: str) -> TextQuery:
    """The tree of a search text; raises QueryExecutionError (200) that names the position of what is wrong."""
    size_bytes = len(text.encode("utf-8", "replace"))
    if size_bytes > TEXT_QUERY_BYTES_MAX:
        raise QueryExecutionError(
            f"a search text may have at most {TEXT_QUERY_BYTES_MAX} bytes, found {size_bytes}: shorten it"
        )
    parser = _Parser(text.encode("utf-8", "replace").decode())
    tree = parser.query(0)
    if not parser.at_end():
        raise parser.error("the end or another clause")
    return tree if tree is not None else Clauses()


# --- characters ----------------------------------------------------------------------------------------------------

_SPACE = " \t\n\r\u3000"
_START = rf'(?:[^{_SPACE}+\-!():^\[\]"{{}}~*?\\/]|\\[\s\S])'
_BLANKS = re.compile(rf"[{_SPACE}]*")
_WORD = re.compile(rf"(?:{_START}|[*?])(?:{_START}|[-+*?])*")
_QUOTED = re.compile(r'"((?:[^"\\]|\\[\s\S])*)"')
_REGEX = re.compile(r"/((?:[^/\\]|\\[\s\S])*)/")
_LONE_OPERATOR = re.compile(rf"[+\-!][{_SPACE}]")
_SLOP = re.compile(r"~([0-9]+(?:\.[0-9]+)?)?")
_BOOST = re.compile(r"\^[0-9]+(?:\.[0-9]+)?")
_END = rf'("(?:[^"\\]|\\[\s\S])*"|[^{_SPACE}\]}}"][^{_SPACE}\]}}]*)'
_RANGE = re.compile(rf"([\[{{])[{_SPACE}]*{_END}[{_SPACE}]+TO[{_SPACE}]+{_END}[{_SPACE}]*([\]}}])")
_ESCAPED = re.compile(r"\\([\s\S])")
_WILDCARD = re.compile(r"\\[\s\S]|[*?%_]")


def _plain(text: str) -> str:
    return _ESCAPED.sub(r"\1", text)


class _Join(Enum):
    NONE = ""
    AND = "AND"
    OR = "OR"


class _Mark(Enum):
    NONE = ""
    REQUIRED = "+"
    PROHIBITED = "-"


@dataclass(slots=True)
class _Clause:
    query: TextQuery
    mark: _Mark


# --- grammar -------------------------------------------------------------------------------------------------------


class _Parser:
    """Reads clauses from left to right; None stands for a clause that analysis left nothing of."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._num_clauses = 0

    def query(self, depth: int) -> TextQuery | None:
        """Clauses up to the end or a closing parenthesis."""
        if depth > TEXT_QUERY_DEPTH_MAX:
            raise QueryExecutionError(
                f"a search text may be nested {TEXT_QUERY_DEPTH_MAX} deep, found more at character {self._at}: write "
                "it flatter"
            )
        clauses: list[_Clause] = []
        join = _Join.NONE
        while True:
            mark = self._mark()
            self._count(1)
            clause = self._clause(depth)
            _add(clauses, join, mark, clause)
            if self.at_end() or self._text[self._at] == ")":
                return _combined(clauses)
            join = self._join()

    def at_end(self) -> bool:
        self._skip_blanks()
        return self._at == len(self._text)

    def error(self, expected: str) -> QueryExecutionError:
        rest = f"'{self._text[self._at : self._at + 20]}'" if self._at < len(self._text) else "the end"
        return QueryExecutionError(
            f"the search text '{self._text[:200]}' cannot be read at character {self._at}: expected {expected}, found "
            f"{rest}"
        )

    def _count(self, more: int) -> None:
        self._num_clauses += more
        if self._num_clauses > TEXT_QUERY_CLAUSES_MAX:
            raise QueryExecutionError(
                f"a search text may have at most {TEXT_QUERY_CLAUSES_MAX} words and clauses, found more at character "
                f"{self._at}: shorten it"
            )

    def _skip_blanks(self) -> None:
        self._at = self._position_after(_BLANKS)

    def _position_after(self, pattern: re.Pattern[str]) -> int:
        match = pattern.match(self._text, self._at)
        return self._at if match is None else match.end()

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self._text, self._at)
        if match is not None:
            self._at = match.end()
        return match

    def _operator(self, *words: str) -> bool:
        """Take one of these words; a longer word that begins with one is a term."""
        match = _WORD.match(self._text, self._at)
        if match is None or match.group() not in words:
            return False
        self._at = match.end()
        return True

    def _join(self) -> _Join:
        self._skip_blanks()
        if self._operator("AND", "&&"):
            return _Join.AND
        return _Join.OR if self._operator("OR", "||") else _Join.NONE

    def _mark(self) -> _Mark:
        self._skip_blanks()
        if self._operator("NOT"):
            return _Mark.PROHIBITED
        if _LONE_OPERATOR.match(self._text, self._at) is not None:
            return _Mark.NONE
        sign = self._text[self._at : self._at + 1]
        if sign not in ("+", "-", "!") or not sign:
            return _Mark.NONE
        self._at += 1
        return _Mark.REQUIRED if sign == "+" else _Mark.PROHIBITED

    def _clause(self, depth: int) -> TextQuery | None:
        self._skip_blanks()
        text = self._text[self._at : self._at + 1]
        if text == "(":
            self._at += 1
            inner = self.query(depth + 1)
            if self.at_end():
                raise self.error("')'")
            self._at += 1
            self._boost()
            return inner
        if text == '"':
            return self._phrase()
        if text == "/":
            return self._regex()
        if text in ("[", "{") and text:
            return self._range()
        if self._take(_LONE_OPERATOR) is not None:
            return None
        return self._word()

    def _word(self) -> TextQuery | None:
        start = self._at
        match = self._take(_WORD)
        if match is None or match.group() in ("AND", "OR", "NOT", "&&", "||"):
            self._at = start
            raise self.error("a word, a phrase or '('")
        word = match.group()
        if word == "*" and self._text.startswith(":*", self._at):
            self._at += 2
            self._boost()
            return EveryDoc()
        self._no_field(start)
        wildcards = [match.start() for match in _WILDCARD.finditer(word) if match.group() in ("*", "?")]
        if wildcards:
            if wildcards[0] == 0:
                self._at = start
                raise self.error("a word that does not begin with '*' or '?'")
            self._boost()
            return (
                Prefix(lower_case(_plain(word[:-1])))
                if wildcards == [len(word) - 1] and word[-1] == "*"
                else _wildcard_query(word, wildcards[0])
            )
        edits = self._edits(len(_plain(word)))
        text = _plain(word)
        if edits is not None:
            return Fuzzy(lower_case(text), edits)
        terms = [Term(term) for term, _ in analyze(text)]
        if len(terms) < 2:
            return terms[0] if terms else None
        self._count(len(terms) - 1)
        return Clauses(optional=tuple(terms))

    def _no_field(self, start: int) -> None:
        if self._text.startswith(":", self._position_after(_BLANKS)):
            self._at = start
            raise self.error("no field name: the search is in one column; write '\\:' for a colon")

    def _edits(self, num_characters: int) -> int | None:
        """Edits of a fuzzy word, or None if it is none. Less than 1 is the old way: a share of the word that must
        stay.
        """
        suffix = self._suffix()
        if suffix is None:
            return None
        start, number = suffix
        if number is None:
            return FUZZY_EDITS_MAX
        if number >= 1 and number != int(number):
            self._at = start
            raise self.error("a whole number of edits behind '~'")
        edits = number if number >= 1 or number == 0 else (1 - number) * num_characters
        return min(int(edits), FUZZY_EDITS_MAX)

    def _phrase(self) -> TextQuery | None:
        match = self._take(_QUOTED)
        if match is None:
            raise self.error("a closing '\"'")
        suffix = self._suffix()
        slop = 0 if suffix is None or suffix[1] is None else int(min(suffix[1], SLOP_MAX))
        slots = analyze(_plain(match.group(1)))
        if len(slots) < 2:
            return Term(slots[0][0]) if slots else None
        first = slots[0][1]
        return Phrase(tuple((term, position - first) for term, position in slots), slop)

    def _regex(self) -> TextQuery:
        match = self._take(_REGEX)
        if match is None:
            raise self.error("a closing '/'")
        self._boost()
        body = match.group(1)
        # By itself first: a stray ')' must not end the group that makes it match as a whole.
        regexp_pattern(body, ignore_case=True)
        return TermPattern(regexp_pattern(rf"\A(?:{body})\z", ignore_case=True))

    def _range(self) -> TextQuery:
        match = self._take(_RANGE)
        if match is None:
            raise self.error("a range such as [ant TO cow] or {ant TO *}")
        self._boost()
        opening, low, high, closing = match.groups()
        return TermRange(_range_end(low), _range_end(high), opening == "[", closing == "]")

    def _suffix(self) -> tuple[int, float | None] | None:
        """`~` with its number, before or behind a `^` with its number; gives where it stood and the number."""
        suffix = None
        for pattern in (_SLOP, _BOOST, _SLOP):
            self._skip_blanks()
            if pattern is _BOOST:
                self._boost()
            elif suffix is None and (match := self._take(_SLOP)) is not None:
                suffix = match.start(), None if match.group(1) is None else float(match.group(1))
        return suffix

    def _boost(self) -> None:
        """Take a weight: it would order answers, which a filter has no use for."""
        self._skip_blanks()
        if self._text.startswith("^", self._at) and self._take(_BOOST) is None:
            raise self.error("a number behind '^'")


def _range_end(text: str) -> str | None:
    if text == "*":
        return None
    return lower_case(_plain(text[1:-1] if text.startswith('"') else text))


def _wildcard_query(word: str, first: int) -> TextQuery:
    spelling = {"*": "%", "?": "_", "%": "\\%", "_": "\\_"}

    def like(match: re.Match[str]) -> str:
        return spelling.get(match.group(), match.group())

    lowered = lower_case(word)
    return TermPattern(like_pattern(_WILDCARD.sub(like, lowered), ignore_case=False), _plain(lowered[:first]))


def _add(clauses: list[_Clause], join: _Join, mark: _Mark, query: TextQuery | None) -> None:
    # AND also binds the clause before it, whatever joined that one.
    if join is _Join.AND and clauses and clauses[-1].mark is not _Mark.PROHIBITED:
        clauses[-1].mark = _Mark.REQUIRED
    if query is not None:
        clauses.append(_Clause(query, _Mark.REQUIRED if join is _Join.AND and mark is _Mark.NONE else mark))


def _combined(clauses: list[_Clause]) -> TextQuery | None:
    if not clauses:
        return None
    if len(clauses) == 1 and clauses[0].mark is not _Mark.PROHIBITED:
        return clauses[0].query
    by_mark = {mark: tuple(clause.query for clause in clauses if clause.mark is mark) for mark in _Mark}
    return Clauses(by_mark[_Mark.REQUIRED], by_mark[_Mark.NONE], by_mark[_Mark.PROHIBITED])
