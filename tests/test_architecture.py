"""Proves that imports point down: who may know whom, read from every import of the source, also inside functions and
under TYPE_CHECKING. The table is the floor plan of ARCHITECTURE.md."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parent.parent / "src" / "pinotpy"
GROUND = {"arrays", "errors", "data_types", "decimals", "names", "clock", "failpoints"}

# room → rooms that it may import (besides itself and the ground floor)
HOUSE: dict[str, set[str]] = {
    "kernels": set(),
    "config": set(),
    "memory": set(),
    "pql": set(),
    "functions": {"pql", "kernels"},
    "segment": {"config", "functions", "kernels"},
    "cluster": {"config"},
    "stream": {"config"},
    "fs": {"config"},
    "query": {"pql", "segment", "functions", "config", "kernels", "memory"},
    "ingest": {"pql", "segment", "functions", "fs", "config", "stream", "kernels", "client"},  # client: pushes
    "client": {"config", "cluster"},  # cluster: brokers are found and followed in ZooKeeper, when asked for
    "service": {"config", "cluster", "fs", "functions", "kernels", "memory"},
    "rpc": {"config", "query", "memory"},
    "controller": {"service", "rpc", "cluster", "config", "fs", "stream", "segment", "ingest", "client"},
    "broker": {"service", "rpc", "cluster", "config", "query", "pql", "functions", "memory"},
    "server": {
        "service",
        "rpc",
        "cluster",
        "config",
        "query",
        "pql",
        "segment",
        "fs",
        "ingest",
        "stream",
        "kernels",
        "memory",
    },
    "spark_jobs": {"ingest", "segment", "client", "fs", "config", "kernels"},  # kernels: where what is compiled is kept
    "cli": {
        "spark_jobs",
        "controller",
        "broker",
        "server",
        "service",
        "rpc",
        "query",
        "ingest",
        "client",
        "segment",
        "cluster",
        "stream",
        "fs",
        "config",
        "kernels",
    },
}
# Ground-floor modules may know each other in this order only.
GROUND_ORDER = ["arrays", "decimals", "clock", "errors", "data_types", "names", "failpoints"]


@functools.cache
def imports_of(file: Path) -> list[ast.Import | ast.ImportFrom]:
    return [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, (ast.Import, ast.ImportFrom))]


def imported_rooms(file: Path) -> set[str]:
    rooms = set()
    for node in imports_of(file):
        modules: list[str] = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        else:
            assert node.level == 0, f"{file}: relative import"
            modules = [node.module or ""]
            if node.module == "pinotpy":
                modules = [f"pinotpy.{alias.name}" for alias in node.names]
        for module in modules:
            parts = module.split(".")
            if parts[0] == "pinotpy" and len(parts) > 1 and parts[1] != "__version__":
                rooms.add(parts[1])
    return rooms


FILES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.relative_to(SOURCE).as_posix())
def test_imports_point_down(file: Path) -> None:
    parts = file.relative_to(SOURCE).parts
    rooms = imported_rooms(file)
    if len(parts) == 1:
        name = file.stem
        if name in ("__init__", "__main__"):
            return
        assert name in GROUND, f"{name} stands outside the house"
        above = {room for room in rooms if room not in GROUND or GROUND_ORDER.index(room) >= GROUND_ORDER.index(name)}
        assert not above, f"{name} imports {above}"
        return
    room = parts[0]
    assert room in HOUSE, f"room '{room}' is not in the house"
    forbidden = rooms - GROUND - {room} - HOUSE[room]
    assert not forbidden, f"{'/'.join(parts)} imports {sorted(forbidden)}; {room} may know {sorted(HOUSE[room])}"


# Rooms of the packages that have any, from the ground up: each may import those that stand before it. Modules that
# stand in no room (roots) are free: those of kernels/ and the types of functions/ and segment/ are below all rooms,
# query/execute.py is above.
FLOORS = {
    "kernels": [
        "runtime",
        "vector",
        "codec",
        "filter",
        "text",
        "aggregate",
        "group",
        "sketch",
        "order",
        "scan",
        "ingest",
    ],
    "functions": ["time", "text", "json", "sketches", "state", "scalar", "user", "aggregate"],
    "segment": ["directory", "archive", "index", "star_tree", "build", "consuming", "shared_codes"],
    "query": [
        "model",
        "runtime",
        "segments",
        "expression",
        "result",
        "compile",
        "pruning",
        "filter",
        "plan",
        "project",
        "aggregate",
        "order",
        "group",
        "explain",
    ],
}
# What does not follow from the order: these know less than what stands below them.
KNOWS_ONLY = {
    ("query", "result"): {"model", "expression"},  # brokers merge without kernels
    ("query", "compile"): {"model", "expression", "result"},
    ("query", "segments"): {"model", "runtime"},
    ("query", "pruning"): {"model", "expression"},  # brokers prune without kernels
    ("segment", "archive"): {"directory"},
    ("segment", "index"): set(),
}
MODULES_MAX = 20  # of one folder
CATALOGUES = {"functions/aggregate", "functions/scalar"}  # one thing of a kind a file


def rooms_known(package: str, file: Path) -> set[str]:
    """Rooms of the package that a file of it imports."""
    modules = []
    for node in imports_of(file):
        modules += (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [f"{node.module}.{alias.name}" for alias in node.names]
        )
    below = [module.split(".") for module in modules if module.startswith(f"pinotpy.{package}.")]
    return {parts[2] for parts in below} & set(FLOORS[package])


@pytest.mark.parametrize("package", FLOORS)
def test_rooms_import_down(package: str) -> None:
    upward = []
    for floor, room in enumerate(FLOORS[package]):
        allowed = KNOWS_ONLY.get((package, room), set(FLOORS[package][:floor])) | {room}
        for file in sorted((SOURCE / package / room).rglob("*.py")):
            upward += [f"{room}/{file.name} imports {other}" for other in sorted(rooms_known(package, file) - allowed)]
    assert not upward, f"{upward}; floors of {package}/: {FLOORS[package]}"


def test_what_is_compiled_knows_no_room_of_kernels() -> None:
    """The modules at the root of kernels/ are about compiling."""
    assert not any(rooms_known("kernels", file) for file in (SOURCE / "kernels").glob("*.py"))


@pytest.mark.parametrize("package", FLOORS)
def test_rooms_are_small_and_say_what_they_are_for(package: str) -> None:
    folders = [SOURCE / package, *sorted({init.parent for init in (SOURCE / package).rglob("*/__init__.py")})]
    assert {folder.name for folder in folders[1:] if folder.parent == SOURCE / package} == set(FLOORS[package])
    for folder in folders:
        name = folder.relative_to(SOURCE).as_posix()
        assert (
            name in CATALOGUES or len([file for file in folder.glob("*.py") if file.stem != "__init__"]) <= MODULES_MAX
        ), name
        docstring = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
        assert len(docstring.splitlines()) >= (4 if folder.name in FLOORS[package] else 1), (
            f"{name}/__init__.py says too little"
        )


def test_the_house_has_no_cycle() -> None:
    done: set[str] = set()
    while len(done) < len(HOUSE):
        free = {room for room, known in HOUSE.items() if room not in done and known <= done}
        assert free, f"cycle among {set(HOUSE) - done}"
        done |= free


def files_by_imports() -> dict[str, set[str]]:
    """Module → modules that it imports, by their names below pinotpy; late imports and those for types count."""
    modules = [".".join(file.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__") for file in FILES]
    known: dict[str, set[str]] = {module: set() for module in modules}
    for module, file in zip(modules, FILES, strict=True):
        for node in imports_of(file):
            package = "" if isinstance(node, ast.Import) else f"{node.module}."
            for full_name in (f"{package}{alias.name}" for alias in node.names):
                name = full_name.removeprefix("pinotpy.") if full_name.startswith("pinotpy.") else ""
                known[module].add(name if name in known else name.rpartition(".")[0])
        known[module] &= known.keys() - {module}
    return known


def shortest_ways(start: str, known: dict[str, set[str]]) -> dict[str, list[str]]:
    """Each module that `start` leads to → the way there; to `start` itself: round a circle."""
    ways, pending = dict[str, list[str]](), [[start]]
    for way in pending:
        for module in sorted(known[way[-1]] - ways.keys()):
            ways[module] = [*way, module]
            pending.append(ways[module])
    return ways


def test_no_circle_of_files() -> None:
    known = files_by_imports()
    ways = {module: shortest_ways(module, known) for module in known}
    circles: dict[str, str] = {}
    for module in (each for each in known if each in ways[each]):
        members = " ".join(sorted(each for each in ways[module] if module in ways[each]))
        circles.setdefault(members, " → ".join(ways[module][module]))
    assert not circles, "\n".join(["files know each other in a circle:", *sorted(circles.values())])


ONE_DOOR = {  # libraries that only one place may import
    "kazoo": {"cluster/zookeeper.py"},
    "google_crc32c": {"segment/checksum.py"},
    "re2": {"functions/text/patterns.py"},
    "confluent_kafka": {"stream/kafka/client.py"},
    "prompt_toolkit": {"cli/sql_shell/prompt.py"},
    "pyspark": {
        "spark_jobs/session.py",
        "spark_jobs/regrouping.py",
        "spark_jobs/source_files.py",
        "spark_jobs/source_rows.py",
        "spark_jobs/task.py",
    },
}


def test_only_kernels_are_compiled() -> None:
    """The cache of compiled code is keyed by the files of kernels/ alone."""
    users = {
        file.relative_to(SOURCE).as_posix()
        for file in FILES
        if re.search(r"^\s*(from|import) numba", file.read_text(), re.MULTILINE)
    }
    assert all(user.startswith("kernels/") for user in users), sorted(users)


@pytest.mark.parametrize("library", ONE_DOOR)
def test_a_library_of_the_outside_has_one_door(library: str) -> None:
    users = set()
    for file in FILES:
        for node in imports_of(file):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            if any(name.split(".")[0] == library for name in names):
                users.add(file.relative_to(SOURCE).as_posix())
    assert users <= ONE_DOOR[library], f"{library} is imported by {users}"


def test_a_broker_runs_without_compiled_kernels() -> None:
    """numba costs 140 MB and a second: only servers and segment builders load it."""
    code = """
import sys
import pinotpy.broker.service
from pinotpy.functions.scalar.spec import scalar_functions
from pinotpy.functions.spec import functions
functions(), scalar_functions()
sys.exit(any(name in sys.modules for name in ("numba", "llvmlite", "pandas")))
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_the_menu_of_the_command_line_loads_no_library_of_data() -> None:
    """Every command and every daemon begins with it: numpy, Arrow, numba and pandas cost up to two seconds."""
    code = """
import sys
from pinotpy.cli.main import main
sys.argv = ["pinotpy", "--help"]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
heavy = ("numpy", "pyarrow", "numba", "pandas", "pyspark", "prompt_toolkit")
sys.exit(", ".join(name for name in heavy if name in sys.modules) or None)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
