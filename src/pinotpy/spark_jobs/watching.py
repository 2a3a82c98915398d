"""How far a Spark job is: tasks done of its running stages, asked from beside."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

_POLL_S: Final = 0.5

ShowProgress = Callable[[str, int, int], None]
"""(what is done, tasks done, tasks of the running stages)."""


def no_progress(what: str, num_done: int, num_tasks: int) -> None:
    """For those who do not look."""


@contextlib.contextmanager
def watched(spark: Any, what: str, show: ShowProgress) -> Iterator[None]:
    """Call `show` twice a second while the body runs."""
    done = threading.Event()

    def watch() -> None:
        tracker = spark.sparkContext.statusTracker()
        while not done.wait(_POLL_S):
            # The JVM may go while we ask.
            with contextlib.suppress(Exception):
                stages = [
                    info for stage in tracker.getActiveStageIds() if (info := tracker.getStageInfo(stage)) is not None
                ]
                if stages:
                    show(
                        what, sum(stage.numCompletedTasks for stage in stages), sum(stage.numTasks for stage in stages)
                    )

    show(what, 0, 0)
    if show is no_progress:
        yield
        return
    thread = threading.Thread(target=watch, name="spark-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(2 * _POLL_S)
