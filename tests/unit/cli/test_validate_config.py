"""Proves: `validate-config` says `valid`, or lists every fault of both documents with file and path; unknown keys are
pointed out.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SCHEMA = {"schemaName": "t", "dimensionFieldSpecs": [{"name": "a", "dataType": "STRING"}]}
CONFIG = {
    "tableName": "t",
    "tableType": "OFFLINE",
    "segmentsConfig": {"replication": "1"},
    "tenants": {},
    "tableIndexConfig": {},
    "metadata": {},
}


def write(path: Path, document: Any) -> str:
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return str(path)


def test_valid_documents_alone_and_together(tmp_path: Path, pinotpy: Any) -> None:
    schema = ["--schema-file", write(tmp_path / "s.json", SCHEMA)]
    config = ["--table-config-file", write(tmp_path / "t.json", CONFIG)]
    for arguments in (schema, config, [*schema, *config]):
        ended = pinotpy("validate-config", *arguments)
        assert (ended.status, ended.out, ended.err) == (0, "valid\n", "")
        as_json = pinotpy("validate-config", *arguments, "--json")
        assert as_json.status == 0 and as_json.document == {"valid": True, "faults": [], "unrecognizedProperties": {}}


def test_every_fault_of_both_is_listed_with_file_and_path(tmp_path: Path, pinotpy: Any) -> None:
    schema = write(
        tmp_path / "s.json",
        {"schemaName": "t", "dimensionFieldSpecs": [{"name": "a", "dataType": "WORD"}, {"dataType": "INT"}]},
    )
    config = write(tmp_path / "t.json", {**CONFIG, "tableType": "SIDEWAYS"})
    wanted = {
        (schema, "$.dimensionFieldSpecs[0].dataType"),
        (schema, "$.dimensionFieldSpecs[1].name"),
        (config, "$.tableType"),
    }
    ended = pinotpy("validate-config", "--schema-file", schema, "--table-config-file", config)
    assert ended.status == 1 and ended.out == "" and all(path in ended.err for _, path in wanted)
    as_json = pinotpy("validate-config", "--schema-file", schema, "--table-config-file", config, "--json")
    assert as_json.status == 1 and as_json.document["valid"] is False
    assert {(fault["file"], fault["path"]) for fault in as_json.document["faults"]} == wanted
    assert all(fault["found"] and fault["allowed"] for fault in as_json.document["faults"])


def test_the_config_is_checked_against_the_schema(tmp_path: Path, pinotpy: Any) -> None:
    schema = write(tmp_path / "s.json", SCHEMA)
    config = write(tmp_path / "t.json", {**CONFIG, "tableIndexConfig": {"invertedIndexColumns": ["a", "nope"]}})
    assert pinotpy("validate-config", "--table-config-file", config).status == 0
    ended = pinotpy("validate-config", "--schema-file", schema, "--table-config-file", config)
    assert ended.status == 1 and "invertedIndexColumns[1]" in ended.err and "nope" in ended.err


def test_text_that_is_no_json_and_equal_keys_are_faults_with_their_place(tmp_path: Path, pinotpy: Any) -> None:
    ended = pinotpy("validate-config", "--schema-file", write(tmp_path / "s.json", '{"schemaName":\n oops}'))
    assert ended.status == 1 and "line 2" in ended.err
    twice = pinotpy(
        "validate-config", "--schema-file", write(tmp_path / "s.json", '{"schemaName": "a", "schemaName": "b"}')
    )
    assert twice.status == 1 and "$.schemaName" in twice.err


def test_keys_that_nothing_reads_are_pointed_out_and_do_no_harm(tmp_path: Path, pinotpy: Any) -> None:
    config = write(tmp_path / "t.json", {**CONFIG, "isLookup": True})
    ended = pinotpy("validate-config", "--table-config-file", config)
    assert ended.status == 0 and ended.out == "valid\n" and "/isLookup" in ended.err
    assert pinotpy("validate-config", "--table-config-file", config, "--json").document["unrecognizedProperties"] == {
        config: ["/isLookup"]
    }


def test_keys_that_have_no_effect_yet_are_pointed_out(tmp_path: Path, pinotpy: Any) -> None:
    config = write(tmp_path / "t.json", {**CONFIG, "quota": {"maxQueriesPerSecond": "5"}})
    ended = pinotpy("validate-config", "--table-config-file", config)
    assert ended.status == 0 and ended.out == "valid\n" and "/quota/maxQueriesPerSecond" in ended.err
    assert pinotpy("validate-config", "--table-config-file", config, "--json").document["propertiesWithoutEffect"] == {
        config: ["/quota/maxQueriesPerSecond"]
    }


def test_a_pruner_that_is_not_known_is_warned_of(tmp_path: Path, pinotpy: Any) -> None:
    config = write(tmp_path / "t.json", {**CONFIG, "routing": {"segmentPrunerTypes": ["magic"]}})
    ended = pinotpy("validate-config", "--table-config-file", config)
    (line,) = [line for line in ended.err.splitlines() if line.startswith("warning: ")]
    assert ended.status == 0 and ended.out == "valid\n"
    assert "$.routing.segmentPrunerTypes[0]: expected one of partition, time, empty, found 'magic'" in line
    told = pinotpy("validate-config", "--table-config-file", config, "--json").document
    (warning,) = told["warnings"][config]
    assert told["valid"] and warning in line


def test_nothing_to_check_and_files_that_are_not_there(tmp_path: Path, pinotpy: Any) -> None:
    assert pinotpy("validate-config").status == 1
    missing = pinotpy("validate-config", "--schema-file", tmp_path / "none.json")
    assert missing.status == 1 and "none.json" in missing.err and missing.err.count("\n") == 1


def test_adding_refuses_what_validating_refuses_before_anything_is_sent(tmp_path: Path, pinotpy: Any) -> None:
    nobody = ("--controller-url", "http://127.0.0.1:1")
    twice = write(tmp_path / "twice.json", '{"schemaName": "a", "schemaName": "b"}')
    schema, faulty = (
        write(tmp_path / "s.json", SCHEMA),
        write(tmp_path / "t.json", {**CONFIG, "tableIndexConfig": {"invertedIndexColumns": ["nope"]}}),
    )
    for arguments, words in (
        (("add-schema", "--schema-file", twice), "$.schemaName"),
        (("add-table", "--table-config-file", twice), "$.schemaName"),
        (("add-table", "--table-config-file", faulty, "--schema-file", twice), "$.schemaName"),
        (("add-table", "--table-config-file", faulty, "--schema-file", schema), "invertedIndexColumns[0]"),
    ):
        ended = pinotpy(*arguments, *nobody)
        assert ended.status == 1 and words in ended.err and "127.0.0.1" not in ended.err, ended.err
    assert "127.0.0.1" in pinotpy("add-schema", "--schema-file", schema, *nobody).err, "a good one is sent"


def test_expressions_of_both_documents_are_checked_with_their_functions(tmp_path: Path, pinotpy: Any) -> None:
    dimensions = [
        {"name": "a", "dataType": "STRING"},
        {"name": "b", "dataType": "STRING", "transformFunction": "Groovy({a}, a)"},
    ]
    schema = write(tmp_path / "s.json", {"schemaName": "t", "dimensionFieldSpecs": dimensions})
    config = write(
        tmp_path / "t.json", {**CONFIG, "ingestionConfig": {"filterConfig": {"filterFunction": "no_such_thing(a) > 3"}}}
    )
    ended = pinotpy("validate-config", "--schema-file", schema, "--table-config-file", config, "--json")
    assert {(fault["path"], fault["found"]) for fault in ended.document["faults"]} == {
        ("$.b.transformFunction", "'Groovy({a}, a)'"),
        ("$.ingestionConfig.filterConfig.filterFunction", "function 'nosuchthing', which there is not"),
    }


def test_a_stream_that_a_controller_refuses_is_not_valid(tmp_path: Path, pinotpy: Any) -> None:
    fields = [{"name": "ts", "dataType": "LONG", "format": "1:MILLISECONDS:EPOCH", "granularity": "1:MILLISECONDS"}]
    schema = write(tmp_path / "s.json", {**SCHEMA, "dateTimeFieldSpecs": fields})

    def validated(stream_type: str, decoder: str = "json", *more: str, **segments: str) -> Any:
        stream = {
            "streamType": stream_type,
            f"stream.{stream_type}.topic.name": "x",
            f"stream.{stream_type}.decoder.class.name": decoder,
            f"stream.{stream_type}.directory": str(tmp_path),
        }
        table = {
            **CONFIG,
            "tableType": "REALTIME",
            "segmentsConfig": {"replication": "1", "timeColumnName": "ts", **segments},
            "tableIndexConfig": {"streamConfigs": stream},
        }
        file = write(tmp_path / "t.json", table)
        return pinotpy("validate-config", "--schema-file", schema, "--table-config-file", file, *more)

    assert validated("file").out == "valid\n"
    ended = validated("pulsar")
    assert (
        ended.status == 1 and "streamConfigs" in ended.err and "no plug-in reads streams of type 'pulsar'" in ended.err
    )
    [fault] = validated("pulsar", "json", "--json").document["faults"]
    assert fault["file"].endswith("t.json") and "pulsar" in fault["message"]
    assert "xml" in validated("file", "xml").err
    assert "never" in validated("file", deletedSegmentsRetentionPeriod="never").err
