"""Pseudo terminals, for what asks a person."""

from __future__ import annotations

import pty

import pytest


def open_terminal() -> tuple[int, int]:
    """Both sides of one. Skips the test on a machine that has none to give (a chroot or container without /dev/pts):
    nobody sits at a terminal there.
    """
    try:
        return pty.openpty()
    except OSError as error:
        pytest.skip(f"this machine has no pseudo terminals, /dev/pts is not mounted: {error}")
