"""Compile all kernels into the cache, so that daemons start quickly (for images and after an installation)."""

from __future__ import annotations

import json
import time
from typing import Annotated

import typer

from pinotpy.cli import options

NAME = "warmup"


def run(
    first: Annotated[
        bool, typer.Option("--first", help="only what the first queries need; a server compiles the rest behind them")
    ] = False,
    as_json: options.Json = False,
) -> None:
    from pinotpy.cli.compiled_kernels import compile_all, compile_first
    from pinotpy.kernels.cache import is_temporary

    start = time.perf_counter()
    folder = (compile_first if first else compile_all)(lambda text: typer.echo(text, err=True))
    took_s = time.perf_counter() - start
    is_kept = not is_temporary(folder)
    if not is_kept:
        typer.echo(
            "note: no cache folder can be written, what was compiled is not kept: name one by PINOTPY_KERNEL_CACHE",
            err=True,
        )
    if as_json:
        typer.echo(json.dumps({"cache": str(folder), "isKept": is_kept, "tookSeconds": round(took_s, 3)}))
    else:
        typer.echo(f"kernels ready in {took_s:.1f} s, cache {folder}")
