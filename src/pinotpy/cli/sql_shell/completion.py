"""What could be meant by the word before the cursor."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from pinotpy.cli.sql_shell.statements import is_inside_quotes, pieces_of

KEYWORDS = (
    "SELECT", "DISTINCT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "HAVING", "LIMIT", "OFFSET", "OPTION", "SET", "AS",
    "AND", "OR", "NOT", "IN", "IS NULL", "IS NOT NULL", "BETWEEN", "LIKE", "REGEXP_LIKE", "TEXT_MATCH", "JSON_MATCH",
    "CASE", "WHEN", "THEN", "ELSE", "END", "CAST", "ASC", "DESC", "NULLS FIRST", "NULLS LAST", "FILTER", "TRUE",
    "FALSE", "NULL", "EXPLAIN PLAN FOR",
)  # fmt: skip
PQL_KEYWORDS = ("TOP",)
_WORD = re.compile(r"[\w$]*$")
_NAMED_TABLES = re.compile(r"\b(?:from|join)\s+[\"`]?([A-Za-z_][\w.$-]*)", re.IGNORECASE)
_EXPECTS_TABLE = re.compile(r"\b(?:from|join)\s+[\"`]?[\w$]*$", re.IGNORECASE)
_PLAIN_NAME = re.compile(r"[A-Za-z_][\w$]*")


@dataclass(frozen=True, slots=True)
class Candidate:
    """`text` takes the place of the word; `kind` says what it is: table, LONG dimension, function, keyword."""

    text: str
    kind: str


class Known(Protocol):
    """What there is to name."""

    def known_tables(self) -> list[str]: ...
    def known_columns(self, table: str) -> list[tuple[str, str, str]]: ...
    def known_functions(self) -> list[str]: ...


def word_before(text: str) -> str:
    """The word that is being typed."""
    match = _WORD.search(text)
    assert match is not None
    return match.group()


def candidates(
    before: str,
    after: str,
    known: Known,
    commands: Iterable[str],
    values_of: Callable[[str], Iterable[str]],
    dialect: str,
) -> Iterator[Candidate]:
    """Candidates for the word at the end of `before`, likely ones first.

    Args:
        after: what stands behind the cursor: its FROM says which columns there are.
        commands: names of backslash commands, with the backslash.
        values_of: the words that a backslash command takes.
    """
    statement = pieces_of(before)[1]
    last_line = before.rpartition("\n")[2]
    if not statement and last_line.lstrip().startswith("\\"):
        yield from _of_command(last_line.lstrip(), known, commands, values_of)
        return
    if is_inside_quotes(statement):
        return
    word = word_before(statement).lower()
    tables = known.known_tables()
    if _EXPECTS_TABLE.search(statement):
        yield from (Candidate(_quoted(name, dialect), "table") for name in tables if name.lower().startswith(word))
        return
    seen = set()
    for table in _NAMED_TABLES.findall(statement + " " + after):
        for name, data_type, kind in known.known_columns(table):
            if name.lower().startswith(word) and name not in seen:
                seen.add(name)
                yield Candidate(_quoted(name, dialect), f"{data_type} {kind}")
    if not word:
        return  # all functions and keywords are no help
    typed = word_before(statement)
    for name in known.known_functions():
        if name.lower().startswith(word):
            yield Candidate(f"{name.upper() if typed.isupper() else name}(", "function")
    for keyword in (*KEYWORDS, *(PQL_KEYWORDS if dialect == "pql" else ())):
        if keyword.lower().startswith(word):
            yield Candidate(keyword.lower() if typed.islower() else keyword, "keyword")
    yield from (Candidate(_quoted(name, dialect), "table") for name in tables if name.lower().startswith(word))


def _of_command(
    line: str, known: Known, commands: Iterable[str], values_of: Callable[[str], Iterable[str]]
) -> Iterator[Candidate]:
    name, space, rest = line.partition(" ")
    if not space:
        # The word before the cursor is what follows the backslash.
        yield from (Candidate(command[1:], "command") for command in commands if command.startswith(name))
        return
    values = known.known_tables() if name == "\\d" else values_of(name)
    yield from (Candidate(value, "") for value in values if value.lower().startswith(rest.strip().lower()))


def _quoted(name: str, dialect: str) -> str:
    """As it must be written: names of other characters in quotes."""
    if _PLAIN_NAME.fullmatch(name) and name.upper() not in KEYWORDS:
        return name
    return f"`{name}`" if dialect == "pql" else '"' + name.replace('"', '""') + '"'
