"""What to say of a name that is no column: the nearest column, the alias that should stand before it, the quotes that a
text lacks.

Names are looked up among the columns of the one table that the query reads, which the caller may see: the right to the
table is asked before anything is compiled.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Final

from pinotpy.data_types import DataType
from pinotpy.errors import UnknownColumnError
from pinotpy.pql.ast import Identifier
from pinotpy.query.model.context import ColumnRef

_NEAR_CHARACTERS_MAX: Final = 200
_SHOWN_CHARACTERS_MAX: Final = 80


def unknown_column(identifier: Identifier, known: Collection[str], sentence: str = "") -> UnknownColumnError:
    """The error (710) for a name that no column has.

    Args:
        known: the columns that may have been meant.
        sentence: what is wrong, where that is known better than by the nearest names.
    """
    name, position = identifier.name, identifier.position
    if not sentence:
        near = nearest(name, known)
        sentence = f"did you mean '{near}'?" if near is not None else table_has(known)
    return UnknownColumnError(
        f"Unknown columnName '{_short(name)}' found in the query (line {position.line}, column {position.column}); "
        f"{sentence}",
        column=_short(name),
        line=position.line,
        position=position.column,
    )


def nearest(name: str, known: Collection[str]) -> str | None:
    """The column that is spelled most like a name."""
    same = next((column for column in known if column.lower() == name.lower()), None)
    if same is not None or len(name) > _NEAR_CHARACTERS_MAX:
        return same
    return next(iter(get_close_matches(name, known, n=1, cutoff=0.6)), None)


def table_has(known: Collection[str]) -> str:
    """Some of the columns that there are."""
    return f"the table has {', '.join(sorted(known)[:10])}{' …' if len(known) > 10 else ''}"


def wrong_qualifier(name: str, called: str, columns: Mapping[str, ColumnRef]) -> str:
    """What is wrong with a name with a dot whose first part is not what the table is called."""
    first, _, rest = name.partition(".")
    column = columns.get(first)
    near = nearest(rest.rpartition(".")[2], columns)
    if column is not None and rest != near:
        fields = "only JSON columns have fields that are written so"
        if column.data_type is DataType.MAP:
            return f"{first} is a MAP: write {first}['{_short(rest)}']"
        return f"{first} is a column of type {column.data_type.value}: {fields}"
    hint = "" if near is None else f"; write {called}.{near}, or {near} alone"
    return f"nothing is called '{_short(first)}' here, the table is called '{_short(called)}'{hint}"


def missing_quotes(identifier: Identifier, table: str, known: Collection[str]) -> UnknownColumnError:
    """The error for a word that stands where a text may have been meant: WHERE carrier = UA."""
    name = identifier.name
    near = nearest(name, known)
    meant = "" if near is None else f", did you mean '{near}'"
    return unknown_column(
        identifier, known, f"{_short(name)} is not a column of {table}{meant}; a text is written '{_short(name)}'"
    )


def _short(name: str) -> str:
    return name if len(name) <= _SHOWN_CHARACTERS_MAX else name[:_SHOWN_CHARACTERS_MAX] + "…"
