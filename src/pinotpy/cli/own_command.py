"""How this program was called, for the commands that it prints."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path


def own_command() -> str:
    """How this program was called, as it can be typed again: `.venv/bin/pinotpy`."""
    called = Path(sys.argv[0])
    if called.name != "pinotpy":
        return f"{sys.executable} -m pinotpy"
    shortest = min(str(called), os.path.relpath(called), key=len)
    return called.name if shutil.which("pinotpy") == str(called) else shortest
