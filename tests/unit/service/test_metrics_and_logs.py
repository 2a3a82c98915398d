"""Proves what operators read: metrics in Prometheus' form with bounded labels, and log lines that nobody can forge."""

from __future__ import annotations

import io
import json
import logging
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pinotpy.broker.metrics import BrokerMetrics
from pinotpy.config.settings import BrokerSettings
from pinotpy.query.result.response.envelope import Envelope
from pinotpy.service import audit, logs
from pinotpy.service import metrics as metrics_module
from pinotpy.service.assembly import equip
from pinotpy.service.logs import configure_logs, escape, key_values, mask_secrets, request_id_var
from pinotpy.service.metric_catalogue import BROKER_METRICS, METRICS_BY_ROLE, SERVER_METRICS
from pinotpy.service.metrics import Metric, MetricKind, Metrics


def samples(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """All samples as an independent parser reads them."""
    return {
        (s.name, tuple(s.labels.items())): s.value
        for family in text_string_to_metric_families(metrics.render().decode())
        for s in family.samples
    }


def test_counters_gauges_and_histograms_are_shown_with_their_labels() -> None:
    metrics = Metrics("server", SERVER_METRICS)
    metrics.count("queries", table="flights")
    metrics.count("queries", 2, table="flights")
    metrics.count("queries", table="other")
    metrics.set("documentCount", 336_776, table="flights")
    metrics.observe("httpRequestLatency", 0.003)
    metrics.observe("httpRequestLatency", 7.0)
    found = samples(metrics)
    assert found["pinot_server_queries_total", (("table", "flights"),)] == 3
    assert found["pinot_server_queries_total", (("table", "other"),)] == 1
    assert found["pinot_server_documentCount", (("table", "flights"),)] == 336_776
    assert found["pinot_server_httpRequestLatency_count", ()] == 2
    assert found["pinot_server_httpRequestLatency_sum", ()] == pytest.approx(7.003)
    assert found["pinot_server_httpRequestLatency_bucket", (("le", "0.005"),)] == 1


def test_two_daemons_in_one_process_count_apart() -> None:
    one, two = Metrics("server", SERVER_METRICS), Metrics("server", SERVER_METRICS)
    one.count("queriesRefused")
    assert samples(one)["pinot_server_queriesRefused_total", ()] == 1
    assert samples(two)["pinot_server_queriesRefused_total", ()] == 0


def test_tables_beyond_the_limit_share_one_label(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_module, "TABLES_MAX", 3)
    metrics = Metrics("server", SERVER_METRICS)
    for i in range(10):
        metrics.count("queries", table=f"t{i}")
        metrics.count("queries", table=f"t{i}")
    found = {
        labels[0][1]: value
        for (name, labels), value in samples(metrics).items()
        if name == "pinot_server_queries_total"
    }
    assert found == {"t0": 2, "t1": 2, "t2": 2, "allTables": 14}


def test_a_deleted_tables_series_go() -> None:
    metrics = Metrics("server", SERVER_METRICS)
    metrics.count("queries", table="gone")
    metrics.set("segmentCount", 3, table="gone")
    metrics.count("queries", table="kept")
    metrics.forget_table("gone")
    assert b'"gone"' not in metrics.render() and b'"kept"' in metrics.render()


def test_tallies_and_timings_are_shown_at_every_look_beside_plain_counts() -> None:
    metrics = Metrics("broker", BROKER_METRICS)
    queries, times = metrics.tally("queries", table="t"), metrics.timings("queryTotalTime", table="t")
    for look in range(1, 4):
        for _ in range(3 * metrics_module.WAITING_MAX // 2):
            queries.add(2)
            times.add(0.25)
        metrics.count("queries", table="t")
        found, calls = samples(metrics), look * 3 * metrics_module.WAITING_MAX // 2
        assert found["pinot_broker_queries_total", (("table", "t"),)] == 2 * calls + look
        assert found["pinot_broker_queryTotalTime_count", (("table", "t"),)] == calls
        assert found["pinot_broker_queryTotalTime_sum", (("table", "t"),)] == 0.25 * calls
    assert metrics.tally("queries", table="t") is queries


def test_tallies_of_a_deleted_table_begin_anew() -> None:
    metrics = Metrics("broker", BROKER_METRICS)
    counted, envelope = BrokerMetrics(metrics), Envelope()
    for forgotten in range(3):
        assert metrics.generation == forgotten
        counted.query_done("t", 1.0, envelope)
        counted.query_done("other", 1.0, envelope)
        found = samples(metrics)
        assert found["pinot_broker_queries_total", (("table", "t"),)] == 1
        assert found["pinot_broker_queries_total", (("table", "other"),)] == forgotten + 1
        metrics.forget_table("t")
        assert b'"t"' not in metrics.render()


def test_a_watched_gauge_with_a_label_shows_what_there_is_at_the_look() -> None:
    metrics, values = Metrics("broker", BROKER_METRICS), {"A": 1.5, "B": 2.0}
    metrics.watch_each("adaptiveServerLatencyEma", lambda: values)
    name = "pinot_broker_adaptiveServerLatencyEma"
    for expected in ({"A": 1.5, "B": 2.0}, {"B": 7.0}, {}):
        values.clear()
        values.update(expected)
        found = samples(metrics)
        assert {labels[0][1]: value for (each, labels), value in found.items() if each == name} == expected


def test_a_watched_gauge_is_read_when_shown() -> None:
    value = [1.0]
    metrics = Metrics("controller", METRICS_BY_ROLE["controller"])
    metrics.watch("pinotControllerLeader", lambda: value[0])
    assert samples(metrics)["pinot_controller_pinotControllerLeader", ()] == 1
    value[0] = 0.0
    assert samples(metrics)["pinot_controller_pinotControllerLeader", ()] == 0


def test_a_metric_used_against_its_declaration_is_our_bug() -> None:
    metrics = Metrics("server", SERVER_METRICS)
    with pytest.raises(AssertionError):
        metrics.set("queries", 1, table="t")
    with pytest.raises(AssertionError):
        metrics.count("queries")
    with pytest.raises(KeyError):
        metrics.count("noSuchMetric")
    with pytest.raises(AssertionError):
        Metrics(
            "server", [Metric("twice", MetricKind.COUNTER, "x", "x"), Metric("twice", MetricKind.COUNTER, "x", "x")]
        )


@pytest.mark.parametrize("role", METRICS_BY_ROLE)
def test_every_declared_metric_is_shown_with_its_help(role: str) -> None:
    metrics = Metrics(role, METRICS_BY_ROLE[role])
    text = metrics.render().decode()
    for metric in metrics.declarations:
        assert f"# HELP pinot_{role}_{metric.name}" in text and metric.help in text


# --- logs ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root, audit_log = logging.getLogger(), logging.getLogger(audit.AUDIT_LOGGER)
    before = (list(root.handlers), root.level, logging.getLogger("pinotpy").level, audit_log.propagate)
    yield io.StringIO()
    root.handlers[:], root.level = before[0], before[1]
    logging.getLogger("pinotpy").setLevel(before[2])
    for handler in list(audit_log.handlers):
        audit_log.removeHandler(handler)
        handler.close()
    audit_log.propagate = before[3]


def test_a_line_has_time_level_logger_text_and_request(stream: io.StringIO) -> None:
    configure_logs(stream=stream)
    token = request_id_var.set("r1")
    logging.getLogger("pinotpy.x").info("segment loaded segment=%s took_ms=%d", "s0", 3)
    request_id_var.reset(token)
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z INFO pinotpy\.x segment loaded segment=s0 took_ms=3 request_id=r1\n",
        stream.getvalue(),
    )


HOSTILE = "x\n2026-01-01T00:00:00.000Z ERROR pinotpy.fake all is lost\r\x1b[31m\x00\u2028\u202e\x85end"


def test_text_from_outside_cannot_forge_a_line_or_steer_a_terminal(stream: io.StringIO) -> None:
    configure_logs(stream=stream)
    logging.getLogger("pinotpy.x").warning("unknown table table=%s", HOSTILE)
    line = stream.getvalue()
    assert line.count("\n") == 1 and line.endswith("\n") and len(line.splitlines()) == 1
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u202e]", line)
    assert "\\x1b[31m" in line and "\\u2028" in line


def test_every_line_of_a_trace_is_marked(stream: io.StringIO) -> None:
    configure_logs(stream=stream)
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        logging.getLogger("pinotpy.x").exception("failed")
    first, *trace = stream.getvalue().rstrip("\n").split("\n")
    assert first.endswith("failed") and all(part.startswith("  | ") for part in trace)


def test_json_lines_are_json_one_a_line(stream: io.StringIO) -> None:
    configure_logs(stream=stream, as_json=True)
    logging.getLogger("pinotpy.x").warning("unknown table table=%s", HOSTILE)
    (line,) = stream.getvalue().strip("\n").split("\n")
    assert json.loads(line)["message"].endswith("end") and json.loads(line)["level"] == "WARNING"


@pytest.mark.parametrize(
    "text",
    [
        "headers {'Authorization': 'Basic YWxpY2U6c2VjcmV0'}",
        "authorization: Bearer topsecretvalue123",
        "calling with Bearer topsecretvalue123 now",
        "password=hunter2secret next",
        "token pt_0123456789abcdef_" + "S" * 43,
        "x-pinotpy-cluster-token: aaaaaaaaaaaaaaaasecretaaaaaaaaaaaaa",
        '{"password": "hunter2secret"}',
    ],
)
def test_what_looks_like_a_credential_is_masked(text: str) -> None:
    masked = mask_secrets(text)
    assert "***" in masked
    for secret in ("YWxpY2U6c2VjcmV0", "topsecret", "hunter2", "S" * 43, "secretaaa"):
        assert secret not in masked


def test_ordinary_lines_are_not_masked() -> None:
    for text in ("segment=s0 took_ms=3", "the token of alice has expired", "basic flow", "tokens=4"):
        assert mask_secrets(text) == text


def test_long_lines_are_cut(stream: io.StringIO) -> None:
    configure_logs(stream=stream)
    logging.getLogger("pinotpy.x").warning("%s", "y" * 100_000)
    assert len(stream.getvalue()) < logs.LINE_MAX_CHARS + 200 and "83616 characters more" in stream.getvalue()


def test_libraries_speak_only_from_warning_up(stream: io.StringIO) -> None:
    configure_logs(stream=stream, level="DEBUG")
    logging.getLogger("kazoo.client").info("chatter")
    logging.getLogger("pinotpy.x").debug("detail")
    assert "chatter" not in stream.getvalue() and "detail" in stream.getvalue()


def test_key_values_quote_what_would_blur(stream: io.StringIO) -> None:
    assert key_values(a=1, b="two words", c=None, d='q"\n', e="x=y") == 'a=1 b="two words" d="q\\"\\\\n" e="x=y"'
    assert escape("tab\there") == "tab\\there"


def test_the_audit_trail_has_a_file_of_its_own(stream: io.StringIO, tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    configure_logs(stream=stream, audit_file=file)
    audit.record(
        "denied",
        principal="a\nb",
        action="READ",
        resource="table 't'",
        method="GET",
        path="/tables/{t}",
        peer="10.0.0.1",
        status=403,
        request_id="r",
    )
    (line,) = file.read_text().splitlines()
    assert json.loads(line)["principal"] == "a\nb" and json.loads(line)["event"] == "denied"
    assert stream.getvalue() == "" and stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_daemons_settings_name_the_audit_file(stream: io.StringIO, tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    equip("broker", BrokerSettings(audit_file=file))
    audit.record(
        "change",
        principal="p",
        action="WRITE",
        resource="r",
        method="PUT",
        path="/x",
        peer="10.0.0.1",
        status=200,
        request_id="r",
    )
    assert json.loads(file.read_text())["event"] == "change"
