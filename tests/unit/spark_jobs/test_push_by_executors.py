"""Proves that a push from Spark brings the rows of each input file once: executors send what only adds rows, the driver
does what replaces, refuses what would be there twice, and finds what another push added meanwhile. Executors are this
process, the controller is real.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from controller_harness import Harness, build_parts_segment, start_harness
from input_lists import list_of, write_list
from spark_executors import Executors

from pinotpy.errors import AlreadyExistsError
from pinotpy.ingest.jobs.report import JobReport
from pinotpy.ingest.jobs.spec import IngestionJobSpec, read_job_spec
from pinotpy.spark_jobs import push as spark_push
from pinotpy.spark_jobs.push import push_on_spark


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    started = start_harness(tmp_path / "controller")
    started.add_parts()
    yield started
    started.close()


def archive(folder: Path, name: str, *files: str, content: str = "") -> Path:
    target = folder / "output" / f"{name}.tar.gz"
    target.parent.mkdir(exist_ok=True)
    build_parts_segment(folder / "built", name).rename(target)
    for file in files:
        (folder / file).write_text(content or file)
    write_list(target, list_of(*(folder / file for file in files), rows=3 // len(files)))
    return target


def spec_of(harness: Harness, folder: Path, more: str = "") -> IngestionJobSpec:
    return read_job_spec(
        f"jobType: SegmentTarPush\noutputDirURI: {folder}/output\ntableSpec: {{tableName: parts}}\n"
        f"pinotClusterSpecs: [{{controllerURI: '{harness.server.url}'}}]\npushJobSpec: {{pushParallelism: 2}}\n{more}"
    )


def pushed(spark: Executors, spec: IngestionJobSpec) -> JobReport:
    return push_on_spark(spark, spec, JobReport("SegmentTarPush", "parts", "", ()))


def visible(harness: Harness) -> list[str]:
    harness.settle()
    return list(harness.http.get("/segments/parts?excludeReplacedSegments=true").json()[0]["OFFLINE"])


def test_what_only_adds_rows_is_sent_by_executors_with_its_lists(harness: Harness, tmp_path: Path) -> None:
    for number in range(3):
        archive(tmp_path, f"p_{number}", f"f{number}")
    spark = Executors()
    report = pushed(spark, spec_of(harness, tmp_path))
    assert (report.error, spark.num_shares, visible(harness)) == (None, 2, ["p_0", "p_1", "p_2"])
    assert harness.http.get("/segments/parts/p_1/metadata").json()["segment.inputs"] == [f"file://{tmp_path}/f1"]
    assert report.push is not None and report.push["clusters"][0]["segmentsWithoutInputs"] == 0
    assert pushed(Executors(), spec_of(harness, tmp_path)).error is None


def test_what_would_be_there_twice_is_refused_or_counted(harness: Harness, tmp_path: Path) -> None:
    old = archive(tmp_path, "both", "a", "b")
    pushed(Executors(), spec_of(harness, tmp_path))
    old.unlink()
    archive(tmp_path, "one", "a")
    spark = Executors()
    with pytest.raises(AlreadyExistsError, match="1 rows would be there twice"):
        pushed(spark, spec_of(harness, tmp_path))
    assert (spark.num_shares, visible(harness)) == (0, ["both"])
    report = pushed(spark, spec_of(harness, tmp_path, "pinotpy: {allowDuplicates: true}\n"))
    assert report.push is not None and report.push["clusters"][0]["rowsTwice"] == 1
    assert visible(harness) == ["both", "one"]


def test_what_replaces_is_the_drivers(harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = archive(tmp_path, "old", "a")
    pushed(Executors(), spec_of(harness, tmp_path))
    first.unlink()
    archive(tmp_path, "new", "a")
    asked: list[Any] = []
    monkeypatch.setattr(spark_push, "push_archives", lambda spec, report: asked.append(spec) or report)
    spark = Executors()
    pushed(spark, spec_of(harness, tmp_path))
    assert (len(asked), spark.num_shares) == (1, 0)


def test_what_another_push_added_meanwhile_is_found(harness: Harness, tmp_path: Path) -> None:
    archive(tmp_path, "mine", "a")
    other = tmp_path / "other"
    other.mkdir()
    theirs = archive(other, "theirs", "x")
    write_list(theirs, list_of(tmp_path / "a"))

    def meanwhile() -> None:
        push_spec = spec_of(harness, other)
        assert pushed(Executors(), push_spec).error is None

    report = pushed(Executors(meanwhile), spec_of(harness, tmp_path))
    assert (
        report.error is not None
        and "another push brought 3 rows of the same files meanwhile, in segment theirs" in report.error
    )
    assert visible(harness) == ["theirs"]
