"""docker-compose.yml tried for real, told step by step: `make compose-test`, and tests/deployment/test_compose_live.py.

A copy of what git knows of this checkout gets secrets of its own, is built, brought up, asked the README's first query,
and for the rows that its other table reads of Kafka, given a batch job by the service spark, restarted service by
service, taken down, brought up again on its data, and removed. Ports are free ones and the project has its own name, so
that a cluster of the user is left alone. Every wait has an end.

Images come from registries, unless the image localhost/python:base (any Debian with Python, venv and certificates) is
there: then no registry is asked, and ZooKeeper and Kafka are images that are built from the same jars
(tests/deployment/images).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from compose_batch_job import check_orders, run_orders_job
from compose_stream_table import check_kafka, commit_now, wait_for_rows, write_to_kafka
from container_engine import CommandFailedError, Engine, NoEngineError, find_engine
from stand_in_images import LOCAL_BASE, StandIns, check_images
from trial_checks import TrialError, require

from pinotpy.cli.asking import ask
from pinotpy.client.controller import ControllerClient
from pinotpy.client.http_calls import Access
from pinotpy.errors import PinotError
from pinotpy.service.ports import free_port

ROOT = Path(__file__).resolve().parent.parent.parent
PROJECT = "pinotpytrial"
IMAGES = {"daemon": "localhost/pinotpy-trial:latest", "spark": "localhost/pinotpy-spark-trial:latest"}
DAEMONS = ("controller", "broker", "server-1", "server-2")
LONG_RUNNING = ("zookeeper", "kafka", *DAEMONS, "spark")
HEALTHY_WITHIN_S = 240.0
BUILD_TIMEOUT_S = 1_800.0
UP_TIMEOUT_S = 300.0
NUM_FLIGHTS = 336_776


class Trial:
    """One run; use `run`, which takes everything down whatever happens."""

    def __init__(self, engine: Engine, folder: Path, *, keep_images: bool = False) -> None:
        self.engine = engine
        self.folder = folder
        self.keep_images = keep_images
        self.stand_ins = StandIns(engine, folder / "stand-ins") if engine.has_image(LOCAL_BASE) else None
        self.ports = {name: free_port() for name in ("controller", "broker", "kafka")}
        self.environment = {f"{name.upper()}_PORT": str(port) for name, port in self.ports.items()}
        self.environment |= {"PINOTPY_IMAGE": IMAGES["daemon"], "PINOTPY_SPARK_IMAGE": IMAGES["spark"]}
        self.checkout = folder / "checkout"
        self.secrets: dict[str, str] = {}
        self.rows_seen = 0  # of the table that reads Kafka
        # Debian's podman-compose kills after a second, whatever the file says of stop_grace_period.
        self.patience = ("--timeout", "75") if engine.name == "podman" else ()

    # --- the story -------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """All steps; raises TrialError, CommandFailedError or PinotError at the first that fails."""
        try:
            self.step("a copy of the checkout with secrets of its own", self.prepare)
            self.step("nothing starts without secrets", self.refuse_without_secrets)
            self.step("images", self.build)
            self.step("up", self.up)
            self.step("every service is healthy", self.wait_until_healthy)
            self.step("the README's first query", self.wait_for_first_answer)
            self.step("rows of Kafka, each once", lambda: wait_for_rows(self))
            self.step("strangers get nothing, containers are not root and cannot write", self.check_guards)
            self.step("no kernel was compiled at start", self.check_kernels)
            self.step("a batch job by the service spark", self.batch_job)
            self.step("segments of the stream are committed now", lambda: commit_now(self))
            self.step("a record is in Kafka", lambda: write_to_kafka(self))
            for service in LONG_RUNNING:
                self.step(f"{service} restarted, all data there", lambda service=service: self.restart(service))
            self.step("down", self.down)
            self.step("up again on the data of before", self.up)
            self.step("all data there", self.check_data)
        except BaseException:
            self.print_logs()
            raise
        finally:
            self.step("everything removed", self.remove)

    def step(self, text: str, work: Callable[[], object]) -> None:
        started = time.monotonic()
        said = work()
        print(f"✓ {text}{f': {said}' if said else ''} ({time.monotonic() - started:.1f} s)", flush=True)

    # --- steps -----------------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        self.checkout.mkdir(parents=True)
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            check=True,
        ).stdout
        for name in filter(None, listed.decode().split("\0")):
            if (ROOT / name).is_file():
                (self.checkout / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, self.checkout / name)

    def refuse_without_secrets(self) -> str:
        refused = self.compose("ps", timeout_s=60, check=False)
        said = refused.stdout + refused.stderr
        require(
            refused.returncode != 0 and "make secrets" in said,
            f"without secrets: status {refused.returncode}, {said[-500:]}",
        )
        subprocess.run(["make", "secrets"], cwd=self.checkout, check=True, capture_output=True, timeout=60)
        self.secrets = dict(re.findall(r"^(\w+)=(\w+)$", (self.checkout / ".env").read_text(), re.MULTILINE))
        return f"{len(self.secrets)} made by make secrets"

    def build(self) -> str:
        if self.stand_ins is not None:
            self.environment["BASE_IMAGE"] = self.stand_ins.build()
        if self.engine.name == "docker":
            self.compose("build", timeout_s=BUILD_TIMEOUT_S)
        else:
            # podman-compose builds each service anew and knows nothing of the network that a build may use.
            for target, image in IMAGES.items():
                base = (
                    ("--build-arg", f"BASE_IMAGE={self.environment['BASE_IMAGE']}")
                    if "BASE_IMAGE" in self.environment
                    else ()
                )
                self.engine.run(
                    "build",
                    "--network",
                    "host",
                    *base,
                    "--target",
                    target,
                    "--tag",
                    image,
                    self.checkout,
                    timeout_s=BUILD_TIMEOUT_S,
                )
        sizes = {
            target: int(self.engine.run("image", "inspect", "--format", "{{.Size}}", image).stdout) >> 20
            for target, image in IMAGES.items()
        }
        return ", ".join(f"{target} {size} MiB" for target, size in sizes.items())

    def up(self) -> None:
        self.compose("up", "--detach", timeout_s=UP_TIMEOUT_S)

    def wait_until_healthy(self) -> None:
        for service in LONG_RUNNING:
            self.wait_until(
                lambda service=service: self.is_healthy(service), HEALTHY_WITHIN_S, f"service {service} is healthy"
            )

    def wait_for_first_answer(self) -> str:
        query, shown = first_query_of_readme()

        def answered() -> bool:
            answer = self.ask(query)
            return not answer["exceptions"] and answer["totalDocs"] == NUM_FLIGHTS

        self.wait_until(answered, HEALTHY_WITHIN_S, f"'{query}' is answered over {NUM_FLIGHTS:,} rows")
        rows = self.ask(query)["resultTable"]["rows"]
        require(rows == shown, f"the first query says {rows}, the README {shown}")
        return query

    def check_guards(self) -> None:
        for access in (None, Access(("admin", "x" * 64)), Access(("nobody", self.secrets["PINOTPY_ADMIN_PASSWORD"]))):
            try:
                answer = self.ask("SELECT COUNT(*) FROM flights", access=access)
            except PinotError as error:
                require(getattr(error, "http_status", 401) in (401, 403, 429), f"a stranger was answered {error!r}")
            else:
                raise TrialError(f"a stranger was answered {answer}")
        for service in (*DAEMONS, "spark"):
            require(self.execute(service, "id", "-u").strip() == "10001", f"{service} runs as root")
            wrote = self.engine.run("exec", self.container_of(service), "touch", "/opt/pinotpy/written", check=False)
            require(wrote.returncode != 0, f"{service} can write into its installation")
        for name, port in self.ports.items():
            hosts = listening_hosts(port)
            require(hosts == {"127.0.0.1"}, f"port {port} of {name} is published on {hosts or 'nothing'}")
        environment = self.execute("spark", "env")
        require(self.secrets["PINOTPY_CLUSTER_TOKEN"] not in environment, "the service spark knows the cluster token")

    def check_kernels(self) -> str:
        """What daemons have in their caches is what the image has, after segments were loaded and queries answered; one
        without a volume too.
        """
        built = self.kernel_files("server-1", "/opt/pinotpy/kernels")
        require(len(built) > 50, f"the image has {len(built)} files of compiled kernels")
        for service in DAEMONS:
            own = self.kernel_files(service, "/var/lib/pinotpy/cache/pinotpy/kernels") - built
            require(not own, f"{service} compiled {sorted(own)}")
        started = time.monotonic()
        self.engine.run(
            "run",
            "--rm",
            "--read-only",
            "--tmpfs",
            "/tmp",
            "--network",
            "none",
            IMAGES["daemon"],
            "warmup",
            timeout_s=60,
        )
        return f"{len(built)} files; a read-only image without a volume is warm in {time.monotonic() - started:.1f} s"

    def kernel_files(self, service: str, folder: str) -> set[str]:
        return set(
            self.execute(service, "sh", "-c", f"cd {folder} 2>/dev/null && find . -name '*.nb[ci]' || true").split()
        )

    def batch_job(self) -> str:
        said = run_orders_job(self)
        check_orders(self)
        return said

    def restart(self, service: str) -> None:
        before = self.started_at(service)
        self.compose("restart", *self.patience, service, timeout_s=180)
        require(self.started_at(service) != before, f"{service} was not restarted")
        self.wait_until(lambda: self.is_healthy(service), HEALTHY_WITHIN_S, f"service {service} is healthy again")
        self.check_tables()
        if service == "kafka":
            check_kafka(self)

    def check_data(self) -> None:
        """All tables answer as before, and Kafka has its record."""
        self.wait_until_healthy()
        self.check_tables()
        check_kafka(self)

    def check_tables(self) -> None:
        self.wait_for_first_answer()
        self.wait_until(lambda: check_orders(self) is None, HEALTHY_WITHIN_S, "the table of the batch job answers")
        wait_for_rows(self)

    def down(self) -> None:
        self.compose("down", *self.patience, timeout_s=300)
        require(not self.containers(), f"after down there are {self.containers()}")

    def remove(self) -> None:
        """Take down with volumes; whatever of it fails, the rest is tried."""
        self.compose("down", "--volumes", timeout_s=300, check=False)
        left = self.containers()
        if left:
            self.engine.run("rm", "--force", *left, check=False)
        volumes = self.engine.run("volume", "ls", "--quiet", check=False).stdout.split()
        ours = [name for name in volumes if name.startswith(f"{PROJECT}_")]
        if ours:
            self.engine.run("volume", "rm", "--force", *ours, check=False)
        if not self.keep_images:
            images = [*IMAGES.values(), *(self.stand_ins.images if self.stand_ins is not None else ())]
            for image in filter(self.engine.has_image, images):
                self.engine.run("image", "rm", "--force", image, check=False, timeout_s=300)
            self.engine.run("image", "prune", "--force", check=False, timeout_s=300)
        require(not self.containers(), f"containers are left: {self.containers()}")

    # --- what steps are made of ------------------------------------------------------------------------------------

    def compose(
        self, *arguments: str, timeout_s: float, check: bool = True, **more: Any
    ) -> subprocess.CompletedProcess[str]:
        return self.engine.run_compose(
            PROJECT, self.checkout, *arguments, environment=self.environment, timeout_s=timeout_s, check=check, **more
        )

    def execute(self, service: str, *command: str, timeout_s: float = 120.0, **more: Any) -> str:
        """Standard output of a command in the container of a service. Not by compose: podman-compose loses its exit
        status.
        """
        return self.engine.run(
            "exec", "--interactive", self.container_of(service), *command, timeout_s=timeout_s, **more
        ).stdout

    def container_of(self, service: str) -> str:
        found = self.engine.run(
            "ps",
            "--all",
            "--quiet",
            "--filter",
            f"label=com.docker.compose.project={PROJECT}",
            "--filter",
            f"label=com.docker.compose.service={service}",
        ).stdout.split()
        require(len(found) == 1, f"service {service} has the containers {found}")
        return found[0]

    def containers(self) -> list[str]:
        return self.engine.run(
            "ps", "--all", "--quiet", "--filter", f"label=com.docker.compose.project={PROJECT}"
        ).stdout.split()

    def started_at(self, service: str) -> str:
        return str(self.engine.inspect(self.container_of(service))["State"]["StartedAt"])

    def is_healthy(self, service: str) -> bool:
        if self.engine.name == "podman":
            # Its checks are run by systemd where there is one: here they are run by hand.
            return (
                self.engine.run("healthcheck", "run", self.container_of(service), check=False, timeout_s=30).returncode
                == 0
            )
        return bool(self.engine.inspect(self.container_of(service))["State"]["Health"]["Status"] == "healthy")

    def rest(self, method: str, path: str) -> dict[str, Any]:
        """What the controller answers the admin."""
        auth = ("admin", self.secrets["PINOTPY_ADMIN_PASSWORD"])
        url = f"http://127.0.0.1:{self.ports['controller']}{path}"
        answer: dict[str, Any] = httpx.request(method, url, auth=auth, timeout=60).raise_for_status().json()
        return answer

    def ask(self, query: str, dialect: str = "sql", access: Access | str | None = "admin") -> dict[str, Any]:
        shown = Access(("admin", self.secrets["PINOTPY_ADMIN_PASSWORD"])) if access == "admin" else access
        return ask(f"http://127.0.0.1:{self.ports['broker']}", query, dialect, shown)

    @contextmanager
    def controller(self) -> Iterator[ControllerClient]:
        with ControllerClient(
            f"http://127.0.0.1:{self.ports['controller']}", Access(("admin", self.secrets["PINOTPY_ADMIN_PASSWORD"]))
        ) as client:
            yield client

    def wait_until(self, condition: Callable[[], bool], timeout_s: float, what: str) -> None:
        """Until it holds; errors on the way count as not yet."""
        deadline, last = time.monotonic() + timeout_s, ""
        while True:
            try:
                if condition():
                    return
            except (PinotError, httpx.HTTPError, CommandFailedError, TrialError) as error:
                last = f"; the last look: {error}"
            if time.monotonic() > deadline:
                raise TrialError(f"not within {timeout_s:g} s: {what}{last}")
            time.sleep(1.0)

    def print_logs(self) -> None:
        for service in (*LONG_RUNNING, "access", "flights", "rsvps"):
            try:
                logs = self.engine.run("logs", "--tail", "25", self.container_of(service), check=False, timeout_s=30)
                print(f"--- end of the log of {service}\n{logs.stdout}{logs.stderr}", file=sys.stderr)
            except (TrialError, CommandFailedError) as error:
                print(f"--- no log of {service}: {error}", file=sys.stderr)


def first_query_of_readme() -> tuple[str, list[list[Any]]]:
    """The text of the README's first query, and the rows that it shows as the answer."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    asked = re.search(r'-d \'\{"sql": "([^"]+)"\}\'', text)
    shown = re.search(r'"rows":(\[\[.*?\]\])', text)
    require(asked is not None and shown is not None, "the README has no first query")
    assert asked is not None and shown is not None
    return asked[1], json.loads(shown[1])


def listening_hosts(port: int) -> set[str]:
    """The addresses that something listens on at this port, as /proc says."""
    hosts = set()
    for file, size in (("/proc/net/tcp", 8), ("/proc/net/tcp6", 32)):
        for line in Path(file).read_text().splitlines()[1:]:
            local, state = line.split()[1], line.split()[3]
            address, _, at = local.partition(":")
            if state == "0A" and int(at, 16) == port:
                hosts.add(
                    ".".join(str(int(address[i : i + 2], 16)) for i in (6, 4, 2, 0)) if size == 8 else f"[{address}]"
                )
    return hosts


def main() -> int:
    parser = argparse.ArgumentParser(description="try docker-compose.yml for real")
    parser.add_argument("--keep-images", action="store_true", help="leave the images, so that the next run builds less")
    options = parser.parse_args()
    try:
        engine = find_engine()
        check_images(engine)
    except NoEngineError as error:
        print(f"compose-test: {error}", file=sys.stderr)
        return 3
    with tempfile.TemporaryDirectory(prefix="pinotpy-compose-", dir=os.environ.get("TMPDIR")) as folder:
        try:
            Trial(engine, Path(folder), keep_images=options.keep_images).run()
        except (TrialError, CommandFailedError, PinotError) as error:
            print(f"compose-test: {error}", file=sys.stderr)
            return 1
    print(f"compose-test: all of it works with {engine.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
