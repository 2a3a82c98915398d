"""Proves that the three ways to write a job (Pinot's YAML, JSON, the manual's properties) give the same spec, that
every fault is told with its path, and that no text can become more than text: no objects by tags, no values out of
templates' shapes.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from pinotpy.errors import InvalidConfigError
from pinotpy.ingest.jobs.properties_spec import read_properties_spec, spec_from_properties
from pinotpy.ingest.jobs.spec import ConsistentPush, FileErrors, IngestionJobSpec, JobType, PushMode, read_job_spec
from pinotpy.ingest.jobs.templates import default_values, parse_values
from pinotpy.ingest.readers.csv_config import read_config
from pinotpy.ingest.time_buckets import Bucket

AIRLINES = r"""
executionFrameworkSpec:
  name: 'spark'
  segmentGenerationJobRunnerClassName: 'org.apache.pinot.plugin.ingestion.batch.spark.SparkSegmentGenerationJobRunner'
  extraConfigs:
    stagingDir: hdfs://examples/batch/airlineStats/staging
jobType: SegmentCreationAndMetadataPush
inputDirURI: 'file:///data/${year}/$month'
includeFileNamePattern: 'glob:**/*.avro'
outputDirURI: 'hdfs:///segments'
overwriteOutput: true
pinotFSSpecs:
  - scheme: hdfs
    className: org.apache.pinot.plugin.filesystem.HadoopPinotFS
  - scheme: S3
    configs: {region: eu, accessKey: hidden}
recordReaderSpec:
  className: 'org.apache.pinot.plugin.inputformat.avro.AvroRecordReader'
tableSpec:
  tableName: 'airlineStats'
  schemaURI: 'http://localhost:9000/tables/airlineStats/schema'
segmentNameGeneratorSpec:
  type: inputFile
  configs:
    file.path.pattern: '.+/(.+)\.avro'
    segment.name.template: '\${filePathPattern:\1}_2014_01'
    segment.name.postfix: 2014_01
pinotClusterSpecs:
  - controllerURI: 'http://localhost:9000'
pushJobSpec:
  pushParallelism: 2
  pushAttempts: ${attempts}
authToken: Basic abc
pinotpy:
  sortColumns: [Carrier, FlightNum]
  timeBucket: month
  onFileError: skip
  consistentPush: TABLE
"""


def faults(text: str, values: dict[str, str] | None = None) -> dict[str, tuple[str, str]]:
    with pytest.raises(InvalidConfigError) as refused:
        read_job_spec(text, values)
    return {fault.path: (fault.found, fault.allowed) for fault in refused.value.faults}


def test_pinots_yaml_is_read_with_its_keys_and_our_block() -> None:
    spec = read_job_spec(AIRLINES, {"year": "2014", "month": "01", "attempts": "5"})
    assert spec.job_type is JobType.SEGMENT_CREATION_AND_METADATA_PUSH
    assert (spec.job_type.creates, spec.job_type.push_mode) == (True, PushMode.METADATA)
    assert spec.input_dir_uri == "file:///data/2014/01"
    assert spec.push_job_spec.push_attempts == 5 and spec.push_job_spec.push_retry_interval_millis == 1000
    assert {each.scheme.lower(): each.configs for each in spec.pinot_fs_specs} == {
        "hdfs": {},
        "s3": {"region": "eu", "accessKey": "hidden"},
    }
    # What YAML would take for a number, and what templates would take for theirs.
    assert spec.segment_name_generator_spec.configs["segment.name.postfix"] == "2014_01"
    assert spec.segment_name_generator_spec.configs["segment.name.template"] == r"${filePathPattern:\1}_2014_01"
    assert spec.execution_framework_spec.extra_configs == {"stagingDir": "hdfs://examples/batch/airlineStats/staging"}
    ours = spec.pinotpy
    assert (ours.sort_columns, ours.time_bucket, ours.on_file_error, ours.consistent_push) == (
        ("Carrier", "FlightNum"),
        Bucket.MONTH,
        FileErrors.SKIP,
        ConsistentPush.TABLE,
    )
    assert spec.search_recursively and not spec.clean_up_output_dir


def test_a_spec_survives_its_own_json_and_hides_secrets_when_asked() -> None:
    spec = read_job_spec(AIRLINES, {"year": "2014", "attempts": "1"})
    assert IngestionJobSpec.from_json(spec.to_json_dict()) == spec
    assert read_job_spec(json.dumps(spec.to_json_dict())) == spec
    shown = json.dumps(spec.to_json_dict(with_secrets=False))
    assert "abc" not in shown and "hidden" not in shown and '"region": "eu"' in shown


def test_every_fault_is_told_with_its_path_and_the_nearest_key() -> None:
    text = (
        AIRLINES.replace("pushAttempts", "pushAtempts")
        .replace("scheme: S3", "scheme: HDFS")
        .replace("overwriteOutput: true", "overwriteOutput: maybe")
    )
    found = faults(text.replace("timeBucket: month", "timeBucket: fortnight"), {"yaer": "2014"})
    assert found["$.pushJobSpec.pushAtempts"][1].startswith("'pushAttempts'")
    assert "did you mean 'yaer'" in found["$.inputDirURI"][1]
    assert found["$.overwriteOutput"] == ("'maybe'", "true or false")
    assert found["$.pinotFSSpecs[1].scheme"][1] == "each scheme once"
    assert found["$.pinotpy.timeBucket"] == ("'fortnight'", "one of HOUR, DAY, MONTH, YEAR")


def test_an_unknown_key_never_shows_its_value() -> None:
    with pytest.raises(InvalidConfigError) as refused:
        read_job_spec(AIRLINES.replace("authToken: Basic abc", "authTokn: Basic abc"), {"year": "1", "attempts": "1"})
    assert "authToken" in refused.value.message and "abc" not in refused.value.message


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (("inputDirURI: 'file:///data/${year}/$month'", ""), "$.inputDirURI"),
        (("outputDirURI: 'hdfs:///segments'", ""), "$.outputDirURI"),
        (("pinotClusterSpecs:\n  - controllerURI: 'http://localhost:9000'", ""), "$.pinotClusterSpecs"),
        (("overwriteOutput: true", "cleanUpOutputDir: true"), "$.cleanUpOutputDir"),
        (("jobType: SegmentCreationAndMetadataPush", "jobType: SegmentDance"), "$.jobType"),
        (("  timeBucket: month", "  sourceTable: flights"), "$.inputDirURI"),
        (("  timeBucket: month", "  rejectFileURI: file:///data/2014/$month/rejects"), "$.pinotpy.rejectFileURI"),
    ],
)
def test_what_no_key_can_tell_alone_is_checked(change: tuple[str, str], path: str) -> None:
    assert path in faults(AIRLINES.replace(*change), {"year": "2014", "attempts": "1"})


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a: [", "$"),
        ("jobType: !!python/object/apply:os.system [echo]", "$.jobType"),
        ("jobType: !!python/name:os.system", "$.jobType"),
        ("jobType: a\njobType: b", "$.jobType"),
        ("[1, 2]", "$"),
        ("", "$"),
        ("a: 1\n--- \nb: 2", "$"),
        ("? [a]\n: b", "$"),
    ],
)
def test_what_is_no_plain_yaml_object_is_refused(text: str, path: str) -> None:
    assert path in faults(text)


def test_keys_of_pinots_newer_documents_are_known() -> None:
    # The example of its page on batch ingestion, and what its classes have besides.
    newer = AIRLINES.replace("overwriteOutput: true", "overwriteOutput: true\ncreateMetadataTarGz: true").replace(
        "  pushParallelism: 2",
        "  pushParallelism: 2\n  preferMetadataTarGz: true\n  copyToDeepStoreForMetadataPush: false\n  "
        "batchSegmentUpload: false\n"
        "  segmentMetadataGenerationParallelism: 4",
    )
    spec = read_job_spec(
        newer + "tlsSpec: {trustStorePath: ca.pem, connectTimeout: 5000, readTimeout: 5000}\n",
        {"year": "2014", "month": "01", "attempts": "5"},
    )
    assert (spec.create_metadata_tar_gz, spec.push_job_spec.prefer_metadata_tar_gz) == (True, True)
    assert spec.tls_spec is not None and spec.tls_spec.connect_timeout == 5000


def test_keys_of_another_mapping_are_taken_in() -> None:
    text = AIRLINES.replace(
        "  - scheme: S3\n    configs: {region: eu, accessKey: hidden}",
        "  - &s3\n    scheme: S3\n    configs: {region: eu}",
    ) + ("segmentCreationJobParallelism: 3\n")
    more = (
        "  - <<: *s3\n    scheme: gs\n  - <<: [{scheme: abfs}, *s3]\n  - <<: *s3\n    scheme: adl\n    configs: "
        "{region: us}\n"
    )
    spec = read_job_spec(
        text.replace("recordReaderSpec:", f"{more}recordReaderSpec:", 1),
        {"year": "2014", "month": "01", "attempts": "5"},
    )
    found = {each.scheme: each.configs.get("region") for each in spec.pinot_fs_specs}
    assert found == {"hdfs": None, "S3": "eu", "gs": "eu", "abfs": "eu", "adl": "us"}
    with pytest.raises(InvalidConfigError, match="an alias of a mapping"):
        read_job_spec("tableSpec: {<<: 5}")
    # In quotes it is a key like any other.
    assert "$.<<" in {path.replace('["<<"]', ".<<") for path in faults('"<<": {jobType: SegmentCreation}')}


def test_aliases_cannot_make_much_of_little() -> None:
    bomb = "a0: &a0 [x, x]\n" + "".join(
        f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}, *a{i - 1}, *a{i - 1}]\n" for i in range(1, 30)
    )
    assert any("unfolds" in found for found, _ in faults(bomb).values())


def test_values_of_templates_cannot_change_the_documents_shape() -> None:
    spec = read_job_spec(AIRLINES, {"year": "x'\njobType: SegmentTarPush\n#", "attempts": "2"})
    assert spec.job_type is JobType.SEGMENT_CREATION_AND_METADATA_PUSH and spec.input_dir_uri.startswith(
        "file:///data/x'\njobType"
    )  # type: ignore[union-attr]


def test_values_come_as_pairs_and_days_by_the_clock() -> None:
    assert parse_values(["a=1", "b=x=y"]) == {"a": "1", "b": "x=y"}
    assert default_values(1_393_632_000_000) == {"today": "2014-03-01", "yesterday": "2014-02-28"}


MANUAL = {
    "path.to.input": "/user/pinot/input/data",
    "path.to.output": "/user/pinot/output",
    "path.to.schema": "flights-schema.json",
    "segment.table.name": "flights",
    "push.to.hosts": "controller_host_0,controller_host_1",
    "push.to.port": "8888",
}


def test_the_manuals_properties_give_the_same_spec_as_yaml() -> None:
    text = """
jobType: SegmentCreationAndTarPush
inputDirURI: /user/pinot/input/data
outputDirURI: /user/pinot/output
tableSpec: {tableName: flights, schemaURI: flights-schema.json}
pinotClusterSpecs: [{controllerURI: "http://controller_host_0:8888"}, {controllerURI: "http://controller_host_1:8888"}]
"""
    assert spec_from_properties(MANUAL) == read_job_spec(text)
    written = "# a comment\n" + "".join(f"{key}={value}\n" for key, value in MANUAL.items())
    assert read_properties_spec(written) == read_job_spec(text)
    assert spec_from_properties(MANUAL, job_type=JobType.SEGMENT_TAR_PUSH).job_type is JobType.SEGMENT_TAR_PUSH
    only_build = {key: value for key, value in MANUAL.items() if not key.startswith("push.")}
    assert spec_from_properties(only_build).job_type is JobType.SEGMENT_CREATION


def test_other_properties_of_the_old_jobs_and_dotted_paths_of_the_new_ones() -> None:
    more: dict[str, Any] = {
        "segment.name.generator.type": "normalizedDate",
        "segment.name.prefix": "daily",
        "exclude.sequence.id": "true",
        "push.job.parallelism": "4",
        "push.job.retry": "3",
        "enable.parallel.push": "true",
        "create.tar.gz": "true",
        "mapreduce.job.queuename": "batch",
        "pinotpy.sortColumns": "a, b",
        "pinotFSSpecs.0.scheme": "s3",
        "pinotFSSpecs.0.configs.s3.region": "eu",
        "recordReaderSpec.configs.delimiter": "|",
    }
    spec = spec_from_properties(MANUAL | more)
    assert spec.segment_name_generator_spec.configs == {"segment.name.prefix": "daily", "exclude.sequence.id": "true"}
    assert (spec.push_job_spec.push_parallelism, spec.push_job_spec.push_attempts) == (4, 3)
    assert spec.pinotpy.sort_columns == ("a", "b")
    assert {each.scheme.lower(): each.configs for each in spec.pinot_fs_specs} == {"s3": {"s3.region": "eu"}}
    assert spec.record_reader_spec.configs == {"delimiter": "|"}


@pytest.mark.parametrize(
    ("written", "delimiter"),
    [(r"\t", "\t"), (r"\\t", "\t"), (r"\u001c", "\x1c"), ("\x1e", "\x1e"), ("  | ", "|"), (r"\:", ":"), (";", ";")],
)
def test_delimiters_of_properties_are_the_characters_that_were_meant(written: str, delimiter: str) -> None:
    text = (
        "".join(f"{key} = {value}\n" for key, value in MANUAL.items())
        + f"recordReaderSpec.configs.delimiter = {written}\r\njob.type SegmentCreation\n"
    )
    configs = read_properties_spec(text).record_reader_spec.configs
    assert read_config(configs).effective_delimiter == delimiter


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("path.to.inpt", "/a", "path.to.input"),
        ("enable.preprocessing", "true", "pinotpy.sortColumns"),
        ("delete.extra.segments", "true", "consistentPush"),
        ("push.to.port", "eighty", "port"),
        ("pushJobSpec.pushAttempts", "0", "at least 1"),
        ("pinotFSSpecs.3.scheme", "s3", "in order"),
        ("path.to.reader.config", "/x", "recordReaderSpec.configs"),
        ("inputDirURI", "/elsewhere", "one property for inputDirURI"),
        ("tableSpec", "flights", "tableSpec"),
        ("pinotClusterSpecs.0.controllerURI", "http://other:9000", "one property for pinotClusterSpecs"),
        ("push.to.port", "8²", "port"),
        ("pinotFSSpecs.²", "s3", "a list"),
        ("pinotFSSpecs." + "9" * 5000, "s3", "a list"),
    ],
)
@pytest.mark.parametrize("first", [False, True])
def test_properties_that_cannot_be_followed_are_refused_with_what_to_do(
    key: str, value: str, told: str, first: bool
) -> None:
    rest = {name: text for name, text in MANUAL.items() if name != key}
    with pytest.raises(InvalidConfigError) as refused:
        spec_from_properties({key: value, **rest} if first else {**rest, key: value})
    assert told in refused.value.message
