"""How a scan fills the state of an aggregation: what an aggregation's `plan` (spec.py) tells the operators of the query
room.

 - `SlotPlan`: int64 words in the row of a group, changed by block functions; zero = nothing seen;
 - `ValueSetPlan`: the distinct values of each group with their counts;
 - `SketchPlan`: registers of the values' hashes;
 - `RowPlan`: the rows themselves, in order, for functions of several expressions.

Each has a `collect` that makes state columns of what the scan found.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, Protocol, Union

import pyarrow as pa

from pinotpy.arrays import Int64Array

if TYPE_CHECKING:
    from pinotpy.kernels.runtime.abi import BlockFunction  # brokers load no kernels


class Values(Enum):
    """What an update reads from its value register."""

    NOTHING = "NOTHING"
    LONG = "LONG"  # i64
    DOUBLE = "DOUBLE"  # f64


@dataclass(frozen=True, slots=True)
class Update:
    """One select instruction of a function: the block functions of its grouped and its single form (arguments:
    kernels/aggregate/counts_and_sums.py), of which only the one that is used is loaded.
    """

    grouped: BlockFunction
    single: BlockFunction
    word: int  # of the function's slots, from 0
    values: Values
    parameter: int = 0  # its fifth argument: the address of what the function keeps alive


@dataclass(frozen=True, slots=True)
class Overflow:
    """Parts of exact double sums outside the main window: one entry a (row, word, window); see
    kernels/aggregate/exact_sums.py.
    """

    rows: Int64Array
    words: Int64Array
    windows: Int64Array
    low: Int64Array
    high: Int64Array


class Word(IntEnum):
    """How the same word of two rows of one group becomes one (kernels/group/merge_rows.py)."""

    ADD = 0
    WIDE = 1  # with the next word a 128-bit integer
    WIDE_HIGH = 2
    GROW = 3  # the larger, as unsigned


class RankKind(IntEnum):
    """How words of a row give the value that groups are ordered by (kernels/group/top_n_groups.py)."""

    COUNT = 0  # number of values
    LONG = 1  # one word
    WIDE = 2  # two words, a 128-bit integer
    LONG_QUOTIENT = 3  # over the number of values
    WIDE_QUOTIENT = 4
    GREATEST_LONG = 5  # order key (kernels/aggregate/min_max.py)
    GREATEST_DOUBLE = 6
    LEAST_LONG = 7
    LEAST_DOUBLE = 8


class StateForm(Enum):
    """A state column that is words of the row as they are."""

    SEEN = "SEEN"  # number of values; never null
    LONG = "LONG"  # the first word, as a 128-bit integer; null where nothing was seen, as the next
    WIDE = "WIDE"  # the first two words, a 128-bit integer
    # the main window of an exact sum of doubles in the first two words (functions/state/exact_sums.py); not with
    # overflow
    EXACT = "EXACT"


@dataclass(frozen=True, slots=True)
class SlotPlan:
    """State in len(`words`) words of a group's row.

    collect(slots, seen, overflow): slots int64[rows, words]; seen int64[rows] counts the values that were not
        skipped; gives the state columns.
    rank: how the first words of the slots give the value that groups are ordered by, up to a constant factor above 0;
        None: not without `collect`.
    forms: what `collect` makes of the words, where that takes no computing; few groups are sent so, without Arrow.
    """

    words: tuple[Word, ...]
    updates: tuple[Update, ...]
    collect: Callable[[Int64Array, Int64Array, Overflow], list[pa.Array]]
    rank: RankKind | None = None
    forms: tuple[StateForm, ...] | None = None


@dataclass(frozen=True, slots=True)
class ValueSetPlan:
    """State made from every distinct value of a group.

    collect(rows, values, counts, num_rows): entry i says that state row rows[i] saw values[i] (Arrow, stored form, null
        free) counts[i] times; a (row, value) pair may come more than once. Gives the state columns, num_rows long.
    by_segment: a row is what one segment saw of a group; the function's `merge` puts the segments of a group together.
    counted: `counts` is read; where it is not, a scan need not count and gives an empty one.
    rank_of: where the answer is made of this state alone, all that `finish` reads of numbers is the value at this rank
        (from 0) of the sorted values, by their number; then `collect` is given that one value, once. None: it reads
        more.
    as_longs: `rank_of` counts doubles as LONG, the way Java casts (NaN is 0); the one value is LONG then.
    means_of: in the same case all that `finish` reads are the means of the sorted values at ranks begin … middle - 1
        and middle … end - 1; this gives (begin, middle, end) by their number. Then `collect` may be given the two
        means, counted as often as there are ranks before middle, and from it on.
    count_state: in the same case all that `finish` reads is how many different values there are, and this makes the
        state of it.
    assemble(offsets, values, counts): the same from the values of row r at offsets[r] … offsets[r + 1], each once; what
        a scan calls where there is one.
    """

    collect: Callable[[Int64Array, pa.Array, Int64Array, int], list[pa.Array]]
    by_segment: bool = False
    counted: bool = True
    assemble: Callable[[Int64Array, pa.Array, Int64Array], list[pa.Array]] | None = None
    rank_of: Callable[[Int64Array], Int64Array] | None = None
    as_longs: bool = False
    means_of: Callable[[Int64Array], tuple[Int64Array, Int64Array, Int64Array]] | None = None
    count_state: Callable[[Int64Array], list[pa.Array]] | None = None


class Hashing(Enum):
    """How the kernels make registers of values (kernels/sketch/hyperloglog.py, kernels/sketch/register_hashes.py)."""

    HYPERLOGLOG = "HYPERLOGLOG"
    HYPERLOGLOG_PLUS = "HYPERLOGLOG_PLUS"  # of whole numbers only, as the next two of numbers only
    ULTRALOGLOG = "ULTRALOGLOG"
    CPC = "CPC"


@dataclass(frozen=True, slots=True)
class SketchPlan:
    """Registers: 2^log2m a group, each the highest rank of its values' hashes, or the set of their ranks (sketches/…).

    collect(rows, entries, num_rows): entry i says that state row rows[i] has register entries[i] >> 5 at least at rank
        entries[i] & 31; of sets, that rank entries[i] & 63 is in register entries[i] >> 6. Gives the state columns.
    entries_of_values(values): the entries of values of a dictionary (stored form); only where `hashing` is not
    HYPERLOGLOG.
    """

    log2m: int
    collect: Callable[[Int64Array, Int64Array, int], list[pa.Array]]
    hashing: Hashing = Hashing.HYPERLOGLOG
    entries_of_values: Callable[[pa.Array], Int64Array] | None = None

    @property
    def are_sets(self) -> bool:
        """Whether a register is a set of ranks, 8 bytes, else a rank, one byte."""
        return self.hashing in (Hashing.ULTRALOGLOG, Hashing.CPC)

    @property
    def table_log2(self) -> int:
        """log2 of the bytes of a group's registers."""
        return self.log2m + (3 if self.are_sets else 0)


class RowBlock(Protocol):
    """Some of the rows that a scan selected, in the order of segments and docs: a doc stands once for every group that
    it is in.
    """

    @property
    def rows(self) -> Int64Array:
        """The state row of each."""

    @property
    def has_nulls(self) -> bool:
        """Whether values may be null."""

    def argument(self, index: int, at: Int64Array | None = None) -> pa.Array:
        """The values of an argument (type `DataType.arrow`), of all rows or of those at these places. Nulls only where
        the function is null aware and the query handles nulls; else the default stands for them.
        """

    def places(self, at: Int64Array) -> pa.Array:
        """Texts that order rows of all servers: by the names of their segments, then by doc."""


@dataclass(frozen=True, slots=True)
class RowPlan:
    """State made from the rows of a group, with the values of all arguments; the scan notes which docs each group has.

    collect(block, num_rows): the state columns, num_rows long, of a block of rows; every state row has rows of it. The
        states of blocks are merged in the order of segments and docs.
    counts_different: the answer is how many different rows a group has: where the state will not be merged any more, it
        need not be made of them (states.count_states stands for it).
    """

    collect: Callable[[RowBlock, int], list[pa.Array]]
    counts_different: bool = False


Plan = Union[SlotPlan, ValueSetPlan, SketchPlan, RowPlan]
