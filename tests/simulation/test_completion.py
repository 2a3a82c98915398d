"""Runs the shipped machines of segment completion, of the controller and of three replicas, under random schedules:
lost, late and doubled messages, pauses, crashes, controllers that lead no more. No row is lost or doubled, and the
chain of the partition is right after every write. Without its fences the same world fails.
"""

from __future__ import annotations

import subprocess
import sys
from itertools import combinations
from pathlib import Path

import pytest
import simulate_completion
from completion_store import BUCKET, EPOCH, FENCE, FENCES, RECORD, FileReplacedError, ViolationError
from completion_world import run_schedule

FAST = 60
FULL = 10_000


def run_some(seeds: tuple[int, ...]) -> int:
    for seed in seeds:
        run_schedule(seed)
    return len(seeds)


def test_no_row_is_lost_or_doubled_under_a_few_schedules() -> None:
    assert run_some(tuple(range(FAST))) == FAST


@pytest.mark.full
def test_no_row_is_lost_or_doubled_under_many_schedules() -> None:
    program = [sys.executable, str(Path(simulate_completion.__file__))]
    ended = subprocess.run(
        [*program, "--first", str(FAST), "--schedules", str(FULL)],
        check=False,
        capture_output=True,
        text=True,
        timeout=1_800,
    )
    print(ended.stdout)
    assert ended.returncode == 0 and f"{FULL} schedules of segment completion, 0 failed" in ended.stdout, ended


def broken_by(kept: tuple[str, ...], *, overwrites: bool) -> list[BaseException]:
    """What goes wrong in a few schedules in which only these fences are `kept`."""
    violations = []
    for seed in range(24):
        try:
            run_schedule(seed, frozenset(kept), overwrites=overwrites)
        except ViolationError as error:
            assert error.__cause__ is not None
            violations.append(error.__cause__)
    return violations


@pytest.mark.parametrize("overwrites", [False, True], ids=["names with the time", "names overwritten"])
@pytest.mark.parametrize("kept", [(), (EPOCH,)], ids=str)
def test_without_versions_and_fence_nodes_the_same_world_fails(kept: tuple[str, ...], overwrites: bool) -> None:
    """The two pairs of the appendix of the reliability study: no version is compared, and the next segment's name says
    the time, or replaces what has it. The epoch does not help: a deposed leader's write is not the only late one.
    """
    violations = broken_by(kept, overwrites=overwrites)
    assert any(not isinstance(violation, FileReplacedError) for violation in violations), "two segments follow one"
    assert any(isinstance(violation, FileReplacedError) for violation in violations), "a segment is DONE twice"


@pytest.mark.parametrize("kept", [(FENCE,), (EPOCH, FENCE)], ids=str)
def test_the_fence_node_alone_keeps_the_chain_and_not_the_file(kept: tuple[str, ...]) -> None:
    """SEAL makes the node and DONE has none: what keeps a segment from being DONE twice are the two versions."""
    violations = broken_by(kept, overwrites=False)
    assert violations and all(isinstance(violation, FileReplacedError) for violation in violations)


@pytest.mark.parametrize("overwrites", [False, True], ids=["names with the time", "names overwritten"])
@pytest.mark.parametrize("kept", [RECORD, BUCKET])
def test_each_version_alone_keeps_the_same_world(kept: str, overwrites: bool) -> None:
    """All four fences are written: one that is dead would go unnoticed as long as another lives."""
    assert not broken_by((kept,), overwrites=overwrites)


def test_pairs_with_a_version_are_enough() -> None:
    for pair in combinations(sorted(FENCES), 2):
        if RECORD in pair or BUCKET in pair:
            run_schedule(3, frozenset(pair))
