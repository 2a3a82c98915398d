"""The replicas that strictReplicaGroup may ask: of segments with the same servers in the ideal state, a *family*, only
servers that have them all.

As in the reference, a server that lacks one segment of a family is asked for none of it, and where every server lacks
one, none of the family can be answered: its segments are reported unavailable (305). A new segment keeps no server out.
It is part of the table from when a server has it beside all others of its family, at the latest from the end of its
grace on: queries before that see none of its rows, those after it all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from pinotpy.broker.routing.table_routing import owned_chains

_NOBODY: frozenset[str] = frozenset()


def strict_replicas(
    replicas: Mapping[str, tuple[str, ...]],
    ideal: Mapping[str, Mapping[str, str]],
    chains: Sequence[Sequence[str]],
    new: Collection[str],
) -> tuple[dict[str, tuple[str, ...]], dict[str, int]]:
    """What of `replicas` may be asked, and the family of each segment, by number.

    Args:
        ideal: segment → instance → wanted state.
        chains: see TableRouting. A chain belongs to the family of its first segment.
        new: segments that were pushed a moment ago.
    """
    chain_of = {name: chain for chain in chains for name in chain}
    members: dict[frozenset[str], list[str]] = {}
    for name in replicas:
        wanted = ideal[chain_of[name][0] if name in chain_of else name]
        members.setdefault(frozenset(i for i, state in wanted.items() if state != "OFFLINE"), []).append(name)
    narrowed: dict[str, tuple[str, ...]] = {}
    families: dict[str, int] = {}
    for number, names in enumerate(members.values()):
        own_chains = [chain_of[name] for name in names if name in chain_of and chain_of[name][0] == name]
        single = [name for name in names if name not in chain_of]
        fresh = [name for name in single if name in new]
        sets = [set(replicas[name]) for name in single if name not in new]
        sets += [set(owners) for owners, _ in owned_chains(replicas, own_chains, _NOBODY)]
        servers = set.intersection(*sets) if sets else {server for name in fresh for server in replicas[name]}
        servers, visible = _with_most(servers, fresh, replicas)
        hidden = set(fresh) - visible
        for name in names:
            if name not in hidden:
                narrowed[name] = tuple(server for server in replicas[name] if server in servers)
                families[name] = number
    return {name: narrowed[name] for name in replicas if name in narrowed}, families


def _with_most(
    servers: set[str], fresh: Sequence[str], replicas: Mapping[str, tuple[str, ...]]
) -> tuple[set[str], frozenset[str]]:
    """Those of `servers` that have the most new segments, the same ones each, and these segments."""
    if not fresh:
        return servers, _NOBODY
    have = {server: frozenset(name for name in fresh if server in replicas[name]) for server in sorted(servers)}
    visible = max(have.values(), key=len, default=_NOBODY)
    return {server for server in servers if have[server] == visible}, visible
