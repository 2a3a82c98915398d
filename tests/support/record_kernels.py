"""Writes the lists of kernels (src/pinotpy/kernels/first_kernels.txt, other_kernels.txt) from what processes ask for:

    python tests/support/record_kernels.py [--add]

The first are those of README's commands and the quickstart's (tests/cluster/test_readme.py runs them, with real
daemons, which load nothing ahead meanwhile); the others those of what is run ahead of time, and all other block
functions. Some are asked for only where a column's values were numbered in time: --add keeps what an earlier run found.
Needs a cache that has all kernels, else it takes minutes.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from pinotpy.kernels import cache
from pinotpy.kernels.demand import RECORD
from pinotpy.kernels.kernel_lists import FIRST, OTHER, kernels_in
from pinotpy.kernels.kernel_names import PACKAGE, Kernel

ROOT = Path(__file__).resolve().parent.parent.parent
HEAD = "# Written by tests/support/record_kernels.py, see kernel_lists.py.\n"


def recorded(work: Callable[[], object]) -> set[Kernel]:
    """The kernels that processes ask for while `work` runs; those that this one has loaded are not among them."""
    before = os.environ.get(RECORD)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernels"
        file.touch()
        os.environ[RECORD] = str(file)
        try:
            work()
        finally:
            os.environ.pop(RECORD)
            if before is not None:
                os.environ[RECORD] = before
        return set(kernels_in(file))


def run_everything() -> None:
    """What `pinotpy warmup` and processes that read streams run ahead of time."""
    from pinotpy.ingest.warm import warm_reader_kernels
    from pinotpy.query.warm import warm
    from pinotpy.segment.warm import warm_segment_kernels
    from pinotpy.server.realtime.workers.kernels import load_kernels

    for each in (warm, warm_segment_kernels, warm_reader_kernels, load_kernels):
        each()


def block_functions() -> set[Kernel]:
    """Every one that there is."""
    from pinotpy.kernels.runtime.abi import BlockFunction

    return {
        Kernel(module, name)
        for module in cache.imports()
        for name, value in vars(importlib.import_module(PACKAGE + module)).items()
        if isinstance(value, BlockFunction) and value.__wrapped__.__module__ == PACKAGE + module
    }


def ask_as_the_readme_does() -> None:
    """In processes of their own."""
    tests = ("tests/cluster/test_readme.py", "-k", "every_command or own_data")
    subprocess.run([sys.executable, "-m", "pytest", "-n", "0", "-q", *tests], cwd=ROOT, check=True)


def write(file: Path, kernels: Iterable[Kernel]) -> None:
    """Files with much code first: what takes long must not begin last, when other processes have nothing to do."""
    kernels = sorted(kernels, key=str)
    sizes = Counter[str]()
    for module, function in {(kernel.module, kernel.function) for kernel in kernels}:
        sizes[module] += code_bytes(module, function)
    kernels.sort(key=lambda kernel: -sizes[kernel.module])
    file.write_text(HEAD + "".join(f"{kernel}\n" for kernel in kernels), encoding="utf-8")


def code_bytes(module: str, function: str) -> int:
    """Of all that the cache has of the function: the more, the longer it takes to compile."""
    source = cache.KERNELS.joinpath(*module.split(".")).with_suffix(".py")
    folder = Path(os.environ["NUMBA_CACHE_DIR"]) / f"{module}-{cache.source_hash(source)}"
    return sum(file.stat().st_size for file in folder.glob(f"{module.rpartition('.')[2]}.{function}-*.nbc"))


def main() -> None:
    first = recorded(ask_as_the_readme_does)
    if "--add" in sys.argv:
        first |= set(kernels_in(FIRST))
    others = (recorded(run_everything) | block_functions()) - first
    write(FIRST, first)
    write(OTHER, others)
    print(f"{len(first)} first kernels and {len(others)} others")


if __name__ == "__main__":
    main()
