"""Collecting selected docs: the first n, or all of them in batches.

Collector context (int64 words): CW_COUNT rows collected, CW_CAPACITY rows that fit, CW_WANTED rows wanted (collection
stops there; 0: all, with E_FLUSH when another block might not fit), CW_MORSELS and CW_DOCS addresses of int32 buffers.
"""

from __future__ import annotations

from typing import Any, Final

from pinotpy.kernels.runtime.abi import (
    BLOCK,
    E_FLUSH,
    E_OK,
    E_STOP,
    S_DOCS_SCANNED,
    S_MORSEL,
    S_SELECTED,
    S_USER,
    STATE_WORDS,
    block_function,
    inner,
    selection,
    words,
)
from pinotpy.kernels.runtime.views import view_i32

CW_COUNT: Final = 0
CW_CAPACITY: Final = 1
CW_WANTED: Final = 2
CW_MORSELS: Final = 3
CW_DOCS: Final = 4
COLLECTOR_WORDS: Final = 8


@inner
def _append(morsels: Any, docs: Any, position: int, morsel: int, selected: Any, count: int) -> None:
    for i in range(count):
        morsels[position + i] = morsel
        docs[position + i] = selected[i]


@block_function
def collect_docs(state_address: int, _args_address: int) -> Any:
    """Append (morsel, doc) of the selected docs to the thread's collector."""
    state = words(state_address, STATE_WORDS)
    collector = words(state[S_USER], COLLECTOR_WORDS)
    count, wanted, selected = collector[CW_COUNT], collector[CW_WANTED], state[S_SELECTED]
    taken = min(selected, wanted - count) if wanted > 0 else selected
    capacity = collector[CW_CAPACITY]
    _append(
        view_i32(collector[CW_MORSELS], capacity),
        view_i32(collector[CW_DOCS], capacity),
        count,
        state[S_MORSEL],
        selection(state),
        taken,
    )
    collector[CW_COUNT] = count + taken
    # Docs that the answer does not need were not scanned for it.
    state[S_DOCS_SCANNED] -= selected - taken
    if wanted > 0 and count + taken >= wanted:
        return E_STOP
    if wanted == 0 and collector[CW_COUNT] + BLOCK > capacity:
        return E_FLUSH
    return E_OK
