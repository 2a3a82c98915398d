"""Where compiled kernels are kept.

numba notices a changed function but not a changed callee. So every file of kernels/ has a cache folder of its own,
whose name carries a hash of that file and of everything that it imports from kernels/ (`cache_locator.py` tells numba):
an edited callee is never answered from a stale cache, and an edit compiles again only what depends on it. Above lies a
folder for the versions of Python, numba and llvmlite and for the CPU. No other room compiles anything
(tests/test_architecture.py). Order: `PINOTPY_KERNEL_CACHE`, `$XDG_CACHE_HOME/pinotpy` or `~/.cache/pinotpy`, a folder
in the package, else a temporary folder of this process, filled from whichever of these can be read: a read-only image
that was warmed up compiles nothing, and one that was not still works. A folder that can be written takes over what
those behind it have: an image keeps its code in the package, a container what it had to compile for another CPU on its
volume.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import platform
import re
import shutil
import sys
import tempfile
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Final

KERNELS: Final = Path(__file__).resolve().parent
# Of each file of kernels/; those of other versions of pinotpy on the same machine are among them.
_FOLDERS_KEPT: Final = 8
_TEMPORARY: Final = "pinotpy-kernels-"
_PACKAGE: Final = "pinotpy.kernels."
# One statement a line, as the formatter leaves them.
_FROM: Final = re.compile(
    rb"^[ \t]*from[ \t]+(pinotpy\.kernels[\w.]*)[ \t]+import[ \t]+(\([^)]*\)|[^\n]*)", re.MULTILINE
)
_IMPORT: Final = re.compile(rb"^[ \t]*import[ \t]+([^\n]*)", re.MULTILINE)
_COMMENT: Final = re.compile(rb"#[^\n]*")
_LOCATORS: Final = "pinotpy.kernels.cache_locator.KernelCacheLocator,UserProvidedCacheLocator"


def imports() -> dict[str, set[str]]:
    """The modules of kernels/ by their dotted names below it, each with those of them that it imports, directly or
    not.
    """
    files = sorted(file for file in KERNELS.rglob("*.py") if file.stem != "__init__")
    return {
        module_name(file): {module_name(imported) for imported in _with_imported(file)} - {module_name(file)}
        for file in files
    }


def module_name(file: Path) -> str:
    """The dotted name of a file below kernels/: `group.direct_table`."""
    return ".".join(file.relative_to(KERNELS).with_suffix("").parts)


@cache
def source_hash(file: Path) -> str:
    """Hash of a file of kernels/ and of the files that it imports from there, directly or not: 16 hex digits."""
    digest = hashlib.sha256()
    for source in sorted(_with_imported(file)):
        digest.update(source.relative_to(KERNELS).as_posix().encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _with_imported(file: Path) -> set[Path]:
    files, waiting = set[Path](), [file]
    while waiting:
        source = waiting.pop()
        if source not in files:
            files.add(source)
            waiting.extend(_imported(source))
    return files


@cache
def _imported(file: Path) -> frozenset[Path]:
    # Imports inside functions count as well. Found by their lines: to parse a hundred files takes 0.85 s of each start.
    source = _COMMENT.sub(b"", file.read_bytes())
    names = {name for names in _IMPORT.findall(source) for name in _names(names)}
    for module, what in _FROM.findall(source):
        names |= {module.decode(), *(f"{module.decode()}.{name}" for name in _names(what))}
    below = (name.removeprefix(_PACKAGE).replace(".", "/") for name in names if name.startswith(_PACKAGE))
    return frozenset(path for path in (KERNELS / f"{name}.py" for name in below) if path.exists())


def _names(listed: bytes) -> list[str]:
    """What an import names, without parentheses and other names for it."""
    return [part.split()[0].decode() for part in listed.strip(b"()").split(b",") if part.strip()]


def environment_hash() -> str:
    """Hash of all but the sources that compiled code depends on, as 16 hex digits."""
    digest = hashlib.sha256()
    for part in (version("numba"), version("llvmlite"), version("numpy"), sys.version, platform.machine(), _cpu()):
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()[:16]


def content_hash() -> str:
    """Hash of all files of kernels/, as 16 hex digits."""
    digest = hashlib.sha256()
    for file in sorted(KERNELS.rglob("*.py")):
        digest.update(file.relative_to(KERNELS).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _cpu() -> str:
    # Model and flags: code compiled for AVX-512 must not be loaded on a machine without it.
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return platform.processor()
    wanted = [line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part"))]
    return "\n".join(wanted[:2])


def cache_folders() -> list[Path]:
    """Where compiled code may be kept, the first that can be written; what is in any of them is used."""
    named = os.environ.get("PINOTPY_KERNEL_CACHE")
    if named:
        return [Path(named)]
    folders = []
    home = os.environ.get("XDG_CACHE_HOME") or (os.path.expanduser("~/.cache") if os.environ.get("HOME") else "")
    if home:
        folders.append(Path(home) / "pinotpy" / "kernels")
    folders.append(KERNELS.parent / ".kernel-cache")
    return folders


def prepare() -> Path:
    """Point numba at the cache folder for this machine; return it. Must run before numba is imported."""
    os.environ["NUMBA_CACHE_LOCATOR_CLASSES"] = _LOCATORS
    name = environment_hash()
    folders = [base / name for base in cache_folders()]
    for place, folder in enumerate(folders, 1):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError:
            continue
        for behind in folders[place:]:
            _take_over(behind, folder)
        os.environ["NUMBA_CACHE_DIR"] = str(folder)
        return folder
    folder = _temporary_copy(folders, name)
    os.environ["NUMBA_CACHE_DIR"] = str(folder)
    return folder


def is_temporary(folder: Path) -> bool:
    """Whether a cache that `prepare` gave ends with the process that it was made for, as no folder can be written."""
    return folder.parent.name.startswith(_TEMPORARY) and folder.parent.parent == Path(tempfile.gettempdir())


def _take_over(source: Path, folder: Path) -> None:
    """Copy what `folder` lacks of `source`, each entry whole or not at all: other processes use the folder
    meanwhile.
    """
    with contextlib.suppress(OSError, shutil.Error):
        lacking = [entry for entry in source.iterdir() if not (folder / entry.name).exists()]
        if not lacking:
            return
        with tempfile.TemporaryDirectory(dir=folder, prefix=".") as scratch:
            for entry in lacking:
                copied = Path(scratch) / entry.name
                if entry.is_dir():
                    shutil.copytree(entry, copied, copy_function=shutil.copyfile)
                    copied.chmod(0o755)
                else:
                    shutil.copyfile(entry, copied)
                with contextlib.suppress(OSError):  # another process was first
                    copied.rename(folder / entry.name)


def _temporary_copy(sources: list[Path], name: str) -> Path:
    """A folder of this process with what the sources hold; some megabytes, copied in tens of milliseconds."""
    base = Path(tempfile.mkdtemp(prefix=_TEMPORARY))
    atexit.register(shutil.rmtree, base, ignore_errors=True)
    folder = base / name
    folder.mkdir()
    for source in sources:
        with contextlib.suppress(OSError, shutil.Error):
            # Contents only: modes of a read-only image would make the copy read-only too.
            shutil.copytree(source, folder, copy_function=shutil.copyfile, dirs_exist_ok=True)
            for copied in folder.rglob("*"):
                copied.chmod(0o755 if copied.is_dir() else 0o644)
    folder.chmod(0o700)
    return folder


def drop_old(folder: Path) -> int:
    """Delete all but the newest `_FOLDERS_KEPT` versions of each kernel file's code; gives how many folders went.

    A process that still reads one of them compiles again, nothing else.
    """
    versions: dict[str, list[tuple[float, Path]]] = {}
    for path in folder.iterdir():
        name, dash, _ = path.name.rpartition("-")
        if dash and path.is_dir():
            versions.setdefault(name, []).append((path.stat().st_mtime, path))
    old = [path for dated in versions.values() for _, path in sorted(dated, reverse=True)[_FOLDERS_KEPT:]]
    for path in old:
        shutil.rmtree(path, ignore_errors=True)
    return len(old)
