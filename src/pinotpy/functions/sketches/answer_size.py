"""How large the sketches of an answer may be together. A state holds what was seen; written out, a sketch may take
megabytes whatever that was (a HyperLogLog with log2m 24 eleven), for every group.
"""

from __future__ import annotations

from typing import Final

from pinotpy.errors import QueryExecutionError

ANSWER_SIZE_BYTES_MAX: Final = 1 << 29


def check_answer_size(size_bytes: int, num_groups: int, what: str, setting: str) -> None:
    """Raises QueryExecutionError for more than ANSWER_SIZE_BYTES_MAX; to be asked before they are written."""
    if size_bytes > ANSWER_SIZE_BYTES_MAX:
        raise QueryExecutionError(
            f"the {what} of {num_groups} groups take more than {ANSWER_SIZE_BYTES_MAX} bytes: lower {setting} or "
            "group by less"
        )
