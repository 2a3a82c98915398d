"""Proves that an edited callee is never answered from a stale cache, that an edit leaves the code of other files alone,
and that old code does not pile up. Runs a copy of the package with two small kernels of its own, each time in a fresh
process.
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pinotpy.kernels import cache

# The callee lies in a folder, as kernels may.
_CALLEE = "from pinotpy.kernels.runtime.abi import inner\n\n\n@inner\ndef number():\n    return {number}\n"
_CALLER = (
    "from numba import njit\n\nfrom pinotpy.kernels.room.callee import number\n\n\n@njit(cache=True)\ndef "
    "ask():\n    return number()\n"
)
_OTHER = "from numba import njit\n\n\n@njit(cache=True)\ndef other():\n    return 5\n"
_ASK = (
    "from pinotpy.kernels.caller import ask; from pinotpy.kernels.other import other; print(ask(), other(), "
    "sum(ask.stats.cache_hits.values()))"
)


def _ask(package: Path, compiled: Path | None) -> list[int]:
    env = {
        name: value
        for name, value in os.environ.items()
        if name not in ("HOME", "XDG_CACHE_HOME", "PINOTPY_KERNEL_CACHE")
    }
    env |= {"PYTHONPATH": str(package.parent)} | ({} if compiled is None else {"PINOTPY_KERNEL_CACHE": str(compiled)})
    answer = subprocess.run(
        [sys.executable, "-c", _ASK], env=env, capture_output=True, text=True, check=True, timeout=120
    )
    return [int(word) for word in answer.stdout.split()]


def _folders(compiled: Path, name: str) -> set[str]:
    return {path.name for path in compiled.glob(f"*/{name}-*")}


def test_an_edited_callee_is_never_answered_from_a_stale_cache(tmp_path: Path) -> None:
    package, compiled = tmp_path / "pinotpy", tmp_path / "compiled"
    shutil.copytree(cache.KERNELS, package / "kernels", ignore=shutil.ignore_patterns("__pycache__"))
    (package / "__init__.py").touch()
    (package / "kernels" / "room").mkdir()
    (package / "kernels" / "room" / "__init__.py").touch()
    (package / "kernels" / "room" / "callee.py").write_text(_CALLEE.format(number=1))
    (package / "kernels" / "caller.py").write_text(_CALLER)
    (package / "kernels" / "other.py").write_text(_OTHER)
    assert _ask(package, compiled) == [1, 5, 0]
    assert _ask(package, compiled) == [1, 5, 1]
    others = _folders(compiled, "other")
    callee = package / "kernels" / "room" / "callee.py"
    callee.write_text(_CALLEE.format(number=2))
    # Python itself takes a file of the same size and second for the one that it has compiled.
    os.utime(callee, (callee.stat().st_mtime + 2,) * 2)
    assert _ask(package, compiled) == [2, 5, 0]
    assert len(_folders(compiled, "caller")) == 2
    assert _folders(compiled, "other") == others and len(others) == 1


def test_kernels_work_where_nothing_can_be_written(tmp_path: Path) -> None:
    package = tmp_path / "pinotpy"
    shutil.copytree(cache.KERNELS, package / "kernels", ignore=shutil.ignore_patterns("__pycache__"))
    (package / "__init__.py").touch()
    (package / "kernels" / "room").mkdir()
    (package / "kernels" / "room" / "__init__.py").touch()
    (package / "kernels" / "room" / "callee.py").write_text(_CALLEE.format(number=1))
    (package / "kernels" / "caller.py").write_text(_CALLER)
    (package / "kernels" / "other.py").write_text(_OTHER)
    # A file where the folder would be: the superuser, who may write anywhere, cannot make it either.
    (package / ".kernel-cache").touch()
    assert _ask(package, None) == [1, 5, 0]
    assert _ask(package, package / ".kernel-cache" / "named") == [1, 5, 0]
    assert (package / ".kernel-cache").stat().st_size == 0 and not list(package.rglob("*.nbi"))


def test_a_read_only_image_that_was_warmed_up_is_read_from_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NUMBA_CACHE_DIR", "NUMBA_CACHE_LOCATOR_CLASSES"):
        monkeypatch.setenv(name, "")  # restored at the end: `prepare` sets it
    monkeypatch.setenv("PINOTPY_KERNEL_CACHE", str(tmp_path))
    compiled = tmp_path / cache.environment_hash() / "groups-0123456789abcdef"
    compiled.mkdir(parents=True)
    (compiled / "first_key.nbi").write_bytes(b"index")
    (compiled / "first_key.nbi").chmod(0o444)
    compiled.chmod(0o555)

    def refuse(**_: object) -> None:
        raise PermissionError("read-only file system")

    monkeypatch.setattr(cache.tempfile, "TemporaryFile", refuse)
    folder = cache.prepare()
    assert tmp_path not in folder.parents and os.environ["NUMBA_CACHE_DIR"] == str(folder)
    assert cache.is_temporary(folder) and folder.name == cache.environment_hash()
    copied = folder / compiled.name / "first_key.nbi"
    assert copied.read_bytes() == b"index" and copied.stat().st_mode & 0o200 and copied.parent.stat().st_mode & 0o200
    shutil.rmtree(folder.parent)


def test_a_folder_that_can_be_written_takes_over_what_the_image_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NUMBA_CACHE_DIR", "NUMBA_CACHE_LOCATOR_CLASSES", "PINOTPY_KERNEL_CACHE"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "volume"))
    monkeypatch.setattr(cache, "KERNELS", tmp_path / "image" / "kernels")
    machine = cache.environment_hash()
    image, volume = (
        tmp_path / "image" / ".kernel-cache" / machine,
        tmp_path / "volume" / "pinotpy" / "kernels" / machine,
    )
    for folder, code in (("groups-0123456789abcdef", b"image"), ("ranks-0123456789abcdef", b"image")):
        (image / folder).mkdir(parents=True)
        (image / folder / "key.nbi").write_bytes(code)
        (image / folder).chmod(0o555)
    (image / "compiled.0.1").touch()
    (volume / "ranks-0123456789abcdef").mkdir(parents=True)
    (volume / "ranks-0123456789abcdef" / "key.nbi").write_bytes(b"volume")
    for _ in range(2):
        assert cache.prepare() == volume and not cache.is_temporary(volume)
        assert sorted(path.name for path in volume.iterdir()) == [
            "compiled.0.1",
            "groups-0123456789abcdef",
            "ranks-0123456789abcdef",
        ]
    assert (volume / "groups-0123456789abcdef" / "key.nbi").read_bytes() == b"image"
    assert (volume / "ranks-0123456789abcdef" / "key.nbi").read_bytes() == b"volume"
    # What is compiled later is written beside it.
    (volume / "groups-0123456789abcdef" / "other.nbi").touch()
    assert not (image / "groups-0123456789abcdef" / "other.nbi").exists()


def test_the_hash_of_a_file_covers_what_it_imports_and_nothing_else() -> None:
    imported = cache._with_imported(cache.KERNELS / "group" / "direct_table.py")
    assert {"abi.py", "direct_table.py", "exact_sums.py", "growable.py", "result_context.py"} <= {
        file.name for file in imported
    }
    assert "text_predicates.py" not in {file.name for file in imported}


def test_what_a_file_imports_is_what_python_says() -> None:
    """Files are searched by lines, not parsed; what is overlooked would be answered from stale code."""
    for file in cache.KERNELS.rglob("*.py"):
        names = set[str]()
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.ImportFrom) and node.module:
                names.update((node.module, *(f"{node.module}.{alias.name}" for alias in node.names)))
            elif isinstance(node, ast.Import):
                names.update(alias.name for alias in node.names)
        paths = (cache.KERNELS.parent.parent / f"{name.replace('.', '/')}.py" for name in names)
        expected = {path for path in paths if cache.KERNELS in path.parents and path.exists()}
        assert cache._imported(file) == expected, file


@pytest.mark.parametrize(
    ("source", "names"),
    [
        (b"from pinotpy.kernels.runtime import abi, views as seen  # why\n", {"abi.py", "views.py"}),
        (b"from pinotpy.kernels.runtime import (\n    abi,  # (why)\n    views,\n)\n", {"abi.py", "views.py"}),
        (b"import pinotpy.kernels.runtime.abi as abi, json\n", {"abi.py"}),
        (b"def f():\n    from pinotpy.kernels.runtime.abi import (\n        inner,\n    )\n", {"abi.py"}),
        (b"import json\nfrom numba import njit\n", set()),
    ],
)
def test_imports_of_every_form_are_found(tmp_path: Path, source: bytes, names: set[str]) -> None:
    file = tmp_path / "kernel.py"
    file.write_bytes(source)
    assert {imported.name for imported in cache._imported(file)} == names


@pytest.mark.parametrize(("num_versions", "num_dropped"), [(0, 0), (8, 0), (11, 3)])
def test_old_code_is_dropped_the_newest_stays(tmp_path: Path, num_versions: int, num_dropped: int) -> None:
    for number in range(num_versions):
        folder = tmp_path / f"groups-{number:016x}"
        folder.mkdir()
        os.utime(folder, (number, number))
    (tmp_path / "compiled.abc.def").touch()
    assert cache.drop_old(tmp_path) == num_dropped
    assert {path.name for path in tmp_path.iterdir()} == {
        f"groups-{n:016x}" for n in range(num_dropped, num_versions)
    } | {"compiled.abc.def"}


def test_imports_from_folders_are_found_however_they_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "KERNELS", tmp_path)
    (tmp_path / "room").mkdir()
    for name in ("room/__init__", "room/one", "room/two", "room/three", "alone"):
        (tmp_path / f"{name}.py").touch()
    (tmp_path / "all.py").write_text(
        "import pinotpy.kernels.room.one\nfrom pinotpy.kernels.room import two\n\ndef late():\n    from "
        "pinotpy.kernels.room.three import x\n"
    )
    assert cache.imports() == {
        "all": {"room.one", "room.two", "room.three"},
        "alone": set(),
        "room.one": set(),
        "room.two": set(),
        "room.three": set(),
    }
    (tmp_path / "other.py").write_text("from pinotpy.kernels import alone, room\n")
    assert cache.imports()["other"] == {"alone"}
