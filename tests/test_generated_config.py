"""Proves that docs/generated/config.md is what the definitions say, and that every key has a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from pinotpy.config.documentation import DEFAULT_FILE, document
from pinotpy.config.settings import BrokerSettings, ControllerSettings, ServerSettings
from pinotpy.config.settings_loading import Settings, setting_extra

ROOT = Path(__file__).resolve().parent.parent


def test_the_generated_page_is_current() -> None:
    assert (ROOT / DEFAULT_FILE).read_text("utf-8") == document(), "run: python -m pinotpy.config.documentation"


def test_every_key_has_a_meaning() -> None:
    rows = [line for line in document().splitlines() if line.startswith("| `")]
    assert len(rows) > 200
    assert [row for row in rows if not row.rstrip("| ").strip() or row.endswith("|  |")] == []


@pytest.mark.parametrize("role", [ControllerSettings, BrokerSettings, ServerSettings])
def test_every_setting_has_its_own_dotted_key_and_a_number_of_time_or_size_its_unit(role: type[Settings]) -> None:
    keys = [setting_extra(field)["keys"][0] for field in role.model_fields.values()]
    assert len(set(keys)) == len(keys)
    units = {"_ms": "ms", "_bytes_max": "bytes", "_max_bytes": "bytes", "_days": "days", "_s": "s", "_rows_max": "rows"}
    for name, field in role.model_fields.items():
        for suffix, unit in units.items():
            if name.endswith(suffix):
                assert setting_extra(field)["unit"] == unit, name
