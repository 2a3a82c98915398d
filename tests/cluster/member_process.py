"""A child process of the failover tests: a controller or a server of the cluster layer alone, killed by the test.

Usage: member_process.py <zookeeper address> <cluster> <instance> <session timeout s>. A server takes every transition
at once. Prints `ready` when it has joined; ends at the end of its standard input.
"""

from __future__ import annotations

import sys

from pinotpy.cluster.leader import LeaderElection
from pinotpy.cluster.membership import Member
from pinotpy.cluster.participant import Participant
from pinotpy.cluster.paths import ClusterPaths
from pinotpy.cluster.pipeline import TransitionPipeline
from pinotpy.cluster.process_identity import this_process
from pinotpy.cluster.views import Message
from pinotpy.cluster.zookeeper import ZooKeeperStore


class Obedient:
    def on_transition(self, resource: str, partition: str, from_state: str, to_state: str) -> None:
        pass

    def on_message(self, message: Message) -> None:
        pass


def main() -> None:
    address, cluster, instance, session_timeout_s = sys.argv[1:5]
    store = ZooKeeperStore(address, session_timeout_s=float(session_timeout_s))
    paths = ClusterPaths(cluster)
    participant = Participant(store, paths, Member(instance, this_process()), Obedient())
    participant.start()
    if instance.startswith("Controller"):
        TransitionPipeline(store, paths, LeaderElection(store, paths, instance), source=instance).start()
    print("ready", flush=True)
    sys.stdin.read()
    participant.announce_shutdown()
    participant.stop()
    store.close()


main()
