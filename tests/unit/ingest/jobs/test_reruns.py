"""Proves that a job that runs again over changed files leaves its output such that a push of the folder brings exactly
the rows of the files: random histories of files added, corrected, renamed, moved, copied, emptied, swapped and removed,
by file and regrouped, with tags and with numbers in names. Oracles: DuckDB reads the files; checksums and counts of the
lists come from google_crc32c and DuckDB; of an untouched file neither name nor bytes change.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import google_crc32c
import pyarrow as pa
import pytest
from job_data import FIRST_DAY, archives, job, segment_rows, sorted_rows

from pinotpy.cli.commands.upload_segment import segment_sources
from pinotpy.errors import NotFoundError, PinotError
from pinotpy.fs.file_systems import file_system_for
from pinotpy.fs.uris import file_uri, masked
from pinotpy.ingest.archive_listing import list_archives
from pinotpy.ingest.jobs import segment_output
from pinotpy.ingest.jobs.input_lists import listed_uri
from pinotpy.ingest.jobs.pushing import find_archives
from pinotpy.ingest.jobs.report import JobReport
from pinotpy.ingest.jobs.run import run_job
from pinotpy.ingest.push.report import PushReport
from pinotpy.ingest.push.settings import PushKind
from pinotpy.segment.input_list import InputList

# Histories of each kind of job; more by `make fuzz`.
FUZZ = max(1, int(os.environ.get("PINOTPY_FUZZ", "0")) // 1_000)
STEPS = 6
HEADER = "customer,city,price,pieces,day\n"
NUMBERS: dict[str, Any] = {"segmentNameGeneratorSpec": {"configs": {"use.global.directory.sequence.id": "true"}}}
JOBS: dict[str, dict[str, Any]] = {
    "files": {},
    "numbered files": NUMBERS,
    "rows": {"pinotpy": {"rowsPerSegment": 4}},
    "partitions and months": {"pinotpy": {"repartition": True, "timeBucket": "MONTH"}},
    "numbered months": {"pinotpy": {"timeBucket": "MONTH"}, **NUMBERS},
}


def write(path: Path, first: int, num_rows: int = 3, day: int = FIRST_DAY) -> None:
    """Rows that no other file has: customers `first`, `first` + 1, …"""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (f"{first + row},city-{row},{row}.5,{row},{day + 20 * row}\n" for row in range(num_rows))
    path.write_text(HEADER + "".join(lines))


def write_files(folder: Path) -> None:
    for place, name in enumerate(("b.csv", "d.csv", "sub/f.csv")):
        write(folder / name, 100 * place, day=FIRST_DAY + place)


def correct_times(folder: Path) -> None:
    write(folder / "d.csv", 100, 4, FIRST_DAY + 40)


def correct_values(folder: Path) -> None:
    write(folder / "d.csv", 700, day=FIRST_DAY + 1)


def change(folder: Path, random: Random, step: int) -> str:
    """One change of the files of a folder, as people make them; its name."""
    files = sorted(folder.rglob("*.csv"))
    file, other = random.sample(files, 2)
    fresh = folder / random.choice(("", "sub/", "z/")) / f"{random.choice('aemz')}{step}.csv"
    what = random.choice(
        ("add", "correct times", "correct values", "rename", "copy", "empty", "swap", "remove", "rename and correct")
    )
    if what == "add" or len(files) < 4:
        write(fresh, 1_000 * step, random.randint(1, 5), FIRST_DAY + random.randint(0, 30))
    elif what == "correct times":
        write(file, 1_000 * step, random.randint(1, 5), FIRST_DAY + random.randint(0, 30))
    elif what == "correct values":
        file.write_text(file.read_text().replace("city-", f"town-{step}-"))
    elif what in ("rename", "rename and correct"):
        fresh.parent.mkdir(exist_ok=True)
        file.rename(fresh)
        if what == "rename and correct":
            write(other, 1_000 * step)
    elif what == "copy":
        fresh.parent.mkdir(exist_ok=True)
        shutil.copy(file, fresh)
    elif what == "empty":
        file.write_text(HEADER)
    elif what == "swap":
        one, two = file.read_bytes(), other.read_bytes()
        file.write_bytes(two)
        other.write_bytes(one)
    else:
        file.unlink()
    return f"{step}: {what} {file.relative_to(folder)}"


def files_of(folder: Path) -> str:
    columns = "{'customer': 'BIGINT', 'city': 'VARCHAR', 'price': 'DOUBLE', 'pieces': 'INTEGER', 'day': 'INTEGER'}"
    return f"read_csv('{folder}/**/*.csv', header=true, columns={columns}, filename=true)"


def rows_of(folder: Path) -> list[tuple[Any, ...]]:
    """What DuckDB reads in the files."""
    with duckdb.connect() as connection:
        return sorted_rows(connection.sql(f"SELECT * FROM {files_of(folder)}").to_arrow_table())


def pushed_rows(output: Path, scratch: Path) -> list[tuple[Any, ...]]:
    """The rows of all archives that a push of the folder takes."""
    scratch.mkdir(exist_ok=True)
    return sorted_rows(
        pa.concat_tables(segment_rows(Path(uri), scratch) for uri in list_archives(str(output), None).current)
    )


def lists_of(report: JobReport) -> dict[str, InputList]:
    uris = {segment.segment_name: segment.uri.replace(".tar.gz", ".inputs.json") for segment in report.segments}
    return {name: InputList.from_bytes(Path(uri).read_bytes(), uri) for name, uri in uris.items()}


def check_lists(report: JobReport, folder: Path) -> None:
    """Every list has the right files with the right bytes, and all of them together every row once."""
    with duckdb.connect() as connection:
        counts = connection.sql(f"SELECT filename, count(*) FROM {files_of(folder)} GROUP BY 1").fetchall()
    found: Counter[str] = Counter()
    for segment in report.segments:
        files = lists_of(report)[segment.segment_name].files
        assert segment.has_input_list and sum(file.num_rows for file in files) == segment.num_docs
        for file in files:
            found[file.uri] += file.num_rows
            data = Path(file.uri.removeprefix("file://")).read_bytes()
            assert (file.size_bytes, file.checksum) == (len(data), f"crc32c:{google_crc32c.value(data):08x}")
    assert found == {f"file://{name}": count for name, count in counts if count}
    assert {(file.uri, file.file_rows) for files in lists_of(report).values() for file in files.files} == set(
        found.items()
    )


@pytest.mark.parametrize("seed", range(FUZZ))
@pytest.mark.parametrize("kind", JOBS)
def test_a_push_of_the_output_brings_the_rows_of_the_files_after_each_change(
    kind: str, seed: int, tmp_path: Path
) -> None:
    folder, out, random = tmp_path / "in", tmp_path / "out", Random(f"{kind} {seed}")
    write_files(folder)
    spec = job(tmp_path, overwriteOutput=True, **JOBS[kind])
    report, history = run_job(spec), []
    assert report.error is None and report.others_told is None
    for step in range(1, STEPS + 1):
        before, old = archives(out), {path: path.read_bytes() for path in folder.rglob("*.csv")}
        history.append(change(folder, random, step))
        names = {segment.input_uris: segment for segment in report.segments}
        report = run_job(spec)
        assert report.error is None, history
        for uri in (
            report.other_archive_uris
        ):  # of files that were removed: only people can tell whether their rows are still wanted
            Path(uri).unlink()
        assert bool(report.other_archive_uris) <= ("remove" in history[-1]), history
        assert pushed_rows(out, tmp_path / "scratch") == rows_of(folder), history
        check_lists(report, folder)
        if kind == "files":
            for segment in report.segments:
                (uri,) = segment.input_uris
                if old.get(Path(uri)) == Path(uri).read_bytes():
                    assert names[segment.input_uris].segment_name == segment.segment_name, history
                    path = Path(segment.uri).relative_to(out).as_posix()
                    for name in (path, path.replace(".tar.gz", ".inputs.json")):
                        assert archives(out)[name] == before[name], history


def test_marks_follow_a_file_that_is_corrected_back_and_forth(tmp_path: Path) -> None:
    folder, out = tmp_path / "in", tmp_path / "out"
    write_files(folder)
    spec = job(tmp_path)
    run_job(spec)
    original = (folder / "d.csv").read_bytes()
    names = []
    for corrected in (True, False, True):
        correct_times(folder) if corrected else (folder / "d.csv").write_bytes(original)
        report = run_job(spec)
        assert report.error is None, "the old archive has another name: nothing is overwritten"
        assert pushed_rows(out, tmp_path / "scratch") == rows_of(folder)
        names.append([Path(uri).name for uri in report.replaced_archive_uris])
        document = report.to_json_dict()
        assert (document["numReplacedArchives"], document["numOtherArchives"]) == (1, 0)
        assert report.others_told is not None and "No push of the folder takes them" in report.others_told
    assert names[0] == names[2] != names[1] and len(list(out.rglob("*.replaced"))) == 1


def test_what_was_removed_is_told_by_file_and_gone_where_rows_were_regrouped(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    write_files(folder)
    alone, grouped = (
        job(tmp_path, "alone"),
        job(tmp_path, "grouped", overwriteOutput=True, pinotpy={"rowsPerSegment": 5}),
    )
    old = run_job(alone)
    run_job(grouped)
    (folder / "d.csv").unlink()
    report = run_job(alone)
    (gone,) = [segment.uri for segment in old.segments if "d.csv" in segment.input_uris[0]]
    assert (report.other_archive_uris, report.replaced_archive_uris) == ((gone,), ())
    assert report.others_told is not None and "pushFileNamePattern" in report.others_told
    assert run_job(grouped).error is None
    assert pushed_rows(tmp_path / "grouped", tmp_path / "scratch") == rows_of(folder)


def test_archives_with_rows_of_files_that_are_still_elsewhere_are_not_marked(tmp_path: Path) -> None:
    """A job over one of two folders cannot say what becomes of a segment with rows of both."""
    write(tmp_path / "in" / "one" / "a.csv", 0)
    write(tmp_path / "in" / "two" / "b.csv", 100)
    regrouped = {"rowsPerSegment": 100}
    assert run_job(job(tmp_path, pinotpy=regrouped)).error is None
    part = run_job(
        job(
            tmp_path,
            inputDirURI=str(tmp_path / "in" / "one"),
            pinotpy=regrouped,
            segmentNameGeneratorSpec={"type": "normalizedDate"},
        )
    )
    assert part.error is None and part.replaced_archive_uris == ()
    assert (len(part.other_archive_uris), part.num_mixed_archives) == (1, 1)
    assert part.others_told is not None and "1 of them hold rows of this job's files and of others" in part.others_told


def test_a_file_that_cannot_be_read_keeps_its_archive(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    write_files(folder)
    spec = job(tmp_path, pinotpy={"onFileError": "SKIP"})
    run_job(spec)
    (folder / "d.csv").write_text(HEADER + "x,y,z\n")
    report = run_job(spec)
    assert report.num_failures == 1 and report.replaced_archive_uris == () and len(report.other_archive_uris) == 1


def test_a_part_of_the_input_has_the_names_that_it_has_among_all(tmp_path: Path) -> None:
    write_files(tmp_path / "in")
    every = {segment.segment_name for segment in run_job(job(tmp_path, "all")).segments}
    part = run_job(job(tmp_path, "part", includeFileNamePattern="glob:sub/*"))
    assert {segment.segment_name for segment in part.segments} < every
    shutil.copytree(tmp_path / "in", tmp_path / "elsewhere")
    moved = run_job(job(tmp_path, "moved", inputDirURI=file_uri(tmp_path / "elsewhere")))
    assert {segment.segment_name for segment in moved.segments} == every
    assert {name for name in archives(tmp_path / "moved") if name.endswith(".gz")} == {
        name for name in archives(tmp_path / "all") if name.endswith(".gz")
    }


def test_a_push_takes_no_replaced_archive_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, out = tmp_path / "in", tmp_path / "out"
    write_files(folder)
    pushed: list[list[str]] = []

    def push_segments(spec: Any, uris: list[str], **_: Any) -> PushReport:
        pushed.append(sorted(uris))
        return PushReport("orders", PushKind.TAR, ())

    monkeypatch.setattr("pinotpy.ingest.push.job.push_segments", push_segments)
    monkeypatch.setattr("pinotpy.ingest.jobs.pushing.replaces_at_once", lambda spec: False)
    clusters = {"pinotClusterSpecs": [{"controllerURI": "http://localhost:1"}]}
    both = job(tmp_path, jobType="SegmentCreationAndTarPush", **clusters)
    assert run_job(both).error is None
    (out / "old.tar.gz").write_bytes(b"of another job")
    correct_times(folder)
    document = run_job(both).to_json_dict()
    assert (document["numOtherArchives"], document["numReplacedArchives"]) == (1, 1)
    (out / "old.tar.gz").unlink()
    only = run_job(job(tmp_path, jobType="SegmentTarPush", cleanUpOutputDir=True, **clusters))
    assert pushed[1] == pushed[2] and only.to_json_dict()["numReplacedArchives"] == 1
    assert only.others_told is not None
    left = list(archives(out))
    assert len(left) == 3 and {name.partition(".")[2] for name in left} == {
        "tar.gz",
        "tar.gz.replaced",
        "inputs.json",
    }, "lists go with their archives"
    with pytest.raises(NotFoundError, match="1 are marked as replaced"):
        find_archives(job(tmp_path, jobType="SegmentTarPush", **clusters))


def test_upload_segment_takes_neither_a_replaced_archive_nor_its_folder(tmp_path: Path) -> None:
    write_files(tmp_path / "in")
    spec = job(tmp_path, pinotpy={"keepFolders": True}, searchRecursively=False)
    run_job(spec)
    correct_times(tmp_path / "in")
    report = run_job(spec)
    assert segment_sources(str(tmp_path / "out")) == sorted(segment.uri for segment in report.segments)


def test_lists_and_marks_on_other_storages(tmp_path: Path) -> None:
    write_files(tmp_path / "in")
    root = f"memory://{tmp_path.name}"
    files = file_system_for(root)
    spec = job(tmp_path, inputDirURI=f"{root}/in", outputDirURI=f"{root}/out")
    for day in (FIRST_DAY + 1, FIRST_DAY + 30):
        write(tmp_path / "in" / "d.csv", 100, day=day)
        for path in (tmp_path / "in").rglob("*.csv"):
            files.put(f"{root}/in/{path.relative_to(tmp_path / 'in').as_posix()}", path)
        report = run_job(spec)
        assert report.error is None
    for segment in report.segments:
        (uri,) = segment.input_uris
        with files.open(segment.uri.replace(".tar.gz", ".inputs.json")) as stream:
            (listed,) = InputList.from_bytes(stream.read(), segment.uri).files
        with files.open(uri) as stream:
            data = stream.read()
        assert (listed.uri, listed.size_bytes, listed.checksum) == (
            uri,
            len(data),
            f"crc32c:{google_crc32c.value(data):08x}",
        )
    assert len(report.replaced_archive_uris) == 1
    assert set(list_archives(f"{root}/out", None).current) == {segment.uri for segment in report.segments}


def test_a_list_is_put_before_its_archive_and_not_where_the_archive_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path / "in")
    spec, out = job(tmp_path), tmp_path / "out"

    class DiesBeforeTheArchive:
        def __getattr__(self, name: str) -> Any:
            return getattr(file_system_for(str(out)), name)

        def put(self, uri: str, source: Path) -> Any:
            if uri.endswith(".tar.gz"):
                raise PinotError("the machine died")
            return file_system_for(uri).put(uri, source)

    with monkeypatch.context() as patched:
        patched.setattr(segment_output, "file_system_for", lambda uri, settings: DiesBeforeTheArchive())
        assert "died" in str(run_job(spec).error)
    assert [name.rpartition(".")[2] for name in archives(out)] == ["json"]
    assert run_job(spec).error is None and pushed_rows(out, tmp_path / "scratch") == rows_of(tmp_path / "in")
    before = archives(out)
    correct_values(tmp_path / "in")
    assert "overwriteOutput" in str(run_job(spec).error) and archives(out) == before


def test_what_jobs_write_is_no_input(tmp_path: Path) -> None:
    write_files(tmp_path / "in")
    run_job(job(tmp_path, outputDirURI=str(tmp_path / "in" / "earlier")))
    next((tmp_path / "in" / "earlier").glob("*.gz")).with_suffix(".gz.replaced").write_text("{}")
    report = run_job(job(tmp_path))
    assert report.error is None and len(report.files) == 3


def test_a_list_that_cannot_be_read_marks_nothing(tmp_path: Path) -> None:
    write_files(tmp_path / "in")
    first = run_job(job(tmp_path))
    (old,) = [segment.uri for segment in first.segments if "d.csv" in segment.input_uris[0]]
    Path(old.replace(".tar.gz", ".inputs.json")).write_text(json.dumps({"version": 99, "files": []}))
    correct_times(tmp_path / "in")
    report = run_job(job(tmp_path))
    assert report.error is None and (report.other_archive_uris, report.replaced_archive_uris) == ((old,), ())


@pytest.mark.parametrize(
    ("uri", "listed"),
    [
        ("s3://bucket/day=01/a b?.csv", "s3://bucket/day=01/a b?.csv"),
        ("s3://key:secret@bucket/a.csv", "s3://bucket/a.csv"),
        ("abfs://container@account.net/a.csv", "abfs://container@account.net/a.csv"),
        ("https://me@host/a.csv?signature=secret#x", "https://host/a.csv"),
        ("https://me:secret@host/a.csv", "https://host/a.csv"),
        ("/data/a b.csv", "file:///data/a%20b.csv"),
        ("/data//x/../a%20b.csv", "file:///data/a%2520b.csv"),
        ("file:/data/a%20b.csv", "file:///data/a%20b.csv"),
        ("file://localhost/data/a.csv", "file:///data/a.csv"),
    ],
)
def test_uris_in_lists_are_absolute_and_have_no_secrets(uri: str, listed: str) -> None:
    assert listed_uri(uri) == listed_uri(masked(uri)) == listed


def test_a_relative_uri_is_of_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert listed_uri("in/./a.csv") == f"file://{tmp_path}/in/a.csv"


def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path) -> None:
    write_files(tmp_path / "in")
    names = {"type": "normalizedDate", "configs": {"segment.name.prefix": "x" * 230}}
    report = run_job(job(tmp_path, segmentNameGeneratorSpec=names))
    assert report.error is not None and "at most 239 fit a file's name" in report.error
