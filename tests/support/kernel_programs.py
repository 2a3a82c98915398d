"""Programs in processes of their own, with a cache of kernels in a folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def run_with_cache(folder: Path, program: str) -> Any:
    """What the program prints as JSON, None if nothing; modules in the folder can be imported, its cache is there."""
    environment = {**os.environ, "PINOTPY_KERNEL_CACHE": str(folder / "cache")}
    environment["PYTHONPATH"] = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout or "null")
