"""Names of kernels: which code, of which function, for which types of arguments.

`group.direct_table.touch` is a block function, `scan.program.put(array(int64, 2, C), int64)` what numba compiles of a
function for these arguments. Names are written to lists, logs and messages, and are all that a process which compiles
gets to know. Types that have no written form here have no name: such code is compiled where it is called.
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

PACKAGE: Final = "pinotpy.kernels."


@dataclass(frozen=True, slots=True)
class Kernel:
    """module: below kernels/. types: of the arguments; None for a block function, all of which have the same."""

    module: str
    function: str
    types: str | None = None

    @property
    def short_name(self) -> str:
        """Without types, for people."""
        return f"{self.module}.{self.function}"

    def __str__(self) -> str:
        return self.short_name if self.types is None else f"{self.short_name}({self.types})"


def kernel_of(text: str) -> Kernel:
    """Inverse of str(kernel); raises ValueError if there is no module or no function in it."""
    name, parenthesis, types = text.strip().partition("(")
    module, dot, function = name.rpartition(".")
    if not dot or (parenthesis and not types.endswith(")")):
        raise ValueError(f"expected 'module.function' or 'module.function(types)', found '{text.strip()}'")
    return Kernel(module, function, types[:-1] if parenthesis else None)


def code_of(kernel: Kernel) -> tuple[Any, tuple[Any, ...] | None]:
    """What numba made of the function, and the types of its arguments (None: a block function). Imports its module.

    Raises ImportError, AttributeError, ValueError if this version of the source has no such kernel.
    """
    code = getattr(importlib.import_module(PACKAGE + kernel.module), kernel.function)
    return code, None if kernel.types is None else types_of(kernel.types)


def text_of(types: Sequence[Any]) -> str:
    """numba's types as text; raises ValueError for one that has no written form."""
    return ", ".join(map(_text, types))


def _text(given: Any) -> str:
    types = _numba_types()
    if isinstance(given, types.Literal | types.Omitted):
        word = "omitted" if isinstance(given, types.Omitted) else "literal"
        value = given.value if isinstance(given, types.Omitted) else given.literal_value
        if isinstance(value, bool | int | float) or value is None:
            return f"{word}({value!r})"
    elif isinstance(given, types.Array):
        if given.aligned:
            word = "array" if given.mutable else "readonly"
            return f"{word}({_text(given.dtype)}, {given.ndim}, {given.layout})"
    elif isinstance(given, types.BaseNamedTuple):
        return f"{given.instance_class.__name__}({', '.join(map(_text, given.types))})"
    elif isinstance(given, types.Number | types.Boolean | types.NoneType):
        return "bool_" if isinstance(given, types.Boolean) else str(given)
    raise ValueError(f"the type {given} has no written form")


def _numba_types() -> Any:
    return importlib.import_module("numba.core.types")


def types_of(text: str) -> tuple[Any, ...]:
    """Inverse of `text_of`. The text is looked at, never run."""
    try:
        call = ast.parse(f"_({text})", mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"'{text}' are no types: {error}") from error
    assert isinstance(call, ast.Call)
    return tuple(map(_type, call.args))


def _type(node: ast.expr) -> Any:
    types = _numba_types()
    if isinstance(node, ast.Name) and isinstance(getattr(types, node.id, None), types.Type):
        return getattr(types, node.id)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise ValueError(f"'{ast.unparse(node)}' is no type")
    word, arguments = node.func.id, node.args
    if word in ("literal", "omitted"):
        value = ast.literal_eval(arguments[0])
        return types.Omitted(value) if word == "omitted" else types.literal(value)
    if word in ("array", "readonly"):
        dtype, ndim, layout = arguments
        assert isinstance(layout, ast.Name)
        return types.Array(_type(dtype), ast.literal_eval(ndim), layout.id, readonly=word == "readonly")
    items = list(map(_type, arguments))
    if len(set(items)) == 1:
        return types.NamedUniTuple(items[0], len(items), _named_tuple(word))
    return types.NamedTuple(items, _named_tuple(word))


def _named_tuple(name: str) -> type:
    """Of a kernel file that is imported; whoever takes one imports its class."""
    for module in [found for known, found in list(sys.modules.items()) if known.startswith(PACKAGE)]:
        found = getattr(module, name, None)
        if isinstance(found, type) and issubclass(found, tuple):
            return found
    raise ValueError(f"no kernel file that is imported has a named tuple '{name}'")
