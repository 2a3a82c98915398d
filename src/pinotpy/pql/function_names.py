"""One name for each function however a query spelled it: for whoever looks implementations up.

Call.name keeps what responses print (`add(runs,'1')` stays add, PQL keeps underscores); `canonical_function` is the key
of registries.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from pinotpy.pql.sql_keywords import OPERATOR_NAMES

_ALIASES: Final = {"add": "plus", "sub": "minus", "mult": "times", "div": "divide", "ceiling": "ceil", "power": "pow"}


@lru_cache(maxsize=4096)
def canonical_function(name: str) -> str:
    """Lower case, without underscores unless it is an operator (`greater_than`), and one of two names that mean the
    same: add is plus, sub minus, mult times, div divide.
    """
    lower = name.lower()
    if lower in OPERATOR_NAMES:
        return lower
    plain = lower.replace("_", "")
    return _ALIASES.get(plain, plain)
