"""Proves reload: indexes that a config asks for are built from the segment itself, others are put away and come back;
answers stay; old readers go on; a crash at any step leaves a segment that opens; the segment's CRC and archive identity
do not change.
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from built_segments import ask, batch_of, build, config_of, count, schema_of

from pinotpy.config.table import TableConfig
from pinotpy.errors import DataError, NotFoundError, SegmentCorruptError
from pinotpy.segment import layout
from pinotpy.segment import reload as reload_room
from pinotpy.segment.build.builder import build_segment
from pinotpy.segment.build.column_indexes import INDEX_FORMS, form_among
from pinotpy.segment.build.indexing import resolve_indexing
from pinotpy.segment.directory.directory import SegmentDirectory
from pinotpy.segment.directory.file_directory import FileDirectory
from pinotpy.segment.directory.memory_directory import MemoryDirectory
from pinotpy.segment.immutable import ImmutableSegment, load_segment, open_segment, scrub
from pinotpy.segment.reload import ReloadPlan, needs_rebuild, plan_reload, reload_segment

TYPES = {"city": "STRING", "n": "INT", "cost": "DOUBLE", "raw": "STRING", "tags": "INT", "doc": "JSON", "up": "LONG"}
SCHEMA = schema_of(TYPES, multi=["tags"])
RNG = random.Random(3)
ROWS: dict[str, list[Any]] = {
    "city": [RNG.choice(["rome", "oslo", "bern", "paris"]) for _ in range(900)],
    "n": [RNG.randrange(500) for _ in range(900)],
    "cost": [RNG.random() for _ in range(900)],
    "raw": [f"word{RNG.randrange(60)} other" for _ in range(900)],
    "tags": [[RNG.randrange(30) for _ in range(RNG.randint(1, 4))] for _ in range(900)],
    "doc": [f'{{"k": {RNG.randrange(9)}}}' for _ in range(900)],
    "up": list(range(900)),
}
RAW: dict[str, Any] = {"noDictionaryColumns": ["cost", "raw"], "noDictionaryConfig": {"doc": "ZSTANDARD"}}
PLAIN = config_of(RAW)
EVERYTHING = config_of(
    RAW
    | {
        "invertedIndexColumns": ["city", "tags", "up"],
        "rangeIndexColumns": ["n", "cost", "tags"],
        "jsonIndexColumns": ["doc"],
        "bloomFilterColumns": [*TYPES],
    },
    fieldConfigList=[
        {"name": "raw", "encodingType": "RAW", "indexType": "TEXT"},
        {"name": "city", "indexTypes": ["TEXT"]},
    ],
)
QUESTIONS = [
    "city = 'rome'",
    "city IN ('oslo', 'bern') AND n < 20",
    "NOT tags = 7 AND cost > 0.9",
    "tags = 3 OR city = 'rome'",
    "cost BETWEEN 0.1 AND 0.11",
    "raw = 'word3 other'",
    "JSON_MATCH(doc, '\"$.k\" > 6')",
    "up BETWEEN 17 AND 30",
    "n = 1000",
]


def indexes(segment: ImmutableSegment) -> set[str]:
    """`column.index` of every index that a reader sees."""
    found = set()
    for column in segment.metadata.columns:
        kinds = {entry.kind for entry in column.buffers}
        found |= {f"{column.name}.{name}" for name in INDEX_FORMS if form_among(kinds, name)}
    return found


def reloaded(directory: SegmentDirectory, config: TableConfig, *, drop: bool = True) -> ImmutableSegment:
    segment = open_segment(directory)
    indexing = resolve_indexing(SCHEMA, config)
    plan = plan_reload(segment, SCHEMA, indexing, drop=drop)
    if not plan.is_empty:
        reload_segment(segment, plan, indexing)
    return open_segment(directory)


def answers(segment: ImmutableSegment) -> list[int]:
    return [count(SCHEMA, [segment], question) for question in QUESTIONS]


EXPECTED_ALL = {
    "city.inverted", "tags.inverted", "n.range", "cost.range", "tags.range", "doc.json", "raw.text", "city.text",
    *(f"{name}.bloom" for name in TYPES),
}  # fmt: skip


def on_disk(tmp_path: Path, config: TableConfig = PLAIN) -> FileDirectory:
    build_segment(SCHEMA, config, [batch_of(SCHEMA, ROWS)], tmp_path, "s0")
    return FileDirectory(tmp_path / "s0")


def test_a_reload_builds_what_a_build_with_the_config_would_have_built(tmp_path: Path) -> None:
    directory = on_disk(tmp_path)
    before = open_segment(directory)
    expected, crc = answers(before), before.crc
    after = reloaded(directory, EVERYTHING)
    assert indexes(before) == set() and indexes(after) == EXPECTED_ALL and after.crc == crc
    assert [name for name, _ in after.metadata.files] == ["columns", "columns.1"]
    built = open_segment(build(SCHEMA, EVERYTHING, ROWS))
    for name in TYPES:
        for kind in {kind for forms in INDEX_FORMS.values() for form in forms for kind in form}:
            mine, theirs = after.column(name)._buffers, built.column(name)._buffers
            assert (kind in mine) == (kind in theirs)
            assert kind not in mine or mine.view(kind, "u1").tobytes() == theirs.view(kind, "u1").tobytes(), (
                name,
                kind,
            )
    assert answers(after) == expected == answers(before), "those who have it open keep what they have"
    assert count(SCHEMA, [after], "TEXT_MATCH(raw, 'word3')") == sum(text.startswith("word3 ") for text in ROWS["raw"])
    assert (
        ask(
            SCHEMA, [after], "SELECT COUNT(*) FROM t WHERE raw = 'nothing'"
        ).statistics.num_segments_pruned_by_bloom_filter
        == 1
    )
    scrub(after)
    scrub(before)
    with load_segment(tmp_path / "s0", verify=False) as again:
        assert indexes(again) == EXPECTED_ALL


def test_what_is_not_wanted_goes_and_comes_back_without_work() -> None:
    directory = build(SCHEMA, EVERYTHING, ROWS)
    expected = answers(open_segment(directory))
    without = reloaded(directory, PLAIN)
    assert indexes(without) == set() and answers(without) == expected
    assert [name for name, _ in without.metadata.files] == ["columns"], "nothing was written"
    again = reloaded(directory, EVERYTHING)
    assert indexes(again) == EXPECTED_ALL and answers(again) == expected
    assert [name for name, _ in again.metadata.files] == ["columns"], "nothing was written again"
    third = reloaded(directory, PLAIN)
    assert indexes(third) == set() and third.crc == without.crc


def test_a_load_adds_and_takes_nothing_away() -> None:
    directory = build(SCHEMA, config_of(RAW | {"bloomFilterColumns": ["city"]}), ROWS)
    assert indexes(reloaded(directory, config_of(RAW | {"invertedIndexColumns": ["city"]}), drop=False)) == {
        "city.bloom",
        "city.inverted",
    }


BLOOM = RAW | {"bloomFilterConfigs": {"city": {"fpp": 0.05}}}
JSON = RAW | {"jsonIndexConfigs": {"doc": {"maxLevels": -1}}}


@pytest.mark.parametrize(
    ("before", "after", "index", "kind"),
    [
        (BLOOM, BLOOM | {"bloomFilterConfigs": {"city": {"fpp": 0.0001}}}, "city.bloom", "bloom"),
        (BLOOM, BLOOM | {"bloomFilterConfigs": {"city": {"fpp": 0.05, "maxSizeInBytes": 64}}}, "city.bloom", "bloom"),
        (JSON, JSON | {"jsonIndexConfigs": {"doc": {"maxLevels": 1}}}, "doc.json", "json.terms"),
        (JSON, JSON | {"jsonIndexConfigs": {"doc": {"excludeFields": ["k"]}}}, "doc.json", "json.terms"),
    ],
)
def test_an_index_with_other_settings_is_built_anew(before: Any, after: Any, index: str, kind: str) -> None:
    directory = build(SCHEMA, config_of(before), ROWS)
    name = index.split(".", maxsplit=1)[0]

    def entry(segment: ImmutableSegment) -> Any:
        found = segment.metadata.column(name)
        assert found is not None
        return found.buffer(kind)

    first = open_segment(directory)
    assert len(reloaded(directory, config_of(before)).metadata.files) == 1, "equal settings ask for nothing"
    assert entry(reloaded(directory, config_of(after), drop=False)) == entry(first), "a load leaves it as it is"
    second = reloaded(directory, config_of(after))
    built = open_segment(build(SCHEMA, config_of(after), ROWS))
    assert indexes(second) == {index} and len(second.metadata.files) == 2
    mine, theirs = entry(second), entry(built)
    assert (mine.settings, mine.crc, mine.size_bytes) == (
        theirs.settings,
        theirs.crc,
        theirs.size_bytes,
    ) and mine.settings != entry(first).settings
    back = reloaded(directory, config_of(before))
    assert (entry(back).offset, entry(back).settings, len(back.metadata.files)) == (
        entry(first).offset,
        entry(first).settings,
        2,
    ), "the first one comes back"
    assert answers(back) == answers(first)


def test_an_index_of_a_release_that_recorded_no_settings_is_built_anew_once() -> None:
    directory = build(SCHEMA, config_of(BLOOM), ROWS)
    segment = open_segment(directory)
    forgotten = [
        replace(column, buffers=tuple(replace(b, settings="") for b in column.buffers))
        for column in segment.metadata.columns
    ]
    draft = directory.amend()
    draft.append(layout.METADATA, replace(segment.metadata, columns=tuple(forgotten)).to_bytes())
    draft.commit()
    assert len(reloaded(directory, config_of(BLOOM), drop=False).metadata.files) == 1
    for _ in range(2):
        again = reloaded(directory, config_of(BLOOM))
        assert indexes(again) == {"city.bloom"} and len(again.metadata.files) == 2


def test_several_reloads_append_a_file_each_and_nothing_to_do_appends_none() -> None:
    directory = build(SCHEMA, PLAIN, ROWS)
    wanted: list[str] = []
    for name in ("city", "n", "tags"):
        wanted.append(name)
        config = config_of(RAW | {"invertedIndexColumns": wanted})
        assert {f"{each}.inverted" for each in wanted} == indexes(reloaded(directory, config))
        assert len(reloaded(directory, config).metadata.files) == len(wanted) + 1


def test_columns_that_the_schema_lost_or_changed_are_left_alone() -> None:
    directory = build(SCHEMA, PLAIN, ROWS)
    narrower = schema_of({"city": "STRING", "n": "LONG"})
    indexing = resolve_indexing(narrower, config_of({"invertedIndexColumns": ["city", "n"]}))
    assert plan_reload(open_segment(directory), narrower, indexing) == ReloadPlan({"city": ("inverted",)}, {}, {})


class _CrashError(Exception):
    pass


@pytest.mark.parametrize("step", range(8))
def test_a_crash_at_any_step_leaves_a_segment_that_opens_as_before_or_after(
    tmp_path: Path, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every rename, sync and change of rights of the commit is the last thing that happens, once."""
    directory = on_disk(tmp_path)
    expected = answers(open_segment(directory))
    steps = 0

    def counted(call: Any) -> Any:
        def run(*args: Any, **kwargs: Any) -> Any:
            nonlocal steps
            if steps == step:
                raise _CrashError
            steps += 1
            return call(*args, **kwargs)

        return run

    import os

    with monkeypatch.context() as patched:
        for name in ("replace", "fsync", "fchmod"):
            patched.setattr(os, name, counted(getattr(os, name)))
        patched.setattr(
            "pinotpy.segment.directory.file_directory._FileAmendment.abort", lambda self: None
        )  # a process that dies cleans nothing up
        patched.setattr(FileDirectory, "put_marker", lambda *_: None)
        crashed = False
        try:
            reloaded(directory, EVERYTHING)
        except _CrashError:
            crashed = True
    assert crashed or steps <= step
    after = open_segment(directory)
    assert indexes(after) in (set(), EXPECTED_ALL) and answers(after) == expected
    assert indexes(reloaded(directory, EVERYTHING)) == EXPECTED_ALL, "the next reload does what was left"
    assert not [path for path in (tmp_path / "s0").iterdir() if path.name.startswith(".")]


def test_a_fault_while_an_index_is_built_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = on_disk(tmp_path)
    before = sorted(path.name for path in (tmp_path / "s0").iterdir())

    def fail(*_: Any) -> Any:
        raise DataError("too large")

    monkeypatch.setattr(reload_room, "write_indexes", fail)
    with pytest.raises(DataError):
        reloaded(directory, EVERYTHING)
    assert sorted({path.name for path in (tmp_path / "s0").iterdir()} - {"verified"}) == sorted(
        set(before) - {"verified"}
    )
    assert indexes(open_segment(directory)) == set()


def test_damage_in_an_appended_file_is_found() -> None:
    directory = build(SCHEMA, PLAIN, ROWS)
    segment = reloaded(directory, EVERYTHING)
    entry = segment.column("n").metadata.buffer(layout.RANGE_DOCS)
    assert entry is not None and entry.file == 1
    data = bytearray(directory.map("columns.1").tobytes())
    data[entry.offset + 5] ^= 4
    directory.replace("columns.1", bytes(data))
    with pytest.raises(SegmentCorruptError, match=r"buffer 'range\.docs' of column 'n'"):
        open_segment(directory)


@pytest.mark.parametrize("make", [lambda path: FileDirectory(path / "none"), lambda _: MemoryDirectory()])
def test_there_must_be_a_segment_to_amend(tmp_path: Path, make: Any) -> None:
    with pytest.raises(NotFoundError):
        make(tmp_path).amend()


@pytest.mark.parametrize(
    ("built", "asked", "words"),
    [
        (RAW, RAW, []),
        (
            RAW,
            RAW | {"noDictionaryColumns": ["cost"], "invertedIndexColumns": ["raw"]},
            ["'raw' is stored raw", "for its inverted index"],
        ),
        (
            RAW,
            {"invertedIndexColumns": ["raw", "cost"]},
            ["'cost' is stored raw", "'raw' is stored raw", "'doc' is stored raw"],
        ),
        ({}, {"noDictionaryColumns": ["city"]}, ["'city' is stored with a dictionary"]),
        (RAW, RAW | {"rangeIndexColumns": ["cost"], "bloomFilterColumns": ["raw"]}, []),
    ],
)
def test_what_only_a_new_build_brings_is_told(built: dict[str, Any], asked: dict[str, Any], words: list[str]) -> None:
    directory = build(SCHEMA, config_of(built), ROWS)
    indexing = resolve_indexing(SCHEMA, config_of(asked))
    told = needs_rebuild(open_segment(directory), SCHEMA, indexing)
    assert all(part in told for part in words) and bool(told) == bool(words), told
    after = reloaded(directory, config_of(asked))
    assert needs_rebuild(after, SCHEMA, indexing) == told, "no reload changes it"
    assert needs_rebuild(open_segment(build(SCHEMA, config_of(asked), ROWS)), SCHEMA, indexing) == ""
