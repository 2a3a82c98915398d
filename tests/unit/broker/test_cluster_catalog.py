"""Proves that what the catalog keeps of one view is that of the view: the same objects for query after query, anew with
every new view, and no longer than a segment that is being loaded may be absent.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pinotpy.broker.cluster_catalog import LOADING_GRACE_MS, ClusterCatalog, LineageUnreadableError, TableDisabledError
from pinotpy.clock import ManualClock
from pinotpy.cluster.instance_partitions import InstancePartitions
from pinotpy.cluster.segment_lineage import LineageEntry, LineageState, SegmentLineage
from pinotpy.cluster.segment_metadata import SegmentZkMetadata
from pinotpy.cluster.spectator import ClusterView
from pinotpy.cluster.views import STREAM_PARTITIONS, ExternalView, IdealState, InstanceConfig, LiveInstance
from pinotpy.data_types import DataType
from pinotpy.errors import DamagedRecordError, ServerUnreachableError, TableNotFoundError
from pinotpy.pql.ast import Dialect
from pinotpy.query.model.context import ColumnRef, QueryContext, QueryKind, QueryOptions
from pinotpy.query.model.options import columns_without_nulls, with_columns_without_nulls, with_counted_columns

TABLE, SERVER = "Games_OFFLINE", "Server_a_1"
SCHEMA: dict[str, Any] = {"schemaName": "Games", "dimensionFieldSpecs": [{"name": "x", "dataType": "INT"}]}
START_MS = 1_700_000_000_000


def view(
    *,
    loaded: tuple[str, ...] = ("s0", "s1"),
    wanted: tuple[str, ...] = ("s0", "s1"),
    port: int = 1,
    enabled: bool = True,
) -> ClusterView:
    return ClusterView(
        external_views={TABLE: ExternalView(TABLE, {name: {SERVER: "ONLINE"} for name in loaded})},
        ideal_states={
            TABLE: IdealState(
                TABLE, {name: {SERVER: "ONLINE"} for name in wanted}, {"HELIX_ENABLED": str(enabled).lower()}
            )
        },
        live_instances={SERVER: LiveInstance(SERVER, "1")},
        instance_configs={
            SERVER: InstanceConfig(SERVER, "a", port, simple_fields={"grpcPort": str(port), "queryFeatures": "3"})
        },
        table_configs={TABLE: {}},
        schemas={"Games": SCHEMA},
        segments={TABLE: {name: SegmentZkMetadata(name, TABLE, 1, 1, START_MS) for name in wanted}},
    )


class Cluster:
    def __init__(self, first: ClusterView) -> None:
        self.view, self.clock = first, ManualClock(START_MS)
        self.catalog = ClusterCatalog(lambda: self.view, self.clock)


def test_a_table_is_resolved_once_a_view_in_every_spelling() -> None:
    cluster = Cluster(view())
    resolve = cluster.catalog.resolve
    first = resolve("Games", Dialect.PQL)
    assert (
        resolve("Games", Dialect.PQL) is first
        and resolve("Games_OFFLINE", Dialect.PQL).halves[0].routing is first.halves[0].routing
    )
    assert (
        resolve("gAMES", Dialect.SQL) is resolve("gAMES", Dialect.SQL)
        and resolve("gAMES", Dialect.SQL).raw_table_name == "Games"
    )
    for _ in range(2):
        with pytest.raises(TableNotFoundError):
            resolve("games", Dialect.PQL)


def test_a_new_view_counts_at_once() -> None:
    cluster = Cluster(view())
    resolve, address = cluster.catalog.resolve, cluster.catalog.address
    old = resolve("Games", Dialect.PQL)
    assert set(old.halves[0].routing.replicas) == {"s0", "s1"} and (address(SERVER).port, address(SERVER).features) == (
        1,
        3,
    )
    assert address(SERVER) is address(SERVER)
    cluster.view = view(loaded=("s0",), wanted=("s0",), port=2)
    assert set(resolve("Games", Dialect.PQL).halves[0].routing.replicas) == {"s0"} and address(SERVER).port == 2
    cluster.view = view(enabled=False)
    for _ in range(2):
        with pytest.raises(TableDisabledError):
            resolve("Games", Dialect.PQL)
    cluster.view = replace(view(), table_configs={}, instance_configs={})
    with pytest.raises(TableNotFoundError):
        resolve("Games", Dialect.PQL)
    with pytest.raises(ServerUnreachableError):
        address(SERVER)


def test_a_segment_that_is_never_loaded_is_missed_after_its_time_without_a_new_view() -> None:
    cluster = Cluster(view(loaded=("s0",)))
    resolve = cluster.catalog.resolve
    early = resolve("Games", Dialect.PQL)
    assert set(early.halves[0].routing.replicas) == {"s0"} and resolve("Games", Dialect.PQL) is early
    cluster.clock.advance(LOADING_GRACE_MS - 1)
    assert resolve("Games", Dialect.PQL) is early
    cluster.clock.advance(1)
    assert resolve("Games", Dialect.PQL).halves[0].routing.replicas == {"s0": (SERVER,), "s1": ()}


def test_other_records_of_the_same_segments_leave_the_routing_as_it_is() -> None:
    cluster = Cluster(view(loaded=("s0",)))
    first = cluster.catalog.routing(TABLE)

    def records(**changed: SegmentZkMetadata | None) -> None:
        """The next view, in which only these records differ; None: it has gone."""
        merged: dict[str, SegmentZkMetadata | None] = {**cluster.view.segments[TABLE], **changed}
        left = {name: record for name, record in merged.items() if record is not None}
        cluster.view = replace(cluster.view, segments={TABLE: left})

    records(s0=SegmentZkMetadata("s0", TABLE, 2, 9, START_MS))
    assert cluster.catalog.routing(TABLE) is first
    records(s1=SegmentZkMetadata("s1", TABLE, 1, 1, START_MS, push_time_ms=START_MS + 5))
    cluster.clock.advance(LOADING_GRACE_MS)
    assert cluster.catalog.routing(TABLE) is first, "it was pushed later"
    cluster.clock.advance(5)
    late = cluster.catalog.routing(TABLE)
    assert late.replicas == {"s0": (SERVER,), "s1": ()}
    records(s1=SegmentZkMetadata("s1", TABLE, 1, 1, START_MS, push_time_ms=START_MS + LOADING_GRACE_MS))
    assert cluster.catalog.routing(TABLE).replicas == {"s0": (SERVER,)}
    records(s1=None)
    assert cluster.catalog.routing(TABLE).replicas == late.replicas


def test_partitions_of_which_nothing_is_in_the_table_yet_are_known() -> None:
    """The first segment of 1 is new and no server has begun it; of 2 and 3 there is none."""
    table, first, new = "Games_REALTIME", "Games__0__0__20260101T0000Z", "Games__1__0__20260101T0000Z"
    ideal = {name: {SERVER: "CONSUMING"} for name in (first, new)}
    parts: dict[str, Any] = {
        "external_views": {table: ExternalView(table, {first: {SERVER: "CONSUMING"}})},
        "ideal_states": {table: IdealState(table, ideal, {STREAM_PARTITIONS: "4"})},
        "segments": {table: {name: SegmentZkMetadata(name, table, 1, 1, START_MS) for name in ideal}},
    }
    assert Cluster(replace(view(), **parts)).catalog.routing(table).unread == (1, 2, 3)


def replaced(old: str, new: str, state: LineageState) -> SegmentLineage:
    return SegmentLineage(TABLE, {"e": LineageEntry(tuple(old.split()), tuple(new.split()), state, 1)})


def test_queries_see_old_or_new_segments_as_the_lineage_says() -> None:
    cluster = Cluster(view())
    for state, expected in (
        (LineageState.IN_PROGRESS, {"s0"}),
        (LineageState.COMPLETED, {"s1"}),
        (LineageState.REVERTED, {"s0"}),
    ):
        cluster.view = replace(view(), lineages={TABLE: replaced("s0", "s1", state)})
        assert set(cluster.catalog.resolve("Games", Dialect.PQL).halves[0].routing.replicas) == expected
    cluster.view = replace(view(), lineages={"Other_OFFLINE": replaced("s0", "s1", LineageState.COMPLETED)})
    assert set(cluster.catalog.routing(TABLE).replicas) == {"s0", "s1"}


def test_a_segment_that_took_the_place_of_another_is_missed_at_once_if_nobody_has_it() -> None:
    """An upload may be absent for a minute; but here rows of the old segment would be missing, unsaid."""
    done = replaced("s0", "s1", LineageState.COMPLETED)
    cluster = Cluster(replace(view(loaded=("s0",)), lineages={TABLE: done}))
    assert cluster.catalog.routing(TABLE).replicas == {"s1": ()}


def test_a_table_whose_lineage_cannot_be_read_is_not_answered() -> None:
    cluster = Cluster(replace(view(), lineages={TABLE: SegmentLineage(TABLE, unreadable="no JSON")}))
    with pytest.raises(LineageUnreadableError, match="rows could count twice: no JSON"):
        cluster.catalog.resolve("Games", Dialect.PQL)


TWO_SERVERS = dict.fromkeys(("A", "B"), "ONLINE")


def of_two_servers(reached: dict[str, dict[str, str]], routing: object, **parts: Any) -> ClusterView:
    """Segments that should be on both servers."""
    plain = view(wanted=tuple(reached), loaded=tuple(reached))
    return replace(
        plain,
        external_views={TABLE: ExternalView(TABLE, reached)},
        ideal_states={TABLE: IdealState(TABLE, dict.fromkeys(reached, TWO_SERVERS), {"HELIX_ENABLED": "true"})},
        live_instances={name: LiveInstance(name, name) for name in "AB"},
        table_configs={TABLE: {"routing": routing}},
        **parts,
    )


def servers_of_requests(cluster: Cluster) -> set[str]:
    """How many requests went where, as `A`, `B` or `AB`."""
    routing = cluster.catalog.routing(TABLE)
    return {"".join(sorted(routing.select(number).assignment)) for number in range(20)}


def test_a_table_is_routed_as_its_config_asks_for() -> None:
    both = dict.fromkeys(("s0", "s1", "s2"), TWO_SERVERS)
    cluster = Cluster(of_two_servers(both, {}))
    for routing, expected in (
        ({}, {"AB"}),
        ({"instanceSelectorType": "balanced"}, {"AB"}),
        ({"instanceSelectorType": "replicaGroup"}, {"A", "B"}),
        ({"instanceSelectorType": "strictReplicaGroup"}, {"A", "B"}),
        ({"instanceSelectorType": "multiStageReplicaGroup"}, {"A", "B"}),
        ({"instanceSelectorType": "unheard of"}, {"AB"}),
        ("no object", {"AB"}),
    ):
        cluster.view = of_two_servers(both, routing)
        assert servers_of_requests(cluster) == expected, routing


def test_groups_are_those_that_are_stored_when_a_query_comes() -> None:
    """Of segments on A and C and on B and D the same index would be A and B, which are of two groups."""
    ideal = {"s0": dict.fromkeys("AC", "ONLINE"), "s1": dict.fromkeys("BD", "ONLINE")}
    plain = replace(
        of_two_servers(ideal, {"instanceSelectorType": "replicaGroup"}),
        ideal_states={TABLE: IdealState(TABLE, ideal, {"HELIX_ENABLED": "true"})},
        live_instances={name: LiveInstance(name, name) for name in "ABCD"},
    )
    cluster = Cluster(plain)
    assert servers_of_requests(cluster) == {"AB", "CD"}
    cluster.view = replace(plain, instance_partitions={TABLE: InstancePartitions(((("A", "D"), ("C", "B")),))})
    assert servers_of_requests(cluster) == {"AD", "BC"}


def test_strict_groups_see_a_new_segment_when_a_server_has_all_and_miss_it_after_its_time() -> None:
    reached = {"s0": TWO_SERVERS, "s1": {"A": "ONLINE"}, "s2": {"B": "ONLINE"}}
    cluster = Cluster(of_two_servers(reached, {"instanceSelectorType": "strictReplicaGroup"}))
    old = SegmentZkMetadata("s0", TABLE, 1, 1, START_MS - LOADING_GRACE_MS)
    records = {name: cluster.view.segments[TABLE][name] for name in ("s1", "s2")}
    cluster.view = replace(cluster.view, segments={TABLE: {"s0": old} | records})
    routing = cluster.catalog.routing(TABLE)
    assert routing.replicas == {"s0": ("A",), "s1": ("A",)} and cluster.catalog.routing(TABLE) is routing
    cluster.clock.advance(LOADING_GRACE_MS)
    assert cluster.catalog.routing(TABLE).replicas == {"s0": (), "s1": (), "s2": ()}
    assert cluster.catalog.routing(TABLE).select(0).unavailable == ("s0", "s1", "s2")


@pytest.mark.parametrize(
    ("configs", "expected_ms"),
    [
        ({}, None),
        ({TABLE: {"query": {"timeoutMs": 700}}}, 700),
        ({TABLE: {"query": {"timeoutMs": "700"}}}, 700),
        ({TABLE: {"query": {"timeoutMs": 700}}, "Games_REALTIME": {"query": {"timeoutMs": 300}}}, 300),
        ({TABLE: {"query": {}}, "Games_REALTIME": {"query": {"timeoutMs": 300}}}, 300),
        ({TABLE: {"query": {"timeoutMs": "soon"}}}, None),
        ({TABLE: {"query": "no object"}}, None),
    ],
)
def test_the_time_of_queries_on_a_table_is_the_lesser_of_its_halves(
    configs: dict[str, Any], expected_ms: int | None
) -> None:
    plain = view()
    hybrid = {
        **plain.ideal_states,
        **{name: IdealState(name, {}, {"HELIX_ENABLED": "true"}) for name in configs if name != TABLE},
    }
    cluster = Cluster(replace(plain, ideal_states=hybrid, table_configs={TABLE: {}} | configs))
    assert cluster.catalog.resolve("Games", Dialect.PQL).timeout_ms == expected_ms
    of_half = configs.get(TABLE, {}).get("query", {})
    assert cluster.catalog.resolve(TABLE, Dialect.PQL).timeout_ms == (700 if "700" in str(of_half) else None)


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (
            None,
            "table 'Games' is disabled; PUT /tables/Games/state?type=OFFLINE&state=enable of a controller enables it",
        ),
        (
            True,
            "the OFFLINE half of table 'Games' is disabled; PUT /tables/Games/state?type=OFFLINE&state=enable of a "
            "controller enables it; 'Games_REALTIME' can be queried by its name",
        ),
        (
            False,
            "both halves of table 'Games' are disabled; PUT /tables/Games/state?type=OFFLINE&state=enable of a "
            "controller enables the OFFLINE one",
        ),
    ],
)
def test_a_table_of_which_a_half_is_disabled_says_which_and_what_can_be_done(other: bool | None, expected: str) -> None:
    first = view(enabled=False)
    states = dict(first.ideal_states)
    if other is not None:
        states["Games_REALTIME"] = IdealState("Games_REALTIME", {}, {"HELIX_ENABLED": str(other).lower()})
    cluster = Cluster(replace(first, ideal_states=states))
    with pytest.raises(TableDisabledError) as refused:
        cluster.catalog.resolve("Games", Dialect.SQL)
    assert refused.value.message == f"TableIsDisabledError: {expected}"
    if other:
        (half,) = cluster.catalog.resolve("Games_REALTIME", Dialect.SQL).halves
        assert half.routing.table == "Games_REALTIME"


@pytest.mark.parametrize(
    ("config", "by_column", "expected"),
    [
        ({}, False, {"x", "y"}),
        ({}, True, {"y"}),
        ({"tableIndexConfig": {"nullHandlingEnabled": False}}, False, {"x", "y"}),
        ({"tableIndexConfig": {"nullHandlingEnabled": True}}, False, set()),
        ({"tableIndexConfig": {"nullHandlingEnabled": "TRUE"}}, True, set()),
        ({"tableIndexConfig": "no object"}, True, {"y"}),
    ],
)
def test_servers_are_told_of_which_columns_a_table_keeps_no_nulls(
    config: dict[str, Any], by_column: bool, expected: set[str]
) -> None:
    schema = {
        "schemaName": "Games",
        "enableColumnBasedNullHandling": by_column,
        "dimensionFieldSpecs": [{"name": "x", "dataType": "INT"}, {"name": "y", "dataType": "INT", "notNull": True}],
    }
    cluster = Cluster(replace(view(), table_configs={TABLE: config}, schemas={"Games": schema}))
    (half,) = cluster.catalog.resolve("Games", Dialect.SQL).halves
    assert half.without_nulls == expected
    columns = tuple(ColumnRef(name, DataType.INT, default_null=0) for name in ("x", "y", "$docId"))
    written = with_columns_without_nulls(QueryOptions(), ["x", "y", "what a client wrote"])
    asked = QueryContext(Dialect.SQL, QueryKind.SELECTION, "Games", (), columns=columns, options=written)
    assert columns_without_nulls(half.of_half(asked).options) == sorted(expected)
    counted = replace(asked, columns=(), options=with_counted_columns(written, [["y"]]))
    assert columns_without_nulls(half.of_half(counted).options) == sorted(expected & {"y"})


@pytest.mark.parametrize(
    ("configs", "expected"),
    [
        ({}, (None,)),
        ({TABLE: {"query": {"enableNullHandling": False}}}, (False,)),
        ({TABLE: {"query": {"enableNullHandling": "true"}}}, (True,)),
        ({TABLE: {"query": {"timeoutMs": 5}}, "Games_REALTIME": {"query": {"enableNullHandling": True}}}, (None, True)),
        ({TABLE: {"query": {"enableNullHandling": "perhaps"}}}, (None,)),
    ],
)
def test_what_each_half_says_of_nulls_and_after_a_change_what_it_says_then(
    configs: dict[str, Any], expected: tuple[bool | None, ...]
) -> None:
    plain = view()
    cluster = Cluster(plain)
    assert cluster.catalog.resolve("Games", Dialect.SQL).null_handling == (None,)
    states = {**plain.ideal_states, **{n: IdealState(n, {}, {"HELIX_ENABLED": "true"}) for n in configs if n != TABLE}}
    cluster.view = replace(plain, ideal_states=states, table_configs={TABLE: {}} | configs)
    assert cluster.catalog.resolve("Games", Dialect.SQL).null_handling == expected
    assert cluster.catalog.resolve(TABLE, Dialect.SQL).null_handling == expected[:1]


@pytest.mark.parametrize("part", ["schemas", "table_configs", "ideal_states"])
def test_a_record_that_cannot_be_read_is_not_one_that_is_not_there(part: str) -> None:
    key = "Games" if part == "schemas" else TABLE
    whole = view()
    cluster = Cluster(replace(whole, **{part: {}, "unreadable": {(part, key): "it is no JSON"}}))  # type: ignore[arg-type]
    for spelt in ("Games", "gAMES", TABLE):
        assert cluster.catalog.true_name(spelt, Dialect.SQL) == "Games"
        with pytest.raises(DamagedRecordError, match="it is no JSON"):
            cluster.catalog.resolve(spelt, Dialect.SQL)
    assert cluster.view.table_names() == {TABLE}
    cluster.view = whole
    assert cluster.catalog.resolve("Games", Dialect.SQL).halves


@pytest.mark.parametrize("part", ["table_configs", "ideal_states"])
def test_one_half_does_not_answer_for_a_half_that_cannot_be_read(part: str) -> None:
    cluster = Cluster(replace(view(), unreadable={(part, "Games_REALTIME"): "it is no JSON"}))
    if part == "table_configs":
        ideal = {**cluster.view.ideal_states, "Games_REALTIME": IdealState("Games_REALTIME", {})}
        cluster.view = replace(cluster.view, ideal_states=ideal)
    with pytest.raises(DamagedRecordError, match="Games_REALTIME"):
        cluster.catalog.resolve("Games", Dialect.SQL)
    assert cluster.catalog.resolve(TABLE, Dialect.SQL).halves


def test_where_nobody_can_read_what_is_served_no_segment_is_taken_for_a_new_one() -> None:
    whole = view()
    cluster = Cluster(replace(whole, external_views={}, unreadable={("external_views", TABLE): "it is no JSON"}))
    assert cluster.catalog.resolve("Games", Dialect.SQL).halves[0].routing.replicas == {"s0": (), "s1": ()}
