"""The routing of one table half: every segment that queries must see, and the servers that have it ONLINE now.

Pure and immutable: built from one snapshot of the cluster, swapped as a whole when the snapshot changes. A segment that
should be served and has no living replica is *unavailable*, never left out silently: its rows are reported missing
(305).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from math import lcm
from typing import Protocol

from pinotpy.broker.routing.turns import fair_turn
from pinotpy.cluster.llc_names import known_llc_name, parse_llc_name

Assignment = dict[str, tuple[str, ...]]  # server instance → segments that it answers for

# Rotation, servers that are excluded, servers that lag.
ChoiceKey = tuple[int, frozenset[str], frozenset[str]]

# The place of each of some servers in the order of preference.
Rank = Callable[[Collection[str]], Mapping[str, int]]

CACHED_ASSIGNMENTS_MAX = 64
_NOBODY: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Selection:
    """Who is asked for what; `unavailable` has no living replica (besides the excluded ones)."""

    assignment: Assignment
    unavailable: tuple[str, ...]


class ReplicaSelector(Protocol):
    """How the replicas of one query are chosen together, where a table's config asks for it (`replica_groups.py`)."""

    def turn(self, request_number: int) -> int:
        """Of a request. Choices depend on it alone, not on the number."""
        ...

    def choose(
        self,
        replicas: Mapping[str, tuple[str, ...]],
        turn: int,
        excluded: frozenset[str],
        chains: Collection[Sequence[str]] = (),
        lagging: frozenset[str] = _NOBODY,
        ranks: Mapping[str, int] | None = None,
    ) -> Selection:
        """See TableRouting.select and TableRouting.prefer."""
        ...

    def bound(self, segments: Collection[str], answered: Collection[str]) -> frozenset[str]:
        """Of `segments`, those that nobody may answer but the server that has answered for `answered`."""
        ...


@dataclass(frozen=True, slots=True)
class TableRouting:
    """Segments of one table half and their living replicas.

    replicas: segment → instances that have it ONLINE or CONSUMING and live, sorted; of a member of a chain also those
        that read on into it (with_readers). Empty = unavailable.
    chains: of every partition of a stream the segments that are not done everywhere, in their order. One server answers
        for a whole chain, since only it knows where its segments meet; they come last among those it is asked for.
    selector: None: balanced, each segment by itself.
    unread: partitions of the stream that no segment is of that a server has begun: they are new.
    """

    table: str
    replicas: Mapping[str, tuple[str, ...]]
    chains: tuple[tuple[str, ...], ...] = ()
    selector: ReplicaSelector | None = None
    unread: tuple[int, ...] = ()
    # Of every member of a chain the next one; None of the last one.
    _following: Mapping[str, str | None] = field(init=False, compare=False, repr=False)
    _num_turns: int = field(init=False, compare=False, repr=False)
    _cache: dict[ChoiceKey, Selection] = field(default_factory=dict, compare=False, repr=False)
    _files: dict[str, tuple[str]] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        counts = {len(servers) for servers in self.replicas.values() if servers} or {1}
        # So that a segment's replicas have equal shares, however many they are.
        num_turns = lcm(*counts)
        object.__setattr__(self, "_num_turns", num_turns if num_turns <= CACHED_ASSIGNMENTS_MAX else max(counts))
        following = {name: after for chain in self.chains for name, after in zip_longest(chain, chain[1:])}
        object.__setattr__(self, "_following", following)

    def select(
        self, request_number: int, excluded: frozenset[str] = _NOBODY, lagging: frozenset[str] = _NOBODY
    ) -> Selection:
        """The choice of the table's selector; the balanced one: segment i of a request asks replica (turn of the
        request + i), so that load spreads within a query and between queries, also where every second one is heavy.
        Servers in `excluded` (known to refuse connections) are asked only if nobody else can, and those in `lagging`
        (they still read what others have) for no chain that somebody else has.

        The choices of a snapshot repeat after a few requests, so they are computed once and kept.
        """
        if not self.chains:
            lagging = _NOBODY
        key = (self._turn(request_number), excluded, lagging)
        selection = self._cache.get(key)
        if selection is None:
            selection = self._choose(self.replicas, key[0], excluded, self.chains, lagging)
            if len(self._cache) >= CACHED_ASSIGNMENTS_MAX:
                self._cache.clear()
            self._cache[key] = selection
        return selection

    def select_some(
        self,
        segments: Sequence[str],
        known: dict[ChoiceKey, Selection],
        request_number: int,
        excluded: frozenset[str] = _NOBODY,
        lagging: frozenset[str] = _NOBODY,
    ) -> Selection:
        """As `select`, of these segments, which are of no chain, and of all chains. known: where its choices of these
        segments are kept.
        """
        lagging = lagging if self.chains else _NOBODY
        key = (self._turn(request_number), excluded, lagging)
        selection = known.get(key)
        if selection is None:
            chained = [name for chain in self.chains for name in chain]
            replicas = {name: self.replicas[name] for name in (*segments, *chained)}
            selection = self._choose(replicas, key[0], excluded, self.chains, lagging)
            if len(known) >= CACHED_ASSIGNMENTS_MAX:
                known.clear()
            known[key] = selection
        return selection

    def prefer(
        self,
        selection: Selection,
        rank: Rank,
        request_number: int,
        excluded: frozenset[str] = _NOBODY,
        lagging: frozenset[str] = _NOBODY,
    ) -> Selection:
        """The segments of a selection, each of that server among those it may be asked of which `rank` prefers; by
        replica groups, of those groups whose last server in the order comes first.
        """
        asked = {name for names in selection.assignment.values() for name in names}.union(selection.unavailable)
        # In the same order for every query: servers know a list of segments that they had before.
        names = self.replicas if len(asked) == len(self.replicas) else sorted(asked)
        replicas = {name: self.replicas[name] for name in names}
        ranks = rank({server for servers in replicas.values() for server in servers})
        return self._choose(replicas, self._turn(request_number), excluded, self.chains, lagging, ranks)

    def with_chains(self, chains: tuple[tuple[str, ...], ...]) -> TableRouting:
        """The same with other chains, of which it keeps its own choices."""
        return replace(self, chains=chains, _cache={}, _files={})

    def file_of_each(self) -> Mapping[str, tuple[str]]:
        """Of each server that has one the first segment of no chain; by name of the server. Computed once."""
        if not self._files:
            found: dict[str, tuple[str]] = {}
            for name, servers in self.replicas.items():
                if name not in self._following:
                    found |= {server: (name,) for server in servers if server not in found}
            self._files.update(sorted(found.items()))
        return self._files

    def reselect(
        self, segments: tuple[str, ...], tried: Mapping[str, frozenset[str]], answered: Collection[str] = ()
    ) -> Selection:
        """Other replicas for `segments` whose servers failed; `tried` has the servers each segment has been asked of.
        answered: what a server that lacks `segments` has answered for, and is not asked again.
        """
        bound = self.selector.bound(segments, answered) if self.selector is not None and answered else _NOBODY
        remaining = {
            name: tuple(
                s for s in self.replicas.get(name, ()) if s not in tried.get(name, _NOBODY) and name not in bound
            )
            for name in segments
        }
        if not self.chains:
            return self._choose(remaining, 0, _NOBODY, (), _NOBODY)
        asked = ([name for name in chain if name in remaining] for chain in self.chains)
        return self._choose(remaining, 0, _NOBODY, [chain for chain in asked if chain], _NOBODY)

    def _turn(self, request_number: int) -> int:
        if self.selector is not None:
            return self.selector.turn(request_number)
        return fair_turn(request_number, self._num_turns)

    def _choose(
        self,
        replicas: Mapping[str, tuple[str, ...]],
        turn: int,
        excluded: frozenset[str],
        chains: Collection[Sequence[str]],
        lagging: frozenset[str],
        ranks: Mapping[str, int] | None = None,
    ) -> Selection:
        selects = choose if self.selector is None else self.selector.choose
        return selects(replicas, turn, excluded, chains, lagging, ranks)

    def num_consuming(self, segments: Sequence[str]) -> int:
        """How many of the segments that one server is asked for are members of chains; they are the last ones."""
        count = 0
        behind: str | None = None  # the segment behind the one that is looked at, in the request
        for name in reversed(segments) if self.chains else ():
            following = self._following.get(name, name)
            if following is not None and following != behind:
                break  # in no chain, or asked for by itself, because nobody has the chain from there on
            count, behind = count + 1, name
        return count


def choose(
    replicas: Mapping[str, tuple[str, ...]],
    rotation: int,
    excluded: frozenset[str],
    chains: Collection[Sequence[str]] = (),
    lagging: frozenset[str] = _NOBODY,
    ranks: Mapping[str, int] | None = None,
) -> Selection:
    """Pick one server per segment, and one per chain; see TableRouting.select, and of `ranks` TableRouting.prefer."""
    chosen: dict[str, list[str]] = {}
    unavailable = []
    in_chains = [
        (picked(owners, rotation + number, ranks), members)
        for number, (owners, members) in enumerate(owned_chains(replicas, chains, excluded, lagging))
    ]
    skipped = frozenset(name for _, members in in_chains for name in members)
    for number, (segment, servers) in enumerate(replicas.items()):
        if segment in skipped:
            continue
        candidates = [s for s in servers if s not in excluded] or servers if excluded else servers
        if not candidates:
            unavailable.append(segment)
            continue
        chosen.setdefault(picked(candidates, rotation + number, ranks), []).append(segment)
    for server, members in in_chains:
        chosen.setdefault(server, []).extend(members)
    return Selection({server: tuple(segments) for server, segments in chosen.items()}, tuple(unavailable))


def picked(servers: Sequence[str], turn: int, ranks: Mapping[str, int] | None) -> str:
    """One of some servers: the one with the least rank, or without ranks the one whose turn it is."""
    return servers[turn % len(servers)] if ranks is None else min(servers, key=ranks.__getitem__)


def owned_chains(
    replicas: Mapping[str, tuple[str, ...]],
    chains: Collection[Sequence[str]],
    excluded: frozenset[str],
    lagging: frozenset[str] = _NOBODY,
) -> list[tuple[list[str], Sequence[str]]]:
    """Of each chain that somebody has, the servers that may be asked, and for which of its members."""
    owned = []
    for chain in chains:
        owners, members = _whole_chain(replicas, chain, excluded)
        if members and lagging:
            # If all lag, always the same one, so that rows do not come and go.
            owners = [server for server in owners if server not in lagging] or owners[:1]
        if members:
            owned.append((owners, members))
    return owned


def _whole_chain(
    replicas: Mapping[str, tuple[str, ...]], chain: Sequence[str], excluded: frozenset[str]
) -> tuple[list[str], Sequence[str]]:
    """The servers that have the chain, and what of it they have: all, else as much of its end as one server has. What
    is left over is asked for as a segment by itself: until it is done, nobody has it as one, and that is told.
    """
    for first in range(len(chain)):
        members = chain[first:]
        servers = _servers_of(replicas, members)
        if servers:
            return [s for s in servers if s not in excluded] or servers, members
    return [], ()


def _servers_of(replicas: Mapping[str, tuple[str, ...]], names: Sequence[str]) -> list[str]:
    """The servers that have all of these segments."""
    return [server for server in replicas[names[0]] if all(server in replicas[name] for name in names[1:])]


def chains_of(
    ideal: Mapping[str, Mapping[str, str]], external: Mapping[str, Mapping[str, str]], names: Collection[str]
) -> tuple[tuple[str, ...], ...]:
    """The chains among the segments `names`, by partition, ascending: from the first one that consumes on some server,
    or should, all that follow; and those before it that no server shows yet. One among them that is done already
    belongs to it: whoever has rows of the ones before and behind it has its rows among them.
    """
    partitions: dict[int, list[tuple[int, str]]] = {}
    firsts: dict[int, int] = {}
    for name in names:
        parsed = parse_llc_name(name)
        if parsed is None:
            continue
        partitions.setdefault(parsed.partition, []).append((parsed.sequence, name))
        if "CONSUMING" in ideal[name].values() or "CONSUMING" in external.get(name, {}).values():
            firsts[parsed.partition] = min(firsts.get(parsed.partition, parsed.sequence), parsed.sequence)
    return tuple(
        _chain_from(first, sorted(partitions[partition]), external) for partition, first in sorted(firsts.items())
    )


def _chain_from(
    first: int, segments: Sequence[tuple[int, str]], external: Mapping[str, Mapping[str, str]]
) -> tuple[str, ...]:
    shown = max((sequence for sequence, name in segments if external.get(name)), default=first)
    return tuple(name for sequence, name in segments if sequence >= first or sequence > shown)


def with_readers(
    replicas: Mapping[str, tuple[str, ...]],
    chains: Collection[Sequence[str]],
    ideal: Mapping[str, Mapping[str, str]],
    external: Mapping[str, Mapping[str, str]],
) -> Mapping[str, tuple[str, ...]]:
    """`replicas`, where a server also has the members of a chain that the external view does not show there yet:
    segments may end faster than it is written, and a server reads one log per partition, whatever it is cut into.

    Who has the beginning of a chain, consumes the last segment of that, and is to have the rest has the rows of all. If
    nobody has a whole chain so, those are asked that are to have what they lack, and have its first segment or the one
    before it, since they keep their log open; and those that read on in a chain that moved to other servers. Whoever
    has less after all says so.
    """

    def has_failed(name: str, server: str) -> bool:
        return server in external.get(name, {}) or ideal[name].get(server) == "OFFLINE"

    def is_to_come(name: str, server: str) -> bool:
        return server in ideal[name] and not has_failed(name, server)

    found: dict[str, set[str]] = {}
    before: dict[tuple[int, int], str] | None = None
    for chain in chains:
        have = {name: set(replicas[name]) for name in chain}
        following: dict[str, Sequence[str]] = {}  # of who reads on, what follows the beginning that it has
        for server in replicas[chain[0]]:
            last = max(place for place, name in enumerate(chain) if server in have[name])
            begins = all(server in have[name] for name in chain[:last])
            if begins and external[chain[last]][server] == "CONSUMING":
                following[server] = chain[last + 1 :]
        readers = [server for server, rest in following.items() if all(is_to_come(name, server) for name in rest)]
        if not readers and not set.intersection(*have.values()):
            if before is None:
                before = {(each.partition, each.sequence): name for name in replicas if (each := parse_llc_name(name))}
            first = known_llc_name(chain[0])
            previous = before.get((first.partition, first.sequence - 1), chain[0])
            readers = [
                server
                for server in {*replicas[chain[0]], *replicas[previous]}
                if all(server in have[name] or is_to_come(name, server) for name in chain)
            ] or [server for server, rest in following.items() if not any(has_failed(name, server) for name in rest)]
        for name in chain if readers else ():
            found[name] = have[name].union(readers)
    return {**replicas, **{name: tuple(sorted(servers)) for name, servers in found.items()}} if found else replicas
