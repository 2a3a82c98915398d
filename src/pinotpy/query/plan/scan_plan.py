"""ScanPlan: which docs of which segments a query reads, and the program that reads them.

`build_scan` (build.py) has the filter planned (query/filter/planner.py), which leaves **morsels**: runs or lists of
docs of one segment, in segment order, dealt to threads in contiguous slices. An operator adds what is done with the
selected docs, then runs the plan:

    plan = build_scan(context, segments, control, threads=2)
    for shape in plan.shapes(("country", "cost")):        # morsels in which these columns are encoded alike
        country = shape.fetch_ids("country")              # register of u32 dict ids (M_CARDINALITY >= 0 in all morsels)
        cost = shape.fetch_values("cost")                 # register of i64 or f64 values
        nulls = shape.fetch_nulls("cost")                 # register of u8 flags (1 = null), None if no morsel has nulls
        shape.begin(clear.address, tables)                # once per morsel, before its first selected block
        shape.emit(update.address, country, cost, tables) # per block; each argument an int, or int64[shape.num_morsels]
        shape.end(flush.address, tables)                  # once per morsel, after its last block with a row
    contexts = plan.run(make_context)                     # threads walk their morsels; what each made of them

An argument lands in the instruction's words A0, A0+1, … . One that differs by morsel (a column's meta address, a table
of the morsel) is an int64 array in the order of `shape.morsels`. Nothing is appended per segment in Python: 720
segments cost as many Python steps as one.

**What a select function may rely on** (besides abi.py): registers hold `state[S_SELECTED]` values, position i belongs
to doc selection(state)[i]; S_USER is the address that `make_context(thread)` returned; S_MORSEL is the morsel's number,
of which `plan.morsels` has the U_* words. It returns E_OK or one of
  E_FLUSH      I am done with this block and need Python before the next one: `on_flush(context)` is called
  E_REPEAT     (expanding) run the instructions after me, then me again
  E_NEXT_MORSEL  enough of this morsel;  E_STOP  enough of everything this thread has
  E_BLOCK      the query fails; `run` raises QueryExecutionError with the text that `on_error(context)` returns

**Types in registers**: INT, LONG, BOOLEAN, TIMESTAMP i64; FLOAT and DOUBLE f64; any column with a dictionary also as
ids u32. VAR values have no register: use their ids, or for raw columns the doc ids and the column's meta.

**Multi-values**: `shape.expand(mv_column)` repeats each selected doc once per value, so that instructions emitted after
it see lanes instead of docs (GROUP BY on an MV column; two expands make the cross product); fetches of that column then
give the lane's value. An update that walks a doc's values itself (SUMMV) takes `shape.meta(column)` instead.

**FILTER (WHERE …)** of an aggregation: `shape.fetch_filter(filter)` is a register of u8 flags, 1 = the row counts.

Registers are few (abi.NUM_REGISTERS): fetch, update, `shape.release(register)`. A second fetch of the same thing gives
the register that still holds it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from pinotpy.arrays import Int64Array
from pinotpy.data_types import StoredType
from pinotpy.errors import InvalidQueryError
from pinotpy.kernels.runtime import abi
from pinotpy.kernels.scan import program as binding
from pinotpy.kernels.vector import fetch
from pinotpy.kernels.vector import unnest as expand
from pinotpy.pql.ast import Expression
from pinotpy.query.model.context import Filter, QueryContext
from pinotpy.query.result.partial import Statistics
from pinotpy.query.runtime.control import QueryControl
from pinotpy.query.runtime.instructions import Instructions, Word
from pinotpy.query.runtime.scan_loop import run_threads
from pinotpy.query.segments.column_metas import ColumnMetas
from pinotpy.query.segments.segment_set import SegmentSet
from pinotpy.query.segments.shared_codes import TextIds
from pinotpy.segment.data_source import Segment
from pinotpy.segment.shared_codes.cache import SharedDictionaries
from pinotpy.segment.star_tree.reader import StarTree

_LENGTHS: Final = (abi.U_NUM_BEGIN, abi.U_NUM_FILTER, abi.U_NUM_SELECT, abi.U_NUM_END)
# Values are skewed and conditions go together: more docs may pass than an estimate says.
_ESTIMATE_SLACK: Final = 8
_EXPANDS_MAX: Final = abi.NUM_SELECTIONS - 1
# Two bits each; a word holds those beside the number of a morsel.
_COLUMNS_PER_KEY: Final = 16
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Sections:
    """Instructions of morsels, int64[morsels, k, INSTRUCTION_WORDS] each: before the first block, per block, after the
    last.
    """

    begin: Int64Array
    select: Int64Array
    end: Int64Array

    @property
    def size_bytes(self) -> int:
        return self.begin.nbytes + self.select.nbytes + self.end.nbytes

    def take(self, rows: Int64Array) -> Sections:
        """The instructions of some of the morsels."""
        return Sections(self.begin[rows], self.select[rows], self.end[rows])


@dataclass(slots=True)
class ScanPlan:
    """The morsels that a query scans and how they are dealt to threads.

    segments: those that may select something among them (at least one, if there are any); a morsel's U_SEGMENT is an
    index into it.
    morsels: int64[num_morsels, MORSEL_WORDS], ascending by segment; threads run `morsels[starts[t]:starts[t + 1]]` in
    order.
    filter_program: int64[num_morsels, k, INSTRUCTION_WORDS], the same k for all morsels.
    statistics: complete after `run`, but for the counters that belong to the operator (post-filter entries).
    reads_all_rows: no filter leaves a row out and no segment hides one, so that metadata and dictionaries may answer.
    listed: the docs of every morsel where the plan was narrowed to lists (selection_list.py), else empty.
    keep_alive: arrays that instructions point to.
    is_final: the answer is made of this result alone: groups that it cannot show may be left out, and states keep what
        is read of them only.
    share: estimated share of the morsels' docs that the filter selects.
    numbered: columns of raw texts whose dict ids are made for this query, the same in all segments that it reads: their
        metas have no dictionary, the numbers have the texts (project/text_codes.py).
    dictionaries: the shared dictionaries of the server, for `query.segments.shared_codes`; None: there are none.
    """

    context: QueryContext
    segments: SegmentSet
    control: QueryControl
    metas: ColumnMetas
    morsels: Int64Array
    starts: Int64Array
    filter_program: Int64Array
    statistics: Statistics
    emit_filter: Callable[[Filter, Shape, int], None]
    reads_all_rows: bool = False
    executor: Executor | None = None
    listed: list[NDArray[np.int32]] = field(default_factory=list)
    keep_alive: list[Any] = field(default_factory=list)
    dictionaries: SharedDictionaries | None = None
    is_final: bool = False
    share: float = 1.0
    numbered: Mapping[str, TextIds] = field(default_factory=dict)
    _sections: list[tuple[Int64Array, Sections]] = field(default_factory=list)
    _programs: list[Int64Array] = field(default_factory=list)

    @property
    def num_threads(self) -> int:
        return len(self.starts) - 1

    @property
    def num_morsels(self) -> int:
        return len(self.morsels)

    @property
    def docs_to_read(self) -> int:
        """Docs of all morsels, those that the filter program rejects among them."""
        return int((self.morsels[:, abi.U_HIGH] - self.morsels[:, abi.U_LOW]).sum())

    @property
    def docs_expected(self) -> float:
        """So many docs are selected at most, unless the estimate of the filter is far off."""
        docs = self.docs_to_read
        return min(docs * self.share * _ESTIMATE_SLACK, docs)

    @property
    def pre_aggregated(self) -> bool:
        """The segments are star-trees, their docs records that stand for several rows (query/star_tree/)."""
        return len(self.segments) > 0 and isinstance(self.segments[0], StarTree)

    def morsel_segment(self, morsel: int) -> Segment:
        """The segment of a morsel."""
        return self.segments[int(self.morsels[morsel, abi.U_SEGMENT])]

    def morsel_threads(self) -> Int64Array:
        """Thread number of every morsel."""
        return np.repeat(np.arange(self.num_threads), np.diff(self.starts))

    def shapes(self, columns: Sequence[str] = ()) -> Iterator[Shape]:
        """Groups of morsels in which each of `columns` is encoded alike (dictionary or raw, has nulls or not), together
        all morsels. Call once per plan: the instructions of all shapes are run by one `run`.
        """
        assert not self._sections and not self._programs, "shapes() was called before on this plan"
        if not len(self.morsels):
            return
        rows = self.morsels[:, abi.U_SEGMENT]
        keys = np.zeros(len(rows), np.int64)
        for number, name in enumerate(columns):
            if number % _COLUMNS_PER_KEY == 0:
                keys = np.unique(keys, return_inverse=True)[1]
            meta = self.metas.of(name)[rows]
            keys = keys * 4 + (meta[:, abi.M_CARDINALITY] >= 0) * 2 + (meta[:, abi.M_NULLS] != 0)
        for key in np.unique(keys):
            shape = Shape(self, np.flatnonzero(keys == key))
            yield shape
            self._sections.append((shape.morsels, shape.sections()))

    def take_sections(self) -> list[tuple[Int64Array, Sections]]:
        """What was emitted into the shapes: numbers of their morsels, and instructions. The plan forgets them."""
        taken, self._sections = self._sections, []
        return taken

    def add_program(self, morsels: Int64Array, sections: Sections) -> None:
        """Instructions of the morsels with these numbers; they run the filter of the plan in between."""
        parts = sections.begin, self.filter_program[morsels], sections.select, sections.end
        program = np.concatenate(parts, axis=1)
        for word, part in zip(_LENGTHS, parts, strict=True):
            self.morsels[morsels, word] = part.shape[1]
        self.morsels[morsels, abi.U_PROGRAM] = program.ctypes.data + np.arange(len(morsels)) * (
            program.shape[1] * abi.INSTRUCTION_WORDS * 8
        )
        self._programs.append(program)

    def bind_program(self, sections: Sections, numbers: Int64Array) -> None:
        """Instructions of all morsels from those that many queries share: `numbers` are the rows of each morsel in
        `sections`.
        """
        length = (
            sections.begin.shape[1] + self.filter_program.shape[1] + sections.select.shape[1] + sections.end.shape[1]
        )
        program = np.empty((self.num_morsels, length, abi.INSTRUCTION_WORDS), np.int64)
        parts = sections.begin, self.filter_program, sections.select, sections.end
        binding.bind(self.morsels, numbers, *parts, program, program.ctypes.data)
        self._programs.append(program)

    def run(
        self,
        make_context: Callable[[int], tuple[int, T]],
        *,
        on_flush: Callable[[T], None] | None = None,
        on_error: Callable[[T], str] | None = None,
        gathers: bool = False,
    ) -> list[T]:
        """Run all morsels on `num_threads` threads; gives the objects of the threads, in thread order.

        Args:
            make_context: thread number → (address for S_USER, object that is kept alive and given back).
            on_flush: called with the thread's object when a select function returned E_FLUSH.
            on_error: the cause when a select function returned E_BLOCK.
            gathers: docs of several blocks may come together; not where a select function may end the scan.

        Raises: QueryTimeoutError, QueryCancelledError, MemoryLimitError, QueryExecutionError.
        """
        for morsels, sections in self.take_sections():
            self.add_program(morsels, sections)
        self.morsels[:, abi.U_GATHER] = gathers
        contexts = [make_context(thread) for thread in range(self.num_threads)]
        counts = run_threads(
            self, [address for address, _ in contexts], [value for _, value in contexts], on_flush, on_error
        )
        self.statistics.num_docs_scanned += counts.docs_scanned
        self.statistics.num_entries_scanned_in_filter += counts.entries_in_filter
        self.statistics.matched(self.segments.counted(counts.segments_matched))
        return [value for _, value in contexts]


class Shape:
    """Morsels of a plan whose columns are encoded alike, and the instructions that are the same for all of them."""

    def __init__(self, plan: ScanPlan, morsels: Int64Array) -> None:
        self.plan = plan
        self.morsels = morsels  # numbers of the morsels, ascending
        self.num_morsels = len(morsels)
        self.segments = plan.morsels[morsels, abi.U_SEGMENT]  # index into plan.segments, per morsel
        self.threads = plan.morsel_threads()[morsels]  # thread number, per morsel
        self._begin, self._select, self._end = Instructions(), Instructions(), Instructions()
        self._free = list(range(abi.NUM_REGISTERS - 1, -1, -1))
        self._held: dict[tuple[str, Any], int] = {}
        self._lanes: dict[str, int] = {}  # expanded column → register of its entry indexes
        # Registers with values or null flags of expressions, which come together, until somebody asks for them.
        self.waiting: dict[tuple[str, Expression], int] = {}

    # --- what is known of a column --------------------------------------------------------------------------------

    def meta(self, column: str) -> Int64Array:
        """Addresses of the column's meta words (abi.M_*), per morsel."""
        addresses: Int64Array = self.plan.metas.addresses(column)[self.segments]
        return addresses

    def meta_word(self, column: str, word: int) -> Int64Array:
        """Word `word` of the column's meta, per morsel (cardinalities, for example)."""
        values: Int64Array = self.plan.metas.of(column)[self.segments, word]
        return values

    def has_dictionary(self, column: str) -> bool:
        """The column has dict ids in all morsels of this shape (False: it is raw in all)."""
        return bool(self.meta_word(column, abi.M_CARDINALITY)[0] >= 0)

    def has_nulls(self, column: str) -> bool:
        return bool(self.meta_word(column, abi.M_NULLS)[0] != 0)

    # --- registers --------------------------------------------------------------------------------------------------

    def allocate(self) -> int:
        """A free register; the caller's own functions fill it."""
        if not self._free:
            raise InvalidQueryError(
                f"the query needs more than {abi.NUM_REGISTERS} columns at once: select fewer columns or group by fewer"
            )
        return self._free.pop()

    def holds(self, kind: str, what: str | Filter) -> bool:
        """Whether a register has this already ("values", "nulls" of a column, "filter"), so that fetching it costs
        nothing and somebody else gives it back.
        """
        return (kind, what) in self._held

    def release(self, register: int) -> None:
        """The register may be used anew by instructions emitted from now on."""
        self._held = {key: held for key, held in self._held.items() if held != register}
        assert register not in self._free
        self._free.append(register)

    # --- instructions of the driver's side --------------------------------------------------------------------------

    def fetch_ids(self, column: str) -> int:
        """Dict ids as u32."""
        assert self.has_dictionary(column), f"column {column} is raw here"
        return self._fetch("ids", column, fetch.fetch_ids.address)

    def fetch_values(self, column: str) -> int:
        """Values in their own kind: i64 for INT and LONG, f64 for FLOAT and DOUBLE (through the dictionary if there is
        one).
        """
        assert self.plan.metas.column(column).data_type.stored is not StoredType.VAR, (
            f"{column} has no fixed-type values"
        )
        return self._fetch("values", column, fetch.fetch_values.address)

    def fetch_nulls(self, column: str) -> int | None:
        """Null flags as u8, 1 = null; None where no morsel of the shape has nulls in this column."""
        if not self.has_nulls(column):
            return None
        return self._hold(("nulls", column), fetch.fetch_nulls.address, self.meta(column))

    def fetch_filter(self, condition: Filter) -> int:
        """Flags as u8, 1 where `condition` (a filter like WHERE) is true of the selected doc."""
        key = ("filter", condition)
        if key not in self._held:
            register = self.allocate()
            self.plan.emit_filter(condition, self, register)
            self._held[key] = register
        return self._held[key]

    def expand(self, column: str) -> None:
        """Repeat each selected doc once per value of the multi-value `column`; registers filled before are stale."""
        assert column not in self._lanes, f"{column} is expanded already"
        level = len(self._lanes) + 1
        if level > _EXPANDS_MAX:
            raise InvalidQueryError(
                f"at most {_EXPANDS_MAX} multi-value columns can be grouped by at once, found more: '{column}'"
            )
        self._held = {}
        entries = self.allocate()
        carried = {name: self.allocate() for name in self._lanes}
        pairs = [register for name in self._lanes for register in (self._lanes[name], carried[name])]
        self.emit(expand.expand.address, self.meta(column), entries, level, len(carried), *pairs)
        self._lanes = {**carried, column: entries}

    def vectors(self, column: str) -> int:
        """The register with the entry index of every lane of an expanded column."""
        return self._lanes[column]

    def emit(self, function: Word, *args: Word, flags: int = abi.I_PLAIN) -> None:
        """Append a select instruction."""
        self._select.append(function, args, flags)

    def extend(self, section: Instructions) -> None:
        """Append the instructions of a section that was made elsewhere for the morsels of this shape."""
        self._select.extend(section)

    def begin(self, function: Word, *args: Word) -> None:
        """Append an instruction that runs once per morsel, before its first block with a selected doc."""
        self._begin.append(function, args)

    def end(self, function: Word, *args: Word) -> None:
        """Append an instruction that runs once per morsel after its last block, if the morsel selected anything."""
        self._end.append(function, args)

    def sections(self) -> Sections:
        """What was emitted, for every morsel of the shape."""
        return Sections(
            self._begin.assemble(self.num_morsels),
            self._select.assemble(self.num_morsels),
            self._end.assemble(self.num_morsels),
        )

    def _fetch(self, kind: str, column: str, function: int) -> int:
        if self.plan.metas.column(column).single_value:
            return self._hold((kind, column), function, self.meta(column), 0)
        assert column in self._lanes, f"multi-value column {column} must be expanded before its values are fetched"
        return self._hold((kind, column), function, self.meta(column), self._lanes[column] + 1)

    def _hold(self, key: tuple[str, Any], function: int, *args: Word) -> int:
        if key not in self._held:
            register = self.allocate()
            self.emit(function, register, *args)
            self._held[key] = register
        return self._held[key]
