"""What was measured, and on what."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Any


def commit_name() -> str:
    """The commit that is checked out."""
    found = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"


def machine() -> dict[str, Any]:
    """What the numbers were measured on."""
    return {"cpu": _cpu(), "cores": os.cpu_count(), "python": platform.python_version()}


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()
