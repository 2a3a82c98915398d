"""Takes back what a test has added to the process's user-defined functions; daemons load theirs once and keep them."""

from __future__ import annotations

from pinotpy.functions.scalar import spec


def remove_user_functions() -> None:
    """Forget all user-defined functions of this process."""
    spec._user.clear()
    spec.bind.cache_clear()
