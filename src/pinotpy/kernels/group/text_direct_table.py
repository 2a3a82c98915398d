"""Groups whose numbers are the dict ids themselves, the same in all segments (kernels/text/text_codes.py): one table a
thread, over all its morsels, a row for every id. Nothing ends a morsel; tables of threads are added up row by row.

    begin_text_table   A0 rows of the table                                             begin
"""

from __future__ import annotations

from typing import Any

from pinotpy.kernels.aggregate.result_context import (
    G_CONTROL,
    G_NUM_GROUPS,
    G_ROW_WORDS,
    G_TABLE,
    context_of,
    vector_at,
)
from pinotpy.kernels.runtime.abi import A0, INSTRUCTION_WORDS, STATE_WORDS, block_function, words
from pinotpy.kernels.runtime.growable import reserve_zeroed


@block_function
def begin_text_table(state_address: int, args_address: int) -> Any:
    """Make the thread's table, once."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    context = context_of(state)
    context[G_NUM_GROUPS] = args[A0]
    return reserve_zeroed(context[G_CONTROL], vector_at(context, G_TABLE), args[A0] * context[G_ROW_WORDS])
