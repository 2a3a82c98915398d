"""Work that waits for the network, done on a thread while the block goes on with what keeps the processors busy."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

Tell = Callable[[str], None]

_STOP_S: Final = 30.0
_POLL_S: Final = 0.2  # a join without limit lets no signal through on some systems


class _AbandonedError(Exception):
    """Nobody waits for the work any more."""


@contextmanager
def beside(work: Callable[[Tell], object], tell: Tell) -> Iterator[Callable[[], None]]:
    """Yields a function that returns when `work` is done, and raises what it raised.

    Args:
        work: gets `tell`; where the block was left before it was waited for, its next word ends it.
    """
    is_abandoned = threading.Event()
    raised: list[BaseException] = []

    def say(line: str) -> None:
        if is_abandoned.is_set():
            raise _AbandonedError
        tell(line)

    def run() -> None:
        try:
            work(say)
        except _AbandonedError:
            return
        except BaseException as error:
            raised.append(error)

    def wait() -> None:
        while thread.is_alive():
            thread.join(_POLL_S)
        if raised:
            raise raised[0]

    thread = threading.Thread(target=run, name="beside", daemon=True)
    thread.start()
    try:
        yield wait
    finally:
        is_abandoned.set()
        thread.join(_STOP_S)
