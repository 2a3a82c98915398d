"""Random tables and queries over rows of a stream: every answer equals DuckDB's, whether rows lie in frozen pieces, in
the tail, in ended segments of a chain, beside sealed segments, or in the two halves of a hybrid table.

500 queries run in the fast tier, 2,000 others in the full one; each prints how many there were of each kind of rows.
PINOTPY_FUZZ_SEED=… replays a failure.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path

import duck_oracle
import pytest
from consuming_registry import ReadLog, filled_log, freeze
from in_process import InProcessCluster
from random_queries import check, random_question
from random_tables import RandomTable, random_table

from pinotpy.broker.catalog import Half, Target
from pinotpy.broker.routing.table_routing import TableRouting

KINDS = ("frozen", "tail", "chain", "beside sealed", "hybrid")
QUERIES_PER_TABLE = 25
CHUNKS = 4


def name(sequence: int) -> str:
    return f"t__0__{sequence}__20260101T0000Z"


def serve(cluster: InProcessCluster, table: RandomTable, kind: str, rng: random.Random) -> None:
    """Serve the table's rows as `kind` says."""
    raw, (server, *_) = table.config.raw_table_name, cluster.registries
    # Rows before `first` are sealed.
    first = rng.randint(0, table.num_rows) if kind in ("beside sealed", "hybrid") else 0
    count = table.num_rows - first
    log = filled_log(
        table.schema,
        table.config,
        table.batches(first, table.num_rows),
        chunk_rows=max(count + 1 if kind == "tail" else rng.randint(1, count + 1), 1),
        batch_rows=rng.choice([1, 7, 100]) if count < 1_000 else 500,
        segment_name=name(1),
    )
    names = [name(1)]
    if kind != "tail":
        ends = {2 * count} if kind == "frozen" else {2 * rng.randint(0, count) for _ in range(rng.randint(0, 3))}
        for end in sorted(ends):
            names.append(name(len(names) + 1))
            log.seal(end, names[-1])
    if rng.random() < 0.5:
        log.end_chunks()
        freeze(log)
    if kind == "frozen":
        assert not ReadLog(log, raw).piece_view().tail
    sealed: dict[str, tuple[str, ...]] = {}
    if first:
        built = cluster.add_table(table.schema, table.config, [table.batches(0, first)])
        sealed = dict.fromkeys(built, (server,))
    of_stream = f"{raw}_REALTIME" if kind == "hybrid" else table.config.name_with_type
    cluster.registries[server].partitions = lambda asked: {0: ReadLog(log, of_stream)} if asked == of_stream else {}
    chain = dict.fromkeys(names, (server,))
    if kind == "hybrid":
        halves = (
            Half(TableRouting(table.config.name_with_type, sealed), is_offline=True),
            Half(TableRouting(of_stream, chain, (tuple(names),))),
        )
    else:
        halves = (Half(TableRouting(of_stream, sealed | chain, (tuple(names),))),)
    cluster.catalog.targets[raw] = Target(raw, table.schema, halves)


def run_seed(seed: int, directory: Path) -> str:
    """Build the table of `seed`, ask its queries, compare; return the kind of its rows."""
    rng = random.Random(seed)
    kind = KINDS[seed % len(KINDS)]
    table = random_table(rng)
    cluster = InProcessCluster(directory / str(seed), threads=rng.choice([1, 2]))
    connection = duck_oracle.load(table, null_handling=table.null_handling)
    try:
        serve(cluster, table, kind, rng)
        for number in range(QUERIES_PER_TABLE):
            question = random_question(rng, table)
            ask = cluster.pql if question.dialect == "pql" else cluster.sql
            answer = ask(
                question.text,
                query_options=f"preserveType=true;enableNullHandling={str(table.null_handling).lower()}",
            )
            try:
                check(question, answer, connection, null_handling=table.null_handling)
            except AssertionError as error:
                raise AssertionError(
                    f"seed {seed}, query {number}, rows: {kind}\n{question.dialect}: {question.text}\nduck: "
                    f"{question.duck}\n{error}"
                ) from error
    finally:
        connection.close()
        cluster.close()
    return kind


def run_seeds(first: int, count: int, directory: Path) -> None:
    only = os.environ.get("PINOTPY_FUZZ_SEED")
    kinds = Counter(run_seed(seed, directory) for seed in ([int(only)] if only else range(first, first + count)))
    print({kind: tables * QUERIES_PER_TABLE for kind, tables in kinds.items()})
    assert only or set(kinds) == set(KINDS)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_queries_over_rows_of_streams_equal_duckdb(chunk: int, tmp_path: Path) -> None:
    run_seeds(3_000_000 + 5 * chunk, 5, tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_many_more_random_queries_over_rows_of_streams_equal_duckdb(chunk: int, tmp_path: Path) -> None:
    run_seeds(4_000_000 + 20 * chunk, 20, tmp_path)
