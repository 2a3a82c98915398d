"""A condition on a chain of arithmetic (vector/fused_program.py) as a predicate of bitmap_scan.py: a bit a doc, of all
docs of a chunk in one pass.

As an instruction such a predicate is `expression_test` with a small program, which fetches what does not lie in a row
and runs the chain into flags of bytes. Where all columns lie in a row nothing is fetched, and the comparison gives the
bits themselves: no list of docs, no flags and no masks are written, so that memory is read without a pause.
"""

from __future__ import annotations

from typing import Any, Final

from numba import uint64

from pinotpy.kernels.filter.predicate_frame import A_TEST
from pinotpy.kernels.runtime.abi import (
    A0,
    BLOCK,
    C_FUSED_TESTS,
    I_FUNCTION,
    INSTRUCTION_WORDS,
    M_DATA,
    META_WORDS,
    S_SCRATCH,
    inner,
    words,
)
from pinotpy.kernels.runtime.views import view_u8, view_u64
from pinotpy.kernels.vector.fetch import program_source
from pinotpy.kernels.vector.fused_instruction import COLUMN, KEPT_AT, KEPT_MAX, bytes_of
from pinotpy.kernels.vector.fused_program import AS_BITS, BETWEEN, CHUNK, CONSTANT, EQUAL, KEPT, STEP_WORDS, run_steps

# Places in C_FUSED_TESTS: the predicate, and the two instructions of its program.
EXPRESSION: Final = 4
FETCH: Final = 5
FUSED: Final = 6

# In scratch 1: the last docs of every column, then the bits of a chunk. Scratch 0 is as vector/fused_instruction.py has
# it.
_TAILS_AT: Final = BLOCK * 4
_TAIL_BYTES: Final = 64 * 8
_BITS_AT: Final = 2 * BLOCK * 4
_PER_WORD: Final = 64 // CHUNK
assert KEPT_AT + KEPT_MAX * CHUNK * 8 <= _TAILS_AT
# Where a quarter of the words has docs left or less, only these are computed.
_FEW_WORDS: Final = 4


@inner
def is_fused(control: Any, args: Any) -> Any:
    """Whether an expression predicate is one comparison of a chain over columns that lie in a row."""
    count, program = args[A_TEST + 1], args[A_TEST]
    if count == 0 or args[A_TEST + 3] >= 0:
        return False
    for i in range(count - 1):
        if words(program + i * (INSTRUCTION_WORDS * 8), 1)[I_FUNCTION] != control[C_FUSED_TESTS + FETCH]:
            return False
    fused = _program(args)
    if fused[I_FUNCTION] != control[C_FUSED_TESTS + FUSED] or fused[A0] != args[A_TEST + 2]:
        return False
    for column in range(fused[A0 + 3]):
        if program_source(words(fused[A0 + 4 + 2 * column], META_WORDS))[0] < 0:
            return False
    planned = words(fused[A0 + 1], fused[A0 + 2] * STEP_WORDS)
    for i in range(0, len(planned), STEP_WORDS):
        if planned[i] not in (COLUMN, CONSTANT, KEPT):
            return False
    last = planned[len(planned) - STEP_WORDS + 1]
    return EQUAL <= last <= BETWEEN


@inner
def _program(args: Any) -> Any:
    # The instruction that runs the chain.
    return words(args[A_TEST] + (args[A_TEST + 1] - 1) * (INSTRUCTION_WORDS * 8), INSTRUCTION_WORDS)


@inner
def _tail(state: Any, column: int) -> Any:
    return state[S_SCRATCH] + _TAILS_AT + column * _TAIL_BYTES


@inner
def _place_steps(state: Any, fused: Any, base: int, tail: bool) -> Any:
    """The chain's steps over docs from `base` on, or over those that `_copy_tails` put aside, to scratch 0; gives how
    many.
    """
    count, scratch = fused[A0 + 2], state[S_SCRATCH]
    planned, steps = words(fused[A0 + 1], count * STEP_WORDS), words(scratch, count * STEP_WORDS)
    for i in range(0, count * STEP_WORDS, STEP_WORDS):
        source, operation, operand, other = planned[i], planned[i + 1], planned[i + 2], planned[i + 3]
        if source == COLUMN:
            column, meta = operand, words(fused[A0 + 4 + 2 * operand], META_WORDS)
            source, other = program_source(meta)
            operand = _tail(state, column) if tail else meta[M_DATA] + base * bytes_of(source, meta)
        elif source == KEPT:
            operand = scratch + KEPT_AT + operand * (CHUNK * 8)
        if i == (count - 1) * STEP_WORDS:
            operation += AS_BITS
        steps[i], steps[i + 1], steps[i + 2], steps[i + 3] = source, operation, operand, other
    return count


@inner
def _copy_tails(state: Any, fused: Any, base: int, n: int) -> None:
    for column in range(fused[A0 + 3]):
        meta = words(fused[A0 + 4 + 2 * column], META_WORDS)
        size = bytes_of(program_source(meta)[0], meta)
        _copy(view_u8(_tail(state, column), n * size), view_u8(meta[M_DATA] + base * size, n * size))


@inner
def _copy(out: Any, values: Any) -> None:
    for i in range(len(out)):
        out[i] = values[i]


@inner
def _and(bits: Any, result: Any, flip: Any) -> None:
    for i in range(len(bits)):
        bits[i] &= result[i] ^ flip


@inner
def keep_program(state: Any, args: Any, base: int, flip: Any, bits: Any, n: int, count: int) -> None:
    """bits &= truth of the chain ^ flip, for docs base .. base + n - 1, `count` of which are left."""
    fused, scratch = _program(args), state[S_SCRATCH]
    whole, out = n >> 6, scratch + _BITS_AT
    result = view_u64(out, len(bits))
    num_steps = _place_steps(state, fused, base, False)
    if count * _FEW_WORDS < whole:
        for i in range(whole):
            if bits[i] != uint64(0):
                run_steps(scratch, num_steps, i * _PER_WORD, (i + 1) * _PER_WORD, out)
                bits[i] &= result[i] ^ flip
    else:
        run_steps(scratch, num_steps, 0, whole * _PER_WORD, out)
        _and(bits[:whole], result, flip)
    if n & 63:
        # Chunks are read whole: these docs may be the column's last.
        _copy_tails(state, fused, base + whole * 64, n & 63)
        num_steps = _place_steps(state, fused, base, True)
        run_steps(scratch, num_steps, 0, _PER_WORD, out)
        bits[whole] &= result[0] ^ flip
