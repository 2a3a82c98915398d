"""Proves how many files and connections a process allows itself, and that its ports leave room for the rest."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator

import pytest

from pinotpy.memory.descriptors import (
    DESCRIPTORS_MAX,
    backlog_limit,
    descriptor_limit,
    frame_connections_limit,
    http_connections_limit,
    num_descriptors,
    raise_descriptor_limit,
)


@pytest.fixture
def limits() -> Iterator[tuple[int, int]]:
    """The limits of this process, which come back."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield before
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_limit_is_raised_as_far_as_it_may(limits: tuple[int, int]) -> None:
    hard = limits[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (num_descriptors() + 50, hard))
    raise_descriptor_limit()
    highest = DESCRIPTORS_MAX if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS_MAX)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (highest, hard) and descriptor_limit() == highest


def test_a_limit_is_never_lowered(monkeypatch: pytest.MonkeyPatch) -> None:
    soft, infinity = 2 * DESCRIPTORS_MAX, resource.RLIM_INFINITY
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "setrlimit", lambda what, limits: asked.append(limits))
    for limits in ((soft, infinity), (soft, soft), (infinity, infinity), (100, 100)):
        monkeypatch.setattr(resource, "getrlimit", lambda what, limits=limits: limits)
        raise_descriptor_limit()
    assert asked == []
    monkeypatch.setattr(resource, "getrlimit", lambda what: (100, infinity))
    raise_descriptor_limit()
    assert asked == [(DESCRIPTORS_MAX, infinity)]


@pytest.mark.parametrize("limit", [64, 256, 1024, 20_000, DESCRIPTORS_MAX])
def test_connections_leave_a_quarter_of_all_descriptors(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda what: (limit, limit))
    assert http_connections_limit() + frame_connections_limit() + 2 * backlog_limit() <= limit * 3 // 4


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="no /proc")
def test_open_descriptors_are_counted() -> None:
    before = num_descriptors()
    ends = os.pipe()
    assert num_descriptors() == before + 2
    for end in ends:
        os.close(end)
    assert num_descriptors() == before
