"""How much work a call is, without a clock: the lines of Python that it runs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def python_lines_of(call: Callable[[], object]) -> int:
    """Lines of Python that run during the call, each as often as it runs; what is compiled counts as one. Call it once
    before, so that imports and compilers are not counted.
    """
    num_lines = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal num_lines
        num_lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return num_lines
