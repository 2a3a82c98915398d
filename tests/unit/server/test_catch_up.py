"""A refresh that this server was not told of, or was told of in a session that ended, is found and taken."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from manual_dispatcher import ManualDispatcher

from pinotpy.clock import ManualClock
from pinotpy.cluster.cluster_setup import create_cluster
from pinotpy.cluster.membership import Member
from pinotpy.cluster.memory import MemoryStore, MemoryTree
from pinotpy.cluster.messages import REFRESH_SEGMENT, RELOAD_SEGMENT
from pinotpy.cluster.participant import Participant
from pinotpy.cluster.paths import ClusterPaths
from pinotpy.cluster.process_identity import ProcessIdentity
from pinotpy.cluster.property_store import PropertyStore
from pinotpy.cluster.records import ZNRecord
from pinotpy.cluster.reload_jobs import SEALED_ENDS, ReloadJobRecord, ReloadJobRecords, SealedEnds
from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.cluster.views import Message
from pinotpy.server.catch_up import ASK_AGAIN_S, CatchUp
from pinotpy.server.failed_transitions import FIRST_WAIT_S, WAIT_MAX_S, FailedTransitions
from pinotpy.server.reload_jobs import ReloadJobs

PATHS, ME, TABLE = ClusterPaths("C"), "Server_h_8098", "t_OFFLINE"


class _Server:
    """Holds segments by CRC; takes what the record names when it is told to."""

    def __init__(self) -> None:
        tree = MemoryTree()
        self.admin = MemoryStore(tree, dispatcher=ManualDispatcher())
        create_cluster(self.admin, PATHS)
        self.store = MemoryStore(tree, dispatcher=ManualDispatcher())
        self.clock = ManualClock()
        self.held: dict[str, int] = {}
        self.refreshed: list[str] = []
        self.works = True
        self.reloads = ReloadJobs(self.clock)
        self.told: list[Message] = []
        member = Member(ME, ProcessIdentity(7, "h", "space", "start"), {})
        self.participant = Participant(
            self.store,
            PATHS,
            member,
            cast(Any, self),
            clock=self.clock,
            executor=cast(Any, self),
            announce_timeout_s=0.0,
        )
        self.looks = 0  # for segments that an operator ended
        self.catch_up = CatchUp(
            cast(Any, self),
            self.participant,
            self.store,
            PATHS,
            self.clock,
            self.reloads,
            take_force_commits=self.look,
        )

    # the participant's executor and handler

    def submit(self, work: Any, /) -> None:
        work()

    def on_message(self, message: Message) -> None:
        if message.subtype == RELOAD_SEGMENT:
            self.told.append(message)
            return
        self.refreshed.append(message.partition)
        if self.works:
            found = PropertyStore(self.store, PATHS).segment(TABLE, message.partition)
            assert found is not None
            self.held[message.partition] = found.value.crc

    def look(self) -> None:
        self.looks += 1

    # the registry

    def tables(self) -> list[str]:
        return [TABLE]

    def segments(self, table: str) -> dict[str, Any]:
        return {name: SimpleNamespace(crc=crc) for name, crc in self.held.items()}

    # the test's side

    def record(self, name: str, crc: int) -> None:
        path, data = PATHS.segment(TABLE, name), SegmentZkMetadata(name, TABLE, crc, 10, 1).to_record().to_bytes()
        if self.admin.exists(path):
            self.admin.set(path, data)
        else:
            self.admin.create(path, data, make_parents=True)

    def settle(self) -> None:
        self.catch_up.step()
        for _ in range(3):
            self.participant.step()


def refresh_message(segment: str, session: str) -> Message:
    fields = {
        "MSG_ID": "m",
        "MSG_TYPE": "USER_DEFINE_MSG",
        "MSG_SUBTYPE": REFRESH_SEGMENT,
        "RESOURCE_NAME": TABLE,
        "PARTITION_NAME": segment,
    }
    return Message("m", {**fields, "TGT_NAME": ME, "TGT_SESSION_ID": session, "MSG_STATE": "new"})


def test_a_segment_behind_its_record_is_refreshed_and_others_are_left_alone() -> None:
    server = _Server()
    server.participant.step()
    server.record("a", 1)
    server.record("b", 2)
    server.held = {"a": 1, "b": 1, "without a record": 5}
    server.settle()
    assert server.held == {"a": 1, "b": 2, "without a record": 5}
    assert server.refreshed == ["b"]
    server.settle()
    assert server.refreshed == ["b"], "nothing is behind any more"


def test_a_refresh_missed_with_the_session_is_made_up_for_after_the_next_joining() -> None:
    server = _Server()
    server.participant.step()
    server.record("a", 1)
    server.held = {"a": 1}
    ended = server.store.session_id
    server.admin.create(PATHS.message(ME, "m"), refresh_message("a", ended).to_record().to_bytes())
    server.store.expire()
    server.record("a", 2)
    server.participant.step()
    assert server.store.session_id != ended and server.held == {"a": 1}, (
        "the message was meant for the session that ended"
    )
    server.settle()
    assert server.held == {"a": 2}


def test_a_refresh_that_fails_is_asked_for_again_but_not_at_every_look() -> None:
    server = _Server()
    server.participant.step()
    server.record("a", 2)
    server.held, server.works = {"a": 1}, False
    server.settle()
    server.settle()
    assert server.refreshed == ["a"]
    server.clock.advance(int(ASK_AGAIN_S * 1000) + 1)
    server.works = True
    server.settle()
    assert server.refreshed == ["a", "a"] and server.held == {"a": 2}


def test_outside_the_cluster_nothing_is_compared() -> None:
    server = _Server()
    server.record("a", 2)
    server.held = {"a": 1}
    server.catch_up.step()
    assert server.refreshed == [] and server.held == {"a": 1} and server.looks == 0
    server.participant.step()
    server.settle()
    assert server.looks == 1, "forced commits are missed like messages"


def test_reloads_that_were_missed_are_asked_for_until_they_are_finished() -> None:
    server = _Server()
    server.participant.start()
    for name in ("s0", "s1"):
        server.record(name, 1)
        server.held[name] = 1
    records, now_ms = ReloadJobRecords(server.admin, PATHS), server.clock.now_ms()
    records.add(ReloadJobRecord("all", TABLE, "", now_ms, 1))
    records.add(ReloadJobRecord("one", TABLE, "s1", now_ms, 1, force_download=True))
    records.add(ReloadJobRecord("elsewhere", TABLE, "s9", now_ms, 1))
    records.add(ReloadJobRecord("of another", "u_OFFLINE", "", now_ms, 1))
    records.table_deleted("u_OFFLINE", now_ms)
    server.settle()
    server.settle()
    told = sorted(
        (message.fields["reloadJobId"], message.partition, message.fields["forceDownload"]) for message in server.told
    )
    assert told == [("all", "", "false"), ("one", "s1", "true")], "each once"
    server.reloads.done(TABLE, "s0", server.reloads.mark(), "nothing to do")
    server.reloads.done(TABLE, "s1", 1, "nothing to do")
    assert server.reloads.is_finished("all", TABLE, "")
    server.clock.advance(int(ASK_AGAIN_S * 1000) + 1)
    server.settle()
    assert [message.fields["reloadJobId"] for message in server.told[2:]] == ["one"]


def test_a_missed_reload_waits_for_the_segments_that_were_sealed_when_it_was_asked_for() -> None:
    server = _Server()
    server.participant.start()
    names = ["t__0__0__20260101T0000Z", "t__0__1__20260101T0000Z"]
    for name in names:
        server.record(name, 1)
        server.held[name] = 1
    records, now_ms = ReloadJobRecords(server.admin, PATHS), server.clock.now_ms()
    records.add(ReloadJobRecord("all", TABLE, "", now_ms, 1, sealed_ends=SealedEnds({0: 1})))
    records.add(ReloadJobRecord("later", TABLE, names[1], now_ms, 1, sealed_ends=SealedEnds({0: 1})))
    server.settle()
    assert [(told.fields["reloadJobId"], told.fields[SEALED_ENDS]) for told in server.told] == [("all", '{"0":1}')]
    server.reloads.done(TABLE, names[0], server.reloads.mark(), "nothing to do")
    assert server.reloads.is_finished("all", TABLE, "")


def test_a_download_that_failed_is_tried_again_by_a_reset_later_and_later() -> None:
    server = _Server()
    server.participant.start()
    retries = FailedTransitions(server.clock)
    catch_up = CatchUp(
        cast(Any, server), server.participant, server.store, PATHS, server.clock, server.reloads, retries
    )
    tried: list[str] = []

    def look() -> list[str]:
        catch_up.step()
        found = [
            Message.from_record(ZNRecord.from_bytes(server.admin.get(PATHS.message(ME, name))[0], name))
            for name in server.admin.children(PATHS.messages(ME))
        ]
        tried.extend(
            message.partition
            for message in found
            if message.fields["TO_STATE"] == "OFFLINE" and message.fields["FROM_STATE"] == "ERROR"
        )
        for message in found:
            server.admin.delete(PATHS.message(ME, message.id))
        return tried[-len(found) :] if found else []

    retries.failed(TABLE, "a")
    retries.failed(TABLE, "b")
    retries.gone(TABLE, "b")
    assert look() == [], "not at once"
    waited = []
    for _ in range(8):
        start_ms = server.clock.now_ms()
        while not look():
            server.clock.advance(1_000)
        waited.append((server.clock.now_ms() - start_ms) / 1000)
        retries.failed(TABLE, "a")
    assert tried == ["a"] * 8
    for place, wait_s in enumerate(waited):
        middle_s = min(FIRST_WAIT_S * 2**place, WAIT_MAX_S)
        assert 0.5 * middle_s <= wait_s <= 1.5 * middle_s + 1, waited
    for _ in range(1_100):  # a deep store that is away for weeks
        retries.failed(TABLE, "a")
    server.clock.advance(int(WAIT_MAX_S * 1_500) + 1_000)
    assert look() == ["a"]
    retries.gone(TABLE, "a")
    server.clock.advance(int(WAIT_MAX_S * 2_000))
    assert look() == [], "it is served"
