"""A deadline for calls of libraries that have none of their own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast

from pinotpy.errors import RemoteError

T = TypeVar("T")


def within(timeout_s: float, call: Callable[[], T], what: str) -> T:
    """What `call` gives or raises, or RemoteError when it takes longer.

    It runs on a thread of its own, which a call that hangs keeps until it ends; such a thread keeps no process from
    ending.
    """
    outcome: list[Any] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(call())
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=run, name="file-system-call", daemon=True)
    thread.start()
    thread.join(timeout_s)
    if failure:
        raise failure.pop()  # a frame that it holds would hold it
    if not outcome:
        raise RemoteError(f"{what}: no answer within {timeout_s:g} s")
    return cast(T, outcome[0])
