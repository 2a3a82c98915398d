"""Proves that documents and rooms name files that exist, and that ARCHITECTURE.md lists the rooms as
tests/test_architecture.py enforces them.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from tests.test_architecture import FLOORS

ROOT = Path(__file__).parent.parent
DOCUMENTS = [
    "README.md",
    "ARCHITECTURE.md",
    *sorted(f"docs/{p.relative_to(ROOT / 'docs')}" for p in (ROOT / "docs").rglob("*.md")),
]
# Files that a reader writes, not files of the repository.
OF_THE_READER = {"geo_functions.py"}
GLOSSARY_LINES_MAX = 25
README_LINES_MAX = 150


@pytest.fixture(scope="module")
def files() -> list[str]:
    return [
        f"/{file.relative_to(ROOT).as_posix()}"
        for folder in ("src", "tests", "bench", "docs", "deploy", "spark_jobs", "examples")
        for file in (ROOT / folder).rglob("*")
        if file.is_file()
    ]


def section(text: str, heading: str) -> str:
    return text.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]


def test_the_readme_is_short_and_its_links_lead_to_files() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    links = re.findall(r"\]\(([^)#]+)\)", text)
    assert len(links) >= 5
    assert [link for link in links if not link.startswith("http") and not (ROOT / link).exists()] == []
    assert len(text.splitlines()) <= README_LINES_MAX


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_module_that_a_document_names_exists(document: str, files: list[str]) -> None:
    text = (ROOT / document).read_text("utf-8")
    named = set(re.findall(r"(?<![\w/.*<>{}$-])((?:\w+/)*\w+\.py)\b", text)) - OF_THE_READER
    assert sorted(name for name in named if not any(file.endswith("/" + name) for file in files)) == []


def test_every_folder_that_the_architecture_names_exists(files: list[str]) -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    named = set(re.findall(r"`((?:\w+/)+)`", text))
    assert sorted(name for name in named if not any("/" + name in file for file in files)) == []


@pytest.mark.parametrize("package", ["kernels", "query"])
def test_the_architecture_lists_the_rooms_in_their_order(package: str) -> None:
    text = section((ROOT / "ARCHITECTURE.md").read_text("utf-8"), f"Rooms of `{package}/`")
    assert re.findall(r"^\| `(\w+)/` \|", text, re.MULTILINE) == FLOORS[package]


@pytest.mark.parametrize("package", ["segment", "functions"])
def test_the_architecture_lists_all_rooms_of_smaller_packages(package: str) -> None:
    text = section((ROOT / "ARCHITECTURE.md").read_text("utf-8"), "Rooms of `segment/` and `functions/`")
    assert re.findall(rf"^\| `{package}/(\w+)/` \|", text, re.MULTILINE) == FLOORS[package]


ROOMS = [
    folder / "__init__.py"
    for package in FLOORS
    for folder in sorted((ROOT / "src" / "pinotpy" / package).iterdir())
    if (folder / "__init__.py").is_file()
]


@pytest.mark.parametrize("room", ROOMS, ids=lambda file: "/".join(file.parts[-3:-1]))
def test_every_module_that_a_room_says_to_read_first_exists(room: Path) -> None:
    text = ast.get_docstring(ast.parse(room.read_text("utf-8"))) or ""
    match = re.search(r"Read first:(.*?)\n(?:\n|[A-Z])", text + "\n\n", re.DOTALL)
    assert match is not None
    named = re.findall(r"`([\w/]+)`", match[1])
    assert named and [name for name in named if not (room.parent / f"{name}.py").is_file()] == []


def test_a_query_has_at_most_ten_stations_and_the_glossary_is_short() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    stations = re.findall(r"^\| (\d+) \|", section(text, "One GROUP BY, in ten stations"), re.MULTILINE)
    assert stations == [str(i) for i in range(1, 11)]
    assert len(section(text, "Glossary").strip().splitlines()) <= GLOSSARY_LINES_MAX
