"""Proves that held rows are the rows that were read, whatever their types, and that repeated text is held once."""

from __future__ import annotations

import pyarrow as pa

from pinotpy.ingest import held_rows
from pinotpy.ingest.held_rows import handed_over, hold_rows


def _batch(number: int, rows: int = 1000) -> pa.RecordBatch:
    texts = [f"text number {i % 7}" if i % 11 else None for i in range(rows)]
    return pa.record_batch(
        {
            "text": pa.array(texts),
            "raw": pa.array(texts),
            "given": pa.array(texts).dictionary_encode(),
            "unique": pa.array([f"{number} {i}" for i in range(rows)]),
            "tags": pa.array([None if i % 5 == 0 else [f"tag number {j}" for j in range(i % 4)] for i in range(rows)]),
            "numbers": pa.array([None if i % 5 == 0 else [i, i + 1] for i in range(rows)], pa.list_(pa.int32())),
            "nothing": pa.nulls(rows),
        }
    )


def test_held_rows_are_the_rows_that_were_read(monkeypatch) -> None:
    monkeypatch.setattr(held_rows, "HELD_ROWS", 2500)
    batches = [_batch(n) for n in range(7)]
    held = hold_rows(iter(batches), {"text", "given", "unique", "tags", "numbers"})
    assert [batch.num_rows for batch in held] == [3000, 3000, 1000]
    assert [row for batch in held for row in batch.to_pylist()] == [
        row for batch in batches for row in batch.to_pylist()
    ]


def test_repeated_text_is_held_once_unless_it_stays_raw() -> None:
    (held,) = hold_rows([_batch(0, 5000)], {"text", "unique", "tags"})
    assert pa.types.is_dictionary(held.schema.field("text").type) and pa.types.is_dictionary(
        held.schema.field("tags").type.value_type
    )
    assert held.schema.field("raw").type == held.schema.field("unique").type == pa.string()


def test_slices_of_lists_keep_their_rows() -> None:
    batch = _batch(0).slice(13, 500)
    (held,) = hold_rows([batch], {"tags"})
    assert held.to_pylist() == batch.to_pylist()


def test_batches_of_different_types_are_left_to_the_builder_and_none_are_no_rows() -> None:
    batches = [pa.record_batch({"a": pa.array(["x"])}), pa.record_batch({"a": pa.nulls(1)})]
    assert hold_rows(batches, {"a"}) == batches
    assert hold_rows([], set()) == []


def test_what_is_handed_over_is_let_go_of() -> None:
    held = hold_rows([_batch(0, 200_000), _batch(200_000, 100)], set())
    numbers = [batch.column("numbers") for batch in held]
    taken = handed_over(held)
    first = next(taken)
    assert len(held) == len(numbers) - 1 and first.column("numbers") == numbers[0]
    assert [batch.column("numbers") for batch in taken] == numbers[1:] and held == []
