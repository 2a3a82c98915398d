"""Libraries that import others where these happen to be there, and do without where they are not: here they are not."""

from __future__ import annotations

import sys


class _LeanImports:
    """An import hook that says: these are not installed. Libraries try them and do without.

    pandas: Arrow imports it on the first conversion of a list where it happens to be there, 56 MB and 0.2 s for
    nothing.
    httpx._main: httpx's command line, with rich, click and pygments, 10 MB and 0.1 s.
    (None in sys.modules would not do: compiled modules take it for the module, and Arrow's first conversion fails.)
    """

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name in ("pandas", "httpx._main"):
            raise ModuleNotFoundError("daemons run without it", name=name)


def keep_imports_lean() -> None:
    """For daemons and the processes that they start, before they import their parts."""
    if _LeanImports not in sys.meta_path:
        sys.meta_path.insert(0, _LeanImports)
