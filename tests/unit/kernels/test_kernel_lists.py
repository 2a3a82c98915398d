"""Proves that kernels have names that can be read back, and that the lists of kernels are about this source: every line
names a kernel that there is, no block function is left out, and nothing that is run ahead of time asks for a kernel
that is in no list. (That README's commands ask for no other than the first: tests/cluster/test_readme.py.)
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import record_kernels
from numba import types

from pinotpy.kernels.ingest.avro_records import Blocks
from pinotpy.kernels.kernel_lists import FIRST, OTHER, first_kernels, kernels_in, other_kernels
from pinotpy.kernels.kernel_names import Kernel, code_of, kernel_of, text_of, types_of

TYPES = [
    (),
    (types.int64, types.float64, types.boolean, types.uint32, types.none),
    (
        types.Array(types.int64, 2, "C"),
        types.Array(types.uint8, 1, "A", readonly=True),
        types.Array(types.bool_, 1, "F"),
    ),
    (types.literal(0), types.Omitted(None), types.Omitted(-1.5)),
    (types.NamedUniTuple(types.Array(types.int64, 1, "C"), 3, Blocks), types.int64),
]


@pytest.mark.parametrize("given", TYPES)
def test_types_are_what_their_text_says(given: tuple[types.Type, ...]) -> None:
    assert types_of(text_of(given)) == given


@pytest.mark.parametrize("given", [types.unicode_type, types.Array(types.int64, 1, "C", aligned=False)])
def test_a_type_without_a_text_is_refused(given: types.Type) -> None:
    with pytest.raises(ValueError, match="no written form"):
        text_of([given])


@pytest.mark.parametrize(
    "text", ["__import__('os')", "int64.bitwidth", "no_such", "1", "int64 +", "NoSuch(int64)", "array"]
)
def test_a_text_that_is_no_type_is_refused_and_not_run(text: str) -> None:
    with pytest.raises(ValueError, match=r"no type|are no types|named tuple"):
        types_of(text)


@pytest.mark.parametrize(
    ("text", "kernel"),
    [
        ("group.direct_table.touch\n", Kernel("group.direct_table", "touch")),
        ("scan.program.put(int64)", Kernel("scan.program", "put", "int64")),
        ("program.put()", Kernel("program", "put", "")),
    ],
)
def test_names_are_read(text: str, kernel: Kernel) -> None:
    assert kernel_of(text) == kernel and str(kernel) == text.strip()


@pytest.mark.parametrize("text", ["", "touch", "scan.program.put(int64"])
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected 'module\.function'"):
        kernel_of(text)


def test_every_listed_kernel_is_there_once() -> None:
    kernels = first_kernels() + other_kernels()
    assert len(set(kernels)) == len(kernels) and first_kernels()
    for kernel in kernels:
        code, given = code_of(kernel)
        assert (given is None) == hasattr(code, "address"), kernel


def test_every_block_function_is_listed() -> None:
    assert record_kernels.block_functions() <= {*first_kernels(), *other_kernels()}


@pytest.mark.full
def test_what_is_run_ahead_of_time_asks_for_listed_kernels_alone(tmp_path: Path) -> None:
    record = tmp_path / "kernels"
    code = "import record_kernels; record_kernels.run_everything()"
    paths = os.pathsep.join([str(Path(record_kernels.__file__).parent), *sys.path])
    env = {**os.environ, "PYTHONPATH": paths, record_kernels.RECORD: str(record)}
    subprocess.run([sys.executable, "-c", code], env=env, check=True, timeout=600)
    asked = set(kernels_in(record))
    assert asked and asked <= {*kernels_in(FIRST), *kernels_in(OTHER)}
