"""What a transition does when the segment's record changes under it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pinotpy.clock import ManualClock, SystemClock
from pinotpy.cluster.property_store import Versioned
from pinotpy.cluster.segment_metadata import REPLACED, SegmentZkMetadata
from pinotpy.errors import DataError, NotFoundError, RemoteError, SegmentCorruptError
from pinotpy.server.failed_transitions import FIRST_WAIT_S, FailedTransitions
from pinotpy.server.reload_jobs import ReloadJobs
from pinotpy.server.tables.registry import SegmentRegistry
from pinotpy.server.transitions import SegmentTransitions


class _Properties:
    """The record of one segment; `crcs` is what successive reads find, the last one for ever."""

    def __init__(self, *crcs: int) -> None:
        self.crcs = list(crcs)

    def segment(self, table: str, segment_name: str) -> Any:
        if not self.crcs:
            return None
        crc = self.crcs.pop(0) if len(self.crcs) > 1 else self.crcs[0]
        extra = {REPLACED: f"{crc - 1} at 9"} if crc > 1 else {}
        url = f"http://c/segments/t/{segment_name}"
        return Versioned(SegmentZkMetadata(segment_name, table, crc, 7, 1, url, extra=extra), 0)


class _Store:
    """Has one version of the segment; every other cannot be had."""

    def __init__(self, crc: int, error: Exception) -> None:
        self.crc, self.error = crc, error
        self.asked: list[int] = []

    def open(
        self, table: str, segment_name: str, crc: int, download_url: str, crypter: str, *, anew: bool = False
    ) -> Any:
        self.asked.append(crc)
        if crc != self.crc:
            raise self.error
        return SimpleNamespace(name=segment_name, crc=crc, num_docs=7)

    def open_from_peer(self, table: str, segment_name: str, crc: int, fault: Exception) -> Any:
        raise fault


class _Registry:
    def __init__(self) -> None:
        self.held: dict[str, Any] = {}
        self.told: list[tuple[int, str]] = []  # CRC of what is held when it is told what is served

    def put(self, table: str, segment: Any, offsets: tuple[str, str] | None = None) -> None:
        self.held[segment.name] = segment

    def tell(self, table: str, segment_name: str, content: str) -> None:
        self.told.append((self.held[segment_name].crc, content))

    def segments(self, table: str) -> dict[str, Any]:
        return self.held


class _Metrics:
    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


class _NoUpkeep:
    def apply(self, table: str, segment: Any, *, drop: bool) -> tuple[Any, str]:
        return segment, "nothing to do"


def _online(store: _Store, properties: _Properties) -> _Registry:
    registry = _Registry()
    transitions = SegmentTransitions(
        cast(Any, registry),
        cast(Any, store),
        cast(Any, properties),
        cast(Any, _Metrics()),
        cast(Any, _NoUpkeep()),
        ReloadJobs(SystemClock()),
        lambda _: (),
        serves=registry.tell,
    )
    transitions.on_transition("t_OFFLINE", "t_0", "OFFLINE", "ONLINE")
    return registry


@pytest.mark.parametrize(
    "error",
    [SegmentCorruptError("another segment", file="t_0", expected="CRC 1", found="CRC 2"), RemoteError("HTTP 404")],
)
def test_a_segment_that_is_replaced_while_it_is_fetched_ends_in_its_new_version(error: Exception) -> None:
    store = _Store(2, error)
    registry = _online(store, _Properties(1, 2))
    assert registry.held["t_0"].crc == 2
    assert store.asked == [1, 2]
    assert registry.told == [(2, "2 for 1 at 9")], "the content that is served by then"


def test_what_is_served_has_no_name_before_it_is_replaced() -> None:
    assert _online(_Store(1, RemoteError("HTTP 404")), _Properties(1)).told == [(1, "")]


def test_a_segment_that_cannot_be_had_in_the_version_of_its_record_fails_once(tmp_path: Path) -> None:
    store = _Store(2, RemoteError("HTTP 404"))
    with pytest.raises(RemoteError):
        _online(store, _Properties(1))
    assert store.asked == [1]


def test_a_segment_that_is_deleted_while_it_is_fetched_says_so() -> None:
    with pytest.raises(NotFoundError, match="no record"):
        _online(_Store(2, RemoteError("HTTP 404")), _Properties())


class _Consuming:
    """Does what the next of `faults` says, then nothing."""

    def __init__(self, *faults: Exception) -> None:
        self.faults = list(faults)
        self.left: list[str] = []

    def start(self, table: str, segment_name: str) -> None:
        if self.faults:
            raise self.faults.pop(0)

    def become_online(self, table: str, segment_name: str) -> bool:
        self.start(table, segment_name)
        return True

    def leave(self, table: str, segment_name: str) -> None:
        self.left.append(segment_name)


@pytest.mark.parametrize(("before", "after"), [("OFFLINE", "CONSUMING"), ("CONSUMING", "ONLINE")])
def test_what_keeps_a_segment_of_a_stream_from_consuming_or_ending_is_tried_again(before: str, after: str) -> None:
    """In ever longer waits, although a reset leads through OFFLINE each time."""
    clock, registry = ManualClock(), SegmentRegistry()
    consuming, retries = _Consuming(*[DataError("not yet")] * 3), FailedTransitions(clock)
    transitions = SegmentTransitions(
        registry,
        cast(Any, None),
        cast(Any, None),
        cast(Any, _Metrics()),
        cast(Any, _NoUpkeep()),
        ReloadJobs(clock),
        lambda _: (),
        retries,
        cast(Any, consuming),
    )
    waits = []
    for _ in range(3):
        with pytest.raises(DataError):
            transitions.on_transition("t_REALTIME", "s", before, after)
        began_ns = clock.monotonic_ns()
        while not retries.take_due():
            clock.advance(1_000)
        waits.append((clock.monotonic_ns() - began_ns) / 1e9)
        transitions.on_transition("t_REALTIME", "s", "ERROR", "OFFLINE")
    assert consuming.left == ["s"] * 3, "nothing of the attempt before is left"
    assert waits[1] > FIRST_WAIT_S <= waits[2], waits
    transitions.on_transition("t_REALTIME", "s", before, after)
    clock.advance(3_600_000)
    assert retries.take_due() == {}
