"""Asks every question of a recording and sorts the answers: equal, other rows that are as right, changed by a named
rule, or unexplained.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from golden_comparison import SUM_TOLERANCE, Answer, difference, has_defined_order, recorded_answer
from golden_recordings import Recording
from golden_rules import is_one_of_many, is_within_sketch_error, rule_for

Send = Callable[[str, dict[str, Any]], Answer]  # dialect, body of the request

EQUAL, OPEN_ROWS = "equal", "other rows, as right"
_SUMS = re.compile(
    r"\b((DISTINCT)?(SUM|AVG)(MV)?|(STDDEV|VAR|COVAR)_?(POP|SAMP)|SKEWNESS|KURTOSIS)\s*\(", re.IGNORECASE
)


@dataclass(slots=True)
class Replay:
    """What came of one recording."""

    recording: Recording
    counts: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    @property
    def num_lines(self) -> int:
        return self.counts.total() + len(self.problems)

    def report(self, where: str) -> str:
        """One line of counts; the whole texts of what is unexplained go to the folder PINOTPY_GOLDEN_REPORT."""
        folder = os.environ.get("PINOTPY_GOLDEN_REPORT")
        if folder:
            Path(folder).mkdir(exist_ok=True)
            (Path(folder) / f"{self.recording.name}-{where.replace(' ', '-')}.txt").write_text("\n".join(self.problems))
        return (
            f"{self.recording.name} ({where}): {self.num_lines} lines: {dict(self.counts.most_common())}, "
            f"unexplained {len(self.problems)}"
        )

    def check(self) -> None:
        """AssertionError unless every line ran and is equal or explained."""
        assert self.num_lines == self.recording.num_lines
        assert not self.problems, f"{len(self.problems)} answers differ without a rule:\n" + "\n".join(
            self.problems[:40]
        )
        assert self.counts[EQUAL] > self.num_lines // 2


def replay(recording: Recording, send: Send, *, alternative: bool) -> Replay:
    """Ask every line of the recording and compare."""
    found = Replay(recording)
    for number, line in enumerate(recording.lines()):
        verdict, problem = _judge(recording.dialect, line, send, alternative=alternative)
        if problem:
            found.problems.append(f"line {number} [{line['section']}] {line[recording.dialect]}\n    {problem}")
        else:
            found.counts[verdict] += 1
    return found


def _judge(dialect: str, line: dict[str, Any], send: Send, *, alternative: bool) -> tuple[str, str]:
    """(how it counts, '') or ('', what differs)."""
    text = str(line[dialect])
    body = line.get("request") or {dialect: line[dialect]}
    theirs, ours = recorded_answer(line, alternative=alternative), send(dialect, body)
    check_order = has_defined_order(text) and line.get("stable", True)
    differs = difference(theirs, ours, line, check_order=check_order)
    if differs is None:
        return EQUAL, ""

    def ask(other: str) -> dict[str, Any]:
        return send(dialect, {**body, dialect: other}).document

    if _SUMS.search(text) and difference(theirs, ours, line, check_order=check_order, tolerance=SUM_TOLERANCE) is None:
        return "rule sum-rounding", ""
    if not differs.startswith("numDocsScanned") and is_one_of_many(ask, text, theirs.document, ours.document):
        return OPEN_ROWS, ""
    options = body.get("queryOptions")
    rule = rule_for(dialect, f"{text} OPTION({options})" if isinstance(options, str) else text, theirs, ours)
    if rule is None and is_within_sketch_error(ask, text, theirs.document, ours.document):
        rule = "sketch"
    if rule is not None:
        return f"rule {rule}", ""
    return "", differs
