"""Proves that a push brings the rows of each input file once, against a real controller over HTTP: what it replaces,
what it refuses and says, how segments from before get their lists, and that of two pushes of the same files at once one
at most adds them, also when one is killed in between and made again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from controller_harness import Harness, build_parts_segment, start_harness
from input_lists import list_of, write_list

from pinotpy.errors import AlreadyExistsError
from pinotpy.ingest.push import push as pushes
from pinotpy.ingest.push.push import push
from pinotpy.ingest.push.report import PushReport
from pinotpy.ingest.push.settings import PushSettings, ReplaceScope
from pinotpy.segment.input_list import InputList


@dataclass
class Table:
    """Table `parts`, and files that segments of three rows are built of: `build` gives the archive of one."""

    harness: Harness
    folder: Path

    def file(self, name: str, text: str = "") -> Path:
        place = self.folder / "in" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text or name)
        return place

    def build(self, name: str, *files: Path, day: int = 18_000, rows: int = 3) -> str:
        archive = build_parts_segment(self.folder / "built", name, amounts=range(rows), first_day=day)
        target = self.folder / "output" / f"{name}.tar.gz"
        target.parent.mkdir(exist_ok=True)
        archive.rename(target)
        if files:
            write_list(target, list_of(*files, rows=rows // len(files)))
        return str(target)

    def push(self, *archives: str, **changes: Any) -> PushReport:
        return push(
            PushSettings(
                **{
                    "table": "parts",
                    "controllers": (self.harness.server.url,),
                    "retry_wait_ms": 1,
                    "parallelism": 2,
                    **changes,
                }
            ),
            archives,
        )

    def visible(self) -> list[str]:
        """Segments that queries see."""
        return list(self.harness.http.get("/segments/parts?excludeReplacedSegments=true").json()[0]["OFFLINE"])

    def files_of(self, segment: str) -> list[str]:
        answer = self.harness.http.get(f"/segments/parts/{segment}/inputs")
        return (
            [file.uri.rpartition("/in/")[2] for file in InputList.from_bytes(answer.content, segment).files]
            if answer.status_code == 200
            else []
        )


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Table]:
    harness = start_harness(tmp_path / "controller", settings={"replace_wait_ms": 200})
    harness.add_parts()
    ended = Event()

    def serve() -> None:
        """Servers load what they should hold."""
        while not ended.wait(0.02):
            harness.settle()

    servers = Thread(target=serve)
    servers.start()
    yield Table(harness, tmp_path)
    ended.set()
    servers.join()
    harness.close()


def numbers(report: PushReport) -> dict[str, Any]:
    """What the report's JSON tells that is not zero."""
    (cluster,) = report.to_json()["clusters"]
    assert not report.has_failed, report.causes()
    told = {key: cluster[key] for key in cluster if key.startswith(("segments", "rows")) and key != "segments"}
    return {key: value for key, value in told.items() if value}


def test_a_corrected_file_of_another_name_replaces_its_segment(table: Table) -> None:
    files = [table.file(f"f{number}") for number in range(3)]
    archives = [table.build(f"p_{number}", file, day=18_000 + number) for number, file in enumerate(files)]
    assert numbers(table.push(*archives)) == {"segmentsPushed": 3}
    corrected = table.build("p_1_later", table.file("f1", "corrected"), day=18_100)
    report = table.push(archives[0], corrected, archives[2])
    assert numbers(report) == {"segmentsPushed": 1, "segmentsPresent": 2, "segmentsReplaced": 1}
    assert (table.visible(), table.files_of("p_1_later")) == (["p_0", "p_1_later", "p_2"], ["f1"])
    assert numbers(table.push(archives[0], corrected, archives[2])) == {"segmentsPresent": 3}


def test_a_file_of_a_segment_with_others_is_refused_before_anything_is_sent(table: Table) -> None:
    a, b = table.file("a"), table.file("b")
    table.push(table.build("both", a, b, rows=4))
    one = table.build("one", a)
    with pytest.raises(AlreadyExistsError) as refused:
        table.push(one)
    for part in (
        "nothing is pushed to table 'parts': 2 rows would be there twice",
        "segment both",
        "/in/a'",
        "--allow-duplicates",
        "--replace-table",
    ):
        assert part in refused.value.message
    assert table.visible() == ["both"]
    assert numbers(table.push(one, allows_duplicates=True)) == {"segmentsPushed": 1, "rowsTwice": 2}
    assert table.visible() == ["both", "one"]


def test_duplicates_that_are_allowed_replace_nothing(table: Table) -> None:
    a = table.file("a")
    table.push(table.build("first", a))
    assert numbers(table.push(table.build("second", a), allows_duplicates=True)) == {
        "segmentsPushed": 1,
        "rowsTwice": 3,
    }
    assert table.visible() == ["first", "second"]


def test_rows_of_another_file_under_the_same_name_are_not_lost(table: Table) -> None:
    table.push(table.build("p_0", table.file("a")))
    with pytest.raises(AlreadyExistsError, match=r"3 rows would be lost: .*segment p_0 \(of 'file:.*/in/a'\)"):
        table.push(table.build("p_0", table.file("b"), rows=4), allows_duplicates=True)
    assert table.files_of("p_0") == ["a"]


def test_moved_files_are_known_by_their_bytes(table: Table) -> None:
    old = table.file("day1/a", "text")
    table.push(table.build("p_a", old))
    moved = table.file("day2/a", "text")
    archive = table.build("p_b", moved)
    with pytest.raises(AlreadyExistsError, match="3 rows would be there twice"):
        table.push(archive)
    old.unlink()
    assert numbers(table.push(archive)) == {"segmentsPushed": 1, "segmentsReplaced": 1}
    assert (table.visible(), table.files_of("p_b")) == (["p_b"], ["day2/a"])
    # The whole folder has moved: the names are the same, and the same bytes are not sent again.
    moved.unlink()
    archive = table.build("p_b", table.file("day3/a", "text"))
    assert numbers(table.push(archive)) == {"segmentsPresent": 1, "segmentsAdopted": 1}
    assert table.files_of("p_b") == ["day3/a"]


def test_a_refreshed_table_loses_the_rows_of_files_that_are_gone_from_its_folder(table: Table) -> None:
    config = table.harness.http.get("/tables/parts").json()["OFFLINE"]
    config["segmentsConfig"]["segmentPushType"] = "REFRESH"
    assert table.harness.http.put("/tables/parts", json=config).status_code == 200
    a, b, other = table.file("a"), table.file("b"), table.file("c")
    table.push(*(table.build(f"p_{file.name}", file) for file in (a, b, other)))
    a.unlink()
    archive, folder = table.build("p_b", b), f"file://{b.parent}/"
    assert numbers(table.push(archive)) == {"segmentsPresent": 1, "segmentsOfOtherFiles": 2}
    assert numbers(table.push(archive, input_folder=folder)) == {
        "segmentsPresent": 1,
        "segmentsReplaced": 1,
        "segmentsOfOtherFiles": 1,
    }
    assert table.visible() == ["p_b", "p_c"]


def test_the_folder_of_an_appended_table_says_nothing(table: Table) -> None:
    a, b = table.file("a"), table.file("b")
    table.push(table.build("p_a", a))
    a.unlink()
    with pytest.raises(
        AlreadyExistsError,
        match=r"1 segments of files that are gone have the time range .*segment p_a; if the files were renamed",
    ):
        table.push(table.build("p_b", b))
    report = table.push(table.build("p_c", b, day=18_030), input_folder=f"file://{b.parent}/")
    assert numbers(report) == {"segmentsPushed": 1, "segmentsOfOtherFiles": 1}


def test_what_the_table_has_of_a_file_that_has_no_row_any_more_goes(table: Table) -> None:
    a, b = table.file("a"), table.file("b")
    kept = table.build("p_b", b)
    table.push(table.build("p_a", a), kept)
    assert numbers(table.push(kept, empty_files=(f"file://{a}",))) == {"segmentsPresent": 1, "segmentsReplaced": 1}
    assert table.visible() == ["p_b"]


def test_segments_from_before_are_adopted_or_stop_the_push(table: Table) -> None:
    old = [table.build(f"x_{number}", day=18_000 + 10 * number) for number in range(2)]
    assert numbers(table.push(*old)) == {"segmentsPushed": 2, "segmentsWithoutInputs": 2}
    a, b = table.file("a"), table.file("b")
    new = [
        table.build("p_a", a, day=18_000),
        table.build("p_b", b, day=18_010),
        table.build("p_c", table.file("c"), day=18_020),
    ]
    with pytest.raises(
        AlreadyExistsError,
        match=r"2 segments of the table have no list of their input files .*segments x_0, x_1.*--adopt",
    ):
        table.push(*new)
    assert numbers(table.push(new[2])) == {"segmentsPushed": 1}, "other times, other rows"
    assert numbers(table.push(*new, adopts=True)) == {"segmentsPresent": 3, "segmentsAdopted": 2}
    assert (table.visible(), table.files_of("x_0"), table.files_of("x_1")) == (["p_c", "x_0", "x_1"], ["a"], ["b"])
    # From now on they are as any other: the next job puts its names in their places.
    assert numbers(table.push(*new)) == {"segmentsPushed": 2, "segmentsPresent": 1, "segmentsReplaced": 2}
    assert table.visible() == ["p_a", "p_b", "p_c"]


def test_what_may_be_there_twice_is_said(table: Table) -> None:
    table.push(table.build("x_0"))
    report = table.push(table.build("p_a", table.file("a")), allows_duplicates=True)
    assert numbers(report) == {"segmentsPushed": 1, "segmentsPerhapsTwice": 1}
    assert report.clusters[0].inputs.told == "1 segments without a list of their input files may have the same rows"


def test_the_same_name_and_content_get_the_list_without_being_sent(table: Table) -> None:
    archive = table.build("p_a")
    table.push(archive)
    write_list(Path(archive), list_of(table.file("a")))
    assert numbers(table.push(archive)) == {"segmentsPresent": 1, "segmentsAdopted": 1}
    assert table.files_of("p_a") == ["a"]
    assert numbers(table.push(archive)) == {"segmentsPresent": 1}


def test_a_range_of_times_takes_along_what_its_files_left_outside(table: Table) -> None:
    day_ms = 86_400_000
    table.push(table.build("p_old", table.file("a"), day=18_000))
    archive = table.build("p_new", table.file("a", "corrected"), day=18_100)
    report = table.push(archive, replace=ReplaceScope(18_100 * day_ms, 18_110 * day_ms))
    assert numbers(report) == {"segmentsPushed": 1, "segmentsReplaced": 1}
    assert table.visible() == ["p_new"]


# --- broken off, and at once ------------------------------------------------------------------------------------------


class Killed(BaseException):
    """What ends a push between two steps, with nobody to clean up."""


@pytest.mark.parametrize("step", ["start_or_resume", "send_all", "_wait_online", "_end", "came_meanwhile"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_push_killed_at_any_step_and_made_again_has_every_row_once(
    table: Table, monkeypatch: pytest.MonkeyPatch, step: str, after: bool
) -> None:
    files = [table.file(f"f{number}") for number in range(3)]
    table.push(*(table.build(f"p_{number}", file, day=18_000 + number) for number, file in enumerate(files)))
    archives = [
        table.build("p_0", files[0], day=18_000),
        table.build("p_1_later", table.file("f1", "corrected"), day=18_100),
        table.build("p_2", table.file("f2", "corrected, too"), day=18_002, rows=4),
        table.build("p_3", table.file("f3"), day=18_003),
    ]
    with monkeypatch.context() as patched:
        done: Callable[..., Any] = getattr(pushes, step)

        def killed(*args: Any, **kwargs: Any) -> Any:
            if after:
                done(*args, **kwargs)
            raise Killed

        patched.setattr(pushes, step, killed)
        # A killed process reverts nothing.
        patched.setattr(pushes, "_give_up", lambda *_: None)
        with pytest.raises(Killed):
            table.push(*archives)
    report = table.push(*archives)
    assert not report.has_failed, report.causes()
    assert table.visible() == ["p_0", "p_1_later", "p_2", "p_3"]
    docs = {
        name: record["segment.total.docs"]
        for name, record in table.harness.http.get("/segments/parts/zkmetadata").json().items()
    }
    assert [docs[name] for name in table.visible()] == ["3", "3", "4", "3"]


def at_once(
    table: Table, monkeypatch: pytest.MonkeyPatch, first: list[str], second: list[str]
) -> list[PushReport | AlreadyExistsError]:
    """Two pushes that both have looked before either sends."""
    looked, looks = [Event(), Event()], iter(range(2))
    done = pushes.look

    def look(*args: Any) -> Any:
        found, number = done(*args), next(looks)
        looked[number].set()
        assert looked[1 - number].wait(60)
        return found

    def one(archives: list[str]) -> PushReport | AlreadyExistsError:
        try:
            return table.push(*archives)
        except AlreadyExistsError as error:
            return error

    with monkeypatch.context() as patched, ThreadPoolExecutor(2) as pool:
        patched.setattr(pushes, "look", look)
        return list(pool.map(one, (first, second)))


@pytest.mark.parametrize("is_corrected", [False, True], ids=["new", "corrected"])
@pytest.mark.parametrize("round_", range(3))
def test_of_two_pushes_of_one_file_at_once_one_at_most_adds_its_rows(
    table: Table, monkeypatch: pytest.MonkeyPatch, is_corrected: bool, round_: int
) -> None:
    a = table.file("a")
    if is_corrected:
        table.push(table.build("old", a))
    one, two = table.build("one", a), table.build("two", a)
    reports = at_once(table, monkeypatch, [one], [two])
    visible = table.visible()
    assert visible in ([["one"], ["two"], ["old"]] if is_corrected else [["one"], ["two"], []]), reports
    failed = [report for report in reports if isinstance(report, AlreadyExistsError) or report.has_failed]
    assert len(failed) == 2 - (visible in (["one"], ["two"])), "who did not add them says so"
    # Whatever became of them: the push that is made again ends with its rows, once.
    assert not table.push(one).has_failed
    assert table.visible() == ["one"]


def test_the_same_push_twice_at_once_is_one(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    archives = [table.build(f"p_{number}", table.file(f"f{number}")) for number in range(3)]
    reports = at_once(table, monkeypatch, archives, archives)
    assert [report for report in reports if isinstance(report, AlreadyExistsError)] == []
    assert table.visible() == ["p_0", "p_1", "p_2"]
    assert not table.push(*archives).has_failed
