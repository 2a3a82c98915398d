"""Proves the requests that the reference's manual writes with curl, at the broker and through the controller, as the
query page asks: both answer alike, whatever the form. The oracle is what was uploaded (trips_table.py) and the recorded
answers of 1.5.1 for shapes.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any

import httpx
import pytest
from live_cluster import LiveCluster
from trips_table import NUM_TRIPS, TRIPS

pytestmark = pytest.mark.cluster

QUERY = "SELECT city, COUNT(*) FROM trips WHERE city = 'O''Hare' AND city LIKE '%&%' OR city = 'Größe 🙂' GROUP BY city"
ROWS = [["Größe 🙂", sum(row["city"] == "Größe 🙂" for row in TRIPS)]]
# What differs from answer to answer, or tells which server's clock ran.
VOLATILE = ("timeUsedMs", "requestId", "brokerReduceTimeMs", "CpuTimeNs", "AllocatedBytes", "CPUTimeNs")


def address(live: LiveCluster, via: str) -> str:
    return f"{live.broker_url}/query/sql" if via == "broker" else f"{live.controller_url}/sql"


def stable(answer: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in answer.items() if not key.endswith(VOLATILE)}


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl here")
@pytest.mark.parametrize("via", ["broker", "controller"])
def test_curl_as_in_the_manual(trips_cluster: LiveCluster, via: str) -> None:
    url = address(trips_cluster, via)
    for arguments in (
        ["-H", "Content-Type: application/json", "-X", "POST", "-d", json.dumps({"sql": QUERY})],
        ["-d", json.dumps({"sql": QUERY})],
        [
            "-X",
            "POST",
            "-d",
            json.dumps({"sql": QUERY, "queryOptions": "timeoutMs=9000;enableNullHandling=true", "trace": False}),
        ],
        ["-G", "--data-urlencode", f"sql={QUERY}"],
    ):
        done = subprocess.run(
            ["curl", "-s", "--noproxy", "*", *arguments, url], capture_output=True, timeout=120, check=True
        )
        assert json.loads(done.stdout)["resultTable"]["rows"] == ROWS, arguments


@pytest.mark.parametrize(
    "query",
    [
        QUERY,
        "SELEC 1",
        "SELECT nosuch FROM trips",
        "SELECT COUNT(*) FROM no_such",
        "",
        "SELECT 1",
        "SET timeoutMs=0; SELECT COUNT(*) FROM trips",
    ],
)
@pytest.mark.parametrize("method", ["POST", "GET"])
def test_the_controller_answers_as_the_broker_does(trips_cluster: LiveCluster, method: str, query: str) -> None:
    def ask(via: str) -> httpx.Response:
        url = address(trips_cluster, via)
        with httpx.Client(trust_env=False) as client:
            return client.post(url, json={"sql": query}) if method == "POST" else client.get(url, params={"sql": query})

    direct, through = ask("broker"), ask("controller")
    assert (
        (through.status_code, through.headers["content-type"])
        == (direct.status_code, direct.headers["content-type"])
        == (200, "application/json")
    )
    assert stable(through.json()) == stable(direct.json())


def test_options_and_traces_go_through_the_controller(trips_cluster: LiveCluster) -> None:
    with httpx.Client(trust_env=False, base_url=trips_cluster.controller_url) as client:
        body = {
            "sql": "SELECT fare FROM trips WHERE fare IS NULL LIMIT 1",
            "queryOptions": "enableNullHandling=true",
            "trace": True,
        }
        posted = client.post("/sql", json=body).json()
        got = client.get(
            "/sql", params={key: str(value).lower() if value is True else value for key, value in body.items()}
        ).json()
    for answer in (posted, got):
        assert answer["resultTable"]["rows"] == [[None]] and answer["traceInfo"]


def test_a_request_without_a_query_says_what_is_missing(trips_cluster: LiveCluster) -> None:
    with httpx.Client(trust_env=False, base_url=trips_cluster.controller_url) as client:
        for answer in (
            client.post("/sql", json={}),
            client.get("/sql"),
            client.post("/sql", content=b"[1]"),
            client.post("/sql", content=b"{"),
        ):
            document = answer.json()
            assert (
                answer.status_code,
                document["partialResult"],
                [each["errorCode"] for each in document["exceptions"]],
            ) == (200, True, [100])
    with httpx.Client(trust_env=False) as client:
        assert client.post(f"{trips_cluster.broker_url}/query/sql", json={}).status_code == 400


def test_what_clients_ask_a_controller_before_they_query(trips_cluster: LiveCluster) -> None:
    broker = trips_cluster.broker_url.removeprefix("http://")
    host, _, port = broker.partition(":")
    entry = {"host": host, "port": int(port), "instanceName": f"Broker_{host}_{port}", "grpcPort": -1}
    with httpx.Client(trust_env=False, base_url=trips_cluster.controller_url) as client:
        found = {
            path: client.get(path).json()
            for path in ("/tables", "/schemas", "/databases", "/v2/brokers", "/v2/brokers/tables?state=ONLINE")
        }
        assert (
            found["/tables"] == {"tables": ["trips"]}
            and found["/schemas"] == ["trips"]
            and found["/databases"] == ["default"]
        )
        assert found["/v2/brokers"] == {"tenants": {"DefaultTenant": [entry]}, "tables": {"trips": [entry]}}
        assert found["/v2/brokers/tables?state=ONLINE"] == {"trips": [entry]}
        assert client.get("/tables/trips/schema").json() == client.get("/schemas/trips").json()
    assert trips_cluster.query("SELECT COUNT(*) FROM trips", "sql")["resultTable"]["rows"] == [[NUM_TRIPS]]
