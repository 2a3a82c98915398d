"""The command line in this process: arguments in; exit status, standard output and standard error out."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from pinotpy.cli.main import main


@dataclass(frozen=True)
class Ended:
    """What a command left."""

    status: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


Pinotpy = Callable[..., Ended]


@pytest.fixture
def pinotpy(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Pinotpy:
    monkeypatch.setenv("COLUMNS", "200")
    for name in (
        "PINOTPY_CONTROLLER_URL",
        "PINOTPY_BROKER_URL",
        "PINOTPY_USER",
        "PINOTPY_PASSWORD",
        "PINOTPY_AUTH_TOKEN",
        "PINOTPY_TLS_CA_FILE",
    ):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: object) -> Ended:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return Ended(int(ended.value.code or 0), out, err)

    return run
