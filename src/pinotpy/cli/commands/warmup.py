"""Compile all kernels into the cache, so that daemons start quickly (for images and after an installation)."""

from __future__ import annotations

import time

import typer

NAME = "warmup"


def run() -> None:
    from pinotpy.cli.compiled_kernels import compile_all

    start = time.perf_counter()
    folder = compile_all()
    typer.echo(f"kernels ready in {time.perf_counter() - start:.1f} s, cache {folder}")
