"""Proves the query page in a real browser: headless Chromium, driven over its DevTools protocol, against a controller
whose broker is a stub that answers in both dialects. Skips where there is no Chromium.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from browser import CHROMIUM, Page, open_browser
from controller_harness import Harness, start_harness

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(
        CHROMIUM is None,
        reason="no Chromium here (/usr/bin/chromium): the query page is checked by its files and calls only",
    ),
]

SELECTION = {
    "selectionResults": {"columns": ["id", "name"], "results": [["1", "n1"], ["2", "<b>n2</b>"]]},
    "exceptions": [],
    "numDocsScanned": 2,
    "totalDocs": 10,
    "timeUsedMs": 3,
    "partialResult": False,
    "exactness": "exact",
}
RESULT_TABLE = {
    "resultTable": {
        "dataSchema": {"columnNames": ["name", "count(*)"], "columnDataTypes": ["STRING", "LONG"]},
        "rows": [["n1", 7]],
    },
    "exceptions": [],
    "timeUsedMs": 2,
}
REFUSED = {
    "exceptions": [{"errorCode": 150, "message": "PQLParsingError: expected FROM, found 'frm' at line 1, column 11"}]
}


class StubBroker(BaseHTTPRequestHandler):
    asked: list[tuple[str, dict[str, Any]]]

    def do_POST(self) -> None:
        document = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.asked.append((self.path, document))
        text = document.get("pql") or document.get("sql")
        answer = REFUSED if "frm" in text else RESULT_TABLE if "sql" in document else SELECTION
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def broker() -> Iterator[tuple[ThreadingHTTPServer, list[tuple[str, dict[str, Any]]]]]:
    asked: list[tuple[str, dict[str, Any]]] = []
    handler = type("Handler", (StubBroker,), {"asked": asked})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server, asked
    server.shutdown()
    server.server_close()


@pytest.fixture
def page(tmp_path: Path, eventually: Any) -> Iterator[Page]:
    with open_browser(tmp_path / "profile", eventually) as opened:
        yield opened


@pytest.fixture
def harness(tmp_path: Path, broker: Any) -> Iterator[Harness]:
    started = start_harness(tmp_path / "controller", broker=f"Broker_127.0.0.1_{broker[0].server_port}")
    started.add_parts()
    started.settle()
    yield started
    started.close()


def test_a_user_asks_in_both_dialects_and_sees_where_an_error_is(
    harness: Harness, broker: Any, page: Page, eventually: Any
) -> None:
    asked = broker[1]
    page.open(f"{harness.server.url}/query")
    eventually(
        lambda: page.value("document.querySelector('#tables button')?.textContent") == "parts",
        what="the table is listed",
    )
    page.value("document.querySelector('#tables button').click()")
    columns = "[...document.querySelectorAll('#tables .column')].map((b) => b.textContent)"
    eventually(
        lambda: page.value(columns) == ["idINT", "nameSTRING", "amountLONG", "dayINT"], what="its columns are shown"
    )

    assert page.value("document.querySelector('input[name=dialect]:checked').value") == "sql"
    page.value("document.querySelector('input[value=pql]').click()")
    page.type("select id, name from parts")
    page.ctrl_enter()
    cells = "[...document.querySelectorAll('#results tbody tr')].map((r) => [...r.cells].map((c) => c.textContent))"
    # Text is text: what looks like markup in a value stays a value.
    eventually(lambda: page.value(cells) == [["1", "n1"], ["2", "<b>n2</b>"]], what="the selection is shown")
    assert asked[-1] == ("/query", {"pql": "select id, name from parts"})
    assert page.value("document.getElementById('badge').textContent") == "exact"
    assert "2docs scanned" in page.value(
        "[...document.querySelectorAll('#statistics div')].map((d) => d.children[1].textContent + "
        "d.children[0].textContent).join('|')"
    )

    page.value("document.querySelector('input[value=sql]').click()")
    page.type("select name, count(*) from parts group by name")
    page.ctrl_enter()
    eventually(lambda: page.value(cells) == [["n1", "7"]], what="the result table is shown")
    assert asked[-1][0] == "/query/sql"

    page.type("select id frm parts")
    page.ctrl_enter()
    eventually(
        lambda: page.value("document.querySelector('#editor-marks mark')?.textContent") == "frm",
        what="the error is marked in the text",
    )
    assert "expected FROM" in page.value("document.getElementById('exceptions').textContent")
    assert page.value("document.getElementById('badge').textContent") == "failed"

    history = page.value("[...document.querySelectorAll('#history button')].map((b) => b.textContent)")
    assert history == [
        "select id frm parts",
        "select name, count(*) from parts group by name",
        "select id, name from parts",
    ]
    assert len(page.screenshot()) > 10_000
    assert page.faults == []
    assert {url.split("/")[2] for url in page.requested if url.startswith("http")} == {harness.server.url.split("/")[2]}


def test_the_landing_page_tells_the_state_of_the_cluster(harness: Harness, page: Page, eventually: Any) -> None:
    page.open(harness.server.url)
    truth = "document.getElementById('truth')?.textContent"
    eventually(
        lambda: page.value(truth) == "Cluster PinotCluster: all 1 tables serve every replica.",
        what="the sentence is shown",
    )
    assert page.faults == []
