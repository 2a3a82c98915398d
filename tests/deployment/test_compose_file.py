"""Proves that docker-compose.yml says what docs/security.md asks for and what the daemons need: loopback only, no
secrets, hardened containers, health checks on the daemons' own ports, time to stop, settings that exist. What it does
is proved by test_compose_live.py.
"""

from __future__ import annotations

import inspect
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from daemon_defaults import REST_PORTS, accepts, environment_variables, longest_stop_s

from pinotpy.cli.commands import stream_rsvps

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "deploy" / "docker"
DOCUMENT: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = DOCUMENT["services"]
DAEMONS = {"controller": "controller", "broker": "broker", "server-1": "server", "server-2": "server"}
ONE_SHOT = {"access", "flights", "rsvps"}
SECRETS = {"PINOTPY_CLUSTER_TOKEN", "PINOTPY_ADMIN_PASSWORD", "PINOTPY_LOADER_PASSWORD"}
OURS = [name for name, service in SERVICES.items() if "build" in service]


def seconds(text: str) -> float:
    found = re.fullmatch(r"(\d+)s", text)
    assert found, text
    return float(found[1])


def test_all_services_of_a_cluster_are_there() -> None:
    assert set(SERVICES) == {"zookeeper", "kafka", "spark", *DAEMONS, *ONE_SHOT}
    assert set(OURS) == {"spark", *DAEMONS, *ONE_SHOT}


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_ports_are_published_on_loopback_only(name: str) -> None:
    for port in SERVICES[name].get("ports", []):
        assert re.fullmatch(r"127\.0\.0\.1:\$\{\w+_PORT:-(\d+)\}:\1", port), port
    assert "network_mode" not in SERVICES[name]


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_containers_have_no_more_rights_than_they_need(name: str) -> None:
    service = SERVICES[name]
    assert service["cap_drop"] == ["ALL"] and service["security_opt"] == ["no-new-privileges:true"]
    assert not service.get("privileged") and "cap_add" not in service and "pid" not in service
    if name in OURS:
        assert service["read_only"] is True and service["tmpfs"] == ["/tmp"] and "user" not in service
    else:
        assert service["user"] == "1000:1000"
    assert re.fullmatch(r"\d+[mg]", service["mem_limit"])
    assert service["logging"]["options"]["max-size"]
    # Nothing of the machine is mounted: named volumes only, all declared.
    for volume in service.get("volumes", []):
        assert volume.split(":")[0] in DOCUMENT["volumes"], volume


@pytest.mark.parametrize("name", sorted(SERVICES.keys() - ONE_SHOT))
def test_what_runs_for_long_starts_again_and_says_whether_it_is_healthy(name: str) -> None:
    service = SERVICES[name]
    assert service["restart"] == "unless-stopped"
    check = service["healthcheck"]
    assert seconds(check["timeout"]) <= 5 and seconds(check["interval"]) <= 10 and check["retries"] >= 3
    assert seconds(service["stop_grace_period"]) >= 20


@pytest.mark.parametrize(("name", "role"), sorted(DAEMONS.items()))
def test_a_daemon_is_asked_on_its_own_port_and_has_the_time_that_it_takes_to_stop(name: str, role: str) -> None:
    service = SERVICES[name]
    assert service["command"] == [f"start-{role}"]
    assert service["healthcheck"]["test"] == ["CMD", "healthy", str(REST_PORTS[role])]
    assert seconds(service["stop_grace_period"]) >= longest_stop_s(role)
    if role != "server":
        assert service["ports"] == [f"127.0.0.1:${{{role.upper()}_PORT:-{REST_PORTS[role]}}}:{REST_PORTS[role]}"]
    else:
        assert "ports" not in service


@pytest.mark.parametrize(("name", "role"), sorted(DAEMONS.items()))
def test_a_daemon_takes_its_environment_and_access_control_is_on(name: str, role: str) -> None:
    environment = SERVICES[name]["environment"]
    foreign = set(environment) - environment_variables(role)
    assert not foreign, f"no setting reads {foreign}"
    settings = accepts(role, environment)
    assert settings.unrecognized == ()
    assert settings.auth_users_file == Path("/access/users.json") and settings.cluster_token_file == Path(
        "/access/cluster.token"
    )
    assert not settings.insecure and settings.advertised_host == name
    assert "access:/access:ro" in SERVICES[name]["volumes"]


def test_the_zookeeper_is_reached_by_daemons_only() -> None:
    assert DOCUMENT["networks"]["state"] == {"internal": True}
    assert SERVICES["zookeeper"]["networks"] == ["state"] and "ports" not in SERVICES["zookeeper"]
    assert {name for name, service in SERVICES.items() if "state" in service.get("networks", [])} == {
        "zookeeper",
        *DAEMONS,
    }


def test_secrets_come_from_the_env_file_and_stand_nowhere_else() -> None:
    text = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    required = set(re.findall(r"\$\{(\w+):\?", text))
    assert required == SECRETS
    for service in SERVICES.values():
        for key, value in service.get("environment", {}).items():
            if re.search(r"PASSWORD|TOKEN$|SECRET", key):
                assert re.fullmatch(r"\$\{\w+:\?is missing - make secrets writes it into \.env\}", value), key
    example = (ROOT / ".env.example").read_text(encoding="utf-8")
    assert set(re.findall(r"^(\w+)=$", example, re.MULTILINE)) == SECRETS and not re.search(
        r"^\w+=.", example, re.MULTILINE
    )
    assert "/.env" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert "\n*\n" in (ROOT / ".dockerignore").read_text(encoding="utf-8"), "the builder gets only what is named"


def test_the_token_reaches_no_job_and_the_admin_no_daemon() -> None:
    having = {
        secret: {n for n, s in SERVICES.items() if f"${{{secret}:?" in str(s.get("environment"))} for secret in SECRETS
    }
    assert having == {
        "PINOTPY_CLUSTER_TOKEN": {"access"},
        "PINOTPY_ADMIN_PASSWORD": {"access", "flights", "rsvps"},
        "PINOTPY_LOADER_PASSWORD": {"access", "spark"},
    }
    assert not any(
        volume.startswith("access:")
        for name in ("spark", "flights", "rsvps")
        for volume in SERVICES[name].get("volumes", [])
    )


def test_new_secrets_are_random_long_private_and_never_replaced(tmp_path: Path) -> None:
    found = []
    for name in ("one.env", "two.env"):
        file = tmp_path / name
        subprocess.run([FOLDER / "new-secrets", file], check=True, capture_output=True)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        found.append(dict(re.findall(r"^(\w+)=([0-9a-f]{64})$", file.read_text(), re.MULTILINE)))
    assert set(found[0]) == SECRETS
    assert len({*found[0].values(), *found[1].values()}) == 2 * len(SECRETS)
    again = subprocess.run([FOLDER / "new-secrets", tmp_path / "one.env"], capture_output=True, text=True, check=False)
    assert again.returncode == 1 and "is there already" in again.stderr
    assert dict(re.findall(r"^(\w+)=([0-9a-f]{64})$", (tmp_path / "one.env").read_text(), re.MULTILINE)) == found[0]


@pytest.mark.parametrize("missing", sorted(SECRETS))
def test_nothing_is_prepared_with_a_secret_that_is_missing_or_short(missing: str, tmp_path: Path) -> None:
    environment = {"PATH": "/usr/bin:/bin", **dict.fromkeys(SECRETS, "x" * 64), missing: "short"}
    done = subprocess.run(
        [FOLDER / "prepare-access", tmp_path], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and missing in done.stderr and "make secrets" in done.stderr
    assert not list(tmp_path.iterdir())


def test_the_images_run_as_a_user_that_is_not_root() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    stages = re.split(r"^FROM ", text, flags=re.MULTILINE)
    final = {stage.split("\n", 1)[0].split(" AS ")[1]: stage for stage in stages[1:]}
    for name in ("daemon", "spark"):
        assert re.findall(r"^USER (.*)$", final[name], re.MULTILINE) == ["10001:10001"], name
    assert {service["build"]["target"] for service in SERVICES.values() if "build" in service} == {"daemon", "spark"}
    assert re.search(r"^ARG BASE_IMAGE=docker\.io/library/python:3\.1\d-slim$", text, re.MULTILINE)


def test_an_operator_chooses_the_base_and_the_extras_of_the_image(tmp_path: Path) -> None:
    """A deep store on S3 needs an extra: without it the controller says at its start what is missing."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    arguments = {**SERVICES["controller"]["build"]["args"]}
    assert arguments["EXTRAS"] == "${PINOTPY_EXTRAS:-kafka}" and set(arguments) == set(
        re.findall(r"^ARG (\w+)=", text, re.MULTILINE)
    )
    assert all(service["build"]["args"] == arguments for service in SERVICES.values() if "build" in service)
    for file in (ROOT / "pyproject.toml", FOLDER / "requirements.py"):  # as the Dockerfile lays them
        shutil.copy(file, tmp_path)
    found = subprocess.run(
        [sys.executable, tmp_path / "requirements.py", "s3", "crypter", "kafka"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "boto3" in found and "cryptography" in found and "confluent-kafka" in found


def test_the_stream_of_the_demonstration_is_the_kafka_of_the_file() -> None:
    service = SERVICES["rsvps"]
    name, *arguments = service["command"]
    given = dict(zip(arguments[::2], arguments[1::2], strict=True))
    assert name == stream_rsvps.NAME
    assert set(given) <= set(re.findall(r'"(--[a-z-]+)"', inspect.getsource(stream_rsvps)))
    host, _, port = given["--kafka-broker-list"].partition(":")
    assert f"PLAINTEXT://{host}:{port}," in SERVICES["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    # Whoever reads it or writes to it is on one network with it, and waits for it where it starts only once.
    for reader in ("rsvps", "controller", "server-1", "server-2"):
        assert "default" in SERVICES[reader]["networks"], reader
    assert set(service["depends_on"]) == {"kafka", "controller", "server-1", "server-2"}
