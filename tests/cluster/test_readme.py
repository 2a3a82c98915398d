"""Proves that the README is true: every command in its ```sh blocks is run as written against a real quickstart, those
of "Your own data" against the cluster of `pinotpy up`, and what it says that they show is in their output. So are those
of docs/loading.md. Only ports, the interpreter's folder, the scratch folder and the data folder are substituted; `make
quickstart` runs with its own options (its recipe is compared), and of `make test`, which runs this very test, only the
recipe is looked at. The commands ask for no kernel beside those that are compiled before a server is ready.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from quickstart_process import QuickstartProcess

from pinotpy.kernels.demand import RECORD
from pinotpy.kernels.kernel_lists import first_kernels, kernels_in

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).resolve().parent.parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
LOADING = (ROOT / "docs" / "loading.md").read_text(encoding="utf-8")
_BEFORE, _FROM = README.split("\n## Your own data\n")
OWN_DATA, _AFTER = _FROM.split("\n## ", 1)
DEMONSTRATED = f"{_BEFORE}\n## {_AFTER}"
COMMAND_TIMEOUT_S = 120.0
BY_MAKE = ("make quickstart", "make test")


@dataclass(frozen=True)
class Step:
    """A block of commands, and the lines that the README shows as their output."""

    commands: str
    shown: tuple[str, ...]


def steps(text: str) -> list[Step]:
    """But for the targets of make."""
    found: list[Step] = []
    for shows, language, block in re.findall(
        r"^(<!-- shows -->\n)?```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL
    ):
        if shows:
            found[-1] = Step(found[-1].commands, tuple(block.strip().splitlines()))
        elif language == "sh":
            found.append(Step(block.strip(), ()))
    return [step for step in found if step.commands.splitlines() != list(BY_MAKE)]


def recipe(target: str) -> str:
    return subprocess.run(["make", "-n", *target.split()], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def squeezed(text: str) -> str:
    return " ".join(text.split())


class Runner:
    """Runs steps against the cluster at these ports. Commands without a URL mean the usual ports, and find others in
    their environment.
    """

    def __init__(self, scratch: Path, controller: int, broker: int) -> None:
        bin_folder = Path(sys.executable).parent
        self.env = {
            **os.environ,
            "PINOTPY_CONTROLLER_URL": f"http://localhost:{controller}",
            "PINOTPY_BROKER_URL": f"http://localhost:{broker}",
            "PINOTPY_DATA_DIR": str(scratch / "stays"),
            "PATH": f"{bin_folder}{os.pathsep}{os.environ.get('PATH', '')}",
            "COLUMNS": "120",
        }
        self._replaced = {
            "localhost:8099": f"localhost:{broker}",
            "localhost:9000": f"localhost:{controller}",
            ".venv/bin/": f"{bin_folder}/",
            "/tmp/orders": str(scratch / "orders"),
        }

    def run(self, step: Step) -> None:
        script = step.commands
        for old, new in self._replaced.items():
            script = script.replace(old, new)
        done = self.call("bash", "-euo", "pipefail", "-c", script)
        assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
        printed = done.stdout + done.stderr  # `pinotpy sql` keeps standard output for rows
        for line in step.shown:
            assert squeezed(line) in squeezed(printed), f"{script}\nprinted\n{printed}\nwithout\n{line}"

    def call(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=ROOT, env=self.env, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False
        )


def test_the_documents_have_the_blocks_that_this_test_is_about() -> None:
    assert all(make in README for make in BY_MAKE)
    for text, parts in (
        (DEMONSTRATED, ("pinotpy sql", "curl -s", "post-query --pql", "/query/sql", "pinotpy.client")),
        (OWN_DATA, ("pinotpy up", "pinotpy load", "pinotpy sql", "pinotpy down")),
        (LOADING, ("create-segment", "add-table", "upload-segment", "validate-config")),
    ):
        commands = "\n".join(step.commands for step in steps(text))
        assert [part for part in parts if part not in commands] == []
        assert any(step.shown for step in steps(text))


def test_both_make_targets_are_what_the_readme_says() -> None:
    assert re.search(r"\.venv/bin/pinotpy quickstart\s*$", recipe("quickstart"), re.MULTILINE)
    assert re.search(r"\.venv/bin/pinotpy quickstart --exit\s*$", recipe("quickstart EXIT=1"), re.MULTILINE)
    tests = recipe("test")
    assert "ruff check" in tests and "mypy" in tests and len(re.findall(r"-m pytest", tests)) >= 2


@pytest.fixture
def asks_for_the_first_kernels_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No command asks for a kernel that a server compiles only when it is ready: the list of the first is current. The
    daemons load none ahead meanwhile.
    """
    if RECORD in os.environ:  # of tests/support/record_kernels.py, which writes that list
        yield
        return
    record = tmp_path / "kernels"
    monkeypatch.setenv(RECORD, str(record))
    yield
    missing = sorted(map(str, set(kernels_in(record)) - set(first_kernels())))
    assert not missing, f"not in first_kernels.txt, which tests/support/record_kernels.py writes: {missing}"


@pytest.mark.usefixtures("asks_for_the_first_kernels_alone")
def test_every_command_runs_and_shows_what_the_documents_show(tmp_path: Path) -> None:
    quickstart = QuickstartProcess(tmp_path / "scratch")
    try:
        quickstart.wait_for("Ctrl-C stops everything")
        controller, broker = quickstart.ports["controller"], quickstart.ports["broker"]
        for url in re.findall(r"<(http://localhost:9000/[^>]*)>", README):
            with urllib.request.urlopen(url.replace("9000", str(controller)), timeout=120) as page:
                assert page.status == 200 and b"<html" in page.read().lower(), url
        runner = Runner(tmp_path, controller, broker)
        for step in [*steps(DEMONSTRATED), *steps(LOADING)]:
            runner.run(step)
        quickstart.process.send_signal(signal.SIGINT)
        assert quickstart.wait(60) == 0, quickstart.output
        quickstart.assert_nothing_is_left()
    finally:
        quickstart.close()
    assert not list((tmp_path / "scratch").iterdir()), "the folder of the run"


def of_the_cluster_that_is_up(first: Runner, scratch: Path) -> Runner:
    """Where the usual ports are another's, it has taken free ones."""
    daemons = json.loads(first.call("pinotpy", "status", "--json").stdout)["daemons"]
    return Runner(scratch, *(int(daemons[name]["url"].rpartition(":")[2]) for name in ("controller", "broker")))


@pytest.mark.usefixtures("asks_for_the_first_kernels_alone")
def test_one_s_own_data_is_loaded_as_the_readme_says_and_stays(tmp_path: Path) -> None:
    up, *following = steps(OWN_DATA)
    assert up.commands == ".venv/bin/pinotpy up --detach"
    loaded = following[0]
    query = loaded.commands.splitlines()[-1]
    assert query.startswith(".venv/bin/pinotpy sql ") and loaded.shown[1].startswith("city")
    first = Runner(tmp_path, 9000, 8099)
    try:
        first.run(up)
        runner = of_the_cluster_that_is_up(first, tmp_path)
        for step in following:
            runner.run(step)
        assert first.call("pinotpy", "status").returncode == 3, "stopped"
        assert list((tmp_path / "stays" / "controller").rglob("orders*")), "the archive of the table's segment"
        first.run(up)
        of_the_cluster_that_is_up(first, tmp_path).run(Step(query, loaded.shown[1:]))
    finally:
        first.call("pinotpy", "down")
