"""Proves that no row is read twice or lost where folders of a job lie in each other, where links lead to one file
twice, and where times are none: what cannot be right is refused with its place, and what is left out is left out whole.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from job_data import CONFIG, FIRST_DAY, SCHEMA, all_rows, duckdb_rows, job

from pinotpy.config.date_time import parse_format
from pinotpy.errors import DataError, InvalidConfigError, NotFoundError, OutOfCapacityError, ResourceError, UserError
from pinotpy.ingest.batch import find_input_files
from pinotpy.ingest.jobs.report import UnitReport
from pinotpy.ingest.jobs.run import run_job
from pinotpy.ingest.jobs.work_folder import work_folder
from pinotpy.ingest.jobs.workers import run_units
from pinotpy.ingest.pipeline import RowPipeline
from pinotpy.ingest.push.sources import read_sources

HEADER = "customer,city,price,pieces,day\n"
GLOBAL: dict[str, Any] = {"segmentNameGeneratorSpec": {"configs": {"use.global.directory.sequence.id": "true"}}}
GOOD = f"1,Bern,2.5,3,{FIRST_DAY}\n"


def write_csv(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(HEADER + "".join(lines))
    return path


def write_times(folder: Path, time_format: str, data_type: str, *values: str, checked: bool = True) -> None:
    """Documents whose time column has a format, and a file with these times."""
    day = {"name": "day", "dataType": data_type, "format": time_format, "granularity": "1:DAYS"}
    (folder / "schema.json").write_text(json.dumps({**SCHEMA, "dateTimeFieldSpecs": [day]}))
    (folder / "table.json").write_text(json.dumps({**CONFIG, "ingestionConfig": {"segmentTimeValueCheck": checked}}))
    write_csv(folder / "in" / "a.csv", *(f"1,Bern,2.5,3,{value}\n" for value in values))


@pytest.mark.parametrize("out", ["in/out", "in", "link/out"])
def test_what_a_job_wrote_is_no_input_of_the_next_one(tmp_path: Path, out: str) -> None:
    file = write_csv(tmp_path / "in" / "a.csv", GOOD * 5)
    (tmp_path / "link").symlink_to(tmp_path / "in")
    for _ in range(2):
        report = run_job(job(tmp_path, out, recordReaderSpec={"dataFormat": "csv"}, pinotpy={"rowsPerSegment": 100}))
        assert report.error is None and len(report.files) == 1
        assert all_rows(report, tmp_path / "scratch") == duckdb_rows(str(file))


@pytest.mark.parametrize(
    "spelling",
    ["{0}/in/rejects", "file://{0}/in/rejects", "{0}/./in/rejects", "{0}/link/rejects", "{0}/x/../in", "{0}/link"],
)
def test_rejected_rows_cannot_go_where_the_next_run_reads(tmp_path: Path, spelling: str) -> None:
    write_csv(tmp_path / "in" / "a.csv", GOOD)
    (tmp_path / "link").symlink_to(tmp_path / "in")
    with pytest.raises(InvalidConfigError, match=r"rejectFileURI.*outside of inputDirURI"):
        job(tmp_path, pinotpy={"rejectFileURI": spelling.format(tmp_path)})


def test_a_file_that_is_there_twice_by_a_link_is_refused(tmp_path: Path) -> None:
    write_csv(tmp_path / "in" / "2026-01" / "a.csv", GOOD)
    (tmp_path / "in" / "latest").symlink_to("2026-01")
    with pytest.raises(UserError, match=r"2026-01/a\.csv.*latest/a\.csv.*read twice"):
        run_job(job(tmp_path))
    assert run_job(job(tmp_path, excludeFileNamePattern="glob:latest/*")).total("num_rows_indexed") == 1
    # A link to elsewhere is a way to name input.
    write_csv(tmp_path / "elsewhere.csv", GOOD)
    (tmp_path / "in" / "latest").unlink()
    (tmp_path / "in" / "other.csv").symlink_to(tmp_path / "elsewhere.csv")
    through = {"configs": {"use.global.directory.sequence.id": "true"}}
    assert run_job(job(tmp_path, "both", segmentNameGeneratorSpec=through)).total("num_rows_indexed") == 2


@pytest.mark.parametrize("ours", [{}, {"timeBucket": "DAY"}, {"rowsPerSegment": 100}], ids=["files", "buckets", "rows"])
def test_a_file_with_times_that_no_segment_may_have_is_left_out_whole(tmp_path: Path, ours: dict[str, Any]) -> None:
    good = write_csv(tmp_path / "in" / "a.csv", GOOD * 5)
    write_csv(tmp_path / "in" / "b.csv", "1,Bern,2.5,3,2000000\n" * 3, GOOD * 2)
    failed = run_job(job(tmp_path, "failed", pinotpy=ours))
    assert failed.error is not None and "b.csv" in failed.error and "1971 to 2071" in failed.error
    report = run_job(job(tmp_path, pinotpy={**ours, "onFileError": "SKIP"}))
    assert report.error is None and report.num_failures == 1
    assert report.total("num_rows_indexed") == sum(segment.num_docs for segment in report.segments) == 5
    assert all_rows(report, tmp_path / "scratch") == duckdb_rows(str(good))


def test_an_output_that_cannot_take_a_segment_is_no_fault_of_a_file(tmp_path: Path) -> None:
    write_csv(tmp_path / "in" / "a.csv", GOOD * 5)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / f"orders_{FIRST_DAY}_{FIRST_DAY}_0.tar.gz").write_bytes(b"precious")
    report = run_job(job(tmp_path, pinotpy={"rowsPerSegment": 2, "onFileError": "SKIP"}, **GLOBAL))
    assert report.error is not None and "overwriteOutput" in report.error and "SKIP" not in report.error


@pytest.mark.parametrize("ours", [{}, {"rowsPerSegment": 10}], ids=["files", "regrouped"])
def test_numbers_that_are_no_dates_are_told_with_their_file(tmp_path: Path, ours: dict[str, Any]) -> None:
    write_times(tmp_path, "1:DAYS:SIMPLE_DATE_FORMAT:yyyyMMdd", "INT", "20260101", "20261331")
    report = run_job(job(tmp_path, pinotpy=ours))
    assert (
        report.error is not None
        and "a.csv" in report.error
        and "20261331" in report.error
        and "internal" not in report.error
    )


@pytest.mark.parametrize("ours", [{}, {"timeBucket": "DAY"}], ids=["files", "buckets"])
def test_years_without_a_date_have_no_normalized_name(tmp_path: Path, ours: dict[str, Any]) -> None:
    write_times(tmp_path, "1:DAYS:EPOCH", "INT", "2147483647", "-2147483648", checked=False)
    report = run_job(job(tmp_path, segmentNameGeneratorSpec={"type": "normalizedDate"}, pinotpy=ours))
    assert report.error is not None and "take simple names" in report.error
    assert run_job(job(tmp_path, "simple", segmentNameGeneratorSpec={"type": "simple"}, pinotpy=ours)).error is None


def test_hours_of_a_day_are_numbered_where_names_tell_days(tmp_path: Path) -> None:
    hours = [1_767_225_600_000 + hour * 3_600_000 for hour in (0, 5, 23, 24)]
    write_times(tmp_path, "1:MILLISECONDS:EPOCH", "LONG", *(str(hour) for hour in hours))
    names = {"type": "normalizedDate", "configs": {"use.global.directory.sequence.id": "false"}}
    report = run_job(job(tmp_path, segmentNameGeneratorSpec=names, pinotpy={"timeBucket": "HOUR"}))
    assert report.error is None
    assert [segment.segment_name for segment in report.segments] == [
        *(f"orders_2026-01-01_2026-01-01_{number}" for number in (0, 1, 2)),
        "orders_2026-01-02_2026-01-02_0",
    ]


def test_two_jobs_with_other_working_folders_cannot_build_into_one_output(tmp_path: Path) -> None:
    write_csv(tmp_path / "in" / "a.csv", GOOD)
    with work_folder(job(tmp_path)), pytest.raises(OutOfCapacityError, match="another job"):
        run_job(job(tmp_path, pinotpy={"workingDir": str(tmp_path / "other")}))
    assert not (tmp_path / "out").exists(), "a job that did nothing leaves nothing"
    assert run_job(job(tmp_path)).error is None


def test_an_output_that_cannot_be_made_is_told_before_a_file_is_read(tmp_path: Path) -> None:
    write_csv(tmp_path / "in" / "a.csv", GOOD)
    (tmp_path / "out").write_text("a file")
    with pytest.raises(UserError, match=r"the output '.*/out' cannot be made: .*outputDirURI"):
        run_job(job(tmp_path))


def test_what_a_killed_worker_was_writing_goes_at_the_end(tmp_path: Path) -> None:
    with work_folder(job(tmp_path)):
        (tmp_path / "out" / "deep").mkdir()
        (tmp_path / "out" / "deep" / ".unfinished-7").write_text("half")
    assert not (tmp_path / "out" / "deep" / ".unfinished-7").exists()


@pytest.mark.parametrize("out", ["out", "./out/", "{0}/out", "file://{0}/out"])
def test_archives_of_files_that_are_gone_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: str) -> None:
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path / "in" / "a.csv", GOOD)
    changes = {"outputDirURI": out.format(tmp_path)}
    assert run_job(job(tmp_path, **changes)).others_told is None
    # What was removed is in no segment of this run, and may be in the table: that is for people to say.
    (tmp_path / "in" / "a.csv").unlink()
    write_csv(tmp_path / "in" / "b.csv", GOOD.replace(str(FIRST_DAY), str(FIRST_DAY + 1)))
    report = run_job(job(tmp_path, **changes))
    assert [Path(uri).name[:18] for uri in report.other_archive_uris] == [f"orders_{FIRST_DAY}_{FIRST_DAY}"]
    assert report.others_told is not None and "pushFileNamePattern" in report.others_told
    assert report.to_json_dict()["numOtherArchives"] == len(report.to_json_dict()["otherArchiveURIs"]) == 1


@pytest.mark.parametrize("ours", [{}, {"rowsPerSegment": 2}], ids=["files", "regrouped"])
def test_a_reject_file_that_cannot_be_written_is_no_fault_of_the_input(tmp_path: Path, ours: dict[str, Any]) -> None:
    write_csv(tmp_path / "in" / "a.csv", GOOD, "x,Bern,2.5,3,1\n")
    write_csv(tmp_path / "in" / "b.csv", GOOD)
    (tmp_path / "rejects").write_text("a file")
    report = run_job(
        job(
            tmp_path,
            pinotpy={**ours, "onFileError": "SKIP", "rejectShareMax": 1, "rejectFileURI": str(tmp_path / "rejects")},
        )
    )
    assert report.error is not None and "rejectFileURI" in report.error and "SKIP" not in report.error


def test_a_name_of_bytes_that_are_no_text_is_read_and_has_a_uuid(tmp_path: Path) -> None:
    write_csv(tmp_path / "in" / os.fsdecode(b"\xff.csv"), GOOD)
    report = run_job(job(tmp_path, segmentNameGeneratorSpec={"configs": {"append.uuid.to.segment.name": "true"}}))
    assert report.error is None and report.total("num_rows_indexed") == 1


def test_a_job_without_any_row_says_what_it_had(tmp_path: Path) -> None:
    write_csv(tmp_path / "in" / "a.csv")
    (tmp_path / "in" / "b.csv").write_bytes(b"\xff\xfe")
    report = run_job(job(tmp_path, pinotpy={"onFileError": "SKIP"}))
    assert report.error == "no segment was built: of 2 input files 1 could not be read, the others hold no row to index"
    with pytest.raises(NotFoundError, match="includeFileNamePattern is one"):
        run_job(job(tmp_path, inputDirURI=f"{tmp_path}/*.csv"))


def test_a_replacement_with_files_left_out_is_not_pushed(tmp_path: Path) -> None:
    write_csv(tmp_path / "in" / "a.csv", GOOD)
    (tmp_path / "in" / "b.csv").write_bytes(b"\xff\xfe")
    push: dict[str, Any] = {
        "jobType": "SegmentCreationAndTarPush",
        "pinotClusterSpecs": [{"controllerURI": "http://localhost:1"}],
    }
    for scope in ("TABLE", "TIME_RANGE"):
        report = run_job(job(tmp_path, **push, pinotpy={"onFileError": "SKIP", "consistentPush": scope}))
        assert report.error is not None and report.push is None and "must be whole" in report.error
        assert len(report.segments) == 1


def test_a_working_folder_without_space_is_told_by_its_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        write_csv(tmp_path / "in" / f"{name}.csv", GOOD)
    full = OSError(errno.ENOSPC, "No space left on device")

    def refuse(*_: object, **__: object) -> None:
        raise full

    monkeypatch.setattr("pinotpy.ingest.jobs.segment_output.pack_segment", refuse)
    report = run_job(job(tmp_path, pinotpy={"onFileError": "SKIP"}))
    assert report.error is not None and "workingDir" in report.error
    monkeypatch.setattr("pinotpy.ingest.jobs.workers.json.dump", refuse)
    with pytest.raises(ResourceError, match="workingDir"):
        run_job(job(tmp_path, segmentCreationJobParallelism=2))
    monkeypatch.undo()
    monkeypatch.setattr("pinotpy.ingest.jobs.workers.subprocess.Popen", refuse)
    with pytest.raises(ResourceError, match="segmentCreationJobParallelism"):
        run_job(job(tmp_path, segmentCreationJobParallelism=2))


def test_no_more_processes_than_the_machine_can_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(12):
        write_csv(tmp_path / "in" / f"{number:02d}.csv", GOOD)
    asked: list[int] = []
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0})
    monkeypatch.setattr(
        "pinotpy.ingest.jobs.workers._Pool.run", lambda _, parallelism: asked.append(parallelism) or iter(())
    )
    run_job(job(tmp_path, segmentCreationJobParallelism=1_000))
    assert asked == [8]


@pytest.mark.parametrize("parallelism", [1, 2])
def test_two_segments_of_one_name_in_one_folder_are_told_as_such(tmp_path: Path, parallelism: int) -> None:
    for city in ("Bern", "Ulm"):
        write_csv(tmp_path / "in" / f"{city}.csv", GOOD.replace("Bern", city))
    same = {
        "segmentNameGeneratorSpec": {"configs": {"exclude.sequence.id": "true"}},
        "segmentCreationJobParallelism": parallelism,
    }
    report = run_job(job(tmp_path, **same))
    assert report.error is not None and "given more than once" in report.error and "overwriteOutput" not in report.error


def test_one_name_given_twice_is_told_though_the_refused_one_reports_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for city in ("Bern", "Ulm"):
        write_csv(tmp_path / "in" / f"{city}.csv", GOOD.replace("Bern", city))

    def refused_first(*args: Any) -> Iterator[UnitReport]:
        yield from sorted(run_units(*args), key=lambda report: report.error is None)

    monkeypatch.setattr("pinotpy.ingest.jobs.run.run_units", refused_first)
    report = run_job(job(tmp_path, segmentNameGeneratorSpec={"configs": {"exclude.sequence.id": "true"}}))
    assert report.error is not None and "given more than once" in report.error and "overwriteOutput" not in report.error
    assert len(report.units) == 2


def test_an_archive_in_the_way_ends_the_job_before_other_units_begin(tmp_path: Path) -> None:
    write_csv(tmp_path / "in" / "1.csv", GOOD)
    assert run_job(job(tmp_path)).error is None
    write_csv(tmp_path / "in" / "1.csv", GOOD.replace("Bern", "Ulm"))
    for number in range(2, 5):
        write_csv(tmp_path / "in" / f"{number}.csv", GOOD)
    report = run_job(job(tmp_path))
    assert report.error is not None and "exists with other content" in report.error
    assert "3 of 4 units were not begun" in report.error and len(report.units) == 1


@pytest.mark.parametrize("spelling", ["./in", "in//", "in/.", "../{name}/in", "."])
@pytest.mark.parametrize("scheme", ["", "file://"])
def test_however_the_folder_is_written_paths_below_it_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spelling: str, scheme: str
) -> None:
    write_csv(tmp_path / "in" / "a.csv", GOOD)
    write_csv(tmp_path / "in" / "deep" / "a.csv", GOOD)
    for hidden in ("_temporary/0/a.csv", ".trash/a.csv"):
        write_csv(tmp_path / "in" / hidden, GOOD)
    monkeypatch.chdir(tmp_path / "in" if spelling == "." else tmp_path)
    uri = spelling.format(name=tmp_path.name)
    report = run_job(job(tmp_path, inputDirURI=f"file://{Path.cwd()}/{uri}" if scheme else uri, **GLOBAL))
    assert report.error is None and report.total("num_rows_indexed") == 2
    assert sorted(Path(segment.uri).parent.relative_to(tmp_path / "out").as_posix() for segment in report.segments) == [
        ".",
        "deep",
    ]
    only = run_job(job(tmp_path, "only", inputDirURI=uri, includeFileNamePattern="glob:deep/*.csv"))
    assert len(only.files) == 1


def test_links_to_nothing_and_folders_that_cannot_be_listed_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_csv(tmp_path / "in" / "a.csv", GOOD)
    (tmp_path / "in" / "b.csv").symlink_to(tmp_path / "nowhere.csv")
    (tmp_path / "in" / ".#c.csv").symlink_to("what an editor locks")
    for find in (lambda: run_job(job(tmp_path)), lambda: find_input_files(tmp_path / "in")):
        with pytest.raises(DataError, match=r"b\.csv' is a link to a file that is not there"):
            find()
    (tmp_path / "in" / "b.csv").unlink()
    (tmp_path / "in" / "closed").mkdir()
    scandir = os.scandir

    def closed(path: Any) -> Any:
        if not isinstance(path, int) and Path(path).name == "closed":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", closed)
    for find in (lambda: run_job(job(tmp_path)), lambda: find_input_files(tmp_path / "in")):
        with pytest.raises(DataError, match=r"closed' cannot be listed: permission denied"):
            find()


@pytest.mark.parametrize("ours", [{}, {"rowsPerSegment": 100}], ids=["files", "regrouped"])
def test_a_file_that_is_written_to_while_it_is_read_is_no_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ours: dict[str, Any]
) -> None:
    file = write_csv(tmp_path / "in" / "a.csv", GOOD * 5)
    good = write_csv(tmp_path / "in" / "b.csv", GOOD * 3)
    convert = RowPipeline.convert

    def with_another_row(*args: Any) -> Any:
        if file.stat().st_size < 2 * len(HEADER + GOOD * 5):
            with file.open("a") as writer:
                writer.write(GOOD * 10)
        return convert(*args)

    monkeypatch.setattr(RowPipeline, "convert", with_another_row)
    report = run_job(job(tmp_path, pinotpy={**ours, "onFileError": "SKIP"}))
    assert report.num_failures == 1 and "written to while it was read" in str(report.to_json_dict())
    assert all_rows(report, tmp_path / "scratch") == duckdb_rows(str(good))


def test_a_job_leaves_alone_what_another_one_writes_below_its_output(tmp_path: Path) -> None:
    write_csv(tmp_path / "in" / "a.csv", GOOD)
    below = job(tmp_path, "out/day")
    with work_folder(below):
        being_written = tmp_path / "out" / "day" / ".unfinished-1"
        being_written.write_bytes(b"half")
        left = tmp_path / "out" / "old" / ".unfinished-2"
        left.parent.mkdir()
        left.write_bytes(b"half")
        assert run_job(job(tmp_path)).error is None
        assert being_written.exists() and not left.exists()
    assert not being_written.exists()


@pytest.mark.parametrize(
    ("time_format", "texts", "first", "last"),
    [
        ("1:DAYS:SIMPLE_DATE_FORMAT:yyyy-MM-dd", ["2024-01-05", "2024-9-30", "2024-12-31"], "2024-01-05", "2024-12-31"),
        ("1:DAYS:SIMPLE_DATE_FORMAT:yyyy-MM-dd", ["2024-1-5", "2024-02-01", "2024-12-01"], "2024-1-5", "2024-12-01"),
        (
            "1:DAYS:SIMPLE_DATE_FORMAT:yyyy-MM-dd HH",
            ["2024-01-05 9", "2024-01-05 23", "2024-01-05 07"],
            "2024-01-05 07",
            "2024-01-05 23",
        ),
        (
            "SIMPLE_DATE_FORMAT",
            ["2024-01-01T00:30:00+02:00", "2024-01-01T00:00:00Z", "2024-01-02"],
            "2024-01-01T00:30:00+02:00",
            "2024-01-02",
        ),
        (
            "SIMPLE_DATE_FORMAT",
            ["2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z"],
            "2024-01-01T00:00:00Z",
            "2024-01-02T00:00:00Z",
        ),
    ],
)
@pytest.mark.parametrize("encoding", [{}, {"noDictionaryColumns": ["day"]}], ids=["dictionary", "raw"])
def test_times_of_a_segment_are_those_of_its_rows_however_they_are_written(
    tmp_path: Path, time_format: str, texts: list[str], first: str, last: str, encoding: dict[str, Any]
) -> None:
    write_times(tmp_path, time_format, "STRING", *texts, "")
    (tmp_path / "table.json").write_text(json.dumps({**CONFIG, "tableIndexConfig": encoding}))
    report = run_job(job(tmp_path, segmentNameGeneratorSpec={"type": "normalizedDate"}))
    assert report.error is None
    (segment,) = report.segments
    millis = [parse_format(time_format).millis_from_value(text) for text in (first, last)]
    metadata = read_sources([segment.uri], None, parallelism=1)[0].metadata
    assert metadata.time_range is not None
    assert [segment.start_ms, segment.end_ms] == [metadata.time_range.start_ms, metadata.time_range.end_ms] == millis
    assert (metadata.time_range.start_raw, metadata.time_range.end_raw) == (first, last)
