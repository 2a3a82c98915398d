"""Replays what the reference really answered: rows, names, number text, error codes and counters of every recorded query
whose functions exist so far, over the same data in the same segments (and in the recording's other split).

A line passes when our answer equals the recorded one, or when a named rule of docs/differences.md explains the difference.
Lines with functions of later issues are counted by function, not passed silently. Independent: the reference's answers.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from in_process import InProcessCluster

from pinotpy.broker.handler import parse_key_values
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.ingest.ledger import RowLedger
from pinotpy.ingest.pipeline import RowPipeline, read_rows
from pinotpy.ingest.readers.catalog import format_from_text
from pinotpy.ingest.readers.spec import InputFile

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
DATA = Path(os.environ.get("PINOTPY_DATA", REPOSITORY.parent / "shared" / "data"))

# Functions that exist so far; a recorded query with any other is counted as "later".
FUNCTIONS = frozenset(
    [
        *("count", "sum", "min", "max", "avg", "minmaxrange", "distinctcount"),
        *("countmv", "summv", "minmv", "maxmv", "avgmv", "minmaxrangemv", "distinctcountmv"),
        *("distinct", "regexplike", "and", "or", "not", "in", "between", "like", "values", "top", "limit", "option"),
    ]
)


@dataclass(frozen=True)
class Recording:
    """One file of recorded answers and how its tables are loaded: name → (schema, config, input files, cuts)."""

    name: str
    dialect: str
    num_lines: int
    tables: tuple[str, ...]


RECORDINGS = (
    Recording("types_pql", "pql", 395, ("typesTest",)),
    Recording("types_sql15", "sql", 1313, ("typesTest15", "nullTest15")),
    Recording("baseball_pql", "pql", 588, ("baseballStats",)),
    Recording("airline_pql", "pql", 206, ("airlineStats",)),
    Recording("baseball_sql15", "sql", 509, ("baseballStats",)),
)


def _documents(table: str) -> tuple[Path, Path, list[Path], str]:
    """Schema, config, input files and format of a table."""
    if table == "baseballStats":
        folder = DATA / table
        return folder / "baseballStats_schema.json", folder / "baseballStats_offline_table_config.json", [folder / "baseballStats.csv"], "CSV"
    if table == "airlineStats":
        folder = DATA / table
        files = sorted((folder / "rawdata").rglob("*.avro"))
        return folder / "airlineStats_schema.json", folder / "airlineStats_offline_table_config.json", files, "AVRO"
    avro = "typesTest.avro" if table == "typesTest" else "typesTest15.avro"
    return HERE / f"{table}_schema.json", HERE / f"{table}_config.json", [HERE / avro], "AVRO"


def _splits(table: str, alternative: bool) -> int:
    """Segments per input file (rows in order), or for airlineStats 0 = all files in one."""
    return {
        ("baseballStats", False): 1,
        ("baseballStats", True): 4,
        ("airlineStats", False): 1,
        ("airlineStats", True): 0,
        ("typesTest", False): 3,
        ("typesTest", True): 1,
        ("typesTest15", False): 1,
        ("typesTest15", True): 4,
        ("nullTest15", False): 1,
        ("nullTest15", True): 4,
    }[table, alternative]


def load(cluster: InProcessCluster, table: str, *, alternative: bool) -> None:
    schema_file, config_file, files, kind = _documents(table)
    document = json.loads(schema_file.read_text())
    document.pop("complexFieldSpecs", None)  # MAP columns are a later issue
    schema = Schema.from_json(document)
    config_document = json.loads(config_file.read_text())
    columns = set(schema.field_specs)
    indexing = config_document["tableIndexConfig"]
    indexing["noDictionaryColumns"] = [c for c in indexing.get("noDictionaryColumns", []) if c in columns]
    config = TableConfig.from_json(config_document)
    pipeline = RowPipeline(schema, config)
    batches = [list(read_rows(InputFile(file), format_from_text(kind), pipeline, RowLedger(str(file)))) for file in files]
    parts = _splits(table, alternative)
    if parts == 0:
        splits = [[batch for file in batches for batch in file]]
    elif parts == 1:
        splits = batches
    else:
        import pyarrow as pa

        whole = pa.Table.from_batches(batches[0]).combine_chunks()
        size = -(-whole.num_rows // parts)
        splits = [whole.slice(i * size, size).to_batches() for i in range(parts)]
    cluster.add_table(schema, config, splits)


def lines(name: str) -> Iterator[dict[str, Any]]:
    with gzip.open(HERE / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


# --- scope ---------------------------------------------------------------------------------------------------------

_CALL = re.compile(r"([A-Za-z_$][A-Za-z0-9_]*)\s*\(")
_STRINGS = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"")


def later_functions(text: str) -> set[str]:
    """Functions of a query that later issues bring."""
    bare = _STRINGS.sub("''", text)
    names = {name.lower().replace("_", "") for name in _CALL.findall(bare)}
    return names - FUNCTIONS


LATER_WORDS = re.compile(
    r"\b(CASE|CAST|COALESCE|EXTRACT|FILTER|EXPLAIN|mapC|TEXT_MATCH|JSON_MATCH|DISTINCT FROM|maxQueryResponseSizeBytes)\b|\$(docId|hostName|segmentName)",
    re.IGNORECASE,
)
LATER_FAULTS = ("Unsupported function", "unsupported function", "no aggregation is called")


def is_later_fault(answer: dict[str, Any]) -> bool:
    """We say ourselves that a function is one of a later issue."""
    return any(fault["message"].partition(":")[2].strip().startswith(LATER_FAULTS) for fault in answer["exceptions"])


# --- comparison ----------------------------------------------------------------------------------------------------


def compare(expected: dict[str, Any], ours: dict[str, Any], line: dict[str, Any], *, check_order: bool) -> str | None:
    """None if equal, else what differs first."""
    if "httpStatus" in expected:
        return None  # HTTP is replayed against a real broker
    codes = [e["errorCode"] for e in expected.get("exceptions") or []]
    our_codes = [e["errorCode"] for e in ours["exceptions"]]
    if codes or our_codes:
        return None if set(codes) & set(our_codes) else f"codes: recorded {codes}, ours {our_codes} {[e['message'][:200] for e in ours['exceptions']]}"
    for key in ("selectionResults", "aggregationResults", "resultTable"):
        if (key in expected and expected[key] is not None) != (key in ours):
            return f"key {key}: recorded {key in expected}, ours {key in ours}"
    difference = _results(expected, ours, check_order)
    if difference:
        return difference
    for counter in ("numDocsScanned", "totalDocs", "numGroupsLimitReached"):
        if counter in expected and expected[counter] != ours.get(counter) and line.get("stats_stable", True) and line.get("stable", True):
            return f"{counter}: recorded {expected[counter]}, ours {ours.get(counter)}"
    return None


def _results(expected: dict[str, Any], ours: dict[str, Any], check_order: bool) -> str | None:
    if expected.get("selectionResults"):
        a, b = expected["selectionResults"], ours["selectionResults"]
        if a["columns"] != b["columns"]:
            return f"columns: recorded {a['columns']}, ours {b['columns']}"
        return _rows(a["results"], b["results"], check_order)
    if expected.get("resultTable"):
        a, b = expected["resultTable"], ours["resultTable"]
        for part in ("columnNames", "columnDataTypes"):
            if a["dataSchema"][part] != b["dataSchema"][part]:
                return f"{part}: recorded {a['dataSchema'][part]}, ours {b['dataSchema'][part]}"
        return _rows(a["rows"], b["rows"], check_order)
    if expected.get("aggregationResults") is not None:
        a, b = expected["aggregationResults"], ours["aggregationResults"]
        if len(a) != len(b):
            return f"aggregations: recorded {len(a)}, ours {len(b)}"
        for x, y in zip(a, b, strict=True):
            if x["function"] != y["function"] or x.get("groupByColumns") != y.get("groupByColumns"):
                return f"function: recorded {x['function']} {x.get('groupByColumns')}, ours {y['function']} {y.get('groupByColumns')}"
            if "groupByResult" not in x:
                if not _same(x["value"], y["value"]):
                    return f"{x['function']}: recorded {x['value']}, ours {y['value']}"
                continue
            left = [[*g["group"], g["value"]] for g in x["groupByResult"]]
            right = [[*g["group"], g["value"]] for g in y["groupByResult"]]
            # Order by value is defined, among equal values it is not; at the cut any of them may stand.
            if len(left) != len(right) or not all(_same(p[-1], q[-1]) for p, q in zip(left, right, strict=True)):
                return f"{x['function']}: recorded {left[:4]}, ours {right[:4]}"
            cut = left[-1][-1] if left else None
            inner = [r for r in left if not _same(r[-1], cut)]
            difference = _rows(inner, [r for r in right if not _same(r[-1], cut)], False)
            if difference:
                return f"{x['function']}: {difference}"
    return None


def _rows(a: list[Any], b: list[Any], check_order: bool) -> str | None:
    if len(a) != len(b):
        return f"rows: recorded {len(a)}, ours {len(b)}: {a[:2]} {b[:2]}"
    if check_order:
        for x, y in zip(a, b, strict=True):
            if not _same(x, y):
                return f"row: recorded {x}, ours {y}"
        return None
    left, right = sorted(a, key=_sort_key), sorted(b, key=_sort_key)
    for x, y in zip(left, right, strict=True):
        if not _same(x, y):
            return f"row (any order): recorded {x}, ours {y}"
    return None


def _sort_key(row: Any) -> str:
    return json.dumps(row, sort_keys=True)


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return a == b or math.isclose(a, b, rel_tol=1e-9)
    if isinstance(a, str) and isinstance(b, str) and a != b:
        # Double sums in another order differ in the last places; the text keeps the number of decimals.
        try:
            x, y = float(a), float(b)
        except ValueError:
            return False
        return len(a.rpartition(".")[2]) == len(b.rpartition(".")[2]) and math.isclose(x, y, rel_tol=1e-9)
    return bool(a == b)


# --- rules ---------------------------------------------------------------------------------------------------------

Rule = Callable[[str, dict[str, Any], dict[str, Any]], bool]


def _codes(response: dict[str, Any]) -> list[int]:
    return [e["errorCode"] for e in response.get("exceptions") or []]


def _columns(response: dict[str, Any]) -> list[str]:
    return (response.get("selectionResults") or {"columns": []})["columns"]


def _has(*words: str) -> Callable[[str], bool]:
    return lambda text: any(word in text for word in words)


# rule of docs/differences.md → whether it explains the difference (text, recorded, ours)
COMMON_RULES: dict[str, Rule] = {
    # Where the reference answers for one encoding or filter and fails for another, we answer for all.
    "no-encoding-errors": lambda text, theirs, ours: bool(set(_codes(theirs)) & {200, 450, 500}) and not _codes(ours),
    "no-timeout-errors": lambda text, theirs, ours: (
        _codes(theirs) == [427] or (theirs.get("numServersResponded") == 0 and theirs.get("numServersQueried", 0) > 0)
    ),
}
RULES: dict[str, dict[str, Rule]] = {
    "pql": {
        "having": lambda text, theirs, ours: "HAVING" in text.upper() and _codes(theirs) == [150],
        "comments": lambda text, theirs, ours: _codes(theirs) == [150] and _has("--", "/*")(text),
        "carriage-return": lambda text, theirs, ours: _codes(theirs) == [150] and "\r" in text,
        "not-between": lambda text, theirs, ours: _codes(theirs) == [150] and "NOT BETWEEN" in text,
        "infix-arithmetic": lambda text, theirs, ours: _codes(theirs) == [150] and bool(set("+-*/") & set(text.replace("(*)", ""))),
        "unknown-column": lambda text, theirs, ours: _codes(ours) == [710],
        "option-text": lambda text, theirs, ours: _codes(ours) == [150] and "is not a valid entry" in ours["exceptions"][0]["message"],
        "offset-overflow": lambda text, theirs, ours: "sum up to at most" in str(ours["exceptions"]),
        "star-columns": lambda text, theirs, ours: "SELECT *" in text and _columns(theirs) == ["*"] and not _bags(ours)[0],
        "aligned-rows": lambda text, theirs, ours: bool(_columns(theirs)) and (any(len(json.loads(row)) < len(_columns(theirs)) for row in _bags(theirs)[0])),
        "literal-on-the-left": lambda text, theirs, ours: re.search(r"WHERE '[^']*' >", text) is not None,
        "order-by-counters": lambda text, theirs, ours: "ORDER BY" in text and not _codes(theirs) and not _codes(ours) and _results(theirs, ours, True) is None,
        "groovy": lambda text, theirs, ours: "Unsupported function: groovy" in str(ours["exceptions"]),
        "nan-order": lambda text, theirs, ours: "MAX(" in text and "NaN" in json.dumps(ours.get("aggregationResults")),
        "negative-zero": lambda text, theirs, ours: "GROUP BY mod(" in text,
        "distinct-offset": lambda text, theirs, ours: "DISTINCT(" in text and re.search(r"LIMIT \d+,", text) is not None,
        **COMMON_RULES,
    },
    "sql": {
        # The final pass of the reference's single server turns null keys and aggregates into '', 0, 0.0, false.
        "nulls-of-groups": lambda text, theirs, ours: "GROUP BY" in text and "enableNullHandling=true" in text and _equal_but_for_nulls(theirs, ours),
        "like-escape": lambda text, theirs, ours: "LIKE" in text and _has("\\", "ESCAPE")(text),
        "like-newline": lambda text, theirs, ours: "LIKE" in text and _has("new", "w_l")(text),
        "like-letter-case": lambda text, theirs, ours: "LIKE 'istanbul'" in text,
        "big-integers": lambda text, theirs, ours: re.search(r"[0-9]{19,}", text) is not None and not _codes(ours),
        "columns-compared": lambda text, theirs, ours: "edgeD = edgeRaw" in text,
        "nan-order": lambda text, theirs, ours: "edgeD - edgeD" in text,
        "decimal-scale": lambda text, theirs, ours: "bigD" in text and not _codes(ours),
        "denormal-floats": lambda text, theirs, ours: "edgeF" in text and not _codes(ours),
        "conditions-selected": lambda text, theirs, ours: _codes(theirs) == [700] and "= 'NaN'" in text and not _codes(ours),
        "unknown-virtual-column": lambda text, theirs, ours: _codes(ours) == [710] and "$" in text,
        "backticks": lambda text, theirs, ours: _codes(theirs) == [150] and "`" in text,
        "order-by-counters": lambda text, theirs, ours: "ORDER BY" in text and not _codes(theirs) and not _codes(ours) and _results(theirs, ours, True) is None,
        "unary-sign": lambda text, theirs, ours: _codes(theirs) == [700] and re.search(r"[-+][a-z]", text) is not None and not _codes(ours),
        "constant-types": lambda text, theirs, ours: re.match(r"(SET [^;]*;)?\s*SELECT [-+*/%0-9. ()]+( FROM|$)", text) is not None,
        "limit-0-of-constants": lambda text, theirs, ours: re.fullmatch(r"SELECT [^A-Za-z]* LIMIT 0", text) is not None,
        "fractional-limit": lambda text, theirs, ours: "whole number after LIMIT" in str(ours["exceptions"]),
        "limit-out-of-range": lambda text, theirs, ours: "after LIMIT, found" in str(ours["exceptions"]) and _codes(theirs) == [200],
        "total-docs": lambda text, theirs, ours: theirs["totalDocs"] == 0 and "WHERE" in text and _results(theirs, ours, False) is None,
        "number-arguments": lambda text, theirs, ours: _codes(theirs) == [200] and _codes(ours) == [700] and "are no numbers" in str(ours["exceptions"]),
        "offset": lambda text, theirs, ours: re.search(r"OFFSET|LIMIT \d+ *,", text) is not None and re.search("GROUP BY|DISTINCT", text) is not None,
        "having-all-groups": lambda text, theirs, ours: (
            "HAVING" in text and not _codes(theirs) and not _codes(ours) and len(ours["resultTable"]["rows"]) > len(theirs["resultTable"]["rows"])
        ),
        "having-without-groups": lambda text, theirs, ours: "beside HAVING" in str(ours["exceptions"]),
        "distinct-counters": lambda text, theirs, ours: "DISTINCT" in text and not _codes(ours) and _results(theirs, ours, False) is None,
        "multi-value-conditions": lambda text, theirs, ours: (
            _codes(theirs) == [200] and _codes(ours) == [700] and "multi-value column" in str(ours["exceptions"])
        ),
        "groups-limit": lambda text, theirs, ours: "numGroupsLimit" in text and ours["numGroupsLimitReached"],
        **COMMON_RULES,
    },
}


def _equal_but_for_nulls(theirs: dict[str, Any], ours: dict[str, Any]) -> bool:
    """Every row as recorded where ours has no null; sorted by what both have."""
    left, right = theirs["resultTable"]["rows"], ours["resultTable"]["rows"]

    def shown(row: list[Any], other: list[Any]) -> bool:
        return all(b is None or _same(a, b) for a, b in zip(row, other, strict=True))

    return len(left) == len(right) and all(any(shown(row, other) for row in left) for other in right)


_DIGEST = re.compile(r"PERCENTILE(?:EST|TDIGEST)(\d+)(MV)?\(", re.IGNORECASE)
RANK_ERROR = 3


def is_within_sketch_error(ask: Callable[..., dict[str, Any]], fields: dict[str, str], text: str, theirs: dict[str, Any], ours: dict[str, Any]) -> bool:
    """Rule `sketch`: both estimates of every group lie between the exact values RANK_ERROR ranks in a hundred below and above.
    Theta sketches, whose estimates print as they are, need not be asked: those recorded are exact in both."""
    if _codes(theirs) or _codes(ours) or not _DIGEST.search(text):
        return False

    def bound(sign: float) -> dict[str, Any]:
        def exact(match: re.Match[str]) -> str:
            level = min(max(int(match[1]) + sign * RANK_ERROR, 0), 100)
            return f"PERCENTILE{match[2] or ''}(__LEVEL{level}__"

        moved = _DIGEST.sub(exact, _CUT.sub("", text))
        moved = re.sub(r"\(__LEVEL([0-9.]+)__([^()]*)\)", r"(\2, \1)", moved)
        return ask(f"{moved} TOP 100000" if "GROUP BY" in text else moved, **fields)

    low, high = (_values_by_group(bound(sign)) for sign in (-1, 1))
    for answer in (theirs, ours):
        for key, value in _values_by_group(answer).items():
            if _number(value) is None:
                continue
            least, most = _number(low.get(key)), _number(high.get(key))
            if least is None or most is None or not math.floor(least) <= _number(value) <= math.ceil(most):  # type: ignore[operator]
                return False
    return True


def _values_by_group(answer: dict[str, Any]) -> dict[tuple[int, tuple[str, ...]], str]:
    found = {}
    for i, one in enumerate(answer.get("aggregationResults") or []):
        if "groupByResult" in one:
            found |= {(i, tuple(g["group"])): g["value"] for g in one["groupByResult"]}
        else:
            found[i, ()] = one["value"]
    return found


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _option_text(value: Any) -> str:
    """Options of a request body as the broker's route reads them; objects were ignored by the reference and hold harmless ones."""
    return parse_key_values(value) if isinstance(value, dict) else value or ""


def has_defined_order(text: str) -> bool:
    return "ORDER BY" in text.upper()


_CUT = re.compile(r"\b(TOP|LIMIT)\s+-?\d+(\s*,\s*\d+)?(\s+OFFSET\s+\d+)?", re.IGNORECASE)


def is_one_of_many(ask: Callable[..., dict[str, Any]], fields: dict[str, str], text: str, theirs: dict[str, Any], ours: dict[str, Any]) -> bool:
    """The query defines which rows may come (ties at the cut, no ORDER BY), not which do: as many rows on both sides, and every
    recorded row is among the rows of our answer without the cut."""
    if _codes(theirs) or _codes(ours):
        return False
    word = "TOP" if theirs.get("aggregationResults") else "LIMIT"
    uncut = ask(f"{_CUT.sub('', text)} {word} 200000", **fields)
    left, right, whole = _bags(theirs), _bags(ours), _bags(uncut)
    if _codes(uncut) or not left or len(left) != len(right) or len(left) != len(whole):
        return False
    sizes = all(len(a) == len(b) for a, b in zip(left, right, strict=True))
    return sizes and all(not (Counter(a) - Counter(c)) and not (Counter(b) - Counter(c)) for a, b, c in zip(left, right, whole, strict=True))


def _bags(answer: dict[str, Any]) -> list[list[str]]:
    """Rows of each result table as text."""
    if answer.get("selectionResults"):
        return [[json.dumps(row) for row in answer["selectionResults"]["results"]]]
    if answer.get("resultTable"):
        return [[json.dumps(row) for row in answer["resultTable"]["rows"]]]
    lists = answer.get("aggregationResults") or []
    return [[json.dumps([*g["group"], g["value"]]) for g in a["groupByResult"]] for a in lists if "groupByResult" in a]


@pytest.mark.parametrize("alternative", [False, True], ids=["recorded split", "other split"])
@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda r: r.name)
def test_recorded_answers(recording: Recording, alternative: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = [table for table in recording.tables if not _documents(table)[0].is_file()]
    if missing:
        with capsys.disabled():
            print(f"\n{recording.name}: {recording.num_lines} lines did not run: no data of {missing} under {DATA} (set PINOTPY_DATA)")
        pytest.skip(f"{recording.num_lines} lines did not run: no data of {missing}")
    cluster = InProcessCluster(tmp_path, num_servers=1)
    counts: Counter[str] = Counter()
    problems: list[str] = []
    try:
        for table in recording.tables:
            load(cluster, table, alternative=alternative)
        for number, line in enumerate(lines(recording.name)):
            text = line.get(recording.dialect)
            if not isinstance(text, str):
                counts["not a text"] += 1
                continue
            if recording.dialect == "sql" and (later_functions(text) or LATER_WORDS.search(_STRINGS.sub("''", text))):
                counts["later functions"] += 1
                continue
            expected = line["response"]
            if alternative and "alt" in line and "response" in line["alt"]:
                expected = line["alt"]["response"]
            request = line.get("request") or {}
            fields = {name: _option_text(request.get(key)) for name, key in (("query_options", "queryOptions"), ("debug_options", "debugOptions"))}
            ask = cluster.pql if recording.dialect == "pql" else cluster.sql
            ours = ask(text, **fields)
            check_order = has_defined_order(text) and line.get("stable", True)
            if recording.dialect == "sql" and is_later_fault(ours):
                counts["later functions"] += 1
                continue
            difference = compare(expected, ours, line, check_order=check_order)
            if difference is not None and not difference.startswith("numDocsScanned") and is_one_of_many(ask, fields, text, expected, ours):
                counts["other rows, as right"] += 1
                continue
            if difference is None:
                counts["equal"] += 1
                continue
            rule = next((name for name, explains in RULES[recording.dialect].items() if explains(text, expected, ours)), None)
            if rule is None and is_within_sketch_error(ask, fields, text, expected, ours):
                rule = "sketch"
            if rule is not None:
                counts[f"rule {rule}"] += 1
                continue
            problems.append(f"line {number} [{line['section']}] {text}\n    {difference}")
    finally:
        cluster.close()
    with capsys.disabled():
        print(f"\n{recording.name} ({'other' if alternative else 'recorded'} split): {dict(counts.most_common())}, unexplained {len(problems)}")
    report = os.environ.get("PINOTPY_GOLDEN_REPORT")
    if report:
        Path(report).mkdir(exist_ok=True)
        (Path(report) / f"{recording.name}-{alternative}.txt").write_text("\n".join(problems))
    assert not problems, f"{len(problems)} answers differ without a rule:\n" + "\n".join(problems[:40])
    assert counts["equal"] > 0
