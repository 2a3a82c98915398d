"""The time limit of a query, its source, and what an answer says about it: the option timeoutMs, the table's
query.timeoutMs, or the broker's setting.

A query may request as much as the table or the broker allows; beyond that its request is reduced, and the answer warns.
A timeout names the limit that applied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from pinotpy.errors import QueryTimeoutError, ServerNotRespondingError
from pinotpy.query.model.deadline import SERVER_TIMEOUT_SETTING
from pinotpy.query.result.partial import QueryException

_BROKER: Final = "the setting pinot.broker.timeoutMs"
_TABLE: Final = "query.timeoutMs of the table"
_OPTION: Final = "the option timeoutMs"
_TIME_OUTS: Final = frozenset({QueryTimeoutError.code, ServerNotRespondingError.code})


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """`source` names what set `timeout_ms`; `most_ms` is what the option may be, and `asked_ms` what it was, None
    without one.
    """

    timeout_ms: int
    source: str
    most_ms: int
    asked_ms: int | None

    def warnings(self) -> list[str]:
        """What the answer must say: that the query got less time than it asked for."""
        if self.asked_ms is None or self.asked_ms <= self.most_ms:
            return []
        return [f"{_OPTION} was cut from {self.asked_ms} to {self.timeout_ms} ms: {self.source} allows no more"]

    def named_in(self, exceptions: Sequence[QueryException]) -> list[QueryException]:
        """The exceptions; those of a query whose time was up say which limit bound."""
        return [
            replace(error, message=self._named(error)) if error.code in _TIME_OUTS else error for error in exceptions
        ]

    def _named(self, late: QueryException) -> str:
        if SERVER_TIMEOUT_SETTING in late.message:
            return late.message  # the server's own limit bound
        return f"{late.message}{', or' if late.code == QueryTimeoutError.code else ':'} raise {self._bound()}"

    def _bound(self) -> str:
        named = f"{self.source} ({self.timeout_ms} ms)"
        if self.timeout_ms < self.most_ms:
            return f"{named}; the option may be at most {self.most_ms}"
        return (
            named
            if self.asked_ms is None or self.source == _OPTION
            else f"{named}, which bounds {_OPTION} ({self.asked_ms} ms)"
        )


def time_limit(asked_ms: int | None, broker_ms: int, table_ms: int | None = None) -> TimeLimit:
    """The limit of a query. `asked_ms`: its option; `table_ms`: its table's, which stands for the broker's where the
    query asks for nothing.
    """
    default_ms = table_ms or broker_ms
    most_ms = max(default_ms, broker_ms)
    if asked_ms is not None and asked_ms <= most_ms:
        return TimeLimit(asked_ms, _OPTION, most_ms, asked_ms)
    given_ms = default_ms if asked_ms is None else most_ms
    return TimeLimit(given_ms, _TABLE if given_ms == table_ms else _BROKER, most_ms, asked_ms)
