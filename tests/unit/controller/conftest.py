"""Harnesses for the controller's tests: see `controller_harness`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from controller_harness import Harness, build_parts_segment, start_harness


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Harness]]:
    """Start harnesses with options of your own."""
    started: list[Harness] = []

    def one(**options: Any) -> Harness:
        started.append(start_harness(tmp_path / f"c{len(started)}", **options))
        return started[-1]

    yield one
    for harness in started:
        harness.close()


@pytest.fixture
def harness(start: Callable[..., Harness]) -> Harness:
    return start()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """One controller with table `parts` for all tests of a module that leave nothing behind."""
    started = start_harness(tmp_path_factory.mktemp("shared"))
    started.add_parts()
    yield started
    started.close()


@pytest.fixture
def segment(tmp_path: Path) -> Callable[..., Path]:
    """Build a segment of `parts` as tar.gz."""

    def build(name: str = "parts_0", **options: Any) -> Path:
        return build_parts_segment(tmp_path / "built", name, **options)

    return build
