"""Proves the controller's decision: exhaustively on one partition and one instance against a written-down table, and by
cases for what several instances, disabled things, left-overs and pending messages lead to.
"""

from __future__ import annotations

import itertools

import pytest

from pinotpy.cluster.state_model import BROKER_STATE_MODEL, SEGMENT_STATE_MODEL, StateModel
from pinotpy.cluster.transitions import InstanceView, Transition, plan_resource
from pinotpy.cluster.views import CONSUMING, DROPPED, ERROR, OFFLINE, ONLINE, IdealState

NOTHING = None

# (current state, None = never had it) → wanted (None = not in the ideal state) → first step. Written by hand from
# 1.5.1's model.
SEGMENT_STEPS: dict[str | None, dict[str | None, str | None]] = {
    None: {ONLINE: ONLINE, CONSUMING: CONSUMING, OFFLINE: NOTHING, None: NOTHING},
    OFFLINE: {ONLINE: ONLINE, CONSUMING: CONSUMING, OFFLINE: NOTHING, None: DROPPED},
    ONLINE: {ONLINE: NOTHING, CONSUMING: OFFLINE, OFFLINE: OFFLINE, None: DROPPED},
    CONSUMING: {ONLINE: ONLINE, CONSUMING: NOTHING, OFFLINE: OFFLINE, None: DROPPED},
    ERROR: {ONLINE: NOTHING, CONSUMING: NOTHING, OFFLINE: NOTHING, None: DROPPED},
}
BROKER_STEPS: dict[str | None, dict[str | None, str | None]] = {
    None: {ONLINE: ONLINE, OFFLINE: NOTHING, None: NOTHING},
    OFFLINE: {ONLINE: ONLINE, OFFLINE: NOTHING, None: DROPPED},
    ONLINE: {ONLINE: NOTHING, OFFLINE: OFFLINE, None: DROPPED},
    ERROR: {ONLINE: NOTHING, OFFLINE: NOTHING, None: DROPPED},
}
CASES = [
    (model, state, wanted, step)
    for model, table in ((SEGMENT_STATE_MODEL, SEGMENT_STEPS), (BROKER_STATE_MODEL, BROKER_STEPS))
    for state, row in table.items()
    for wanted, step in row.items()
]


def ideal(partitions: dict[str, dict[str, str]], **fields: str) -> IdealState:
    return IdealState("t", partitions, dict(fields))


@pytest.mark.parametrize(
    ("model", "state", "wanted", "step"), CASES, ids=lambda value: getattr(value, "name", str(value))
)
@pytest.mark.parametrize("is_pending", [False, True])
@pytest.mark.parametrize("is_active", ["active", "instance disabled", "table disabled"])
def test_each_state_and_target_leads_to_the_written_step(
    model: StateModel, state: str | None, wanted: str | None, step: str | None, is_pending: bool, is_active: str
) -> None:
    view = InstanceView(
        "session",
        is_active != "instance disabled",
        {} if state is None else {"p": state},
        frozenset(["p"] if is_pending else []),
    )
    ideal_state = ideal(
        {} if wanted is None else {"p": {"i": wanted}},
        HELIX_ENABLED="false" if is_active == "table disabled" else "true",
    )
    plan = plan_resource("t", ideal_state, model, {"i": view})
    if is_active != "active" and wanted is not None:
        table = SEGMENT_STEPS if model is SEGMENT_STATE_MODEL else BROKER_STEPS
        step = table[state][OFFLINE]
    expected = [] if step is None or is_pending else [Transition("i", "session", "t", "p", state or OFFLINE, step)]
    assert list(plan.transitions) == expected
    assert plan.external_view == ({} if state is None else {"p": {"i": state}})


def test_a_removed_resource_is_dropped_and_its_view_stays_until_it_is() -> None:
    views = {"i": InstanceView("s", True, {"p": ONLINE}), "j": InstanceView("s2", False, {"q": ERROR})}
    plan = plan_resource("t", None, SEGMENT_STATE_MODEL, views)
    assert {(step.instance, step.partition, step.to_state) for step in plan.transitions} == {
        ("i", "p", DROPPED),
        ("j", "q", DROPPED),
    }
    assert plan.external_view == {"p": {"i": ONLINE}, "q": {"j": ERROR}}
    assert plan_resource("t", None, SEGMENT_STATE_MODEL, {"i": InstanceView("s")}).external_view is None


def test_a_dead_instance_gets_no_message_and_shows_no_state() -> None:
    plan = plan_resource(
        "t",
        ideal({"p": {"dead": ONLINE, "i": ONLINE}}),
        SEGMENT_STATE_MODEL,
        {"i": InstanceView("s", True, {"p": ONLINE})},
    )
    assert plan.transitions == ()
    assert plan.external_view == {"p": {"i": ONLINE}}


def test_a_table_without_anything_has_an_empty_view() -> None:
    assert plan_resource("t", ideal({}), SEGMENT_STATE_MODEL, {}).external_view == {}


def test_drops_go_before_loads() -> None:
    views = {"i": InstanceView("s", True, {"old": ONLINE, "done": CONSUMING, "off": ONLINE})}
    wanted = ideal({"new": {"i": ONLINE}, "done": {"i": ONLINE}, "off": {"i": OFFLINE}, "next": {"i": CONSUMING}})
    steps = [
        (step.partition, step.from_state, step.to_state)
        for step in plan_resource("t", wanted, SEGMENT_STATE_MODEL, views).transitions
    ]
    assert steps == [
        ("old", ONLINE, DROPPED),
        ("off", ONLINE, OFFLINE),
        ("next", OFFLINE, CONSUMING),
        ("new", OFFLINE, ONLINE),
        ("done", CONSUMING, ONLINE),
    ]


def test_every_small_table_reaches_its_ideal_state_in_legal_steps() -> None:
    """Three replicas over two partitions and two instances, all combinations of current and wanted states; each plan is
    carried out until none is left.
    """
    states = (None, OFFLINE, ONLINE, CONSUMING)
    slots = [("p", "i"), ("p", "j"), ("q", "i")]
    for current in itertools.product(states, repeat=3):
        for wanted in itertools.product((None, OFFLINE, ONLINE, CONSUMING), repeat=3):
            have: dict[str, dict[str, str]] = {"i": {}, "j": {}}
            want: dict[str, dict[str, str]] = {}
            for (partition, instance), now, then in zip(slots, current, wanted, strict=True):
                if now is not None:
                    have[instance][partition] = now
                if then is not None:
                    want.setdefault(partition, {})[instance] = then
            for _ in range(4):
                plan = plan_resource(
                    "t",
                    ideal(want),
                    SEGMENT_STATE_MODEL,
                    {name: InstanceView(name, True, dict(has)) for name, has in have.items()},
                )
                if not plan.transitions:
                    break
                for step in plan.transitions:
                    assert SEGMENT_STATE_MODEL.is_transition(step.from_state, step.to_state)
                    if step.to_state == DROPPED:
                        del have[step.instance][step.partition]
                    else:
                        have[step.instance][step.partition] = step.to_state
            else:
                raise AssertionError(f"still stepping from {current} to {wanted}")
            for (partition, instance), then in zip(slots, wanted, strict=True):
                assert have[instance].get(partition, OFFLINE if then is not None else None) == then
