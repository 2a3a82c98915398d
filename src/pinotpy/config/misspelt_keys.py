"""Keys that are most likely meant for another: one or two letters from a key of the same object, and no key of Pinot.

An unknown key is kept and reported, since other releases have keys that this one does not. A misspelt one would be kept
as well, and whoever wrote it would wait for its effect: it is a fault, with its path and the key that is meant.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import islice
from typing import Any, Final

from pydantic import BaseModel

from pinotpy.config.document import FAULTS_MAX, Document, child_path
from pinotpy.config.pinot_keys import OTHER_KEYS
from pinotpy.errors import Fault

DISTANCE_MAX: Final = 2
# Two of four letters are half of a word: `note` is not meant for `name`.
_SHORT_KEY_LETTERS: Final = 4


def misspelt_keys(model: type[Document], raw: Any, path: str = "$") -> list[Fault]:
    """The faults of a document as it was written, before anything is taken out of it; at most FAULTS_MAX."""
    return list(islice(_faults(model, raw, path, _keys_below(model) | OTHER_KEYS), FAULTS_MAX))


def meant_key(key: str, known: Iterable[str]) -> str | None:
    """The known key that is nearest, if it is one or two letters away: missing, added, other, or exchanged with their
    neighbour. Of a known key of up to four letters one letter may differ.
    """
    best: tuple[int, str] | None = None
    for candidate in known:
        allowed = 1 if len(candidate) <= _SHORT_KEY_LETTERS else DISTANCE_MAX
        if abs(len(candidate) - len(key)) > allowed or len(set(key) ^ set(candidate)) > 2 * allowed:
            continue
        distance = letters_apart(key, candidate)
        if distance <= allowed and (best is None or distance < best[0]):
            best = distance, candidate
    return None if best is None else best[1]


def letters_apart(one: str, other: str) -> int:
    """The number of letters to delete, insert, replace or exchange with their neighbour until both are equal (optimal
    string alignment).
    """
    before_last: list[int] = []
    last = list(range(len(other) + 1))
    for row, letter in enumerate(one, 1):
        current = [row]
        for column, beside in enumerate(other, 1):
            cost = min(last[column] + 1, current[-1] + 1, last[column - 1] + (letter != beside))
            if row > 1 and column > 1 and letter == other[column - 2] and one[row - 2] == beside:
                cost = min(cost, before_last[column - 2] + 1)
            current.append(cost)
        before_last, last = last, current
    return last[-1]


def _faults(model: type[BaseModel], raw: Any, path: str, elsewhere: frozenset[str]) -> Iterator[Fault]:
    if not isinstance(raw, dict):
        return
    fields = {field.alias or name: field.annotation for name, field in model.model_fields.items()}
    by_name = {name: field.annotation for name, field in model.model_fields.items()}
    for key, value in raw.items():
        if key in fields or key in by_name:
            yield from _faults_within(fields.get(key, by_name.get(key)), value, child_path(path, key), elsewhere)
        elif key not in elsewhere and (meant := meant_key(key, fields)) is not None:
            yield Fault(child_path(path, key), f"the unknown key '{key}'", f"the key '{meant}'")


def _faults_within(annotation: Any, value: Any, path: str, elsewhere: frozenset[str]) -> Iterator[Fault]:
    """Follows a value and its type to the objects within."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield from _faults(annotation, value, path, elsewhere)
    elif origin is typing.Annotated:
        yield from _faults_within(arguments[0], value, path, elsewhere)
    elif origin in (typing.Union, types.UnionType):
        for argument in arguments:
            yield from _faults_within(argument, value, path, elsewhere)
    elif origin is tuple and isinstance(value, list):
        for index, item in enumerate(value):
            yield from _faults_within(arguments[0], item, child_path(path, index), elsewhere)
    elif origin is dict and isinstance(value, dict):
        for key, item in value.items():
            yield from _faults_within(arguments[1], item, child_path(path, str(key)), elsewhere)


@cache
def _keys_below(model: type[BaseModel]) -> frozenset[str]:
    """All keys of a model and of the models within: a key of one section, written into another, is not misspelt."""
    keys = {field.alias or name for name, field in model.model_fields.items()}
    for field in model.model_fields.values():
        for within in _models_of(field.annotation):
            keys |= _keys_below(within)
    return frozenset(keys)


def _models_of(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from _models_of(argument)
