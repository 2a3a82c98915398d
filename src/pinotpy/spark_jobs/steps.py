"""What of a job a command does. Loads nothing: the command line shows it in its help."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

JOB_HELP: Final = "job spec (YAML or JSON), or job properties (.properties): a path or a URI"


class Step(StrEnum):
    """What of a job is done."""

    BUILD = "build-segments"
    PUSH = "push-segments"
    RUN = "run"
