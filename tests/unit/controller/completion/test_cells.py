"""Proves every cell of the completion FSM: the tables of docs/completion.md and of ADR 20 are what `decide` does, and
whatever happens, an end that stands does not move and everything that asks gets an answer.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from completion_cells import cells, events, read_table, states

from pinotpy.cluster.completion_messages import ReplyStatus
from pinotpy.controller.completion.fsm import decide
from pinotpy.controller.completion.states import Alarm, LearnCommitTime, Phase, RecordRead, WriteSeal

DOCS = Path(__file__).parents[4] / "docs"
TABLE = read_table((DOCS / "completion.md").read_text("utf-8"))


@pytest.mark.parametrize("event", events())
def test_each_cell_is_as_documented(event: str) -> None:
    actual = {key: each for key, each in cells().items() if key[0] == event}
    assert actual == {key: each for key, each in TABLE.items() if key[0] == event}
    assert len(actual) == len(Phase)


def test_the_documented_table_has_no_other_cells() -> None:
    assert TABLE.keys() == cells().keys()
    assert len(TABLE) == len(events()) * len(Phase) >= 500


def test_the_changed_cells_of_the_decision_are_as_documented_and_are_changes() -> None:
    lines = [
        [each.strip() for each in line.strip("|").split("|")]
        for line in (DOCS / "adr" / "0020-completion-with-a-fixed-end.md").read_text("utf-8").splitlines()
        if line.startswith("| ")
    ]
    changes = {(event, phase): (reference, here) for event, phase, reference, here in lines[1:]}
    assert len(changes) == len(lines) - 1 > 30
    assert {key: here for key, (_, here) in changes.items()} == {key: TABLE[key] for key in changes}
    assert all(reference != here for reference, here in changes.values())


def test_every_event_in_every_phase_gets_a_reply_or_asks_for_what_brings_it() -> None:
    for event, now_ms, facts in events().values():
        for state in states().values():
            decision = decide(state, event, now_ms, facts)
            awaited = [each for each in decision.effects if not isinstance(each, Alarm | LearnCommitTime)]
            assert (decision.reply is None) == (len(awaited) == 1), (event, state.phase)


def test_no_event_but_a_record_moves_an_end_that_stands() -> None:
    open_phases = {Phase.PARTIAL_CONSUMING, Phase.HOLDING, Phase.SEALING}
    for event, now_ms, facts in events().values():
        for phase, state in states().items():
            decision = decide(state, event, now_ms, facts)
            if phase in open_phases or isinstance(event, RecordRead):
                continue
            assert decision.state.end_offset == state.end_offset, (event, phase)
            assert not any(isinstance(effect, WriteSeal) for effect in decision.effects)
            assert decision.state.phase not in open_phases
            if decision.reply is not None and decision.reply.offset is not None:
                assert decision.reply.offset == state.end_offset


def test_a_committer_is_told_only_after_seal() -> None:
    for event, now_ms, facts in events().values():
        for phase, state in states().items():
            reply = decide(state, event, now_ms, facts).reply
            is_told = reply is not None and reply.status in (ReplyStatus.COMMIT, ReplyStatus.COMMIT_CONTINUE)
            if is_told and phase in {Phase.PARTIAL_CONSUMING, Phase.HOLDING, Phase.SEALING}:
                assert not hasattr(event, "message"), "a message alone cannot make a committer of an open segment"
