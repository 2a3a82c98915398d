"""Runs the cluster of a data folder: starts its daemons, starts again what died, stops them in order.

    with the folder's lock held:   start() → tick() again and again → stop()

One thread does all of it. The kernel ends a daemon when the thread that launched it ends (local_cluster.py), so even
after SIGKILL of this process none runs on for long; what is still ending is waited for by the next one, by state.json.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import Final

from pinotpy.cli.compiled_kernels import first_are_compiled
from pinotpy.cli.daemon_process import DaemonProcess
from pinotpy.cli.local_cluster import LocalCluster
from pinotpy.cli.supervision.answering_tables import wait_for_answers
from pinotpy.cli.supervision.cluster_layout import ClusterLayout
from pinotpy.cli.supervision.data_folder import DataFolder
from pinotpy.cli.supervision.leftovers import make_room
from pinotpy.cli.supervision.process_identity import ProcessIdentity
from pinotpy.cli.supervision.restart_policy import ENDS_MAX, WINDOW_S, RestartPolicy
from pinotpy.cli.supervision.state_file import ClusterState, DaemonState, Failure, Phase
from pinotpy.client.controller import ControllerClient
from pinotpy.clock import Clock, SystemClock
from pinotpy.errors import RemoteError, UserError, storage_remedy
from pinotpy.service.zookeeper_jars import find_jars

# A machine that does much else takes its time; one that hangs is started anew.
START_TIMEOUT_S: Final = 300.0
ANSWERS_TIMEOUT_S: Final = 180.0
_PAUSE_S: Final = 0.1
_LOG_LINES: Final = 8
_LOG_BYTES_MAX: Final = 32 << 20


class StopAskedError(Exception):
    """The user asked to stop while the cluster was starting."""


class Supervisor:
    """Of one cluster; the caller holds the folder's lock. Not thread-safe.

    Args:
        me: this process.
        tell: is called with a line for the user.
        is_asked_to_stop: is looked at during waits of `start`, which then raises StopAskedError.
    """

    def __init__(
        self,
        folder: DataFolder,
        layout: ClusterLayout,
        me: ProcessIdentity,
        tell: Callable[[str], None],
        *,
        is_asked_to_stop: Callable[[], bool] = lambda: False,
        clock: Clock | None = None,
    ) -> None:
        self.folder, self.layout = folder, layout
        self.cluster = LocalCluster(folder.logs)
        self._tell, self._is_asked, self._clock = tell, is_asked_to_stop, clock or SystemClock()
        self._arguments = layout.arguments(folder.path)
        ports = layout.ports()
        self.state = ClusterState(me, self._clock.now_ms())
        self.state.daemons = {name: DaemonState(port=ports[name]) for name in self._arguments}
        self._policies = {name: RestartPolicy(self._clock) for name in self._arguments}
        self._due_ns = dict.fromkeys(self._arguments, 0)
        self._cannot_save = False

    # --- start ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Returns when queries work; what does not answer although all that can serve does is in `state.warnings`.

        Raises RemoteError or UserError with what a daemon said that did not start, StopAskedError; UserError if
        state.json cannot be written: who waits for the start, looks or stops would not learn what runs.
        """
        make_room(self.folder, self.layout, self._tell, self._pause)
        self._save_or_fail()
        self._shorten_logs()
        if not first_are_compiled():
            self._do("compiling kernels, once for this CPU")
            self.cluster.compile_kernels(self._pause, self._do)
        find_jars(self._do)
        self._do("starting ZooKeeper")
        self._start(["zookeeper"])
        others = [name for name in self._arguments if name != "zookeeper"]
        self._do(f"starting {', '.join(others)}")
        self._start(others)
        self._do("waiting until every table answers")
        self.state.warnings = [*self.layout.warnings(self.folder.path), *self._wait_for_answers()]
        self.state.phase, self.state.doing = Phase.SERVING, ""
        self._save_or_fail()

    def _shorten_logs(self) -> None:
        for log in self.folder.logs.glob("*.log"):
            if log != self.folder.supervisor_log and log.stat().st_size > _LOG_BYTES_MAX:
                log.replace(log.with_suffix(".log.old"))
                self._tell(f"{log.name} was larger than {_LOG_BYTES_MAX >> 20} MiB: it is {log.name}.old now")

    def _start(self, names: list[str]) -> None:
        for name in names:
            self._launch(name)
        while any(self.state.daemons[name].phase is not Phase.SERVING for name in names):
            for name in names:
                self._look(name)
                failure = self.state.daemons[name].failure
                if failure is not None:
                    raise RemoteError(f"{failure.reason}; the end of its log:\n{failure.log_tail}")
            self._pause(_PAUSE_S)

    def _wait_for_answers(self) -> list[str]:
        deadline_ns = self._clock.monotonic_ns() + int(ANSWERS_TIMEOUT_S * 1e9)
        shown = [""]

        def tell(text: str) -> None:
            if text != shown[0]:
                shown[0] = text
                self._do(f"waiting until every table answers: {text}")

        def pause() -> None:
            self.tick()
            self._pause(_PAUSE_S)

        daemons = self.state.daemons
        with ControllerClient(daemons["controller"].url) as client:
            return wait_for_answers(
                client, daemons["broker"].url, lambda: self._clock.monotonic_ns() > deadline_ns, tell, pause
            )

    # --- watch ------------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Look at every daemon once, and do what is due."""
        for name in self._arguments:
            self._look(name)

    def _look(self, name: str) -> None:
        daemon, state = self.cluster.daemons.get(name), self.state.daemons[name]
        if state.phase is Phase.WAITING:
            # The others cannot start without ZooKeeper, and would only use up their attempts.
            has_store = name == "zookeeper" or self.state.daemons["zookeeper"].phase is Phase.SERVING
            if has_store and self._clock.monotonic_ns() >= self._due_ns[name]:
                state.restarts += 1
                self._launch(name)
        elif daemon is None or state.phase not in (Phase.STARTING, Phase.SERVING):
            return
        elif daemon.process.poll() is not None:
            self._ended(daemon, _how_it_ended(daemon))
        elif state.phase is Phase.STARTING:
            self._look_at_start(daemon, state)

    def _look_at_start(self, daemon: DaemonProcess, state: DaemonState) -> None:
        try:
            is_ready = daemon.look_ready()
        except RemoteError:
            self._ended(daemon, _how_it_ended(daemon))
            return
        if is_ready:
            state.url = daemon.ready.get("url", "")
            self._enter(state, Phase.SERVING)
            if state.restarts:
                self._tell(f"{daemon.name} serves again (process {daemon.pid})")
        elif self._clock.now_ms() - state.since_ms > START_TIMEOUT_S * 1000:
            self.cluster.kill(daemon.name)
            self._ended(daemon, f"was not ready within {START_TIMEOUT_S:g} s and was killed")

    def _launch(self, name: str) -> None:
        daemon = self.cluster.launch(name, *self._arguments[name])
        state = self.state.daemons[name]
        state.process, state.url = ProcessIdentity.of(daemon.pid), ""
        self._enter(state, Phase.STARTING)

    def _ended(self, daemon: DaemonProcess, how: str) -> None:
        name, state = daemon.name, self.state.daemons[daemon.name]
        has_served = state.phase is Phase.SERVING or state.restarts > 0  # else `start` says it
        reason = f"{name} (process {daemon.pid}) {how}"
        tail = daemon.log_tail(_LOG_LINES)
        state.failure = Failure(self._clock.now_ms(), reason, tail)
        state.process, state.url = None, ""
        wait_s = self._policies[name].after_end()
        lines = "\n".join(f"    {line}" for line in tail.splitlines()) or "    (empty)"
        if wait_s is None:
            self._enter(state, Phase.FAILED)
            self._tell(
                f"{reason}; it has ended more than {ENDS_MAX} times in {WINDOW_S / 60:g} minutes and is not started "
                f"again: mend what its log says ({daemon.log}), then `pinotpy down` and `pinotpy up`. Its last "
                f"lines:\n{lines}"
            )
            return
        self._due_ns[name] = self._clock.monotonic_ns() + int(wait_s * 1e9)
        self._enter(state, Phase.WAITING)
        if has_served:
            self._tell(f"{reason}; it is started again in {wait_s:g} s. The last lines of {daemon.log}:\n{lines}")

    # --- stop -------------------------------------------------------------------------------------------------------

    def stop(self) -> dict[str, int]:
        """Stop who asks before who is asked: broker, servers, controller, ZooKeeper. Returns exit statuses that are not
        clean.
        """
        self.state.phase, self.state.doing = Phase.STOPPING, ""
        self._save()
        running = self.cluster.daemons
        servers = [name for name in running if name.startswith("server-")]
        unclean: dict[str, int] = {}
        for group in (["warmup"], ["broker"], servers, ["controller"], ["zookeeper"]):
            present = [name for name in group if name in running]
            for name in present:
                running[name].ask_to_stop()
            for name in present:
                was_running = running[name].told_to_stop
                status = self.cluster.stop(name)
                # One that had not come as far as its own handler was ended by the signal itself.
                if was_running and status not in (0, -signal.SIGTERM):
                    unclean[name] = status
                if name in self.state.daemons:
                    self.state.daemons[name].process = None
                    self._enter(self.state.daemons[name], Phase.STOPPED)
        self.cluster.stop_all()
        self.state.phase = Phase.STOPPED
        self._save()
        return unclean

    # --- told -------------------------------------------------------------------------------------------------------

    def _do(self, text: str) -> None:
        self.state.doing = text
        self._save()
        self._tell(text)

    def _enter(self, state: DaemonState, phase: Phase) -> None:
        state.phase, state.since_ms = phase, self._clock.now_ms()
        self._save()

    def _save_or_fail(self) -> None:
        try:
            self.state.save(self.folder)
        except OSError as error:
            raise UserError(
                f"state.json in the data folder '{self.folder.path}' cannot be written: "
                f"{(error.strerror or str(error)).lower()}; {storage_remedy(error)}"
            ) from error

    def _save(self) -> None:
        try:
            self.state.save(self.folder)
            self._cannot_save = False
        except OSError as error:
            # A full disk is no reason to end daemons that serve.
            if not self._cannot_save:
                self._tell(f"state.json cannot be written ({error.strerror}): `pinotpy status` shows old facts")
            self._cannot_save = True

    def _pause(self, seconds: float) -> None:
        time.sleep(seconds)
        if self._is_asked():
            raise StopAskedError


def _how_it_ended(daemon: DaemonProcess) -> str:
    status = daemon.process.wait()
    if status < 0:
        names = {number.value: number.name for number in signal.Signals}
        return f"was ended by {names.get(-status, f'signal {-status}')}"
    words = daemon.last_words()
    return f"ended with status {status}{': ' if words else ''}{words}"
