"""Points at which a process ends or stands still if a test asks for it: the crash points of segment completion.

A test makes a folder, names it to the daemons in PINOTPY_FAILPOINTS, and puts a file into it that has a point's name
and says `kill` or `stop`. The first process that reaches the point takes the file (`<point>.<pid>` is left) and sends
itself SIGKILL or SIGSTOP. Without the variable nothing is looked at.
"""

from __future__ import annotations

import os
import signal
from enum import StrEnum
from pathlib import Path
from typing import Final

ACTIONS: Final = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


class FailPoint(StrEnum):
    """S: on a server that completes a segment. K: on the lead controller. SEAL and DONE are one write to ZooKeeper
    each, so there is no state between the steps of a commit; points stand before and behind the writes.
    """

    BEFORE_CONSUMED = "S1"  # segmentConsumed is not sent yet
    COMMIT_RECEIVED = "S2"  # the reply is COMMIT
    BUILDING = "S3"
    BUILT = "S4"
    COMMIT_STARTED = "S5"  # segmentCommitStart was answered
    UPLOADING = "S6"  # the file is read, and the request not finished
    UPLOADED = "S7"
    COMMIT_END_UNHEARD = "S8"  # segmentCommitEnd was answered, and the reply is lost
    BEFORE_SWAP = "S9"  # the segment is done
    SWAPPING = "S10"  # the built folder lies in its place, queries still read the rows
    BEFORE_CLEAN_UP = "S11"  # queries read the segment
    COMMIT_START_RECEIVED = "K1"
    FILE_RECEIVED = "K2"  # and not stored
    FILE_STORED = "K3"
    BEFORE_SEAL = "K4"
    SEALED = "K5"
    BEFORE_DONE = "K6"
    DONE_UNANSWERED = "K7"
    ANSWERED = "K8"  # the reply to segmentCommitEnd is on its way


def folder_of_points() -> Path | None:
    """Where points are asked for; None: nowhere."""
    named = os.environ.get("PINOTPY_FAILPOINTS", "")
    return Path(named) if named else None


def check(folder: Path) -> None:
    """Raises ValueError: a file is there that no point looks at."""
    known = {point.value for point in FailPoint}
    unknown = sorted(each.name for each in folder.iterdir() if each.is_file() and each.name.split(".")[0] not in known)
    if unknown:
        raise ValueError(f"no failpoint is called '{unknown[0]}': expected one of {', '.join(FailPoint)}")


_FOLDER: Final = folder_of_points()


def reach(point: FailPoint) -> None:
    """Do what a test asks for here."""
    if _FOLDER is not None:
        act(_FOLDER, point)


def act(folder: Path, point: FailPoint) -> None:
    """Take what is asked for in `folder`, if anything is. Raises ValueError: it is no action."""
    check(folder)
    try:
        text = (folder / point).read_text().strip()
        # Read first: who waits for the new name may take the file away as soon as it is there.
        (folder / point).rename(folder / f"{point}.{os.getpid()}")
    except FileNotFoundError:
        return
    if text not in ACTIONS:
        raise ValueError(f"the failpoint {point} is to '{text}': expected one of {', '.join(ACTIONS)}")
    os.kill(os.getpid(), ACTIONS[text])
