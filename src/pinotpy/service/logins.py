"""Where passwords are checked: on few threads of their own, in turn by address.

A check costs 32 MiB and a tenth of a second of a core. Whoever sends many wrong ones waits behind himself: addresses
take turns, and no request's thread is held meanwhile.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from pinotpy.service.addresses import counted_address
from pinotpy.service.errors import LoginThrottledError
from pinotpy.service.rights import Principal

LOGINS_AT_ONCE_MAX: Final = 2
# Of one address; more are told to come again. At the checks' cost the last of them waits for seconds.
WAITING_BY_ADDRESS_MAX: Final = 64
RETRY_AFTER_S: Final = 2

_Login = tuple[Future[Principal], Callable[[], Principal]]


class LoginQueue:
    """Logins that wait, by address. Safe to share between threads; its lock guards the queues."""

    def __init__(self, waiting_by_address_max: int = WAITING_BY_ADDRESS_MAX) -> None:
        self._waiting_by_address_max = waiting_by_address_max
        self._threads = ThreadPoolExecutor(LOGINS_AT_ONCE_MAX, thread_name_prefix="login")
        self._lock = threading.Lock()
        self._waiting: OrderedDict[str, deque[_Login]] = OrderedDict()  # the address whose turn it is first

    def submit(self, peer: str, check: Callable[[], Principal]) -> Future[Principal]:
        """What `check` gives or raises, in its turn. Raises LoginThrottledError if too many of `peer` wait already."""
        future: Future[Principal] = Future()
        with self._lock:
            waiting = self._waiting.setdefault(counted_address(peer), deque())
            if len(waiting) >= self._waiting_by_address_max:
                raise LoginThrottledError(
                    "too many logins at once from this address: try again", retry_after_s=RETRY_AFTER_S
                )
            waiting.append((future, check))
        self._threads.submit(self._run_next)
        return future

    def _run_next(self) -> None:
        with self._lock:
            address, waiting = self._waiting.popitem(last=False)
            future, check = waiting.popleft()
            if waiting:
                self._waiting[address] = waiting
        if not future.set_running_or_notify_cancel():
            return  # its client is gone
        try:
            future.set_result(check())
        except BaseException as problem:
            future.set_exception(problem)


# One for the process: what it bounds is the process' memory and cores.
LOGINS: Final = LoginQueue()
