"""Proves that no kernel hands on the address of an array of its own that it does not use afterwards: numba gives an
array back after its last use, whoever still has its address, and another thread may write there by then.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pinotpy.kernels

KERNELS = Path(pinotpy.kernels.__file__).parent


def compiled_functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and any(
            "njit" in ast.dump(mark) or "inner" in ast.dump(mark) or "block" in ast.dump(mark)
            for mark in node.decorator_list
        ):
            yield node


def lost_arrays(function: ast.FunctionDef) -> list[str]:
    """Local arrays whose address is taken and that are not read after the whole statement that takes it."""
    made = {
        target.id
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        for targets, values in [(node.targets[0], node.value)]
        for target, value in zip(
            targets.elts if isinstance(targets, ast.Tuple) else [targets],
            values.elts if isinstance(values, ast.Tuple) else [values],
            strict=False,
        )
        if isinstance(target, ast.Name)
        and isinstance(value, ast.Call)
        and ast.unparse(value.func) in ("np.empty", "np.zeros", "np.ones", "np.full")
    }
    lost = []
    for statement in (
        node
        for node in ast.walk(function)
        if isinstance(node, ast.stmt) and not isinstance(node, ast.FunctionDef | ast.If | ast.For | ast.While)
    ):
        taken = {
            node.value.value.id
            for node in ast.walk(statement)
            if isinstance(node, ast.Attribute)
            and ast.unparse(node).endswith(".ctypes.data")
            and isinstance(node.value, ast.Attribute)
            if isinstance(node.value.value, ast.Name)
        }
        last = {node.id: node.lineno for node in ast.walk(function) if isinstance(node, ast.Name)} if taken else {}
        for node in ast.walk(function) if taken else ():
            if isinstance(node, ast.Name):
                last[node.id] = max(last[node.id], node.lineno)
        lost += [name for name in taken & made if last[name] <= (statement.end_lineno or statement.lineno)]
    return lost


def test_an_array_of_a_kernel_outlives_the_use_of_its_address() -> None:
    found = {
        f"{file.name}:{function.name}": lost
        for file in sorted(KERNELS.rglob("*.py"))
        for function in compiled_functions(ast.parse(file.read_text()))
        if (lost := lost_arrays(function))
    }
    assert not found


def test_the_rule_sees_an_array_that_is_given_back_too_early() -> None:
    text = """
@njit(nogil=True)
def early(n):
    row, other = np.empty(n, np.uint64), 1
    view = view_u64(row.ctypes.data, n)
    return view[0] + other

@inner
def late(n):
    row = np.empty(n, np.uint64)
    view = view_u64(row.ctypes.data, n)
    return view[0] + len(row)

def python(n):
    row = np.empty(n)
    return row.ctypes.data
"""
    assert {function.name: lost_arrays(function) for function in compiled_functions(ast.parse(text))} == {
        "early": ["row"],
        "late": [],
    }
