"""Every cell of the completion FSM: phases across, events down, and what `decide` makes of one in the other.

`docs/completion.md` has the table that `render` writes; run this module to print it after a change, and read the diff.

All cells are of one situation: segment 'n' starts at 100 and ends at 200 with 100 rows; A is the committer, B and C are
the other replicas; A was told at 1,000,000 ms and has until 1,126,600 ms.
"""

from __future__ import annotations

from dataclasses import replace

from pinotpy.cluster.completion_messages import CompletionMessage, MessageKind
from pinotpy.cluster.write_outcome import WriteOutcome
from pinotpy.controller.completion.fsm import decide
from pinotpy.controller.completion.states import (
    Alarm,
    CompletionState,
    Decision,
    DoneResult,
    Event,
    Facts,
    FileStored,
    OfflineResult,
    Phase,
    Received,
    RecordRead,
    RecordStatus,
    SealResult,
    SegmentFacts,
)

START, END, ROWS = 100, 200, 100
TOLD_MS, DEADLINE_MS, IN_TIME_MS, LATE_MS = 1_000_000, 1_126_600, 1_001_000, 1_126_601
LOCATION = "file:///store/n.tmp.1"
FACTS = Facts(num_replicas=3, controller_url="http://c:9000")


def message(
    kind: MessageKind,
    instance: str,
    offset: int = END,
    row_count: int = 0,
    *,
    start_offset: int = START,
    extra_s: int = 0,
) -> CompletionMessage:
    location = LOCATION if kind.needs_location else ""
    return CompletionMessage(
        kind, "n", instance, offset, "", start_offset, row_count=row_count, extra_time_s=extra_s, location=location
    )


def states() -> dict[Phase, CompletionState]:
    """One state of each phase."""
    base = CompletionState(Phase.HOLDING, START, TOLD_MS)
    sealing = replace(base, phase=Phase.SEALING, committer="A", end_offset=END, end_rows=ROWS)
    notified = replace(sealing, phase=Phase.COMMITTER_NOTIFIED, committer_ms=TOLD_MS, deadline_ms=DEADLINE_MS)
    committing = replace(notified, phase=Phase.COMMITTING, location=LOCATION)
    all_states = (
        replace(base, phase=Phase.PARTIAL_CONSUMING, excluded=frozenset("C")),
        base,
        sealing,
        replace(sealing, phase=Phase.SEALED, committer=None),
        replace(notified, phase=Phase.COMMITTER_DECIDED),
        notified,
        replace(notified, phase=Phase.COMMITTER_UPLOADING),
        committing,
        replace(committing, phase=Phase.COMMITTED),
        replace(notified, phase=Phase.ABORTED),
    )
    return {state.phase: state for state in all_states}


def events() -> dict[str, tuple[Event, int, Facts]]:
    """Name of an event → the event, when it comes, what holds then."""
    kinds = MessageKind
    consumed, start, end = kinds.CONSUMED, kinds.COMMIT_START, kinds.COMMIT_END
    metadata_end, extend, stopped = kinds.COMMIT_END_WITH_METADATA, kinds.EXTEND_BUILD_TIME, kinds.STOPPED_CONSUMING
    in_time = {
        "consumed: A at the end": message(consumed, "A", END, ROWS),
        "consumed: A before the end": message(consumed, "A", 150),
        "consumed: B at the end": message(consumed, "B", END, ROWS),
        "consumed: B before the end": message(consumed, "B", 150),
        "consumed: B behind the end": message(consumed, "B", 250, 140),
        "consumed: B at the end, other rows": message(consumed, "B", END, ROWS - 1),
        "consumed: B, another start": message(consumed, "B", END, ROWS, start_offset=90),
        "consumed: A, another start": message(consumed, "A", END, ROWS, start_offset=90),
        "stoppedConsuming: A": message(stopped, "A"),
        "stoppedConsuming: B": message(stopped, "B"),
        "extendBuildTime: A": message(extend, "A", extra_s=120),
        "extendBuildTime: A, beyond the limit": message(extend, "A", extra_s=1_800),
        "extendBuildTime: B": message(extend, "B", extra_s=120),
        "commitStart: A at the end": message(start, "A"),
        "commitStart: A elsewhere": message(start, "A", 150),
        "commitStart: B at the end": message(start, "B"),
        "commit (single step): A at the end": message(kinds.COMMIT, "A"),
        "commitEnd: A at the end": message(end, "A"),
        "commitEndWithMetadata: A at the end": message(metadata_end, "A"),
        "commitEnd: A elsewhere": message(end, "A", 150),
        "commitEnd: A, another file": replace(message(end, "A"), location="file:///store/n.tmp.2"),
        "commitEnd: B at the end": replace(message(end, "B"), location="file:///store/n.tmp.3"),
        "upload": message(kinds.UPLOAD, "A"),
    }
    late = {
        "late consumed: A at the end": message(consumed, "A", END, ROWS),
        "late consumed: B at the end": message(consumed, "B", END, ROWS),
        "late consumed: B before the end": message(consumed, "B", 150),
        "late extendBuildTime: A": message(extend, "A", extra_s=120),
        "late commitStart: A at the end": message(start, "A"),
        "late commitEnd: A at the end": message(end, "A"),
    }
    result: dict[str, tuple[Event, int, Facts]] = {}
    result |= {name: (Received(each), IN_TIME_MS, FACTS) for name, each in in_time.items()}
    result |= {name: (Received(each), LATE_MS, FACTS) for name, each in late.items()}
    a_consumed, a_ends, a_stopped = message(consumed, "A", END, ROWS), message(end, "A"), message(stopped, "A")
    outcomes: dict[str, Event] = {f"SEAL {outcome}": SealResult(outcome, a_consumed) for outcome in WriteOutcome}
    outcomes |= {f"DONE {outcome}": DoneResult(outcome, a_ends) for outcome in WriteOutcome}
    records = {
        "gone": None,
        "IN_PROGRESS": SegmentFacts(RecordStatus.IN_PROGRESS, START),
        "COMMITTING": SegmentFacts(RecordStatus.COMMITTING, START, END, ROWS),
        "COMMITTING, ends at 180": SegmentFacts(RecordStatus.COMMITTING, START, 180, 80),
        "DONE with A's file": SegmentFacts(RecordStatus.DONE, START, END, ROWS, LOCATION),
        "DONE with another file": SegmentFacts(RecordStatus.DONE, START, END, ROWS, "file:///store/n.tmp.9"),
    }
    for name, segment in records.items():
        outcomes[f"record read for A's consumed: {name}"] = RecordRead(segment, a_consumed)
        outcomes[f"record read for A's commitEnd: {name}"] = RecordRead(segment, a_ends)
    outcomes["file stored"] = FileStored(LOCATION, message(kinds.COMMIT, "A"))
    outcomes["file not stored"] = FileStored("", message(kinds.COMMIT, "A"))
    outcomes["OFFLINE written"] = OfflineResult(True, a_stopped)
    outcomes["OFFLINE not written"] = OfflineResult(False, a_stopped)
    result |= {name: (event, IN_TIME_MS, FACTS) for name, event in outcomes.items()}
    result["any message, not the leader"] = (Received(a_consumed), IN_TIME_MS, replace(FACTS, is_leader=False))
    result["any result, not the leader"] = (
        DoneResult(WriteOutcome.WRITTEN, a_ends),
        IN_TIME_MS,
        replace(FACTS, is_leader=False),
    )
    return result


def cell(decision: Decision, phase: Phase) -> str:
    """A decision in a few words: reply (with the end it tells), effects, next phase if another."""
    words = []
    if decision.reply is not None:
        offset = decision.reply.offset
        words.append(decision.reply.status.value + ("" if offset is None else f" {offset}"))
    words += ["alarm" if isinstance(effect, Alarm) else type(effect).__name__ for effect in decision.effects]
    return ", ".join(words) + ("" if decision.state.phase is phase else f" → {decision.state.phase}")


def cells() -> dict[tuple[str, str], str]:
    """(event, phase) → what `decide` makes of it."""
    return {
        (name, phase.value): cell(decide(state, event, now_ms, facts), phase)
        for name, (event, now_ms, facts) in events().items()
        for phase, state in states().items()
    }


def render() -> str:
    """The table as Markdown."""
    table = cells()
    phases = [phase.value for phase in Phase]
    lines = ["| event | " + " | ".join(phases) + " |", "|---" * (len(phases) + 1) + "|"]
    lines += [f"| {name} | " + " | ".join(table[name, phase] for phase in phases) + " |" for name in events()]
    return "\n".join(lines) + "\n"


def read_table(text: str) -> dict[tuple[str, str], str]:
    """(event, phase) → cell, of the Markdown table in a document."""
    rows = [
        [each.strip() for each in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| ")
    ]
    header = rows[0][1:]
    return {(row[0], phase): each for row in rows[1:] for phase, each in zip(header, row[1:], strict=True)}


if __name__ == "__main__":
    print(render(), end="")
