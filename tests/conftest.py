"""Fixtures for all tests: one real ZooKeeper and one real Kafka a test process, and a bounded wait for a condition."""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest
from hypothesis import HealthCheck, settings
from thinning import LONG_TESTS, OVER, is_over, left_out

if TYPE_CHECKING:
    from kafka_server import KafkaServer

# How long an example takes says something about the machine, and nothing about the code.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")
# Files of users and secrets that a group may write are refused, which some machines make by default.
os.umask(0o022)


class Eventually(Protocol):
    def __call__(self, condition: Callable[[], object], *, timeout_s: float = 60.0, what: str = "") -> float: ...


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a real ZooKeeper on a free port; every xdist worker has its own. Use a cluster name or chroot of
    your own.
    """
    from pinotpy.errors import NotFoundError
    from pinotpy.service.embedded_zookeeper import EmbeddedZooKeeper

    data_dir: Path = tmp_path_factory.mktemp("zookeeper")
    try:
        server = EmbeddedZooKeeper(data_dir)
    except NotFoundError as error:
        pytest.skip(error.message)
    with server:
        yield server.address


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    """A real Kafka broker on free ports; every xdist worker has its own. Use topics of your own."""
    from kafka_server import KafkaServer, missing_kafka

    if missing_kafka():
        pytest.skip(missing_kafka())
    with KafkaServer(tmp_path_factory.mktemp("kafka")) as server:
        yield server


@pytest.fixture(scope="session")
def eventually() -> Eventually:
    """`eventually(condition)` polls every 5 ms until the condition is truthy; returns the seconds it took, fails after
    `timeout_s`.
    """

    def wait(condition: Callable[[], object], *, timeout_s: float = 60.0, what: str = "") -> float:
        start = time.monotonic()
        while not condition():
            if time.monotonic() - start > timeout_s:
                pytest.fail(f"not within {timeout_s} s: {what or condition}")
            time.sleep(0.005)
        return time.monotonic() - start

    return wait


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of the longest tests, where CI is short of time, those whose turn it is (tests/support/thinning.py). They come
    first: one that begins last keeps a single process busy while all others have ended.
    """
    items.sort(key=lambda item: item.path.stem not in LONG_TESTS)
    skipped = left_out({item.path.stem for item in items})
    if skipped:
        print(f"\nnot their turn on this machine, which is short of time: {', '.join(skipped)}", file=sys.__stderr__)
        config.hook.pytest_deselected(items=[item for item in items if item.path.stem in skipped])
        items[:] = [item for item in items if item.path.stem not in skipped]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test that would begin when CI's time is nearly over is named instead (before its fixtures start anything)."""
    if is_over():
        pytest.skip(OVER)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many tests did not begin, and of which modules."""
    late = [report.nodeid for report in terminalreporter.stats.get("skipped", ()) if OVER in str(report.longrepr)]
    if late:
        modules = sorted({nodeid.partition("::")[0] for nodeid in late})
        terminalreporter.write_line(f"{len(late)} tests skipped, {OVER}: {', '.join(modules)}")


def pytest_collection_finish() -> None:
    """As daemons do: full collections that walk all modules and kernels again and again cost a tenth of the time."""
    gc.set_threshold(50_000, 50, 1_000)
    gc.collect()
    gc.freeze()
