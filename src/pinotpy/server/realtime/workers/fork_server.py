"""Starts processes of ingestion by forking one that has everything imported and its kernels loaded.

A new interpreter takes one to two seconds until it has imported Arrow and numba, a fork some milliseconds. The server
itself cannot be forked: it has threads. Reference: the fork server of Python's `multiprocessing`, which would import
the server's main module into every process.
"""

from __future__ import annotations

import json
import logging
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pinotpy
from pinotpy.errors import DataError
from pinotpy.server.realtime.workers.channel import Channel

log = logging.getLogger(__name__)

# It may be loading kernels, on a machine with other work.
_ANSWER_S: Final = 300.0
_END_S: Final = 5.0


class ForkServer:
    """The server's side; any thread may ask. The process begins with the first request, and anew if it ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None

    @property
    def pid(self) -> int:
        """0 if it does not run."""
        return 0 if self._process is None else self._process.pid

    def prepare(self) -> None:
        """Begin the process now, with its kernels loaded before it forks the first time. Returns at once; if that
        fails, `fork` tells.
        """
        with self._lock:
            if self._channel is not None:
                return
            try:
                self._begin()
                assert self._channel is not None
                self._channel.send(pickle.dumps(("prepare",)))
            except OSError as error:
                log.warning("fork server of ingestion cannot be begun beforehand reason=%s", error)
                self._stop()

    def fork(self, program: str, *arguments: Any) -> ForkedProcess:
        """Start a process.

        Args:
            program, arguments: see fork_process.PROGRAMS; arguments are pickled.

        Raises OSError if it cannot be started.
        """
        ours, theirs = socket.socketpair()
        channel = Channel(ours)
        try:
            with theirs:
                answer = self._ask(("fork", program, arguments), theirs.fileno())
            return ForkedProcess(self, answer["pid"], channel)
        except BaseException:
            channel.close()
            raise

    def reap(self, pid: int) -> str:
        """How a process of `fork` ended, which it has; may be called once."""
        try:
            with self._lock:
                if self._channel is None:
                    raise OSError("the fork server does not run")
                return str(self._exchange(("reap", pid), None)["status"])
        except OSError:
            return "unknown: the process that started it ended as well"

    def close(self) -> None:
        with self._lock:
            self._stop()

    def _ask(self, request: tuple[Any, ...], descriptor: int) -> dict[str, Any]:
        with self._lock:
            if self._channel is not None:
                try:
                    return self._exchange(request, descriptor)
                except OSError as error:
                    log.warning("fork server of ingestion ended, it is begun again reason=%s", error)
            self._begin()
            return self._exchange(request, descriptor)

    def _exchange(self, request: tuple[Any, ...], descriptor: int | None) -> dict[str, Any]:
        """Raises OSError: it ended, does not answer, or cannot fork."""
        channel = self._channel
        assert channel is not None
        try:
            channel.send(pickle.dumps(request), descriptor)
            while (received := channel.receive()) is not None:
                answer: dict[str, Any] = json.loads(received[0])
                if answer["kind"] == "log":
                    logging.getLogger(answer["name"]).log(answer["level"], "%s", answer["message"])
                elif answer["kind"] == "failed":
                    raise ChildProcessError(answer["reason"])
                else:
                    return answer
            raise OSError("its socket was closed")
        except ChildProcessError:
            raise
        except (OSError, DataError) as error:
            self._stop()
            raise OSError(f"the fork server of ingestion does not answer: {error}") from error

    def _begin(self) -> None:
        ours, theirs = socket.socketpair()
        # It imports this very package, however this process found it.
        path = os.pathsep.join(filter(None, [str(Path(pinotpy.__file__).parent.parent), os.environ.get("PYTHONPATH")]))
        # Threads of a linear algebra that nobody uses would have to be forked, too.
        environment = {**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "pinotpy.server.realtime.workers.fork_process", str(theirs.fileno())]
        try:
            self._process = subprocess.Popen(
                command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, env=environment
            )
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        self._channel = Channel(ours)
        self._channel.limit_waits(_ANSWER_S)

    def _stop(self) -> None:
        channel, self._channel = self._channel, None
        process, self._process = self._process, None
        if channel is not None:
            channel.shut()
            channel.close()
        if process is not None:
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class ForkedProcess:
    """A process that was forked, and the channel to it. It ends when the channel does."""

    def __init__(self, fork_server: ForkServer, pid: int, channel: Channel) -> None:
        self._fork_server = fork_server
        self.pid = pid
        self.channel = channel
        # Names this process for ever, whatever gets its number later.
        self._descriptor = os.pidfd_open(pid)

    def end(self) -> str:
        """Make sure that it is gone, and return how it ended; may be called once."""
        self.channel.shut()
        try:
            if not self._has_ended(_END_S):
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)
                if not self._has_ended(_END_S):
                    return "unknown: it does not end"
        finally:
            os.close(self._descriptor)
            self.channel.close()
        return self._fork_server.reap(self.pid)

    def _has_ended(self, patience_s: float) -> bool:
        ending = select.poll()
        ending.register(self._descriptor, select.POLLIN)
        return bool(ending.poll(patience_s * 1_000))
