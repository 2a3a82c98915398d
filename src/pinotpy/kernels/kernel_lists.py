"""Which kernels there are to compile: those that the first queries need, and the others.

`first_kernels.txt` has what README's and the quickstart's queries ask for, and what loading their data does;
`other_kernels.txt` everything else that the queries of query/warm.py, readers and builders of segments ask for.
tests/support/record_kernels.py writes both; tests/cluster/test_readme.py and tests/unit/kernels/test_kernel_lists.py
prove that nothing is missing.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from pinotpy.kernels.kernel_names import Kernel, kernel_of

_HERE: Final = Path(__file__).resolve().parent
FIRST: Final = _HERE / "first_kernels.txt"
OTHER: Final = _HERE / "other_kernels.txt"


@cache
def first_kernels() -> tuple[Kernel, ...]:
    """What a daemon needs before it says that it is ready, in the order in which it is compiled best."""
    return kernels_in(FIRST)


@cache
def other_kernels() -> tuple[Kernel, ...]:
    """What is compiled after those."""
    return kernels_in(OTHER)


def kernels_in(file: Path) -> tuple[Kernel, ...]:
    """The kernels that a list names, one a line."""
    lines = file.read_text(encoding="utf-8").splitlines()
    return tuple(kernel_of(line) for line in lines if line and not line.startswith("#"))
