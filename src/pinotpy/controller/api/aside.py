"""Routes that wait for other daemons, on threads of their own: one that hangs must not take those of all requests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial, wraps
from typing import ParamSpec, TypeVar

from pinotpy.controller.context import Controller
from pinotpy.service.http_guard import asker_var

_P = ParamSpec("_P")
_T = TypeVar("_T")


def aside(controller: Controller) -> Callable[[Callable[_P, _T]], Callable[_P, Awaitable[_T]]]:
    """Make a handler run on the threads that wait for servers, where those who ask take turns."""

    def wrap(handler: Callable[_P, _T]) -> Callable[_P, Awaitable[_T]]:
        @wraps(handler)
        async def answer(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            return await asyncio.wrap_future(
                controller.fan_out.submit(asker_var.get(), partial(handler, *args, **kwargs))
            )

        return answer

    return wrap
