"""The lead controller's pipeline: read the cluster, decide per resource (`transitions`), write messages and external
views.

Runs on every controller; only the elected one acts, and each of its writes carries the epoch's fence. Watches make a
pass start within milliseconds; a periodic full pass re-reads everything, for hints may be lost. A pass reads through a
watched cache, skips resources whose inputs did not change, and batches its writes.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from pinotpy.clock import Clock, SystemClock
from pinotpy.cluster.buckets import StoredRecord, in_multis, plan_delete, plan_write, read_record
from pinotpy.cluster.leader import LeaderElection
from pinotpy.cluster.messages import create_op, transition_message
from pinotpy.cluster.paths import ClusterPaths
from pinotpy.cluster.reconcile_loop import ReconcileLoop
from pinotpy.cluster.records import ZNRecord
from pinotpy.cluster.state_model import STATE_MODELS, StateModel
from pinotpy.cluster.store import Check, ClusterStore, Delete, SessionEvent
from pinotpy.cluster.transitions import InstanceView, Transition, contents_served, plan_resource
from pinotpy.cluster.views import (
    STATE_TRANSITION,
    CurrentState,
    ExternalView,
    IdealState,
    LiveInstance,
    Message,
    PartitionStates,
    is_instance_enabled,
)
from pinotpy.cluster.watched_cache import WatchedCache
from pinotpy.errors import ClusterError, DecodeError, NodeExistsError, NoNodeError, NotLeaderError, StaleVersionError

logger = logging.getLogger(__name__)

PERIOD_S = 0.5  # also how often a follower looks whether the leader's process is gone
FULL_PERIOD_S = 30.0
# Messages that wait at one instance; more follow as these are done. Keeps a restart with 100 k segments from flooding
# the store.
PENDING_PER_INSTANCE_MAX = 1_000


@dataclass(slots=True)
class _LiveInstanceView:
    """All of one live instance that a pass reads."""

    session: str
    is_enabled: bool
    current_states: dict[str, CurrentState]
    pending: dict[str, set[str]] = field(default_factory=dict)  # resource → partitions with a message under way
    num_pending: int = 0


@dataclass(slots=True)
class PipelineCounts:
    """What the pipeline did since its start."""

    passes: int = 0
    messages_sent: int = 0
    views_written: int = 0
    conflicts: int = 0


class TransitionPipeline:
    """See the module docstring. `step` is one pass; `start` runs it on a thread. Every `full_period_s` a pass reads
    everything.
    """

    def __init__(
        self,
        store: ClusterStore,
        paths: ClusterPaths,
        election: LeaderElection,
        *,
        source: str,
        clock: Clock | None = None,
        full_period_s: float = FULL_PERIOD_S,
    ) -> None:
        self._store = store
        self._paths = paths
        self._election = election
        self._source = source.removeprefix("Controller_")  # Helix's controller id bears no role
        self._clock = clock or SystemClock()
        self._loop = ReconcileLoop(
            "transition-pipeline", self.step, period_s=PERIOD_S, full_period_s=full_period_s, clock=self._clock
        )
        self._cache = WatchedCache(store, self._loop.hint)
        election.on_hint = self._loop.hint
        self._views: dict[str, StoredRecord] = {}
        self._done: dict[str, tuple[object, ...]] = {}  # resource → inputs of its last finished pass
        self._messages: dict[str, Message] = {}  # known messages by id; they never change
        self._current_states: dict[str, tuple[ZNRecord, CurrentState]] = {}
        self._epoch: int | None = None
        self.counts = PipelineCounts()

    def hint(self) -> None:
        """Run a pass soon."""
        self._loop.hint()

    def start(self) -> None:
        self._store.add_session_listener(self._on_session)
        self._loop.start()

    def stop(self, timeout_s: float = 10.0) -> None:
        self._loop.stop(timeout_s)
        self._store.remove_session_listener(self._on_session)

    def step(self, is_full: bool = True) -> None:
        """One pass. Does nothing unless this controller leads. Raises ConnectionLostError; the next pass goes on."""
        if not self._election.step():
            self._epoch = None
            return
        epoch = self._election.epoch
        if epoch != self._epoch:
            # Others wrote since we last led: trust nothing that was read before.
            self._epoch = epoch
            self._views.clear()
            self._done.clear()
            self._store.sync(self._paths.root)
            is_full = True
        if is_full:
            self._cache.invalidate_all()
            self._done.clear()
        self.counts.passes += 1
        try:
            self._run(self._election.fence(), is_full)
        except NotLeaderError:
            self._loop.hint()
        except (StaleVersionError, NodeExistsError, NoNodeError) as error:
            self.counts.conflicts += 1
            logger.info("pass met a conflict, running again cause=%s", error)
            self._epoch = None
            self._loop.hint()
        except ClusterError:
            self._epoch = None  # a write may be lost: the next pass reads everything
            raise
        self._cache.end_pass()

    def _run(self, fences: tuple[Check, ...], is_full: bool) -> None:
        # Messages before states: a participant writes its state and then deletes the message, so a message that is gone
        # from this reading has its effect in this reading.
        live = self._read_live_instances()
        self._read_messages(live)
        self._read_current_states(live)
        names = self._cache.children(self._paths.ideal_states)
        records = self._cache.read_resources([self._paths.ideal_state(name) for name in names])
        # Listed but not readable is not removed: such a resource is left alone, never dropped.
        unreadable = {name for name, record in zip(names, records, strict=True) if record is None}
        ideal_states = {
            name: IdealState.from_record(record)
            for name, record in zip(names, records, strict=True)
            if record is not None
        }
        record_of = dict(zip(names, records, strict=True))
        left_over = {resource for view in live.values() for resource in view.current_states}
        if is_full:
            left_over.update(self._store.children(self._paths.external_views))
        left_over.update(self._views)
        steps: list[tuple[Transition, str]] = []
        for resource in sorted((ideal_states.keys() | left_over) - unreadable):
            inputs = _inputs(resource, record_of.get(resource), live)
            if _is_same(self._done.get(resource), inputs):
                continue
            steps += self._run_resource(resource, ideal_states.get(resource), live, fences)
            self._done[resource] = inputs
        if not self._send(steps, live, fences):
            self._done.clear()  # some wait for room

    def _run_resource(
        self,
        resource: str,
        ideal_state: IdealState | None,
        live: dict[str, _LiveInstanceView],
        fences: tuple[Check, ...],
    ) -> list[tuple[Transition, str]]:
        model = _model_of(resource, ideal_state, live)
        if model is None:
            if ideal_state is None:
                self._write_view(resource, None, None, fences)
            return []
        instances = {
            instance: InstanceView(
                view.session,
                view.is_enabled,
                {partition: entry.state for partition, entry in view.current_states[resource].partitions.items()}
                if resource in view.current_states
                else {},
                frozenset(view.pending.get(resource, ())),
            )
            for instance, view in live.items()
        }
        plan = plan_resource(resource, ideal_state, model, instances)
        served = {
            instance: view.current_states[resource].partitions
            for instance, view in live.items()
            if resource in view.current_states
        }
        contents = contents_served(plan.external_view or {}, served)
        self._write_view(resource, ideal_state, plan.external_view, fences, contents)
        return [(step, model.name) for step in plan.transitions]

    # Reading

    def _read_live_instances(self) -> dict[str, _LiveInstanceView]:
        names = self._cache.children(self._paths.live_instances)
        live_records = self._cache.read([self._paths.live_instance(name) for name in names], ZNRecord.from_bytes)
        configs = self._cache.read([self._paths.instance_config(name) for name in names], ZNRecord.from_bytes)
        return {
            name: _LiveInstanceView(
                LiveInstance.from_record(live).session_id,
                config is None or is_instance_enabled(config.simple_fields),
                {},
            )
            for name, live, config in zip(names, live_records, configs, strict=True)
            if live is not None
        }

    def _read_messages(self, live: dict[str, _LiveInstanceView]) -> None:
        listed = dict(zip(live, self._cache.children_many([self._paths.messages(name) for name in live]), strict=True))
        unknown = [
            (instance, name) for instance, names in listed.items() for name in names if name not in self._messages
        ]
        nodes = self._store.get_many([self._paths.message(instance, name) for instance, name in unknown])
        for (_, name), node in zip(unknown, nodes, strict=True):
            if node is not None:
                try:
                    self._messages[name] = Message.from_record(ZNRecord.from_bytes(node[0], name))
                except DecodeError:
                    self._messages[name] = Message(name, {})  # its receiver discards it
        known, self._messages = self._messages, {}
        for instance, names in listed.items():
            view = live[instance]
            for name in names:
                message = known.get(name)
                if message is None:
                    continue
                self._messages[name] = message
                if message.target_session == view.session:
                    view.num_pending += 1
                    if message.kind == STATE_TRANSITION:
                        view.pending.setdefault(message.resource, set()).add(message.partition)

    def _read_current_states(self, live: dict[str, _LiveInstanceView]) -> None:
        folders = [self._paths.current_states(name, view.session) for name, view in live.items()]
        listed = self._cache.children_many(folders)
        to_read = [
            (instance, f"{folder}/{resource}")
            for instance, folder, names in zip(live, folders, listed, strict=True)
            for resource in names
        ]
        records = self._cache.read_resources([path for _, path in to_read])
        typed: dict[str, tuple[ZNRecord, CurrentState]] = {}
        for (instance, path), record in zip(to_read, records, strict=True):
            if record is None:
                continue
            known = self._current_states.get(path)
            typed[path] = (
                known if known is not None and known[0] is record else (record, CurrentState.from_record(record))
            )
            live[instance].current_states[record.id] = typed[path][1]
        self._current_states = typed

    # Writing

    def _write_view(
        self,
        resource: str,
        ideal_state: IdealState | None,
        partitions: PartitionStates | None,
        fences: Sequence[Check],
        contents: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        path = self._paths.external_view(resource)
        stored = self._views.pop(resource, None) or self._stored_view(path, fences)
        if partitions is None:
            if stored is not None:
                for ops in in_multis(plan_delete(self._store, path, stored)):
                    self._store.multi([*fences, *ops])
                self.counts.views_written += 1
            return
        fields = ideal_state.simple_fields if ideal_state is not None else stored.record.simple_fields if stored else {}
        shown = {key: value for key, value in fields.items() if key != "HELIX_ENABLED"}
        record = ExternalView(resource, partitions, shown, contents).to_record()
        plan = plan_write(path, stored, record, show_bucket_size=True)
        for ops in plan.transactions():
            self._store.multi([*fences, *ops])
        for ops in in_multis(plan.cleanup):
            self._store.multi(ops)
        if plan.commit:
            self.counts.views_written += 1
        new_stored = read_record(self._store, path) if plan.prepare or stored is None else stored.after(plan, record)
        if new_stored is not None:
            self._views[resource] = new_stored

    def _stored_view(self, path: str, fences: Sequence[Check]) -> StoredRecord | None:
        """What is stored; one that cannot be read is removed, as it is made anew of what instances say."""
        try:
            return read_record(self._store, path)
        except DecodeError as error:
            logger.warning("writing an external view anew that cannot be read path=%s cause=%s", path, error)
        deletes = [Delete(f"{path}/{name}") for name in self._store.children(path)]
        for ops in in_multis([*deletes, Delete(path)]):
            self._store.multi([*fences, *ops])
        return None

    def _send(
        self, steps: list[tuple[Transition, str]], live: dict[str, _LiveInstanceView], fences: tuple[Check, ...]
    ) -> bool:
        """Send as much as fits; whether that was all. One multi per instance and batch: a removed instance fails
        alone.
        """
        room = {instance: PENDING_PER_INSTANCE_MAX - view.num_pending for instance, view in live.items()}
        by_instance: dict[str, list[Message]] = {}
        sent_all = True
        now_ms, session = self._clock.now_ms(), self._store.session_id
        for step, model in steps:
            if room[step.instance] <= 0:
                sent_all = False
                continue
            room[step.instance] -= 1
            message = transition_message(step, model, source=self._source, source_session=session, now_ms=now_ms)
            by_instance.setdefault(step.instance, []).append(message)
        for instance, messages in by_instance.items():
            # The listing that this pass read lacks them: read it again, or the next pass sends them once more.
            self._cache.invalidate_children(self._paths.messages(instance))
            try:
                for ops in in_multis(create_op(self._paths, message) for message in messages):
                    self._store.multi([*fences, *ops])
                    self.counts.messages_sent += len(ops)
            except NoNodeError as error:
                logger.warning(
                    "an instance without message folder gets no transitions instance=%s cause=%s", instance, error
                )
                sent_all = False
                continue
            # Known from now on: their listing costs no read of each.
            self._messages.update((message.id, message) for message in messages)
            logger.info("sent transitions instance=%s count=%d", instance, len(messages))
        return sent_all

    def _on_session(self, _event: SessionEvent) -> None:
        self._loop.hint()


def _inputs(resource: str, ideal_record: ZNRecord | None, live: dict[str, _LiveInstanceView]) -> tuple[object, ...]:
    """What a resource's plan depends on; records are compared by identity, which the cache keeps while content is the
    same.
    """
    parts: list[object] = [ideal_record]
    for instance, view in live.items():
        parts += [
            instance,
            view.session,
            view.is_enabled,
            view.current_states.get(resource),
            frozenset(view.pending.get(resource, ())),
        ]
    return tuple(parts)


def _is_same(old: tuple[object, ...] | None, new: tuple[object, ...]) -> bool:
    if old is None or len(old) != len(new):
        return False
    return all(a is b or (isinstance(a, str | bool | frozenset) and a == b) for a, b in zip(old, new, strict=True))


def _model_of(resource: str, ideal_state: IdealState | None, live: dict[str, _LiveInstanceView]) -> StateModel | None:
    if ideal_state is not None:
        model = STATE_MODELS.get(ideal_state.state_model)
        if model is None:
            logger.warning(
                "no such state model, leaving the resource alone resource=%s state_model=%s",
                resource,
                ideal_state.state_model,
            )
        return model
    names = {view.current_states[resource].state_model for view in live.values() if resource in view.current_states}
    return next((STATE_MODELS[name] for name in sorted(names) if name in STATE_MODELS), None)
