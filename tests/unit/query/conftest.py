"""What tests of several rooms of query/ share."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest


@pytest.fixture(scope="module")
def executor() -> Iterator[ThreadPoolExecutor]:
    """Threads beside the calling one; modules that need others have their own."""
    with ThreadPoolExecutor(4) as pool:
        yield pool
