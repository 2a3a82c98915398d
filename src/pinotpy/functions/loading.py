"""How a process finds user functions: in installed packages, by entry points, and in its operator's list.

A package announces functions in the group `pinotpy.functions`:

    [project.entry-points."pinotpy.functions"]
    distance = "geo_functions:distance"

An operator's list has `module:function` (imported), or the plain name of a function that an installed package must
announce. The list comes from the daemon's own configuration; neither a table nor a request ever names a module. What is
listed and not there, cannot be imported, or contradicts its own example is a fault at start, and all faults are told at
once.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterator, Sequence
from importlib import metadata
from typing import Any, Final

from pinotpy.errors import Fault, InvalidConfigError, PinotError
from pinotpy.functions.user.user_functions import UserFunction
from pinotpy.pql.function_names import canonical_function

_log = logging.getLogger(__name__)

ENTRY_POINT_GROUP: Final = "pinotpy.functions"
_ALLOWED: Final = "a function decorated with pinotpy.functions.udf, as module:function"


def load_user_functions(listed: Sequence[str] = ()) -> tuple[UserFunction, ...]:
    """Find the user functions of this process and make them known; those that are known stay.

    Args:
        listed: the operator's list: `module:function`, or names of functions that installed packages announce.

    Returns: those found, each once, by name.

    Raises:
        InvalidConfigError: with every function that is missing, broken or has a name that is taken.
    """
    faults: list[Fault] = []
    by_name: dict[str, tuple[UserFunction, str]] = {}  # canonical name → function, where it was found
    for function, place in (*_announced(faults), *_imported(listed, faults)):
        known, first_place = by_name.setdefault(function.name, (function, place))
        if known is not function:
            faults.append(
                Fault(
                    place,
                    f"a second function called '{function.spelling}'",
                    f"one of this name; the other is {first_place}",
                )
            )
    for name in listed:
        if ":" not in name and canonical_function(name) not in by_name:
            announced = ", ".join(sorted(function.spelling for function, _ in by_name.values())) or "none"
            faults.append(
                Fault(
                    f"'{name}'",
                    "no installed package that announces it",
                    f"one of the announced functions ({announced}), or module:function",
                )
            )
    for function, place in by_name.values():
        try:
            _add(function)
        except PinotError as error:
            faults.append(Fault(place, error.message, "a function that can be loaded"))
    if faults:
        raise InvalidConfigError("user functions cannot be loaded:", tuple(faults))
    functions = tuple(sorted((function for function, _ in by_name.values()), key=lambda function: function.name))
    if functions:
        _log.info("user functions loaded functions=%s", ",".join(function.spelling for function in functions))
    return functions


def _add(function: UserFunction) -> None:
    # Arrow is imported only where there is a function: a controller has no other use for its 50 MB.
    from pinotpy.functions.scalar import spec
    from pinotpy.functions.user.user_function_adapter import check_example, scalar_function

    known = spec.user_functions().get(function.name)
    if known is not None and known.origin is function:
        return
    check_example(function)
    spec.add_user_function(scalar_function(function))


def _announced(faults: list[Fault]) -> Iterator[tuple[UserFunction, str]]:
    for point in metadata.entry_points(group=ENTRY_POINT_GROUP):
        package = f" of {point.dist.name} {point.dist.version}" if point.dist is not None else ""
        place = f"entry point '{point.name} = {point.value}'{package}"
        try:
            loaded = point.load()
        except (
            Exception,
            SystemExit,
        ) as error:  # a module's own code runs here: whatever it raises is its operator's to know
            faults.append(Fault(place, f"{type(error).__name__}: {error}", _ALLOWED))
            continue
        yield from _checked(loaded, place, faults)


def _imported(listed: Sequence[str], faults: list[Fault]) -> Iterator[tuple[UserFunction, str]]:
    for name in listed:
        if ":" not in name:
            continue
        module, _, attributes = name.partition(":")
        place = f"'{name}'"
        try:
            loaded: Any = importlib.import_module(module.strip())
            for attribute in attributes.strip().split("."):
                loaded = getattr(loaded, attribute)
        except (Exception, SystemExit) as error:  # as above
            faults.append(Fault(place, f"{type(error).__name__}: {error}", _ALLOWED))
            continue
        yield from _checked(loaded, place, faults)


def _checked(loaded: Any, place: str, faults: list[Fault]) -> Iterator[tuple[UserFunction, str]]:
    if isinstance(loaded, UserFunction):
        yield loaded, place
    else:
        faults.append(Fault(place, f"a {type(loaded).__name__}", _ALLOWED))
