"""A filter over the selected docs, inside the select stage: FILTER (WHERE …) of an aggregation.

`enter` makes the selection the block that filter predicates see; `leave` turns their mask into flags in a register and
puts the block back.
"""

from __future__ import annotations

from typing import Any, Final

from pinotpy.kernels.filter.byte_masks import mask_address
from pinotpy.kernels.runtime.abi import (
    A0,
    E_OK,
    INSTRUCTION_WORDS,
    S_BASE,
    S_LIST,
    S_NUM,
    S_SELECTED,
    S_SELECTION,
    STATE_WORDS,
    block_function,
    inner,
    register_u8,
    words,
)
from pinotpy.kernels.runtime.views import view_u8

# The block that is put back, kept in the state: predicates run in between.
_SAVED: Final = 40


@block_function
def enter(state_address: int, _args_address: int) -> Any:
    """The selection becomes the block."""
    state = words(state_address, STATE_WORDS)
    state[_SAVED], state[_SAVED + 1], state[_SAVED + 2] = state[S_NUM], state[S_BASE], state[S_LIST]
    state[S_NUM], state[S_BASE], state[S_LIST] = state[S_SELECTED], 0, state[S_SELECTION]
    return E_OK


@inner
def _copy(out: Any, mask: Any) -> None:
    for i in range(len(out)):
        out[i] = mask[i]


@block_function
def leave(state_address: int, args_address: int) -> Any:
    """Mask A1 (-1: all ones) into register A0 as u8 flags; the block is what it was."""
    state, args = words(state_address, STATE_WORDS), words(args_address, INSTRUCTION_WORDS)
    n = state[S_SELECTED]
    _copy(register_u8(state, args[A0])[:n], view_u8(mask_address(state, args[A0 + 1]), n))
    state[S_NUM], state[S_BASE], state[S_LIST] = state[_SAVED], state[_SAVED + 1], state[_SAVED + 2]
    return E_OK
