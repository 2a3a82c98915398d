"""Proves what an answer warns of, and that it says nothing where there is nothing to say: of stored nulls that count as
values, exactly where they can; of options that nobody knows; of texts that are compared with numbers; of a LIMIT that
nobody wrote; of kernels that were compiled first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import pyarrow as pa
import pytest
from in_process import InProcessCluster

from pinotpy.broker.answer_warnings import stream_warnings
from pinotpy.broker.catalog import Half, Target
from pinotpy.broker.routing.table_routing import TableRouting
from pinotpy.clock import SystemClock
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.data_types import DataType
from pinotpy.kernels.compile_processes import Compilers, Wanted
from pinotpy.kernels.demand import KernelMissingError
from pinotpy.kernels.kernel_names import Kernel
from pinotpy.query.result.partial import PartialResult
from pinotpy.server.kernel_waits import KernelWaits
from pinotpy.server.query_service import QueryService

LOW = -(2**31)
PLAIN = "enableNullHandling=false"
COLUMNS: dict[str, tuple[str, list[Any]]] = {
    "id": ("INT", list(range(12))),
    "late": ("INT", [10, None, 20, None, 5, 6, 7, 8, 9, 1, 2, 3]),
    "tail": ("STRING", ["a", "b", None, "c", "d", "e", "f", "g", "h", "i", "j", "k"]),
    "whole": ("INT", [1] * 12),
    "tags": ("INT", [[1, 2], None, *([[3]] * 10)]),
    "digits": ("STRING", [str(number) for number in range(0, 24, 2)]),
    "seen": ("TIMESTAMP", [1_700_000_000_000 + number for number in range(12)]),
    "flag": ("BOOLEAN", [False, True] * 6),
    "ds": ("STRING", [f"202501{day:02}" for day in range(1, 13)]),
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessCluster]:
    """Three segments on two servers; the second and the third have no nulls."""
    built = InProcessCluster(tmp_path_factory.mktemp("warnings"), num_servers=2)
    specs = [
        {"name": name, "dataType": kind, "singleValueField": name != "tags"}
        for name, (kind, _) in COLUMNS.items()
        if name not in ("seen", "ds")
    ]
    seen = {"name": "seen", "dataType": "TIMESTAMP", "format": "TIMESTAMP", "granularity": "1:MILLISECONDS"}
    dates = {"name": "ds", "dataType": "STRING", "format": "SIMPLE_DATE_FORMAT|yyyyMMdd", "granularity": "1:DAYS"}
    config = {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1"},
        "tenants": {},
        "tableIndexConfig": {"nullHandlingEnabled": True, "noDictionaryColumns": ["whole"]},
        "metadata": {},
    }
    rows = pa.record_batch(
        {
            name: pa.array(values, pa.list_(pa.int32()) if name == "tags" else DataType(kind).arrow)
            for name, (kind, values) in COLUMNS.items()
        }
    )
    schema = {"schemaName": "t", "dimensionFieldSpecs": specs, "dateTimeFieldSpecs": [seen, dates]}
    built.add_table(
        Schema.from_json(schema),
        TableConfig.from_json(config),
        [[rows.slice(0, 4)], [rows.slice(4, 4)], [rows.slice(8, 4)]],
    )
    with_later = schema | {"metricFieldSpecs": [{"name": "later", "dataType": "INT"}]}  # no segment has it
    built.catalog.targets["t"] = replace(built.catalog.targets["t"], schema=Schema.from_json(with_later))
    yield built
    built.close()


def nulls(of: str, remedy: str) -> list[str]:
    return [f"stored nulls count as their column's default value: up to {of} in the segments that were read; {remedy}"]


IN_SQL = "set enableNullHandling=true, and they are nulls"
IN_PQL = "nulls are nulls in SQL, at /query/sql"
LATE, TAIL = "2 of column 'late'", "1 of column 'tail'"

# Text → the columns with nulls that count as values there.
COUNTED = {
    "SELECT SUM(late) FROM t": LATE,
    "SELECT MIN(late), MAX(late) FROM t": LATE,
    "SELECT SUM(late + 1) FROM t": LATE,
    "SELECT late FROM t ORDER BY id LIMIT 3": LATE,
    "SELECT id FROM t ORDER BY late LIMIT 3": LATE,
    "SELECT tail, SUM(late) FROM t GROUP BY tail LIMIT 20": f"{LATE}, {TAIL}",
    "SELECT COUNT(*) FROM t WHERE late < 5": LATE,
    "SELECT COUNT(*) FROM t WHERE late <> 5": LATE,
    "SELECT COUNT(*) FROM t WHERE NOT late > 5": LATE,
    "SELECT COUNT(*) FROM t WHERE late < 5 OR tail IS NULL": LATE,
    f"SELECT COUNT(*) FROM t WHERE late IN (1, {LOW})": LATE,
    "SELECT COUNT(*) FROM t WHERE tail >= 'null'": TAIL,
    "SELECT COUNT(*) FROM t WHERE late + 1 < 5": LATE,
    "SELECT COUNT(*) FILTER (WHERE late < 5) FROM t": LATE,
    "SELECT SUM(late) FROM t WHERE tail IS NOT NULL": LATE,
    "SELECT SUM(late) FROM t WHERE id < 4": LATE,
    "SELECT COUNT(late) FROM t": LATE,
    "SELECT COUNT(*), COUNT(late), COUNT(tail) FROM t": f"{LATE}, {TAIL}",
    "SELECT COUNT(late + 1) FROM t": LATE,
    "SELECT id, COUNT(late) FROM t GROUP BY id LIMIT 20": LATE,
    "SELECT COUNT(late) FILTER (WHERE id < 9) FROM t": LATE,
    "SELECT COUNT(late) FILTER (WHERE late > 5), COUNT(late) FROM t": LATE,
    "SELECT COUNT(late) FROM t WHERE tail IS NOT NULL": LATE,
    "SELECT id FROM t GROUP BY id HAVING COUNT(late) > 0 LIMIT 20": LATE,
    "SELECT COUNT(later) FROM t": "12 of column 'later'",
}
NOT_COUNTED = [
    "SELECT COUNT(*) FROM t",
    "SELECT SUM(whole), MIN(id) FROM t",
    "SELECT SUM(late) FROM t WHERE late IS NOT NULL",
    "SELECT SUM(late) FROM t WHERE late > 0",
    "SELECT SUM(late) FROM t WHERE late IN (1, 2, 3) AND tail < 'null'",
    "SELECT AVG(late) FILTER (WHERE late >= 0) FROM t",
    "SELECT SUM(COALESCE(late, 0)) FROM t",
    "SELECT COUNT(*) FROM t WHERE late IS NULL",
    "SELECT COUNT(whole), COUNT(1), COUNT(id + whole), COUNT($docId) FROM t",
    "SELECT COUNT(late) FROM t WHERE late IS NOT NULL",
    "SELECT COUNT(late) FROM t WHERE late > 0",
    "SELECT COUNT(late) FILTER (WHERE late > 0), COUNT(*) FROM t",
    "SELECT COUNT(COALESCE(late, 0)) FROM t",
    "SELECT COUNT(late) FROM t WHERE id > 3",
    "SELECT COUNT(*) FROM t WHERE late > 5 OR tail = 'a'",
    "SELECT COUNT(*) FROM t WHERE tail NOT IN ('x', 'null')",
    "SELECT SUM(late) FROM t WHERE id > 3",  # only segments without nulls are read
    "SELECT late FROM t LIMIT 0",
]


@pytest.mark.parametrize(("text", "of"), COUNTED.items(), ids=list(COUNTED))
def test_an_answer_with_default_values_says_which_nulls_it_counted(
    cluster: InProcessCluster, text: str, of: str
) -> None:
    for _ in range(3):  # short answers, plans and templates that were kept
        assert cluster.sql(text, query_options=PLAIN).get("warnings") == nulls(of, IN_SQL)
    assert cluster.ask_arrow(text, query_options=PLAIN).warnings == tuple(nulls(of, IN_SQL))
    assert "warnings" not in cluster.sql(text)


@pytest.mark.parametrize("text", NOT_COUNTED)
def test_an_answer_that_counted_none_says_nothing(cluster: InProcessCluster, text: str) -> None:
    for options in (PLAIN, ""):
        answer = cluster.sql(text, query_options=options)
        assert (answer["exceptions"], answer.get("warnings")) == ([], None)
        assert cluster.ask_arrow(text, query_options=options).warnings == ()


def test_a_warning_of_nulls_stands_only_beside_an_answer_that_differs(cluster: InProcessCluster) -> None:
    """The two modes answer alike where nothing is said; where both differ, it is said."""
    for text in [*COUNTED, *NOT_COUNTED]:
        of_nulls, of_defaults = (cluster.sql(text, query_options=options)["resultTable"] for options in ("", PLAIN))
        assert text in COUNTED or of_nulls["rows"] == of_defaults["rows"], text


def test_pql_says_it_too(cluster: InProcessCluster) -> None:
    assert cluster.pql("SELECT SUM(late) FROM t")["warnings"] == nulls(LATE, IN_PQL)
    assert cluster.pql("SELECT SUM(late) FROM t GROUP BY tail TOP 50")["warnings"] == nulls(f"{LATE}, {TAIL}", IN_PQL)
    assert cluster.pql("SELECT COUNT(late) FROM t")["warnings"] == nulls(LATE, IN_PQL)
    assert cluster.pql("SELECT COUNT(late) FROM t GROUP BY id TOP 50")["warnings"] == nulls(LATE, IN_PQL)
    assert "warnings" not in cluster.pql("SELECT SUM(late) FROM t WHERE late IS NOT NULL")
    assert "warnings" not in cluster.pql("SELECT SUM(whole) FROM t")


def test_lists_whose_values_are_groups_have_one_for_rows_without_a_list(cluster: InProcessCluster) -> None:
    said = nulls("1 of column 'tags'", "IS NOT NULL leaves such rows out, as no value is in no group")
    for text in ("SELECT tags, COUNT(*) FROM t GROUP BY tags LIMIT 9", "SELECT DISTINCT tags FROM t LIMIT 9"):
        answer = cluster.sql(text)
        assert answer["warnings"] == said
        assert sorted(row[0] for row in answer["resultTable"]["rows"]) == [LOW, 1, 2, 3]
        answer = cluster.sql(text.replace("FROM t", "FROM t WHERE tags IS NOT NULL"))
        assert sorted(row[0] for row in answer["resultTable"]["rows"]) == [1, 2, 3]
        assert "warnings" not in answer
    assert "warnings" not in cluster.sql("SELECT DISTINCTCOUNTMV(tags), SUMMV(tags) FROM t")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("enableNulHandling", ": did you mean 'enableNullHandling'?"),
        ("timeoutms", ": did you mean 'timeoutMs'?"),
        ("frobnicate", ""),
    ],
)
def test_an_unknown_option_is_named_with_a_close_one(cluster: InProcessCluster, name: str, hint: str) -> None:
    expected = [f"no query option is called '{name}', it changes nothing here{hint}"]
    assert cluster.sql(f"SET {name}=1; SELECT COUNT(*) FROM t")["warnings"] == expected
    assert cluster.sql("SELECT COUNT(*) FROM t", query_options=f"{name}=1;timeoutMs=9000")["warnings"] == expected
    assert cluster.pql(f"SELECT COUNT(*) FROM t OPTION({name}=1)")["warnings"] == expected


def test_options_that_mean_something_are_no_warning(cluster: InProcessCluster) -> None:
    known = "timeoutMs=9000;explain=false;groupingMethod=hashTable;maxQueryResponseSizeBytes=99999;useStarTree=false"
    assert "warnings" not in cluster.sql("SELECT COUNT(*) FROM t", query_options=known)


def test_rows_that_nobody_limited_are_said_to_be_perhaps_not_all(cluster: InProcessCluster) -> None:
    def warning(word: str) -> list[str]:
        return [f"only 10 rows are shown, as always without {word}; there may be more: write {word} to see them"]

    for text in ("SELECT id FROM t", "SELECT id FROM t ORDER BY id DESC", "SELECT DISTINCT id FROM t"):
        assert cluster.sql(text)["warnings"] == warning("LIMIT")
        assert cluster.pql(text.replace("DISTINCT id", "DISTINCT(id)"))["warnings"] == warning("LIMIT")
        assert cluster.ask_arrow(text).warnings == tuple(warning("LIMIT"))
        for written in (f"{text} LIMIT 10", f"{text} LIMIT 100"):
            assert "warnings" not in cluster.sql(written)
    grouped = "SELECT COUNT(*) FROM t GROUP BY id"
    assert cluster.sql(grouped)["warnings"] == warning("LIMIT")
    assert cluster.pql(grouped)["warnings"] == warning("TOP")
    assert "warnings" not in cluster.pql(f"{grouped} TOP 10")
    for text in ("SELECT id FROM t WHERE id < 9", "SELECT COUNT(*) FROM t GROUP BY whole", "SELECT SUM(id) FROM t"):
        assert "warnings" not in cluster.sql(text)


class CompilesAtOnce:
    """Compilers that have each kernel at once."""

    def __init__(self) -> None:
        self.there = set[Kernel]()

    def want(self, kernel: Kernel) -> Wanted:
        wanted = Wanted(kernel)
        self.there.add(kernel)
        wanted.done.set()
        return wanted


def lacks_kernels(service: QueryService, kernels: list[Kernel], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each query of the server calls these, until they are compiled."""
    compilers, execute = CompilesAtOnce(), service._runs.run

    def execute_or_lack(*arguments: Any) -> PartialResult:
        for kernel in kernels:
            if kernel not in compilers.there:
                raise KernelMissingError(kernel)
        return execute(*arguments)

    monkeypatch.setattr(service._runs, "run", execute_or_lack)
    waits = KernelWaits(cast(Compilers, compilers), SystemClock(), service._metrics)
    monkeypatch.setattr(service, "_kernels", waits)


@pytest.mark.parametrize("dialect", ["sql", "pql"])
def test_kernels_that_were_waited_for_are_named_once(
    cluster: InProcessCluster, dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask, text = getattr(cluster, dialect), "SELECT SUM(whole) FROM t WHERE id < 9"
    for _ in range(4):  # from now on answered on the road of quick queries, which never wait
        assert "warnings" not in ask(text)
    for service in cluster.services.values():
        lacks_kernels(service, [Kernel("room.file", "first", "int64"), Kernel("room.file", "second")], monkeypatch)
    answer = ask(text)
    assert not answer["exceptions"] and len(answer["warnings"]) == 1
    assert "waited until kernels were compiled" in answer["warnings"][0]
    assert "room.file.first (0.0 s), room.file.second (0.0 s)" in answer["warnings"][0]
    assert "warnings" not in ask(text)
    monkeypatch.undo()
    assert "warnings" not in ask(text)


COMPARED = {
    "SELECT COUNT(*) FROM t WHERE tail > 10": "10",
    "SELECT COUNT(*) FROM t WHERE id < 5 AND NOT tail BETWEEN 1.5 AND 20": "1.5",
    "SELECT COUNT(*) FROM t WHERE tail IN ('a', 7)": "7",
    "SELECT COUNT(*) FILTER (WHERE tail = 3) FROM t": "3",
}


@pytest.mark.parametrize(("text", "number"), COMPARED.items(), ids=list(COMPARED))
def test_texts_compared_with_a_number_are_named(cluster: InProcessCluster, text: str, number: str) -> None:
    said = (
        f"column 'tail' holds texts and is compared with the number {number} as a text, letter by letter; write "
        f"'{number}' if that is meant, CAST(tail AS DOUBLE) to compare numbers"
    )
    for _ in range(3):
        assert cluster.sql(text).get("warnings") == [said]
    assert cluster.ask_arrow(text).warnings == (said,)


NEAR_1970 = {
    "SELECT COUNT(*) FROM t WHERE seen >= 2026-01-02": "2023",
    "SELECT COUNT(*) FROM t WHERE NOT seen BETWEEN 0 AND 1700000000": "1700000000",
    "SELECT COUNT(*) FROM t WHERE seen IN (1700000000000, 2024)": "2024",
    "SELECT COUNT(*) FILTER (WHERE seen < -5) FROM t": "-5",
}


@pytest.mark.parametrize(("text", "number"), NEAR_1970.items(), ids=list(NEAR_1970))
def test_instants_compared_with_a_number_that_is_hardly_milliseconds_are_named(
    cluster: InProcessCluster, text: str, number: str
) -> None:
    for _ in range(3):
        (said,) = cluster.sql(text)["warnings"]
        assert said.startswith(f"column 'seen' holds instants and is compared with the number {number}, which is taken")


def test_instants_compared_with_milliseconds_or_with_0_are_not_named(cluster: InProcessCluster) -> None:
    for condition in ("seen > 1700000000000", "seen > 0", "seen < NOW()", "seen >= '2026-01-02'", "seen < AGO('P1D')"):
        assert "warnings" not in cluster.sql(f"SELECT COUNT(*) FROM t WHERE {condition}"), condition


DIGITS_BESIDE_ID = (
    "column 'digits' holds texts, column 'id' numbers: they are compared as numbers, and a text that is no number ends "
    "the query"
)
AS_DOUBLE = "; write CAST(digits AS DOUBLE) to compare numbers, CAST(id AS VARCHAR) to compare texts"
SEEN_BESIDE_ID = "column 'seen' holds instants, column 'id' numbers: these are taken as milliseconds since 1970"
BESIDE = {
    "SELECT COUNT(*) FROM t WHERE digits = id": DIGITS_BESIDE_ID + AS_DOUBLE,
    "SELECT COUNT(*) FROM t WHERE id > 3 AND NOT id < digits": DIGITS_BESIDE_ID + AS_DOUBLE,
    "SELECT COUNT(*) FROM t WHERE digits IS DISTINCT FROM id": DIGITS_BESIDE_ID + AS_DOUBLE,
    "SELECT COUNT(*) FILTER (WHERE digits >= id) FROM t": DIGITS_BESIDE_ID + AS_DOUBLE,
    "SELECT digits = id FROM t LIMIT 3": DIGITS_BESIDE_ID + AS_DOUBLE,
    "SELECT SUM(CASE WHEN digits = id THEN 1 ELSE 0 END) FROM t": DIGITS_BESIDE_ID + AS_DOUBLE,
    "SELECT CASE WHEN digits = id THEN 'a' ELSE 'b' END, COUNT(*) FROM t GROUP BY 1": DIGITS_BESIDE_ID + AS_DOUBLE,
    "SELECT id FROM t ORDER BY digits = id, id LIMIT 3": DIGITS_BESIDE_ID + AS_DOUBLE,
    "SELECT COUNT(*) FROM t WHERE UPPER(digits) = id + 1": (
        "upper(digits) holds texts, plus(id,'1') numbers: they are compared as numbers, and a text that is no number "
        "ends the query; write CAST(… AS DOUBLE) to compare numbers, CAST(… AS VARCHAR) to compare texts"
    ),
    "SELECT COUNT(*) FROM t WHERE digits < seen": (
        "column 'digits' holds texts, column 'seen' instants: they are compared as numbers (milliseconds since 1970), "
        "and a text that is no number ends the query; write CAST(digits AS TIMESTAMP) to compare instants, "
        "CAST(seen AS VARCHAR) to compare texts"
    ),
    "SELECT COUNT(*) FROM t WHERE flag = digits": (
        "column 'digits' holds texts, column 'flag' booleans: they are compared as numbers (1 and 0), and a text that "
        "is no number ends the query; write CAST(digits AS BOOLEAN) to compare booleans, CAST(flag AS VARCHAR) to "
        "compare texts"
    ),
    "SELECT COUNT(*) FROM t WHERE seen > id": (
        f"{SEEN_BESIDE_ID}; write CAST(id AS TIMESTAMP) if that is meant, FROMEPOCHSECONDS(id) or its like for another "
        "unit"
    ),
}


@pytest.mark.parametrize(("text", "said"), BESIDE.items(), ids=list(BESIDE))
def test_columns_of_different_types_that_are_compared_are_named(
    cluster: InProcessCluster, text: str, said: str
) -> None:
    for _ in range(3):
        answer = cluster.sql(text)
        assert (answer["exceptions"], answer.get("warnings")) == ([], [said])
    assert cluster.ask_arrow(text).warnings == (said,)


BESIDE_FLAG = {
    "SELECT COUNT(*) FROM t WHERE flag = 'ja'": "ja",
    "SELECT COUNT(*) FROM t WHERE id > 3 AND NOT flag <> 5": "5",
    "SELECT COUNT(*) FROM t WHERE flag IN ('true', 'yes', 'on')": "yes",
    "SELECT COUNT(*) FROM t WHERE flag BETWEEN 'false' AND 'z'": "z",
    "SELECT COUNT(*) FILTER (WHERE flag = '') FROM t": "",
    "SELECT flag = 1.0 FROM t LIMIT 3": "1.0",
    "SELECT SUM(CASE WHEN flag IN ('nein', 1) THEN 1 ELSE 0 END) FROM t": "nein",
    "SELECT flag, COUNT(*) FROM t GROUP BY flag HAVING flag = 'ja'": "ja",
}


@pytest.mark.parametrize(("text", "literal"), BESIDE_FLAG.items(), ids=list(BESIDE_FLAG))
def test_booleans_compared_with_what_is_no_boolean_are_named(
    cluster: InProcessCluster, text: str, literal: str
) -> None:
    said = (
        f"column 'flag' holds booleans and is compared with '{literal}', which counts as false, as everything does but "
        "'true' and '1'; write TRUE or FALSE"
    )
    for _ in range(3):
        answer = cluster.sql(text)
        assert (answer["exceptions"], answer.get("warnings")) == ([], [said])
    assert cluster.ask_arrow(text).warnings == (said,)


def test_pql_has_two_texts_for_booleans(cluster: InProcessCluster) -> None:
    for literal in ("'TRUE'", "1"):
        answer = cluster.pql(f"SELECT COUNT(*) FROM t WHERE flag = {literal}")
        assert answer["aggregationResults"][0]["value"] == "0"
        assert answer["warnings"] == [
            f"column 'flag' holds booleans and is compared with '{literal.strip(chr(39))}', which is neither of the "
            "texts 'true' and 'false' that PQL has for them"
        ]
    assert "warnings" not in cluster.pql("SELECT COUNT(*) FROM t WHERE flag IN ('true', 'false')")


def test_a_comparison_that_a_text_ends_is_explained_beside_the_error(cluster: InProcessCluster) -> None:
    answer = cluster.sql("SELECT COUNT(*) FROM t WHERE tail = id AND tail IS NOT NULL")
    assert "found the text 'a'" in answer["exceptions"][0]["message"]
    assert answer["warnings"] == [DIGITS_BESIDE_ID.replace("digits", "tail") + AS_DOUBLE.replace("digits", "tail")]


def test_pql_names_columns_of_different_types_too(cluster: InProcessCluster) -> None:
    assert cluster.pql("SELECT COUNT(*) FROM t WHERE equals(digits, id) = 1")["warnings"] == [DIGITS_BESIDE_ID]


def test_dates_of_another_form_are_named_beside_the_answer(cluster: InProcessCluster) -> None:
    for _ in range(3):  # short answers, plans and templates that were kept
        answer = cluster.sql("SELECT COUNT(*) FROM t WHERE ds = '2025-01-10'")
        assert answer["resultTable"]["rows"] == [[0]] and answer["warnings"][0].endswith("; write '20250110'")
        answer = cluster.sql("SELECT COUNT(*) FROM t WHERE ds = '20250110'")
        assert answer["resultTable"]["rows"] == [[1]] and "warnings" not in answer


def test_values_of_one_type_are_compared_without_a_word(cluster: InProcessCluster) -> None:
    for text in (
        "SELECT COUNT(*) FROM t WHERE tail > '10' AND id > 3 AND late IN (1, 2)",
        "SELECT COUNT(*) FROM t WHERE id > '3'",  # read as a number, or refused
        "SELECT COUNT(*) FROM t WHERE tail LIKE '1%'",
        "SELECT COUNT(*) FROM t WHERE digits = tail AND id <> late",
        "SELECT COUNT(*) FROM t WHERE CAST(digits AS DOUBLE) = id AND digits <> CAST(id AS VARCHAR)",
        "SELECT COUNT(*) FROM t WHERE seen > CAST(id AS TIMESTAMP) AND seen > FROMEPOCHSECONDS(id)",
        "SELECT COUNT(*) FROM t WHERE seen < now() AND seen > seen - 86400000 AND YEAR(seen) > id",
        "SELECT COUNT(*) FROM t WHERE CAST(digits AS TIMESTAMP) < seen AND flag = (id > 3)",
        "SELECT COUNT(*) FROM t WHERE flag AND flag = true AND flag IN ('TRUE', '1', 0, 'False') AND flag > 0",
        "SELECT flag = 'True', flag <> 0 FROM t LIMIT 3",
    ):
        assert "warnings" not in cluster.sql(text)


def test_a_table_whose_stream_nobody_reads_is_not_just_empty(cluster: InProcessCluster) -> None:
    schema = Schema.from_json({"schemaName": "events", "dimensionFieldSpecs": [{"name": "id", "dataType": "LONG"}]})
    try:
        for table, is_told in (("events_REALTIME", True), ("events_OFFLINE", False)):
            cluster.catalog.targets["events"] = Target("events", schema, (Half(TableRouting(table, {})),))
            answer = cluster.sql("SELECT COUNT(*) FROM events")
            assert answer["resultTable"]["rows"] == [[0]] and not answer["exceptions"]
            told = [text for text in answer.get("warnings", []) if "/debug/tables/events" in text]
            assert len(told) == is_told and all("'events_REALTIME' has no segment" in text for text in told)
        begun = TableRouting("events_REALTIME", {"events__0__0__20260101T0000Z": ()}, unread=(1, 3))
        (told,) = stream_warnings([begun])
        assert "'events_REALTIME' has no rows yet of partitions 1, 3 of its stream; GET /debug/tables/events" in told
    finally:
        del cluster.catalog.targets["events"]
