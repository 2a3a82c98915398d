"""Signs of life during a step that takes long, for output that is no terminal: there no spinner turns."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

EVERY_S: Final = 4.0


@contextmanager
def pulse(say: Callable[[float], None], every_s: float = EVERY_S) -> Iterator[None]:
    """Until the block ends, tell `say` every few seconds how many it has taken."""
    start_s, has_ended = time.monotonic(), threading.Event()

    def beat() -> None:
        while not has_ended.wait(every_s):
            say(time.monotonic() - start_s)

    thread = threading.Thread(target=beat, name="pulse", daemon=True)
    thread.start()
    try:
        yield
    finally:
        has_ended.set()
        thread.join()
