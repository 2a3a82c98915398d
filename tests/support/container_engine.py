"""The container engine of this machine: `docker compose` where a Docker daemon answers, else podman-compose; commands
with a time limit.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PROBE_TIMEOUT_S = 30.0
LIMIT_MAX = 16_384


class NoEngineError(Exception):
    """This machine cannot run the containers of docker-compose.yml; the text says what was looked for."""


class CommandFailedError(Exception):
    """A command of the engine failed or took too long; the text has the end of what it said."""


@dataclass(frozen=True)
class Engine:
    """`container` runs single containers and builds images, `compose` the services of a file."""

    name: str
    container: tuple[str, ...]
    compose: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)

    def run(
        self, *arguments: str | Path, timeout_s: float = 120.0, check: bool = True, **more: Any
    ) -> subprocess.CompletedProcess[str]:
        """`docker …` or `podman …`."""
        return self._call([*self.container, *map(str, arguments)], timeout_s, check, **more)

    def run_compose(
        self,
        project: str,
        folder: Path,
        *arguments: str,
        environment: Mapping[str, str],
        timeout_s: float,
        check: bool = True,
        **more: Any,
    ) -> subprocess.CompletedProcess[str]:
        """`docker compose …` or `podman-compose …` of the project, in its folder."""
        call = [*self.compose, "-p", project, "-f", "docker-compose.yml", *arguments]
        return self._call(call, timeout_s, check, cwd=folder, environment=environment, **more)

    def has_image(self, name: str) -> bool:
        return self.run("image", "inspect", name, check=False).returncode == 0

    def inspect(self, container: str) -> dict[str, Any]:
        return dict(json.loads(self.run("inspect", container).stdout)[0])

    def _call(
        self,
        command: Sequence[str],
        timeout_s: float,
        check: bool,
        environment: Mapping[str, str] | None = None,
        **more: Any,
    ) -> subprocess.CompletedProcess[str]:
        full = {**os.environ, **self.environment, **(environment or {})}
        binary = isinstance(more.get("input"), bytes)
        try:
            done = subprocess.run(
                list(command), env=full, capture_output=True, text=not binary, timeout=timeout_s, check=False,
                **({} if "input" in more else {"stdin": subprocess.DEVNULL}), **more,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise CommandFailedError(
                f"'{' '.join(command)}' was not over after {timeout_s:g} s: {_tail(error.stdout)} {_tail(error.stderr)}"
            ) from None
        if check and done.returncode != 0:
            raise CommandFailedError(
                f"'{' '.join(command)}' ended with {done.returncode}:\n{_tail(done.stdout)}\n{_tail(done.stderr)}"
            )
        return done


def find_engine() -> Engine:
    """The engine that works here. Raises NoEngineError with what is missing."""
    missing = []
    if shutil.which("docker") is None:
        missing.append("no docker command")
    elif not _works("docker", "compose", "version"):
        missing.append("docker without its compose plug-in")
    elif not _works("docker", "info"):
        missing.append("a docker command, but no Docker daemon that answers it")
    else:
        return Engine("docker", ("docker",), ("docker", "compose"))
    if shutil.which("podman") is None or shutil.which("podman-compose") is None:
        missing.append("no podman with podman-compose")
    elif not _works("podman", "info"):
        missing.append("a podman that does not work ('podman info' fails)")
    else:
        return Engine("podman", ("podman",), ("podman-compose",), _podman_environment())
    raise NoEngineError(f"this machine has no container engine for docker-compose.yml: found {' and '.join(missing)}")


def _podman_environment() -> dict[str, str]:
    """Limits that this process may set: where its own are fixed, those that podman wants are refused, and nothing
    starts.
    """
    if "CONTAINERS_CONF" in os.environ:
        return {}
    limits = []
    for name, number in (("nofile", resource.RLIMIT_NOFILE), ("nproc", resource.RLIMIT_NPROC)):
        _, hard = resource.getrlimit(number)
        limit = LIMIT_MAX if hard == resource.RLIM_INFINITY else min(hard, LIMIT_MAX)
        limits.append(f'"{name}={limit}:{limit}"')
    file = Path(tempfile.gettempdir(), f"pinotpy-containers-{os.getuid()}.conf")
    file.write_text(f'[containers]\ndefault_ulimits = [{", ".join(limits)}]\n[engine]\nevents_logger = "file"\n')
    return {"CONTAINERS_CONF": str(file)}


def _works(*command: str) -> bool:
    try:
        done = subprocess.run(
            command, capture_output=True, stdin=subprocess.DEVNULL, timeout=PROBE_TIMEOUT_S, check=False
        )
    except (subprocess.TimeoutExpired, OSError):
        return False
    # Docker's client ends with 0 where it has no daemon, and says so on the side.
    return done.returncode == 0 and b"Cannot connect" not in done.stderr


def _tail(text: str | bytes | None, size: int = 4000) -> str:
    text = text.decode(errors="replace") if isinstance(text, bytes) else text or ""
    return text.strip()[-size:]
