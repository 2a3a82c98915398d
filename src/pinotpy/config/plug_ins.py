"""Loading what packages announce and operators name: file systems, segment fetchers, crypters, streams."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from pinotpy.errors import InvalidConfigError


def imported(name: str) -> Any:
    """The object that `module:attribute` names."""
    module, _, attributes = name.partition(":")
    if not attributes:
        raise ValueError("expected module:attribute of a Python module")
    loaded: Any = importlib.import_module(module.strip())
    for attribute in attributes.strip().split("."):
        loaded = getattr(loaded, attribute)
    return loaded


def checked_plug_in(place: str, load: Callable[[], Any]) -> Callable[..., Any]:
    """The function or class that `load` returns. Its module's code runs here; whatever it raises becomes an
    InvalidConfigError for the operator.
    """
    try:
        loaded = load()
    except (Exception, SystemExit) as error:
        raise InvalidConfigError(f"{place} cannot be loaded: {type(error).__name__}: {error}") from error
    if not callable(loaded):
        raise InvalidConfigError(f"{place} is a {type(loaded).__name__}: expected a function or class")
    plug_in: Callable[..., Any] = loaded
    return plug_in
