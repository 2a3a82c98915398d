"""Simulates segment completion for as many schedules as asked for, on all cores: `make simulate`.

Prints progress, and the seed of a schedule that loses or doubles a row; `--first` runs a seed again.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from completion_store import ViolationError
from completion_world import run_schedule

BLOCK = 200
PROGRESS_S = 10.0


def run_block(first: int, count: int) -> tuple[int, str]:
    """Schedules that ran, and the first failure."""
    for seed in range(first, first + count):
        try:
            run_schedule(seed)
        except ViolationError as error:
            return seed - first, str(error)
    return count, ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schedules", type=int, default=1_000_000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    arguments = parser.parse_args()
    end, ran, failures, started = arguments.first + arguments.schedules, 0, list[str](), time.monotonic()
    told = started
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        blocks = [
            pool.submit(run_block, first, min(BLOCK, end - first)) for first in range(arguments.first, end, BLOCK)
        ]
        for block in blocks:
            count, failure = block.result()
            ran += count
            if failure:
                failures.append(failure)
                print(f"FAILED: {failure}", flush=True)
            if time.monotonic() - told >= PROGRESS_S:
                told = time.monotonic()
                rate = ran / (told - started)
                print(f"{ran} of {arguments.schedules} schedules, {rate:.0f}/s, {len(failures)} failed", flush=True)
    print(f"{ran} schedules of segment completion, {len(failures)} failed, {time.monotonic() - started:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
