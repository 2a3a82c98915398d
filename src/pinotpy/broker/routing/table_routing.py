"""The routing of one table half: every segment that queries must see, and the servers that have it ONLINE now.

Pure and immutable: built from one snapshot of the cluster, swapped as a whole when the snapshot changes. A segment that
should be served and has no living replica is *unavailable*, never left out silently: its rows are reported missing
(305).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Assignment = dict[str, tuple[str, ...]]  # server instance → segments that it answers for

CACHED_ASSIGNMENTS_MAX = 64


@dataclass(frozen=True, slots=True)
class Selection:
    """Who is asked for what; `unavailable` has no living replica (besides the excluded ones)."""

    assignment: Assignment
    unavailable: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TableRouting:
    """Segments of one table half and their living replicas.

    replicas: segment → instances that have it ONLINE and live, sorted. Empty = unavailable.
    """

    table: str
    replicas: Mapping[str, tuple[str, ...]]
    _most: int = field(init=False, compare=False, repr=False)
    _cache: dict[tuple[int, frozenset[str]], Selection] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_most", max(map(len, self.replicas.values()), default=1) or 1)

    def select(self, request_number: int, excluded: frozenset[str] = frozenset()) -> Selection:
        """The balanced choice: segment i of a request asks replica (request_number + i), so that load spreads within a
        query and between queries. Servers in `excluded` (known to refuse connections) are asked only if nobody else
        can.

        The choices of a snapshot repeat after a few requests, so they are computed once and kept.
        """
        key = (request_number % self._most, excluded)
        selection = self._cache.get(key)
        if selection is None:
            selection = choose(self.replicas, request_number % self._most, excluded)
            if len(self._cache) >= CACHED_ASSIGNMENTS_MAX:
                self._cache.clear()
            self._cache[key] = selection
        return selection

    def reselect(self, segments: tuple[str, ...], tried: Mapping[str, frozenset[str]]) -> Selection:
        """Other replicas for `segments` whose servers failed; `tried` has the servers each segment has been asked
        of.
        """
        remaining = {
            name: tuple(s for s in self.replicas.get(name, ()) if s not in tried.get(name, frozenset()))
            for name in segments
        }
        return choose(remaining, 0, frozenset())


def choose(replicas: Mapping[str, tuple[str, ...]], rotation: int, excluded: frozenset[str]) -> Selection:
    """Pick one server per segment; see TableRouting.select."""
    chosen: dict[str, list[str]] = {}
    unavailable = []
    for number, (segment, servers) in enumerate(replicas.items()):
        candidates = [s for s in servers if s not in excluded] or servers if excluded else servers
        if not candidates:
            unavailable.append(segment)
            continue
        chosen.setdefault(candidates[(rotation + number) % len(candidates)], []).append(segment)
    return Selection({server: tuple(segments) for server, segments in chosen.items()}, tuple(unavailable))


def living_replicas(
    ideal: Mapping[str, Mapping[str, str]],
    external: Mapping[str, Mapping[str, str]],
    live: frozenset[str],
    not_yet_visible: frozenset[str] = frozenset(),
    hidden: frozenset[str] = frozenset(),
) -> dict[str, tuple[str, ...]]:
    """Segments that queries must see, with their living replicas.

    Args:
        ideal: segment → instance → wanted state. Segments wanted ONLINE or CONSUMING anywhere count.
        external: segment → instance → reached state.
        live: instances with a live session that accept queries.
        not_yet_visible: segments just uploaded, which no replica has served yet: they are not part of the table until
            the first replica is ONLINE (an upload is acknowledged before its segment is loaded).
        hidden: segments that another one stands for (cluster/segment_lineage.py).
    """
    out: dict[str, tuple[str, ...]] = {}
    for segment, states in ideal.items():
        if segment in hidden or not any(state in ("ONLINE", "CONSUMING") for state in states.values()):
            continue
        reached = external.get(segment, {})
        servers = tuple(sorted(i for i, state in reached.items() if state in ("ONLINE", "CONSUMING") and i in live))
        if not servers and segment in not_yet_visible:
            continue
        out[segment] = servers
    return out
