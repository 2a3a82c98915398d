"""Trace: where the time of one query went, as a tree of operators with times and row counts.

A stage is a dict {"operator", "timeMs", numbers such as "docsIn" and "docsOut", "children"}. Times of a stage contain
those of its children, except where threads run at once: `SCAN` is wall time, its children add up the time of all
threads. Nothing is measured unless the query asked for it: `stage(None, …)` costs a function call.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final

import orjson

Entry = dict[str, Any]


class Stage:
    """One operator of the tree while it runs."""

    def __init__(self, operator: str) -> None:
        self.entry: Entry = {"operator": operator, "timeMs": 0.0}
        self.start_ns = time.perf_counter_ns()

    def note(self, **numbers: Any) -> None:
        """Row counts and whatever else explains the time; keys as they are shown."""
        self.entry.update(numbers)

    def add(self, operator: str, time_ns: int, **numbers: Any) -> None:
        """A child whose time was measured elsewhere."""
        self.entry.setdefault("children", []).append({"operator": operator, "timeMs": milliseconds(time_ns), **numbers})

    def rest(self, operator: str, **numbers: Any) -> None:
        """A last child: the time so far that no other child took."""
        taken = sum(child["timeMs"] for child in self.entry.get("children", []))
        self.add(operator, max(time.perf_counter_ns() - self.start_ns - int(taken * 1e6), 0), **numbers)


class _Unwatched(Stage):
    def note(self, **numbers: Any) -> None:
        pass

    def add(self, operator: str, time_ns: int, **numbers: Any) -> None:
        pass

    def rest(self, operator: str, **numbers: Any) -> None:
        pass


class Trace:
    """The stages of one query in one process; used by one thread at a time."""

    def __init__(self) -> None:
        self._root = Stage("")
        self._open = [self._root]

    @contextmanager
    def stage(self, operator: str) -> Iterator[Stage]:
        """Measure what runs inside, as a child of the stage that is open; it is kept when it fails, too."""
        inner = Stage(operator)
        self._open[-1].entry.setdefault("children", []).append(inner.entry)
        self._open.append(inner)
        try:
            yield inner
        finally:
            inner.entry["timeMs"] = milliseconds(time.perf_counter_ns() - inner.start_ns)
            # Children stand last, where they are read best.
            if "children" in inner.entry:
                inner.entry["children"] = inner.entry.pop("children")
            self._open.pop()

    @property
    def current(self) -> Stage:
        """The stage that is open."""
        return self._open[-1]

    def stages(self) -> list[Entry]:
        """The stages so far, outermost first."""
        return list(self._root.entry.get("children", []))


class Laps:
    """Stages that follow one another without gaps: each lap is what passed since the one before. Cheap, but cheaper not
    measured: `UNTIMED`.
    """

    def __init__(self) -> None:
        self._last_ns = time.perf_counter_ns()
        self._laps: list[tuple[str, int, Entry]] = []

    def lap(self, operator: str, **numbers: Any) -> None:
        """The stage `operator` has ended."""
        now_ns = time.perf_counter_ns()
        self._laps.append((operator, now_ns - self._last_ns, numbers))
        self._last_ns = now_ns

    def stages(self) -> list[Entry]:
        """As in Trace."""
        return [
            {"operator": operator, "timeMs": milliseconds(time_ns), **numbers}
            for operator, time_ns, numbers in self._laps
        ]


class _Untimed(Laps):
    def lap(self, operator: str, **numbers: Any) -> None:
        pass


# For queries that nobody traces.
UNTIMED: Final = _Untimed()
_OFF: Final = nullcontext[Stage](_Unwatched(""))


def stage(trace: Trace | None, operator: str) -> AbstractContextManager[Stage]:
    """`trace.stage(operator)`, or nothing if the query is not traced."""
    return _OFF if trace is None else trace.stage(operator)


def milliseconds(time_ns: int) -> float:
    return round(time_ns / 1e6, 3)


def trace_text(stages: list[Entry]) -> str:
    """Stages as clients get them: `traceInfo` maps a server's name to the text of a JSON list (pql-live.md §7)."""
    return orjson.dumps(stages).decode()
