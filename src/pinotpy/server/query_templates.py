"""Query templates: brokers send a name and literals instead of the whole query. Each template is decoded once, and what
it shares with others only once: a broker that prunes sends one query with as many lists of segments as days are asked
for.
"""

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

TEMPLATES_MAX = 16 << 10
TEMPLATES_MAX_BYTES = 64 << 20
# A decoded context takes some so many times its bytes.
CONTEXT_FACTOR = 10
FEW_SEGMENTS_MAX = 64
# A query is expected to be quick whose template's last one took less; where that proved wrong, since it has too many
# docs or took as long as the second, as many queries go by before another one is expected to be.
QUICK_CPU_NS = 2_000_000
LONG_CPU_NS = 10_000_000
DISAPPOINTED_QUERIES = 32


class Expectation:
    """Predicts whether the next query of a template is cheap; the first one as that of a template `like` it. Updates
    from several threads may be lost; that costs one wrong guess.
    """

    __slots__ = ("_cpu_ns", "_disappointed")

    def __init__(self, like: Expectation | None = None) -> None:
        self._cpu_ns: int = QUICK_CPU_NS if like is None else like._cpu_ns
        self._disappointed = 0

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


@dataclass(slots=True, eq=False)
class Shape:
    """What templates share that differ in their segments: the context, with 0 for each literal.

    is_plain: kernels alone answer them, a few columns at a time; no Python runs per row or value. is_counted: no row is
    read; is_sorted: rows are compared. expectation: of the template that came last. num_templates: that have it.
    """

    context: QueryContext
    size_bytes: int
    is_plain: bool
    is_counted: bool
    is_sorted: bool
    expectation: Expectation | None = None
    num_templates: int = 0


@dataclass(frozen=True, slots=True)
class QueryTemplate:
    """The part that all queries of a template share: table and segments (in `request`) and the shape.

    is_counted: as of the shape, and over few segments. has_few_segments: planning takes negligible time. expectation:
    predicts the cost of the next one.
    """

    request: ServerRequest
    shape: Shape
    size_bytes: int
    is_counted: bool
    has_few_segments: bool
    expectation: Expectation

    @property
    def is_plain(self) -> bool:
        return self.shape.is_plain

    @property
    def is_sorted(self) -> bool:
        return self.shape.is_sorted

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
        return with_literals(self.shape.context, decode_literals(bound.literals))


class QueryTemplates:
    """The most recently used templates. Shared by threads; the lock guards the order and the bytes."""

    def __init__(self, decode: Callable[[bytes], QueryContext]) -> None:
        self._decode = decode
        self._lock = threading.Lock()
        self._templates: OrderedDict[bytes, QueryTemplate] = OrderedDict()
        self._num_bytes = 0
        self._shapes: dict[bytes, Shape] = {}  # by encoded context, of these templates

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
        shape = self._shape(request.context)
        few = len(request.segment_names) <= FEW_SEGMENTS_MAX
        expectation = Expectation(shape.expectation if few else None)
        if few:
            shape.expectation = expectation
        template = QueryTemplate(request, shape, len(bound.template), shape.is_counted and few, few, expectation)
        with self._lock:
            if bound.digest not in self._templates:
                self._add(bound.digest, template)
            while len(self._templates) > TEMPLATES_MAX or (
                self._num_bytes > TEMPLATES_MAX_BYTES and len(self._templates) > 1
            ):
                self._forget(self._templates.popitem(last=False)[1])
        return template

    def _shape(self, encoded: bytes) -> Shape:
        shape = self._shapes.get(encoded)
        if shape is not None:
            return shape
        context = self._decode(encoded)
        plain = is_plain(context)
        return Shape(
            context,
            CONTEXT_FACTOR * len(encoded),
            plain,
            plain and is_counted(context),
            plain and is_sorted(context),
        )

    def _add(self, digest: bytes, template: QueryTemplate) -> None:
        self._templates[digest] = template
        self._num_bytes += template.size_bytes
        shape = template.shape
        if not shape.num_templates:
            self._shapes[template.request.context] = shape
            self._num_bytes += shape.size_bytes
        shape.num_templates += 1

    def _forget(self, template: QueryTemplate) -> None:
        self._num_bytes -= template.size_bytes
        shape = template.shape
        shape.num_templates -= 1
        if not shape.num_templates:
            self._num_bytes -= shape.size_bytes
            if self._shapes.get(template.request.context) is shape:
                del self._shapes[template.request.context]
