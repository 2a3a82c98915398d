"""The execution of one query: its turn among large ones, the question to its servers, the merge of their answers.

A query that this process had no memory for gives back everything, waits for its turn and runs again, with more room
each time: twice what it was known to need, then alone. So of many large queries some always come to an end. Where any
groups are right, it runs again over a few of them (few_groups.py), and so do those like it from then on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from pinotpy.broker.answer_warnings import kernel_warnings, null_warnings, stream_warnings
from pinotpy.broker.catalog import Target
from pinotpy.broker.explained_pruning import finding_of
from pinotpy.broker.few_groups import can_choose, some_rows, with_few_groups
from pinotpy.broker.gathering import gather
from pinotpy.broker.parts import Broker
from pinotpy.broker.plan_cache import BoundQuery, Plan
from pinotpy.broker.query_memory import QueryMemory, answer_bytes
from pinotpy.broker.reducing import check_size, reduce_answers, reduced_small
from pinotpy.broker.rows_of_streams import name_boundary, tiled
from pinotpy.broker.scatter import Gathered
from pinotpy.errors import ProcessMemoryError
from pinotpy.query.model.context import QueryContext
from pinotpy.query.result.reduced import ReducedResult
from pinotpy.query.result.response.envelope import Envelope
from pinotpy.query.runtime.trace import Laps

# Above this an answer is reduced and written on another thread: the event loop serves all clients.
INLINE_RESULT_CELLS_MAX: Final = 5_000
ATTEMPTS_MAX: Final = 3
# Below this there is no time to ask servers once more.
AGAIN_MIN_S: Final = 0.05
# Queries that got more groups than this, and show so many times fewer, are asked for few of them the next time.
MANY_GROUPS_MIN: Final = 100_000
_MANY_TIMES: Final = 100


@dataclass(frozen=True, slots=True)
class Execution:
    """A compiled query and where it goes. `bound`: what servers get of the context where they know the rest."""

    broker: Broker
    table: str
    plan: Plan
    context: QueryContext
    bound: BoundQuery | None
    target: Target
    deadline_ns: int
    memory: QueryMemory
    wants_arrow: bool
    has_few_groups: bool = False

    @property
    def left_s(self) -> float:
        return (self.deadline_ns - self.broker.clock.monotonic_ns()) / 1e9


@dataclass(frozen=True, slots=True)
class Executed:
    """result: None where an error forbids showing rows, or `shown` has them in the form of the answer."""

    result: ReducedResult | None = None
    shown: dict[str, Any] | None = None


async def execute_query(query: Execution, number: int, envelope: Envelope, laps: Laps) -> Executed:
    """Run the query; fill the envelope. Raises PinotError; ProcessMemoryError if the last attempt was refused too."""
    broker, memory, plan = query.broker, query.memory, query.plan
    room_bytes, warnings = plan.memory_bytes, list(envelope.warnings)
    for attempt in range(1, ATTEMPTS_MAX + 1):
        await memory.begin(room_bytes, query.left_s)
        laps.lap("WAIT")
        try:
            if plan.has_many_groups and not query.has_few_groups and can_choose(query.context):
                query = await _of_few_groups(query)
            executed = await _attempt(query, number, envelope, laps, is_last=attempt == ATTEMPTS_MAX)
        except ProcessMemoryError:
            plan.memory_bytes = memory.most_bytes
            plan.has_many_groups = plan.has_many_groups or can_choose(query.context)
            available_bytes = broker.memory.for_queries_bytes
            is_hopeless = memory.most_bytes > available_bytes or query.left_s < AGAIN_MIN_S
            if attempt == ATTEMPTS_MAX or memory.ended is not None or is_hopeless:
                raise
        else:
            plan.memory_bytes = memory.most_bytes
            return executed
        memory.end_turn()
        envelope.forget_answers()
        envelope.warnings += warnings
        name_boundary(envelope, query.target)
        # Servers end a query by its number when its call breaks off.
        number = next(broker.numbers)
        room_bytes = min(2 * memory.most_bytes, available_bytes) if attempt == 1 else available_bytes
    raise AssertionError("the last attempt returns or raises")


async def _of_few_groups(query: Execution) -> Execution:
    """The query over as many groups as it shows; unchanged where some rows do not have so many."""
    broker = query.broker
    context = some_rows(query.context)
    gathered = await gather(broker, context, None, query.target, next(broker.numbers), query.deadline_ns, query.memory)
    rows = [partial.rows for _, partial in gathered.partials if partial.rows is not None]
    few = with_few_groups(query.context, rows)
    if few is None:
        return replace(query, has_few_groups=True)  # not to be tried again
    return replace(query, context=few, bound=None, has_few_groups=True)


async def _attempt(query: Execution, number: int, envelope: Envelope, laps: Laps, *, is_last: bool) -> Executed:
    broker, context, memory, deadline_ns = query.broker, query.context, query.memory, query.deadline_ns
    gathered = await gather(broker, context, query.bound, query.target, number, deadline_ns, memory)
    if gathered.has_offsets:
        gathered = await tiled(broker, query.table, context, query.bound, gathered, envelope, deadline_ns, memory)
    envelope.num_segments_pruned_by_broker = gathered.num_pruned
    envelope.warnings += null_warnings(context, gathered.partials)
    envelope.warnings += kernel_warnings(gathered.partials)
    envelope.warnings += stream_warnings(half.routing for half in query.target.halves)
    if context.options.trace:
        servers = len(gathered.asked | gathered.responded | gathered.unreachable)
        rows, num_bytes = (sum(getattr(p, of) for _, p in gathered.partials) for of in ("num_rows", "num_bytes"))
        laps.lap("SCATTER", servers=servers, rowsOut=rows, bytesIn=num_bytes)
    if not is_last:
        _check_memory(gathered)
        if not query.has_few_groups and can_choose(context):
            _check_groups(query, gathered)
    check_size(context.options, gathered)
    if not query.wants_arrow and not query.has_few_groups:
        shown = reduced_small(broker, query.plan, gathered, envelope, deadline_ns)
        if shown is not None:
            envelope.statistics.total_docs += gathered.num_docs_pruned
            return Executed(shown=shown)
    result = await reduce_answers(broker, context, gathered, envelope, laps, deadline_ns, memory)
    if envelope.explanation is not None:
        halves = tuple(finding_of(each, context.dialect) for each in gathered.explained)
        envelope.explanation = replace(envelope.explanation, broker_pruning=halves)
    if result is not None and (memory.is_large or num_cells(result) > INLINE_RESULT_CELLS_MAX):
        await memory.take(answer_bytes(result), "the text of its answer", query.left_s)
    return Executed(result)


def _check_memory(gathered: Gathered) -> None:
    """Raise what kept this process from taking a server's answer."""
    refused = [place for place, (_, each) in enumerate(gathered.failures) if isinstance(each, ProcessMemoryError)]
    if refused:
        # Taken out: it holds frames that hold `gathered`, whose answers are to be gone when this is handled.
        raise gathered.failures.pop(refused[0])[1]


def _check_groups(query: Execution, gathered: Gathered) -> None:
    """Remember that all groups are many. Raise where servers had no memory for them, and few can be asked for: a server
    that waited for memory until the query's time was up left none for that.
    """
    context = query.context
    num_groups = sum(partial.num_rows for _, partial in gathered.partials)
    codes = [error.code for _, error in gathered.failures]
    codes += [each.code for _, partial in gathered.partials for each in partial.exceptions]
    is_refused = ProcessMemoryError.code in codes
    if is_refused or num_groups >= max(MANY_GROUPS_MIN, _MANY_TIMES * (context.offset + context.limit)):
        query.plan.has_many_groups = True
    if is_refused and query.left_s >= AGAIN_MIN_S:
        raise ProcessMemoryError("servers had no memory for all groups")


def num_cells(result: ReducedResult) -> int:
    """Values that the answer shows."""
    return result.num_rows * len(result.columns) + sum(
        len(groups.value.values) * (len(groups.keys) + 1) for groups in result.group_lists
    )
