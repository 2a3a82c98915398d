"""What pruning by the broker is worth on a real cluster, as JSON: `python -m bench.pruning_cluster`.

ZooKeeper, a controller, a broker and two servers run as processes. Every case asks the same questions in several ways,
which take turns; no question is asked twice, and before anything is measured the answers of each way are compared with
what they have to be, and the servers that it asked with those that were computed.

days        720 segments of a day each over two servers, filters of 1 and of 30 days
partitions  64 partitions by Murmur, each on one of two servers, `=` and IN of 10 values of as many partitions
production  as large a partitioned table as is built in half a minute, `=` of another key each time, 16 clients
wide        partitions as above, over 16 more servers
large       20,000 segments of a day each over two servers, filter of 1 day

needed      a table that has only the segments which the query needs
same        the same question of the whole table
pruned      questions of all of the table
unpruned    as pruned, with the option skipBrokerPruning

All CPU is µs of a query, of the broker and of all servers together, without what they use when nothing is asked.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import httpx

from bench.daemons import launch_servers, start_daemons
from bench.machine import commit_name, machine
from bench.pruning_sides import Measuring, Side
from bench.pruning_tables import Members, Place, add_days, days_asked, unpruned
from bench.tables.table import say
from pinotpy.cli.local_cluster import LocalCluster
from pinotpy.client.controller import ControllerClient
from pinotpy.cluster.paths import ClusterPaths
from pinotpy.cluster.zookeeper import ZooKeeperStore

SERVERS: Final = ("server-0", "server-1")
NUM_WIDE: Final = 16
NUM_DAYS: Final = 720
LARGE_RATE: Final = 500.0  # queries a second, at least
ROWS_A_KEY: Final = 4
NEEDED_DAY, NEEDED_PARTITION = 400, 7
AS_NEEDED: Final = {"throughput: pruned / needed": 0.95, "throughput: same / needed": 0.95}
ONE_SERVER: Final = {"throughput: pruned / unpruned": 1.3, "requests: unpruned / pruned": 2.0}
# Both servers have rows of it: what is won is told, and no aim.
BOTH_SERVERS: Final = {"throughput: pruned / unpruned": 0.0}


class Bench:
    """A running cluster and what is asked of it."""

    def __init__(self, cluster: LocalCluster, folder: Path, place: Place, asked: Any) -> None:
        self._cluster, self._folder, self._place, self._asked = cluster, folder, place, asked
        self._two = self._ids(SERVERS)

    def days(self) -> dict[str, Any]:
        place, found = self._place, {}
        add_days(place, "days", range(NUM_DAYS), self._two)
        for count, aims in ((1, ONE_SERVER), (30, BOTH_SERVERS)):
            needed = range(NEEDED_DAY, NEEDED_DAY + count)
            add_days(place, f"days{count}", needed, self._two)
            asking = days_asked(place, "days", range(NUM_DAYS - count + 1), count)
            sides = {
                "needed": Side(f"days{count}", days_asked(place, f"days{count}", [NEEDED_DAY], count)),
                "same": Side("days", days_asked(place, "days", [NEEDED_DAY], count)),
                "pruned": Side("days", asking),
                "unpruned": Side("days", unpruned(asking, len(SERVERS))),
            }
            found[f"{count} days"] = self._measuring(SERVERS).sides(f"{count} days", sides, AS_NEEDED | aims)
        return found

    def partitions(self) -> dict[str, Any]:
        place, found, sizes = self._place, {}, (20 * 64, 5, ROWS_A_KEY, len(SERVERS))
        whole = Members("parts", *sizes)
        whole.add(place)
        for count, name, aims in ((1, "=", ONE_SERVER), (10, "IN of 10", BOTH_SERVERS)):
            chosen = tuple(sorted((NEEDED_PARTITION + 5 * at) % 64 for at in range(count)))
            needed = Members(f"parts{count}", *sizes, partitions=chosen)
            needed.add(place)
            part = Members("parts", *sizes, partitions=chosen)
            sides = {
                "needed": Side(needed.name, needed.asked(place, count)),
                "same": Side("parts", part.asked(place, count)),
                "pruned": Side("parts", whole.asked(place, count)),
                "unpruned": Side("parts", unpruned(whole.asked(place, count), len(SERVERS))),
            }
            found[name] = self._measuring(SERVERS).sides(name, sides, AS_NEEDED | aims)
        return found

    def production(self) -> dict[str, Any]:
        table = Members("facts", self._asked.production_keys, 4, ROWS_A_KEY, len(SERVERS))
        table.add(self._place)
        asking = table.keys_asked(self._place)
        sides = {
            "pruned": Side("facts", asking),
            "unpruned": Side("facts", unpruned(asking, len(SERVERS))),
        }
        found = self._measuring(SERVERS, clients=16).sides("production", sides, ONE_SERVER)
        pruned = found["sides"]["pruned"]
        is_reached = pruned["p99_ms"] <= 25 and pruned["queries_per_s"] >= 2_500
        return found | {
            "rows": table.keys * 4 * ROWS_A_KEY,
            "segments": 4 * 64,
            "aim": {"p99_ms": 25, "queries_per_s": 2_500, "is_reached": is_reached},
        }

    def wide(self) -> dict[str, Any]:
        names = [f"wide-{number}" for number in range(NUM_WIDE)]
        launch_servers(self._cluster, self._folder, names, self._options())
        for instance in self._ids(names):
            url = f"{self._place.controller.url}/instances/{instance}/updateTags"
            httpx.put(url, params={"tags": "wide_OFFLINE"}, trust_env=False, timeout=60).raise_for_status()
        table = Members("wide", 20 * 64, 5, ROWS_A_KEY, NUM_WIDE, "wide")
        table.add(self._place)
        asking = table.asked(self._place, 1)
        sides = {"pruned": Side("wide", asking), "unpruned": Side("wide", unpruned(asking, NUM_WIDE))}
        aims = {
            "requests: unpruned / pruned": 10.0,
            "cpu: unpruned / pruned": 10.0,
            "throughput: pruned / unpruned": 1.3,
        }
        found = self._measuring(names).sides("wide", sides, aims)
        for name in names:
            self._cluster.kill(name)
        return found

    def large(self) -> dict[str, Any]:
        days = range(self._asked.large_segments)
        add_days(self._place, "large", days, self._two)
        asking = days_asked(self._place, "large", days, 1)
        sides = {"pruned": Side("large", asking), "unpruned": Side("large", unpruned(asking, len(SERVERS)))}
        # Each segment is read once before anything is measured.
        measuring = replace(self._measuring(SERVERS), warm_s=len(days) / LARGE_RATE)
        return measuring.sides("large", sides, ONE_SERVER | {"throughput: pruned / unpruned": 5.0}) | {
            "segments": len(days)
        }

    def _measuring(self, servers: Sequence[str], clients: int = 0) -> Measuring:
        asked = self._asked
        return Measuring(self._cluster, "broker", servers, clients or asked.clients, asked.rounds, asked.seconds)

    def _ids(self, names: Sequence[str]) -> list[str]:
        """Instances by the names of their daemons."""
        return [self._cluster.daemons[name].ready["instance"] for name in names]

    def _options(self) -> tuple[str, ...]:
        return ("--config-file", str(self._folder / "server.properties"))


@contextmanager
def started(asked: Any) -> Iterator[Bench]:
    folder = Path(tempfile.mkdtemp(prefix="pinotpy-bench-"))
    cluster = LocalCluster(folder / "daemons")
    options = folder / "server.properties"
    options.write_text(f"pinotpy.segment.fetcher.allowedUris=file://{folder}/\n")
    try:
        controller_url, _ = start_daemons(
            cluster, folder, {"broker": ()}, num_servers=2, server_options=("--config-file", str(options))
        )
        controller = ControllerClient(controller_url)
        store = ZooKeeperStore(cluster.daemons["zookeeper"].ready["address"])
        try:
            built = folder / "built"
            built.mkdir()
            yield Bench(cluster, folder, Place(built, controller, store, ClusterPaths(folder.name)), asked)
        finally:
            store.close()
            controller.close()
    finally:
        cluster.stop_all()
        shutil.rmtree(folder, ignore_errors=True)


CASES: Final[dict[str, Callable[[Bench], dict[str, Any]]]] = {
    "days": Bench.days,
    "partitions": Bench.partitions,
    "production": Bench.production,
    "wide": Bench.wide,
    "large": Bench.large,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.pruning_cluster",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--cases", default=",".join(CASES), help="default: %(default)s")
    parser.add_argument("--clients", type=int, default=8, help="at once (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each side (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=1.0, help="of one turn (default: %(default)s)")
    parser.add_argument("--large-segments", type=int, default=20_000, help="default: %(default)s")
    parser.add_argument("--production-keys", type=int, default=1 << 20, help="16 rows each (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=None, help="where the JSON goes too")
    asked = parser.parse_args()
    cases = asked.cases.split(",")
    if unknown := [name for name in cases if name not in CASES]:
        parser.error(f"expected cases of {', '.join(CASES)}, found {', '.join(unknown)}")
    result: dict[str, Any] = {
        "commit": commit_name(),
        "machine": machine(),
        "load_before": os.getloadavg()[0],
        "clients": asked.clients,
        "rounds": asked.rounds,
        "seconds": asked.seconds,
    }
    with started(asked) as bench:
        for name in cases:
            began = time.monotonic()
            result[name] = CASES[name](bench) | {"took_s": round(time.monotonic() - began, 1)}
            say(f"{name}: {result[name]['took_s']} s")
    text = json.dumps(result | {"load_after": os.getloadavg()[0]}, indent=1)
    print(text)
    if asked.out is not None:
        asked.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
