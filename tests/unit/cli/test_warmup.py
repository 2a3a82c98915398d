"""Proves what `pinotpy warmup` says of the cache; compiling itself has its own tests."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest

from pinotpy.cli.commands import warmup


@pytest.mark.parametrize("is_kept", [True, False])
def test_warmup_tells_whether_its_cache_stays(
    is_kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "kernels" if is_kept else Path(tempfile.gettempdir()) / "pinotpy-kernels-x"
    monkeypatch.setattr("pinotpy.cli.compiled_kernels.compile_all", lambda: folder)
    warmup.run(as_json=True)
    shown = capsys.readouterr()
    answer = json.loads(shown.out)
    assert (answer["cache"], answer["isKept"]) == (str(folder), is_kept) and answer["tookSeconds"] >= 0
    assert ("PINOTPY_KERNEL_CACHE" in shown.err) is not is_kept
    warmup.run()
    assert str(folder) in capsys.readouterr().out
