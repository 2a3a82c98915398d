"""Whether nulls are nulls in a query, or default values.

PQL keeps default values, always. In SQL the strongest of three decides: the query's option `enableNullHandling`,
`query.enableNullHandling` of the table config, and the broker's setting. A table has one mode for all its halves: two
halves that would differ answer with nulls, because then no default value passes for a stored one (ADR 25).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pinotpy.pql.ast import Dialect

OPTION: Final = "enableNullHandling"


@dataclass(frozen=True, slots=True)
class NullMode:
    """`handling`: SQL's nulls (True) or default values (False). warnings: what the answer must say about the choice."""

    handling: bool
    warnings: tuple[str, ...] = ()


DEFAULT_VALUES: Final = NullMode(False)
SQL_NULLS: Final = NullMode(True)
_OF_TWO_MINDS: Final = NullMode(
    True,
    (
        "nulls are nulls in this answer: the halves of the table differ in query.enableNullHandling of their table "
        f"configs; say the same in both, or {OPTION} in the query",
    ),
)


def null_mode(dialect: Dialect, asked: bool | None, of_halves: Sequence[bool | None], *, of_broker: bool) -> NullMode:
    """The mode of a query.

    Args:
        asked: the query's option; None without one.
        of_halves: query.enableNullHandling of the table config of each half that is asked; None where it says nothing.
        of_broker: the broker's setting pinot.broker.query.enable.null.handling.
    """
    if dialect is Dialect.PQL:
        return DEFAULT_VALUES
    if asked is not None:
        return SQL_NULLS if asked else DEFAULT_VALUES
    said = {of_broker if half is None else half for half in of_halves} or {of_broker}
    if len(said) > 1:
        return _OF_TWO_MINDS
    return SQL_NULLS if True in said else DEFAULT_VALUES
