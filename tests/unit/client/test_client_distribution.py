"""Proves that the client is a distribution of its own (clients/python): what is built has the modules that the client
imports and no others, and lies alone in an empty folder, without the source tree and with every heavy library out of
reach, when it queries a broker on loopback; beside the full distribution it is the full one that is imported.
"""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from fake_daemon import Daemon
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[3]
SOURCE, CLIENT = ROOT / "src", ROOT / "clients" / "python"
SOURCES = Path("pinotpy_client") / "sources"
HEAVY = ["numba", "llvmlite", "numpy", "pyarrow", "pandas", "fastapi", "uvicorn", "pydantic", "grpc", "rich", "typer"]
# What stands before each program: libraries beside the client, but not the .pth files there (one leads to src/), and
# an importer that refuses what the client must not need.
_PROLOGUE = """
import json, site, sys
folder, libraries, refused, url = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3]), sys.argv[4]
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition('.')[0] in refused:
            raise ImportError(f'{name} is out of reach')
sys.meta_path.insert(0, Refuse())
sys.path += libraries
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a wheel of the client holds, in an empty folder."""
    folder = tmp_path_factory.mktemp("client") / "site-packages"
    command = [sys.executable, "setup.py", "--quiet", "build_py", "--build-lib", str(folder)]
    done = subprocess.run(command, cwd=CLIENT, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    made = Daemon()
    schema = {"columnNames": ["f", "t"], "columnDataTypes": ["FLOAT", "TIMESTAMP"]}
    rows = [[0.1, "2013-01-02 03:04:05.5"], [None, "253402300800000"]]
    made.replies["POST /query/sql"] = (200, {"resultTable": {"dataSchema": schema, "rows": rows}, "exceptions": []})
    yield made
    made.stop()


def run(folder: Path, program: str, url: str = "", refused: list[str] = HEAVY) -> Any:
    """What a program prints, as JSON, in an interpreter that knows `folder` and the libraries only."""
    libraries = sorted({str(distribution(name).locate_file("")) for name in ("httpx", "pyarrow")})
    arguments = [str(folder), json.dumps(libraries), json.dumps(refused), url]
    command = [sys.executable, "-I", "-S", "-c", _PROLOGUE + program, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# --- what is in it -------------------------------------------------------------------------------------------------


def imported(module: str) -> set[str]:
    """Modules of pinotpy that one imports at run time, also inside functions, and the packages above them."""
    found: set[str] = set()
    waiting: list[ast.AST] = [ast.parse(file_of(module).read_text())]
    while waiting:
        for node in ast.iter_child_nodes(waiting.pop()):
            match node:
                case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                    continue
                case ast.Import():
                    found |= {alias.name for alias in node.names}
                case ast.ImportFrom(module=str(package)):
                    found |= {package, *(f"{package}.{alias.name}" for alias in node.names)}
            waiting.append(node)
    above = {name.rpartition(".")[0] for name in found if "." in name}
    return {name for name in found | above if name.partition(".")[0] == "pinotpy" and file_of(name).is_file()}


def file_of(module: str) -> Path:
    path = SOURCE.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def test_it_has_what_the_client_imports_and_nothing_else(built: Path) -> None:
    needed = set[str]()
    waiting = [
        "pinotpy.client",
        *(f"pinotpy.client.{file.stem}" for file in (SOURCE / "pinotpy/client").glob("[!_]*.py")),
    ]
    while waiting:
        module = waiting.pop()
        if module not in needed:
            needed.add(module)
            waiting += imported(module)
    shipped = {file.relative_to(built / SOURCES) for file in (built / SOURCES).rglob("*.py")}
    assert shipped == {file_of(module).relative_to(SOURCE) for module in needed}
    assert (built / SOURCES / "pinotpy" / "py.typed").is_file()


def test_what_is_built_is_the_source(built: Path) -> None:
    for file in (built / SOURCES).rglob("*.py"):
        assert file.read_bytes() == (SOURCE / file.relative_to(built / SOURCES)).read_bytes(), file


def test_both_distributions_allow_the_same_versions() -> None:
    full = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    client = tomllib.loads((CLIENT / "pyproject.toml").read_text())["project"]
    allowed = {str(Requirement(text)) for text in full["dependencies"]}
    assert {str(Requirement(text)) for text in client["dependencies"]} < allowed
    assert {str(Requirement(text)) for text in client["optional-dependencies"]["arrow"]} < allowed
    assert client["requires-python"] == full["requires-python"]


# --- alone ---------------------------------------------------------------------------------------------------------


def test_alone_it_queries_and_every_module_of_it_can_be_imported(built: Path, daemon: Daemon) -> None:
    program = """
import importlib, pkgutil
site.addsitedir(folder)
import pinotpy, pinotpy.client
with pinotpy.client.connect(broker=url) as connection, connection.cursor() as cursor:
    rows = connection.execute("SELECT f, t FROM x").rows
    cursor.execute("SELECT f, t FROM x WHERE f > ?", [1])
    fetched = cursor.fetchall()
    try:
        connection.query_arrow("SELECT f, t FROM x")
    except pinotpy.client.PinotError as error:
        refusal = str(error)
modules = [found.name for found in pkgutil.walk_packages(pinotpy.__path__, "pinotpy.")]
files = [importlib.import_module(name).__file__ for name in modules]
print(json.dumps([rows, fetched, refusal, files, modules]))
"""
    rows, fetched, refusal, files, modules = run(built, program, daemon.url)
    assert rows == fetched == [[0.1, "2013-01-02 03:04:05.5"], [None, "253402300800000"]]
    assert "pip install 'pinotpy-client[arrow]'" in refusal
    assert len(daemon.asked) == 2, "nothing is sent for a query that cannot be read"
    assert "pinotpy.cluster.zookeeper" in modules and len(modules) > 30
    assert all(Path(file).is_relative_to(built) for file in files)


def test_with_arrow_it_needs_no_numpy(built: Path, daemon: Daemon) -> None:
    program = """
site.addsitedir(folder)
from pinotpy.client import connect
with connect(broker=url) as connection:
    table = connection.query_arrow("SELECT f, t FROM x")
    of_json = [str(column) for column in table.schema.types]
    millis = table.column("t").cast("int64").to_pylist()
    rows = connection.execute("SELECT as arrow", format="arrow").rows
print(json.dumps([of_json, millis, rows, "numpy" in sys.modules]))
"""
    field = pa.field("f", pa.float32(), metadata={b"pinot.type": b"FLOAT"})
    table = pa.table([pa.array([0.1, float("inf"), None], pa.float32())], schema=pa.schema([field]))
    sink = pa.BufferOutputStream()
    table = table.replace_schema_metadata({b"pinot.response": json.dumps({"exceptions": []}).encode()})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    of_json = daemon.replies["POST /query/sql"]
    stream = (200, sink.getvalue().to_pybytes(), {"content-type": "application/vnd.apache.arrow.stream"})
    daemon.replies["POST /query/sql"] = lambda request: stream if b"as arrow" in request["body"] else of_json
    types, millis, rows, has_numpy = run(built, program, daemon.url, [name for name in HEAVY if name != "pyarrow"])
    assert types == ["float", "timestamp[ms, tz=UTC]"]
    assert millis == [1_357_095_845_500, 253_402_300_800_000]
    assert rows == [[0.1], ["Infinity"], [None]] and not has_numpy


def test_where_no_pth_file_is_read_it_is_pinotpy_client(built: Path, daemon: Daemon) -> None:
    program = """
sys.path.append(folder)
import pinotpy_client
with pinotpy_client.connect(broker=url) as connection:
    rows = connection.execute("SELECT f, t FROM x").rows
import pinotpy.client
print(json.dumps([rows, pinotpy_client.connect is pinotpy.client.connect, pinotpy_client.__all__]))
"""
    rows, is_same, names = run(built, program, daemon.url)
    assert len(rows) == 2 and is_same and "ControllerClient" in names


# --- beside the full distribution ----------------------------------------------------------------------------------


@pytest.mark.parametrize("is_editable", [False, True], ids=["installed", "editable"])
def test_beside_the_full_distribution_the_full_one_is_imported(built: Path, tmp_path: Path, is_editable: bool) -> None:
    folder = tmp_path / "site-packages"
    shutil.copytree(built, folder)
    if is_editable:
        (folder / "__editable__.pinotpy-0.1.0.pth").write_text(f"{SOURCE}\n")
    else:
        (folder / "pinotpy").symlink_to(SOURCE / "pinotpy")
    program = """
site.addsitedir(folder)
# As in an environment, where the folder itself comes before what its files append.
sys.path.insert(sys.path.index(libraries[-1]) + 1, folder)
import pinotpy.client, pinotpy_client, pinotpy.query
print(json.dumps([pinotpy.__file__, pinotpy.client.connect is pinotpy_client.connect]))
"""
    file, is_same = run(folder, program)
    assert Path(file).resolve() == SOURCE / "pinotpy" / "__init__.py" and is_same
