"""What a broker has measured of its servers, and which of them it prefers: Pinot's adaptive server selection.

Of each server: the requests in flight, a moving average of them (taken at each new request), and one of the latencies
of its answers. The lower a server's score, the earlier it is asked:

    NUM_INFLIGHT_REQ   requests in flight
    LATENCY            average latency
    HYBRID             (floor + requests in flight + their average) ^ exponent * average latency

A server that gave no answer took the time that was left for it, so that failing fast attracts no queries. An average
that gets no new value falls by one step a window: who was slow is tried again. Times come from the caller.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from pinotpy.config.adaptive_selection import AdaptiveType

# What is shown of each server at /metrics.
SERVER_GAUGES: Final = (
    "adaptiveServerNumInFlightRequests",
    "adaptiveServerLatencyEma",
    "adaptiveServerHybridScore",
)
# What a server that nobody asked for so long has been is forgotten when another one comes.
FORGOTTEN_NS: Final = 3_600_000_000_000
# Averages are this many windows old at most: then they are 0.
_WINDOWS_MAX: Final = 1_000
# Scores above it are equal: they must stay numbers.
_SCORE_MAX: Final = 1e300


@dataclass(frozen=True, slots=True)
class AdaptiveRules:
    """See AdaptiveSelectionSettings. measures: whether servers are measured."""

    kind: AdaptiveType = AdaptiveType.NO_OP
    measures: bool = False
    alpha: float = 0.666
    decay_window_ns: int = 10_000_000_000
    first_value: float = 1.0
    exponent: float = 3.0
    queue_floor: float = 0.0


@dataclass(slots=True)
class _Average:
    """An exponentially weighted moving average."""

    value: float
    updated_ns: int

    def add(self, value: float, now_ns: int, rules: AdaptiveRules) -> None:
        self.value = rules.alpha * value + (1 - rules.alpha) * self.at(now_ns, rules)
        self.updated_ns = now_ns

    def at(self, now_ns: int, rules: AdaptiveRules) -> float:
        if not rules.decay_window_ns:
            return self.value
        windows = min((now_ns - self.updated_ns) // rules.decay_window_ns, _WINDOWS_MAX)
        return self.value * (1 - rules.alpha) ** windows if windows > 0 else self.value


@dataclass(slots=True)
class _Server:
    queue: _Average
    latency_ms: _Average
    num_in_flight: int = 0


@dataclass(slots=True)
class ServerStatistics:
    """Of one broker; used by its event loop only. Times are monotonic, in nanoseconds."""

    rules: AdaptiveRules = field(default_factory=AdaptiveRules)
    _servers: dict[str, _Server] = field(default_factory=dict)

    @property
    def chooses(self) -> bool:
        """Whether servers are preferred by their scores."""
        return self.rules.kind is not AdaptiveType.NO_OP

    def began(self, server: str, now_ns: int) -> None:
        """A request is sent."""
        if not self.rules.measures:
            return
        known = self._servers.get(server)
        if known is None:
            self._forget_old(now_ns)
            first = self.rules.first_value
            known = self._servers[server] = _Server(_Average(first, now_ns), _Average(first, now_ns))
        known.num_in_flight += 1
        known.queue.add(known.num_in_flight, now_ns, self.rules)

    def ended(self, server: str, now_ns: int, latency_ms: float | None) -> None:
        """A request that began is over. latency_ms: None where its end says nothing of the server's speed."""
        known = self._servers.get(server) if self.rules.measures else None
        if known is None:
            return
        known.num_in_flight -= 1
        if latency_ms is not None:
            known.latency_ms.add(latency_ms, now_ns, self.rules)

    def score(self, server: str, now_ns: int) -> float:
        """Of a server; one of which nothing is known has the first values and no request in flight."""
        rules, known = self.rules, self._servers.get(server)
        if known is None:
            num_in_flight, queue, latency_ms = 0, rules.first_value, rules.first_value
        else:
            num_in_flight = known.num_in_flight
            queue, latency_ms = known.queue.at(now_ns, rules), known.latency_ms.at(now_ns, rules)
        match rules.kind:
            case AdaptiveType.NUM_INFLIGHT_REQ:
                return num_in_flight
            case AdaptiveType.LATENCY:
                return latency_ms
            case _:
                return _hybrid(rules, num_in_flight, queue, latency_ms)

    def ranks(self, servers: Collection[str], turn: int, now_ns: int) -> dict[str, int]:
        """The place of each server, 0 being asked first. Servers of equal scores take turns."""
        ordered = sorted(servers)
        first = turn % (len(ordered) or 1)
        rotated = ordered[first:] + ordered[:first]
        scores = {server: self.score(server, now_ns) for server in rotated}
        return {server: rank for rank, server in enumerate(sorted(rotated, key=scores.__getitem__))}

    def shown(self, now_ns: int) -> dict[str, dict[str, float]]:
        """By server, what was measured, with Pinot's names of the metrics. On any thread."""
        rules = self.rules
        shown = {}
        for server, known in sorted(dict(self._servers).items()):
            queue, latency_ms = known.queue.at(now_ns, rules), known.latency_ms.at(now_ns, rules)
            shown[server] = {
                "adaptiveServerNumInFlightRequests": known.num_in_flight,
                "adaptiveServerInFlightRequestsEma": queue,
                "adaptiveServerLatencyEma": latency_ms,
                "adaptiveServerHybridScore": _hybrid(rules, known.num_in_flight, queue, latency_ms),
            }
        return shown

    def _forget_old(self, now_ns: int) -> None:
        oldest_ns = now_ns - FORGOTTEN_NS
        self._servers = {
            server: known
            for server, known in self._servers.items()
            if known.num_in_flight or known.queue.updated_ns > oldest_ns
        }


def _hybrid(rules: AdaptiveRules, num_in_flight: int, queue: float, latency_ms: float) -> float:
    power: float
    try:
        power = (rules.queue_floor + num_in_flight + queue) ** rules.exponent
    except OverflowError:
        power = _SCORE_MAX
    return min(power * latency_ms, _SCORE_MAX)
