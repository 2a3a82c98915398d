"""The parts of an answer besides its rows, as lines of text: the plan of PQL's EXPLAIN PLAN FOR (key `explain`) and the
trace.

BROKER_REDUCE(limit:10)
  COMBINE_AGGREGATE
    12 segments (flights_2013-01, …) of 24,951 to 29,425 docs
      AGGREGATE(aggregations:sum_distance), docs: scan of the filter
        EQ carrier = 'AA': inverted index, its list is read (docs: 1,200 to 3,000)
          not used: sorted index (the column is not sorted)
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

_STEP: Final = "  "
# Keys of a stage that are no numbers of it.
_OF_STAGE: Final = ("operator", "timeMs", "children")
# Trees are as deep as conditions are nested, and so are the answers of strangers: below this nothing is told.
_DEPTH_MAX: Final = 100


def plan_lines(explain: Mapping[str, Any]) -> list[str]:
    """The operators of broker and servers, then each group of segments that run the same plan, with its filter's
    findings.
    """
    lines = [str(explain.get("broker", ""))]
    if explain.get("server"):
        lines.append(_STEP + str(explain["server"]))
    for group in explain.get("plans") or []:
        lines += [_STEP * 2 + line for line in _group(group)]
    return lines


def trace_lines(trace: Mapping[str, Any]) -> list[str]:
    """Every server's stages, and the broker's: operator, milliseconds, then rows and whatever else was counted."""
    lines = []
    for server, stages in trace.items():
        lines.append(f"{server}:")
        lines += [_STEP + line for stage in _stages(stages) for line in _stage(stage)]
    return lines


def _group(group: Mapping[str, Any]) -> Iterator[str]:
    names = [str(name) for name in group.get("names") or []]
    count = group.get("segments", len(names))
    shown = f" ({', '.join(names)}{', …' if count > len(names) else ''})" if names else ""
    yield f"{_number(count)} segment{'' if count == 1 else 's'}{shown}{_of_docs(group, ' of {} docs')}"
    if "pruned" in group:
        yield f"{_STEP}pruned by {group['pruned'].get('rule')}: {group['pruned'].get('why')}"
    if "operator" in group:
        operator = group["operator"]
        yield (
            f"{_STEP}{operator.get('name')}({operator.get('arguments', '')}), {operator.get('way')}: "
            f"{operator.get('why')}"
        )
        if operator.get("columns"):
            yield (
                f"{_STEP * 2}reads {', '.join(map(str, operator['columns']))}{_of_docs(group, ' of {} docs', 'toRead')}"
            )
    if "filter" in group:
        yield from (_STEP * 2 + line for line in _condition(group["filter"]))


def _condition(node: Mapping[str, Any], depth: int = 0) -> Iterator[str]:
    if "children" in node:
        yield str(node.get("operator"))
        if depth < _DEPTH_MAX:
            for child in node["children"]:
                yield from (_STEP + line for line in _condition(child, depth + 1))
        return
    yield (
        f"{node.get('operator')} {node.get('predicate')}: {node.get('access')}, "
        f"{node.get('why')}{_of_docs(node, ' (docs: {})')}"
    )
    unused = [f"{index.get('index')} ({index.get('why')})" for index in node.get("notUsed") or []]
    if unused:
        yield f"{_STEP}not used: {'; '.join(unused)}"


def _stages(given: Any) -> list[Any]:
    """Brokers send each server's stages as JSON text; anything else is shown unchanged."""
    try:
        stages = json.loads(given) if isinstance(given, str) else given
    except ValueError:
        return [given]
    return stages if isinstance(stages, list) else [stages]


def _stage(stage: Any, depth: int = 0) -> Iterator[str]:
    if not isinstance(stage, Mapping) or "operator" not in stage:
        yield stage if isinstance(stage, str) else json.dumps(stage, ensure_ascii=False)
        return
    counted = [f"{name} {_number(value)}" for name, value in stage.items() if name not in _OF_STAGE]
    time_ms = stage.get("timeMs")
    taken = f" {time_ms:,.3f} ms" if isinstance(time_ms, int | float) else ""
    counts = f": {', '.join(counted)}" if counted else ""
    yield f"{stage['operator']}{taken}{counts}"
    if depth < _DEPTH_MAX:
        for child in stage.get("children") or []:
            yield from (_STEP + line for line in _stage(child, depth + 1))


def _of_docs(finding: Mapping[str, Any], text: str, key: str = "docs") -> str:
    """`text` with the finding's least and most docs; nothing if it has none."""
    if not finding.get(key):
        return ""
    least, most = finding[key][0], finding[key][-1]
    return text.format(_number(least) if least == most else f"{_number(least)} to {_number(most)}")


def _number(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:,}" if isinstance(value, int | float) else str(value)
