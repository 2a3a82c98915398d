"""The door to regular expressions: RE2 only, so that no pattern of a user can take more than linear time.

REGEXP_LIKE finds anywhere in the text, LIKE matches all of it. Patterns come in Java's or SQL's spelling and run as
RE2; what RE2 refuses (look-around, back-references) is a QueryExecutionError that says so. Matching of whole arrays
goes through Arrow's kernels, which carry their own RE2 and release the GIL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import re2
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.errors import QueryExecutionError
from pinotpy.functions.text.regex_syntax import parse_regex
from pinotpy.functions.text.required_text import required_text

PATTERN_BYTES_MAX = 10_000
_MEMORY_BYTES_MAX = 64 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """Byte strings that a text must have one behind another, the first at its start and the last at its end if
    `anchors` (kernels.text.substring_search.ANCHOR_*) say so. `is_all`: a text with them matches, so that no regular
    expression is needed. `leads`: every match begins with the first.
    """

    data: NDArray[np.uint8]
    offsets: Int64Array
    anchors: int
    is_all: bool
    leads: bool = False

    @staticmethod
    def of(
        parts: Sequence[str], *, start: bool, end: bool, is_all: bool, ignore_case: bool, leads: bool = False
    ) -> Pieces | None:
        """None if what they match in either case is not known."""
        anchors = int(start) + 2 * int(end)
        if ignore_case:
            text = "".join(parts).lower()
            if not text.isascii():
                return None
            parts, anchors = [part.lower() for part in parts], anchors + 4 + 8 * (not set("ks").isdisjoint(text))
        encoded = [part.encode() for part in parts]
        offsets = np.zeros(len(encoded) + 1, np.int64)
        np.cumsum([len(part) for part in encoded], out=offsets[1:])
        return Pieces(np.frombuffer(b"".join(encoded) or b"\0", np.uint8), offsets, anchors, is_all, leads)

    def words(self) -> tuple[int, int, int, int]:
        """Addresses of bytes and offsets, number of pieces, anchors: the words W_PIECES … W_ANCHORS of a search
        (kernels/text/substring_search.py).
        """
        return self.data.ctypes.data, self.offsets.ctypes.data, len(self.offsets) - 1, self.anchors


@dataclass(frozen=True, slots=True)
class TextPattern:
    """A checked pattern in RE2's spelling; matches anywhere in the text (LIKE has anchors inside).

    pieces: literal bytes that a matching text has, if that is known.
    """

    regex: str
    pieces: Pieces | None = field(default=None, compare=False)

    def matches(self, texts: pa.Array) -> NDArray[np.bool_]:
        """Whether each text matches, shape (len(texts),); `texts` string or large_string without nulls."""
        matched = pc.match_substring_regex(texts, self.regex)
        return np.asarray(matched.to_numpy(zero_copy_only=False), np.bool_)

    def matches_one(self, text: str) -> bool:
        return bool(self.matches(pa.array([text], pa.string()))[0])

    @property
    def num_groups(self) -> int:
        """How many groups in brackets the pattern has."""
        return int(_compiled(self.regex).groups)

    def extract(self, text: str, group: int) -> str | None:
        """What a group (0: all) of the first match has; None without a match, or if the group took no part in it."""
        match = _compiled(self.regex).search(text)
        return None if match is None else match.group(group)


@lru_cache(maxsize=512)
def regexp_pattern(pattern: str, *, ignore_case: bool) -> TextPattern:
    """Pattern of REGEXP_LIKE; raises QueryExecutionError (200) for what RE2 does not take."""
    # A flag group at the front holds for all that follows, up to a `(?-i)` of the pattern's own.
    return _checked("(?i)" + pattern if ignore_case else pattern, pattern)


@lru_cache(maxsize=512)
def like_pattern(pattern: str, *, ignore_case: bool, escape: str = "\\") -> TextPattern:
    """Pattern of LIKE: `%` any text, `_` one code point, `escape` takes the next character as it is; newlines are
    text.
    """
    parts = []
    literal = [""]  # texts between %
    wildcards = 0  # _
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            following = next(characters, None)
            literal[-1] += character if following is None else following
            parts.append(re2.escape(character if following is None else following))
        elif character == "%":
            literal.append("")
            parts.append(".*")
        elif character == "_":
            wildcards += 1
            parts.append(".")
        else:
            literal[-1] += character
            parts.append(re2.escape(character))
    flags = "(?si)" if ignore_case else "(?s)"
    regex = f"{flags}\\A(?:{''.join(parts)})\\z"
    if wildcards or len(literal) == 1:
        return _checked(regex, pattern)
    known = Pieces.of(
        [part for part in literal if part],
        start=bool(literal[0]),
        end=bool(literal[-1]),
        is_all=True,
        ignore_case=ignore_case,
    )
    return _checked(regex, pattern, known)


@lru_cache(maxsize=512)
def literal_pattern(text: str, *, start: bool = False, end: bool = False) -> TextPattern:
    """Pattern of texts that have `text`: anywhere, at their start or at their end."""
    regex = ("\\A" if start else "") + str(re2.escape(text)) + ("\\z" if end else "")
    return _checked(
        regex,
        text,
        Pieces.of(
            [text] if text else [], start=bool(start and text), end=bool(end and text), is_all=True, ignore_case=False
        ),
    )


def _required_pieces(regex: str) -> Pieces | None:
    """What whatever matches a pattern has; None if nothing is known."""
    tree = parse_regex(regex)
    if tree is None:
        return None
    known = required_text(tree)
    if not known.parts:
        return None
    return Pieces.of(
        known.parts, start=known.start, end=known.end, is_all=known.is_all, ignore_case=known.fold, leads=known.leads
    )


@lru_cache(maxsize=512)
def _compiled(regex: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY_BYTES_MAX
    return re2.compile(regex, options=options)


def _checked(regex: str, written: str, pieces: Pieces | None = None) -> TextPattern:
    if len(written.encode()) > PATTERN_BYTES_MAX:
        raise QueryExecutionError(
            f"a pattern may have at most {PATTERN_BYTES_MAX} bytes, found {len(written.encode())}: shorten it"
        )
    try:
        _compiled(regex)
    except re2.error as error:
        cause = error.args[0] if error.args else "it is malformed"
        text = cause.decode(errors="replace") if isinstance(cause, bytes) else str(cause)
        raise QueryExecutionError(
            f"the pattern '{written[:200]}' cannot be used: {text} (patterns are RE2: no look-around, no "
            "back-references)"
        ) from error
    return TextPattern(regex, _required_pieces(regex) if pieces is None else pieces)
