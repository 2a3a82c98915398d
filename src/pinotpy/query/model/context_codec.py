"""QueryContext ⇄ bytes: what a broker sends to servers. JSON, versioned, decoded strictly.

Expressions and filters are flat lists in postfix order (children before their parent, which says how many it takes), so
that neither side recurses, however deep they nest. Positions are not sent. A literal value is null or [tag, text]: "i"
whole number of any size, "f" double (NaN and infinities included), "d" decimal, "s" string, "b" boolean, "x" bytes in
hex.

    expression  ["i",name] ["l",value,text,is_string] ["*"] ["c",name,args,distinct,has_filter]
                ["a",index]: AggregationRef
    filter      ["and",n] ["or",n] ["not"] ["const",bool] ["p",lhs,comparison,values,lower,upper,flags,escape]
                ["e",expression]
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields
from decimal import Decimal, InvalidOperation
from typing import Any, Final, TypeVar

import orjson

from pinotpy.data_types import DataType
from pinotpy.errors import DataError, UnsupportedVersionError
from pinotpy.pql.ast import Call, Dialect, Expression, Identifier, Literal, Star
from pinotpy.query.model.context import (
    Aggregation,
    AggregationRef,
    And,
    Bound,
    ColumnRef,
    Comparison,
    Constant,
    ExpressionPredicate,
    Filter,
    Not,
    Or,
    OrderBy,
    OutputColumn,
    Predicate,
    QueryContext,
    QueryKind,
    QueryOptions,
)

VERSION: Final = 1
CONTEXT_BYTES_MAX: Final = 16 * 1024 * 1024
_T = TypeVar("_T")


def encode_context(context: QueryContext) -> bytes:
    """The context as bytes; `decode_context` gives an equal one back."""
    return orjson.dumps(
        {
            "v": VERSION,
            "dialect": context.dialect.value,
            "kind": context.kind.value,
            "table": context.table,
            "output": [[column.name, _expression_out(column.expression)] for column in context.output],
            "filter": _filter_out(context.filter),
            "groupBy": [_expression_out(expression) for expression in context.group_by],
            "aggregations": [
                [a.function, [_expression_out(arg) for arg in a.args], a.name, _filter_out(a.filter)]
                for a in context.aggregations
            ],
            "having": _filter_out(context.having),
            "orderBy": [[_expression_out(key.expression), key.ascending, key.nulls_last] for key in context.order_by],
            "limit": context.limit,
            "offset": context.offset,
            "nullHandling": context.null_handling,
            "columns": [
                [column.name, column.data_type.value, column.single_value, write_value(column.default_null)]
                for column in context.columns
            ],
            "options": {item.name: getattr(context.options, item.name) for item in fields(QueryOptions)},
            "explain": context.explain,
            # Only where there are some: a server that does not know the key cannot answer such a query, and says so.
            **({"userFunctions": context.user_functions} if context.user_functions else {}),
        }
    )


def decode_context(data: bytes) -> QueryContext:
    """Inverse of `encode_context`.

    Raises:
        UnsupportedVersionError: another version's bytes.
        DataError: anything else that `encode_context` never writes.
    """
    if len(data) > CONTEXT_BYTES_MAX:
        raise DataError(f"expected at most {CONTEXT_BYTES_MAX} bytes of query context, found {len(data)}")
    try:
        return _context_in(orjson.loads(data))
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, InvalidOperation, OverflowError) as error:
        raise DataError(f"a query context cannot be read: {type(error).__name__}: {str(error)[:200]}") from error


# --- out -----------------------------------------------------------------------------------------------------------


def write_value(value: object) -> list[str] | None:
    """A literal as JSON."""
    if value is None:
        return None
    if isinstance(value, bool):
        return ["b", "1" if value else "0"]
    if isinstance(value, int):
        return ["i", str(value)]
    if isinstance(value, float):
        return ["f", repr(value)]
    if isinstance(value, Decimal):
        return ["d", str(value)]
    if isinstance(value, bytes):
        return ["x", value.hex()]
    assert isinstance(value, str), type(value)
    return ["s", value]


def _values_out(values: tuple[object, ...]) -> list[list[str] | None]:
    """Literals as JSON; long lists are of one type."""
    if set(map(type, values)) == {int}:
        return [["i", str(value)] for value in values]
    return [write_value(value) for value in values]


def _expression_out(expression: Expression | AggregationRef) -> list[list[Any]]:
    # Parents before children, right to left; reversed at the end.
    flat: list[list[Any]] = []
    stack: list[Expression | AggregationRef] = [expression]
    while stack:
        node = stack.pop()
        if isinstance(node, Identifier):
            flat.append(["i", node.name])
        elif isinstance(node, Literal):
            flat.append(
                [
                    "l",
                    write_value(node.value),
                    node.text,
                    node.is_string,
                    *([] if node.data_type is None else [node.data_type.value]),
                ]
            )
        elif isinstance(node, Star):
            flat.append(["*"])
        elif isinstance(node, AggregationRef):
            flat.append(["a", node.index])
        else:
            flat.append(["c", node.name, len(node.args), node.distinct, node.filter is not None])
            stack.extend(node.args)
            if node.filter is not None:
                stack.append(node.filter)
    flat.reverse()
    return flat


def _filter_out(root: Filter | None) -> list[list[Any]] | None:
    if root is None:
        return None
    flat: list[list[Any]] = []
    stack: list[Filter] = [root]
    while stack:
        node = stack.pop()
        if isinstance(node, And | Or):
            flat.append(["and" if isinstance(node, And) else "or", len(node.children)])
            stack.extend(node.children)
        elif isinstance(node, Not):
            flat.append(["not"])
            stack.append(node.child)
        elif isinstance(node, Constant):
            flat.append(["const", node.value])
        elif isinstance(node, Predicate):
            bounds = [
                None if bound is None else [write_value(bound.value), bound.inclusive]
                for bound in (node.lower, node.upper)
            ]
            values = _values_out(node.values)
            flat.append(
                ["p", _expression_out(node.lhs), node.comparison.value, values, *bounds, node.flags, node.escape]
            )
        else:
            flat.append(["e", _expression_out(node.expression)])
    flat.reverse()
    return flat


# --- in ------------------------------------------------------------------------------------------------------------


def _context_in(raw: Any) -> QueryContext:
    version = _of(dict, raw).get("v")
    if version != VERSION or isinstance(version, bool):
        raise UnsupportedVersionError("a query context cannot be read", found=version, supported=VERSION)
    known = {
        "v",
        "dialect",
        "kind",
        "table",
        "output",
        "filter",
        "groupBy",
        "aggregations",
        "having",
        "orderBy",
        "limit",
        "offset",
        "nullHandling",
    }
    if unknown := raw.keys() - known - {"columns", "options", "explain", "userFunctions"}:
        raise ValueError(f"unknown keys {sorted(unknown)}")
    context = QueryContext(
        dialect=Dialect(raw["dialect"]),
        kind=QueryKind(raw["kind"]),
        table=_of(str, raw["table"]),
        output=tuple(OutputColumn(_of(str, name), _expression_in(expression)) for name, expression in raw["output"]),
        filter=_filter_in(raw["filter"]),
        group_by=tuple(_plain(expression) for expression in raw["groupBy"]),
        aggregations=tuple(
            Aggregation(_of(str, function), tuple(_plain(arg) for arg in args), _of(str, name), _filter_in(condition))
            for function, args, name, condition in raw["aggregations"]
        ),
        having=_filter_in(raw["having"]),
        order_by=tuple(
            OrderBy(
                _expression_in(expression), _of(bool, ascending), None if nulls_last is None else _of(bool, nulls_last)
            )
            for expression, ascending, nulls_last in raw["orderBy"]
        ),
        limit=_count(raw["limit"]),
        offset=_count(raw["offset"]),
        null_handling=_of(bool, raw["nullHandling"]),
        columns=tuple(
            ColumnRef(_of(str, name), DataType(data_type), _of(bool, single), _default_in(data_type, default))
            for name, data_type, single, default in raw["columns"]
        ),
        options=_options_in(raw["options"]),
        explain=_of(bool, raw["explain"]),
        user_functions=tuple((_of(str, name), _of(str, signature)) for name, signature in raw.get("userFunctions", ())),
    )
    _check_indexes(context)
    return context


def _check_indexes(context: QueryContext) -> None:
    """Every AggregationRef points to an aggregation."""
    count = len(context.aggregations)
    for expression in [
        *(column.expression for column in context.output),
        *(key.expression for key in context.order_by),
    ]:
        if isinstance(expression, AggregationRef) and expression.index >= count:
            raise ValueError(f"aggregation {expression.index} of {count}")


def _options_in(raw: Any) -> QueryOptions:
    values = dict(_of(dict, raw))
    other = tuple((_of(str, name), _of(str, value)) for name, value in values.pop("other"))
    for item in fields(QueryOptions):
        if item.name == "other":
            continue
        value = values[item.name]
        if item.type == "bool":
            _of(bool, value)
        elif item.type == "bool | None":
            value is None or _of(bool, value)
        elif value is not None:
            _count(value)
    return QueryOptions(**values, other=other)


def _of(expected: type[_T], value: Any) -> _T:
    if type(value) is not expected:
        raise TypeError(f"expected {expected.__name__}, found {type(value).__name__}")
    return value


def _count(value: Any) -> int:
    if _of(int, value) < 0:
        raise ValueError(f"expected 0 or more, found {value}")
    return int(value)


def _decimal(text: str) -> Decimal:
    value = Decimal(text)
    if not value.is_finite():
        raise ValueError("a decimal is finite")
    return value


_VALUES: Final[dict[str, Callable[[str], Any]]] = {
    "i": int,
    "f": lambda text: math.nan if text == "nan" else float(text),  # NaN is one object, so that it equals itself
    "d": _decimal,
    "s": str,
    "x": bytes.fromhex,
    "b": lambda text: {"0": False, "1": True}[text],
}


def read_value(raw: Any) -> Any:
    """Inverse of `write_value`; raises ValueError, TypeError, KeyError or decimal's errors for what it never writes."""
    if raw is None:
        return None
    tag, text = raw
    return _VALUES[tag](_of(str, text))


def _values_in(raw: Any) -> tuple[Any, ...]:
    """Inverse of `_values_out`; raises what `read_value` does."""
    if len(raw) > 1 and all(raw):
        tags, texts = zip(*raw, strict=True)
        if len(set(tags)) == 1 and set(map(type, texts)) == {str} and set(map(len, raw)) == {2}:
            return texts if tags[0] == "s" else tuple(map(_VALUES[tags[0]], texts))
    return tuple(map(read_value, raw))


def _default_in(data_type: str, raw: Any) -> Any:
    """The default of a column; it goes to kernels as a value of the column's type, so a wrong one is refused here."""
    value = read_value(raw)
    stored = DataType(data_type).stored
    expected = bytes if not stored.is_fixed else int if stored.is_integer else float
    if value is not None and (not isinstance(value, expected) or isinstance(value, bool)):
        raise TypeError(f"expected a default of type {data_type}, found {raw!r}")
    return value


def _plain(raw: Any) -> Expression:
    expression = _expression_in(raw)
    if isinstance(expression, AggregationRef):
        raise TypeError("expected an expression, found a reference to an aggregation")
    return expression


def _expression_in(raw: Any) -> Expression | AggregationRef:
    stack: list[Any] = []
    for node in _of(list, raw):
        tag, *rest = node
        if tag == "i":
            (name,) = rest
            stack.append(Identifier(_of(str, name)))
        elif tag == "l":
            value, text, is_string, *typed = rest
            data_type = DataType(typed.pop()) if typed else None
            () = typed
            stack.append(Literal(read_value(value), _of(str, text), _of(bool, is_string), data_type=data_type))
        elif tag == "*":
            () = rest
            stack.append(Star())
        elif tag == "c":
            name, count, distinct, has_filter = rest
            condition = _pop(stack, 1)[0] if _of(bool, has_filter) else None
            args = _pop(stack, _count(count))
            if any(isinstance(arg, AggregationRef) for arg in args) or isinstance(condition, AggregationRef):
                raise TypeError("a reference to an aggregation stands alone")
            stack.append(Call(_of(str, name), tuple(args), _of(bool, distinct), condition))
        elif tag == "a":
            (index,) = rest
            stack.append(AggregationRef(_count(index)))
        else:
            raise ValueError(f"unknown expression {tag!r}")
    (expression,) = stack
    return expression  # type: ignore[no-any-return]


def _pop(stack: list[_T], count: int) -> list[_T]:
    """The last `count` entries, first written first (the writer reversed its list)."""
    if count > len(stack):
        raise ValueError("too few children")
    taken = stack[len(stack) - count :]
    del stack[len(stack) - count :]
    return taken


def _bound_in(raw: Any) -> Bound | None:
    if raw is None:
        return None
    value, inclusive = raw
    return Bound(read_value(value), _of(bool, inclusive))


def _filter_in(raw: Any) -> Filter | None:
    if raw is None:
        return None
    stack: list[Filter] = []
    for node in _of(list, raw):
        tag, *rest = node
        if tag in ("and", "or"):
            (count,) = rest
            children = tuple(_pop(stack, _count(count)))
            stack.append(And(children) if tag == "and" else Or(children))
        elif tag == "not":
            () = rest
            stack.append(Not(_pop(stack, 1)[0]))
        elif tag == "const":
            (value,) = rest
            stack.append(Constant(_of(bool, value)))
        elif tag == "p":
            lhs, comparison, values, lower, upper, flags, escape = rest
            bounds = _bound_in(lower), _bound_in(upper)
            literals = _values_in(values)
            stack.append(
                Predicate(_plain(lhs), Comparison(comparison), literals, *bounds, _of(str, flags), _of(str, escape))
            )
        elif tag == "e":
            (expression,) = rest
            stack.append(ExpressionPredicate(_plain(expression)))
        else:
            raise ValueError(f"unknown filter {tag!r}")
    (root,) = stack
    return root
