"""What is compiled ahead of the first start: kernels, and Python's byte code; `pinotpy warmup` leaves a marker in the cache."""

from __future__ import annotations

import compileall
import hashlib
from pathlib import Path

import pinotpy
from pinotpy.kernels import cache


def compile_all() -> Path:
    """Compile what the cache lacks, drop what is old in it, leave the marker, return the cache's folder."""
    # An editable installation has no byte code, and where Python may not write any (PYTHONDONTWRITEBYTECODE) each daemon
    # would compile 170 files at each start: 0.15 to 0.3 s of CPU. Where the folder cannot be written, it stays so.
    compileall.compile_dir(Path(pinotpy.__file__).parent, quiet=2)
    folder = cache.prepare()  # before numba is imported
    from pinotpy.query.execute import warm

    warm()
    cache.drop_old(folder)
    _marker(folder).touch()
    return folder


def are_compiled() -> bool:
    """Whether `compile_all` ran for this code; the marker's name has a hash of it, so a change begins anew."""
    return _marker(cache.prepare()).exists()


def _marker(folder: Path) -> Path:
    # Byte code lies beside the source: equal code elsewhere on the machine has its own.
    place = hashlib.sha256(str(Path(pinotpy.__file__).parent).encode()).hexdigest()[:8]
    return folder / f"compiled.{cache.content_hash()}.{place}"
