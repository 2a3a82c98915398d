"""Proves that every setting has an effect: each field of each role's settings is read by that role's own room or by the
daemon kit that all roles share. A setting that nobody reads is a promise that nobody keeps."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pinotpy.config.settings import BrokerSettings, ControllerSettings, ProcessSettings, ServerSettings
from pinotpy.config.settings_loading import Settings

SOURCE = Path(__file__).resolve().parents[3] / "src" / "pinotpy"


def _read_in(*rooms: str) -> set[str]:
    text = "\n".join(file.read_text() for room in rooms for file in sorted((SOURCE / room).rglob("*.py")))
    return set(re.findall(r"\bsettings\.([a-z_]+)\b", text))


@pytest.mark.parametrize("settings", [ControllerSettings, BrokerSettings, ServerSettings], ids=lambda each: each.role)
def test_every_setting_is_read_by_its_role(settings: type[Settings]) -> None:
    unread = set(settings.model_fields) - _read_in(settings.role, "service")
    assert not unread, f"the {settings.role} has settings that it does not read: {sorted(unread)}"


def test_a_setting_that_nobody_reads_would_be_found() -> None:
    class WithOneMore(ProcessSettings):
        unheard_of: int = 0

    assert set(WithOneMore.model_fields) - _read_in("broker", "service") == {"unheard_of"}
