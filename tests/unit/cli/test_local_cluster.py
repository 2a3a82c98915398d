"""Proves with toy daemons: the ready line is read with its keys; a daemon that is late, crashes or refuses to start is
told with the end of its log; a chatty one never blocks; and stopping asks once by SIGTERM, has what does not listen
write where it hangs and end, kills what does not even that, and reports statuses. None outlives its parent.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pinotpy.cli import local_cluster
from pinotpy.cli.local_cluster import LocalCluster
from pinotpy.errors import RemoteError
from pinotpy.kernels.compiling import Stage
from pinotpy.service.ports import free_port, is_free

TOY = """
import faulthandler, os, signal, sys, time
faulthandler.enable()
kind, stopped = sys.argv[1], []
if kind == "warmup":  # until a file in this folder says with which status
    end = os.path.join(os.path.dirname(__file__), "warmup.end")
    while not os.path.exists(end): time.sleep(0.01)
    print("warmup of", sys.argv[2:], file=sys.stderr, flush=True)
    raise SystemExit(int(open(end).read()))
signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
print("log of", kind, file=sys.stderr, flush=True)
if kind == "crash":
    raise SystemExit(7)
if kind == "refuse":
    print("pinotpy toy: cannot start: port 1 is taken", file=sys.stderr, flush=True)
    raise SystemExit(1)
if kind == "chatty":
    for _ in range(20000): print("x" * 100)
if kind != "late":
    print(f"ready role=toy url=http://127.0.0.1:{os.getpid()} word", flush=True)
if kind == "chatty":
    for _ in range(20000): print("y" * 100)
    print("done talking", file=sys.stderr, flush=True)
if kind in ("deaf", "dead"):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if kind == "dead":
    signal.signal(signal.SIGABRT, signal.SIG_IGN)
while not stopped or kind in ("deaf", "dead"):
    time.sleep(0.01)
print("terms", len(stopped), file=sys.stderr, flush=True)
raise SystemExit(3 if kind == "fails-at-end" else 0)
"""


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalCluster]:
    toy = tmp_path / "toy.py"
    toy.write_text(TOY)
    monkeypatch.setattr(local_cluster, "PROGRAM", (sys.executable, str(toy)))
    cluster = LocalCluster(tmp_path / "logs")
    yield cluster
    for daemon in cluster.daemons.values():
        if daemon.process.poll() is None:
            daemon.process.kill()
    cluster.stop_all()


def eventually(condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_the_ready_line_is_read_with_its_keys(cluster: LocalCluster) -> None:
    daemon = cluster.start("a", "plain")
    assert daemon.ready == {"role": "toy", "url": f"http://127.0.0.1:{daemon.pid}"}
    assert daemon.rss_mib() > 1 and 0 < daemon.share_mib() <= daemon.rss_mib()
    assert cluster.stop_all() == {"a": 0}
    assert not is_alive(daemon.pid) and daemon.rss_mib() == daemon.share_mib() == 0


def test_a_late_daemon_is_told_with_the_end_of_its_log(cluster: LocalCluster) -> None:
    daemon = cluster.launch("a", "late")
    eventually(lambda: "log of late" in daemon.log_tail())
    with pytest.raises(RemoteError, match=r"(?s)a was not ready in time.*log of late"):
        cluster.wait_ready(daemon, timeout_s=0.2)


def test_a_crash_is_told_at_once_with_status_and_log(cluster: LocalCluster) -> None:
    with pytest.raises(RemoteError, match=r"(?s)a ended with status 7 before it was ready.*log of crash"):
        cluster.start("a", "crash")


def test_a_refusal_to_start_is_told_in_the_daemons_own_sentence(cluster: LocalCluster) -> None:
    with pytest.raises(RemoteError) as told:
        cluster.start("a", "refuse")
    assert told.value.message == "a ended with status 1: cannot start: port 1 is taken"


def test_a_chatty_daemon_never_blocks_on_its_pipe(cluster: LocalCluster) -> None:
    daemon = cluster.start("a", "chatty")
    eventually(lambda: "done talking" in daemon.log_tail())
    assert cluster.stop("a") == 0


def test_stopping_asks_once_ends_the_deaf_and_reports_statuses(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_cluster, "ABORT_TIMEOUT_S", 60.0)
    for name, kind in (
        ("zookeeper", "plain"),
        ("good", "plain"),
        ("bad", "fails-at-end"),
        ("deaf", "deaf"),
        ("dead", "dead"),
    ):
        cluster.start(name, kind)
    assert cluster.stop("deaf", timeout_s=0.3) == -signal.SIGABRT
    assert (
        "Fatal Python error: Aborted" in cluster.daemons["deaf"].log_tail()
        and "toy.py" in cluster.daemons["deaf"].log_tail()
    )
    monkeypatch.setattr(local_cluster, "ABORT_TIMEOUT_S", 1.0)
    assert cluster.stop("dead", timeout_s=0.3) == -signal.SIGKILL
    cluster.daemons["good"].ask_to_stop()
    assert cluster.stop_all() == {"zookeeper": 0, "good": 0, "bad": 3, "deaf": -signal.SIGABRT, "dead": -signal.SIGKILL}
    assert "terms 1" in cluster.daemons["good"].log_tail(1)


def test_a_killed_daemon_starts_again_with_the_same_arguments(cluster: LocalCluster) -> None:
    first = cluster.start("a", "plain")
    cluster.kill("a")
    assert not is_alive(first.pid)
    second = cluster.restart("a")
    assert second.pid != first.pid and second.args == ("plain",) and cluster.stop("a") == 0


def test_a_daemon_ends_when_its_parent_is_killed(tmp_path: Path, cluster: LocalCluster) -> None:
    parent = tmp_path / "parent.py"
    parent.write_text(
        textwrap.dedent(f"""
        import sys, time
        from pathlib import Path
        from pinotpy.cli import local_cluster
        local_cluster.PROGRAM = (sys.executable, {str(tmp_path / "toy.py")!r})
        print(local_cluster.LocalCluster(Path({str(tmp_path)!r})).start("child", "plain").pid, flush=True)
        time.sleep(600)
        """)
    )
    with subprocess.Popen([sys.executable, str(parent)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        assert is_alive(child)
        process.kill()
    eventually(lambda: not is_alive(child))


def test_a_daemon_does_not_start_when_its_parent_is_already_gone() -> None:
    nobody = 2**22 + 1
    done = subprocess.run(
        [sys.executable, "-c", local_cluster._SHIM, str(nobody), "/bin/echo", "started"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    done = subprocess.run(
        [sys.executable, "-c", local_cluster._SHIM, str(os.getpid()), "/bin/echo", "started"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "started\n")


@pytest.mark.parametrize("status", [0, 1])
def test_whoever_waits_for_kernels_is_told_how_far_they_are(
    status: int, tmp_path: Path, cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_cluster, "TELL_EVERY_S", 0.0)
    monkeypatch.setattr(local_cluster, "progress", lambda folder, stage: (37, 100) if stage is Stage.FIRST else None)
    said = list[str]()

    def pause(seconds: float) -> None:
        if len(said) == 3:
            (tmp_path / "warmup.tmp").write_text(str(status))
            (tmp_path / "warmup.tmp").rename(tmp_path / "warmup.end")
        time.sleep(0.01)

    if status:
        with pytest.raises(RemoteError, match=r"status 1\)[^$]*warmup of \['--first'\]"):
            cluster.compile_kernels(pause, said.append)
    else:
        cluster.compile_kernels(pause, said.append)
    assert set(said) == {"compiling kernels, once for this CPU: 37 %"}


def test_free_ports_are_free() -> None:
    import socket

    ports = {free_port() for _ in range(20)}
    assert len(ports) > 15 and all(is_free(port) for port in ports)
    outgoing = Path("/proc/sys/net/ipv4/ip_local_port_range")
    if outgoing.exists():
        low, high = map(int, outgoing.read_text().split())
        assert low <= 15_000 or not any(low <= port <= high for port in ports), (
            "an outgoing connection could take it first"
        )
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert not is_free(taken.getsockname()[1])
