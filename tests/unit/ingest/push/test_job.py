"""Proves what the keys of a job spec mean for its push."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from controller_harness import build_parts_segment

from pinotpy.client.http_calls import Access
from pinotpy.errors import InvalidConfigError, UserError
from pinotpy.ingest.jobs.access import access_of
from pinotpy.ingest.jobs.spec import IngestionJobSpec, read_job_spec
from pinotpy.ingest.push import job
from pinotpy.ingest.push.job import push_segments, settings_of
from pinotpy.ingest.push.report import PushReport
from pinotpy.ingest.push.sending import retry_wait_s
from pinotpy.ingest.push.settings import PushKind, PushSettings, ReplaceScope
from pinotpy.names import TableType

DAY_MS = 86_400_000
SPEC = """
jobType: {job_type}
inputDirURI: /in
outputDirURI: /out
tableSpec: {{tableName: parts, schemaURI: /schema.json}}
pinotClusterSpecs:
  - controllerURI: http://one:9000
  - controllerURI: http://two:9000
"""


def spec(more: str = "", job_type: str = "SegmentTarPush") -> IngestionJobSpec:
    return read_job_spec(SPEC.format(job_type=job_type) + more)


def test_the_keys_of_a_push() -> None:
    found = settings_of(
        spec(
            """
pushJobSpec: {pushAttempts: 7, pushParallelism: 3, pushRetryIntervalMillis: 250,
  segmentUriPrefix: "s3://b", segmentUriSuffix: "?v=1", copyToDeepStoreForMetadataPush: true}
pinotpy: {pushTimeoutMs: 5000}
""",
            "SegmentCreationAndMetadataPush",
        )
    )
    assert found == PushSettings(
        table="parts",
        table_type=TableType.OFFLINE,
        controllers=("http://one:9000", "http://two:9000"),
        kind=PushKind.METADATA,
        attempts_max=7,
        retry_wait_ms=250,
        parallelism=3,
        upload_timeout_s=5.0,
        uri_prefix="s3://b",
        uri_suffix="?v=1",
        copy_to_deep_store=True,
        asks_table=True,
    )


@pytest.mark.parametrize(
    ("job_type", "kind"), [("SegmentTarPush", "tar"), ("SegmentUriPush", "uri"), ("SegmentCreationAndTarPush", "tar")]
)
def test_the_type_of_a_job_is_the_kind_of_its_push(job_type: str, kind: str) -> None:
    assert settings_of(spec(job_type=job_type)).kind.value == kind


def test_a_job_that_builds_only_pushes_nothing() -> None:
    with pytest.raises(UserError, match="pushes nothing"):
        settings_of(spec(job_type="SegmentCreation"))


def test_credentials_of_a_job() -> None:
    assert access_of(spec("authToken: Basic abc")) == Access(auth="Basic abc")
    tls = "tlsSpec: {trustStorePath: /ca.pem, keyStorePath: /own.pem}"
    assert access_of(spec(tls)) == Access(ca="/ca.pem", certificate="/own.pem")
    with pytest.raises(UserError, match="keyStorePassword"):
        access_of(spec("tlsSpec: {keyStorePath: /own.pem, keyStorePassword: x}"))


@pytest.mark.parametrize(
    ("more", "expected", "asks"),
    [
        ("", None, True),
        ("pinotpy: {consistentPush: NONE}", None, False),
        ("pinotpy: {consistentPush: TABLE}", ReplaceScope(), False),
        ("pinotpy: {consistentPush: TIME_RANGE}", ReplaceScope(18_000 * DAY_MS, 18_002 * DAY_MS + 1), False),
        (
            "pinotpy: {consistentPush: TIME_RANGE, timeBucket: DAY}",
            ReplaceScope(18_000 * DAY_MS, 18_003 * DAY_MS),
            False,
        ),
        # 18000 days after the epoch are 2019-04-14.
        (
            "pinotpy: {consistentPush: TIME_RANGE, timeBucket: MONTH}",
            ReplaceScope(17_987 * DAY_MS, 18_017 * DAY_MS),
            False,
        ),
        (
            "pinotpy: {consistentPush: TIME_RANGE, timeBucket: YEAR}",
            ReplaceScope(17_897 * DAY_MS, 18_262 * DAY_MS),
            False,
        ),
    ],
)
def test_what_a_consistent_push_replaces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str, expected: ReplaceScope | None, asks: bool
) -> None:
    archive = build_parts_segment(tmp_path, "parts_0")  # days 18000 to 18002
    asked: list[PushSettings] = []

    def keep(settings: PushSettings, *_: Any, **__: Any) -> PushReport:
        asked.append(settings)
        return PushReport("parts_OFFLINE", settings.kind, ())

    monkeypatch.setattr(job, "push", keep)
    push_segments(spec(more), [str(archive)])
    assert (asked[0].replace, asked[0].asks_table) == (expected, asks)


def test_waits_are_bounded_however_many_attempts_there_are() -> None:
    settings = PushSettings("orders", attempts_max=10_000, retry_wait_ms=0)
    assert retry_wait_s(settings, 5_000) == 0
    assert 15 <= retry_wait_s(replace(settings, retry_wait_ms=1), 5_000) <= 45


@pytest.mark.parametrize(
    "keys",
    [{"pushJobSpec": {name: "9" * 30}} for name in ("pushAttempts", "pushParallelism", "pushRetryIntervalMillis")]
    + [{"pinotpy": {"pushTimeoutMs": "9" * 30}}],
)
def test_numbers_that_no_push_can_use_are_refused(keys: dict[str, Any]) -> None:
    base = {
        "jobType": "SegmentTarPush",
        "outputDirURI": "/out",
        "tableSpec": {"tableName": "orders"},
        "pinotClusterSpecs": [{"controllerURI": "http://c:9000"}],
    }
    with pytest.raises(InvalidConfigError, match="allowed"):
        IngestionJobSpec.from_json({**base, **keys})


def test_a_job_says_what_it_knows_of_its_files(tmp_path: Path) -> None:
    text = "pinotpy: {allowDuplicates: true, adopt: true}\n"
    found = settings_of(spec(text, "SegmentCreationAndTarPush"), are_whole=True)
    assert (found.allows_duplicates, found.adopts, found.are_whole, found.input_folder) == (
        True,
        True,
        True,
        "file:///in/",
    )
    # What is pushed of an output folder, or beside what is there, says nothing of the files that are gone.
    assert settings_of(spec()).input_folder == ""
    assert (
        settings_of(spec("pinotpy: {consistentPush: NONE}\n", "SegmentCreationAndTarPush"), are_whole=True).input_folder
        == ""
    )
    remote = spec("", "SegmentCreationAndTarPush").model_copy(update={"input_dir_uri": "s3://key:secret@bucket/in/"})
    assert settings_of(remote, are_whole=True).input_folder == "s3://bucket/in/"
