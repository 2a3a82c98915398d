"""Replays what a live Pinot 1.5.1 controller answered: status and body of each recorded exchange, in order, on one
cluster.

Where we differ on purpose a rule below says so by name. Exchanges of resources that later issues build are left out by
family. Both are counted and printed. Segments are built anew, equal where the recorded bytes had equal lengths.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from controller_harness import Harness, start_harness

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.controller.identity import Identity
from pinotpy.segment.archive.archive import pack_segment
from pinotpy.segment.build.builder import build_segment

RECORDING = Path(__file__).parent.parent / "golden" / "rest" / "v151_rest.jsonl.gz"

# What is left out, by the first pattern that matches "METHOD path": the reason is the family.
LEFT_OUT: tuple[tuple[str, str], ...] = (
    ("minion tasks", r"/tasks|taskType="),
    ("table configs in one document", r"/tableConfigs"),
    (
        "rebalance and instance partitions",
        r"rebalance|assignInstances|replaceInstance|instancePartitions|rebuildBrokerResource|/tenants/.*/instancePartitions",
    ),
    (
        "details of segments on servers",
        r"/(metadata\?|indexes|tiers|validDocIdsMetadata|isStale|select)|/tables/[^/]+/metadata|/segments/[^/]+/metadata",
    ),
    ("jobs", r"/jobs|segmentReloadStatus|reloadJobs|rebalanceJobs"),
    ("reset", r"/reset"),
    ("debug", r"^GET /debug"),
    (
        "users, loggers, databases",
        r"/users|/loggers|/databases|/queryWorkloadConfigs|/logicalTables|/groovy|/auth/verify",
    ),
    ("types of columns as a document", r"/schemas/fieldSpec"),
    ("writes into the cluster store", r"^(PUT|DELETE) /zk"),
    ("realtime", r"pauseStatus|timeBoundary|/tables/[^/]+/status$"),
    ("queries, which need a broker", r"^(GET|POST) /sql"),
    ("documentation pages", r"^GET /(help|api|index\.html|$)"),
    ("content negotiation and WADL", r"^OPTIONS"),
    ("sizes, which servers report", r"/size$|/size\?"),
    ("names of periodic tasks", r"/periodictask/names"),
    ("versions", r"^GET /version"),
    ("stats of nodes, which differ by store", r"^GET /zk/(stat|lsl)"),
    ("records of the cluster store", r"^GET /zk/(get|getChildren)"),
)

# Steps that other resources prepared (they are left out), or whose bytes were not recorded.
NOT_REPLAYED = re.compile(
    r"server admin|not a tar|truncated tar|empty file|without metadata$|empty directory|plain tar|climbs out|absolute "
    r"path|bad metadata\.properties"
    r"|segment\.name '|a link that points|two parts|URI http|accept$|one server dead|F delete|while one server is "
    r"dead|tenant has too few"
)


@dataclass(frozen=True)
class Rule:
    """A deliberate difference: where it applies (patterns of step and "METHOD path"), and the statuses, None = the
    body.
    """

    name: str
    step: str
    request: str = "."
    recorded: int | None = None
    found: tuple[int, ...] = ()

    def explains(self, exchange: dict[str, Any], answer: httpx.Response) -> bool:
        if self.recorded is None:
            statuses_fit = exchange["status"] == answer.status_code
        else:
            statuses_fit = self.recorded == exchange["status"] and answer.status_code in self.found
        request = f"{exchange['method']} {exchange['path']}"
        return (
            statuses_fit
            and re.search(self.step, exchange["step"]) is not None
            and re.search(self.request, request) is not None
        )


CONFIG = "a config that cannot work is refused"
DEFAULTS = "keys with a default may be left out"
HAS_DEFAULTS = r"table (without tenants|replication absent)$"
NAMES = "names that cannot be addressed are refused"
CHECKED = "hosts and tags are checked"
PARAMETERS = "a bad parameter changes nothing"
TENANTS = "a tenant that no table uses can be deleted"
# control-plane-live §5 says for most of them what the reference does and why it is mended.
RULES = (
    Rule("a client's mistake is a 4xx", ".", ".", 500, (400, 403, 404, 405, 409, 410)),
    Rule(
        CONFIG,
        r"table (replication 0|retention value bad|push frequency bad|assignment strategy bad|two sorted|partition "
        r"function)",
        "^POST /tables",
        200,
        (400,),
    ),
    Rule(
        CONFIG,
        r"table (loadMode bad|routing bad selector|inverted index on no-dictionary)",
        "^POST /tables",
        200,
        (400,),
    ),
    Rule(CONFIG, r"table two sorted columns", "^POST /tables", 409, (400,)),
    Rule(DEFAULTS, HAS_DEFAULTS, "^POST /tables", 400, (200,)),
    Rule(CONFIG, r"^C table delete$", "^DELETE /tables/baseballStats", 200, (404,)),
    Rule(NAMES, r"schema (no columns|column name with \$|name with space and slash)", "^POST /schemas", 200, (400,)),
    Rule(NAMES, r"schema delete", "^DELETE /schemas/(nocols|dol)$", 200, (404,)),
    Rule("a cluster config is a text", "cluster configs", "^POST /cluster/configs", 200, (400,)),
    Rule(CHECKED, "instance (bad tag|update other name)", "^(POST|PUT) /instances", 200, (400,)),
    Rule(CHECKED, "^E instance$", "^GET /instances/Server_fake_9999"),
    Rule(CHECKED, "instance drop", "^DELETE /instances/Server_fake4_7", 200, (404,)),
    Rule("a bad type is a 400", ".", r"(type|Type)=(bad|x)\b", 200, (400,)),
    Rule("a bad type is a 400", ".", r"type=bad\b", 404, (400,)),
    Rule("an absent table is a 404", "table update absent", ".", 400, (404,)),
    Rule("health has more paths here", ".", "^GET /health/(liveness|readiness)", 404, (200,)),
    Rule("a trailing slash is redirected", ".", "^DELETE /schemas/$", 405, (307,)),
    Rule("the segment may say which table it is for", "without tableName", ".", 500, (200,)),
    Rule("a segment that does not fit is a 400 with every reason", "segment of another table", ".", 403, (400,)),
    Rule("uploads by URI need an allow-list", "upload URI file", ".", 400, (403,)),
    Rule(
        "a table may be named with its type", ".", "^GET /segments/baseballStats_OFFLINE/baseballStats_0$", 404, (200,)
    ),
    Rule("enabling does not wait for an instance that never lived", "instance state", "state=enable", 500, (200,)),
    Rule(TENANTS, "tenant delete, free", ".", 400, (200,)),
    Rule(TENANTS, "^E instance$", "^GET /instances/Server_HOST_28198$"),
    Rule(PARAMETERS, "D upload one again", ".", 500, (200,)),
    Rule(PARAMETERS, "^H table$", "^DELETE /tables/baseballStats$", 404, (200,)),
    Rule("the old form of switching a table still works", "old path", "^GET /tables/baseballStats[?]state=disable"),
    Rule("where a rebalance moved segments, which is left out", "^E externalview$", "^GET /tables/parts/externalview"),
    Rule(
        "paths of 0.x still work",
        ".",
        r"/tables/baseballStats/segments(/|$)|/(indexing|segment|metadata)Configs$",
        404,
        (200,),
    ),
    Rule("other folders in the store", ".", r"^GET /zk/ls[?]path=(/|/PinotCluster/PROPERTYSTORE)$"),
)


def rule_of(exchange: dict[str, Any], answer: httpx.Response) -> str | None:
    """The name of the deliberate difference, or None."""
    return next((rule.name for rule in RULES if rule.explains(exchange, answer)), None)


def body_differs(exchange: dict[str, Any], answer: httpx.Response) -> str | None:
    """Why a body is not as recorded; None if it is, up to times, CRCs and sizes."""
    if exchange["method"] == "HEAD":
        return None
    if exchange["status"] >= 400:
        if answer.headers["content-type"] != "application/json" or set(answer.json()) != {"code", "error"}:
            return "an error body is {code, error}"
        return None if answer.json()["code"] == answer.status_code else "code is the status"
    if exchange["content_type"] == "text/plain":
        return None if answer.text == exchange["response"] else "text"
    if exchange["content_type"] == "application/octet-stream":
        return None if answer.content[:2] == b"\x1f\x8b" else "not gzip"
    if not exchange["response"]:
        return None
    expected, found = masked(json.loads(exchange["response"])), masked(answer.json())
    return (
        None
        if covers(expected, found)
        else f"\n  recorded {json.dumps(expected)[:1500]}\n  found    {json.dumps(found)[:1500]}"
    )


MASKED = re.compile(
    r"crc|time\b|Time$|size\.in\.bytes|total\.docs|download\.url|index\.version|creationTime|jobId|JobId"
)
# Names that the reference took and we refuse, and what it listed under them.
REFUSED_NAMES = ("a b", "nocols", "dol", "a/b", "with space")


def masked(value: Any, key: str = "") -> Any:
    """A value without what cannot be equal: times, CRCs, sizes, ids; Helix's lists of instances have no order."""
    if isinstance(value, dict):
        return {name: masked(item, name) for name, item in value.items()}
    if isinstance(value, list):
        kept = [
            item
            for item in value
            if item not in REFUSED_NAMES and not (isinstance(item, dict) and item.get("segmentName") in REFUSED_NAMES)
        ]
        items = [masked(item) for item in kept]
        return sorted(items, key=json.dumps) if key in ("instances", "tables", "SERVER_TENANTS") else items
    if MASKED.search(key) or (isinstance(value, str) and re.fullmatch(r"\d{6,10}", value)):
        return "…"
    if isinstance(value, str):
        return re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "<uuid>", value)
    return value


def covers(expected: Any, found: Any) -> bool:
    """Whether `found` says everything that was recorded; objects may say more (our keys, old record keys beside new
    ones).
    """
    if isinstance(expected, dict) and isinstance(found, dict):
        return all(
            name in found and covers(item, found[name]) for name, item in expected.items() if name not in IGNORED_KEYS
        )
    if isinstance(expected, list) and isinstance(found, list):
        return len(expected) == len(found) and all(covers(a, b) for a, b in zip(expected, found, strict=True))
    return bool(expected == found)


# What only the reference can know or do: its other ports, machine and default settings, its data CRC, and names that we
# refuse.
IGNORED_KEYS = {
    "grpcPort", "adminPort", "queryServicePort", "queryMailboxPort", "systemResourceInfo", "segment.data.crc",
    "segment.partition.metadata",
    *REFUSED_NAMES, "segment.refresh.time", "leadControllerEntryMap", "serverToSegmentsCountMap",
}  # fmt: skip


# --- the replay -------------------------------------------------------------------------------------------------------


class Replay:
    """One cluster that follows the recording."""

    def __init__(self, harness: Harness, folder: Path) -> None:
        self.harness, self.folder = harness, folder
        self.counts: Counter[str] = Counter()
        self.differences: list[str] = []
        self._archives: dict[tuple[str, str], bytes] = {}

    def run(self, exchanges: list[dict[str, Any]]) -> None:
        for number, exchange in enumerate(exchanges):
            request = f"{exchange['method']} {exchange['path']}"
            family = next((name for name, pattern in LEFT_OUT if re.search(pattern, request)), None)
            if family is not None:
                self.counts[f"left out: {family}"] += 1
            elif NOT_REPLAYED.search(exchange["step"]):
                self.counts["left out: bytes or circumstances that were not recorded"] += 1
            else:
                following = exchanges[number + 1]["step"] if number + 1 < len(exchanges) else ""
                self._one(number, exchange, following)

    def _one(self, number: int, exchange: dict[str, Any], following: str) -> None:
        if (
            exchange["step"].startswith("C table")
            and exchange["path"] == "/tables"
            and exchange["method"] == "POST"
            and (exchange["status"] == 200 or re.search(HAS_DEFAULTS, exchange["step"]))
        ):
            self._drop_leftovers(exchange)
        answer = self._send(exchange)
        if exchange["method"] != "GET" and "created at once after its delete" not in following:
            self.harness.settle()
        why = "status" if answer.status_code != exchange["status"] else body_differs(exchange, answer)
        if why is None:
            self.counts["equal"] += 1
            if (
                exchange["status"] >= 400
                and exchange["content_type"] == "application/json"
                and answer.json() == json.loads(exchange["response"])
            ):
                self.counts["equal, with the very text of the error"] += 1
            return
        rule = rule_of(exchange, answer)
        if rule is None:
            self._differs(number, exchange, answer, why)
        else:
            self.counts[f"rule: {rule}"] += 1

    def _drop_leftovers(self, exchange: dict[str, Any]) -> None:
        # The recording deleted the table between its attempts without writing it down.
        if "parts" in exchange["step"]:
            return
        self.harness.http.delete("/tables/baseballStats")
        self.harness.settle()

    def _differs(self, number: int, exchange: dict[str, Any], answer: httpx.Response, why: str) -> None:
        found = f"{answer.status_code} {answer.text[:300]}"
        where = f"{number} [{exchange['step']}] {exchange['method']} {exchange['path']}"
        self.differences.append(
            f"{where}: {why}: recorded {exchange['status']} {exchange['response'][:300]}, found {found}"
        )

    def _send(self, exchange: dict[str, Any]) -> httpx.Response:
        headers = {name: value for name, value in exchange["request_headers"].items() if "multipart" not in value}
        body, http = exchange["request_body"], self.harness.http
        if isinstance(body, str) and body.startswith("multipart"):
            content = self._multipart(exchange, body)
            return http.request(exchange["method"], exchange["path"], files=content, headers=headers)
        if body is None:
            return http.request(exchange["method"], exchange["path"], headers=headers)
        text = body if isinstance(body, str) else json.dumps(body)
        return http.request(exchange["method"], exchange["path"], content=text, headers=headers)

    def _multipart(self, exchange: dict[str, Any], note: str) -> list[tuple[str, tuple[str, bytes]]]:
        if "two file parts" in note:
            return [("a", ("a", b"{}")), ("b", ("b", b"{}"))]
        if "schema mini" in note:
            return [("mini", ("mini.json", json.dumps(MINI).encode()))]
        if "text {{" in note:
            return [("x", ("x", b"{{"))]
        if "segment" not in exchange["path"]:
            return [("x", ("x", b"{}"))]
        size = note.split("(")[1].split(maxsplit=1)[0]
        named = re.search(r"uploaded segment: (\S+) of table: (\S+)_OFFLINE", exchange["response"]) or re.search(
            r"[sS]egment: (baseballStats_0) .*table: (\w+?)_OFFLINE", exchange["response"]
        )
        table = named.group(2) if named else "baseballStats"
        in_step = re.search(r"baseballStats_\d", exchange["step"])
        name = named.group(1) if named else in_step.group() if in_step else "baseballStats_0"
        return [
            (
                "file",
                (
                    "segment.tar.gz",
                    self._archive(table if "another table" not in exchange["step"] else "baseballStats", name, size),
                ),
            )
        ]

    def _archive(self, table: str, name: str, size: str) -> bytes:
        key = (name, size)
        if key not in self._archives:
            schema = SCHEMAS[table]
            rows = 5 + int(size) % 97
            first_day = int(name.split("_")[1]) if table == "parts" else 0
            arrays = []
            for column, spec in schema.field_specs.items():
                values = (
                    [f"{column}{row % 7}" for row in range(rows)]
                    if spec.data_type == "STRING"
                    else [row % 5 + (first_day if column == "day" else 0) for row in range(rows)]
                )
                arrays.append(pa.array(values, spec.data_type.arrow))
            folder = self.folder / f"{name}-{size}"
            folder.mkdir(parents=True)
            config = TableConfig.from_json(
                {
                    "tableName": table,
                    "tableType": "OFFLINE",
                    "segmentsConfig": {"replication": 1, **({"timeColumnName": "day"} if table == "parts" else {})},
                    "tenants": {},
                    "tableIndexConfig": {},
                }
            )
            build_segment(schema, config, [pa.RecordBatch.from_arrays(arrays, list(schema.field_specs))], folder, name)
            self._archives[key] = pack_segment(folder / name, folder / "s.tar.gz").read_bytes()
        return self._archives[key]


MINI = {
    "schemaName": "mini",
    "dimensionFieldSpecs": [{"name": "a", "dataType": "STRING"}, {"name": "b", "dataType": "INT"}],
    "metricFieldSpecs": [{"name": "m", "dataType": "LONG"}],
}
SCHEMAS: dict[str, Schema] = {}


def recorded() -> list[dict[str, Any]]:
    with gzip.open(RECORDING, "rt") as lines:
        return [json.loads(line) for line in lines]


@pytest.fixture
def replay(tmp_path: Path) -> Iterator[Replay]:
    harness = start_harness(
        tmp_path,
        servers=0,
        identity=Identity("Controller_HOST_29000", "http://HOST:29000"),
        broker="Broker_HOST_28099",
        settings={"legacy_get_changes": True},
    )
    for port in (28098, 28198):
        harness.add_instance(f"Server_HOST_{port}", ["DefaultTenant_OFFLINE", "DefaultTenant_REALTIME"])
    yield Replay(harness, tmp_path / "built")
    harness.close()


def test_the_controller_answers_as_recorded(replay: Replay) -> None:
    exchanges = recorded()
    for exchange in exchanges:
        body = exchange["request_body"]
        if (
            exchange["path"] == "/schemas"
            and exchange["status"] == 200
            and isinstance(body, dict)
            and body["schemaName"] in ("baseballStats", "parts")
        ):
            SCHEMAS.setdefault(body["schemaName"], Schema.from_json(body))
    end = next(number for number, exchange in enumerate(exchanges) if exchange["step"] == "N")
    replay.run(exchanges[:end])
    for name, count in sorted(replay.counts.items()):
        print(f"{count:5} {name}")
    assert replay.differences == [], "\n".join(replay.differences)
    # A rule that explains nothing any more is an excuse: it goes.
    assert {rule.name for rule in RULES} == {
        name.removeprefix("rule: ") for name in replay.counts if name.startswith("rule: ")
    }
    assert replay.counts["equal"] >= 440
