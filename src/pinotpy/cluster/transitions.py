"""What the lead controller decides: from ideal state and what is, to messages and the external view. Pure.

`plan_resource` sees one resource at one moment and returns what to send and what to show. It may run any number of
times on any old view: a pending message keeps a second one away, and a participant ignores a transition that no longer
fits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pinotpy.cluster.state_model import StateModel
from pinotpy.cluster.views import CONSUMING, DROPPED, ONLINE, IdealState, PartitionState, PartitionStates


@dataclass(frozen=True, slots=True)
class InstanceView:
    """One live instance as a resource sees it.

    `states`: partition → current state; `pending`: partitions with a transition message under way.
    """

    session: str
    is_enabled: bool = True
    states: Mapping[str, str] = field(default_factory=dict)
    pending: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Transition:
    """A step that an instance shall make."""

    instance: str
    session: str
    resource: str
    partition: str
    from_state: str
    to_state: str


@dataclass(frozen=True, slots=True)
class ResourcePlan:
    """Transitions, most urgent first; the external view's map, None when the view shall not exist."""

    transitions: tuple[Transition, ...]
    external_view: PartitionStates | None


def plan_resource(
    resource: str, ideal_state: IdealState | None, model: StateModel, instances: Mapping[str, InstanceView]
) -> ResourcePlan:
    """Decide for one resource.

    Args:
        ideal_state: None when the resource was removed; what is left of it is dropped.
        instances: live instances only: a dead one has no state and gets no message.
    """
    transitions = []
    for instance, view in instances.items():
        for partition, target in _targets(instance, view, ideal_state, model):
            if partition in view.pending:
                continue
            state = view.states.get(partition, model.initial_state)
            hop = model.next_hop(state, target)
            if hop is not None and not (target == DROPPED and partition not in view.states):
                transitions.append(Transition(instance, view.session, resource, partition, state, hop))
    transitions.sort(key=lambda step: (model.urgency(step.from_state, step.to_state), step.partition, step.instance))
    external_view = _external_view(instances)
    is_needed = ideal_state is not None or bool(external_view)
    return ResourcePlan(tuple(transitions), external_view if is_needed else None)


def _targets(
    instance: str, view: InstanceView, ideal_state: IdealState | None, model: StateModel
) -> list[tuple[str, str]]:
    """(partition, wanted state) of one instance: what the ideal state gives it, and DROPPED for all else that it has.

    A disabled instance or resource keeps its partitions, in the initial state.
    """
    targets: dict[str, str] = {}
    if ideal_state is not None:
        is_active = ideal_state.is_enabled and view.is_enabled
        for partition, replicas in ideal_state.partitions.items():
            target = replicas.get(instance)
            if target is not None:
                targets[partition] = target if is_active or target == DROPPED else model.initial_state
    return [*targets.items(), *((partition, DROPPED) for partition in view.states if partition not in targets)]


def _external_view(instances: Mapping[str, InstanceView]) -> PartitionStates:
    shown: PartitionStates = {}
    for instance in sorted(instances):
        for partition, state in instances[instance].states.items():
            if state != DROPPED:
                shown.setdefault(partition, {})[instance] = state
    return dict(sorted(shown.items()))


def contents_served(
    shown: Mapping[str, Mapping[str, str]], served: Mapping[str, Mapping[str, PartitionState]]
) -> dict[str, str]:
    """Of partitions whose content was replaced what is served, where all that queries may ask say the same.

    Args:
        shown: the external view's map.
        served: instance → partition → its current state, of the instances that are shown.
    """
    told = {name for states in served.values() for name, state in states.items() if state.content}
    contents = {}
    for name in sorted(told):
        asked = [instance for instance, state in shown.get(name, {}).items() if state in (ONLINE, CONSUMING)]
        said = {served[instance][name].content for instance in asked}
        if len(said) == 1 and (content := said.pop()):
            contents[name] = content
    return contents
