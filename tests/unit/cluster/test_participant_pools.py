"""Proves that segments which are sealed and segments which are loaded do not wait for each other: steps out of
CONSUMING have threads of their own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from pinotpy.clock import SystemClock
from pinotpy.cluster.cluster_setup import create_cluster
from pinotpy.cluster.membership import Member
from pinotpy.cluster.memory import MemoryStore, MemoryTree
from pinotpy.cluster.messages import transition_message
from pinotpy.cluster.participant import Participant
from pinotpy.cluster.paths import ClusterPaths
from pinotpy.cluster.process_identity import ProcessIdentity
from pinotpy.cluster.transitions import Transition
from pinotpy.cluster.views import CONSUMING, OFFLINE, ONLINE, Message

PATHS = ClusterPaths("C")
ME = "Server_h_8098"
TABLE = "t_REALTIME"
WORKERS = 2
PATIENCE_S = 120.0


class Gates:
    """Makes steps of one kind stand until they may end."""

    def __init__(self) -> None:
        self.stands: tuple[str, str] | None = None
        self.num_standing = 0
        self.may_end = threading.Event()
        self._lock = threading.Lock()

    def on_transition(self, resource: str, partition: str, from_state: str, to_state: str) -> None:
        if (from_state, to_state) == self.stands:
            with self._lock:
                self.num_standing += 1
            assert self.may_end.wait(PATIENCE_S)

    def on_message(self, message: Message) -> None: ...


class Instance:
    def __init__(self) -> None:
        tree = MemoryTree()
        self.admin, self.store = MemoryStore(tree), MemoryStore(tree)
        create_cluster(self.admin, PATHS)
        self.gates = Gates()
        member = Member(ME, ProcessIdentity(7, "h", "space", "start"), {"adminPort": "8097"})
        self.participant = Participant(
            self.store, PATHS, member, self.gates, workers=WORKERS, clock=SystemClock(), announce_timeout_s=0.0
        )
        self.participant.step()

    def send(self, partition: str, from_state: str, to_state: str) -> None:
        step = Transition(ME, self.store.session_id, TABLE, partition, from_state, to_state)
        message = transition_message(step, "SegmentOnlineOfflineStateModel", source="c", source_session="1", now_ms=5)
        self.admin.create(PATHS.message(ME, message.id), message.to_record().to_bytes())

    def until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline, self.participant.states(TABLE)
            self.participant.step()
            time.sleep(0.005)

    def is_in(self, partition: str, state: str) -> bool:
        return self.participant.states(TABLE).get(partition) == state


@pytest.fixture
def instance() -> Iterator[Instance]:
    made = Instance()
    yield made
    made.gates.may_end.set()
    made.participant.stop()
    made.store.close()
    made.admin.close()


@pytest.mark.parametrize(
    ("stands", "goes_on"),
    [((CONSUMING, ONLINE), (OFFLINE, ONLINE)), ((OFFLINE, ONLINE), (CONSUMING, ONLINE))],
    ids=["sealing stands", "loading stands"],
)
def test_sealing_and_loading_do_not_wait_for_each_other(
    instance: Instance, stands: tuple[str, str], goes_on: tuple[str, str]
) -> None:
    consuming = [f"t__{number}__0__20260101T0000Z" for number in range(WORKERS + 1)]
    pushed = [f"s{number}" for number in range(WORKERS + 1)]
    for segment in consuming:
        instance.send(segment, OFFLINE, CONSUMING)
    instance.until(lambda: all(instance.is_in(segment, CONSUMING) for segment in consuming))
    segments = {CONSUMING: consuming, OFFLINE: pushed}
    instance.gates.stands = stands
    for segment in segments[stands[0]]:
        instance.send(segment, *stands)
    instance.until(lambda: instance.gates.num_standing == WORKERS)  # all threads of one kind, and one more waits
    for segment in segments[goes_on[0]]:
        instance.send(segment, *goes_on)
    instance.until(lambda: all(instance.is_in(segment, ONLINE) for segment in segments[goes_on[0]]))
    assert not any(instance.is_in(segment, ONLINE) for segment in segments[stands[0]])
    instance.gates.may_end.set()
    instance.until(lambda: all(instance.is_in(segment, ONLINE) for segment in segments[stands[0]]))
