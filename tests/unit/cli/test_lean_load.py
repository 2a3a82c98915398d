"""Proves that `pinotpy load` does not wait for libraries that happen to be installed and that it does not use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import sys
sys.argv = ["pinotpy", "load", sys.argv[1], "--dry-run", "--json"]
from pinotpy.cli.main import main
try:
    main()
finally:
    print("pandas" in sys.modules, file=sys.stderr)
"""


def test_load_imports_no_pandas(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("a,b\n1,x\n2,y\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, file], capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, done.stderr.split()[-1]) == (0, "False"), done.stderr
