"""How many random cases the tests of the full tier try, and which of its longest ones run: all, or a share on a
machine that would not get through them in CI's time (PINOTPY_THIN: `.ci/run` sets it by how long the fast tier took,
and prints it). What has not begun when CI's time is nearly over (PINOTPY_TESTS_UNTIL) is skipped and counted.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

SHARE = float(os.environ.get("PINOTPY_THIN") or "1")


def cases(number: int, setting: str = "", *, multiple_of: int = 1) -> int:
    """The environment variable `setting` if there is one, else the share of `number`, both at least `multiple_of`."""
    asked = os.environ.get(setting, "") if setting else ""
    wanted = int(asked) if asked else int(number * SHARE)
    return max(wanted // multiple_of, 1) * multiple_of


# Tests of minutes each, which begin first. Where CI is short of time a commit runs every other one of them, the next
# commit perhaps the rest.
LONG_TESTS = (
    "test_realtime_crash_points",
    "test_revisions_together",
    "test_quick_run",
    "test_realtime_kills",
    "test_spark_kills",
    "test_chaos_kills",
    "test_job_reruns_live",
    "test_reload_histories_live",
    "test_array_bounds",
    "test_up_live",
    "test_memory_budget",
    "test_quickstart",
    "test_spark_live",
    "test_endpoint_fuzz",
    "test_spark_warmup",
    "test_quickstart_hybrid",
    "test_realtime_kafka",
    "test_deep_store_on_s3",
    "test_replacing_segments_live",
    "test_hybrid_changes_live",
    "test_kafka_failures",
    "test_quickstart_realtime",
)
# Seconds since the epoch; 0: as long as it takes.
UNTIL_S = float(os.environ.get("PINOTPY_TESTS_UNTIL") or "0")
OVER = "CI's time was nearly over before it began"


def left_out(collected: set[str]) -> list[str]:
    """Modules of those collected whose turn it is not, by the name of the commit; [] where all have their time."""
    if SHARE >= 1:
        return []
    root = Path(__file__).parents[2]
    asked = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, check=False)
    turn = int(asked.stdout.strip() or "0", 16) % 2
    return [name for place, name in enumerate(LONG_TESTS) if name in collected and place % 2 != turn]


def is_over() -> bool:
    """Whether no further test should begin."""
    return 0 < UNTIL_S < time.time()
