"""The broker's dependencies, and the question of a client."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, TypeVar

from pinotpy.broker.admission import Admission
from pinotpy.broker.catalog import Catalog
from pinotpy.broker.large_queries import LargeQueries
from pinotpy.broker.metrics import BrokerMetrics
from pinotpy.broker.plan_cache import PlanCache, TemplateCache
from pinotpy.broker.query_log import QueryLog
from pinotpy.broker.routing.lagging_replicas import LaggingReplicas
from pinotpy.broker.routing.server_statistics import ServerStatistics
from pinotpy.broker.system.tables import SystemTables
from pinotpy.clock import Clock
from pinotpy.errors import OutOfCapacityError
from pinotpy.functions.constants_budget import BYTES_MAX, TIME_MAX_MS
from pinotpy.memory.budget import ProcessBudget
from pinotpy.pql.ast import Dialect
from pinotpy.query.result.partial import PartialResult
from pinotpy.query.runtime.kernel_threads import lower_priority
from pinotpy.rpc.wire import ServerRequest
from pinotpy.service.turn_queue import TurnQueue

# Sends one request to one server and returns its partial result; raises RemoteError at the latest after `timeout_s`.
SendToServer = Callable[[str, ServerRequest, float], Awaitable[PartialResult]]


@dataclass(frozen=True, slots=True)
class BrokerLimits:
    """timeout_ms: default and ceiling of a query. response_rows_max: LIMIT and TOP above it are refused, or cut to it
    with limit_override. case_insensitive: whether SQL finds columns without regard to case. null_handling: whether
    nulls are nulls in SQL where neither query nor table says (null_mode.py). memory_max_bytes: of all servers' answers
    to one query. queries_max run at once, queue_max wait. constants_…: see functions/constants_budget.py.
    """

    timeout_ms: int = 10_000
    response_rows_max: int = 2**31 - 1
    limit_override: bool = False
    case_insensitive: bool = True
    null_handling: bool = True
    query_text_bytes_max: int = 2 << 20
    memory_max_bytes: int = 1 << 30
    queries_max: int = 256
    queue_max: int = 1_024
    hedge_after_ms: int = 1_000
    constants_bytes_max: int = BYTES_MAX
    constants_timeout_ms: int = TIME_MAX_MS


@dataclass(frozen=True, slots=True)
class Question:
    """A client's query: text, dialect, and the options beside the text as in the body."""

    text: str
    dialect: Dialect
    query_options: str = ""
    debug_options: str = ""
    trace: bool = False
    explain: bool = False

    @property
    def beside_text(self) -> tuple[str, str, bool, bool]:
        """All but text and dialect."""
        return self.query_options, self.debug_options, self.trace, self.explain


@dataclass(frozen=True, slots=True)
class TableRights:
    """What a client may read, by the true name of a table, without type.

    client: its name, for refusals.
    may_read: asked for the table of a query; a denial goes to the audit trail.
    may_see: asked for what a message would name besides it.
    may_read_cluster: READ on the cluster, asked for system.instances; a denial goes to the audit trail. is_admin: ADMIN
        on it.
    """

    client: str
    may_read: Callable[[str], bool]
    may_see: Callable[[str], bool]
    may_read_cluster: Callable[[], bool] = lambda: False
    is_admin: Callable[[], bool] = lambda: False


T = TypeVar("T")

# From here on a merge takes tenths of a second.
LONG_WORK_MIN_BYTES: Final = 16 << 20
# Compiling is Python's work: two threads would only take turns.
COMPILING_AT_ONCE_MAX: Final = 1
# Long queries of one client that wait to be compiled.
COMPILING_WAITING_MAX: Final = 64


def _compiles_enough(waiting: int) -> OutOfCapacityError:
    return OutOfCapacityError(f"{waiting} long queries of this client wait to be compiled already: try again")


EVERY_TABLE: Final = TableRights("anybody", lambda table: True, lambda table: True, lambda: True, lambda: True)


@dataclass(slots=True)
class Broker:
    """The parts that every query needs. `quarantine` maps a server that refused a connection to the time (monotonic ns)
    until which it is asked last, `heard` a server to when it last answered anything (scatter keeps it). `servers`: what
    it has measured of them. `system`: its own tables; None: it has none. `log`: of the queries that it answered.
    """

    broker_id: str
    catalog: Catalog
    send: SendToServer
    limits: BrokerLimits
    clock: Clock
    metrics: BrokerMetrics
    numbers: itertools.count[int] = field(default_factory=itertools.count)
    quarantine: dict[str, int] = field(default_factory=dict)
    heard: dict[str, float] = field(default_factory=dict)
    lagging: LaggingReplicas = field(default_factory=LaggingReplicas)
    servers: ServerStatistics = field(default_factory=ServerStatistics)
    plans: PlanCache = field(default_factory=PlanCache)
    templates: TemplateCache = field(default_factory=TemplateCache)
    compiling: TurnQueue = field(
        default_factory=lambda: TurnQueue("compile", COMPILING_AT_ONCE_MAX, COMPILING_WAITING_MAX, _compiles_enough)
    )
    memory: ProcessBudget = field(default_factory=lambda: ProcessBudget(0))
    log: QueryLog = field(default_factory=QueryLog)
    system: SystemTables | None = None
    admission: Admission = field(init=False)
    large: LargeQueries = field(init=False)
    _long_work: Executor = field(init=False)

    def __post_init__(self) -> None:
        self.admission = Admission(running_max=self.limits.queries_max, waiting_max=self.limits.queue_max)
        self.large = LargeQueries(lambda: self.memory.for_queries_bytes)
        self._long_work = ThreadPoolExecutor(os.cpu_count() or 1, "long-work", initializer=lower_priority)

    def run_apart(self, work: Callable[[], T], size_bytes: int) -> asyncio.Future[T]:
        """Run `work` on a thread. What handles many bytes takes its turn on as many threads as there are cores, which
        the system lets run after the others: the event loop serves small queries meanwhile.
        """
        threads = self._long_work if size_bytes >= LONG_WORK_MIN_BYTES else None
        return asyncio.get_running_loop().run_in_executor(threads, work)

    def num_quarantined(self) -> int:
        """Servers that are asked last at present."""
        now_ns = self.clock.monotonic_ns()
        return sum(until > now_ns for until in list(self.quarantine.values()))
