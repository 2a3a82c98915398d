"""Keys of documents that nothing reads: unknown ones, most often misspelt, and those whose feature is not implemented
yet.

Both are kept and reported, so that nobody assumes that an accepted document has all the effects it asks for: as JSON
pointers with their values, objects and lists flattened to their leaves, as the reference's controller returns
`unrecognizedProperties`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from pydantic import BaseModel

from pinotpy.config.document import plain_value

# How the description of a key begins that is checked and kept, and that nothing reads before what it asks for is built.
NOT_YET: Final = "Not yet"


def unrecognized(model: BaseModel, pointer: str = "") -> dict[str, Any]:
    """Unknown keys below a model: JSON pointer → value (Pinot 1.5.1's form)."""
    unread: dict[str, Any] = {}
    for key, value in (model.model_extra or {}).items():
        unread.update(flatten(value, f"{pointer}/{escaped(key)}"))
    for name, field in type(model).model_fields.items():
        unread.update(_within(getattr(model, name), f"{pointer}/{escaped(field.alias or name)}", unrecognized))
    return unread


def without_effect(model: BaseModel, pointer: str = "") -> dict[str, Any]:
    """Known keys that a document gives and nothing reads yet: JSON pointer → value. Keys that ask for the default
    behaviour are not included.
    """
    unread: dict[str, Any] = {}
    for name, field in type(model).model_fields.items():
        value, field_pointer = getattr(model, name), f"{pointer}/{escaped(field.alias or name)}"
        if not (field.description or "").startswith(NOT_YET):
            unread.update(_within(value, field_pointer, without_effect))
        elif value != field.get_default(call_default_factory=True):
            unread.update(flatten(plain_value(value), field_pointer))
    return unread


def flatten(value: Any, pointer: str) -> dict[str, Any]:
    """The leaves of a JSON value by JSON pointer; an empty object or list is a leaf."""
    if isinstance(value, dict) and value:
        return {k: v for key, item in value.items() for k, v in flatten(item, f"{pointer}/{escaped(key)}").items()}
    if isinstance(value, list) and value:
        return {k: v for index, item in enumerate(value) for k, v in flatten(item, f"{pointer}/{index}").items()}
    return {pointer: value}


def escaped(key: str) -> str:
    """A key as a step of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")


def _within(value: Any, pointer: str, look: Callable[[BaseModel, str], dict[str, Any]]) -> dict[str, Any]:
    if isinstance(value, BaseModel):
        return look(value, pointer)
    pairs: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, tuple | list):
        pairs = enumerate(value)
    elif isinstance(value, dict):
        pairs = value.items()
    return {
        leaf_pointer: leaf
        for key, item in pairs
        for leaf_pointer, leaf in _within(item, f"{pointer}/{escaped(str(key))}", look).items()
    }
