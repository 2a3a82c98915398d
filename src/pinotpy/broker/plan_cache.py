"""Queries that were asked before: parsed and compiled once per text, as long as the table's schema is the same object.

A dashboard asks the same texts again and again; parsing and compiling is half of what a broker computes for a small query.
Nothing that depends on the time or on data is in a plan. Used by one event loop.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass

from pinotpy.config.schema import Schema
from pinotpy.pql.ast import Statement
from pinotpy.query.context import QueryContext, QueryOptions

PLANS_MAX = 512


@dataclass(slots=True)
class Plan:
    """A parsed query; `context` is valid for the very `schema` it was compiled against (None: not compiled yet)."""

    statement: Statement
    options: QueryOptions
    schema: Schema | None = None
    context: QueryContext | None = None

    def compiled_for(self, schema: Schema) -> QueryContext | None:
        """The context, if it was compiled against this schema."""
        return self.context if self.schema is schema else None


class PlanCache:
    """The plans of the last `PLANS_MAX` different questions, least recently asked first."""

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
        """Keep a plan; the least recently asked one falls out."""
        self._plans[question] = plan
        if len(self._plans) > PLANS_MAX:
            self._plans.popitem(last=False)
