"""From a pattern's tree to an automaton of bytes that kernels run over texts (kernels/text/byte_automaton.py).

Every byte of the pattern is a *position* with the set of bytes that it takes (Glushkov's construction); the automaton
is made from sets of positions. A pattern matches anywhere in the text: positions that a match may begin with are tried
at every byte, unless it begins with an anchor.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pinotpy.functions.text.regex_syntax import (
    LAST_CHARACTER,
    Begin,
    Characters,
    Choice,
    End,
    Node,
    Opaque,
    Repeat,
    Sequence,
    parse_regex,
)
from pinotpy.kernels.text import byte_automaton as kernels

POSITIONS_MAX: Final = 512
STATES_MAX: Final = 2048


@dataclass(frozen=True, slots=True, eq=False)
class Automaton:
    """A deterministic automaton of bytes.

    classes: uint8[256], the class of every byte; the class behind the last is the end of the text.
    table: uint32[num_states * stride]: at state + class the next state. States are multiples of `stride` (classes + 1):
    0 has failed, `stride` has matched, twice `stride` is where a text begins.
    """

    classes: NDArray[np.uint8]
    table: NDArray[np.uint32]
    stride: int


class _Unsupported(Exception):
    """The pattern has no automaton here."""


@lru_cache(maxsize=64)
def automaton_of(regex: str) -> Automaton | None:
    """The automaton of a pattern that RE2 takes; None if it has something that automata here do not follow, or becomes
    too large.
    """
    tree = parse_regex(regex)
    if tree is None:
        return None
    try:
        return _Positions(tree).determined()
    except _Unsupported:
        return None


# --- characters as bytes ----------------------------------------------------------------------------------------------

_BORDERS: Final = (0x7F, 0x7FF, 0xFFFF)
# All characters beyond ASCII, as RE2 takes them: more than UTF-8 has, which no text shows, in fewer steps.
_BEYOND_ASCII: Final = (
    ((0xC2, 0xDF), (0x80, 0xBF)),
    ((0xE0, 0xEF), (0x80, 0xBF), (0x80, 0xBF)),
    ((0xF0, 0xF4), (0x80, 0xBF), (0x80, 0xBF), (0x80, 0xBF)),
)


def _byte_ranges(low: int, high: int) -> Iterator[tuple[tuple[int, int], ...]]:
    """UTF-8 of the characters low..high: sequences of ranges of bytes."""
    if (low, high) == (0x80, LAST_CHARACTER):
        yield from _BEYOND_ASCII
        return
    for border in _BORDERS:
        if low <= border < high:
            yield from _byte_ranges(low, border)
            yield from _byte_ranges(border + 1, high)
            return
    if high > 0x7F:
        for i in (1, 2, 3):
            rest = (1 << (6 * i)) - 1
            if low & ~rest != high & ~rest:
                cut = low | rest if low & rest else (high & ~rest) - 1 if high & rest != rest else None
                if cut is not None:
                    yield from _byte_ranges(low, cut)
                    yield from _byte_ranges(cut + 1, high)
                    return
    yield tuple(zip(chr(low).encode("utf-8", "surrogatepass"), chr(high).encode("utf-8", "surrogatepass"), strict=True))


def _mask(low: int, high: int) -> int:
    """A set of bytes as 256 bits."""
    return (1 << (high + 1)) - (1 << low)


# --- positions --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Part:
    """Of a part of a pattern: whether it matches nothing at all, and the positions (bits) it may begin and end with."""

    nullable: bool
    first: int
    last: int


_NOTHING: Final = _Part(True, 0, 0)


class _Positions:
    """The positions of a pattern, what may follow each, and where matches begin and end."""

    def __init__(self, tree: Node) -> None:
        self._bytes: list[int] = []
        self._follow: list[int] = []
        self._begin = self._anywhere = self._end = self._end_of_text = 0
        self._always = self._empty = False
        for branch in _branches(tree):
            self._add_branch(list(branch))

    def _add_branch(self, parts: list[Node]) -> None:
        is_begin, is_end = bool(parts) and isinstance(parts[0], Begin), bool(parts) and isinstance(parts[-1], End)
        positions = self._sequence(parts[int(is_begin) : len(parts) - int(is_end)])
        self._begin |= positions.first
        if not is_begin:
            self._anywhere |= positions.first
        if is_end:
            self._end_of_text |= positions.last
        else:
            self._end |= positions.last
        if positions.nullable:
            self._always |= not (is_begin and is_end)
            self._empty = True

    def _add(self, node: Node) -> _Part:
        match node:
            case Characters():
                return self._characters(node)
            case Sequence(parts=parts):
                return self._sequence(parts)
            case Choice(branches=branches):
                branch_positions = [self._add(branch) for branch in branches]
                first = last = 0
                for one in branch_positions:
                    first, last = first | one.first, last | one.last
                return _Part(any(one.nullable for one in branch_positions), first, last)
            case Repeat():
                return self._repeat(node)
            case Begin() | End() | Opaque():
                raise _Unsupported

    def _characters(self, node: Characters) -> _Part:
        first = last = single = 0
        for low, high in node.ranges:
            for steps in _byte_ranges(low, high):
                if len(steps) == 1:
                    single |= _mask(*steps[0])
                    continue
                before = 0
                for step in steps:
                    position = self._position(_mask(*step))
                    first |= 0 if before else position
                    self._connect(before, position)
                    before = position
                last |= before
        if single:
            position = self._position(single)
            first, last = first | position, last | position
        return _Part(False, first, last)

    def _position(self, taken: int) -> int:
        if len(self._bytes) == POSITIONS_MAX:
            raise _Unsupported
        self._bytes.append(taken)
        self._follow.append(0)
        return 1 << (len(self._bytes) - 1)

    def _connect(self, last: int, first: int) -> None:
        while last:
            position = last & -last
            self._follow[position.bit_length() - 1] |= first
            last ^= position

    def _sequence(self, parts: list[Node] | tuple[Node, ...]) -> _Part:
        whole = _NOTHING
        for part in parts:
            whole = self._joined(whole, self._add(part))
        return whole

    def _joined(self, left: _Part, right: _Part) -> _Part:
        self._connect(left.last, right.first)
        first = left.first | right.first if left.nullable else left.first
        last = left.last | right.last if right.nullable else right.last
        return _Part(left.nullable and right.nullable, first, last)

    def _repeat(self, node: Repeat) -> _Part:
        whole = _NOTHING
        for _ in range(node.least - int(node.most is None and node.least > 0)):
            whole = self._joined(whole, self._add(node.part))
        if node.most is None:
            one = self._add(node.part)
            self._connect(one.last, one.first)
            return self._joined(whole, one if node.least else _Part(True, one.first, one.last))
        # Every further time is possible only behind the one before: (x(x)?)?
        rest = _NOTHING
        for _ in range(node.most - node.least):
            inside = self._joined(self._add(node.part), rest)
            rest = _Part(True, inside.first, inside.last)
        return self._joined(whole, rest)

    def determined(self) -> Automaton | None:
        """The automaton; None if it has too many states."""
        start = len(self._bytes)  # one position more: before the text
        num_words = (start + 64) // 64
        follow = _bit_rows([*self._follow, self._begin], num_words)
        taken = np.unpackbits(_bit_rows(self._bytes, 4).view(np.uint8), axis=1, bitorder="little")  # [positions, 256]
        by_byte = np.zeros((256, num_words * 64), np.uint8)
        by_byte[:, :start] = taken.T
        takers = np.packbits(by_byte, axis=1, bitorder="little")  # [256, positions as bits]
        # Bytes that the same positions take are of one class.
        numbers: dict[bytes, int] = {}
        classes = [numbers.setdefault(row, len(numbers)) for row in takers.view(f"V{takers.shape[1]}").ravel().tolist()]
        stride = len(numbers) + 1
        if stride > 256:
            return None
        members = np.frombuffer(b"".join(numbers), np.uint64).reshape(stride - 1, num_words).copy()
        ends = _bit_rows([self._anywhere, self._end, self._end_of_text | (int(self._empty) << start)], num_words)
        begin = np.zeros((1, num_words), np.uint64)
        begin[0, start // 64] = np.uint64(1) << np.uint64(start % 64)
        table = np.zeros((STATES_MAX, stride), np.uint32)
        count = kernels.determine(follow, members, ends, begin[0], table)
        if count < 0:
            return None
        if self._always:
            table[2] = stride
        return Automaton(np.array(classes, np.uint8), table[:count].ravel().copy(), stride)


def _bit_rows(rows: list[int], num_words: int) -> NDArray[np.uint64]:
    """Sets of bits as words, uint64[len(rows), num_words]."""
    return (
        np.frombuffer(b"".join(row.to_bytes(num_words * 8, "little") for row in rows), np.uint64)
        .reshape(len(rows), num_words)
        .copy()
    )


def _branches(tree: Node) -> Iterator[tuple[Node, ...]]:
    """The branches of a pattern, each as a sequence whose anchors are at its ends, if anchors are nowhere else."""
    parts = tree.parts if isinstance(tree, Sequence) else (tree,)
    while len(parts) == 1 and isinstance(parts[0], Sequence):
        parts = parts[0].parts
    if len(parts) == 1 and isinstance(parts[0], Choice):
        for branch in parts[0].branches:
            yield from _branches(branch)
    else:
        yield parts
