"""Java properties files, as Pinot's daemons read them: `key=value`, `key: value`, # and ! comments, continued lines,
escapes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pinotpy.errors import Fault, InvalidConfigError

# What Java takes for blanks and for line ends: others, such as the separators 0x1C to 0x1F, are part of values.
_BLANKS = " \t\f"
_KEY = re.compile(rf"((?:\\.|[^{_BLANKS}:=\\])+)[{_BLANKS}]*[:=]?[{_BLANKS}]*", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_LINE_END = re.compile(r"\r\n|\n|\r")
_NAMED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str, what: str) -> dict[str, str]:
    """Keys and values of a properties text, in order; `what` names the file in messages.

    Raises:
        InvalidConfigError: a key stands twice (a daemon would take the last without a word), or a broken escape.
    """
    values: dict[str, str] = {}
    faults: list[Fault] = []
    for number, line in _logical_lines(text):
        match = _KEY.match(line)
        if match is None:
            faults.append(Fault(f"line {number}", f"'{line[:60]}'", "key=value"))
            continue
        key, value = _unescaped(match[1]), _unescaped(line[match.end() :])
        if key in values:
            faults.append(Fault(f"line {number}", f"'{key}' again", "each key once"))
        values[key] = value
    if faults:
        raise InvalidConfigError(f"{what} is not valid:", tuple(faults))
    return values


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with continuations joined and comments left out, each with the number of its first line."""
    start, joined = 0, ""
    for number, line in enumerate(_LINE_END.split(text), 1):
        stripped = line.lstrip(_BLANKS)
        if not joined:
            if not stripped or stripped[0] in "#!":
                continue
            start = number
        # An odd number of backslashes at the end continues the line.
        trailing = len(stripped) - len(stripped.rstrip("\\"))
        if trailing % 2:
            joined += stripped[:-1]
            continue
        yield start, joined + stripped
        joined = ""
    if joined:
        yield start, joined


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda m: chr(int(m[1][1:], 16)) if len(m[1]) > 1 else _NAMED.get(m[1], m[1]), text)
