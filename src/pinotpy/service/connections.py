"""Who may hold how many connections, and which one ends when there are too many.

An open connection costs its holder nothing, so no number of them may keep others out. One address holds a part of the
places at most. When a place is lacking, a connection without a request on it is given up: the one longest at rest, of
the address itself where that is over its part, otherwise of whoever holds most. Only when every connection is in the
middle of a request are newcomers refused; health checks and other daemons are served even then, on a reserve.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Protocol

from pinotpy.service.addresses import TrustedProxies, counted_address
from pinotpy.service.metrics import Metrics

# Of all places: those of one address unless the operator says otherwise, and the reserve on top. Of the reserve: those
# of one address.
BY_ADDRESS_SHARE: Final = 2
RESERVE_SHARE: Final = 8
RESERVE_MIN: Final = 8
RESERVE_BY_ADDRESS_SHARE: Final = 4

_log = logging.getLogger(__name__)


def fitting_places(wanted: int, connections_max: int) -> int:
    """As many places as are wanted, or fewer: with the reserve there are at most `connections_max` connections."""
    most = min(connections_max * RESERVE_SHARE // (RESERVE_SHARE + 1), connections_max - RESERVE_MIN)
    return max(min(wanted, most), 1)


class Connection(Protocol):
    """What is held on a place."""

    def may_be_given_up(self) -> bool:
        """Whether nothing is under way, not even the rest of an answer."""
        ...

    def give_up(self) -> None:
        """Close at once."""
        ...


@dataclass(slots=True, eq=False)
class _Address:
    """One address: how many connections it has, and those at rest, longest first."""

    name: str
    places_max: int
    num_open: int = 0
    at_rest: dict[Place, None] = field(default_factory=dict)


class Place:
    """A connection's place. `is_admitted` is False on the reserve: then only some requests are answered."""

    __slots__ = ("_address", "_connections", "connection", "is_admitted", "is_held")

    def __init__(self, connections: Connections, address: _Address, connection: Connection) -> None:
        self._connections = connections
        self._address = address
        self.connection = connection
        self.is_admitted = self.is_held = True

    def rest(self) -> None:
        """No request is on the connection from now on."""
        if self.is_held:
            self._address.at_rest[self] = None

    def work(self) -> None:
        """The head of a request is complete."""
        self._address.at_rest.pop(self, None)

    def admit(self) -> bool:
        """Whether a request may be answered: the place is no longer on the reserve if there is room now."""
        if not self.is_admitted:
            self.is_admitted = self._connections._make_room(self._address)
        return self.is_admitted

    def refuse(self) -> None:
        """Count that a request was refused here."""
        self._connections._refused()

    def leave(self) -> None:
        """The connection is closed, or as good as that. May be called again."""
        if self.is_held:
            self.is_held = False
            self.work()
            self._connections._leave(self._address)


class Connections:
    """The places of one server. Used by its event loop only.

    places_max: connections with a right to be answered; by_address_max: those of one address, 0 = half of them. Proxies
    that are trusted have many clients behind them, and only the whole bounds theirs.
    """

    def __init__(
        self, places_max: int, by_address_max: int, metrics: Metrics, proxies: TrustedProxies | None = None
    ) -> None:
        self.places_max = places_max
        self.by_address_max = min(by_address_max or max(places_max // BY_ADDRESS_SHARE, 1), places_max)
        self.reserve = max(places_max // RESERVE_SHARE, RESERVE_MIN)
        self.num_open = self._num_given_up = self._num_refused = 0
        self._addresses: dict[str, _Address] = {}
        self._metrics = metrics
        self._proxies = proxies or TrustedProxies()

    def take(self, connection: Connection, peer: str) -> Place | None:
        """A place for a new connection from `peer`; None where even the reserve is full."""
        address = self._address(peer)
        reserve_by_address = self.reserve // RESERVE_BY_ADDRESS_SHARE
        is_refused = (
            address.num_open >= address.places_max + reserve_by_address and not self._give_up_one(address)
        ) or (self.num_open >= self.places_max + self.reserve and not self._give_up_any())
        if is_refused:
            self._refused()
            self._forget(address)
            return None
        place = Place(self, address, connection)
        address.num_open += 1
        self.num_open += 1
        place.is_admitted = self._make_room(address)
        place.rest()
        return place

    def report(self) -> None:
        """Log what was given up and refused since the last call, in one line."""
        if not self._num_given_up and not self._num_refused:
            return
        most = max(self._addresses.values(), key=lambda address: address.num_open, default=None)
        _log.warning(
            "connections are short open=%d max=%d given_up=%d refused=%d most_held_by=%s holds=%d max_by_address=%d",
            self.num_open,
            self.places_max,
            self._num_given_up,
            self._num_refused,
            most.name if most else "",
            most.num_open if most else 0,
            self.by_address_max,
        )
        self._num_given_up = self._num_refused = 0

    def _make_room(self, address: _Address) -> bool:
        """End connections at rest until `address` and the whole have no more than they may."""
        while address.num_open > address.places_max:
            if not self._give_up_one(address):
                return False
        while self.num_open > self.places_max:
            if not self._give_up_any():
                return False
        return True

    def _give_up_any(self) -> bool:
        return any(self._give_up_one(address) for address in self._largest_first())

    def _largest_first(self) -> Iterator[_Address]:
        resting = [address for address in self._addresses.values() if address.at_rest]
        if resting:
            yield max(resting, key=lambda address: address.num_open)
            yield from sorted(resting, key=lambda address: -address.num_open)

    def _give_up_one(self, address: _Address) -> bool:
        place = next((place for place in address.at_rest if place.connection.may_be_given_up()), None)
        if place is None:
            return False
        place.leave()
        place.connection.give_up()
        self._num_given_up += 1
        self._metrics.count("httpConnectionsGivenUp")
        return True

    def _refused(self) -> None:
        self._num_refused += 1
        self._metrics.count("httpConnectionsRefused")

    def _address(self, peer: str) -> _Address:
        is_proxy = self._proxies.trusts(peer)
        name = peer if is_proxy else counted_address(peer)
        address = self._addresses.get(name)
        if address is None:
            address = self._addresses[name] = _Address(name, self.places_max if is_proxy else self.by_address_max)
        return address

    def _leave(self, address: _Address) -> None:
        self.num_open -= 1
        address.num_open -= 1
        self._forget(address)

    def _forget(self, address: _Address) -> None:
        if address.num_open == 0:
            self._addresses.pop(address.name, None)
