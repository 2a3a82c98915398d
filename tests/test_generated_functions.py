"""Proves that docs/generated/functions.md is what the definitions say, and that every function stands in it."""

from __future__ import annotations

from pathlib import Path

from pinotpy.functions.scalar.spec import families
from pinotpy.functions.spec import functions
from pinotpy.query.documentation import DEFAULT_FILE, OPERATORS, document

ROOT = Path(__file__).resolve().parent.parent


def test_the_generated_page_of_functions_is_current() -> None:
    assert (ROOT / DEFAULT_FILE).read_text("utf-8") == document(), "run: python -m pinotpy.query.documentation"


def test_every_function_stands_in_the_page_once() -> None:
    rows = [line.replace("\\|", "|") for line in document().splitlines() if line.startswith("| `")]
    for function in functions().values():
        assert sum(row.startswith(f"| `{function.display_name}(") for row in rows) == 1, function.name
    scalars = [function for _, members in families().values() for function in members]
    for function in scalars:
        assert sum(row.startswith(f"| `{function.signature}`") for row in rows) >= 1, function.name
    assert len(rows) >= len(scalars) + len(OPERATORS)
