"""Proves that a broker runs so many queries at once, lets so many wait in their order, refuses the rest, and loses no
place when a waiting query gives up.
"""

from __future__ import annotations

import asyncio

import pytest

from pinotpy.broker.admission import Admission
from pinotpy.errors import OutOfCapacityError, QueryTimeoutError


async def _settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_queries_beyond_the_limit_wait_in_order_and_the_rest_is_refused() -> None:
    async def run() -> None:
        admission = Admission(running_max=2, waiting_max=2)
        await admission.enter(1.0)
        await admission.enter(1.0)
        order: list[str] = []

        async def query(name: str) -> None:
            await admission.enter(5.0)
            order.append(name)

        tasks = [asyncio.create_task(query(name)) for name in ("first", "second")]
        await _settle()
        assert (admission.running, admission.waiting, order) == (2, 2, [])
        with pytest.raises(OutOfCapacityError) as refused:
            await admission.enter(5.0)
        assert refused.value.code == 211
        admission.leave()
        await _settle()
        assert order == ["first"]
        admission.leave()
        await asyncio.gather(*tasks)
        assert (order, admission.running, admission.waiting) == (["first", "second"], 2, 0)
        admission.leave()
        admission.leave()
        assert admission.running == 0

    asyncio.run(run())


def test_a_query_whose_time_is_up_stops_waiting() -> None:
    async def run() -> None:
        admission = Admission(running_max=1, waiting_max=1)
        await admission.enter(1.0)
        with pytest.raises(QueryTimeoutError) as late:
            await admission.enter(0.0)
        assert late.value.code == 250
        assert (admission.running, admission.waiting) == (1, 0)

    asyncio.run(run())


def test_a_place_handed_to_a_query_that_is_cancelled_goes_to_the_next() -> None:
    async def run() -> None:
        admission = Admission(running_max=1, waiting_max=5)
        await admission.enter(1.0)
        gone, waits = (asyncio.create_task(admission.enter(5.0)) for _ in range(2))
        await _settle()
        admission.leave()  # hands the place to `gone` …
        gone.cancel()  # … which gives up before it runs again
        await asyncio.gather(gone, return_exceptions=True)
        await waits
        assert (admission.running, admission.waiting) == (1, 0)
        admission.leave()
        assert admission.running == 0

    asyncio.run(run())
