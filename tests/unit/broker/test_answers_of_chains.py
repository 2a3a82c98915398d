"""Proves that what an answer has of a stream survives the wire and is shown in both dialects, and that a chain that a
server lacks is asked of another one as a whole.
"""

from __future__ import annotations

import asyncio
import json

import pyarrow as pa
import pytest

from pinotpy.broker.routing.table_routing import TableRouting
from pinotpy.broker.scatter import scatter
from pinotpy.query.result.partial import OffsetRange, PartialResult
from pinotpy.query.result.response import pql, sql
from pinotpy.query.result.response.envelope import Envelope


def name(sequence: int) -> str:
    return f"t__0__{sequence}__20260101T0000Z"


CHAIN = (name(4), name(5))
OFFSETS = [
    OffsetRange(0, 4, CHAIN[0], "30", "60", "COMMITTING"),
    OffsetRange(0, 5, CHAIN[1], "60", "130", "IN_PROGRESS", 1_700),
]


@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize("rows", [None, pa.table({"o0": [1, 2]})], ids=["no rows", "rows"])
def test_offsets_cross_the_wire_in_both_forms(rows: pa.Table | None, few: bool) -> None:
    read = PartialResult.from_bytes(PartialResult(rows, partition_offsets=OFFSETS).to_bytes(few=few))
    assert read.partition_offsets == OFFSETS and read.num_rows == (0 if rows is None else 2)
    assert PartialResult.from_bytes(PartialResult(rows).to_bytes(few=few)).partition_offsets == []


@pytest.mark.parametrize("write", [pql.write, sql.write])
def test_both_dialects_show_them_in_the_order_of_the_segments(write: object) -> None:
    envelope = Envelope(partition_offsets={"B": OFFSETS[1:], "A": OFFSETS[:1]})
    body = json.loads(write({}, envelope))  # type: ignore[operator]
    assert (body["numConsumingSegmentsQueried"], body["minConsumingFreshnessTimeMs"]) == (2, 1_700)
    assert body["partitionOffsets"] == {
        "0": [
            {"segment": CHAIN[0], "start": "30", "end": "60", "status": "COMMITTING", "server": "A"},
            {"segment": CHAIN[1], "start": "60", "end": "130", "status": "IN_PROGRESS", "server": "B"},
        ]
    }
    assert "partitionOffsets" not in json.loads(write({}, Envelope()))  # type: ignore[operator]


def test_a_chain_that_a_server_lacks_is_asked_of_another_as_a_whole() -> None:
    routing = TableRouting("t_REALTIME", {**dict.fromkeys(CHAIN, ("A", "B")), "up": ("A",)}, (CHAIN,))
    asked: list[tuple[str, tuple[str, ...]]] = []

    async def ask(server: str, segments: tuple[str, ...]) -> PartialResult:
        asked.append((server, segments))
        if server == "A":
            return PartialResult(missing_segments=[segment for segment in segments if segment in CHAIN])
        return PartialResult(partition_offsets=OFFSETS)

    selection = next(chosen for number in range(4) if CHAIN[0] in (chosen := routing.select(number)).assignment["A"])
    gathered = asyncio.run(scatter(routing, selection, ask, hedge_after_s=60))
    assert asked == [("A", ("up", *CHAIN)), ("B", CHAIN)]
    assert gathered.missing == [] and gathered.offsets() == {"B": OFFSETS} and gathered.has_offsets


def test_a_chain_that_nobody_has_is_missing_as_a_whole() -> None:
    routing = TableRouting("t_REALTIME", dict.fromkeys(CHAIN, ("A", "B")), (CHAIN,))

    async def ask(server: str, segments: tuple[str, ...]) -> PartialResult:
        return PartialResult(missing_segments=list(segments))

    gathered = asyncio.run(scatter(routing, routing.select(0), ask, hedge_after_s=60))
    assert sorted(gathered.missing) == list(CHAIN)
