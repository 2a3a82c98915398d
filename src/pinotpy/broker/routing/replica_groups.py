"""`routing.instanceSelectorType` replicaGroup and strictReplicaGroup: a query goes to as few replica groups as it can.

Groups are those of the table's instance partitions: one that has all segments of the query, else the smallest number of
groups that have them together. Where no instance partitions are stored there are no groups to go by: of the sorted
replicas of each segment the one at the same index is asked, as in the reference. What strict adds is in
`strict_replicas.py`: it decides which replicas are left to choose from, and this file that they are chosen together.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import lcm
from typing import Any, Final

from pydantic import ValidationError

from pinotpy.broker.routing.strict_replicas import strict_replicas
from pinotpy.broker.routing.table_routing import Selection, TableRouting, owned_chains, picked
from pinotpy.broker.routing.turns import fair_turn
from pinotpy.cluster.instance_partitions import InstancePartitions
from pinotpy.config.serving import InstanceSelector, RoutingConfig

LOG = logging.getLogger(__name__)

# Up to so many groups the smallest number of them is found by trying all, beyond it one after the other.
EXACT_GROUPS_MAX: Final = 8
_NOBODY: Final[frozenset[str]] = frozenset()


@dataclass(frozen=True, slots=True)
class _Item:
    """What one server is asked for as a whole: the servers that may be asked, and segments; those of chains apart."""

    candidates: Sequence[str]
    segments: list[str]
    chained: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ReplicaGroupSelector:
    """See ReplicaSelector.

    groups: the servers of each replica group; empty: not known.
    most: the largest number of replicas.
    families: strict: of each segment the number of its family, the segments of which one server answers for together;
        None: not strict.
    """

    groups: tuple[frozenset[str], ...]
    most: int
    families: Mapping[str, int] | None = None

    @property
    def num_turns(self) -> int:
        """So many that every number of groups that may be left to choose from gets equal shares."""
        num_choices = len(self.groups) or self.most
        return lcm(*range(1, num_choices + 1)) if num_choices <= EXACT_GROUPS_MAX else num_choices * (num_choices - 1)

    def turn(self, request_number: int) -> int:
        """See ReplicaSelector."""
        return fair_turn(request_number, self.num_turns)

    def bound(self, segments: Collection[str], answered: Collection[str]) -> frozenset[str]:
        """See ReplicaSelector."""
        families = self.families
        if families is None:
            return _NOBODY
        of_answered = {families.get(name) for name in answered} - {None}
        return frozenset(name for name in segments if families.get(name) in of_answered)

    def choose(
        self,
        replicas: Mapping[str, tuple[str, ...]],
        turn: int,
        excluded: frozenset[str],
        chains: Collection[Sequence[str]] = (),
        lagging: frozenset[str] = _NOBODY,
        ranks: Mapping[str, int] | None = None,
    ) -> Selection:
        """See ReplicaSelector."""
        items, unavailable = self._items(replicas, excluded, chains, lagging)
        chosen: dict[str, tuple[list[str], list[str]]] = {}
        for item, server in zip(items, self._servers(items, turn, ranks), strict=True):
            segments, chained = chosen.setdefault(server, ([], []))
            segments += item.segments
            chained += item.chained
        assignment = {server: (*segments, *chained) for server, (segments, chained) in chosen.items()}
        return Selection(assignment, tuple(unavailable))

    def _items(
        self,
        replicas: Mapping[str, tuple[str, ...]],
        excluded: frozenset[str],
        chains: Collection[Sequence[str]],
        lagging: frozenset[str],
    ) -> tuple[list[_Item], list[str]]:
        """What is to be asked for, and the segments that nobody can be asked for."""
        items = [
            _Item(owners, [], list(members)) for owners, members in owned_chains(replicas, chains, excluded, lagging)
        ]
        skipped = {name for item in items for name in item.chained}
        unavailable = []
        for segment, servers in replicas.items():
            if segment in skipped:
                continue
            candidates = [server for server in servers if server not in excluded] or servers if excluded else servers
            if candidates:
                items.append(_Item(candidates, [segment]))
            else:
                unavailable.append(segment)
        if self.families is None:
            return items, unavailable
        together, torn = _together(items, self.families)
        return together, unavailable + torn

    def _servers(self, items: Sequence[_Item], turn: int, ranks: Mapping[str, int] | None) -> list[str]:
        """Of each item the server that is asked."""
        if not self.groups:
            return [picked(item.candidates, turn, ranks) for item in items]
        asked = [tuple(item.candidates) for item in items]
        distinct = set(asked)  # many segments lie on the same servers
        covers = smallest_covers(map(self._mask, distinct), len(self.groups))
        first = turn % len(covers)
        if ranks is None:
            return self._servers_of(covers[first], asked, turn, ranks)
        # An answer is as late as the last of its servers.
        choices = [self._servers_of(cover, asked, turn, ranks) for cover in covers[first:] + covers[:first]]
        return min(choices, key=lambda servers: max((ranks[server] for server in servers), default=0))

    def _servers_of(
        self, cover: Sequence[int], asked: Sequence[tuple[str, ...]], turn: int, ranks: Mapping[str, int] | None
    ) -> list[str]:
        """Of the groups with these numbers."""
        groups = [self.groups[number] for number in cover]
        within = {candidates: _first_of(groups, candidates) for candidates in set(asked)}
        return [picked(within[candidates], turn + number, ranks) for number, candidates in enumerate(asked)]

    def _mask(self, servers: Sequence[str]) -> int:
        return sum(1 << number for number, group in enumerate(self.groups) if not group.isdisjoint(servers))


def _first_of(groups: Sequence[frozenset[str]], candidates: Sequence[str]) -> Sequence[str]:
    """The candidates in the first group that has some; all, if none has: they were placed before there were groups."""
    found = ([server for server in candidates if server in group] for group in groups)
    return next(filter(None, found), candidates)


def _together(items: Sequence[_Item], families: Mapping[str, int]) -> tuple[list[_Item], list[str]]:
    """The items of each family as one, of the servers that have all of them; and the segments of families of which
    nobody has all.
    """
    merged: dict[int, _Item] = {}
    for item in items:
        family = families[(item.segments or item.chained)[0]]
        before = merged.get(family)
        merged[family] = (
            item
            if before is None
            else _Item(
                [server for server in before.candidates if server in item.candidates],
                before.segments + item.segments,
                before.chained + item.chained,
            )
        )
    torn = [item for item in merged.values() if not item.candidates]
    whole = [item for item in merged.values() if item.candidates]
    return whole, [name for item in torn for name in (*item.segments, *item.chained)]


def smallest_covers(masks: Iterable[int], num_groups: int) -> list[tuple[int, ...]]:
    """The smallest sets of groups of which each mask that is not 0 has one, each set once for each of its groups in
    front: that one is asked for all that it has. Of many groups one set, which may be larger than the smallest one.
    """
    needed = set(masks) - {0}
    if not needed:
        return [()]
    sizes = range(1, num_groups + 1) if num_groups <= EXACT_GROUPS_MAX else range(1, 2)
    for size in sizes:
        covers = [
            chosen
            for chosen in combinations(range(num_groups), size)
            if all(mask & sum(1 << number for number in chosen) for mask in needed)
        ]
        if covers:
            return [chosen[first:] + chosen[:first] for first in range(size) for chosen in covers]
    chosen: tuple[int, ...] = ()
    while needed:
        best = max(range(num_groups), key=lambda number: sum(mask >> number & 1 for mask in needed))
        chosen += (best,)
        needed = {mask for mask in needed if not mask >> best & 1}
    return [chosen]


def routing_by_groups(
    table: str,
    replicas: Mapping[str, tuple[str, ...]],
    chains: tuple[tuple[str, ...], ...],
    kind: InstanceSelector,
    partitions: InstancePartitions | None,
    ideal: Mapping[str, Mapping[str, str]],
    new: Collection[str] = (),
) -> TableRouting:
    """The routing of a table half whose config asks for replica groups.

    Args:
        kind: any but balanced.
        partitions: what is stored of its replica groups; None: nothing.
        ideal, new: see strict_replicas.
    """
    groups = groups_of(partitions) if partitions is not None else ()
    families: Mapping[str, int] | None = None
    if kind.is_strict:
        replicas, families = strict_replicas(replicas, ideal, chains, new)
    most = max(map(len, replicas.values()), default=1) or 1
    return TableRouting(table, replicas, chains, ReplicaGroupSelector(groups, most, families))


def instance_selector(table: str, config: Mapping[str, Any] | None) -> InstanceSelector:
    """What a table config asks for, as it is stored."""
    section = (config or {}).get("routing")
    try:
        kind = RoutingConfig.model_validate(section).instance_selector_type if section else None
    except ValidationError as error:
        LOG.warning("table is routed as balanced, its routing config cannot be read table=%s cause=%s", table, error)
        kind = None
    return kind or InstanceSelector.BALANCED


def groups_of(partitions: InstancePartitions) -> tuple[frozenset[str], ...]:
    """The servers of each replica group, of all its partitions."""
    return tuple(
        frozenset(server for of_partition in partitions.servers for server in of_partition[number])
        for number in range(partitions.num_replica_groups)
    )
