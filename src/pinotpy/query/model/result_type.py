"""The type of a result column, as `columnDataTypes` of an answer names it."""

from __future__ import annotations

from dataclasses import dataclass

from pinotpy.data_types import DataType


@dataclass(frozen=True, slots=True)
class ResultType:
    """Type of a result column. `data_type` None is UNKNOWN (a bare null); `shown_as` is what the answer calls it
    instead: OBJECT for CASE and CAST over aggregates.
    """

    data_type: DataType | None
    single_value: bool = True
    shown_as: str = ""

    @property
    def name(self) -> str:
        """As in `columnDataTypes`: INT, STRING_ARRAY, UNKNOWN."""
        if self.shown_as:
            return self.shown_as
        if self.data_type is None:
            return "UNKNOWN"
        return self.data_type.value if self.single_value else f"{self.data_type.value}_ARRAY"
