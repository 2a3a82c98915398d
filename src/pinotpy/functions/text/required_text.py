"""Texts that whatever matches a pattern has, one behind another: what is looked for before an automaton or RE2 looks
closer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pinotpy.functions.text.regex_syntax import Begin, Characters, End, Node, Repeat, Sequence

_CHARACTERS_MAX: Final = 256  # of a part that is repeated
_Run = list[Characters | None]  # None: something else, or nothing, is in between


@dataclass(frozen=True, slots=True)
class RequiredText:
    """Texts in their order; start, end: the first is at the beginning, the last at the end of the text.

    leads: every match begins with the first. is_all: a text that has them matches. fold: letters are of either case.
    """

    parts: tuple[str, ...]
    start: bool
    end: bool
    leads: bool
    is_all: bool
    fold: bool


def required_text(tree: Node) -> RequiredText:
    """What every text that matches has; no parts where nothing is known."""
    top = _flat(tree)
    begins, ends = bool(top) and isinstance(top[0], Begin), bool(top) and isinstance(top[-1], End)
    run = _runs(top[int(begins) : len(top) - int(ends)])
    letters = [character for character in run if character is not None and _is_letter(character)]
    fold = any(character.fold for character in letters)
    # Of letters beyond ASCII the other case is not known here.
    known: _Run = [
        None if character is not None and fold and not (character.literal or "").isascii() else character
        for character in run
    ]
    parts, current = [], ""
    for character in [*known, None]:
        if character is not None:
            current += character.literal or ""
        elif current:
            parts.append(current)
            current = ""
    is_plain = bool(known) and None not in known and (not fold or all(character.fold for character in letters))
    first, last = bool(known) and known[0] is not None, bool(known) and known[-1] is not None
    # One text at both ends: kernels compare two.
    start, end = begins and first, ends and last and not (begins and len(parts) == 1)
    return RequiredText(
        tuple(parts), start, end, first and not begins, is_plain and (begins, ends) == (start, end), fold
    )


def _is_letter(character: Characters) -> bool:
    return character.literal is not None and character.literal.isascii() and character.literal.isalpha()


def _flat(tree: Node) -> tuple[Node, ...]:
    parts: tuple[Node, ...] = (tree,)
    while len(parts) == 1 and isinstance(parts[0], Sequence):
        parts = parts[0].parts
    if len(parts) == 3 and isinstance(parts[0], Begin) and isinstance(parts[1], Sequence) and isinstance(parts[2], End):
        return (parts[0], *parts[1].parts, parts[2])
    return parts


def _runs(parts: tuple[Node, ...]) -> _Run:
    run: _Run = []
    for part in parts:
        run += _run(part)
    return run


def _run(node: Node) -> _Run:
    match node:
        case Characters(literal=str()):
            return [node]
        case Sequence(parts=parts):
            return _runs(parts)
        case Repeat(part=part, least=least, most=most) if least > 0:
            once = _run(part)
            if least * len(once) > _CHARACTERS_MAX:
                return [*once, None]
            return once * least if least == most else [*(once * least), None]
    return [None]
