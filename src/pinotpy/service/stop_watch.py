"""A daemon that is told to stop does stop, and says where it hangs if it does not.

Python runs its handlers on the main thread, but the system may give a signal to any thread. Linux wakes the main one; a
thread that is just starting another one (which blocks and unblocks all signals) takes what is pending before the main
thread gets to it, and that one sleeps on. A broker that was told to stop while its first transition started a thread
never heard of it. So a thread of its own is told of every signal, wherever it arrived, by way of the wakeup descriptor;
it wakes the main thread until that has run the handler.

The same thread sees to the end: after TELL_AFTER_S it writes once where every thread stands, and when the parts'
deadlines have passed it ends the process with status 1. Nothing is lost by that: segments are whole or not there, and
ZooKeeper is told by the session's end. It writes past the log, whose lock or pipe may be what hangs; and where no
Python runs any more, faulthandler's own timer does both.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Final

from pinotpy.service.logs import escape

# Below what supervisors wait: LocalCluster's 20 s, Docker's 10 and Kubernetes' 30 by default.
TELL_AFTER_S = 8.0
STOPS: Final = (signal.SIGTERM, signal.SIGINT)
_STDERR: Final = 2
# Ends waits of the main thread, nothing else: ignored by default, and nobody sends it.
_WAKE: Final = signal.SIGURG
_WAKE_EVERY_S: Final = 0.05
# faulthandler's timer is for the case that no Python runs any more: else the words of this file come first.
_TIMER_MARGIN_S = 3.0
_WRITE_WAIT_S: Final = 0.5
_PIPE_BYTES: Final = 4096


class StopWatch:
    """Watches this process from its first signal on. Made and undone on the main thread.

    Args:
        is_handled: whether the main thread has run the signal's handler.
        bound_s: how long the stop may take, asked when it begins.
    """

    def __init__(self, role: str, is_handled: Callable[[], bool], bound_s: Callable[[], float]) -> None:
        self._role, self._is_handled, self._bound_s = role, is_handled, bound_s
        self._ended = threading.Event()
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._old_wakeup = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self._old_wake = signal.signal(_WAKE, lambda *_: None)
        threading.Thread(target=self._listen, name="signals", daemon=True).start()

    def begin(self) -> None:
        """The process stops now, whether it got a signal or not."""
        with contextlib.suppress(OSError):  # full: it was told already
            os.write(self._write, bytes([STOPS[0]]))

    def undo(self) -> None:
        """The stop came to its end."""
        signal.set_wakeup_fd(self._old_wakeup)
        self._ended.set()
        signal.signal(_WAKE, self._old_wake)
        os.close(self._write)

    def _listen(self) -> None:
        while numbers := os.read(self._read, 64):
            if not set(STOPS).isdisjoint(numbers):
                self._see_to_the_end()
                break
        os.close(self._read)

    def _see_to_the_end(self) -> None:
        began_s, bound_s, tell_after_s = time.monotonic(), self._bound_s(), TELL_AFTER_S
        if sys.stderr is not None:
            faulthandler.dump_traceback_later(bound_s + _TIMER_MARGIN_S, exit=True, file=_STDERR)
        main = threading.main_thread().ident
        while main is not None and not self._is_handled() and time.monotonic() - began_s < tell_after_s:
            signal.pthread_kill(main, _WAKE)
            if self._ended.wait(_WAKE_EVERY_S):
                break
        if not self._ended.wait(max(0.0, began_s + tell_after_s - time.monotonic())):
            self._tell(f"is still stopping after {tell_after_s:g} s")
            if not self._ended.wait(max(0.0, began_s + bound_s - time.monotonic())):
                self._tell(f"did not stop within {bound_s:g} s and is ended now")
                os._exit(1)
        faulthandler.cancel_dump_traceback_later()

    def _tell(self, what: str) -> None:
        _write(f"pinotpy {self._role}: {what}; its threads:\n" + "".join(f"  | {escape(line)}\n" for line in stacks()))


def stacks() -> list[str]:
    """Every thread by name and where it stands, innermost last."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    lines: list[str] = []
    for ident, frame in sys._current_frames().items():
        lines.append(f"thread {names.get(ident, ident)}")
        lines += [line for entry in traceback.format_stack(frame) for line in entry.rstrip().split("\n")]
    return lines


def _write(text: str) -> None:
    """To standard error, as far as somebody reads it: a full pipe may be what the daemon hangs at."""
    content = text.encode(errors="replace")
    with contextlib.suppress(OSError, ValueError):
        while content and sys.stderr is not None and select.select([], [_STDERR], [], _WRITE_WAIT_S)[1]:
            content = content[os.write(_STDERR, content[:_PIPE_BYTES]) :]
