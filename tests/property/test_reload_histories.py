"""Proves that reloads change no row: whatever is changed in schema and config, in whatever order and however it is
brought to the segments (reload of the table or of one segment, archives fetched anew, a new load, a new build of the
same rows, a server's folder that cannot be written), all columns of all rows read as before, in both null modes, as do
filters, groups and aggregations over them; a query that began before keeps what it holds.

A history is one seed (tests/support/reload_histories.py): all data types, dictionary or raw, sorted, multi-value,
fixed-bit, compressed, with nulls; segments mapped or in memory. The oracle is the rows themselves and DuckDB. `make
fuzz` runs more; a failure prints its seed: replay it with PINOTPY_FUZZ_SEED=… alone.
"""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from built_segments import ask
from in_process import InProcessCluster
from reload_histories import Questions, ReloadHistory
from server_scene import TABLE, Properties, Scene
from thinning import cases

from pinotpy.broker.catalog import Half, Target
from pinotpy.broker.routing.table_routing import TableRouting
from pinotpy.cluster.views import Message
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.query.segments.segment_set import SegmentSet
from pinotpy.segment.archive.archive import pack_segment
from pinotpy.segment.build.builder import build_segment
from pinotpy.segment.directory.file_directory import FileDirectory
from pinotpy.segment.immutable import scrub
from pinotpy.segment.shared_codes.cache import SharedDictionaries

HISTORIES = int(os.environ.get("PINOTPY_FUZZ_HISTORIES", "8"))
FULL_HISTORIES = cases(200)
CHUNKS = 4
STEPS = (1, 2, 3, 4)
QUESTIONS = 3  # at most, after each step, in each null mode


class Reloads:
    """A history on a server without network: what changes in the documents is brought to its segments, and everything
    is read again.
    """

    def __init__(self, seed: int, directory: Path, steps: list[str]) -> None:
        self.history, self.directory = ReloadHistory(seed), directory
        self.cluster = InProcessCluster(directory)
        ((server, self.registry),) = self.cluster.registries.items()
        self.numberings = SharedDictionaries(in_background=False)
        self.cluster.services[server]._runs._dictionaries = self.numberings
        self.properties = Properties()
        self._publish()
        splits = self.history.splits()
        self.scene = Scene(
            directory,
            len(splits),
            with_archives=True,
            properties=self.properties,
            splits=splits,
            registry=self.registry,
        )
        self.names = list(self.properties.crcs)
        replicas = dict.fromkeys(self.names, (server,))
        self.routing = TableRouting(TABLE, replicas)
        self.questions = [Questions(self.history, null_handling=null_handling) for null_handling in (False, True)]
        self.num_jobs, self.steps = 0, steps

    def change(self) -> None:
        """One step."""
        schema, old, without_nulls = self.schema, self.rows(), self.history.without_nulls
        ways = (
            self._reload,
            self._reload,
            self._reload,
            self._reload_one_by_one,
            self._reload_under_queries,
            self._fetch_anew,
            self._load,
            self._build_anew,
        )
        with self.registry.acquire(TABLE, self.names) as held:
            changes, way = self.history.change(), self.history.rng.choice(ways)
            self._publish()
            self.steps.append(f"{changes}, by {way.__name__}")
            way()
            for null_handling, rows in enumerate(old):
                check_rows(held.segments, schema, rows, without_nulls, null_handling=bool(null_handling))

    def rows(self) -> list[pa.Table]:
        return [self.history.rows(null_handling=null_handling) for null_handling in (False, True)]

    def check(self) -> None:
        without_nulls = self.history.without_nulls
        half = Half(self.routing, without_nulls=without_nulls)
        self.cluster.catalog.targets["t"] = Target("t", self.schema, (half,))
        with self.registry.acquire(TABLE, self.names) as held:
            assert not held.missing
            for null_handling, rows in enumerate(self.rows()):
                check_rows(held.segments, self.schema, rows, without_nulls, null_handling=bool(null_handling))
        for questions in self.questions:
            questions.ask(self.history.rng.randint(0, QUESTIONS), self._answer)
            questions.ask_documents(self._answer)
        self.numberings.build_waiting()

    def close(self) -> None:
        for segment in self.registry.segments(TABLE).values():
            scrub(segment)
        for questions in self.questions:
            questions.close()
        self.cluster.close()
        assert not self.scene.failures and not self.scene.counted

    def _answer(self, dialect: str, text: str, options: str) -> dict[str, Any]:
        return (self.cluster.pql if dialect == "pql" else self.cluster.sql)(text, query_options=options)

    def _publish(self) -> None:
        self.properties.fields, self.properties.config = self.history.schema(), self.history.config()
        self.schema = Schema.from_json(self.properties.fields)

    def _reload(self, segment: str = "", *, anew: bool = False) -> None:
        self.num_jobs += 1
        self.scene.reload(f"job{self.num_jobs}", segment, anew=anew)

    def _reload_one_by_one(self) -> None:
        for name in self.names:
            self._reload(name)

    def _reload_under_queries(self) -> None:
        is_over, faults = threading.Event(), list[Exception]()
        # Not those that came later: their defaults may have changed in this step.
        rows = self.history.rows(null_handling=True).select([column.name for column in self.history.stored])

        def query() -> None:
            try:
                while not is_over.is_set():
                    with self.registry.acquire(TABLE, self.names) as held:
                        check_rows(held.segments, self.schema, rows, frozenset(), null_handling=True)
            except Exception as error:
                faults.append(error)

        thread = threading.Thread(target=query)
        thread.start()
        try:
            self._reload()
        finally:
            is_over.set()
            thread.join()
        if faults:
            raise faults[0]

    def _build_anew(self) -> None:
        self.history.built()
        config, folder = TableConfig.from_json(self.properties.config), self.directory / "built" / str(len(self.steps))
        for name, batches in zip(self.names, self.history.splits(), strict=True):
            self.properties.crcs[name] = build_segment(self.schema, config, batches, folder, name).crc
            pack_segment(folder / name, self.scene.deep_store.folder / name)
            self.scene.transitions.on_message(
                Message("m1", {"MSG_SUBTYPE": "REFRESH_SEGMENT", "RESOURCE_NAME": TABLE, "PARTITION_NAME": name})
            )

    def _fetch_anew(self) -> None:
        self._reload(anew=True)

    def _load(self) -> None:
        for name in self.names:
            for before, after in (("ONLINE", "OFFLINE"), ("OFFLINE", "ONLINE")):
                self.scene.transitions.on_transition(TABLE, name, before, after)


def check_rows(
    segments: SegmentSet, schema: Schema, rows: pa.Table, without_nulls: frozenset[str], *, null_handling: bool
) -> None:
    """All columns of all rows, as a server answers them."""
    text = f"SELECT {', '.join(rows.column_names)} FROM t LIMIT 1000000"
    partial = ask(schema, segments, text, null_handling=null_handling, without_nulls=without_nulls)
    assert not partial.exceptions and partial.rows is not None, partial.exceptions
    for name, found in zip(rows.column_names, partial.rows.columns, strict=True):
        expected = rows.column(name)
        if not found.equals(expected):
            at = next(
                row for row, (a, b) in enumerate(zip(found.to_pylist(), expected.to_pylist(), strict=False)) if a != b
            )
            raise AssertionError(
                f"column {name}, row {at}: {found[at]}, expected {expected[at]}; null handling {null_handling}, "
                f"{len(found)} rows"
            )


def run_history(seed: int, directory: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """All steps of the history of `seed`; returns how many."""
    steps: list[str] = []
    with monkeypatch.context() as patch:
        if seed % 5 == 4:
            # A data folder that cannot be written any more: every load checks all bytes again.
            patch.setattr(FileDirectory, "put_marker", lambda *_: None)
        try:
            reloads = Reloads(seed, directory / str(seed), steps)
            reloads.check()
            for _ in range(reloads.history.rng.choice(STEPS)):
                reloads.change()
                reloads.check()
            reloads.close()
        except Exception as error:
            said = "\n  ".join(steps)
            raise AssertionError(f"seed {seed}:\n  {said}\n{type(error).__name__}: {error}") from error
    shutil.rmtree(directory / str(seed))
    return len(steps)


def run_histories(first: int, number: int, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only = os.environ.get("PINOTPY_FUZZ_SEED")
    seeds = [int(only)] if only else range(first, first + number)
    steps = sum(run_history(seed, directory, monkeypatch) for seed in seeds)
    print(f"{len(seeds)} reload histories, {steps} steps")
    assert steps >= len(seeds)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_reload_histories_keep_every_row(chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    number = max(1, HISTORIES // CHUNKS)
    run_histories(chunk * number, number, tmp_path, monkeypatch)


@pytest.mark.full
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_many_more_reload_histories_keep_every_row(chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other seeds than the fast tier's."""
    number = FULL_HISTORIES // CHUNKS
    run_histories(1_000_000 + chunk * number, number, tmp_path, monkeypatch)
