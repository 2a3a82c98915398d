"""Proves that docs/generated/ingestion-job-spec.md is what the definitions say, and that every key has a sentence."""

from __future__ import annotations

from pathlib import Path

from pinotpy.ingest.jobs.documentation import DEFAULT_FILE, document

ROOT = Path(__file__).resolve().parent.parent


def test_the_generated_page_is_current() -> None:
    assert (ROOT / DEFAULT_FILE).read_text("utf-8") == document(), "run: python -m pinotpy.ingest.jobs.documentation"


def test_every_key_has_a_meaning() -> None:
    rows = [line for line in document().splitlines() if line.startswith("| `")]
    assert len(rows) > 70
    assert [row for row in rows if row.endswith("|  |")] == []
