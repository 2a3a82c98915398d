"""Long answers through a pager, where there is a terminal."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys


def show(text: str, *, may_page: bool) -> None:
    """Print a text; one longer than the terminal through $PAGER, or less, if `may_page` and there is one."""
    command = shlex.split(os.environ.get("PAGER") or "less")
    is_long = text.count("\n") >= shutil.get_terminal_size().lines
    if not (may_page and is_long and command and shutil.which(command[0])):
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    # Colours pass, wide tables are not folded.
    pager = subprocess.Popen(
        command, stdin=subprocess.PIPE, env={"LESS": "-RS", **os.environ}, text=True, encoding="utf-8"
    )
    # Ctrl-C is the pager's.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        pager.communicate(text)
    finally:
        signal.signal(signal.SIGINT, before)
