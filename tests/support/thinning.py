"""How many random cases the tests of the full tier try: all, or on a machine that would not get through them in CI's
time a share of them (PINOTPY_THIN, which `.ci/run` sets by how long the fast tier took, and prints).
"""

from __future__ import annotations

import os

SHARE = float(os.environ.get("PINOTPY_THIN") or "1")


def cases(number: int, setting: str = "", *, multiple_of: int = 1) -> int:
    """The environment variable `setting` if there is one, else the share of `number`, both at least `multiple_of`."""
    asked = os.environ.get(setting, "") if setting else ""
    wanted = int(asked) if asked else int(number * SHARE)
    return max(wanted // multiple_of, 1) * multiple_of
