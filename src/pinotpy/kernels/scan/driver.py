"""The loop of every scan: morsels → blocks → filter → selection → select instructions. Resumable.

`step` runs until its morsels are done, a quantum has passed, or something wants Python; it leaves everything that it
needs to go on in `cursor` and in the thread's State, so that it can be called again on any thread. Cancel word,
deadline, memory and errors of other threads are looked at between blocks, at most CHECK_BLOCKS blocks apart.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import carray, njit, types

from pinotpy.kernels.filter.bitmap_scan import R_END, RANGE_WORDS, are_ranges, scan_ranges
from pinotpy.kernels.filter.predicate_frame import run_instruction
from pinotpy.kernels.runtime.abi import (
    BLOCK,
    C_CANCEL,
    C_DEADLINE_NS,
    C_ERROR,
    C_MEMORY_MAX,
    C_MEMORY_USED,
    C_QUANTUM_NS,
    C_TRACE,
    E_CANCELLED,
    E_DEADLINE,
    E_FLUSH,
    E_MEMORY,
    E_MORE,
    E_NEXT_MORSEL,
    E_OK,
    E_REPEAT,
    E_STOP,
    INSTRUCTION_WORDS,
    S_BASE,
    S_DENSE,
    S_DOCS_SCANNED,
    S_ENTRIES_FILTER,
    S_FILTER_NS,
    S_GATHERED,
    S_LIST,
    S_MASK_COUNTS,
    S_MASKS,
    S_MORSEL,
    S_NUM,
    S_SEGMENT,
    S_SELECTED,
    S_SELECTION,
    S_SELECTIONS,
    STATE_WORDS,
    U_GATHER,
    U_HIGH,
    U_LIST,
    U_LOW,
    U_NUM_BEGIN,
    U_NUM_END,
    U_NUM_FILTER,
    U_NUM_SELECT,
    U_PROGRAM,
    U_SEGMENT,
    U_SELECTED,
    inner,
    pointer,
    words,
)
from pinotpy.kernels.runtime.clock import monotonic_ns
from pinotpy.kernels.runtime.selection import compress_list, compress_range

# Cursor words: where a thread is.
K_MORSEL: Final = 0  # the morsel being run
K_POSITION: Final = 1  # next position in it, -1: not begun
K_BEGUN: Final = 2  # its begin section has run
K_INSTRUCTION: Final = 3  # next select instruction of the block in hand, -1: between blocks
K_LOOPS: Final = 4  # number of expanding instructions that have more lanes
K_LOOP: Final = 5  # ..8: their indexes, innermost last
K_TIMESPEC: Final = 10  # 2 words for the clock
K_RANGES: Final = 16  # ..: what filter/bitmap_scan.py keeps
CURSOR_WORDS: Final = K_RANGES + RANGE_WORDS

CHECK_BLOCKS: Final = 8
# A block with at most so many selected docs waits for others, where it may: a select function costs as much as fifty
# docs, and the cache misses of many docs overlap.
GATHER_MAX: Final = BLOCK // 8
_INSTRUCTION_BYTES: Final = INSTRUCTION_WORDS * 8


def new_cursor(first_morsel: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """A cursor before the first block of `first_morsel`."""
    cursor = np.zeros(CURSOR_WORDS, np.int64)
    cursor[K_MORSEL], cursor[K_POSITION], cursor[K_INSTRUCTION] = first_morsel, -1, -1
    return cursor


@inner
def _stopped(control: Any, now: int) -> Any:
    if control[C_ERROR] != 0:
        return control[C_ERROR]
    if control[C_CANCEL] != 0:
        return E_CANCELLED
    if control[C_DEADLINE_NS] != 0 and now > control[C_DEADLINE_NS]:
        return E_DEADLINE
    if control[C_MEMORY_MAX] != 0 and control[C_MEMORY_USED] > control[C_MEMORY_MAX]:
        return E_MEMORY
    return E_OK


@inner
def _run(program: int, count: int, state: Any, state_address: int) -> Any:
    for i in range(count):
        code = run_instruction(state, state_address, program + i * _INSTRUCTION_BYTES)
        if code != E_OK:
            return code
    return E_OK


@inner
def _fill_range(out: Any, first: int) -> None:
    for i in range(len(out)):
        out[i] = np.int32(first + i)


@inner
def _copy(out: Any, docs: Any) -> None:
    for i in range(len(out)):
        out[i] = docs[i]


@inner
def _select(state: Any, filtered: bool) -> None:
    """Turn mask 0 (if `filtered`, else all docs of the block) into the selection, behind the docs that were
    gathered.
    """
    n, gathered = state[S_NUM], state[S_GATHERED]
    selected = state[S_MASK_COUNTS] if filtered else n
    state[S_SELECTION] = state[S_SELECTIONS]
    # Vectors are stored whole: what is beyond the selection lies in those of expanding functions, which do not run now.
    out_address = state[S_SELECTIONS] + gathered * 4
    out = carray(pointer(out_address, types.int32), BLOCK)
    listed = state[S_LIST]
    mask_address = state[S_MASKS]
    if listed == 0:
        if selected == n:
            _fill_range(out[:n], state[S_BASE])
        else:
            compress_range(carray(pointer(mask_address, types.uint8), n), mask_address, state[S_BASE], out, out_address)
    else:
        docs = carray(pointer(listed, types.int32), n)
        if selected == n:
            _copy(out[:n], docs)
        else:
            compress_list(carray(pointer(mask_address, types.uint8), n), mask_address, docs, listed, out, out_address)
    state[S_SELECTED] = gathered + selected
    state[S_DENSE] = 1 if listed == 0 and gathered == 0 and selected == n else 0


@njit(cache=True, nogil=True)
def step(
    morsels: Any,
    last_morsel: int,
    _state: Any,
    state_address: int,
    cursor: Any,
    timespec: int,
    control: Any,
    clock: int,
) -> Any:
    """Run morsels cursor[K_MORSEL] .. last_morsel - 1.

    Args:
        morsels: int64[num_morsels, MORSEL_WORDS]; control: int64[CONTROL_WORDS]
        cursor: int64 words of this thread; state_address and timespec the addresses of its State's words and
            of cursor[K_TIMESPEC:]
        clock: address of clock_gettime.

    Returns E_OK when all morsels are done, E_MORE or E_FLUSH to be called again, E_STOP, or an error word.
    """
    state = words(state_address, STATE_WORDS)
    now = monotonic_ns(clock, timespec)
    quantum_end = now + control[C_QUANTUM_NS]
    morsel = cursor[K_MORSEL]
    position = cursor[K_POSITION]
    begun = cursor[K_BEGUN]
    instruction = cursor[K_INSTRUCTION]
    loops = cursor[K_LOOPS]
    blocks = 0
    code = E_OK
    while morsel < last_morsel:
        row = morsels[morsel]
        if position < 0:
            position, begun = row[U_LOW], 0
            row[U_SELECTED] = 0
            cursor[K_RANGES + R_END] = 0
            state[S_MORSEL], state[S_SEGMENT] = morsel, row[U_SEGMENT]
        filters = row[U_PROGRAM] + row[U_NUM_BEGIN] * _INSTRUCTION_BYTES
        selects = filters + row[U_NUM_FILTER] * _INSTRUCTION_BYTES
        num_select = row[U_NUM_SELECT]
        high, listed = row[U_HIGH], row[U_LIST]
        gathers, filtered = row[U_GATHER] != 0, row[U_NUM_FILTER] > 0
        ranges = gathers and listed == 0 and are_ranges(control, filters, row[U_NUM_FILTER])
        while position < high or instruction >= 0 or state[S_GATHERED] > 0:
            if instruction < 0:
                if blocks % CHECK_BLOCKS == 0:
                    now = monotonic_ns(clock, timespec)
                    code = _stopped(control, now)
                    if code == E_OK and now >= quantum_end and blocks > 0:
                        code = E_MORE
                    if code != E_OK:
                        break
                blocks += 1
                if ranges and position < high:
                    filter_began = monotonic_ns(clock, timespec) if control[C_TRACE] != 0 else 0
                    position, selected, ready = scan_ranges(
                        state_address, control, cursor[K_RANGES:], filters, row[U_NUM_FILTER], position, high
                    )
                    row[U_SELECTED] += selected
                    state[S_DOCS_SCANNED] += selected
                    if filter_began != 0:
                        state[S_FILTER_NS] += monotonic_ns(clock, timespec) - filter_began
                    if not ready and (position < high or state[S_SELECTED] == 0):
                        state[S_GATHERED] = state[S_SELECTED]
                        continue
                elif position < high:
                    n = min(BLOCK, high - position)
                    state[S_NUM] = n
                    if listed == 0:
                        state[S_BASE], state[S_LIST] = position, 0
                    else:
                        state[S_BASE], state[S_LIST] = 0, listed + position * 4
                    entries = state[S_ENTRIES_FILTER]
                    filter_began = monotonic_ns(clock, timespec) if control[C_TRACE] != 0 else 0
                    code = _run(filters, row[U_NUM_FILTER], state, state_address)
                    if code != E_OK:
                        break
                    selected = state[S_MASK_COUNTS] if filtered else n
                    if state[S_GATHERED] + selected > BLOCK:
                        # This block is read again after those that wait for the select section.
                        state[S_ENTRIES_FILTER] = entries
                    else:
                        position += n
                        if selected > 0:
                            _select(state, filtered)
                            row[U_SELECTED] += selected
                            state[S_DOCS_SCANNED] += selected
                    if filter_began != 0:
                        state[S_FILTER_NS] += monotonic_ns(clock, timespec) - filter_began
                    if selected == 0:
                        continue
                    if gathers and selected <= GATHER_MAX and state[S_SELECTED] <= BLOCK - GATHER_MAX:
                        state[S_GATHERED] = state[S_SELECTED]
                        continue
                state[S_GATHERED] = 0
                if begun == 0:
                    begun = 1
                    code = _run(row[U_PROGRAM], row[U_NUM_BEGIN], state, state_address)
                    if code != E_OK:
                        break
                instruction, loops = 0, 0
            # The select section; an expanding instruction that has more lanes is remembered and run again at the end.
            while True:
                if instruction == num_select:
                    if loops == 0:
                        instruction = -1
                        break
                    loops -= 1
                    instruction = cursor[K_LOOP + loops]
                code = run_instruction(state, state_address, selects + instruction * _INSTRUCTION_BYTES)
                instruction += 1
                if code == E_REPEAT:
                    cursor[K_LOOP + loops] = instruction - 1
                    loops += 1
                elif code != E_OK:
                    break
            if code == E_NEXT_MORSEL:
                code = E_OK
                position, instruction = high, -1
            elif code not in (E_OK, E_REPEAT):
                break
        if code not in (E_OK, E_REPEAT, E_STOP):
            break
        if begun != 0:
            ended = _run(selects + num_select * _INSTRUCTION_BYTES, row[U_NUM_END], state, state_address)
            if ended != E_OK:
                code = ended
                break
        if code == E_STOP:
            break
        code = E_OK
        morsel += 1
        position = -1
        blocks = max(blocks, 1)
    cursor[K_MORSEL], cursor[K_POSITION], cursor[K_BEGUN] = morsel, position, begun
    cursor[K_INSTRUCTION], cursor[K_LOOPS] = instruction, loops
    if code not in (E_OK, E_MORE, E_FLUSH, E_STOP) and control[C_ERROR] == 0:
        control[C_ERROR] = code
    return code
