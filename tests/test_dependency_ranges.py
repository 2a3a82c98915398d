"""Proves that the ranges of pyproject.toml are bounded, and that what is installed, which all tests run with, lies
inside them. The lowest versions are tested by `make lowest`.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

import pytest
from lowest_versions import lowest, requirements

ALL = {requirement.name: requirement for requirement in requirements()}


@pytest.mark.parametrize("name", ALL)
def test_every_range_has_a_lowest_version(name: str) -> None:
    assert [each.operator for each in ALL[name].specifier].count(">=") == 1


def test_installed_versions_are_inside_the_ranges() -> None:
    outside, installed = [], 0
    for name, requirement in ALL.items():
        try:
            found = version(name)
        except PackageNotFoundError:
            continue  # of an extra that is not installed
        installed += 1
        print(f"{name} {found} ({requirement.specifier})")
        if not requirement.specifier.contains(found, prereleases=True):
            outside.append(f"{name} {found}, expected {requirement.specifier}")
    assert not outside
    assert installed >= len({requirement.name for requirement in requirements("dev")})


def test_the_lowest_versions_are_those_of_the_ranges() -> None:
    for text in lowest():
        name, _, lowest_version = text.partition("==")
        assert ALL[name.partition("[")[0]].specifier.contains(lowest_version)
