"""Election of the lead controller: one ephemeral node, and an epoch that fences its writes.

Taking CONTROLLER/LEADER and bumping CONTROLLER/EPOCH is one multi. A leader puts `fence()` into each of its writes: a
check of the epoch's version. A deposed leader that does not know it yet (paused, cut off) cannot write. SUSPENDED
means: stop at once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from pinotpy.clock import Clock, SystemClock
from pinotpy.cluster.paths import ClusterPaths
from pinotpy.cluster.process_identity import ProcessIdentity, StartOf, is_gone, this_process
from pinotpy.cluster.records import ZNRecord
from pinotpy.cluster.store import Check, ClusterStore, Create, Delete, Op, SessionState, SetData
from pinotpy.cluster.views import LiveInstance
from pinotpy.errors import ClusterError, NodeExistsError, NoNodeError, NotLeaderError, StaleVersionError
from pinotpy.names import split_instance_id

logger = logging.getLogger(__name__)

_HISTORY_MAX = 20
_ROLE_PREFIX = "Controller_"


class LeaderElection:
    """One controller's part in the election. `step` is called by its owner's loop, when hinted and periodically.

    Args:
        instance: `Controller_<host>_<port>`; the LEADER node's id is Helix's form without the role.
        on_hint: called when `step` should run again; the pipeline that is given this election sets it.
    """

    def __init__(
        self,
        store: ClusterStore,
        paths: ClusterPaths,
        instance: str,
        *,
        on_hint: Callable[[], None] = lambda: None,
        clock: Clock | None = None,
        process: ProcessIdentity | None = None,
        start_of: StartOf | None = None,
        version: str = "",
    ) -> None:
        self._store = store
        self._paths = paths
        self._id = instance.removeprefix(_ROLE_PREFIX)
        self.on_hint = on_hint
        self._clock = clock or SystemClock()
        self._process = process or this_process()
        self._start_of = start_of
        self._version = version
        self._lead: tuple[str, int] | None = None  # (session, epoch)

    @property
    def is_leading(self) -> bool:
        """False from the moment the connection breaks, before any callback."""
        lead = self._lead
        return lead is not None and self._store.state is SessionState.CONNECTED and self._store.session_id == lead[0]

    @property
    def epoch(self) -> int:
        """The epoch in which this controller leads; raises NotLeaderError."""
        lead = self._lead
        if lead is None or not self.is_leading:
            raise NotLeaderError(
                f"controller '{self._id}' does not lead; ask "
                f"{leader_instance(self._store, self._paths) or 'again, no controller leads now'}"
            )
        return lead[1]

    def fence(self) -> tuple[Check, ...]:
        """The checks that each write of the leader carries; raises NotLeaderError."""
        return (Check(self._paths.leader_epoch, self.epoch),)

    def step(self) -> bool:
        """Check the leader node, and stand for election if nobody leads; return whether this controller leads now."""
        if self._store.state is not SessionState.CONNECTED:
            self._follow("connection lost")
            return False
        session = self._store.session_id
        try:
            data, stat = self._store.get(self._paths.leader, self._hint)
        except NoNodeError:
            return self._stand(session, [])
        if stat.ephemeral_owner == session:
            if self._lead is None or self._lead[0] != session:
                # Elected, but the reply was lost; nobody else bumps the epoch while the node is ours.
                epoch = self._store.exists(self._paths.leader_epoch)
                assert epoch is not None
                self._take(session, epoch.version)
            return True
        self._follow("another controller leads")
        leader = LiveInstance.from_record(ZNRecord.from_bytes(data, self._paths.leader))
        if is_gone(leader, self._process, self._start_of):
            logger.info("leader process is gone, taking over leader=%s process=%s", leader.instance, leader.process)
            return self._stand(session, [Delete(self._paths.leader, stat.version)])
        return False

    def resign(self) -> None:
        """Give up the lead; another controller takes over immediately."""
        lead, self._lead = self._lead, None
        if lead is None or self._store.session_id != lead[0]:
            return
        try:
            self._store.multi([Check(self._paths.leader_epoch, lead[1]), Delete(self._paths.leader)])
        except ClusterError as error:
            logger.info(
                "resignation was not written, the session's end will do controller=%s cause=%s", self._id, error
            )

    def _stand(self, session: str, before: list[Op]) -> bool:
        epoch = self._store.exists(self._paths.leader_epoch)
        if epoch is None:
            self._store.create(self._paths.leader_epoch, make_parents=True)
            epoch = self._store.exists(self._paths.leader_epoch)
            assert epoch is not None
        me = LiveInstance(
            self._id, session, self._process.name, self._process.space, self._process.start, self._version
        )
        try:
            self._store.multi(
                [
                    *before,
                    Create(self._paths.leader, me.to_record().to_bytes(), ephemeral=True),
                    SetData(self._paths.leader_epoch, self._id.encode(), epoch.version),
                ]
            )
        except (NodeExistsError, StaleVersionError, NoNodeError):
            self._store.exists(self._paths.leader, self._hint)
            self.on_hint()  # somebody was faster: look again
            return False
        self._store.exists(self._paths.leader, self._hint)
        self._take(session, epoch.version + 1)
        return True

    def _take(self, session: str, epoch: int) -> None:
        self._lead = (session, epoch)
        logger.info("leading controller=%s epoch=%d session=%s", self._id, epoch, session)
        try:
            self._write_history()
        except ClusterError as error:
            logger.info("controller history was not written cause=%s", error)

    def _follow(self, reason: str) -> None:
        if self._lead is not None:
            logger.info("no longer leading controller=%s epoch=%d reason=%s", self._id, self._lead[1], reason)
            self._lead = None

    def _write_history(self) -> None:
        path = self._paths.controller_history
        entry = f"{{CONTROLLER={self._id}, VERSION={self._version}, TIME={self._clock.now_ms()}}}"
        try:
            data, stat = self._store.get(path)
        except NoNodeError:
            self._store.create(path, ZNRecord("HISTORY", {}, {}, {"HISTORY": [entry]}).to_bytes())
            return
        record = ZNRecord.from_bytes(data, path)
        record.list_fields["HISTORY"] = [*record.list_fields.get("HISTORY", []), entry][-_HISTORY_MAX:]
        self._store.set(path, record.to_bytes(), stat.version)

    def _hint(self, _path: str) -> None:
        self.on_hint()


def leader_url(store: ClusterStore, paths: ClusterPaths, scheme: str) -> str | None:
    """Base URL of the lead controller's REST, None while nobody leads. Raises what `store` raises."""
    leader = leader_instance(store, paths)
    if leader is None:
        return None
    _, host, port = split_instance_id(leader)
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def leader_instance(store: ClusterStore, paths: ClusterPaths) -> str | None:
    """`Controller_<host>_<port>` of the lead controller, or None while nobody leads."""
    try:
        data, _ = store.get(paths.leader)
    except NoNodeError:
        return None
    return _ROLE_PREFIX + ZNRecord.from_bytes(data, paths.leader).id
