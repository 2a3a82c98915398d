"""What an answer over the segments that pruning leaves must share with the one over all segments."""

from __future__ import annotations

import random
from typing import Any, Final

from random_tables import RandomColumn, RandomTable

# Keys that may be in one of the two answers alone. `warnings` names how many stored nulls counted as default values in
# the segments that were read (docs/differences.md, "warnings"): those of a segment that was left out are not counted,
# and where none is counted the key is not there.
ONE_MAY_LACK: Final = frozenset({"warnings"})
# Of the keys that both have, those whose values must be equal (the first one: see `same_form`); all others say how much
# was read, by whom and when.
EQUAL_VALUES: Final = ("totalDocs", "partialResult", "exactness", "numGroupsLimitReached", "numRowsResultSet")


def same_form(pruned: dict[str, Any], over_all: dict[str, Any]) -> None:
    """Raise AssertionError unless both have the same keys, columns, exception codes and docs of the table."""
    difference = (pruned.keys() ^ over_all.keys()) - ONE_MAY_LACK
    assert not difference, f"one answer alone has {sorted(difference)}"
    assert codes(pruned) == codes(over_all), f"{pruned['exceptions']} pruned, {over_all['exceptions']} over all"
    # Who refuses counts no docs. Where only some servers do, as the others have no rows that it concerns, the number of
    # docs is that of the others, whichever they are.
    is_mixed = bool(codes(over_all)) and over_all["totalDocs"] > 0
    for key in EQUAL_VALUES[is_mixed:]:
        assert pruned.get(key) == over_all.get(key), f"{key}: {pruned.get(key)} pruned, {over_all.get(key)} over all"
    assert columns(pruned) == columns(over_all)


def codes(answer: dict[str, Any]) -> list[int]:
    return [exception["errorCode"] for exception in answer["exceptions"]]


def columns(answer: dict[str, Any]) -> Any:
    """Names and types of SQL's columns, names of PQL's."""
    if "resultTable" in answer:
        return answer["resultTable"]["dataSchema"]
    if "selectionResults" in answer:
        return answer["selectionResults"]["columns"]
    found = answer.get("aggregationResults")
    return found and [(each["function"], each.get("groupByColumns"), sorted(each)) for each in found]


def counters(answer: dict[str, Any]) -> tuple[Any, ...]:
    """What does not depend on who prunes."""
    return (
        answer["numSegmentsQueried"] + answer["numSegmentsPrunedByBroker"],
        answer["numSegmentsMatched"],
        answer["numDocsScanned"],
    )


def broken_question(rng: random.Random, table: RandomTable, where: str) -> str:
    """A question that is refused, with or without this condition, which may leave few segments or none."""
    column = rng.choice(table.columns)
    name = column.name
    wrong = [f"{name} + nosuch > 1", "nosuch = 1", f"nosuch({name}) = 1", f"{name} IN ()", f"{name} BETWEEN 1"]
    wrong += _refused_conditions(column)
    selected = [
        "nosuch",
        f"nosuch({name})",
        f"{name}, COUNT(*), SUM(nosuch)",
        "SUM()",
        "COUNT(DISTINCT)",
        f"DATETRUNC('NONSENSE', {name})",
        *_refused_aggregations(column),
    ]
    match rng.randrange(5):
        case 0 | 1:
            condition = rng.choice(wrong)
            joined = rng.choice([f"{where} AND {condition}", f"{condition} OR {where}", f"({where}) AND ({condition})"])
            return f"SELECT COUNT(*) FROM t WHERE {joined}"
        case 2 | 3:
            return f"SELECT {rng.choice(selected)} FROM t WHERE {where}"
        case _:
            tail = rng.choice(
                [
                    f"GROUP BY nosuch(({name})",
                    "GROUP BY nosuch",
                    "ORDER BY nosuch LIMIT 3",
                    "LIMIT -1",
                    f"GROUP BY {name} HAVING SUM(nosuch) > 1",
                    "GROUP BY",
                ]
            )
            return f"SELECT COUNT(*) FROM t WHERE {where} {tail}"


def _refused_conditions(column: RandomColumn) -> list[str]:
    name = column.name
    match column.type:
        case "INT" | "LONG" | "FLOAT" | "DOUBLE" | "BIG_DECIMAL":
            return [f"{name} = 'word'", f"{name} IN (1, 'word')", f"{name} > 'word'"]
        case "BYTES":
            return [f"{name} = 'xyz'", f"{name} IN ('00', 'q')"]
        case "TIMESTAMP":
            return [f"{name} > 'no time'"]
        case "BOOLEAN":
            return [f"{name} = 'perhaps'"]
        case _:
            return [f"regexp_like({name}, '(')"]


def _refused_aggregations(column: RandomColumn) -> list[str]:
    name = column.name
    if not column.single_value:
        return [f"SUM({name})", f"{name} + 1"]
    if column.type in ("STRING", "BYTES"):
        return [f"SUM({name})", f"AVG({name})", f"MAX({name})", f"SUMMV({name})", f"PERCENTILE50({name})"]
    return [f"SUMMV({name})", f"PERCENTILE({name}, 101)", f"DISTINCTCOUNTMV({name})"]
