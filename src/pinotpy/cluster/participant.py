"""A server's or broker's part: take messages, run transitions, show current states; survive a lost session.

`step` does one pass and is called by the loop's thread: hinted by watches and by finished transitions, and
periodically. Transitions run in a bounded pool, one at a time per partition; what they lead to is written by the next
pass, all of a resource together. The states in memory (own_states.py) are the truth: after a lost session they are
announced anew, nothing is unloaded.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from pinotpy.clock import Clock, SystemClock
from pinotpy.cluster.buckets import in_multis, read_record
from pinotpy.cluster.membership import (
    Member,
    announce_within,
    check_cluster_id,
    create_folders,
    is_announced,
    remove_earlier_sessions,
    set_instance_field,
    write_history,
    write_instance_config,
)
from pinotpy.cluster.own_states import INFO_CHARS_MAX, OwnStates
from pinotpy.cluster.paths import ClusterPaths
from pinotpy.cluster.process_identity import StartOf
from pinotpy.cluster.reconcile_loop import ReconcileLoop
from pinotpy.cluster.records import ZNRecord
from pinotpy.cluster.state_model import STATE_MODELS
from pinotpy.cluster.store import ClusterStore, Delete, SessionEvent, SessionState, SetData
from pinotpy.cluster.views import CONSUMING, DROPPED, ERROR, STATE_TRANSITION, USER_DEFINE_MSG, Message, PartitionState
from pinotpy.errors import ClusterError, DecodeError, NoNodeError

logger = logging.getLogger(__name__)

PERIOD_S = 2.0
FULL_PERIOD_S = 30.0
WORKERS = 8
# A live session of another process on the same instance id: wait this long for it to end, then give up.
ANNOUNCE_TIMEOUT_S = 60.0
_ACCEPTED_MAX = 10_000
_IDLE_POLL_S = 0.02


class TransitionHandler(Protocol):
    """What an instance does. Called on pool threads, one call at a time per (resource, partition)."""

    def on_transition(self, resource: str, partition: str, from_state: str, to_state: str) -> None:
        """Make the step; return when it is made. Raising ends the partition in ERROR with the error's text, unless the
        cluster does not want it here any more.
        """
        ...

    def on_message(self, message: Message) -> None:
        """A user message (REFRESH_SEGMENT, RELOAD_SEGMENT …). Raising is logged; the message is gone either way."""
        ...


class TransitionExecutor(Protocol):
    """Runs transitions; simulations bring their own."""

    def submit(self, work: Callable[[], None], /) -> object: ...


class Participant:
    """One instance in the cluster; see the module docstring.

    Args:
        executor: where transitions run; by default two pools of `workers` threads: steps out of CONSUMING wait for
            builds and uploads, and must not keep other segments from being loaded.
    """

    def __init__(
        self,
        store: ClusterStore,
        paths: ClusterPaths,
        member: Member,
        handler: TransitionHandler,
        *,
        workers: int = WORKERS,
        clock: Clock | None = None,
        executor: TransitionExecutor | None = None,
        start_of: StartOf | None = None,
        announce_timeout_s: float = ANNOUNCE_TIMEOUT_S,
    ) -> None:
        self._store = store
        self._paths = paths
        self._member = member
        self._handler = handler
        self._clock = clock or SystemClock()
        self._start_of = start_of
        self._announce_timeout_s = announce_timeout_s
        self._pool = (
            None if executor else ThreadPoolExecutor(workers, thread_name_prefix=f"transition-{member.instance}")
        )
        self._executor = executor or self._pool
        self._sealing = (
            None if executor else ThreadPoolExecutor(workers, thread_name_prefix=f"sealing-{member.instance}")
        )
        self._lock = threading.Lock()  # guards what the pool's threads touch: the next five
        self._states = OwnStates(store, paths, member.instance, self._lock)
        self._accepted: dict[str, Message] = {}
        self._running: set[tuple[str, str]] = set()
        self._finished: list[str] = []
        self._num_executing = 0
        self._session = ""  # whose current states are written
        self._joined_session = ""  # set when joining was done to its end
        self._cluster_id = ""
        self._is_shutting_down = False
        self._messages_changed = True
        self._loop = ReconcileLoop(
            f"participant-{member.instance}",
            self.step,
            period_s=PERIOD_S,
            full_period_s=FULL_PERIOD_S,
            clock=self._clock,
        )

    @property
    def instance(self) -> str:
        return self._member.instance

    @property
    def is_live(self) -> bool:
        """Whether the cluster sees this instance, as far as we know."""
        return (
            bool(self._joined_session)
            and self._store.state is SessionState.CONNECTED
            and self._store.session_id == self._joined_session
        )

    def states(self, resource: str) -> dict[str, str]:
        """partition → state as this instance has it."""
        return self._states.of(resource)

    def fail(self, resource: str, partition: str, reason: str) -> None:
        """A partition can no longer be served: set it to ERROR, as after a failed transition. Does nothing if it is not
        here.
        """
        if self._states.fail(resource, partition, reason, self._clock.now_ms()):
            self._loop.hint()

    def serve(self, resource: str, partition: str, content: str) -> None:
        """Tell which content of a partition is served; empty: not told. A handler says so before its transition to
        ONLINE ends, and whenever the content is replaced.
        """
        with self._lock:
            is_to_be_written = self._states.serve(resource, partition, content)
        if is_to_be_written:
            self._loop.hint()

    def promise(self, resource: str, partition: str, promise: str) -> None:
        """Tell what all rows of a partition that takes rows keep to; empty: nothing."""
        with self._lock:
            is_to_be_written = self._states.promise(resource, partition, promise)
        if is_to_be_written:
            self._loop.hint()

    def start(self) -> None:
        """Join (blocking) and keep going on a thread. Raises AlreadyExistsError, ConnectionLostError."""
        self._store.add_session_listener(self._on_session)
        self._join()
        self._loop.start()
        self._loop.hint()

    def announce_shutdown(self) -> None:
        """Set shutdownInProgress, upon which brokers send no more queries; the caller then drains and calls `stop`."""
        self._is_shutting_down = True
        set_instance_field(self._store, self._paths, self.instance, "shutdownInProgress", "true")

    def stop(self, timeout_s: float = 10.0) -> None:
        """Leave the cluster: running transitions finish, last states are written, the live node is removed. The store
        stays open.
        """
        self._loop.stop(timeout_s)
        if self._pool is not None and self._sealing is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._sealing.shutdown(wait=False, cancel_futures=True)
            self._wait_until_idle(timeout_s)
        self._store.remove_session_listener(self._on_session)
        if not self.is_live:
            return
        try:
            self._write_states()
            self._store.delete(self._paths.live_instance(self.instance))
            self._store.delete(self._paths.current_states(self.instance, self._session), recursive=True)
        except ClusterError as error:
            logger.info("leaving was not written, the session's end will do instance=%s cause=%s", self.instance, error)
        self._joined_session = ""

    def step(self, is_full: bool = True) -> None:
        """One pass: be a member, take messages, write states. Raises ConnectionLostError; the next pass goes on."""
        if self._store.state is not SessionState.CONNECTED:
            return
        if self._store.session_id != self._joined_session or (
            is_full and not is_announced(self._store, self._paths, self.instance, self._session)
        ):
            self._join()
        if is_full:
            self._messages_changed = True
        self._write_states()
        if self._messages_changed:
            self._take_messages()

    def _wait_until_idle(self, timeout_s: float) -> None:
        deadline_ns = self._clock.monotonic_ns() + int(timeout_s * 1e9)
        while self._num_executing and self._clock.monotonic_ns() < deadline_ns:
            self._clock.wait(threading.Event(), _IDLE_POLL_S)
        if self._num_executing:
            logger.warning(
                "leaving while transitions run instance=%s count=%d timeout_s=%s",
                self.instance,
                self._num_executing,
                timeout_s,
            )

    # Membership

    def _join(self) -> None:
        session = self._store.session_id
        self._cluster_id = check_cluster_id(self._store, self._paths, self._cluster_id)
        write_instance_config(self._store, self._paths, self._member, is_shutting_down=self._is_shutting_down)
        create_folders(self._store, self._paths, self.instance)
        # States first, then the live node: the view of this instance goes from the old session's states to these at
        # once.
        sessions_path = self._paths.current_states(self.instance, session)
        if self._store.exists(sessions_path) is None:
            self._store.create(sessions_path, make_parents=True)
        self._states.begin_session(session)
        self._session = session
        self._write_states()
        announce_within(
            self._store,
            self._paths,
            self._member,
            timeout_s=self._announce_timeout_s,
            clock=self._clock,
            start_of=self._start_of,
        )
        remove_earlier_sessions(self._store, self._paths, self.instance, session)
        self._messages_changed = True
        self._joined_session = session
        write_history(self._store, self._paths, self._member, self._clock.now_ms())
        logger.info("joined cluster=%s instance=%s session=%s", self._paths.cluster, self.instance, session)

    def _on_session(self, event: SessionEvent) -> None:
        if event.state is SessionState.CONNECTED:
            self._messages_changed = True
            self._loop.hint()

    # Messages

    def _take_messages(self) -> None:
        self._messages_changed = False
        try:
            names = self._store.children(self._paths.messages(self.instance), self._on_message_hint)
            with self._lock:
                new = [name for name in names if name not in self._accepted][: _ACCEPTED_MAX - len(self._accepted)]
            nodes = self._store.get_many([self._paths.message(self.instance, name) for name in new])
        except ClusterError:
            self._messages_changed = True
            raise
        taken: list[Message] = []
        discarded: list[str] = []
        messages: list[Message] = []
        for name, node in zip(new, nodes, strict=True):
            try:
                messages += (
                    [Message(name, Message.from_record(ZNRecord.from_bytes(node[0], name)).fields)] if node else []
                )
            except DecodeError as error:
                logger.warning(
                    "discarding a message that cannot be read instance=%s message=%s cause=%s",
                    self.instance,
                    name,
                    error,
                )
                discarded.append(name)
        if any(not self._is_for_us(message) for message in messages) and not is_announced(
            self._store, self._paths, self.instance, self._session
        ):
            return  # another process may have taken our place, and these are meant for it
        for message in messages:
            self._sort_in(message, taken, discarded)
        # What is accepted runs, whatever becomes of the writes below: nobody would take it up again.
        for message in taken:
            executor = (self._sealing if message.from_state == CONSUMING else None) or self._executor
            assert executor is not None
            executor.submit(lambda message=message: self._execute(message))  # type: ignore[misc]
        self._mark_read(taken)
        try:
            self._delete_messages(discarded)
        except ClusterError:
            self._messages_changed = True
            raise

    def _is_for_us(self, message: Message) -> bool:
        return message.target_session in (self._session, "*")

    def _sort_in(self, message: Message, taken: list[Message], discarded: list[str]) -> None:
        """Accept, discard, or leave for later (while its partition has a transition running)."""
        key = (message.resource, message.partition)
        with self._lock:
            if key in self._running:
                return
            reason = self._reason_to_discard(message)
            if reason is None:
                self._running.add(key)
                self._accepted[message.id] = message
                taken.append(message)
                return
        discarded.append(message.id)
        if reason:
            logger.info(
                "discarding message instance=%s message=%s kind=%s partition=%s reason=%s",
                self.instance,
                message.id,
                message.kind,
                message.partition,
                reason,
            )

    def _reason_to_discard(self, message: Message) -> str | None:
        """None to accept; "" to discard without a word (a duplicate). Holds the lock."""
        if not self._is_for_us(message):
            return f"meant for session {message.target_session}"
        if message.kind == USER_DEFINE_MSG:
            return None
        if message.kind != STATE_TRANSITION:
            return ""
        model = STATE_MODELS.get(message.state_model)
        if model is None:
            return f"unknown state model '{message.state_model}'"
        entry = self._states.entry(message.resource, message.partition)
        state = entry.state if entry else model.initial_state
        if state == message.to_state or (entry is None and message.to_state == DROPPED):
            return ""
        if state != message.from_state:
            return f"state is {state}, not {message.from_state}"
        return (
            None
            if model.is_transition(message.from_state, message.to_state)
            else f"no transition {message.from_state} to {message.to_state}"
        )

    def _execute(self, message: Message) -> None:
        started_ms = self._clock.now_ms()
        state, info = message.to_state, ""
        with self._lock:
            self._num_executing += 1
        try:
            if message.kind == USER_DEFINE_MSG:
                self._handler.on_message(message)
            else:
                self._handler.on_transition(message.resource, message.partition, message.from_state, message.to_state)
        except Exception as error:
            info = f"{type(error).__name__}: {error}"[:INFO_CHARS_MAX]
            what = message.subtype or message.kind
            where = (self.instance, message.resource, message.partition)
            if message.kind == STATE_TRANSITION and self._is_given_up(message):
                # It stays as it is, until the step that drops it comes.
                logger.info("%s of what is deleted instance=%s resource=%s partition=%s reason=%s", what, *where, info)
                state, info = message.from_state, ""
            else:
                state = ERROR
                logger.exception("%s failed instance=%s resource=%s partition=%s", what, *where)
        ended_ms = self._clock.now_ms()
        with self._lock:
            if message.kind == STATE_TRANSITION:
                entry = PartitionState(state, message.from_state, started_ms, ended_ms, info, message.source)
                self._states.set(message.resource, message.state_model, message.partition, entry)
            self._running.discard((message.resource, message.partition))
            self._finished.append(message.id)
            self._num_executing -= 1
        if message.kind == STATE_TRANSITION:
            logger.info(
                "transition instance=%s resource=%s partition=%s from=%s to=%s took_ms=%d",
                self.instance, message.resource, message.partition, message.from_state, state, ended_ms - started_ms,
            )  # fmt: skip
        self._messages_changed = True
        self._loop.hint()

    def _is_given_up(self, message: Message) -> bool:
        """Whether the cluster does not want a partition here any more: that a step towards serving it was not made is
        no failure then.
        """
        if message.to_state == DROPPED:
            return False
        try:
            ideal = read_record(self._store, self._paths.ideal_state(message.resource))
        except ClusterError:
            return False
        return ideal is None or self.instance not in ideal.record.map_fields.get(message.partition, {})

    def _mark_read(self, messages: Sequence[Message]) -> None:
        """As Helix does, for operators and tools; nothing depends on it."""
        now_ms = self._clock.now_ms()
        for ops in in_multis(
            SetData(
                self._paths.message(self.instance, message.id),
                message.as_read(self._session, now_ms).to_record().to_bytes(),
            )
            for message in messages
        ):
            try:
                self._store.multi(ops)
            except ClusterError as error:
                logger.info(
                    "messages were not marked as read instance=%s count=%d cause=%s", self.instance, len(ops), error
                )

    def _delete_messages(self, names: Sequence[str]) -> None:
        for ops in in_multis(Delete(self._paths.message(self.instance, name)) for name in names):
            try:
                self._store.multi(ops)
            except NoNodeError:
                for op in ops:
                    self._store.delete(op.path, recursive=True)

    # States

    def _write_states(self) -> None:
        """Write changed resources, then delete the messages that led there: never the other way round."""
        with self._lock:
            finished, self._finished = self._finished, []
            changed = self._states.take_changed()
        try:
            self._states.write(changed)
            self._delete_messages(finished)
        except ClusterError:
            with self._lock:
                self._finished = finished + self._finished
                self._states.put_back(changed)
            raise
        with self._lock:
            for message_id in finished:
                self._accepted.pop(message_id, None)

    def _on_message_hint(self, _path: str) -> None:
        self._messages_changed = True
        self._loop.hint()
