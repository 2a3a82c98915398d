"""Routes that wait for others than ZooKeeper, on threads of their own: one that hangs must not take those of all
requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial, wraps
from typing import BinaryIO, Final, ParamSpec, TypeVar

from pinotpy.service.http_guard import asker_var
from pinotpy.service.turn_queue import TurnQueue

_P = ParamSpec("_P")
_T = TypeVar("_T")

PIECE_BYTES: Final = 1 << 20


def aside(queue: TurnQueue) -> Callable[[Callable[_P, _T]], Callable[_P, Awaitable[_T]]]:
    """Make a handler run on the threads of `queue`, where those who ask take turns: `controller.fan_out` if it asks
    servers, `controller.storage` if it reads or changes files of the deep store.
    """

    def wrap(handler: Callable[_P, _T]) -> Callable[_P, Awaitable[_T]]:
        @wraps(handler)
        async def answer(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            return await run_aside(queue, partial(handler, *args, **kwargs))

        return answer

    return wrap


async def run_aside(queue: TurnQueue, work: Callable[[], _T]) -> _T:
    """What `work` gives, in the turn of who asks."""
    return await asyncio.wrap_future(queue.submit(asker_var.get(), work))


async def pieces_of(queue: TurnQueue, file: BinaryIO) -> AsyncIterator[bytes]:
    """The rest of a file, which is closed at its end, or when nobody wants more."""
    try:
        while piece := await run_aside(queue, partial(file.read, PIECE_BYTES)):
            yield piece
    finally:
        await asyncio.shield(run_aside(queue, file.close))
