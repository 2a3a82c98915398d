"""The functions that a daemon knows, as GET /functions shows them."""

from __future__ import annotations

from typing import Any

from pinotpy.functions.user.user_functions import UserFunction
from pinotpy.pql.aggregation_names import find_aggregation


def function_list() -> list[dict[str, Any]]:
    """Aggregations and scalar functions by name, the user-defined ones among them.

    Each has name, kind (AGGREGATION or SCALAR), signature, summary, aliases, numArgumentsMin, numArgumentsMax (null: no
    bound), userDefined, and examples; of a user-defined one also argumentTypes and resultType.
    """
    # Imported when asked: a controller needs neither Arrow nor kernels for anything else.
    from pinotpy.functions import spec as aggregations
    from pinotpy.functions.scalar import spec as scalars

    known = [_aggregation(function) for name, function in aggregations.functions().items() if name == function.name]
    known += [
        _scalar(function, scalars.MANY)
        for name, function in scalars.scalar_functions().items()
        if name == function.name
    ]
    return sorted(known, key=lambda entry: (entry["name"], entry["kind"]))


def _aggregation(function: Any) -> dict[str, Any]:
    named = find_aggregation(function.name)
    argument = "multi-value column" if function.multi_value else "x"
    return {
        "name": function.name,
        "kind": "AGGREGATION",
        "signature": f"{function.display_name}({argument}{function.parameters})",
        "summary": function.summary,
        "aliases": list(function.aliases),
        "numArgumentsMin": named[0].arguments_min if named is not None else 1,
        "numArgumentsMax": named[0].arguments_max if named is not None else 1,
        "userDefined": False,
        "examples": [
            {"expression": function.examples[function.name].call, "value": function.examples[function.name].value}
        ],
    }


def _scalar(function: Any, many: int) -> dict[str, Any]:
    entry = {
        "name": function.name,
        "kind": "SCALAR",
        "signature": function.signature,
        "summary": function.summary,
        "aliases": list(function.aliases),
        "numArgumentsMin": function.arguments_min,
        "numArgumentsMax": function.arguments_max if function.arguments_max < many else None,
        "userDefined": function.origin is not None,
        "examples": [
            {"expression": example.expression, "value": _shown(example.value)} for example in function.examples
        ],
    }
    if isinstance(function.origin, UserFunction):
        entry |= {
            "argumentTypes": [
                {"name": name, "dataType": data_type.value} for name, data_type in function.origin.parameters
            ],
            "resultType": function.origin.result.value,
        }
    return entry


def _shown(value: Any) -> Any:
    """An example's value in JSON: what JSON has no form for is text (NaN, bytes as hex)."""
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    if isinstance(value, list | tuple):
        return [_shown(item) for item in value]
    if isinstance(value, bytes):
        return value.hex()
    return value if isinstance(value, int | str | None) else str(value)
