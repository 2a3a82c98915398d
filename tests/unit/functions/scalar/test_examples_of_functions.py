"""Proves that every scalar function has an example, and that each example of the generated table gives the value
shown.
"""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pinotpy.functions.scalar.spec import Example, ScalarFunction, scalar_functions
from pinotpy.pql.function_names import canonical_function


def _sibling(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


demo_row = _sibling("demo_row")
FUNCTIONS: list[ScalarFunction] = sorted(
    {function.name: function for function in scalar_functions().values()}.values(), key=lambda function: function.name
)
EXAMPLES = [(function.name, example) for function in FUNCTIONS for example in function.examples]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.name)
def test_a_function_says_what_it_does_and_shows_it(function: ScalarFunction) -> None:
    assert function.examples or not function.constant, f"{function.name} has no example"
    assert function.summary.endswith(".")
    assert function.signature
    assert 0 <= function.arguments_min <= function.arguments_max


@pytest.mark.parametrize(("name", "example"), EXAMPLES, ids=[example.expression for _, example in EXAMPLES])
def test_an_example_gives_the_value_shown(name: str, example: Example) -> None:
    found = demo_row.value_of(example.expression)
    assert type(found) is type(example.value), f"{example.expression} gave {found!r}"
    assert _equal(found, example.value), f"{example.expression} gave {found!r}"


def _equal(found: Any, shown: Any) -> bool:
    if isinstance(found, float) and isinstance(shown, float):
        return math.isclose(found, shown, rel_tol=1e-15) or (math.isnan(found) and math.isnan(shown))
    return bool(found == shown)


def test_names_are_looked_up_in_any_spelling() -> None:
    for name in scalar_functions():
        assert canonical_function(name.upper()) == name
