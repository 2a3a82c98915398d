"""Caches parsed and compiled queries: by text, and by template (the text without its literals).

A dashboard sends the same texts again and again, an application the same text with other literals; parsing and
compiling is half of a broker's work for a small query. A plan holds nothing that depends on time or data, and is valid
only for the schema object that it was compiled against. Access is still checked for every query. Used by one event
loop.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from pinotpy.config.schema import Schema
from pinotpy.pql.ast import Dialect, Expression, Statement
from pinotpy.pql.shape import Shape, shape_of
from pinotpy.query.compile.rewrite.constants import calls_constants
from pinotpy.query.compile.rewrite.pin_time import reads_clock
from pinotpy.query.compile.templates import Template, make_template
from pinotpy.query.model.context import LiteralValue, QueryContext, QueryOptions
from pinotpy.query.model.context_codec import encode_context
from pinotpy.query.model.literals import blank, literals_of
from pinotpy.query.result.small_answers import SmallAnswer, small_answer_of

PLANS_MAX = 512
SHAPES_MAX = 512
TEMPLATES_MAX = 512
# Finding a template costs a compilation for each literal: only for what is asked again.
SEEN_MIN = 2
# Tables and time boundaries for which a plan keeps what it sends.
BLANKS_MAX = 8


class Blanks:
    """The part of a compiled context that all its queries send: its bytes without the literals of its filter."""

    __slots__ = ("_encoded",)

    def __init__(self) -> None:
        self._encoded: dict[Hashable, bytes] = {}

    def get(self, key: Hashable, context: Callable[[], QueryContext]) -> bytes:
        """The bytes of `context()`, made once. `key`: what they depend on besides the compiled context."""
        encoded = self._encoded.get(key)
        if encoded is None:
            if len(self._encoded) >= BLANKS_MAX:
                self._encoded.clear()
            encoded = self._encoded[key] = encode_context(blank(context()))
        return encoded


@dataclass(frozen=True, slots=True)
class BoundQuery:
    """A query in the form of a template known to servers and its literals, in the order of its filter."""

    blanks: Blanks
    literals: list[LiteralValue]


@dataclass(slots=True)
class Plan:
    """A parsed query; `context` is valid for the very `schema` it was compiled against (None: not compiled yet).

    memory_bytes: what the last query with this plan took on the broker. has_many_groups: any groups are right, and all
    of them were many (few_groups.py). blanks: of the context.
    short, own: what `short_answer` and `bound` found, in a tuple once they have looked.
    """

    statement: Statement
    options: QueryOptions
    schema: Schema | None = None
    context: QueryContext | None = None
    memory_bytes: int = 0
    has_many_groups: bool = False
    blanks: Blanks = field(default_factory=Blanks)
    short: tuple[SmallAnswer | None] | None = None
    own: tuple[BoundQuery | None] | None = None

    def compiled(self, schema: Schema, context: QueryContext) -> None:
        """Store the context for this schema; results for another schema are dropped."""
        self.schema, self.context = schema, context
        self.blanks, self.short, self.own = Blanks(), None, None

    def compiled_for(self, schema: Schema, *, null_handling: bool) -> QueryContext | None:
        """The context, if it was compiled against this schema and for this mode of nulls."""
        context = self.context
        return (
            context
            if self.schema is schema and context is not None and context.null_handling is null_handling
            else None
        )

    def short_answer(self) -> SmallAnswer | None:
        """How a small result becomes the answer (query/result/small_answers.py), determined once; None: use the general
        path.
        """
        if self.context is None:
            return None
        if self.short is None:
            self.short = (small_answer_of(self.context),)
        return self.short[0]

    def bound(self) -> BoundQuery | None:
        """The plan's own text, for one that is asked again; None: servers get its whole context, since it depends on
        the clock.
        """
        if self.own is None:
            context = self.context
            self.own = (
                None
                if context is None or reads_clock(context)
                else BoundQuery(self.blanks, literals_of(context.filter)),
            )
        return self.own[0]


class PlanCache:
    """The plans of the last `PLANS_MAX` distinct questions; least recently used ones are evicted first."""

    def __init__(self) -> None:
        self._plans: OrderedDict[Hashable, Plan] = OrderedDict()

    def __len__(self) -> int:
        return len(self._plans)

    def get(self, question: Hashable) -> Plan | None:
        """The plan of an equal question."""
        plan = self._plans.get(question)
        if plan is not None:
            self._plans.move_to_end(question)
        return plan

    def put(self, question: Hashable, plan: Plan) -> None:
        """Store a plan; the least recently used one is evicted."""
        self._plans[question] = plan
        if len(self._plans) > PLANS_MAX:
            self._plans.popitem(last=False)


@dataclass(slots=True)
class Asked:
    """A text and its template. `key`: the template with everything else that a plan depends on. plan and literals:
    those of the template, if there is one; `literals` are those of this text, in the order of the filter.
    """

    key: Hashable
    shape: Shape
    plan: Plan | None = None
    literals: list[LiteralValue] | None = None


def _conditions(statement: Statement) -> list[Expression]:
    """Where literals of a filter come from: WHERE, and FILTER within anything that is selected or sorted by."""
    expressions = [*(item.expression for item in statement.select), *(item.expression for item in statement.order_by)]
    return expressions if statement.where is None else [*expressions, statement.where]


@dataclass(slots=True)
class _Known:
    """A shape. fixed: which literals belong to a template's key; None: not found out yet."""

    num_seen: int = 0
    fixed: tuple[int, ...] | None = None
    is_hopeless: bool = False
    seen: OrderedDict[tuple[str, ...], None] = field(default_factory=OrderedDict)


class TemplateCache:
    """The most recently used templates."""

    def __init__(self) -> None:
        self._shapes: OrderedDict[Hashable, _Known] = OrderedDict()
        self._templates: OrderedDict[Hashable, tuple[Template, Plan]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._templates)

    def find(self, text: str, dialect: Dialect, rest: Hashable) -> Asked | None:
        """The shape of a text with its template's plan, if there is one; None if templates don't know such texts.

        Args:
            rest: what else a plan depends on: the options beside the text.
        """
        shape = shape_of(text, dialect)
        if shape is None:
            return None
        asked = Asked((shape.parts, dialect, rest), shape)
        known = self._shapes.get(asked.key)
        if known is None or known.fixed is None:
            return None if known is not None and known.is_hopeless else asked
        written = shape.literals
        template_key = (asked.key, tuple([written[i] for i in known.fixed]))
        template = self._templates.get(template_key)
        if template is not None:
            self._templates.move_to_end(template_key)
            asked.literals = template[0].bind(written)
            if asked.literals is None:
                return None  # this text has to be compiled for itself
            asked.plan = template[1]
        return asked

    def learn(self, asked: Asked, plan: Plan, compiled: Callable[[str], QueryContext]) -> None:
        """A text of this shape was compiled to `plan`: find its template, if it was asked often enough.

        Args:
            compiled: parses and compiles a text of the same shape.
        """
        known = self._shapes.get(asked.key)
        if known is None:
            known = self._shapes[asked.key] = _Known()
            if len(self._shapes) > SHAPES_MAX:
                self._shapes.popitem(last=False)
        else:
            self._shapes.move_to_end(asked.key)
        known.num_seen += 1
        written = asked.shape.literals
        # The result of a function of constants replaces its constants.
        known.is_hopeless = known.is_hopeless or any(
            calls_constants(expression) for expression in _conditions(plan.statement)
        )
        if known.is_hopeless or known.num_seen < SEEN_MIN or not self._is_asked_again(known, written):
            return
        assert plan.context is not None
        template = make_template(asked.shape, written, plan.context.dialect, compiled)
        if template is None or (known.fixed is not None and known.fixed != template.fixed):
            known.is_hopeless = True
            return
        known.fixed = template.fixed
        template_key = (asked.key, tuple([written[i] for i in template.fixed]))
        self._templates[template_key] = template, Plan(plan.statement, plan.options, plan.schema, template.context)
        if len(self._templates) > TEMPLATES_MAX:
            self._templates.popitem(last=False)

    @staticmethod
    def _is_asked_again(known: _Known, written: list[str]) -> bool:
        """Whether the literals of the key were asked before, once the shape has told which those are."""
        if known.fixed is None:
            return True
        fixed = tuple([written[i] for i in known.fixed])
        if fixed in known.seen:
            return True
        known.seen[fixed] = None
        if len(known.seen) > TEMPLATES_MAX:
            known.seen.popitem(last=False)
        return False
