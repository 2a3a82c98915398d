"""Regular expressions as trees: the part of RE2's syntax that automata of bytes and literal searches are made from.

What is outside of it (word boundaries, properties of Unicode, other case of letters beyond ASCII, anchors of lines) is
`Opaque` where only a character or a place is unknown; a pattern that is not understood as a whole has no tree. Patterns
have been checked by RE2 before, so that nothing here refuses any; greedy and lazy repetitions match the same texts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Union

Range = tuple[int, int]
LAST_CHARACTER: Final = 0x10FFFF
_DEPTH_MAX: Final = 40


@dataclass(frozen=True, slots=True)
class Characters:
    """One character of these code points: ranges, both ends included, ascending and apart.

    literal: the character as written, in lower case if `fold`; None for classes.
    """

    ranges: tuple[Range, ...]
    literal: str | None = None
    fold: bool = False


@dataclass(frozen=True, slots=True)
class Sequence:
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    branches: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """From `least` to `most` (None: any number) times."""

    part: Node
    least: int
    most: int | None


@dataclass(frozen=True, slots=True)
class Begin:
    """The beginning of the text."""


@dataclass(frozen=True, slots=True)
class End:
    """The end of the text."""


@dataclass(frozen=True, slots=True)
class Opaque:
    """Something that is not followed here."""


Node = Union[Characters, Sequence, Choice, Repeat, Begin, End, Opaque]


class _Unknown(Exception):
    """The pattern has something that this parser does not read."""


def parse_regex(regex: str) -> Node | None:
    """The tree of a pattern that RE2 takes; None if it cannot be read."""
    parser = _Parser(regex)
    try:
        tree = parser.choice(0, frozenset())
    except _Unknown:
        return None
    return tree if parser.at == len(regex) else None


# --- sets of characters -----------------------------------------------------------------------------------------------

_DIGITS: Final[tuple[Range, ...]] = ((0x30, 0x39),)
_WORDS: Final[tuple[Range, ...]] = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
_SPACES: Final[tuple[Range, ...]] = ((0x09, 0x0A), (0x0C, 0x0D), (0x20, 0x20))
_CLASSES: Final = {"d": _DIGITS, "w": _WORDS, "s": _SPACES}
_CONTROLS: Final = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13, "a": 7}
_FOLDED: Final = {"k": 0x212A, "s": 0x017F}  # letters whose third form lies beyond ASCII
_NAMED: Final = {
    "alnum": ((0x30, 0x39), (0x41, 0x5A), (0x61, 0x7A)),
    "alpha": ((0x41, 0x5A), (0x61, 0x7A)),
    "digit": _DIGITS,
    "lower": ((0x61, 0x7A),),
    "upper": ((0x41, 0x5A),),
    "word": _WORDS,
    "xdigit": ((0x30, 0x39), (0x41, 0x46), (0x61, 0x66)),
}
# A number with a zero before it counts nothing: RE2 reads `{01}` as text.
_COUNTED: Final = re.compile(r"\{(0|[1-9][0-9]{0,3})(?:(,)(0|[1-9][0-9]{0,3})?)?\}")
_FLAGS: Final = re.compile(r"\?([imsU]*)(?:-([imsU]+))?([:)])")
_NAME: Final = re.compile(r"\?P?<\w+>")


def _merged(ranges: list[Range]) -> tuple[Range, ...]:
    merged: list[Range] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(high, merged[-1][1])
        else:
            merged.append((low, high))
    return tuple(merged)


def _inverted(ranges: tuple[Range, ...]) -> tuple[Range, ...]:
    gaps, first = [], 0
    for low, high in ranges:
        if first < low:
            gaps.append((first, low - 1))
        first = high + 1
    if first <= LAST_CHARACTER:
        gaps.append((first, LAST_CHARACTER))
    return tuple(gaps)


def _with_other_case(ranges: tuple[Range, ...]) -> tuple[Range, ...]:
    """The same with both cases of ASCII letters; raises _Unknown for characters beyond."""
    if ranges and ranges[-1][1] > 0x7F:
        raise _Unknown
    both_cases = list(ranges)
    for low, high in ranges:
        for first, last, shift in ((0x41, 0x5A, 0x20), (0x61, 0x7A, -0x20)):
            if max(low, first) <= min(high, last):
                both_cases.append((max(low, first) + shift, min(high, last) + shift))
    both = _merged(both_cases)
    beyond = [(code, code) for letter, code in _FOLDED.items() if any(low <= ord(letter) <= high for low, high in both)]
    return _merged([*both, *beyond])


# --- the parser -------------------------------------------------------------------------------------------------------

Flags = frozenset[str]


class _Parser:
    def __init__(self, regex: str) -> None:
        self.at = 0
        self._regex = regex

    def _peek(self) -> str:
        return self._regex[self.at] if self.at < len(self._regex) else ""

    def choice(self, depth: int, flags: Flags) -> Node:
        """Branches up to a closing bracket or the end. Flags set within it hold for all that follows in it."""
        if depth > _DEPTH_MAX:
            raise _Unknown
        branches: list[Node] = []
        parts: list[Node] = []
        while self._peek() not in ("", ")"):
            character = self._peek()
            if character == "|":
                self.at += 1
                branches.append(Sequence(tuple(parts)))
                parts = []
                continue
            if character == "(" and (group := _FLAGS.match(self._regex, self.at + 1)) is not None:
                self.at = group.end()
                changed = (flags | frozenset(group[1])) - frozenset(group[2] or "")
                if group[3] == ")":
                    flags = changed
                    continue
                parts.append(self._repeated(self._group(depth, changed)))
                continue
            parts.append(self._repeated(self._atom(depth, flags)))
        branches.append(Sequence(tuple(parts)))
        return branches[0] if len(branches) == 1 else Choice(tuple(branches))

    def _group(self, depth: int, flags: Flags) -> Node:
        inside = self.choice(depth + 1, flags)
        if self._peek() != ")":
            raise _Unknown
        self.at += 1
        return inside

    def _repeated(self, node: Node) -> Node:
        while True:
            character = self._peek()
            if character and character in "*+?":
                self.at += 1
                node = Repeat(node, int(character == "+"), 1 if character == "?" else None)
            elif character == "{" and (counts := _COUNTED.match(self._regex, self.at)) is not None:
                self.at = counts.end()
                least = int(counts[1])
                node = Repeat(node, least, None if counts[2] and not counts[3] else int(counts[3] or least))
            else:
                return node
            if self._peek() == "?":  # lazy
                self.at += 1

    def _atom(self, depth: int, flags: Flags) -> Node:
        character = self._peek()
        self.at += 1
        if character == "(":
            if self._peek() == "?":
                named = _NAME.match(self._regex, self.at)
                if named is None:
                    raise _Unknown
                self.at = named.end()
            return self._group(depth, flags)
        if character == "[":
            return self._class(flags)
        if character == ".":
            return Characters(((0, LAST_CHARACTER),) if "s" in flags else _inverted(((10, 10),)))
        if character in "^$":
            return Opaque() if "m" in flags else Begin() if character == "^" else End()
        if character in "?*+":
            raise _Unknown
        if character != "\\":
            return _literal(ord(character), flags)
        return self._escaped(flags)

    def _escaped(self, flags: Flags) -> Node:
        following = self._peek()
        self.at += 1
        if following.lower() in _CLASSES and following:
            return _characters(self._perl_class(following, flags))
        if following == "A":
            return Begin()
        if following == "z":
            return End()
        if following in ("b", "B"):
            return Opaque()
        code = self._escaped_code(following)
        return _literal(code, flags)

    def _escaped_code(self, following: str) -> int:
        """The character behind a backslash, of which `following` is read."""
        if following in _CONTROLS:
            return _CONTROLS[following]
        if following.isascii() and following and not following.isalnum():
            return ord(following)
        if following == "x":
            digits = re.compile(r"([0-9a-fA-F]{2})|\{([0-9a-fA-F]{1,6})\}").match(self._regex, self.at)
            if digits is not None:
                self.at = digits.end()
                return int(digits[1] or digits[2], 16)
        raise _Unknown

    def _perl_class(self, letter: str, flags: Flags) -> tuple[Range, ...]:
        ranges = _CLASSES[letter.lower()]
        if "i" in flags:
            ranges = _with_other_case(ranges)
        return _inverted(ranges) if letter.isupper() else ranges

    def _class(self, flags: Flags) -> Node:
        """What stands behind [."""
        negated = self._peek() == "^"
        self.at += int(negated)
        ranges: list[Range] = []
        first = True
        while first or self._peek() != "]":
            first = False
            character = self._peek()
            if character == "":
                raise _Unknown
            if self._regex.startswith("[:", self.at):
                ranges += self._named_class(flags)
                continue
            if character == "\\" and self._regex[self.at + 1 : self.at + 2].lower() in tuple(_CLASSES):
                ranges += self._perl_class(self._regex[self.at + 1], flags)
                self.at += 2
                continue
            low = high = self._class_code()
            if self._peek() == "-" and self._regex[self.at + 1 : self.at + 2] not in ("]", ""):
                self.at += 1
                high = self._class_code()
            if low > high:
                raise _Unknown
            ranges += _with_other_case(((low, high),)) if "i" in flags else ((low, high),)
        self.at += 1
        merged = _merged(ranges)
        return _characters(_inverted(merged) if negated else merged)

    def _class_code(self) -> int:
        character = self._peek()
        self.at += 1
        if character != "\\":
            if character == "":
                raise _Unknown
            return ord(character)
        following = self._peek()
        self.at += 1
        return self._escaped_code(following)

    def _named_class(self, flags: Flags) -> tuple[Range, ...]:
        end = self._regex.find(":]", self.at)
        name = self._regex[self.at + 2 : end] if end > 0 else ""
        ranges = _NAMED.get(name.removeprefix("^"))
        if ranges is None:
            raise _Unknown
        self.at = end + 2
        if "i" in flags:
            ranges = _with_other_case(ranges)
        return _inverted(ranges) if name.startswith("^") else ranges


def _characters(ranges: tuple[Range, ...]) -> Characters:
    return Characters(ranges)


def _literal(code: int, flags: Flags) -> Node:
    character = chr(code)
    if "i" not in flags:
        return Characters(((code, code),), character)
    if code > 0x7F:
        return Opaque()
    return Characters(_with_other_case(((code, code),)), character.lower(), fold=True)
