"""Rows, rejects and failures of a file do not depend on the number of threads that convert its batches.

Proved over a CSV file of several blocks with rows that are no rows, values that do not fit and nulls, read with and
without threads.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from pinotpy.config.schema import Schema
from pinotpy.errors import DecodeError
from pinotpy.ingest.ledger import RowLedger
from pinotpy.ingest.pipeline import RowPipeline, read_rows
from pinotpy.ingest.readers.spec import FileFormat, InputFile

NUM_ROWS = 280_000
SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [{"name": "id", "dataType": "INT"}, {"name": "text", "dataType": "STRING"}],
        "metricFieldSpecs": [{"name": "price", "dataType": "DOUBLE"}],
    }
)


def line(number: int) -> str:
    if number % 50_000 == 7:
        return f"{number},x,1,2,3"
    price = "soon" if number % 30_000 == 11 else "" if number % 10 == 0 else f"{number / 4}"
    return f"{number},some text of a row {number},{price}"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("ahead") / "t.csv"
    file.write_text("id,text,price\n" + "\n".join(map(line, range(NUM_ROWS))) + "\n")
    return file


def read(path: Path, threads: int, share: float = 1.0) -> tuple[list[int], RowLedger]:
    ledger = RowLedger("t")
    pipeline = RowPipeline(SCHEMA, reject_share_max=share)
    batches = list(read_rows(InputFile(path), FileFormat.CSV, pipeline, ledger, threads=threads))
    assert len(batches) >= 3
    return [number for batch in batches for number in batch.column("id").to_pylist()], ledger


def facts(ledger: RowLedger) -> dict[str, Any]:
    return {name: value for name, value in asdict(ledger).items() if name != "sink"}


def test_rows_and_counts_are_the_same_with_any_number_of_threads(path: Path) -> None:
    alone, ledger = read(path, 0)
    expected = [number for number in range(NUM_ROWS) if number % 50_000 != 7 and number % 30_000 != 11]
    assert alone == expected and ledger.num_rows_rejected == NUM_ROWS - len(expected)
    assert ledger.nulls == {"price": sum(number % 10 == 0 for number in expected)}
    for threads in (1, 3):
        together, other = read(path, threads)
        assert together == alone and facts(other) == facts(ledger)


def test_failures_tell_the_same_with_any_number_of_threads(path: Path) -> None:
    def cause(threads: int) -> str:
        with pytest.raises(DecodeError) as caught:
            read(path, threads, share=0.0)
        return caught.value.message

    assert "rows are bad" in cause(0) and cause(0) == cause(3)
