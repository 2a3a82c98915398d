"""How the driver and block functions talk: one C signature, int64 words, addresses.

A query runs as a *program*: for every segment a row of instructions, each the address of a block function and its
arguments. The driver (driver.py) walks blocks of BLOCK docs; per block it runs the filter instructions, which leave a
byte mask, turns the mask into selected doc ids, and runs the select instructions (fetch values, compute group ids,
update states). Every block function has the signature

    int64 f(int64 state_address, int64 args_address)        0 = go on, else an error word that ends the query

and is compiled once with `@block_function` (when its address is first read), never per query. Only the driver and
`words()/array()` below see addresses; the inner loops are plain njit leaves over typed arrays that index from 0 (numba
vectorises only those).

**State** (one per thread, int64[STATE_WORDS], see S_*): where the block is and where its scratch memory lies.
 - masks: NUM_MASKS registers of BLOCK bytes, 0/1 each. Mask 0 is the result of the filter.
 - registers: NUM_REGISTERS value registers of 8*BLOCK bytes, indexed by position in the *selection* (0..selected-1).
   By convention: dict ids and group ids u32, INT/LONG values i64, FLOAT/DOUBLE values f64, null flags u8.
 - selection: i32 absolute doc ids, ascending. When S_DENSE is 1, all docs base..base+n-1 are selected and the
   selection array holds them as well, but a fetch may read the column contiguously from `base`.

**Instruction** (int64[INSTRUCTION_WORDS]): word 0 = address of the function, word 1 = flags of the driver (I_*), words
2.. = arguments (A0 = 2). A row belongs to one segment and one query run: a function may keep a cursor in its own words.

**Column meta** (int64[META_WORDS], see M_*): what kernels know of one column of one segment; `segment` fills it at
load.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from llvmlite import ir
from numba import carray, njit, types
from numba.core.ccallback import CFunc
from numba.core.compiler_lock import global_compiler_lock
from numba.core.sigutils import normalize_signature
from numba.extending import intrinsic

from pinotpy.kernels.cache_loading import load_without_compiler

load_without_compiler()  # servers, and brokers and commands too, which come here late and use few kernels

BLOCK: Final = 2048
NUM_MASKS: Final = 16
NUM_REGISTERS: Final = 24
# Registers of predicates that compute expressions: those of the select section may be in use (FILTER (WHERE …)).
NUM_PREDICATE_REGISTERS: Final = 12

# State words.
S_BASE: Final = 0  # first doc id of the block
S_NUM: Final = 1  # docs in the block, <= BLOCK
S_MASKS: Final = 2  # address of uint8[NUM_MASKS][BLOCK]
S_SELECTED: Final = 3  # number of selected docs
S_SELECTION: Final = 4  # address of int32[BLOCK]: absolute doc ids
S_DENSE: Final = 5  # 1: all docs of the block are selected
S_REGISTERS: Final = 6  # address of [NUM_REGISTERS + NUM_PREDICATE_REGISTERS][8 * BLOCK bytes]
S_CONTROL: Final = 7  # address of the control block
S_SEGMENT: Final = 8  # index of the segment in the program
S_ENTRIES_FILTER: Final = 9  # counter: values read by scans of the filter
S_DOCS_SCANNED: Final = 10  # counter: selected docs
S_SEGMENTS_MATCHED: Final = 11
S_USER: Final = 12  # address of the result context of this thread (aggregation states, row buffers)
S_LIST: Final = 13  # address of int32 doc ids when the block source is a list, else 0
S_ONES: Final = 14  # address of uint8[BLOCK] of ones: the mask before the first filter predicate
S_MORSEL: Final = 15  # number of the morsel (a run of docs of one segment) in the plan
S_MASK_COUNTS: Final = 16  # ..31: ones in each mask register
S_SELECTIONS: Final = 32  # address of int32[NUM_SELECTIONS][BLOCK]: selection 0 is the filter's, others made by expand
S_SCRATCH: Final = 33  # address of int32[NUM_SCRATCH][BLOCK]: of the filter stage; within one select function anybody's
# docs that a filter predicate has to look at one by one (positions in scratch 0, ids in scratch 1), -1: the whole block
S_SURVIVORS: Final = 34
S_FILTER_NS: Final = 35  # counter: time in filters, if C_TRACE
S_GATHERED: Final = 36  # docs of blocks before this one that wait in selection 0 for the select section (U_GATHER)
STATE_WORDS: Final = 64
NUM_SELECTIONS: Final = 4
NUM_SCRATCH: Final = 4  # 2 and 3: positions and docs of a predicate that computes an expression

# Unit words: one row a run of docs of one segment, in the order in which threads run them.
U_SEGMENT: Final = 0  # index of the segment in the plan
U_LOW: Final = 1  # first doc id, or first position in the list
U_HIGH: Final = 2  # end (exclusive)
U_LIST: Final = 3  # address of ascending int32 doc ids, or 0: docs [low, high)
U_PROGRAM: Final = 4  # address of the morsel's first instruction; its sections follow each other
U_NUM_BEGIN: Final = 5  # run once, before the first block that selects a doc
U_NUM_FILTER: Final = 6  # run per block, leave mask 0
U_NUM_SELECT: Final = 7  # run per block that selects a doc
U_NUM_END: Final = 8  # run once, after the last block, if begin ran
U_SELECTED: Final = 9  # written by the driver: docs selected
U_CONTEXT: Final = 10  # free for operators: address of the morsel's own result context
U_GATHER: Final = 11  # 1: the few docs of several blocks may come to the select section together
MORSEL_WORDS: Final = 16

# Instruction words.
I_FUNCTION: Final = 0
I_FLAGS: Final = 1
A0: Final = 2
INSTRUCTION_WORDS: Final = 16

# I_FLAGS: what the driver does around the function.
I_PLAIN: Final = 0
I_SCAN_PREDICATE: Final = 1  # a filter predicate that reads the column's values (predicates.py)
I_PREDICATE: Final = 2  # a filter predicate that reads no values
I_OR: Final = 3  # no function: mask A2 = mask A0 or mask A1

# Column meta words.
M_ENCODING: Final = 0  # ENC_*
M_WIDTH: Final = 1  # bytes of one id or value (1, 2, 4, 8), or bits when packed
M_DATA: Final = 2  # address of ids / raw values / raw bytes
M_CARDINALITY: Final = 3  # of the dictionary, -1 if raw
M_DICTIONARY: Final = 4  # address of sorted dictionary values (fixed types), or of bytes (VAR)
M_DICTIONARY_OFFSETS: Final = 5  # address of int32[cardinality + 1] (VAR), else 0
M_STORED: Final = 6  # T_*
M_MV_OFFSETS: Final = 7  # address of uint32[num_docs + 1] (multi-value), else 0
M_NULLS: Final = 8  # address of the null bitmap (bit doc%8 of byte doc/8, 1 = null), else 0
M_NUM_DOCS: Final = 9
M_NUM_VALUES: Final = 10  # entries: num_docs for single-value
M_RAW_OFFSETS: Final = 11  # address of int64[num_values + 1] (raw VAR), else 0
M_SORTED: Final = 12  # 1: ids ascend with doc ids, and M_SORTED_STARTS is set
M_SORTED_STARTS: Final = 13  # address of uint32[cardinality + 1]: docs of id i are [starts[i], starts[i+1])
M_INVERTED_OFFSETS: Final = 14  # address of uint32[cardinality + 1], docs of the ids before (inverted index), else 0
M_INVERTED_DOCS: Final = 15  # address of int32[num entries], the doc lists one after the other; 0: they are bitmaps
M_BLOOM: Final = 16  # address of the Bloom filter uint32[8 * blocks] (bloom.py), else 0
M_BLOOM_BLOCKS: Final = 17
# address of the least dict id (u32) or raw value of every bucket of the range index (filter/posting_bitmaps.py), else 0
M_RANGE_BOUNDS: Final = 18
M_RANGE_BUCKETS: Final = 19
M_RANGE_OFFSETS: Final = 20  # address of uint32[buckets + 1]
M_RANGE_DOCS: Final = 21  # address of int32[num entries]
M_BITMAPS: Final = 24  # address of the Roaring bitmaps of the inverted index (roaring.py), else 0
M_BITMAP_OFFSETS: Final = 25  # address of int64[cardinality + 1]: where they begin
META_WORDS: Final = 32

ENC_DICT: Final = 0  # byte-aligned dict ids u8/u16/u32
ENC_PACKED: Final = 1  # fixed-bit dict ids in vertical blocks
ENC_RAW: Final = 2  # plain little-endian values, or VAR bytes with M_RAW_OFFSETS

T_INT: Final = 0
T_LONG: Final = 1
T_FLOAT: Final = 2
T_DOUBLE: Final = 3
T_VAR: Final = 4

# Control block: int64[CONTROL_WORDS], shared by the threads of one query; written by Python, read between blocks.
C_CANCEL: Final = 0  # != 0: stop now
C_DEADLINE_NS: Final = 1  # CLOCK_MONOTONIC nanoseconds, 0 = none
C_MEMORY_USED: Final = 2
C_MEMORY_MAX: Final = 3
C_ERROR: Final = 4  # first error word of any thread
C_QUANTUM_NS: Final = 5
C_TRACE: Final = 6  # != 0: count the time of filters in S_FILTER_NS
C_REFUSED_BYTES: Final = 7  # what was last asked for when the budget of the process refused it, 0: it never did
# ..14: addresses of functions whose work the driver may do itself (filter/bitmap_scan.py, filter/bitmap_arithmetic.py),
# 0: none
C_FUSED_TESTS: Final = 8
# Addresses of two int64 words that all queries of a process share (pinotpy.memory.budget); 0: no budget but the query's
C_PROCESS_USED: Final = 15
C_PROCESS_MAX: Final = 16
CONTROL_WORDS: Final = 17

# Error words (return value of block functions and of the driver's step).
E_OK: Final = 0
E_CANCELLED: Final = 1
E_DEADLINE: Final = 2
E_MEMORY: Final = 3
E_BLOCK: Final = 4  # a block function failed by its data; it wrote the cause to its own context
E_MORE: Final = 16  # the driver's quantum ended; call again with the same cursor
# of a select function: done, but my buffer cannot take another block; the driver ends the block, then returns this
E_FLUSH: Final = 17
E_REPEAT: Final = (
    18  # of an expanding function: after the last instruction come back to me, I have more lanes for this block
)
E_NEXT_MORSEL: Final = 19  # of a select function: this morsel has given all that I want
E_STOP: Final = 20  # of a select function: this thread has all that it wants; also returned by the driver

_SIGNATURE = types.int64(types.int64, types.int64)


def inner(function: Callable[..., Any]) -> Any:
    """Compile a function that only compiled code calls: without the wrappers for Python, which take as long to
    compile.
    """
    return njit(nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)


class BlockFunction(CFunc):
    """A block function; loaded, or compiled if the cache lacks it, when its address is first read. Names of numba 0.60
    to 0.68.
    """

    _wrapper_address: int | None

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function, normalize_signature(_SIGNATURE), locals={}, options={})
        self.enable_caching()

    @global_compiler_lock
    def compile(self) -> None:
        """Load or compile it, once: code that is loaded a second time replaces the first, whose address is in plans."""
        if self._wrapper_address is None:
            super().compile()

    @property
    def address(self) -> int:
        """What goes into I_FUNCTION."""
        if self._wrapper_address is None:
            self.compile()
        assert self._wrapper_address is not None
        return self._wrapper_address

    @property
    def is_loaded(self) -> bool:
        """Whether the address is known; asking loads nothing."""
        return self._wrapper_address is not None


def block_function(function: Callable[..., Any]) -> Any:
    """A block function; `.address` goes into I_FUNCTION."""
    return BlockFunction(function)


@intrinsic
def call_block(typingctx: Any, address: Any, state: Any, args: Any) -> Any:
    """Call the block function at `address` with (state, args); returns its int64."""
    signature = types.int64(types.int64, types.int64, types.int64)

    def codegen(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        word = ir.IntType(64)
        function_type = ir.FunctionType(word, [word, word])
        return builder.call(builder.inttoptr(arguments[0], function_type.as_pointer()), [arguments[1], arguments[2]])

    return signature, codegen


@intrinsic
def pointer(typingctx: Any, address: Any, dtype: Any) -> Any:
    """An integer address as a typed pointer for `carray(pointer(address, types.uint8), n)`."""
    pointer_type = types.CPointer(dtype.dtype)

    def codegen(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(pointer_type))

    return pointer_type(types.int64, dtype), codegen


@inner
def words(address: int, count: int) -> Any:
    """The int64 words at `address`, as a writable array."""
    return carray(pointer(address, types.int64), count)


@inner
def mask_register(state: Any, index: int) -> Any:
    """Mask register `index`: uint8[BLOCK]."""
    return carray(pointer(state[S_MASKS] + index * BLOCK, types.uint8), BLOCK)


@inner
def selection(state: Any) -> Any:
    """The selected doc ids: int32[selected]."""
    return carray(pointer(state[S_SELECTION], types.int32), state[S_SELECTED])


@inner
def register_u32(state: Any, index: int) -> Any:
    """Value register `index` as uint32[BLOCK] (dict ids, group ids)."""
    return carray(pointer(state[S_REGISTERS] + index * BLOCK * 8, types.uint32), BLOCK)


@inner
def register_i64(state: Any, index: int) -> Any:
    """Value register `index` as int64[BLOCK] (INT and LONG values)."""
    return carray(pointer(state[S_REGISTERS] + index * BLOCK * 8, types.int64), BLOCK)


@inner
def register_f64(state: Any, index: int) -> Any:
    """Value register `index` as float64[BLOCK] (FLOAT and DOUBLE values)."""
    return carray(pointer(state[S_REGISTERS] + index * BLOCK * 8, types.float64), BLOCK)


@inner
def register_u8(state: Any, index: int) -> Any:
    """Value register `index` as uint8[BLOCK] (null flags)."""
    return carray(pointer(state[S_REGISTERS] + index * BLOCK * 8, types.uint8), BLOCK)


class State:
    """The state words of one thread with the scratch memory that they point to (kept alive by this object)."""

    def __init__(self, control: np.ndarray[Any, np.dtype[np.int64]], user_address: int = 0) -> None:
        self.words = np.zeros(STATE_WORDS, np.int64)
        self.masks = np.zeros((NUM_MASKS, BLOCK), np.uint8)
        self.selection = np.zeros((NUM_SELECTIONS, BLOCK), np.int32)
        self.ones = np.ones(BLOCK, np.uint8)
        self.registers = np.zeros((NUM_REGISTERS + NUM_PREDICATE_REGISTERS, BLOCK), np.int64)
        self.control = control
        self.words[S_MASKS] = self.masks.ctypes.data
        self.words[S_SELECTION] = self.selection.ctypes.data
        self.words[S_SELECTIONS] = self.selection.ctypes.data
        self.words[S_ONES] = self.ones.ctypes.data
        self.scratch = np.zeros((NUM_SCRATCH, BLOCK), np.int32)
        self.words[S_SCRATCH] = self.scratch.ctypes.data
        self.words[S_REGISTERS] = self.registers.ctypes.data
        self.words[S_CONTROL] = control.ctypes.data
        self.words[S_USER] = user_address
        self.address = self.words.ctypes.data
