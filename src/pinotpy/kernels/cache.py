"""Where compiled kernels are kept.

numba notices a changed function but not a changed callee, so the cache folder carries a hash of every file of kernels/
beside the versions of numba and llvmlite and the CPU: an edited callee is never answered from a stale cache. No other room
compiles anything (tests/test_architecture.py). Order: `PINOTPY_KERNEL_CACHE`, `$XDG_CACHE_HOME/pinotpy` or `~/.cache/pinotpy`, a folder in the package, else a
temporary folder of this process (everything still works on a read-only machine, it only compiles again).
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent


def content_hash() -> str:
    """Hash of everything that compiled code depends on, as 16 hex digits."""
    digest = hashlib.sha256()
    for file in sorted((_PACKAGE / "kernels").rglob("*.py")):
        digest.update(file.relative_to(_PACKAGE).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    for part in (version("numba"), version("llvmlite"), version("numpy"), sys.version, platform.machine(), _cpu()):
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()[:16]


def _cpu() -> str:
    # Model and flags: code compiled for AVX-512 must not be loaded on a machine without it.
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return platform.processor()
    wanted = [line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part"))]
    return "\n".join(wanted[:2])


def _candidates() -> list[Path]:
    named = os.environ.get("PINOTPY_KERNEL_CACHE")
    if named:
        return [Path(named)]
    found = []
    home = os.environ.get("XDG_CACHE_HOME") or (os.path.expanduser("~/.cache") if os.environ.get("HOME") else "")
    if home:
        found.append(Path(home) / "pinotpy" / "kernels")
    found.append(_PACKAGE / ".kernel-cache")
    return found


def prepare() -> Path:
    """Point numba at the cache folder of this code on this CPU; return it. Must run before numba is imported."""
    name = content_hash()
    for base in _candidates():
        folder = base / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError:
            continue
        os.environ["NUMBA_CACHE_DIR"] = str(folder)
        return folder
    folder = Path(tempfile.mkdtemp(prefix="pinotpy-kernels-"))
    os.environ["NUMBA_CACHE_DIR"] = str(folder)
    return folder
