"""The two state models of Pinot as tables, in the form of 1.5.1 (recorded from its STATEMODELDEFS).

`next_hop` is all that the controller needs; the definitions are written to the store so that Helix tools read them.
ERROR is implicit, as in Helix: a failed transition ends there, and only a reset (to OFFLINE) or a drop leaves it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pinotpy.cluster.records import ZNRecord
from pinotpy.cluster.views import CONSUMING, DROPPED, ERROR, OFFLINE, ONLINE


@dataclass(frozen=True, slots=True)
class StateModel:
    """A state machine of one partition on one instance.

    `next_hops[state][target]` is the first step from `state` towards `target`; `transitions` lists the direct steps,
    most urgent first; `counts` says how many replicas may be in a state (R = all, -1 = any).
    """

    name: str
    initial_state: str
    next_hops: Mapping[str, Mapping[str, str]]
    transitions: tuple[tuple[str, str], ...]
    states: tuple[str, ...]
    counts: Mapping[str, str]

    def next_hop(self, state: str, target: str) -> str | None:
        """The first step from `state` towards `target`; None when there is none or nothing to do."""
        if state == target:
            return None
        if state == ERROR:
            return DROPPED if target == DROPPED else None
        return self.next_hops.get(state, {}).get(target)

    def is_transition(self, from_state: str, to_state: str) -> bool:
        """Whether a participant may be asked to do this step."""
        return (from_state, to_state) in self.transitions or (
            from_state == ERROR and to_state in (self.initial_state, DROPPED)
        )

    def urgency(self, from_state: str, to_state: str) -> int:
        """Position among the transitions; lower goes first."""
        try:
            return self.transitions.index((from_state, to_state))
        except ValueError:
            return len(self.transitions)

    def to_record(self) -> ZNRecord:
        maps = {f"{state}.meta": {"count": count} for state, count in self.counts.items()}
        maps |= {f"{state}.next": dict(hops) for state, hops in self.next_hops.items()}
        lists = {
            "STATE_PRIORITY_LIST": list(self.states),
            "STATE_TRANSITION_PRIORITYLIST": [f"{from_state}-{to_state}" for from_state, to_state in self.transitions],
        }
        return ZNRecord(self.name, {"INITIAL_STATE": self.initial_state}, maps, lists)


SEGMENT_STATE_MODEL = StateModel(
    name="SegmentOnlineOfflineStateModel",
    initial_state=OFFLINE,
    next_hops={
        CONSUMING: {DROPPED: DROPPED, CONSUMING: CONSUMING, OFFLINE: OFFLINE, ONLINE: ONLINE},
        DROPPED: {DROPPED: DROPPED},
        OFFLINE: {DROPPED: DROPPED, CONSUMING: CONSUMING, OFFLINE: OFFLINE, ONLINE: ONLINE},
        ONLINE: {DROPPED: DROPPED, CONSUMING: OFFLINE, ONLINE: ONLINE, OFFLINE: OFFLINE},
    },
    transitions=(
        (CONSUMING, DROPPED),
        (ONLINE, DROPPED),
        (OFFLINE, DROPPED),
        (CONSUMING, OFFLINE),
        (ONLINE, OFFLINE),
        (OFFLINE, CONSUMING),
        (OFFLINE, ONLINE),
        (CONSUMING, ONLINE),
    ),
    states=(DROPPED, CONSUMING, ONLINE, OFFLINE),
    counts={CONSUMING: "R", DROPPED: "-1", OFFLINE: "-1", ONLINE: "R"},
)

BROKER_STATE_MODEL = StateModel(
    name="BrokerResourceOnlineOfflineStateModel",
    initial_state=OFFLINE,
    next_hops={OFFLINE: {DROPPED: DROPPED, ONLINE: ONLINE}, ONLINE: {DROPPED: DROPPED, OFFLINE: OFFLINE}},
    transitions=((ONLINE, OFFLINE), (ONLINE, DROPPED), (OFFLINE, ONLINE), (OFFLINE, DROPPED)),
    states=(ONLINE, OFFLINE, DROPPED),
    counts={DROPPED: "-1", OFFLINE: "-1", ONLINE: "R"},
)

STATE_MODELS: Mapping[str, StateModel] = {model.name: model for model in (SEGMENT_STATE_MODEL, BROKER_STATE_MODEL)}
