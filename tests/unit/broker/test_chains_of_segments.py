"""Proves that the segments of a stream's partition that are not done are asked of one server together, last among its
segments, and that answers which do not tile are told.
"""

from __future__ import annotations

import random

import pytest

from pinotpy.broker.routing.offset_check import offset_faults
from pinotpy.broker.routing.table_routing import TableRouting, chains_of
from pinotpy.query.result.partial import OffsetRange

ON, CON = "ONLINE", "CONSUMING"


def name(partition: int, sequence: int) -> str:
    return f"t__{partition}__{sequence}__20260101T0000Z"


def routing(external: dict[str, dict[str, str]], ideal: dict[str, dict[str, str]] | None = None) -> TableRouting:
    replicas = {segment: tuple(sorted(states)) for segment, states in external.items()}
    return TableRouting("t_REALTIME", replicas, chains_of(ideal or external, external, replicas))


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


def test_who_has_all_but_the_last_segment_has_its_rows_too() -> None:
    table = routing({name(0, 4): {"A": CON}, name(0, 5): {}})
    assert table.select(0).assignment == {"A": (name(0, 4), name(0, 5))} and not table.select(0).unavailable
    moved = routing({name(0, 4): {"A": CON}, name(0, 5): {"B": CON}})
    assert moved.select(0).assignment == {"A": (name(0, 4), name(0, 5))}


def test_where_nobody_has_all_of_a_chain_its_end_is_asked_for_and_the_rest_by_itself() -> None:
    table = routing({name(0, 4): {"A": CON}, name(0, 5): {"B": CON}, name(0, 6): {"B": CON}})
    selection = table.select(0)
    assert selection.assignment == {"A": (name(0, 4),), "B": (name(0, 5), name(0, 6))}
    gone = routing({name(0, 4): {}, name(0, 5): {"B": CON}})
    assert gone.select(0).unavailable == (name(0, 4),) and gone.select(0).assignment == {"B": (name(0, 5),)}


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
