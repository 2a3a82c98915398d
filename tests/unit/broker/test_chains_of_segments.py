"""Proves that the segments of a stream's partition that are not done are asked of one server together, last among its
segments, and that answers which do not tile are told.
"""

from __future__ import annotations

import random
from copy import deepcopy

import pytest

from pinotpy.broker.routing.offset_check import offset_faults
from pinotpy.broker.routing.table_routing import TableRouting, chains_of, with_readers
from pinotpy.cluster.living_replicas import living_replicas
from pinotpy.query.result.partial import OffsetRange
from pinotpy.segment.consuming.log_pieces import KeptWithPieces, PieceView
from pinotpy.segment.consuming.log_ranges import LogView, SegmentRange, Watermark
from pinotpy.server.tables.consuming_view import consuming_view

ON, CON = "ONLINE", "CONSUMING"


def name(partition: int, sequence: int) -> str:
    return f"t__{partition}__{sequence}__20260101T0000Z"


def routing(external: dict[str, dict[str, str]], ideal: dict[str, dict[str, str]] | None = None) -> TableRouting:
    ideal = ideal or external
    replicas = living_replicas(ideal, external, frozenset("ABC"), is_realtime=True)
    chains = chains_of(ideal, external, replicas)
    return TableRouting("t_REALTIME", with_readers(replicas, chains, ideal, external), chains)


def test_chains_are_what_consumes_or_should_by_partition_in_order() -> None:
    ideal = {
        name(0, 9): {"A": ON},
        name(0, 10): {"A": ON, "B": ON},
        name(0, 11): {"A": CON, "B": CON},
        name(1, 2): {"B": CON},
        "uploaded": {"A": CON},
    }
    external = {name(0, 9): {"A": ON}, name(0, 10): {"A": ON, "B": CON}, name(0, 11): {"A": CON}}
    assert chains_of(ideal, external, ideal) == ((name(0, 10), name(0, 11)), (name(1, 2),)), "B has not sealed 10 yet"


def test_a_segment_that_is_done_before_one_before_it_belongs_to_the_chain() -> None:
    ideal = {name(0, 3): {"A": ON}, name(0, 4): {"A": CON}, name(0, 5): {"A": ON}, name(0, 6): {"A": CON}}
    assert chains_of(ideal, ideal, ideal) == ((name(0, 4), name(0, 5), name(0, 6)),)


def test_what_is_left_of_a_chain_is_not_asked_for_as_its_member() -> None:
    """B has all but 5, so it is asked for 6 as a member; 4 and 5 are segments by themselves, though 4 is asked of B."""
    table = routing({name(0, 4): {"B": CON}, name(0, 5): {"A": ON}, name(0, 6): {"B": CON}})
    assert table.select(0).assignment == {"B": (name(0, 4), name(0, 6)), "A": (name(0, 5),)}
    assert table.num_consuming((name(0, 4), name(0, 6))) == 1 and table.num_consuming((name(0, 5),)) == 0
    assert table.num_consuming((name(0, 5), name(0, 6))) == 2


def test_one_server_answers_for_a_chain_and_is_asked_for_it_last() -> None:
    dice = random.Random(5)
    external = {
        **{f"up{number}": {"A": ON, "B": ON} for number in range(6)},
        **{name(p, s): {"A": CON, "B": CON} for p in range(3) for s in (4, 5)},
    }
    table = routing(external)
    servers_of_chain = set()
    for number in range(8):
        selection = table.select(number, frozenset(dice.choice([(), ("A",)])))
        assert not selection.unavailable
        asked = {segment: server for server, segments in selection.assignment.items() for segment in segments}
        assert set(asked) == set(external)
        for partition in range(3):
            assert asked[name(partition, 4)] == asked[name(partition, 5)]
            servers_of_chain.add((partition, asked[name(partition, 4)]))
        for segments in selection.assignment.values():
            count = table.num_consuming(segments)
            members = [segment for segment in segments if segment.startswith("t__")]
            assert list(segments[len(segments) - count :]) == members
    assert len(servers_of_chain) == 6, "chains are spread over the replicas"


def test_a_server_that_lacks_a_member_is_not_asked_for_the_chain() -> None:
    table = routing({name(0, 4): {"A": CON, "B": ON}, name(0, 5): {"B": CON}})
    for number in range(4):
        assert table.select(number).assignment == {"B": (name(0, 4), name(0, 5))}


def test_who_consumes_what_a_chain_begins_with_has_the_rows_behind_it_too() -> None:
    external = {name(0, 4): {"A": CON}}
    table = routing(external, {**external, name(0, 5): {"B": CON}, name(0, 6): {"B": CON}})
    assert table.select(0).assignment == {"A": (name(0, 4), name(0, 5), name(0, 6))} and not table.select(0).unavailable
    moved = routing({name(0, 4): {"A": CON}, name(0, 5): {"B": CON}, name(0, 6): {"B": CON}})
    assert moved.select(0).assignment == {"A": (name(0, 4), name(0, 5), name(0, 6))}


def test_a_replica_that_is_to_consume_the_next_segment_has_its_rows_already() -> None:
    ideal = {name(0, 4): {"A": CON, "B": CON}, name(0, 5): {"A": CON, "B": CON}}
    late = routing({name(0, 4): {"A": CON, "B": CON}, name(0, 5): {"B": CON}}, ideal)
    assert {server for turn in range(2) for server in late.select(turn).assignment} == {"A", "B"}
    stopped = routing(
        {name(0, 4): {"A": CON, "B": CON}, name(0, 5): {"B": CON}}, {**ideal, name(0, 5): {"A": "OFFLINE", "B": CON}}
    )
    assert {server for turn in range(2) for server in stopped.select(turn).assignment} == {"B"}


def test_where_nobody_shows_a_chain_those_are_asked_that_are_to_have_it() -> None:
    """Segments ended, and were done, faster than the external view shows those that follow."""
    ideal = {name(0, 3): {"A": ON}, name(0, 4): {"A": CON, "B": CON}, name(0, 5): {"A": CON, "B": CON}}
    table = routing({name(0, 3): {"A": ON}}, ideal)
    assert table.select(0).assignment == {"A": (name(0, 3), name(0, 4), name(0, 5))}
    failed = routing({name(0, 3): {"A": ON}, name(0, 4): {"A": "ERROR"}}, ideal)
    assert failed.select(0).unavailable == (name(0, 4), name(0, 5)), "the replica has no rows"


def test_where_nobody_has_all_of_a_chain_its_end_is_asked_for_and_the_rest_by_itself() -> None:
    external = {name(0, 4): {"A": ON}, name(0, 5): {"B": CON}, name(0, 6): {"B": CON}}
    table = routing(external, {**external, name(0, 4): {"A": ON, "C": CON}})
    selection = table.select(0)
    assert selection.assignment == {"A": (name(0, 4),), "B": (name(0, 5), name(0, 6))}
    gone = routing({name(0, 5): {"B": CON}}, {name(0, 4): {"A": CON}, name(0, 5): {"B": CON}})
    assert gone.select(0).unavailable == (name(0, 4),) and gone.select(0).assignment == {"B": (name(0, 5),)}


class Replica:
    """What a server has of partition 0: a log that it reads on, cut into segments, and files."""

    is_behind = False

    def __init__(self) -> None:
        self.states: dict[str, str] = {}
        self.first, self.open = 0, 0  # the sequences that its log begins with, and that takes rows

    def log_view(self) -> LogView:
        ranges = [SegmentRange(name(0, n), n, n, n + 1, n + 1) for n in range(self.first, self.open)]
        ranges.append(SegmentRange(name(0, self.open), self.open, self.open))
        return LogView(Watermark(self.open, self.open, -1), tuple(ranges), ())

    def piece_view(self) -> PieceView:
        return PieceView(self.log_view(), (), (), KeptWithPieces())

    def offset_text(self, offset: int | bytes) -> str:
        return str(offset)

    def missing(self, names: tuple[str, ...], num_consuming: int) -> list[str]:
        sealed = {each: ("", "") for each, state in self.states.items() if state == ON}
        view = consuming_view(names[len(names) - num_consuming :], {0: self}, sealed.get)
        return view.missing + [each for each in names[: len(names) - num_consuming] if each not in sealed]


@pytest.mark.parametrize("seed", range(40))
def test_all_rows_are_answered_however_late_brokers_see_what_ended(seed: int) -> None:
    """Both replicas live. Segments end and are done in any order of steps; the views of the broker are of before."""
    dice = random.Random(seed)
    servers = {"A": Replica(), "B": Replica()}
    ideal = {name(0, 0): {"A": CON, "B": CON}}
    ended, done = 0, 0  # how many
    for server in servers.values():
        server.states[name(0, 0)] = CON
    seen_ideal, external = deepcopy(ideal), {name(0, 0): {"A": CON, "B": CON}}
    for _ in range(300):
        replica = dice.choice(list(servers.values()))
        match dice.randrange(7):
            case 0 if ended - done < 4 and replica.open == ended:
                ended, replica.open = ended + 1, replica.open + 1
                ideal[name(0, ended)] = {"A": CON, "B": CON}
            case 1 if replica.open < ended:
                replica.open += 1
            case 2 if done < ended and replica.open > done and name(0, done) in replica.states:
                ideal[name(0, done)] = {"A": ON, "B": ON}
                done += 1
            case 3:  # a transition to CONSUMING; they come in the order of the segments
                coming = [each for each in ideal if each not in replica.states]
                if coming:
                    replica.states[coming[0]] = CON
            case 4:  # a transition to ONLINE
                ready = [n for n in range(min(done, replica.open)) if replica.states.get(name(0, n)) == CON]
                if ready:
                    replica.states[name(0, dice.choice(ready))] = ON
                while replica.states.get(name(0, replica.first)) == ON:
                    replica.first += 1
            case 5:
                external = {each: {w: r.states[each] for w, r in servers.items() if each in r.states} for each in ideal}
            case 6:
                seen_ideal = deepcopy(ideal)
        table = routing(external, seen_ideal)
        for turn in range(2):
            selection = table.select(turn)
            assert not selection.unavailable, (external, seen_ideal)
            for server, names in selection.assignment.items():
                missing = tuple(servers[server].missing(names, table.num_consuming(names)))
                other = table.reselect(missing, dict.fromkeys(missing, frozenset({server})))
                assert not other.unavailable, (server, missing, external, seen_ideal)
                for second, left in other.assignment.items():
                    assert not servers[second].missing(left, table.num_consuming(left)), (external, seen_ideal)


def test_a_chain_is_asked_elsewhere_as_a_whole() -> None:
    table = routing({name(0, 4): {"A": CON, "B": CON}, name(0, 5): {"A": CON, "B": CON}, "up": {"A": ON}})
    lacking = (name(0, 4), name(0, 5))
    other = table.reselect(lacking, dict.fromkeys(lacking, frozenset({"A"})))
    assert other.assignment == {"B": lacking} and not other.unavailable
    none = table.reselect(lacking, dict.fromkeys(lacking, frozenset({"A", "B"})))
    assert none.unavailable == lacking and not none.assignment


def test_a_table_without_a_stream_has_no_chains() -> None:
    table = TableRouting("t_OFFLINE", {"a": ("A",), "b": ("A",)})
    assert table.num_consuming(("a", "b")) == 0 and table.chains == ()


def answered(sequence: int, start: str, end: str, partition: int = 0) -> OffsetRange:
    return OffsetRange(partition, sequence, name(partition, sequence), start, end, "IN_PROGRESS")


@pytest.mark.parametrize(
    ("ranges", "fault"),
    [
        ({"A": [answered(4, "0", "10"), answered(5, "10", "12")]}, None),
        ({"A": [answered(5, "10", "12"), answered(4, "0", "10")], "B": [answered(9, "1", "2", 1)]}, None),
        ({"A": [answered(4, "", ""), answered(5, "10", "12")]}, None),
        ({"A": [answered(4, "0", "10"), answered(5, "11", "12")]}, "up to offset 10"),
        ({"A": [answered(4, "0", "12")], "B": [answered(5, "10", "12")]}, "up to offset 12"),
        ({"A": [answered(4, "0", "10"), answered(6, "10", "12")]}, "no answer for the segments between"),
        ({"A": [answered(4, "0", "10")], "B": [answered(4, "0", "9")]}, "is answered by 'A' and by 'B'"),
    ],
)
def test_records_that_are_answered_twice_or_left_out_are_told(
    ranges: dict[str, list[OffsetRange]], fault: str | None
) -> None:
    faults = offset_faults(ranges)
    assert (faults == []) if fault is None else (len(faults) == 1 and fault in faults[0])
