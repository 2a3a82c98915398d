"""JSON paths: `$.a.b[0]['c'][*]..d[?(@.n > 1)]`, compiled once and followed through parsed documents.

What there is of Jayway's JsonPath, which the reference uses: fields (`.a`, `['a','b']`), indexes (`[0]`, `[-1]`,
`[0,2]`, `[1:3]`), wildcards (`.*`, `[*]`), recursive descent (`..a`, `..*`) and filters that compare a field of the
element with a constant or ask for it. A path is **definite** if it can lead to one value only; that value is the
answer, or MISSING. Any other path gives a list.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, NoReturn

from pinotpy.errors import InvalidQueryError

MISSING: Final = object()
STEPS_MAX: Final = 64
VALUES_MAX: Final = 100_000  # places that one path may lead to in one document

Place = tuple[str, Any]  # $['a'][0], and the value there
Step = Callable[[str, Any], Iterator[Place]]

_NAME = re.compile(r"[^.\[\]()?@'\",:\s*$]+")
_QUOTED = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_FIELDS = re.compile(rf"\[\s*((?:{_QUOTED})(?:\s*,\s*(?:{_QUOTED}))*)\s*\]")
_INDEXES = re.compile(r"\[\s*(-?\d{1,9}(?:\s*,\s*-?\d{1,9})*)\s*\]")
_SLICE = re.compile(r"\[\s*+(-?\d{1,9})?\s*+:\s*+(-?\d{1,9})?\s*+\]")  # possessive: a path may be of a million blanks
_ALL = re.compile(r"\[\s*\*\s*\]")
_NUMBER = r"-?(?:0|[1-9][0-9]{0,99})(?:\.[0-9]{1,99})?(?:[eE][+-]?[0-9]{1,3})?"  # as JSON has them
_FILTER = re.compile(
    rf"\[\s*\?\s*\(\s*@((?:\.[^.\[\]()?@'\",:\s*$=<>!]+|\[(?:{_QUOTED})\])*)\s*(?:(==|!=|<=|>=|<|>)\s*({_QUOTED}|{_NUMBER}|true|false|null)\s*)?\)\s*\]"
)
_ORDER: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": lambda a, b: bool(a < b),
    "<=": lambda a, b: bool(a <= b),
    ">": lambda a, b: bool(a > b),
    ">=": lambda a, b: bool(a >= b),
}


@dataclass(frozen=True, slots=True)
class JsonPath:
    """A compiled path."""

    text: str
    steps: tuple[Step, ...]
    is_definite: bool

    def find(self, document: Any) -> Any:
        """The value, or MISSING, of a definite path; the list of values of any other."""
        values = [value for _, value in self.places(document)]
        if self.is_definite:
            return values[0] if values else MISSING
        return values

    def places(self, document: Any) -> list[Place]:
        """Where the path leads: `$['a'][0]` and the value there, at most VALUES_MAX; in the order of the document."""
        places: list[Place] = [("$", document)]
        for step in self.steps:
            following: list[Place] = []
            for place, value in places:
                following.extend(step(place, value))
                if len(following) > VALUES_MAX:
                    raise InvalidQueryError(
                        f"the JSON path '{self.text[:80]}' leads to more than {VALUES_MAX} places in one document: "
                        "narrow it"
                    )
            places = following
        return places


@lru_cache(maxsize=512)
def compile_json_path(text: str) -> JsonPath:
    """Compile a path, with or without `$` in front; raises InvalidQueryError with the place of a fault."""
    position = 1 if text.startswith("$") else 0
    rest = text if position or text.startswith(("[", ".")) else "." + text
    steps: list[Step] = []
    is_definite = True
    while position < len(rest):
        step, is_single, following = _step(rest, position)
        steps.append(step)
        is_definite &= is_single
        position = following
        if len(steps) > STEPS_MAX:
            raise InvalidQueryError(f"expected at most {STEPS_MAX} steps in a JSON path, found more: '{text[:80]}'")
    return JsonPath(text, tuple(steps), is_definite)


def _step(text: str, position: int) -> tuple[Step, bool, int]:
    """The step that begins at a position, whether it leads to one place only, and where the next begins."""
    if text.startswith("..", position):
        if text.startswith("[", position + 2):
            inner, _, following = _step(text, position + 2)
        elif text.startswith("*", position + 2):
            inner, following = _every, position + 3
        else:
            name = _name(text, position + 2)
            inner, following = _fields((name.group(),)), name.end()
        return _below(inner), False, following
    if text.startswith(".", position):
        if text.startswith("*", position + 1):
            return _every, False, position + 2
        name = _name(text, position + 1)
        return _fields((name.group(),)), True, name.end()
    if match := _FIELDS.match(text, position):
        names = tuple(_unquoted(quoted) for quoted in re.findall(_QUOTED, match.group(1)))
        return _fields(names), len(names) == 1, match.end()
    if match := _INDEXES.match(text, position):
        indexes = tuple(int(number) for number in match.group(1).split(","))
        return _indexes(indexes), len(indexes) == 1, match.end()
    if match := _SLICE.match(text, position):
        begin, end = (None if bound is None else int(bound) for bound in match.groups())
        return _slice(begin, end), False, match.end()
    if match := _ALL.match(text, position):
        return _every, False, match.end()
    if match := _FILTER.match(text, position):
        return _filter(*match.groups()), False, match.end()
    _fault(text, position)


def _name(text: str, position: int) -> re.Match[str]:
    match = _NAME.match(text, position)
    if match is None:
        _fault(text, position)
    return match


def _fault(text: str, position: int) -> NoReturn:
    raise InvalidQueryError(
        f"expected a step such as .name, ['name'], [0], [*] or ..name in the JSON path '{text[:200]}' at character "
        f"{position + 1}, found '{text[position : position + 20]}'"
    )


def _unquoted(quoted: str) -> str:
    return re.sub(r"\\(.)", r"\1", quoted[1:-1])


def _child(place: str, name: str) -> str:
    return f"{place}['{name}']"


# --- steps ------------------------------------------------------------------------------------------------------------


def _fields(names: tuple[str, ...]) -> Step:
    def step(place: str, value: Any) -> Iterator[Place]:
        if isinstance(value, dict):
            for name in names:
                if name in value:
                    yield _child(place, name), value[name]

    return step


def _indexes(indexes: tuple[int, ...]) -> Step:
    def step(place: str, value: Any) -> Iterator[Place]:
        if isinstance(value, list):
            for index in indexes:
                if -len(value) <= index < len(value):
                    yield f"{place}[{index % len(value)}]", value[index]

    return step


def _slice(begin: int | None, end: int | None) -> Step:
    def step(place: str, value: Any) -> Iterator[Place]:
        if isinstance(value, list):
            for index in range(*slice(begin, end).indices(len(value))):
                yield f"{place}[{index}]", value[index]

    return step


def _every(place: str, value: Any) -> Iterator[Place]:
    if isinstance(value, dict):
        for name, child in value.items():
            yield _child(place, name), child
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield f"{place}[{index}]", child


def _below(inner: Step) -> Step:
    """`inner` of the value itself and of everything in it."""

    def step(place: str, value: Any) -> Iterator[Place]:
        waiting = [(place, value)]
        while waiting:  # not recursive: documents may nest deeply
            here = waiting.pop()
            yield from inner(*here)
            waiting.extend(reversed(list(_every(*here))))

    return step


def _filter(path: str, operator: str | None, constant: str | None) -> Step:
    inner = compile_json_path("$" + path)
    expected = None if constant is None else _unquoted(constant) if constant[0] in "'\"" else json.loads(constant)

    def holds(value: Any) -> bool:
        selected = inner.find(value)
        if operator is None or selected is MISSING:
            return selected is not MISSING
        if isinstance(selected, Decimal):
            selected = float(selected)
        are_numbers = all(isinstance(side, int | float) and not isinstance(side, bool) for side in (selected, expected))
        if operator in ("==", "!="):
            is_equal = selected == expected and (are_numbers or type(selected) is type(expected))  # 1 is not true
            return is_equal is (operator == "==")
        return (are_numbers or (isinstance(selected, str) and isinstance(expected, str))) and _ORDER[operator](
            selected, expected
        )

    def step(place: str, value: Any) -> Iterator[Place]:
        for child in _every(place, value) if isinstance(value, list) else iter(((place, value),)):
            if holds(child[1]):
                yield child

    return step
