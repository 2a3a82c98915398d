"""The door to regular expressions: RE2 only, so that no pattern of a user can take more than linear time.

REGEXP_LIKE finds anywhere in the text, LIKE matches all of it. Patterns come in Java's or SQL's spelling and run as RE2;
what RE2 refuses (look-around, back-references) is a QueryExecutionError that says so. Matching of whole arrays goes
through Arrow's kernels, which carry their own RE2 and release the GIL.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import re2
from numpy.typing import NDArray

from pinotpy.errors import QueryExecutionError

PATTERN_BYTES_MAX = 10_000
_MEMORY_BYTES_MAX = 64 << 20


@dataclass(frozen=True, slots=True)
class TextPattern:
    """A checked pattern in RE2's spelling; matches anywhere in the text (LIKE has anchors inside)."""

    regex: str

    def matches(self, texts: pa.Array) -> NDArray[np.bool_]:
        """Whether each text matches, shape (len(texts),); `texts` string or large_string without nulls."""
        found = pc.match_substring_regex(texts, self.regex)
        return np.asarray(found.to_numpy(zero_copy_only=False), np.bool_)

    def matches_one(self, text: str) -> bool:
        return bool(self.matches(pa.array([text], pa.string()))[0])

    @property
    def num_groups(self) -> int:
        """How many groups in brackets the pattern has."""
        return int(_compiled(self.regex).groups)

    def extract(self, text: str, group: int) -> str | None:
        """What a group (0: all) of the first match has; None without a match, or if the group took no part in it."""
        found = _compiled(self.regex).search(text)
        return None if found is None else found.group(group)


@lru_cache(maxsize=512)
def regexp_pattern(pattern: str, *, ignore_case: bool) -> TextPattern:
    """Pattern of REGEXP_LIKE; raises QueryExecutionError (200) for what RE2 does not take."""
    # A flag group at the front holds for all that follows, up to a `(?-i)` of the pattern's own.
    return _checked("(?i)" + pattern if ignore_case else pattern, pattern)


@lru_cache(maxsize=512)
def like_pattern(pattern: str, *, ignore_case: bool, escape: str = "\\") -> TextPattern:
    """Pattern of LIKE: `%` any text, `_` one code point, `escape` takes the next character as it is; newlines are text."""
    parts = []
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            following = next(characters, None)
            parts.append(re2.escape(character if following is None else following))
        elif character == "%":
            parts.append(".*")
        elif character == "_":
            parts.append(".")
        else:
            parts.append(re2.escape(character))
    flags = "(?si)" if ignore_case else "(?s)"
    return _checked(f"{flags}\\A(?:{''.join(parts)})\\z", pattern)


@lru_cache(maxsize=512)
def _compiled(regex: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY_BYTES_MAX
    return re2.compile(regex, options=options)


def _checked(regex: str, written: str) -> TextPattern:
    if len(written.encode()) > PATTERN_BYTES_MAX:
        raise QueryExecutionError(f"a pattern may have at most {PATTERN_BYTES_MAX} bytes, found {len(written.encode())}: shorten it")
    try:
        _compiled(regex)
    except re2.error as error:
        cause = error.args[0] if error.args else "it is malformed"
        text = cause.decode(errors="replace") if isinstance(cause, bytes) else str(cause)
        raise QueryExecutionError(f"the pattern '{written[:200]}' cannot be used: {text} (patterns are RE2: no look-around, no back-references)") from error
    return TextPattern(regex)
