"""`glob:…` and `regex:…` patterns of job specs. Source: java.nio.file.FileSystem.getPathMatcher, as Pinot's jobs use
it.

A pattern is compared with the whole path of a file and with its path below the input's folder; either may match:
`glob:*.avro` takes the files of the folder itself, `glob:**/*.avro` those of all folders below it too.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from pinotpy.errors import UserError
from pinotpy.ingest.segment_names import compile_pattern

Matches = Callable[[str, str], bool]
"""(path of the file, path below its folder) → whether the pattern takes it."""


def file_pattern(text: str, what: str) -> Matches:
    """What a pattern accepts; `what` names the key in messages. Raises UserError for one that is none."""
    kind, colon, pattern = text.partition(":")
    if not colon or kind.lower() not in ("glob", "regex"):
        raise UserError(f"{what} is '{text[:200]}': expected 'glob:…', such as 'glob:**/*.csv', or 'regex:…'")
    compiled = compile_pattern(_regex_of_glob(pattern, what) if kind.lower() == "glob" else pattern, what)
    return lambda path, below: compiled.extract(path, 0) is not None or compiled.extract(below, 0) is not None


def _regex_of_glob(glob: str, what: str) -> str:
    """`**` crosses folders, `*` and `?` do not; `[ab]`, `[!ab]`, `{a,b}`, `\\x` as in Java."""
    out: list[str] = []
    place, depth = 0, 0
    while place < len(glob):
        sign = glob[place]
        place += 1
        if sign == "*":
            if glob[place : place + 1] == "*":
                place += 1
                out.append(".*")
            else:
                out.append("[^/]*")
        elif sign == "?":
            out.append("[^/]")
        elif sign == "[":
            end = glob.find("]", place + 1)
            if end < 0:
                raise UserError(f"{what} 'glob:{glob[:200]}' has '[' without ']'")
            inside = glob[place:end]
            negated, inside = inside[:1] in ("!", "^"), inside[1:] if inside[:1] in ("!", "^") else inside
            escaped = re.sub(r"([\[\]\\^&])", r"\\\1", inside)
            out.append(f"[^/{escaped}]" if negated else f"[{escaped}]")
            place = end + 1
        elif sign == "{":
            if depth:
                raise UserError(f"{what} 'glob:{glob[:200]}' has '{{' within '{{', which globs do not know")
            depth += 1
            out.append("(?:")
        elif sign == "}" and depth:
            depth -= 1
            out.append(")")
        elif sign == "," and depth:
            out.append("|")
        elif sign == "\\" and place < len(glob):
            out.append(re.escape(glob[place]))
            place += 1
        else:
            out.append(re.escape(sign))
    if depth:
        raise UserError(f"{what} 'glob:{glob[:200]}' has '{{' without '}}'")
    return "".join(out)
