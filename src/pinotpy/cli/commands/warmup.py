"""Compile all kernels into the cache, so that daemons start quickly (for images and after an installation)."""

from __future__ import annotations

import time

import typer

NAME = "warmup"


def run() -> None:
    start = time.perf_counter()
    from pinotpy.kernels import cache

    folder = cache.prepare()
    from pinotpy.query import execute

    execute.warm()
    typer.echo(f"kernels ready in {time.perf_counter() - start:.1f} s, cache {folder}")
