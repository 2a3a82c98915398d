"""Proves on real processes, under SIGKILL and SIGSTOP of servers, their workers and builds, controller and broker while
rows come: every answer that says it is exact has exactly the records of the stream up to the offsets that it names, and
in the end no record is lost or doubled, and every segment that ended is done. PINOTPY_CHAOS_SEED replays the faults.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from events_table import SCHEMA, table_config
from live_cluster import LiveCluster, wait_until
from stream_asking import Asking, Producing, wait_until_done
from worker_processes import BUILDS, processes_of

from pinotpy.memory.resident import children_of

pytestmark = [pytest.mark.cluster, pytest.mark.zookeeper, pytest.mark.full]

SECONDS = float(os.environ.get("PINOTPY_CHAOS_SECONDS", "45"))
SEED = int(os.environ.get("PINOTPY_CHAOS_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
BUILDS_KILLED = 5
LEFT_ALONE_S = 10.0
DAEMONS = ("server-0", "server-1", "server-2", "controller", "broker")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("realtime")


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[LiveCluster]:
    started = LiveCluster(folder, num_servers=3)
    try:
        yield started
    finally:
        started.close()


class KillingBuilds:
    """Kills processes that build segments, wherever they are, at most one a second; `killed` counts them. A segment is
    tried three times, and on a slow machine a build takes seconds: a server whose build was killed is left alone for a
    while, or no try of any replica would ever end.
    """

    def __init__(self, cluster: LiveCluster) -> None:
        self.killed = 0
        self._cluster = cluster
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="killing-builds", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._ends.set()
        self._thread.join()

    def _run(self) -> None:
        alone_until = dict.fromkeys(DAEMONS, 0.0)
        while not self._ends.wait(0.005):
            daemons = self._cluster.processes.daemons
            names = [name for name in list(daemons) if name.startswith("server")]
            random.shuffle(names)
            for name in names:
                builds = processes_of(self._cluster, name, BUILDS)
                if not builds or time.monotonic() < alone_until[name]:
                    continue
                with contextlib.suppress(ProcessLookupError):
                    os.kill(random.choice(builds), signal.SIGKILL)
                    self.killed += 1
                alone_until[name] = time.monotonic() + LEFT_ALONE_S
                self._ends.wait(1.0)
                break


def disturb(cluster: LiveCluster, dice: random.Random, until: float) -> Counter[str]:
    done: Counter[str] = Counter()
    while time.monotonic() < until:
        name = dice.choice(DAEMONS)
        workers = children_of(cluster.processes.daemons[name].pid)
        if workers and dice.random() < 0.5:
            with contextlib.suppress(ProcessLookupError):
                os.kill(dice.choice(workers), signal.SIGKILL)
                done[f"killed a worker of {name}"] += 1
        elif dice.random() < 0.5:
            cluster.processes.kill(name)
            time.sleep(dice.uniform(0, 2))
            cluster.processes.restart(name)
            done[f"killed {name}"] += 1
        else:
            pid = cluster.processes.daemons[name].pid
            os.kill(pid, signal.SIGSTOP)
            time.sleep(dice.choice([0.5, 3.0, 12.0]))
            os.kill(pid, signal.SIGCONT)
            done[f"paused {name}"] += 1
        time.sleep(dice.uniform(0, 1.5))
    return done


def test_no_record_is_lost_or_doubled_whatever_is_killed(cluster: LiveCluster, folder: Path) -> None:
    producing = Producing.files(folder / "topics")
    cluster.controller.add_schema(SCHEMA)
    cluster.controller.add_table(table_config(folder / "topics", rows=3_000))
    producing.start()
    asking = Asking(cluster, producing.truth)
    wait_until(lambda: asking.counts["right"] > 0, 120, "rows of all partitions are answered")
    asking.wrong.clear()  # one partition begins after the other
    dice, builds = random.Random(SEED), KillingBuilds(cluster)
    faults = disturb(cluster, dice, time.monotonic() + SECONDS)
    wait_until(lambda: builds.killed >= BUILDS_KILLED, 600, f"seed {SEED}: builds are killed")
    builds.stop()
    faults["killed a build"] = builds.killed
    expected = producing.stop()
    asking.stop()
    print(f"seed {SEED}, {producing.produced} records a partition, {dict(faults)}, answers {dict(asking.counts)}")
    assert not asking.wrong, f"seed {SEED}: {asking.wrong[:3]}"
    wait_until(lambda: asking.rows() == expected, 900, f"seed {SEED}: all rows are answered")
    assert wait_until_done(cluster) > 0
    wait_until(lambda: asking.rows() == expected, 900, f"seed {SEED}: all rows are answered")
    assert not asking.wrong, f"seed {SEED}: {asking.wrong[:3]}"
