"""Proves that the quickstart, docker-compose.yml and the manifests divide memory so that all daemons under one limit,
each with its workers, have at most 85 % of it: shares as the daemons read them, added up by whoever bounds them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from daemon_defaults import accepts

from pinotpy.cli.supervision.cluster_layout import memory_shares
from pinotpy.config.settings import BrokerSettings, ServerSettings
from pinotpy.service.process_memory import SHARES

MOST = 0.85
ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy" / "kubernetes" / "base"
UNITS = {"m": 1 << 20, "g": 1 << 30, "Mi": 1 << 20, "Gi": 1 << 30}
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))[
    "services"
]
COMPOSE = [
    (name, str(service["command"][0]).removeprefix("start-"), service)
    for name, service in SERVICES.items()
    if service.get("command") and str(service["command"][0]).startswith("start-")
]
DOCUMENTS = [
    document for file in FOLDER.glob("*.yaml") for document in yaml.safe_load_all(file.read_text(encoding="utf-8"))
]


def size(text: str) -> int:
    unit = text.lstrip("0123456789")
    return int(text.removesuffix(unit)) * UNITS[unit]


def check(role: str, environment: dict[str, str], limit_bytes: int) -> None:
    """One daemon alone under a limit: its share, and that what one query and the caches may take fits into it."""
    settings = accepts(role, {key: str(value) for key, value in environment.items()})
    assert settings.memory_share is not None and settings.memory_share <= MOST
    budget = limit_bytes * settings.memory_share
    if isinstance(settings, ServerSettings):
        assert settings.query_memory_max_bytes <= budget / 2
    if isinstance(settings, BrokerSettings):
        assert settings.memory_max_bytes <= budget / 2


@pytest.mark.parametrize(("name", "role", "service"), COMPOSE, ids=[name for name, _, _ in COMPOSE])
def test_a_container_of_the_compose_file_uses_part_of_its_limit(name: str, role: str, service: dict[str, Any]) -> None:
    check(role, service["environment"], size(service["mem_limit"]))


@pytest.mark.parametrize("role", ["controller", "broker", "server"])
def test_a_pod_uses_part_of_its_limit(role: str) -> None:
    shared = next(one["data"] for one in DOCUMENTS if one["kind"] == "ConfigMap")
    [pod] = [one for one in DOCUMENTS if one["kind"] == "StatefulSet" and one["metadata"]["name"] == role]
    [container] = pod["spec"]["template"]["spec"]["containers"]  # a limit is one container's
    own = {one["name"]: one["value"] for one in container["env"] if "value" in one and "$" not in one["value"]}
    check(role, shared | own, size(container["resources"]["limits"]["memory"]))


@pytest.mark.parametrize("num_servers", [1, 2, 3])
def test_the_daemons_of_the_quickstart_share_one_machine(num_servers: int) -> None:
    shares = memory_shares(num_servers)
    assert len(shares) == num_servers + 2 and sum(shares.values()) <= MOST


def test_one_daemon_of_each_role_fits_on_a_machine_by_default() -> None:
    assert sum(SHARES.values()) <= MOST
