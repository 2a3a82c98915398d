"""Query templates: what compiling one text says about all texts of its shape.

A template is found by trying: the text is compiled with one literal exchanged at a time, and a literal that then stands
at exactly one place of the filter, with nothing else changed, is a slot. All others (TOP 10, the 'day' of a function)
belong to the template's key as they are written. Whatever compiling decides by the value of a slot is checked when
literals are bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pinotpy.errors import PinotError
from pinotpy.functions.text.patterns import regexp_pattern
from pinotpy.pql.ast import Dialect
from pinotpy.pql.shape import Shape, literal_value, text_of
from pinotpy.query.compile.rewrite.pin_time import reads_clock
from pinotpy.query.model.context import Comparison, LiteralValue, QueryContext
from pinotpy.query.model.context_codec import encode_context
from pinotpy.query.model.literals import literals_of, predicate_literals, predicates_of, with_literals

# Compiling looks at none of their values but to leave out equal ones in a list.
_SLOTS: Final = frozenset(
    {
        Comparison.EQ,
        Comparison.NOT_EQ,
        Comparison.IN,
        Comparison.NOT_IN,
        Comparison.RANGE,
        Comparison.LIKE,
        Comparison.NOT_LIKE,
        Comparison.REGEXP_LIKE,
    }
)


@dataclass(frozen=True, slots=True)
class _Slot:
    """Literal `literal` of the text, of kind `kind`, stands at `place` of the filter's literals, with its sign turned
    if `negative`.
    """

    literal: int
    place: int
    kind: str
    negative: bool


@dataclass(frozen=True, slots=True)
class Template:
    """`context`: as compiled for one text; of its filter's literals those at slots belong to that text alone.

    fixed: which literals of the text belong to the key. lists: places of the filter's literals of which no two may be
    equal. patterns: places of regular expressions, and whether they ignore case.
    """

    context: QueryContext
    dialect: Dialect
    literals: tuple[LiteralValue, ...]
    slots: tuple[_Slot, ...]
    fixed: tuple[int, ...]
    lists: tuple[tuple[int, ...], ...]
    patterns: tuple[tuple[int, bool], ...] = ()

    def bind(self, written: list[str]) -> list[LiteralValue] | None:
        """The filter's literals for the literals of another text of this shape and key; None if that text has to be
        compiled.
        """
        values = list(self.literals)
        for slot in self.slots:
            value = literal_value(written[slot.literal], slot.kind, self.dialect)
            if value is None:
                return None
            values[slot.place] = -value if slot.negative else value  # type: ignore[operator,assignment]  # only numbers are negative
        for places in self.lists:
            if len({(type(values[place]), values[place]) for place in places}) < len(places):
                return None
        return values if all(_is_pattern(values[place], ignore_case) for place, ignore_case in self.patterns) else None


def make_template(
    shape: Shape, literals: list[str], dialect: Dialect, compiled: Callable[[str], QueryContext]
) -> Template | None:
    """The template of a text; None if no literal of it may be exchanged.

    Args:
        compiled: parses and compiles a text; may raise PinotError.
    """
    context = compiled(text_of(shape, literals))
    if context.explain or reads_clock(context) or context.filter is None:
        return None
    expected, values = encode_context(context), literals_of(context.filter)
    kinds = [shape.parts[place] for place in shape.places]
    slots, marked = [], list(literals)
    for index, kind in enumerate(kinds):
        mark = _mark(kind, index)
        slot = _found(_with(literals, index, mark), index, kind, shape, dialect, values, expected, compiled)
        if slot is not None:
            slots.append(slot)
            marked[index] = mark
    if (
        not slots
        or len({slot.place for slot in slots}) < len(slots)
        or not _may_stand_together(marked, slots, shape, values, expected, compiled)
    ):
        return None
    lists, patterns = [], []
    place = 0
    places = {slot.place for slot in slots}
    for predicate in predicates_of(context.filter):
        own = tuple(range(place, place + len(predicate_literals(predicate))))
        place += len(own)
        if predicate.comparison not in _SLOTS and places.intersection(own):
            return None
        if len(predicate.values) > 1:
            lists.append(own)
        if predicate.comparison is Comparison.REGEXP_LIKE:
            patterns.append((own[0], "i" in predicate.flags))
    fixed = tuple(sorted(set(range(len(literals))) - {slot.literal for slot in slots}))
    return Template(context, dialect, tuple(values), tuple(slots), fixed, tuple(lists), tuple(patterns))


def _is_pattern(value: LiteralValue, ignore_case: bool) -> bool:
    try:
        regexp_pattern(str(value), ignore_case=ignore_case)
    except PinotError:
        return False
    return True


def _mark(kind: str, index: int) -> str:
    """A literal that nobody writes."""
    if kind == "s":
        return f"'slot {index} of 7 090 403'"
    return f"{7_090_403_000 + index}" if kind == "i" else f"{7_090_403 + index}.25"


def _with(literals: list[str], index: int, literal: str) -> list[str]:
    return [*literals[:index], literal, *literals[index + 1 :]]


def _found(
    marked: list[str],
    index: int,
    kind: str,
    shape: Shape,
    dialect: Dialect,
    values: list[LiteralValue],
    expected: bytes,
    compiled: Callable[[str], QueryContext],
) -> _Slot | None:
    """Where the filter has the marked literal, if that is all that it changed."""
    try:
        context = compiled(text_of(shape, marked))
    except PinotError:
        return None
    literals = literals_of(context.filter)
    mark = literal_value(marked[index], kind, dialect)
    if len(literals) != len(values) or mark is None:
        return None
    places = [
        i for i, (old, new) in enumerate(zip(values, literals, strict=True)) if type(old) is not type(new) or old != new
    ]
    if len(places) != 1:
        return None
    value = literals[places[0]]
    negative = kind != "s" and type(value) is type(mark) and value == -mark  # type: ignore[operator]  # a number
    if not negative and (type(value) is not type(mark) or value != mark):
        return None
    slot = _Slot(index, places[0], kind, negative)
    # Put back what stood there: the very same bytes.
    return slot if encode_context(with_literals(context, values)) == expected else None


def _may_stand_together(
    marked: list[str],
    slots: list[_Slot],
    shape: Shape,
    values: list[LiteralValue],
    expected: bytes,
    compiled: Callable[[str], QueryContext],
) -> bool:
    try:
        context = compiled(text_of(shape, marked))
    except PinotError:
        return False
    literals = literals_of(context.filter)
    places = {slot.place for slot in slots}
    if len(literals) != len(values) or any(
        type(a) is type(b) and a == b for i, (a, b) in enumerate(zip(values, literals, strict=True)) if i in places
    ):
        return False
    return encode_context(with_literals(context, values)) == expected
