"""Proves what `pinotpy warmup` says of the cache and of its progress; compiling itself has its own tests."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from pinotpy.cli.commands import warmup


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("is_kept", [True, False])
def test_warmup_tells_its_progress_and_whether_its_cache_stays(
    is_kept: bool,
    is_first: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    base = tmp_path / "kernels" if is_kept else Path(tempfile.gettempdir()) / "pinotpy-kernels-x"
    folder = base / "0123456789abcdef"

    def compile_it(say: Callable[[str], None]) -> Path:
        say("compiling kernels, once for this CPU: 37 %")
        return folder

    monkeypatch.setattr(f"pinotpy.cli.compiled_kernels.compile_{'first' if is_first else 'all'}", compile_it)
    warmup.run(first=is_first, as_json=True)
    shown = capsys.readouterr()
    answer = json.loads(shown.out)
    assert (answer["cache"], answer["isKept"]) == (str(folder), is_kept) and answer["tookSeconds"] >= 0
    assert ("PINOTPY_KERNEL_CACHE" in shown.err) is not is_kept and "37 %" in shown.err
    warmup.run(first=is_first)
    assert str(folder) in capsys.readouterr().out
