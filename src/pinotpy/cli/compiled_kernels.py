"""Whether the kernels of this code were compiled on this machine: a marker that `pinotpy warmup` leaves in the cache."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pinotpy
from pinotpy.kernels import cache


def compile_all() -> Path:
    """Compile what the cache lacks, leave the marker, return the cache's folder."""
    folder = cache.prepare()  # before numba is imported
    from pinotpy.query.execute import warm

    warm()
    _marker(folder).touch()
    return folder


def are_compiled() -> bool:
    """Whether `compile_all` ran for this code; the folder's name is a hash of the code, so a change begins anew."""
    return _marker(cache.prepare()).exists()


def _marker(folder: Path) -> Path:
    # numba keeps its files by the path of the source: equal code elsewhere on the machine has its own.
    place = hashlib.sha256(str(Path(pinotpy.__file__).parent).encode()).hexdigest()[:8]
    return folder / f"compiled-{place}"
