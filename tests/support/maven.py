"""Java services of tests: their jars, brought by Maven."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

DOWNLOAD_TIMEOUT_S = 400  # the first time brings up to 110 MB into Maven's own cache, ~/.m2


def class_path_of(pom: Path) -> str:
    """The class path of a pom's dependencies."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(pom, folder)
        target = Path(folder, "classpath")
        command = [
            "mvn", "-q", "-B", "-f", str(Path(folder, "pom.xml")), "dependency:build-classpath",
            f"-Dmdep.outputFile={target}",
        ]  # fmt: skip
        subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=DOWNLOAD_TIMEOUT_S, check=True
        )
        return target.read_text()


def missing_jars(service: str, class_path: Callable[[], str]) -> str:
    """Why a service's jars cannot be had on this machine, or ''."""
    if shutil.which("mvn") is None:
        return f"no {service} here: it needs Maven (mvn), which brings its jars"
    try:
        class_path()
    except (subprocess.SubprocessError, OSError) as error:
        output = re.sub(r"\x1b[^m]*m", "", getattr(error, "output", "") or "")
        return f"no {service} here: Maven cannot bring its jars: {type(error).__name__} {output[-300:]}"
    return ""
