"""Query templates: brokers send a name and literals instead of the whole query. Each template is decoded once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from pinotpy.errors import DataError
from pinotpy.query.model.context import QueryContext
from pinotpy.query.model.literals import decode_literals, with_literals
from pinotpy.rpc.wire import BoundRequest, RequestKind, ServerRequest, decode_request, template_digest
from pinotpy.server.inline_queries import is_counted, is_plain, is_sorted

TEMPLATES_MAX = 2048
TEMPLATES_MAX_BYTES = 64 << 20
FEW_SEGMENTS_MAX = 64
# A query is expected to be quick whose template's last one took less; where that proved wrong, since it has too many
# docs or took as long as the second, as many queries go by before another one is expected to be.
QUICK_CPU_NS = 2_000_000
LONG_CPU_NS = 10_000_000
DISAPPOINTED_QUERIES = 32


class Expectation:
    """Predicts whether the next query of a template is cheap. Updates from several threads may be lost; that costs one
    wrong guess.
    """

    __slots__ = ("_cpu_ns", "_disappointed")

    def __init__(self) -> None:
        self._cpu_ns, self._disappointed = QUICK_CPU_NS, 0

    def is_quick(self) -> bool:
        """Whether to run the next query inline. Call once per query."""
        if self._disappointed:
            self._disappointed -= 1
            return False
        return self.last_was_quick

    @property
    def last_was_quick(self) -> bool:
        return self._cpu_ns < QUICK_CPU_NS

    def took(self, cpu_ns: int) -> None:
        """Record the CPU time of one query of the template."""
        self._cpu_ns = cpu_ns

    def failed(self) -> None:
        """Record that a query run inline was not cheap: back off from running this template inline."""
        self._disappointed = DISAPPOINTED_QUERIES


@dataclass(frozen=True, slots=True)
class QueryTemplate:
    """The part that all queries of a template share: table and segments (in `request`) and the context, with 0 for each
    literal.

    is_plain: kernels alone answer them, a few columns at a time; no Python runs per row or value. is_counted: no row is
    read; is_sorted: rows are compared. has_few_segments: planning takes negligible time. expectation: predicts the cost
    of the next one.
    """

    request: ServerRequest
    context: QueryContext
    size_bytes: int
    is_plain: bool
    is_counted: bool
    is_sorted: bool
    has_few_segments: bool
    expectation: Expectation

    def request_of(self, bound: BoundRequest) -> ServerRequest:
        """One query's request."""
        shared = self.request
        return ServerRequest(
            RequestKind.QUERY, bound.request_id, bound.timeout_ms, bound.broker_id, bound.principal,
            shared.table_name_with_type, shared.segment_names,
            flags=bound.flags, num_consuming=shared.num_consuming,
        )  # fmt: skip

    def context_of(self, bound: BoundRequest) -> QueryContext:
        """One query's context. Raises DataError for invalid, too many or too few literals."""
        return with_literals(self.context, decode_literals(bound.literals))


class QueryTemplates:
    """The most recently used templates. Shared by threads; the lock guards the order and the bytes."""

    def __init__(self, decode: Callable[[bytes], QueryContext]) -> None:
        self._decode = decode
        self._lock = threading.Lock()
        self._templates: OrderedDict[bytes, QueryTemplate] = OrderedDict()
        self._num_bytes = 0

    def __len__(self) -> int:
        return len(self._templates)

    def peek(self, digest: bytes) -> QueryTemplate | None:
        """The template with this digest, if it is here."""
        return self._templates.get(digest)

    def find(self, bound: BoundRequest) -> QueryTemplate | None:
        """The template of a query, stored if the query brings it; None if the broker has to send it.

        Raises DataError if a template does not match its digest: nobody can change the meaning of others' queries.
        """
        with self._lock:
            template = self._templates.get(bound.digest)
            if template is not None:
                self._templates.move_to_end(bound.digest)
                return template
        if not bound.template:
            return None
        if template_digest(bound.template) != bound.digest:
            raise DataError("a query's template has another digest than the query says")
        request = decode_request(bound.template)
        if request.kind is not RequestKind.QUERY:
            raise DataError(f"expected a query as template, found {request.kind.name}")
        # A decoded context takes some ten times its bytes.
        context = self._decode(request.context)
        plain = is_plain(context)
        few = len(request.segment_names) <= FEW_SEGMENTS_MAX
        template = QueryTemplate(
            request,
            context,
            len(bound.template) + 10 * len(request.context),
            plain,
            plain and few and is_counted(context),
            plain and is_sorted(context),
            few,
            Expectation(),
        )
        with self._lock:
            if bound.digest not in self._templates:
                self._templates[bound.digest] = template
                self._num_bytes += template.size_bytes
            while len(self._templates) > TEMPLATES_MAX or (
                self._num_bytes > TEMPLATES_MAX_BYTES and len(self._templates) > 1
            ):
                _, old = self._templates.popitem(last=False)
                self._num_bytes -= old.size_bytes
        return template
