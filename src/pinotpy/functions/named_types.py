"""Types that a call of an aggregation names: the 'INT' of ARRAYAGG(x, 'INT')."""

from __future__ import annotations

from typing import Final

from pinotpy.data_types import DataType
from pinotpy.errors import InvalidQueryError
from pinotpy.functions.spec import Parameter

_NAMES: Final = {data_type.value: data_type for data_type in DataType if data_type is not DataType.MAP}


def named_type(function: str, name: Parameter, which: str) -> DataType:
    """The type of this name, in any letter case; raises InvalidQueryError that says which argument is wrong."""
    data_type = _NAMES.get(name.upper()) if isinstance(name, str) else None
    if data_type is None:
        raise InvalidQueryError(
            f"expected the name of a type as {which} argument of {function} ({', '.join(_NAMES)}), found "
            f"{str(name)[:40]!r}"
        )
    return data_type
