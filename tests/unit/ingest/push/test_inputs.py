"""Proves what a push does to the segments that a table has, by their lists of input files: the rules are written down
here once more as tables of small cases, and a model tells of random histories of pushes that each row of each file is
in the table once.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from pinotpy.ingest.push.inputs import InputPlan, KnownFiles, LiveSegment, files_in_question, plan_inputs, shared_rows
from pinotpy.segment.input_list import InputList, SegmentInput

Files = dict[str, Any]
FOLDER = "file:///in/"


def segment(
    files: Files | None, *, crc: int = 1, times: tuple[int, int] | None = (0, 9), docs: int | None = None
) -> LiveSegment:
    """A segment of files: name → content, or (content, rows), or (content, rows, rows of the file in all segments)."""
    if files is None:
        return LiveSegment(crc, *(times or (None, None)), 10 if docs is None else docs)
    listed = []
    for name, what in files.items():
        content, rows, whole = (*what, what[-1])[:3] if isinstance(what, tuple) else (what, 10, 10)
        listed.append(SegmentInput(name if ":" in name else FOLDER + name, 100, f"crc32c:{content}", rows, whole))
    return LiveSegment(crc, *(times or (None, None)), sum(file.num_rows for file in listed), InputList.of(listed))


def plan(pushed: dict[str, LiveSegment], live: dict[str, LiveSegment], **known: Any) -> InputPlan:
    adopts = known.pop("adopts", False)
    exists = {FOLDER + name: there for name, there in known.pop("exists", {}).items()}
    return plan_inputs(pushed, live, KnownFiles(exists, **known), adopts=adopts)


def found(result: InputPlan) -> dict[str, Any]:
    """What is not empty, names for segments."""
    plain = {
        "replaced": list(result.replaced),
        "twice": {each.segment: each.num_rows for each in result.twice},
        "versions": {each.segment: each.num_rows for each in result.versions},
        "lost": {each.segment: each.num_rows for each in result.lost},
        "unknown": list(result.unknown),
        "listed": dict(result.listed),
        "adopted": sorted(result.adopted),
        "alike": list(result.alike),
        "kept": list(result.kept),
    }
    return {key: value for key, value in plain.items() if value}


A, B, C = {"a": "1"}, {"b": "2"}, {"c": "3"}
# pushed, live, what is known of files, what becomes of it
CASES: dict[str, tuple[dict[str, LiveSegment], dict[str, LiveSegment], Files, Files]] = {
    "nothing is there": ({"s_a": segment(A)}, {}, {}, {}),
    "the same again": ({"s_a": segment(A)}, {"s_a": segment(A)}, {}, {}),
    "a file more": ({"s_a": segment(A), "s_b": segment(B)}, {"s_a": segment(A)}, {}, {}),
    "another file's segment stays": ({"s_b": segment(B)}, {"s_a": segment(A)}, {}, {"kept": ["s_a"]}),
    "a corrected file refreshes its segment": ({"s_a": segment({"a": "x"}, crc=2)}, {"s_a": segment(A)}, {}, {}),
    "a corrected file of another time range replaces it": (
        {"s_a_2": segment({"a": "x"})},
        {"s_a_1": segment(A)},
        {},
        {"replaced": ["s_a_1"]},
    ),
    "equal rows under another name replace it": ({"n_a": segment(A)}, {"s_a": segment(A)}, {}, {"replaced": ["s_a"]}),
    "one of two files of a segment": ({"s_a": segment(A)}, {"s_ab": segment({**A, **B})}, {}, {"twice": {"s_ab": 10}}),
    "both of them": ({"s_a": segment(A), "s_b": segment(B)}, {"s_ab": segment({**A, **B})}, {}, {"replaced": ["s_ab"]}),
    "a file without rows in a segment is none of it": (
        {"s_a": segment(A)},
        {"s_ab": segment({**A, "b": ("2", 0)})},
        {},
        {"replaced": ["s_ab"]},
    ),
    "a file that has no row any more": (
        {"s_a": segment({"a": ("x", 0)}, docs=0)},
        {"o": segment(A)},
        {},
        {"replaced": ["o"]},
    ),
    # Names that tell places in a list: x_0 was a, and is z now.
    "names that move on": (
        {"x_0": segment({"0": "z"}, crc=5), "x_1": segment(A, crc=6)},
        {"x_0": segment(A, crc=1)},
        {},
        {},
    ),
    "a name that another file has": (
        {"x_0": segment({"0": "z"}, crc=5)},
        {"x_0": segment(A, crc=1)},
        {},
        {"lost": {"x_0": 10}},
    ),
    # Moved and renamed.
    "moved": ({"s_n": segment({"n": "1"})}, {"s_a": segment(A)}, {"exists": {"a": False}}, {"replaced": ["s_a"]}),
    "copied": ({"s_n": segment({"n": "1"})}, {"s_a": segment(A)}, {"exists": {"a": True}}, {"twice": {"s_a": 10}}),
    "moved or copied": (
        {"s_n": segment({"n": "1"})},
        {"s_a": segment(A)},
        {"exists": {"a": None}},
        {"twice": {"s_a": 10}},
    ),
    "a copy that comes with its original": (
        {"s_a": segment(A), "s_n": segment({"n": "1"})},
        {"s_a": segment(A)},
        {"exists": {"a": True}},
        {},
    ),
    "a copy that the table has already": (
        {"s_n": segment({"n": "1"})},
        {"s_a": segment(A), "s_n": segment({"n": "1"})},
        {"exists": {"a": True}},
        {"kept": ["s_a"]},
    ),
    "the folder has moved": (
        {"s": segment({"new:/a": "1"})},
        {"s": segment(A)},
        {"exists": {"a": False}},
        {"listed": {"s": "s"}},
    ),
    "the folder has moved, or so it seems": (
        {"s": segment({"new:/a": "1"})},
        {"s": segment(A)},
        {"exists": {"a": None}},
        {"listed": {"s": "s"}},
    ),
    "two folders with equal files": (
        {"s": segment({"new:/a": "1"})},
        {"s": segment(A)},
        {"exists": {"a": True}},
        {"lost": {"s": 10}},
    ),
    "moved and corrected is another file": (
        {"s": segment({"new:/a": "x"}, crc=2)},
        {"s": segment(A)},
        {"exists": {"a": False}},
        {"lost": {"s": 10}},
    ),
    "unknown bytes are never a copy": (
        {"s_n": LiveSegment(1, 0, 9, 5, InputList.of([SegmentInput("file:///in/n", 7, "", 5)]))},
        {"o": LiveSegment(1, 0, 9, 5, InputList.of([SegmentInput("file:///in/a", 7, "", 5)]))},
        {"exists": {"a": True}},
        {"kept": ["o"]},
    ),
    "one of two equal files moved, the other is gone": (
        {"s_n": segment({"n": "1"}, times=(1, 2))},
        {"s_a": segment(A), "s_b": segment({"b": "1"})},
        {"exists": {"a": False, "b": False}},
        {"replaced": ["s_a"], "kept": ["s_b"]},
    ),
    "a copy moved, its original stays": (
        {"s_n": segment({"n": "1"})},
        {"s_a": segment(A), "s_b": segment({"b": "1"})},
        {"exists": {"a": True, "b": False}},
        {"replaced": ["s_b"], "kept": ["s_a"]},
    ),
    "renamed and packed": (
        {"s_n": segment({"a.gz": "x"})},
        {"s_a": segment(A)},
        {"exists": {"a": False}},
        {"alike": ["s_a"]},
    ),
    "gone, and one of other times comes": (
        {"s_n": segment(B, times=(10, 19))},
        {"s_a": segment(A)},
        {"exists": {"a": False}},
        {"kept": ["s_a"]},
    ),
    "gone, and one without times comes": (
        {"s_n": segment(B, times=None)},
        {"s_a": segment(A, times=None)},
        {"exists": {"a": False}},
        {"kept": ["s_a"]},
    ),
    "emptied": (
        {"s_b": segment(B)},
        {"s_a": segment(A), "s_b": segment(B)},
        {"empty": [FOLDER + "a"], "exists": {"a": True}},
        {"replaced": ["s_a"]},
    ),
    "emptied, beside another": (
        {"s_b": segment(B)},
        {"s_ab": segment({**A, **B})},
        {"empty": [FOLDER + "a"]},
        {"replaced": ["s_ab"]},
    ),
    # Files whose rows are in several segments.
    "all segments of a file": (
        {"d1": segment({"a": ("x", 6, 10)}, crc=2), "d9": segment({"a": ("x", 4, 10)})},
        {"d1": segment({"a": ("1", 5, 10)}), "d2": segment({"a": ("1", 5, 10)})},
        {},
        {"replaced": ["d2"]},
    ),
    "one of them alone": (
        {"d9": segment({"a": ("x", 4, 10)})},
        {"d2": segment({"a": ("1", 5, 10)})},
        {},
        {"twice": {"d2": 5}},
    ),
    "one of them alone, and its neighbour there": (
        {"d1": segment({"a": ("1", 5, 10)})},
        {"d2": segment({"a": ("1", 5, 10)})},
        {},
        {"twice": {"d2": 5}},
    ),
    "one of them alone, its own name": (
        {"d2": segment({"a": ("x", 4, 10)}, crc=2)},
        {"d2": segment({"a": ("1", 5, 10)})},
        {},
        {},
    ),
    "an unknown number of rows": ({"n": segment({"a": ("1", 10, -1)})}, {"o": segment(A)}, {}, {"twice": {"o": 10}}),
    "an unknown number of rows, but a whole job": (
        {"n": segment({"a": ("1", 10, -1)})},
        {"o": segment(A)},
        {"are_whole": True},
        {"replaced": ["o"]},
    ),
    "two versions of a file": (
        {"n": segment({"a": ("x", 4, 14)}), "o": segment({"a": ("1", 10, 14)})},
        {},
        {},
        {"versions": {"o": 10}},
    ),
    # REFRESH.
    "gone from the folder": (
        {"s_b": segment(B)},
        {"s_a": segment(A)},
        {"refreshed_folder": FOLDER, "exists": {"a": False}},
        {"replaced": ["s_a"]},
    ),
    "left out by the job": (
        {"s_b": segment(B)},
        {"s_a": segment(A)},
        {"refreshed_folder": FOLDER, "exists": {"a": True}},
        {"kept": ["s_a"]},
    ),
    "of another folder": (
        {"s_b": segment(B, times=(10, 19))},
        {"s_a": segment(A)},
        {"refreshed_folder": "file:///other/", "exists": {"a": False}},
        {"kept": ["s_a"]},
    ),
    "gone, and its name is another file's": (
        {"x_0": segment(B, crc=2)},
        {"x_0": segment(A)},
        {"refreshed_folder": FOLDER, "exists": {"a": False}},
        {},
    ),
    # Segments from before the lists.
    "the same name and CRC": ({"s": segment(A)}, {"s": segment(None)}, {}, {"listed": {"s": "s"}}),
    "the same name": ({"s": segment(A, crc=2)}, {"s": segment(None)}, {}, {}),
    "other times": ({"s": segment(A, times=(10, 19))}, {"o": segment(None)}, {}, {}),
    "times that overlap": ({"s": segment(A, times=(9, 19))}, {"o": segment(None)}, {}, {"unknown": ["o"]}),
    "no times": ({"s": segment(A, times=None)}, {"o": segment(None)}, {}, {"unknown": ["o"]}),
    "no times there": ({"s": segment(A)}, {"o": segment(None, times=None)}, {}, {"unknown": ["o"]}),
    "no rows there": ({"s": segment(A)}, {"o": segment(None, docs=0)}, {}, {}),
    "between two of the push": (
        {"s": segment(A, times=(0, 9)), "t": segment(B, times=(20, 29))},
        {"o": segment(None, times=(10, 19)), "p": segment(None, times=(15, 20))},
        {},
        {"unknown": ["p"]},
    ),
    "nothing new comes": ({"s": segment(A)}, {"s": segment(A), "o": segment(None)}, {}, {}),
    "adopted": ({"n": segment(A)}, {"o": segment(None)}, {"adopts": True}, {"listed": {"o": "n"}, "adopted": ["n"]}),
    "adopted, other rows": ({"n": segment(A)}, {"o": segment(None, docs=11)}, {"adopts": True}, {"unknown": ["o"]}),
    "adopted, two of them": (
        {"n": segment(A), "m": segment(B)},
        {"o": segment(None)},
        {"adopts": True},
        {"unknown": ["o"]},
    ),
    "a push without lists": ({"s": segment(None)}, {"o": segment(A), "p": segment(None)}, {}, {}),
}


@pytest.mark.parametrize("case", CASES)
def test_what_becomes_of_live_segments(case: str) -> None:
    pushed, live, known, expected = CASES[case]
    assert found(plan(pushed, live, **known)) == expected


def test_what_is_in_question_is_what_may_have_moved_or_gone() -> None:
    live = {"s": segment({**A, **B}), "t": segment({"other:/d": "4"}, times=(1, 2))}
    assert files_in_question({"n": segment({"n": "1"})}, live) == {FOLDER + "a"}
    assert files_in_question({"n": segment({"n": "5"})}, live, FOLDER) == {FOLDER + "a", FOLDER + "b"}
    assert files_in_question({"n": segment({**A, **B})}, live, FOLDER) == set()


def test_the_second_look_sees_what_others_added() -> None:
    (overlap,) = shared_rows({"n": segment(A)}, {"n": segment(A), "o": segment({**A, **B}), "p": segment(C)})
    assert (overlap.segment, overlap.num_rows) == ("o", 10)


@pytest.mark.parametrize("seed", range(200))
def test_after_every_push_of_a_whole_folder_each_row_is_there_once(seed: int) -> None:
    """Files come, go, are corrected, renamed and regrouped at random; each push is a job over what is there. A table
    that took it shows each row of the folder once, beside what earlier files left whose names are gone; a refusal
    changes nothing.
    """
    chance = random.Random(seed)
    files: dict[str, str] = {}
    live: dict[str, LiveSegment] = {}
    num_done = 0
    for step in range(8):
        for _ in range(chance.randint(1, 3)):
            name = f"f{chance.randint(0, 5)}"
            match chance.choice(("add", "add", "correct", "remove", "rename")):
                case "add" if name not in files:
                    files[name] = f"{seed}-{step}-{name}"
                case "correct" if name in files:
                    files[name] += "x"
                case "remove":
                    files.pop(name, None)
                case "rename" if name in files:
                    files[f"r{step}{name}"] = files.pop(name)
        if not files:
            continue
        # Named after the file and its time range, or cut across files: names tell the group and its content's number
        # alone.
        pushed = _built(files, chance)
        exists = {uri: uri.removeprefix(FOLDER) in files for uri in files_in_question(pushed, live)}
        decided = plan_inputs(pushed, live, KnownFiles(exists, are_whole=True))
        if decided.twice or decided.lost or decided.unknown:
            continue
        num_done += 1
        before = _rows(live)
        live = {name: each for name, each in live.items() if name not in decided.replaced} | pushed
        after = _rows(live)
        for name, content in files.items():
            assert {key: rows for key, rows in after.items() if key[0] == FOLDER + name} == {
                (FOLDER + name, f"crc32c:{content}"): 10
            }, name
        moved = {f"crc32c:{content}" for content in files.values()}
        for (uri, checksum), rows in before.items():
            if uri.removeprefix(FOLDER) not in files and checksum not in moved:
                assert after[uri, checksum] == rows, (
                    f"{uri} is in the folder no more, and its rows stay in a table that is appended to"
                )
    assert num_done or not files


def _rows(table: dict[str, LiveSegment]) -> Counter[tuple[str, str]]:
    rows: Counter[tuple[str, str]] = Counter()
    for each in table.values():
        for file in each.files:
            rows[file.uri, file.checksum] += file.num_rows
    return rows


def _built(files: dict[str, str], chance: random.Random) -> dict[str, LiveSegment]:
    if chance.random() < 0.6:
        return {
            f"s_{hash_of(content)}_{name}": segment({name: content}, crc=hash_of(content))
            for name, content in files.items()
        }
    cuts = chance.randint(1, 3)
    built: dict[str, Files] = {}
    for name, content in files.items():
        at = chance.randrange(cuts)
        for cut, rows in ((at, 6), ((at + 1) % cuts, 4)):
            group = built.setdefault(f"g_{cut}", {})
            group[name] = (content, rows + (group[name][1] if name in group else 0), -1)
    return {name: replace(segment(group), crc=hash_of(str(sorted(group.items())))) for name, group in built.items()}


def hash_of(text: str) -> int:
    return sum(ord(character) * (place + 1) for place, character in enumerate(text)) % 7
