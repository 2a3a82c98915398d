"""Proves that every schema and table config that was posted to the reference gets the same verdict here, the same
unknown keys and the same form back, except where the reference stores what cannot work (listed with the reason).
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig, check_against_schema
from pinotpy.errors import InvalidConfigError

REST = Path(__file__).resolve().parents[2] / "golden" / "rest" / "v151_rest.jsonl.gz"

# Stored by the reference without a word, refused here: document as posted → path of the fault.
REFUSED_HERE = {
    "table replication 0": "$.segmentsConfig.replication",
    "replication 0": "$.segmentsConfig.replication",
    "table retention value bad": "$.segmentsConfig.retentionTimeValue",
    "table push frequency bad": "$.segmentsConfig.segmentPushFrequency",
    "table assignment strategy bad": "$.segmentsConfig.segmentAssignmentStrategy",
    "table inverted index on no-dictionary column": "$.tableIndexConfig.invertedIndexColumns[0]",
    "table partition function unknown": (
        "$.tableIndexConfig.segmentPartitionConfig.columnPartitionMap.yearID.functionName"
    ),
    "table loadMode bad": "$.tableIndexConfig.loadMode",
    "table routing bad selector": "$.routing.instanceSelectorType",
    "table two sorted columns": "$.tableIndexConfig.sortedColumn",
}
# Refused by the reference, which asks for keys that have defaults here.
ACCEPTED_HERE = ("table without tenants", "table replication absent")
SCHEMAS_REFUSED_HERE = {"nocols": "$", "a b/c": "$.schemaName"}


def exchanges() -> list[dict[str, Any]]:
    with gzip.open(REST, "rt") as lines:
        return [json.loads(line) for line in lines]


def body(exchange: dict[str, Any]) -> Any:
    response = exchange["response"]
    return json.loads(response) if isinstance(response, str) else response


def test_posted_schemas_get_the_recorded_verdict_and_form() -> None:
    accepted = 0
    refused = []
    for exchange in exchanges():
        posted = exchange.get("request_body")
        if (
            exchange["method"] != "POST"
            or exchange["path"] not in ("/schemas", "/schemas/validate")
            or not isinstance(posted, dict)
        ):
            continue
        if exchange["status"] == 200 and posted.get("schemaName") not in SCHEMAS_REFUSED_HERE:
            read, response = Schema.from_json(posted), body(exchange)
            assert read.unrecognized == response.pop("unrecognizedProperties")
            if "schemaName" in response:
                assert json.dumps(read.to_json_dict()) == json.dumps(response)
            accepted += 1
        # 409 and 415 are not about the document, nor is a change that is not backward compatible.
        elif exchange["status"] == 200 or (
            exchange["status"] == 400 and "backward-compatible" not in str(exchange["response"])
        ):
            with pytest.raises(InvalidConfigError) as caught:
                Schema.from_json(posted)
            paths = [fault.path for fault in caught.value.faults]
            assert exchange["status"] == 400 or paths == [SCHEMAS_REFUSED_HERE[posted["schemaName"]]]
            refused.append(paths)
    assert accepted >= 10
    assert len(refused) >= 15


def test_posted_table_configs_get_the_recorded_verdict() -> None:
    schemas: dict[str, Schema] = {}
    verdicts = {"accepted": 0, "refused": 0, "refused here": 0, "accepted here": 0}
    # What only the cluster knows: schemas, servers, tenants, what exists already.
    about_the_cluster = (
        "Failed to find schema",
        "Failed to calculate instance",
        "Failed to find instances",
        "does not match table name",
    )
    for exchange in exchanges():
        posted, step = exchange.get("request_body"), exchange["step"].partition(" ")[2]
        if (
            exchange["method"] == "POST"
            and exchange["path"] == "/schemas"
            and exchange["status"] == 200
            and isinstance(posted, dict)
        ):
            if posted.get("schemaName") not in SCHEMAS_REFUSED_HERE:
                schemas[posted["schemaName"]] = Schema.from_json(posted)
        elif exchange["method"] in ("POST", "PUT") and exchange["path"].split("?")[0] in (
            "/tables",
            "/tables/validate",
            "/tables/baseballStats",
            "/tables/parts",
        ):
            if (
                not isinstance(posted, dict)
                or exchange["status"] not in (200, 400)
                or any(text in str(exchange["response"]) for text in about_the_cluster)
            ):
                continue
            if step in ACCEPTED_HERE:
                assert exchange["status"] == 400
                check_against_schema(TableConfig.from_json(posted), schemas["baseballStats"])
                verdicts["accepted here"] += 1
                continue
            if exchange["status"] == 200 and step not in REFUSED_HERE:
                read = TableConfig.from_json(posted)
                check_against_schema(read, schemas[read.raw_table_name])
                if "unrecognizedProperties" in body(exchange):
                    assert read.unrecognized == body(exchange)["unrecognizedProperties"]
                verdicts["accepted"] += 1
                continue
            with pytest.raises(InvalidConfigError) as caught:
                check_against_schema(TableConfig.from_json(posted), schemas["baseballStats"])
            if exchange["status"] == 200:
                assert [fault.path for fault in caught.value.faults] == [REFUSED_HERE[step]], step
            verdicts["refused" if exchange["status"] == 400 else "refused here"] += 1
    assert verdicts["accepted"] >= 10
    assert verdicts["refused"] >= 40
    assert verdicts["refused here"] >= len(REFUSED_HERE)
    assert verdicts["accepted here"] == len(ACCEPTED_HERE)
