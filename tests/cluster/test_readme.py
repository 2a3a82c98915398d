"""Proves that the README is true: every command in its ```sh blocks is run as written against a real quickstart, and
what it says that they show is in their output. Only ports, the interpreter's folder and the scratch folder are
substituted; `make quickstart` runs with its own options (its recipe is compared), and of `make test`, which runs this
very test, only the recipe is looked at.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import pytest
from quickstart_process import QuickstartProcess

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).resolve().parent.parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMAND_TIMEOUT_S = 120.0
BY_MAKE = ("make quickstart", "make test")


@dataclass(frozen=True)
class Step:
    """A block of commands, and the lines that the README shows as their output."""

    commands: str
    shown: tuple[str, ...]


def steps() -> list[Step]:
    found: list[Step] = []
    for shows, language, text in re.findall(
        r"^(<!-- shows -->\n)?```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL
    ):
        if shows:
            found[-1] = Step(found[-1].commands, tuple(text.strip().splitlines()))
        elif language == "sh":
            found.append(Step(text.strip(), ()))
    return found


def recipe(target: str) -> str:
    return subprocess.run(["make", "-n", *target.split()], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def squeezed(text: str) -> str:
    return " ".join(text.split())


def test_the_readme_has_the_blocks_that_this_test_is_about() -> None:
    commands = "\n".join(step.commands for step in steps())
    for part in (
        *BY_MAKE,
        "curl -s",
        "post-query",
        "/query/sql",
        "pinotpy.client",
        "create-segment",
        "add-table",
        "upload-segment",
        "validate-config",
    ):
        assert part in commands, part
    assert sum(bool(step.shown) for step in steps()) >= 4


def test_both_make_targets_are_what_the_readme_says() -> None:
    assert re.search(r"\.venv/bin/pinotpy quickstart\s*$", recipe("quickstart"), re.MULTILINE)
    assert re.search(r"\.venv/bin/pinotpy quickstart --exit\s*$", recipe("quickstart EXIT=1"), re.MULTILINE)
    tests = recipe("test")
    assert "ruff check" in tests and "mypy" in tests and len(re.findall(r"-m pytest", tests)) >= 2


def test_every_command_runs_and_shows_what_the_readme_shows(tmp_path: Path) -> None:
    run = QuickstartProcess(tmp_path / "scratch")
    try:
        run.wait_for("Ctrl-C stops everything")
        controller, broker = run.ports["controller"], run.ports["broker"]
        for url in re.findall(r"<(http://localhost:9000/[^>]*)>", README):
            with urllib.request.urlopen(url.replace("9000", str(controller)), timeout=120) as page:
                assert page.status == 200 and b"<html" in page.read().lower(), url
        # Commands without a URL mean the usual ports.
        env = {
            **os.environ,
            "PINOTPY_CONTROLLER_URL": f"http://localhost:{controller}",
            "PINOTPY_BROKER_URL": f"http://localhost:{broker}",
            "COLUMNS": "120",
        }
        replaced = {
            "localhost:8099": f"localhost:{broker}",
            "localhost:9000": f"localhost:{controller}",
            ".venv/bin/": f"{Path(sys.executable).parent}/",
            "/tmp/orders": str(tmp_path / "orders"),
        }
        for step in steps():
            if step.commands.splitlines() == list(BY_MAKE):
                continue
            script = step.commands
            for old, new in replaced.items():
                script = script.replace(old, new)
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", script],
                cwd=ROOT,
                env=env,
                capture_output=True,
                text=True,
                timeout=COMMAND_TIMEOUT_S,
                check=False,
            )
            assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
            for line in step.shown:
                assert squeezed(line) in squeezed(done.stdout), f"{script}\nprinted\n{done.stdout}\nwithout\n{line}"
        run.process.send_signal(signal.SIGINT)
        assert run.wait(60) == 0, run.output
        run.assert_nothing_is_left()
    finally:
        run.close()
    assert not list((tmp_path / "scratch").iterdir()), "the folder of the run"
