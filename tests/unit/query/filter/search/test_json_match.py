"""Proves JSON_MATCH on random documents and conditions, with and without index and dictionary, against an oracle that
knows no records: it picks one element of every array in every possible way and looks the paths up in the document
itself.
"""

from __future__ import annotations

import itertools
import json
import operator
import random
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from built_segments import ask, batch_of, build, config_of, count, opened, schema_of

from pinotpy.errors import InvalidConfigError, InvalidQueryError, QueryExecutionError, SegmentCorruptError
from pinotpy.functions.json.json_records import RECORDS_MAX, JsonIndexing, records_of
from pinotpy.segment import layout
from pinotpy.segment.build.indexing import resolve_indexing
from pinotpy.segment.immutable import ImmutableSegment, open_segment

SCHEMA = schema_of({"j": "JSON", "n": "INT"})
KEYS = ["a", "b", "c d", "é"]
LEAVES: list[Any] = ["x", "y", "", "3", "x\"'", "日本", 3, -7, 10, 2.5, 1e30, True, False, None]
LAYOUTS: dict[str, dict[str, Any]] = {
    "dictionary": {},
    "raw": {"noDictionaryColumns": ["j"]},
    "indexed": {"jsonIndexColumns": ["j"]},
    "raw and indexed": {"jsonIndexColumns": ["j"], "noDictionaryConfig": {"j": "LZ4"}},
}


def document(rng: random.Random, depth: int = 0) -> Any:
    roll = rng.random()
    if depth and (depth > 3 or roll < 0.45):
        return rng.choice(LEAVES)
    if roll < 0.7:
        return {key: document(rng, depth + 1) for key in rng.sample(KEYS, rng.randint(0, 3))}
    return [document(rng, depth + 1) for _ in range(rng.randint(0, 3))]


def arrays_of(value: Any, path: str = "") -> dict[str, int]:
    """Arrays on every way through a document, by path with numbers, and their lengths."""
    found: dict[str, int] = {}
    if isinstance(value, dict):
        for key, child in value.items():
            found |= arrays_of(child, f"{path}.{key}")
    elif isinstance(value, list):
        found[path] = len(value)
        for index, child in enumerate(value):
            found |= arrays_of(child, f"{path}[{index}]")
    return found


def text_of(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "1.0E30" if value == 1e30 else str(value)


def lookup(value: Any, steps: list[str], choice: dict[str, int], path: str = "") -> str | None:
    """The leaf at the end of the steps if every array stands at its chosen element."""
    for number, step in enumerate(steps):
        if step.startswith("["):
            if not isinstance(value, list) or path not in choice or (step != "[*]" and int(step[1:-1]) != choice[path]):
                return None
            index = choice[path]
            return lookup(value[index], steps[number + 1 :], choice, f"{path}[{index}]")
        if not isinstance(value, dict) or step not in value:
            return None
        value, path = value[step], f"{path}.{step}"
    return None if value is None or isinstance(value, dict | list) else text_of(value)


def matches(value: Any, condition: Any) -> bool:
    if condition[0] == "null":
        return not matches(value, ("present", condition[1]))
    arrays = {path: length for path, length in arrays_of(value).items() if length}
    for combined in itertools.product(*(range(length) for length in arrays.values())):
        if holds(value, condition, dict(zip(arrays, combined, strict=True))):
            return True
    return False


def holds(value: Any, condition: Any, choice: dict[str, int]) -> bool:
    kind, *rest = condition
    if kind in ("and", "or"):
        return (all if kind == "and" else any)(holds(value, child, choice) for child in rest)
    found = lookup(value, rest[0], choice)
    if found is None:
        return False
    match kind:
        case "present":
            return True
        case "in":
            return found in rest[1]
        case "not in":
            return found not in rest[1]
        case "regexp":
            return re.search(rest[1], found) is not None
    number = float(found) if re.fullmatch(r"-?[0-9.]+(E[0-9]+)?", found) else None
    return number is not None and (number > rest[1] if kind == ">" else rest[1] <= number <= rest[2])


def path(rng: random.Random, value: Any) -> list[str]:
    steps: list[str] = []
    while isinstance(value, dict | list) and value and rng.random() < 0.95:
        if isinstance(value, dict):
            key = rng.choice(list(value))
            steps.append(key)
            value = value[key]
        else:
            index = rng.randrange(len(value))
            steps.append("[*]" if rng.random() < 0.7 else f"[{index}]")
            value = value[index]
    return steps or [rng.choice(KEYS)]


def predicate(rng: random.Random, docs: list[Any]) -> tuple[Any, str]:
    """A condition for the oracle, and as text."""
    steps = path(rng, rng.choice(docs))
    name = '"$' + "".join(step if step.startswith("[") else f".{step}" for step in steps) + '"'
    values = [text_of(leaf) for leaf in rng.sample(LEAVES[:-1], 2)]
    quoted = [f"'{value.replace(chr(39), chr(39) * 2)}'" for value in values]
    match rng.randrange(8):
        case 0:
            return ("present", steps), f"{name} IS NOT NULL"
        case 1:
            return ("in", steps, values[:1]), f"{name} = {quoted[0]}"
        case 2:
            return ("not in", steps, values[:1]), f"{name} <> {quoted[0]}"
        case 3:
            return ("in", steps, values), f"{name} IN ({', '.join(quoted)})"
        case 4:
            return ("not in", steps, values), f"{name} NOT IN ({', '.join(quoted)})"
        case 5:
            return ("regexp", steps, "^[xy3t]"), f"REGEXP_LIKE({name}, '^[xy3t]')"
        case 6:
            return (">", steps, 2), f"{name} > 2"
    return ("between", steps, -8, 3), f"{name} BETWEEN -8 AND 3"


def condition(rng: random.Random, docs: list[Any], depth: int) -> tuple[Any, str]:
    if depth == 0:
        return predicate(rng, docs)
    word = rng.choice(["and", "or"])
    parts = [condition(rng, docs, depth - 1 if rng.random() < 0.5 else 0) for _ in range(2)]
    return (word, *(part[0] for part in parts)), "(" + f" {word.upper()} ".join(part[1] for part in parts) + ")"


@pytest.mark.parametrize("seed", range(6))
def test_random_conditions_match_what_the_oracle_finds(seed: int) -> None:
    rng = random.Random(seed)
    docs = [document(rng) for _ in range(60)]
    texts = [json.dumps(doc) for doc in docs] + ["{bad", ""]
    rows = {"j": texts, "n": list(range(len(texts)))}
    segments = {name: opened(SCHEMA, config_of(index), rows) for name, index in LAYOUTS.items()}
    for _ in range(25):
        wanted, text = condition(rng, docs, rng.choice([0, 0, 1, 2]))
        if rng.random() < 0.1:
            steps = path(rng, rng.choice(docs))
            wanted, text = (
                ("null", steps),
                '"$' + "".join(s if s.startswith("[") else f".{s}" for s in steps) + '" IS NULL',
            )
        expected = [n for n, doc in enumerate([*docs, None, None]) if matches(doc, wanted)]
        quoted = text.replace("'", "''")
        for name, segment in segments.items():
            partial = ask(SCHEMA, [segment], f"SELECT n FROM t WHERE JSON_MATCH(j, '{quoted}') LIMIT 1000")
            assert partial.rows is not None
            assert partial.rows.column(0).to_pylist() == expected, (name, text)
            negated = count(SCHEMA, [segment], f"NOT JSON_MATCH(j, '{quoted}') AND n >= 0")
            assert negated == len(texts) - len(expected), (name, text)


@pytest.fixture(scope="module")
def people() -> list[ImmutableSegment]:
    """The documents of the reference's page on JSON indexes."""
    docs = [
        {
            "name": "adam",
            "age": 20,
            "addresses": [
                {"country": "us", "street": "main st", "number": 1},
                {"country": "ca", "street": "second st", "number": 2},
            ],
        },
        {"name": "bob", "addresses": [{"country": "us", "street": "second st", "number": 3}], "skills": ["a", "b"]},
    ]
    rows = {"j": [json.dumps(doc) for doc in docs], "n": [0, 1]}
    return [opened(SCHEMA, config_of(index), rows, name.replace(" ", "_")) for name, index in LAYOUTS.items()]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("\"$.name\" = ''adam''", 1),
        ("\"$.addresses[*].street\" = ''main st'' AND \"$.addresses[*].country\" = ''us''", 1),
        ("\"$.addresses[*].street\" = ''main st'' AND \"$.addresses[*].country\" = ''ca''", 0),
        ("\"$.addresses[0].street\" = ''second st''", 1),
        ('"$.addresses[*].number" BETWEEN 2 AND 3', 2),
        ('"$.age" IS NULL', 1),
        ('"$.skills[1]" IS NOT NULL', 1),
        ("\"$.name\" LIKE ''B%''", 1),
        ("name = ''bob''", 1),
    ],
)
@pytest.mark.parametrize("pql", [False, True])
def test_conditions_of_one_element_and_both_dialects(
    people: list[ImmutableSegment], text: str, rows: int, pql: bool
) -> None:
    for segment in people:
        assert count(SCHEMA, [segment], f"JSON_MATCH(j, '{text}')", pql=pql) == rows


def test_what_it_costs_is_said(people: list[ImmutableSegment]) -> None:
    text = "SELECT n FROM t WHERE JSON_MATCH(j, '\"$.name\" = ''adam''')"
    assert [ask(SCHEMA, [segment], text).statistics.num_entries_scanned_in_filter for segment in people] == [2, 2, 0, 0]
    accesses = [ask(SCHEMA, [segment], f"EXPLAIN PLAN FOR {text}").explain[0]["filter"] for segment in people]
    assert [leaf["access"] for leaf in accesses] == ["scan", "scan", "json index", "json index"]
    assert "jsonIndexColumns" in accesses[0]["notUsed"][0]["why"]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("$.k = ''x''", InvalidQueryError),
        ("1 = 1", InvalidQueryError),
        ("plus(a, 1) = 2", InvalidQueryError),
        ("NOT \"$.k\" = ''x''", QueryExecutionError),
        ('"$.k" IS NULL AND "$.b" = 1', QueryExecutionError),
        ("TEXT_MATCH(\"$.k\", ''x'')", InvalidQueryError),
    ],
)
def test_conditions_that_cannot_be_are_refused(
    people: list[ImmutableSegment], text: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        count(SCHEMA, people, f"JSON_MATCH(j, '{text}')")
    with pytest.raises(InvalidQueryError, match="JSON_MATCH needs"):
        count(SCHEMA, people, "JSON_MATCH(n, '\"$.a\" = 1')")


def test_documents_without_end_are_bounded() -> None:
    many = json.dumps({"a": list(range(200)), "b": list(range(200)), "c": 1})
    assert RECORDS_MAX < 200 * 200
    assert len(records_of(many, JsonIndexing())) == 400, "beyond the limit each array makes records of its own"
    assert records_of("[" * 100_000 + "]" * 100_000, JsonIndexing()) == []
    assert records_of('{"a":' * 300 + "1" + "}" * 300, JsonIndexing()) == []
    assert records_of('{"n": 1e400, "m": 123456789012345678901234567890}', JsonIndexing()) == [
        [".n\0Infinity", ".m\x00123456789012345678901234567890"]
    ]
    assert records_of('{"a\\u0000b": 1}', JsonIndexing()) == [[".a\ufffdb\x001"]], "a key cannot look like another path"


@pytest.mark.parametrize(
    ("settings", "terms"),
    [
        ({}, {".a", ".o.x", ".o.deep.y", ".l[*].k", ".l[#]", ".m[*]", ".m[#]"}),
        ({"maxLevels": 1}, {".a"}),
        ({"maxLevels": 2}, {".a", ".o.x", ".m[*]", ".m[#]"}),
        ({"excludeArray": True}, {".a", ".o.x", ".o.deep.y"}),
        ({"excludeFields": ["x", "l"]}, {".a", ".o.deep.y", ".m[*]", ".m[#]"}),
        ({"excludePaths": ["$.o"]}, {".a", ".l[*].k", ".l[#]", ".m[*]", ".m[#]"}),
        ({"includePaths": ["$.o.deep", "$.l[*].k"]}, {".o.deep.y", ".l[*].k", ".l[#]"}),
    ],
)
def test_configs_say_what_is_indexed(settings: dict[str, Any], terms: set[str]) -> None:
    indexing = resolve_indexing(SCHEMA, config_of({"jsonIndexConfigs": {"j": settings}}))["j"].json
    assert indexing is not None
    assert (
        indexing
        == resolve_indexing(SCHEMA, config_of(fieldConfigList=[{"name": "j", "indexes": {"json": settings}}]))["j"].json
    )
    doc = {"a": 1, "o": {"x": 2, "deep": {"y": 3}}, "l": [{"k": 4}], "m": [5]}
    assert {term.split("\0")[0] for record in records_of(json.dumps(doc), indexing) for term in record} == terms


LEFT_OUT: list[tuple[dict[str, Any], list[str], list[str]]] = [
    # Settings of the index, conditions that it cannot answer, conditions that it can.
    ({"maxLevels": 1}, ['"$.o.x" = 2', '"$.m[*]" = 5', '"$.o.x" IS NULL', "\"$.a\" = 1 AND \"$.o.x\" = 2"],
    ['"$.a" = 1', '"$.a" IS NULL']),
    ({"excludeArray": True}, ['"$.m[*]" = 5', '"$.l[0].k" = 4', '"$.m[0]" IS NOT NULL'], ['"$.o.deep.y" = 3']),
    ({"excludeFields": ["x", "l"]}, ['"$.o.x" = 2', '"$.l[*].k" > 3'], ['"$.o.deep.y" = 3', '"$.m[*]" = 5']),
    ({"excludePaths": ["$.o", "$.l[*].k"]}, ['"$.o.x" = 2', '"$.o.deep.y" <> 9', '"$.l[1].k" = 7', '"o.x" = 2'],
    ['"$.a" = 1', '"$.l[*].z" = 8']),
    ({"includePaths": ["$.o.deep", "$.l[*].k"]}, ['"$.a" = 1', '"$.o.x" = 2', '"$.l[*].z" = 8', '"$.a" IS NULL'],
    ['"$.o.deep.y" = 3', '"$.l[1].k" = 7']),
    (
        {"maxValueLength": 3}, ["\"$.t\" = ''longer''", "\"$.t\" LIKE ''l%''", "\"$.t\" <> ''$SKIPPED$''", '"$.a" > 0'],
        ["\"$.t\" = ''it''", '"$.t" IS NOT NULL'],
    ),
    (
        {"disableCrossArrayUnnest": True}, ['"$.l[*].k" = 4 AND "$.m[*]" = 6', '"$.o.x" = 2 AND "$.l[*].k" = 7'],
        ['"$.a" = 1 AND "$.m[*]" = 6', '"$.l[*].k" = 4 OR "$.m[*]" = 9', '"$.l[*].k" = 7 AND "$.l[*].z" = 8'],
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "unknown", "known"), LEFT_OUT, ids=lambda value: next(iter(value)) if isinstance(value, dict) else None
)
@pytest.mark.parametrize("layout_name", ["indexed", "raw and indexed"])
def test_what_an_index_leaves_out_is_answered_from_the_documents(
    settings: dict[str, Any], unknown: list[str], known: list[str], layout_name: str
) -> None:
    doc = {"a": 1, "o": {"x": 2, "deep": {"y": 3}}, "l": [{"k": 4}, {"k": 7, "z": 8}], "m": [5, 6], "t": "longer"}
    rows = {"j": [json.dumps(doc), json.dumps({"b": 1, "t": "it"})], "n": [0, 1]}
    plain = opened(SCHEMA, config_of({}), rows)
    index = LAYOUTS[layout_name] | {"jsonIndexColumns": [], "jsonIndexConfigs": {"j": settings}}
    segment = opened(SCHEMA, config_of(index), rows)
    for text in unknown + known:
        condition = f"JSON_MATCH(j, '{text}')"
        for negation in ("", "NOT "):
            assert count(SCHEMA, [segment], negation + condition) == count(SCHEMA, [plain], negation + condition), (
                text,
                negation,
            )
        partial = ask(SCHEMA, [segment], f"EXPLAIN PLAN FOR SELECT n FROM t WHERE {condition}")
        found = partial.explain[0]["filter"]
        assert found["access"] == ("scan" if text in unknown else "json index"), text
        assert (next(iter(settings)) in found["notUsed"][0]["why"]) == (text in unknown), found


def test_an_index_of_unknown_settings_is_not_trusted() -> None:
    segment = opened(SCHEMA, config_of({"jsonIndexColumns": ["j"]}), {"j": ['{"a": 1}'], "n": [0]})
    index = segment.column("j").json_index
    assert index is not None and index.indexing == JsonIndexing()
    index.indexing = None
    assert (
        ask(
            SCHEMA, [segment], "SELECT n FROM t WHERE JSON_MATCH(j, '\"$.a\" = 1')"
        ).statistics.num_entries_scanned_in_filter
        == 1
    )
    found = ask(SCHEMA, [segment], "EXPLAIN PLAN FOR SELECT n FROM t WHERE JSON_MATCH(j, '\"$.a\" = 1')").explain[0][
        "filter"
    ]
    assert found["access"] == "scan" and "reload the table" in found["notUsed"][0]["why"]


def test_long_values_are_skipped_and_arrays_need_not_be_combined() -> None:
    assert records_of('{"a": "12345"}', JsonIndexing(max_value_length=4)) == [[".a\0$SKIPPED$"]]
    assert len(records_of('{"a": [1, 2], "b": [3, 4]}', JsonIndexing())) == 4
    assert (
        len(records_of('{"a": [1, 2], "b": [3, 4]}', JsonIndexing(cross_arrays=False))) == 4
        and len(records_of('{"a": [1, 2, 3], "b": [3, 4, 5]}', JsonIndexing(cross_arrays=False))) == 6
    )


def test_other_columns_cannot_have_one() -> None:
    with pytest.raises(InvalidConfigError, match="'n', a INT column"):
        resolve_indexing(SCHEMA, config_of({"jsonIndexColumns": ["n"]}))
    with pytest.raises(InvalidConfigError, match="maxLevels"):
        config_of({"jsonIndexConfigs": {"j": {"maxLevels": "deep"}}})


@pytest.mark.parametrize(
    "kind",
    [layout.JSON_TERMS, layout.JSON_TERMS_OFFSETS, layout.JSON_OFFSETS, layout.JSON_RECORDS, layout.JSON_ENTRIES],
)
def test_a_damaged_index_is_refused(kind: str) -> None:
    directory = build(SCHEMA, config_of({"jsonIndexColumns": ["j"]}), {"j": ['{"a": [1, 2]}', '{"a": 3}'], "n": [1, 2]})
    entry = open_segment(directory).column("j").metadata.buffer(kind)
    assert entry is not None and entry.size_bytes
    data = bytearray(directory.map(layout.COLUMNS).tobytes())
    data[entry.offset] ^= 1
    directory.replace(layout.COLUMNS, bytes(data))
    with pytest.raises(SegmentCorruptError, match=f"buffer '{kind}'"):
        open_segment(directory)


def test_rows_without_document_match_nothing_but_is_null() -> None:
    schema = schema_of({"j": "JSON"})
    segment = opened(
        schema, config_of({"jsonIndexColumns": ["j"], "nullHandlingEnabled": True}), {"j": ['{"a": 1}', None]}
    )
    assert count(schema, [segment], "JSON_MATCH(j, '\"$.a\" IS NULL')") == 1
    assert count(schema, [segment], "JSON_MATCH(j, '\"$.a\" IS NULL')", null_handling=True) == 0, (
        "of null nothing is known"
    )
    assert batch_of(schema, {"j": [None]}).num_rows == 1


def test_no_array_has_an_element_of_a_number_of_thousands_of_digits() -> None:
    schema = schema_of({"j": "JSON"})
    segment = opened(schema, config_of({"jsonIndexColumns": ["j"]}), {"j": ['{"a": [1, 2]}']})
    assert [
        count(schema, [segment], f"JSON_MATCH(j, '\"$.a[{number}]\" = 2')") for number in ("1", "0001", "2", "1" * 5000)
    ] == [1, 1, 0, 0]


NUMBERS: list[Any] = [2**53, 2**53 + 1, 0.1, 2, 2.5, -7]
OPERATORS = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def test_every_operator_beside_every_kind_of_literal_compares_as_numbers_or_as_text() -> None:
    """Ranges: numbers exactly, also where two are one double; TRUE and FALSE as their text (an internal error once)."""
    leaves = [*LEAVES[:-1], *NUMBERS, "true", "tru", "2.50"]
    texts = [text_of(leaf) for leaf in leaves]
    rows = {"j": [json.dumps({"a": leaf}) for leaf in leaves], "n": list(range(len(leaves)))}
    segments = [opened(SCHEMA, config_of(index), rows, name.replace(" ", "_")) for name, index in LAYOUTS.items()]

    def expect(condition: str, passes: Callable[[str], bool]) -> None:
        expected = [n for n, text in enumerate(texts) if passes(text)]
        for segment in segments:
            answer = ask(
                SCHEMA, [segment], f"SELECT n FROM t WHERE JSON_MATCH(j, '\"$.a\" {condition}') LIMIT 1000"
            ).rows
            assert answer is not None and answer.column(0).to_pylist() == expected, condition

    numeric = re.compile(r"-?[0-9.]+(E[0-9]+)?")
    for word, compare in OPERATORS.items():
        for text in ("x", "3", "true", "false"):
            shown = text.upper() if text in ("true", "false") else f"''{text}''"
            expect(f"{word} {shown}", lambda value, text=text, compare=compare: compare(value.encode(), text.encode()))  # type: ignore[misc]
        for text in map(str, NUMBERS):
            if word in ("=", "<>"):
                expect(f"{word} {text}", lambda value, text=text, compare=compare: compare(value, text))  # type: ignore[misc]
        for text in (*map(str, NUMBERS), "9007199254740992.5", "9007199254740993.0"):
            if word not in ("=", "<>"):
                expect(
                    f"{word} {text}",
                    lambda value, text=text, compare=compare: (
                        bool(numeric.fullmatch(value)) and compare(Decimal(value), Decimal(text))
                    ),
                )  # type: ignore[misc]
    expect("BETWEEN FALSE AND TRUE", lambda value: "false" <= value <= "true")
    expect("IN (TRUE, 2, ''x'')", lambda value: value in ("true", "2", "x"))
    expect("NOT IN (TRUE, 2)", lambda value: value not in ("true", "2"))
