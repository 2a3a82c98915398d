"""Proves how kernels come into the cache: those of the first list, then all, each stage once whoever asks; a kernel
that cannot be compiled is named and nothing else is lost; and a process that compiles elsewhere waits on threads that
may, and refuses on those that may not. Runs a copy of the package with small kernels and lists of its own, in fresh
processes and with real compiling.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pinotpy.kernels import cache

_NUMBERS = (
    "from numba import njit\n\nfrom pinotpy.kernels.runtime.abi import block_function\n\n\n"
    "@njit(cache=True)\ndef twice(n):\n    return 2 * n\n\n\n"
    "@block_function\ndef zero(state, args):\n    return 0\n"
)
_OTHERS = "from numba import njit\n\n\n@njit(cache=True)\ndef thrice(n):\n    return 3 * n\n"
_FIRST = "# a comment\nnumbers.twice(int64)\nnumbers.zero\n"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    package = tmp_path / "pinotpy"
    shutil.copytree(cache.KERNELS, package / "kernels", ignore=shutil.ignore_patterns("__pycache__"))
    (package / "__init__.py").touch()
    (package / "kernels" / "numbers.py").write_text(_NUMBERS)
    (package / "kernels" / "others.py").write_text(_OTHERS)
    (package / "kernels" / "first_kernels.txt").write_text(_FIRST)
    (package / "kernels" / "other_kernels.txt").write_text("others.thrice(int64)\n")
    return package


def _run(package: Path, code: str) -> dict[str, Any]:
    """What a process prints that runs this code with an empty or earlier cache, as JSON."""
    env = {**os.environ, "PYTHONPATH": str(package.parent), "PINOTPY_KERNEL_CACHE": str(package.parent / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


_STAGES = """
import json
from pinotpy.kernels import cache
from pinotpy.kernels.compiling import Stage, StageRun, is_compiled, progress

folder, told = cache.prepare(), []
run = StageRun(folder, Stage.{stage}, lambda done, total: told.append([done, total]), is_idle={idle}, num_processes=2)
is_there = run.run()
print(json.dumps({{
    "there": is_there, "told": told, "progress": progress(folder, Stage.{stage}),
    "first": is_compiled(folder, Stage.FIRST), "all": is_compiled(folder, Stage.ALL),
    "failures": {{str(kernel): why for kernel, why in run.failures.items()}},
    "indexes": sorted(file.name.split("-")[0] for file in folder.glob("*/*.nbi")),
}}))
"""


_OVERTAKEN = """
import json, threading
from pinotpy.kernels import cache
from pinotpy.kernels.compiling import Stage, StageRun
from pinotpy.kernels.demand import locked

folder, started = cache.prepare(), threading.Event()
idle = StageRun(folder, Stage.ALL, lambda done, total: started.set(), is_idle=True, num_processes=2)
found = []
with locked(folder / ".compiling-idle", "others.thrice(int64)"):
    thread = threading.Thread(target=lambda: found.append(idle.run()))
    thread.start()
    assert started.wait(300)
    found.append(StageRun(folder, Stage.ALL, num_processes=2).run())
    thread.join(300)
print(json.dumps({"found": found, "failures": len(idle.failures)}))
"""


def test_idle_processes_that_get_no_time_end_when_others_have_compiled_all(package: Path) -> None:
    assert _run(package, _OVERTAKEN) == {"found": [True, True], "failures": 0}


def test_the_first_kernels_come_first_and_each_stage_once(package: Path) -> None:
    first = _run(package, _STAGES.format(stage="FIRST", idle=False))
    assert first["there"] and first["first"] and not first["all"] and not first["failures"]
    assert first["told"][0] == [0, 2] and first["told"][-1] == [2, 2] and first["progress"] == [2, 2]
    assert first["indexes"] == ["numbers.twice", "numbers.zero"]
    every = _run(package, _STAGES.format(stage="ALL", idle=True))
    assert every["there"] and every["all"] and every["told"][-1] == [3, 3]
    assert every["indexes"] == ["numbers.twice", "numbers.zero", "others.thrice"]
    again = _run(package, _STAGES.format(stage="FIRST", idle=False))
    assert again["there"] and again["told"] == []
    # An edit begins anew.
    (package / "kernels" / "others.py").write_text(_OTHERS.replace("3 * n", "n * 3"))
    assert _run(package, _STAGES.format(stage="ALL", idle=False))["told"][-1] == [3, 3]


def test_a_kernel_that_cannot_be_compiled_is_named_and_the_others_are_there(package: Path) -> None:
    with (package / "kernels" / "first_kernels.txt").open("a") as lines:
        lines.write("numbers.no_such(int64)\nothers.thrice(array(int64, 1, C), int64)\n")
    found = _run(package, _STAGES.format(stage="FIRST", idle=False))
    assert not found["there"] and not found["first"] and found["told"][-1] == [4, 4]
    assert set(found["failures"]) == {"numbers.no_such(int64)", "others.thrice(array(int64, 1, C), int64)"}
    assert "no_such" in found["failures"]["numbers.no_such(int64)"]
    assert found["indexes"] == ["numbers.twice", "numbers.zero"]


_ELSEWHERE = """
import json, threading
from pathlib import Path
from pinotpy.kernels import cache
folder = cache.prepare()
from pinotpy.kernels.compile_processes import Compilers
from pinotpy.kernels.demand import KernelMissingError, compile_elsewhere, compile_here, refusing
from pinotpy.kernels.runtime.abi import BlockFunction
from pinotpy.kernels.kernel_names import Kernel
from pinotpy.kernels import numbers, others

asked = []
compilers = Compilers(folder, 2, keep_s=0.1)

def compile_it(kernel):
    asked.append(str(kernel))
    return compilers.compile(kernel)

end = compile_elsewhere(compile_it, BlockFunction)
refused = []
for call in (lambda: numbers.twice(4), lambda: numbers.zero.address, lambda: others.thrice(1)):
    try:
        with refusing():
            call()
    except KernelMissingError as missing:
        refused.append(str(missing.kernel))
before = list(asked)
waited = [numbers.twice(4), numbers.zero.address != 0]
misses = sum(numbers.twice.stats.cache_misses.values())
with refusing():
    loaded = numbers.twice(5)
wanted = compilers.want(Kernel("numbers", "no_such", "int64"))
wanted.done.wait(60)
compile_here(Kernel("others", "thrice", "int64"))
with refusing():
    here = others.thrice(2)
compilers.end()
after_end = compilers.compile(Kernel("others", "thrice", "float64"))
end()
print(json.dumps({
    "refused": refused, "before": before, "asked": asked, "waited": waited, "loaded": loaded, "misses": misses,
    "failure": wanted.failure, "here": here, "end": after_end, "float": others.thrice(1.5),
}))
"""


def test_a_process_that_compiles_elsewhere_waits_or_refuses(package: Path) -> None:
    found = _run(package, _ELSEWHERE)
    assert found["refused"] == ["numbers.twice(int64)", "numbers.zero", "others.thrice(int64)"] and not found["before"]
    assert found["asked"] == ["numbers.twice(int64)", "numbers.zero"] and found["waited"] == [8, True]
    # What was compiled elsewhere is loaded here, never compiled again.
    assert found["misses"] == 0 and found["loaded"] == 10
    assert "no_such" in found["failure"] and found["here"] == 6
    assert "stopping" in found["end"] and found["float"] == 4.5
