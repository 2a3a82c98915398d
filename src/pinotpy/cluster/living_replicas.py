"""Which servers answer for which segments of a table half, by ideal state, external view and living instances. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pinotpy.cluster.views import DROPPED, OFFLINE, InstanceConfig


def is_wanted_state(state: str) -> bool:
    """Whether an ideal state with it wants a replica's rows to be found; so does one that nobody knows."""
    return state not in (OFFLINE, DROPPED)


def taking_queries(live: Iterable[str], configs: Mapping[str, InstanceConfig]) -> frozenset[str]:
    """Of the living instances those that brokers may route to; one without a config may be."""
    return frozenset(name for name in live if (config := configs.get(name)) is None or config.takes_queries)


def living_replicas(
    ideal: Mapping[str, Mapping[str, str]],
    external: Mapping[str, Mapping[str, str]],
    live: frozenset[str],
    not_yet_visible: frozenset[str] = frozenset(),
    hidden: frozenset[str] = frozenset(),
    *,
    is_realtime: bool = False,
) -> dict[str, tuple[str, ...]]:
    """Segments that queries must see, with their living replicas.

    Args:
        ideal: segment → instance → wanted state. Segments count unless all their replicas are to be OFFLINE or DROPPED:
            one of damaged states, or of no replicas, has rows that are missing. So has one of a stream that all its
            replicas stopped consuming.
        external: segment → instance → reached state.
        live: instances with a live session that accept queries.
        not_yet_visible: segments just uploaded, which no replica has served yet: they are not part of the table until
            the first replica is ONLINE (an upload is acknowledged before its segment is loaded).
        hidden: segments that another one stands for (cluster/segment_lineage.py).
    """
    out: dict[str, tuple[str, ...]] = {}
    for segment, states in ideal.items():
        is_wanted = not states or any(map(is_wanted_state, states.values()))
        if segment in hidden or not (is_wanted or is_realtime):
            continue
        reached = external.get(segment, {})
        servers = tuple(sorted(i for i, state in reached.items() if state in ("ONLINE", "CONSUMING") and i in live))
        if not servers and segment in not_yet_visible:
            continue
        out[segment] = servers
    return out
