"""Compile all kernels into the cache, so that daemons start quickly (for images and after an installation)."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path

import typer

from pinotpy.cli import options

NAME = "warmup"


def run(as_json: options.Json = False) -> None:
    from pinotpy.cli.compiled_kernels import compile_all

    start = time.perf_counter()
    folder = compile_all()
    took_s = time.perf_counter() - start
    # Where no folder can be written, the cache is one of this process (kernels/cache.py) and ends with it.
    is_kept = folder.parent != Path(tempfile.gettempdir())
    if not is_kept:
        typer.echo(
            "note: no cache folder can be written, what was compiled is not kept: name one by PINOTPY_KERNEL_CACHE",
            err=True,
        )
    if as_json:
        typer.echo(json.dumps({"cache": str(folder), "isKept": is_kept, "tookSeconds": round(took_s, 3)}))
    else:
        typer.echo(f"kernels ready in {took_s:.1f} s, cache {folder}")
