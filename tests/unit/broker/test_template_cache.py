"""Proves that a broker's templates change no answer and let nothing pass: each query with other literals answers as a
broker without templates does, rights are asked for every time, another schema or other options find no template of the
old ones, a server that lost its templates gets them again, one without the feature gets whole queries, and the caches
are bounded.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from in_process import InProcessCluster

from pinotpy.broker.catalog import Half, Target
from pinotpy.broker.handler import Question, answer_query
from pinotpy.broker.parts import EVERY_TABLE, TableRights
from pinotpy.broker.plan_cache import TEMPLATES_MAX, TemplateCache
from pinotpy.broker.routing.table_routing import TableRouting
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.errors import AccessDeniedError, DataError
from pinotpy.pql.ast import Dialect, Identifier
from pinotpy.query.model.context import Bound, Comparison, Predicate
from pinotpy.query.model.context_codec import decode_context
from pinotpy.query.result.partial import PartialResult
from pinotpy.rpc.channel import ServerAddress
from pinotpy.rpc.template_sender import TemplateSender
from pinotpy.rpc.wire import (
    FEATURE_COMPACT_ROWS,
    FEATURE_FINAL,
    FEATURE_TEMPLATES,
    FEATURES_SUPPORTED,
    FLAG_COMPACT_ROWS,
    FLAG_FINAL,
    FLAG_TRACE,
    UNKNOWN_TEMPLATE,
    RequestKind,
    ServerRequest,
    decode_bound,
    decode_request,
    encode_bound,
    template_digest,
    template_of,
)
from pinotpy.server import query_service, query_templates
from pinotpy.server.query_templates import DISAPPOINTED_QUERIES, QueryTemplates

ROWS = 1_000
SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [
            {"name": "n", "dataType": "INT"},
            {"name": "s", "dataType": "STRING"},
            {"name": "d", "dataType": "DOUBLE"},
        ],
    }
)
CONFIG = TableConfig.from_json(
    {
        "tableName": "t",
        "tableType": "OFFLINE",
        "segmentsConfig": {"replication": "1"},
        "tenants": {},
        "tableIndexConfig": {},
    }
)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[InProcessCluster]:
    cluster = InProcessCluster(tmp_path, num_servers=2)

    def rows(part: int) -> list[pa.RecordBatch]:
        numbers = range(part * ROWS, (part + 1) * ROWS)
        columns = {
            "n": pa.array(numbers, pa.int32()),
            "s": [f"it's {n % 7}" for n in numbers],
            "d": [n / 4 for n in numbers],
        }
        return [pa.RecordBatch.from_pydict(columns)]

    cluster.add_table(SCHEMA, CONFIG, [rows(part) for part in range(3)])
    yield cluster
    cluster.close()


def stripped(answer: dict[str, Any]) -> dict[str, Any]:
    return {
        key: value
        for key, value in answer.items()
        if key not in ("requestId", "timeUsedMs", "brokerReduceTimeMs") and "CpuTime" not in key
    }


def test_answers_with_templates_are_those_without(cluster: InProcessCluster) -> None:
    rng = random.Random(5)
    texts = [
        lambda: (
            f"SELECT COUNT(*), SUM(d) FROM t WHERE n >= {rng.randrange(3000)} AND n < {rng.randrange(4000)} GROUP BY "
            "s TOP 10"
        ),
        lambda: (
            f"SELECT n, s FROM t WHERE s = 'it''s {rng.randrange(9)}' AND d > -{rng.randrange(9)}.5 ORDER BY n LIMIT 5"
        ),
        lambda: (
            f"SELECT COUNT(*) FROM t WHERE n IN ({rng.randrange(4)}, {rng.randrange(4)}, {rng.randrange(3000)}) OR n "
            f"= {rng.randrange(9)}"
        ),
        lambda: (
            f"SELECT MAX(n) FROM t WHERE d BETWEEN {rng.randrange(500)}.25 AND {rng.randrange(900)} AND n <> "
            f"{rng.choice([5, 2**31, 10**18, 10**30])}"
        ),
        lambda: f"SELECT COUNT(*) FROM t WHERE s <> {rng.randrange(1000)}",  # warnings name the number
    ]
    asked = 0
    for written in (make() for make in texts for _ in range(25)):
        for dialect in (Dialect.PQL, Dialect.SQL):
            text = written.replace(" TOP 10", "") if dialect is Dialect.SQL else written
            answer = cluster.ask(text, dialect)
            used = cluster.broker.templates, cluster.broker.plans
            cluster.broker.templates, cluster.broker.plans = TemplateCache(), type(used[1])()
            expected = cluster.ask(text, dialect)
            cluster.broker.templates, cluster.broker.plans = used
            if "GROUP BY" in text and dialect is Dialect.SQL:
                for one in (answer, expected):
                    one["resultTable"]["rows"].sort()
            assert stripped(answer) == stripped(expected), text
            asked += 1
    assert asked == 250 and len(cluster.broker.templates) >= 6


def ask(cluster: InProcessCluster, text: str, rights: Any = EVERY_TABLE, **fields: Any) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(
        asyncio.run(answer_query(cluster.broker, Question(text, Dialect.PQL, **fields), rights))
    )
    return answer


def learned(cluster: InProcessCluster) -> None:
    for number in range(3):
        ask(cluster, f"SELECT COUNT(*) FROM t WHERE n = {number}")
    assert len(cluster.broker.templates) == 1


def test_rights_are_asked_for_every_query_of_a_template(cluster: InProcessCluster) -> None:
    learned(cluster)
    asked: list[str] = []

    def denied(table: str) -> bool:
        asked.append(table)
        return False

    rights = TableRights("bob", denied, denied)
    for number in range(10, 13):
        answer = ask(cluster, f"SELECT COUNT(*) FROM t WHERE n = {number}", rights)
        assert [e["errorCode"] for e in answer["exceptions"]] == [
            AccessDeniedError.code
        ] and "aggregationResults" not in answer
    assert asked == ["t"] * 3


def test_a_long_literal_does_not_pass_the_limit_on_texts(cluster: InProcessCluster) -> None:
    cluster.broker.limits = replace(cluster.broker.limits, query_text_bytes_max=100)
    for number in range(3):
        assert ask(cluster, f"SELECT COUNT(*) FROM t WHERE s = 'it''s {number}'")["exceptions"] == []
    assert len(cluster.broker.templates) == 1
    for literal in ("x" * 200, "é" * 50):
        assert [
            e["errorCode"] for e in ask(cluster, f"SELECT COUNT(*) FROM t WHERE s = '{literal}'")["exceptions"]
        ] == [150]


def test_another_schema_makes_templates_void(cluster: InProcessCluster) -> None:
    learned(cluster)
    target = cluster.catalog.targets["t"]
    without_n = Schema.from_json({"schemaName": "t", "dimensionFieldSpecs": [{"name": "s", "dataType": "STRING"}]})
    cluster.catalog.targets["t"] = replace(target, schema=without_n)
    for number in range(20, 24):
        assert [e["errorCode"] for e in ask(cluster, f"SELECT COUNT(*) FROM t WHERE n = {number}")["exceptions"]] == [
            710
        ]
    cluster.catalog.targets["t"] = replace(target, schema=SCHEMA.model_copy())
    for number in range(30, 36):
        assert ask(cluster, f"SELECT COUNT(*) FROM t WHERE n = {number}")["aggregationResults"][0]["value"] == "1"


def test_options_beside_the_text_have_templates_of_their_own(cluster: InProcessCluster) -> None:
    learned(cluster)
    for number in range(5):
        answer = ask(cluster, f"SELECT COUNT(*) FROM t WHERE n = {number}", query_options="preserveType=true")
        assert answer["aggregationResults"][0]["value"] == 1
    assert len(cluster.broker.templates) == 2
    explained = ask(cluster, "SELECT COUNT(*) FROM t WHERE n = 7", explain=True)
    assert "aggregationResults" not in explained
    assert "traceInfo" in ask(cluster, "SELECT COUNT(*) FROM t WHERE n = 8", trace=True)


def test_a_table_that_is_gone_is_unknown_to_templates_too(cluster: InProcessCluster) -> None:
    learned(cluster)
    del cluster.catalog.targets["t"]
    assert [e["errorCode"] for e in ask(cluster, "SELECT COUNT(*) FROM t WHERE n = 99")["exceptions"]] == [410]


def test_the_time_boundary_of_a_hybrid_table_counts(cluster: InProcessCluster) -> None:
    target = cluster.catalog.targets["t"]
    boundary = Predicate(Identifier("n"), Comparison.RANGE, upper=Bound(1_500, True))
    cluster.catalog.targets["t"] = Target("t", SCHEMA, (replace(target.halves[0], time_predicate=boundary),))
    for number in range(1_400, 1_410):
        answer = ask(cluster, f"SELECT COUNT(*) FROM t WHERE n >= {number}")
        assert answer["aggregationResults"][0]["value"] == str(1_501 - number)
    assert len(cluster.broker.templates) == 1


def test_a_server_that_lost_its_templates_gets_them_again(cluster: InProcessCluster) -> None:
    learned(cluster)
    for service in cluster.services.values():
        assert len(service._templates) == 1
        service._templates = QueryTemplates(decode_context)
    assert ask(cluster, "SELECT COUNT(*) FROM t WHERE n >= 2990")["aggregationResults"][0]["value"] == "10"
    assert ask(cluster, "SELECT COUNT(*) FROM t WHERE n = 2990")["aggregationResults"][0]["value"] == "1"
    assert all(len(service._templates) >= 1 for service in cluster.services.values())


def test_a_server_without_the_feature_gets_whole_queries(cluster: InProcessCluster) -> None:
    kinds: list[int] = []

    async def call(server: ServerAddress, content: bytes, timeout_s: float) -> bytes:
        kinds.append(decode_request(content).kind)
        return await cluster._call(server, content, timeout_s)

    sender = TemplateSender(call)

    async def send(server: str, request: ServerRequest, timeout_s: float) -> PartialResult:
        return PartialResult.from_bytes(await sender.send(ServerAddress(server, "old", 1), request, timeout_s))

    cluster.broker.send = send
    for number in range(5):
        assert ask(cluster, f"SELECT COUNT(*) FROM t WHERE n = {number}")["aggregationResults"][0]["value"] == "1"
    assert len(cluster.broker.templates) == 1 and set(kinds) == {RequestKind.QUERY}


def test_a_template_crosses_once_to_each_server() -> None:
    held: dict[str, set[bytes]] = {"a": set(), "b": set()}
    sent: list[tuple[str, bool]] = []

    async def call(server: ServerAddress, content: bytes, timeout_s: float) -> bytes:
        bound = decode_bound(content)
        sent.append((server.instance, bool(bound.template)))
        if bound.template:
            held[server.instance].add(bound.digest)
        return b"answer" if bound.digest in held[server.instance] else UNKNOWN_TEMPLATE

    async def work() -> None:
        sender = TemplateSender(call)
        request = ServerRequest(
            RequestKind.QUERY, 1, 1000, "Broker_a_1", "", "t_OFFLINE", ("s",), b"{}", literals=b"[]"
        )
        for server in ("a", "a", "b", "a", "b"):
            assert (
                await sender.send(ServerAddress(server, "h", 1, features=FEATURES_SUPPORTED), request, 1.0) == b"answer"
            )
        assert sent == [("a", True), ("a", False), ("b", True), ("a", False), ("b", False)]
        held["a"].clear()  # it started again
        sent.clear()
        for _ in range(2):
            assert await sender.send(ServerAddress("a", "h", 1, features=FEATURES_SUPPORTED), request, 1.0) == b"answer"
        assert sent == [("a", False), ("a", True), ("a", False)]

    asyncio.run(work())


def test_a_server_that_does_not_know_the_flag_is_sent_none() -> None:
    flags: list[int] = []

    async def call(server: ServerAddress, content: bytes, timeout_s: float) -> bytes:
        flags.append(decode_request(content).flags)
        return b"answer"

    async def work() -> None:
        request = ServerRequest(
            RequestKind.QUERY,
            1,
            1000,
            "Broker_a_1",
            "",
            "t_OFFLINE",
            ("s",),
            b"{}",
            flags=FLAG_TRACE | FLAG_FINAL | FLAG_COMPACT_ROWS,
        )
        for features in (
            0,
            FEATURE_TEMPLATES,
            FEATURE_TEMPLATES | FEATURE_FINAL,
            FEATURE_COMPACT_ROWS,
            FEATURES_SUPPORTED,
        ):
            await TemplateSender(call).send(ServerAddress("a", "h", 1, features=features), request, 1.0)

    asyncio.run(work())
    assert flags == [
        FLAG_TRACE,
        FLAG_TRACE,
        FLAG_TRACE | FLAG_FINAL,
        FLAG_TRACE | FLAG_COMPACT_ROWS,
        FLAG_TRACE | FLAG_FINAL | FLAG_COMPACT_ROWS,
    ]


def let_any_time_be_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test says of what is tried must not depend on how fast the machine is."""
    monkeypatch.setattr(query_templates, "QUICK_CPU_NS", 60 * 10**9)
    monkeypatch.setattr(query_service, "LONG_CPU_NS", 60 * 10**9)


def bound_of(context: bytes, digest: bytes | None = None, segments: tuple[str, ...] = ("s",)) -> Any:
    request = ServerRequest(RequestKind.QUERY, 1, 1000, "b", "", "t_OFFLINE", segments, context, literals=b"[]")
    template = template_of(request)
    return decode_bound(encode_bound(request, digest or template_digest(template), template))


def test_nobody_can_bring_another_template_under_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    templates = QueryTemplates(lambda content: None)  # type: ignore[arg-type,return-value]
    monkeypatch.setattr(query_templates, "is_plain", lambda context: False)
    with pytest.raises(DataError, match="digest"):
        templates.find(bound_of(b"bad", template_digest(b"good")))
    assert len(templates) == 0
    monkeypatch.setattr(query_templates, "TEMPLATES_MAX", 10)
    for number in range(30):
        assert templates.find(bound_of(b"%d" % number)) is not None
    assert len(templates) == 10
    monkeypatch.setattr(query_templates, "TEMPLATES_MAX_BYTES", 100_000)
    for number in range(30):
        templates.find(bound_of(b"%d" % number + bytes(4_000)))
    assert len(templates) <= 3


def test_templates_of_other_segments_share_what_was_decoded_and_what_is_expected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decoded: list[bytes] = []
    templates = QueryTemplates(decoded.append)  # type: ignore[arg-type]
    monkeypatch.setattr(query_templates, "is_plain", lambda context: False)
    first = templates.find(bound_of(b"context"))
    assert first is not None and not first.expectation.last_was_quick
    first.expectation.took(query_templates.QUICK_CPU_NS - 1)
    second = templates.find(bound_of(b"context", segments=("t",)))
    assert second is not None and second.shape is first.shape and second.expectation.is_quick()
    second.expectation.took(query_templates.QUICK_CPU_NS)
    assert first.expectation.last_was_quick and not second.expectation.last_was_quick
    many = templates.find(bound_of(b"context", segments=tuple(map(str, range(query_templates.FEW_SEGMENTS_MAX + 1)))))
    assert many is not None and not many.expectation.last_was_quick, "of many segments nothing is known yet"
    assert decoded == [b"context"]
    # What is shared goes with the last template that has it.
    monkeypatch.setattr(query_templates, "TEMPLATES_MAX", 1)
    templates.find(bound_of(b"another"))
    assert len(templates) == 1 and templates._shapes.keys() == {b"another"}
    assert templates._num_bytes == len(bound_of(b"another").template) + query_templates.CONTEXT_FACTOR * len(b"another")
    templates.find(bound_of(b"context"))
    assert decoded == [b"context", b"another", b"context"]


def test_templates_are_bounded_and_texts_that_never_come_again_make_none(cluster: InProcessCluster) -> None:
    broker = cluster.broker
    cluster.catalog.targets["t"] = Target("t", SCHEMA, (Half(TableRouting("t_OFFLINE", {})),))
    for number in range(60):
        ask(cluster, f"SELECT COUNT(*) FROM t WHERE n = 5 AND s = 'x' GROUP BY s TOP {number + 1}")
    assert len(broker.templates) == 1, "the second made the first template; other TOPs were seen once each"
    for number in range(60):
        ask(cluster, f"SELECT COUNT(*) FROM t WHERE n = 6 AND s = 'x' GROUP BY s TOP {number + 1}")
    assert 50 <= len(broker.templates) <= TEMPLATES_MAX


def test_a_quick_query_waits_for_no_place_among_those_that_run(
    cluster: InProcessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that reads requests runs it: while it waits, nobody is read. Other queries wait, until their time is
    up.
    """
    let_any_time_be_quick(monkeypatch)
    for number in range(5):  # the fourth brings the servers the template
        ask(cluster, f"SELECT COUNT(*) FROM t WHERE n = {number}", query_options="timeoutMs=60000")
    with ExitStack() as held:
        for service in cluster.services.values():
            for _ in range(8):
                held.enter_context(service._scheduler.slot(time.monotonic_ns() + 60 * 10**9))
        answer = ask(cluster, "SELECT COUNT(*) FROM t WHERE n = 77", query_options="timeoutMs=60000")
        assert answer["exceptions"] == [] and answer["aggregationResults"][0]["value"] == "1"
        late = ask(cluster, "SELECT COUNT(*) FROM t WHERE n = 77 AND s LIKE 'x%'", query_options="timeoutMs=300")
        assert late["exceptions"], "one that is not known to be quick"


def test_the_first_count_of_all_rows_waits_for_no_place_either(
    cluster: InProcessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it comes whole, as the first ones of a text do, or brings its template."""
    monkeypatch.setattr(query_service, "SMALL_DOCS_MAX", 0)
    with ExitStack() as held:
        for service in cluster.services.values():
            for _ in range(8):
                held.enter_context(service._scheduler.slot(time.monotonic_ns() + 60 * 10**9))
        for _ in range(6):
            answer = ask(cluster, "SELECT COUNT(*) FROM t", query_options="timeoutMs=60000")
            assert answer["exceptions"] == [] and answer["aggregationResults"][0]["value"] == str(answer["totalDocs"])
        late = ask(cluster, "SELECT COUNT(*), MAX(n) FROM t WHERE d > 0", query_options="timeoutMs=300")
        assert late["exceptions"], "one that reads rows waits"
    assert all(templates_of(service) for service in cluster.services.values()), "the last ones brought templates"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*), SUM(d) FROM t WHERE n >= {} AND n < {} GROUP BY s TOP 10",
        "SELECT s, n FROM t WHERE n >= {} AND n < {} ORDER BY s, n LIMIT 10",
    ],
    ids=["groups", "sorted rows"],
)
def test_a_query_of_a_large_table_is_quick_where_its_plan_reads_little(
    text: str, cluster: InProcessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the last query of a template took decides whether the next one is tried; what would read more docs is given
    up before it reads any, and waits for its place as all others do.
    """
    monkeypatch.setattr(query_service, "QUICK_DOCS_MAX", 100)
    monkeypatch.setattr(query_service, "QUICK_SORTED_DOCS_MAX", 100)
    let_any_time_be_quick(monkeypatch)
    for number in range(6):
        ask(cluster, text.format(number, number + 20), query_options="timeoutMs=60000")
    templates = [
        template for service in cluster.services.values() for template in service._templates._templates.values()
    ]
    assert templates and all(template.is_plain and template.expectation.is_quick() for template in templates)
    with ExitStack() as held:
        for service in cluster.services.values():
            for _ in range(8):
                held.enter_context(service._scheduler.slot(time.monotonic_ns() + 60 * 10**9))
        few = ask(cluster, text.format(77, 97), query_options="timeoutMs=60000")
        assert few["exceptions"] == [] and few["numDocsScanned"] == 20
        many = ask(cluster, text.format(0, 900), query_options="timeoutMs=500")
        assert many["exceptions"] and many["numDocsScanned"] == 0, "it reads too much, and waits"
        again = ask(cluster, text.format(77, 97), query_options="timeoutMs=500")
        assert again["exceptions"], "the next ones are not tried"
    for _ in range(DISAPPOINTED_QUERIES):
        assert ask(cluster, text.format(5, 900), query_options="timeoutMs=60000")["numDocsScanned"] == 895
    assert any(template.expectation.is_quick() for template in templates)


def test_a_query_of_few_docs_that_takes_long_is_not_run_where_requests_are_read(
    cluster: InProcessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few rows may be many groups, or long texts: what the template's last query took says so. One that was wrongly
    expected to be quick is followed by many that are not.
    """
    text = "SELECT COUNT(*) FROM t WHERE n >= {} GROUP BY s, n, d TOP 10"
    services = list(cluster.services.values())
    ran: list[tuple[int, bool]] = []  # which service, and whether at once
    for place, service in enumerate(services):

        def answer(*args: Any, place: int = place, answer: Any = service.answer, **fields: Any) -> Any:
            ran.append((place, fields.get("is_quick", False)))
            return answer(*args, **fields)

        monkeypatch.setattr(service, "answer", answer)
    for number in range(6):
        ask(cluster, text.format(number))
    assert [template for service in services for template in templates_of(service)]
    ran.clear()
    for service in services:
        for template in templates_of(service):
            template.expectation.took(query_templates.QUICK_CPU_NS)
    ask(cluster, text.format(7))
    assert ran and not any(is_quick for _, is_quick in ran), "they took long: all wait for a place, on own threads"
    let_any_time_be_quick(monkeypatch)
    monkeypatch.setattr(query_service, "LONG_CPU_NS", 0)
    ran.clear()
    ask(cluster, text.format(8))
    assert ran and all(is_quick for _, is_quick in ran)
    # A server that is slow at the moment may not have been asked.
    expectations = [template.expectation for place, _ in ran for template in templates_of(services[place])]
    assert not any(expected.is_quick() for _ in range(DISAPPOINTED_QUERIES) for expected in expectations)
    assert all(expected.is_quick() for expected in expectations)


def templates_of(service: Any) -> list[Any]:
    return list(service._templates._templates.values())


@pytest.mark.parametrize("condition", ["n < 5 OR s = 'x'", "n >= 0", "s <> 'x'"])
def test_a_query_tried_in_vain_is_answered_whole(
    condition: str, cluster: InProcessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"SELECT COUNT(*), MAX(d) FROM t WHERE {condition}"
    expected = [stripped(ask(cluster, text)) for _ in range(6)][-1]
    monkeypatch.setattr(query_service, "QUICK_DOCS_MAX", 3)
    let_any_time_be_quick(monkeypatch)
    tried: list[int] = []
    monkeypatch.setattr(query_templates.Expectation, "failed", lambda self: tried.append(1))
    assert stripped(ask(cluster, text)) == expected and expected["exceptions"] == []
    assert tried
