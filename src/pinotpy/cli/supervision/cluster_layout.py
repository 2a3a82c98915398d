"""Which daemons a cluster on this machine has, and on which ports: chosen once, kept in `cluster.json`.

A server is known by its port (`Server_127.0.0.1_8098`), and segments belong to servers: on another port it would be
another server, without segments. So what was chosen stays.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pinotpy.cli.supervision.data_folder import DataFolder, write_atomically
from pinotpy.errors import UserError
from pinotpy.service.ports import free_port, is_free

SERVERS_MAX: Final = 64
# Of the machine's memory; a server's is divided by the number of servers. The rest is the system's, ZooKeeper's, and
# that of the files which servers map.
MEMORY_SHARES: Final = {"controller": 0.05, "broker": 0.2, "servers": 0.5}
_FILE: Final = "cluster.json"
_USUAL: Final = {"zookeeper": 2181, "controller": 9000, "broker": 8099}
_USUAL_SERVER: Final = (8098, 8097)


def memory_shares(num_servers: int) -> dict[str, float]:
    """Daemon → its share of this machine's memory."""
    shares = {name: MEMORY_SHARES[name] for name in ("controller", "broker")}
    return shares | {f"server-{number}": MEMORY_SHARES["servers"] / num_servers for number in range(num_servers)}


@dataclass(frozen=True, slots=True)
class Ports:
    """Ports that the user asked for; None = the usual one if it is free, else any free one; 0 = any free one."""

    zookeeper: int | None = None
    controller: int | None = None
    broker: int | None = None

    @property
    def are_named(self) -> bool:
        """Whether the user asked for any."""
        return (self.zookeeper, self.controller, self.broker) != (None, None, None)


def choose_port(requested: int | None, usual: int) -> int:
    """A number rather than 0 in any case: daemons that start again must be the same instances."""
    if requested is not None:
        return requested or free_port()
    return usual if is_free(usual) else free_port()


@dataclass(frozen=True, slots=True)
class ClusterLayout:
    """`folder`: where it was when it was made. `servers`: port for queries and admin port of each."""

    name: str
    folder: Path
    zookeeper_port: int
    controller_port: int
    broker_port: int
    servers: tuple[tuple[int, int], ...]

    @classmethod
    def choose(cls, name: str, folder: Path, ports: Ports, num_servers: int) -> ClusterLayout:
        """Free ports, the usual ones where they are. Who names ports runs something beside it, or several of these: his
        servers leave the usual ports alone.
        """
        first = (
            (free_port(), free_port())
            if ports.are_named
            else (choose_port(None, _USUAL_SERVER[0]), choose_port(None, _USUAL_SERVER[1]))
        )
        return cls(
            name,
            folder,
            choose_port(ports.zookeeper, _USUAL["zookeeper"]),
            choose_port(ports.controller, _USUAL["controller"]),
            choose_port(ports.broker, _USUAL["broker"]),
            (first, *((free_port(), free_port()) for _ in range(num_servers - 1))),
        )

    def with_ports(self, ports: Ports) -> ClusterLayout:
        """The same cluster where the user asks for other ports of ZooKeeper, controller or broker; these own no
        segments.
        """
        return replace(
            self,
            zookeeper_port=choose_port(ports.zookeeper, self.zookeeper_port)
            if ports.zookeeper is not None
            else self.zookeeper_port,
            controller_port=choose_port(ports.controller, 0) if ports.controller is not None else self.controller_port,
            broker_port=choose_port(ports.broker, 0) if ports.broker is not None else self.broker_port,
        )

    def with_servers(self, num_servers: int) -> ClusterLayout:
        """The same cluster with more servers. Raises UserError for fewer: segments lie on those that would go."""
        missing = num_servers - len(self.servers)
        if missing < 0:
            raise UserError(
                f"the cluster in '{self.folder}' has {len(self.servers)} servers, and segments lie on each: --servers "
                f"can add servers, found {num_servers}"
            )
        return replace(self, servers=(*self.servers, *((free_port(), free_port()) for _ in range(missing))))

    # --- daemons ----------------------------------------------------------------------------------------------------

    @property
    def zk_address(self) -> str:
        return f"127.0.0.1:{self.zookeeper_port}"

    def ports(self) -> dict[str, int]:
        """Daemon → port by which it is known, in the order in which they start."""
        servers = {f"server-{number}": port for number, (port, _) in enumerate(self.servers)}
        return {
            "zookeeper": self.zookeeper_port,
            "controller": self.controller_port,
            "broker": self.broker_port,
            **servers,
        }

    def warnings(self, folder: Path) -> list[str]:
        """What users of a folder that was moved should know."""
        if folder == self.folder:
            return []
        return [
            f"warning: the data folder was '{self.folder}' before, it is '{folder}' now. Its segments and their "
            "archives came with it. Only what names the old place itself is not found there: streams of files, and "
            "archives that stay where they were pushed from (metadata pushes, pushes by URI), if they lay below it. A "
            "link at the old place mends it"
        ]

    def all_ports(self) -> dict[str, int]:
        """What it is for → port."""
        admin = {f"server-{number} (admin)": port for number, (_, port) in enumerate(self.servers)}
        return self.ports() | admin

    def unusual_ports(self) -> dict[str, tuple[int, int]]:
        """Daemon that users call → (usual port, its port), where these differ."""
        ports = self.ports()
        return {name: (usual, ports[name]) for name, usual in _USUAL.items() if ports[name] != usual}

    def arguments(self, folder: Path, *, zk_address: str | None = None) -> dict[str, tuple[str, ...]]:
        """Daemon → arguments of `pinotpy`, in the order in which they start. With `zk_address` another ZooKeeper is
        used and none is started.
        """
        shares = memory_shares(len(self.servers))
        common = ("--zk-address", zk_address or self.zk_address, "--cluster-name", self.name)

        def share(name: str) -> tuple[str, str]:
            return ("--memory-share", str(shares[name]))

        daemons: dict[str, tuple[str, ...]] = {}
        if zk_address is None:
            port = ("--zk-port", str(self.zookeeper_port))
            daemons["zookeeper"] = ("start-zookeeper", *port, "--data-dir", str(folder / "zookeeper"))
        port = ("--controller-port", str(self.controller_port))
        deep_store = ("--data-dir", str(folder / "controller"))
        daemons["controller"] = ("start-controller", *common, *port, *deep_store, *share("controller"))
        port = ("--broker-port", str(self.broker_port))
        # Beside the daemons' own logs; it keeps itself small (pinotpy.config.query_log).
        query_log = ("--query-log-file", str(folder / "logs" / "queries.jsonl"))
        daemons["broker"] = ("start-broker", *common, *port, *query_log, *share("broker"))
        for number, (query_port, admin_port) in enumerate(self.servers):
            name = f"server-{number}"
            places = ("--data-dir", str(folder / name / "index"), "--segment-dir", str(folder / name / "segments"))
            ports = ("--server-port", str(query_port), "--server-admin-port", str(admin_port))
            daemons[name] = ("start-server", *common, *ports, *places, *share(name))
        return daemons

    # --- kept -------------------------------------------------------------------------------------------------------

    def save(self, folder: DataFolder) -> None:
        document = {
            "clusterName": self.name,
            "folder": str(self.folder),
            "zookeeperPort": self.zookeeper_port,
            "controllerPort": self.controller_port,
            "brokerPort": self.broker_port,
            "servers": [{"port": port, "adminPort": admin_port} for port, admin_port in self.servers],
        }
        write_atomically(folder.path / _FILE, json.dumps(document, indent=2) + "\n")

    @classmethod
    def load(cls, folder: DataFolder) -> ClusterLayout | None:
        """None where none was kept. Raises UserError for a damaged file."""
        file = folder.path / _FILE
        try:
            text = file.read_text()
        except FileNotFoundError:
            return None
        try:
            document: dict[str, Any] = json.loads(text)
            servers = tuple((_port(server["port"]), _port(server["adminPort"])) for server in document["servers"])
            if not 1 <= len(servers) <= SERVERS_MAX:
                raise ValueError(f"1 to {SERVERS_MAX} servers expected, found {len(servers)}")
            return cls(
                str(document["clusterName"]),
                Path(document["folder"]),
                _port(document["zookeeperPort"]),
                _port(document["controllerPort"]),
                _port(document["brokerPort"]),
                servers,
            )
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(
                f"'{file}' cannot be read ({type(error).__name__}: {error}): it keeps the cluster's ports, by which "
                "segments find their servers. Mend it by hand, or from a copy; the servers' ports are in the names of "
                "their instances, Server_127.0.0.1_PORT, in the logs beside it"
            ) from error


def check_ports(layout: ClusterLayout, *, free: Callable[[int], bool] = is_free) -> None:
    """Raises UserError if another process has one of the ports of a cluster that is to start."""
    taken = {what: port for what, port in layout.all_ports().items() if not free(port)}
    if not taken:
        return
    named = ", ".join(f"{port} ({what})" for what, port in taken.items())
    movable = [name for name in ("zookeeper", "controller", "broker") if name in taken]
    options = {"zookeeper": "--zk-port", "controller": "--controller-port", "broker": "--broker-port"}
    remedy = "stop that process"
    if len(movable) == len(taken):
        remedy += f", or give {' and '.join(options[name] + ' 0' for name in movable)} for a free port"
    else:
        remedy += "; a server cannot have another port, as its segments are found by it"
    raise UserError(f"ports of this cluster are in use by another process: {named}; {remedy}")


def _port(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 65_535:
        raise ValueError(f"a port from 1 to 65535 expected, found {value!r}")
    return value
