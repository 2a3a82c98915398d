"""Proves that every file system behaves alike: whole files by URI, listed in order, nothing seen half, errors that say
what is wrong.

The expectations are written down here; bytes are compared with what was made, never with another call of the same file
system.
"""

from __future__ import annotations

import importlib.util
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hadoop_server import HdfsServer, missing_hadoop
from object_storage import MISSING_GCS, MISSING_S3, AzureServer, GcsServer, S3Server, missing_azurite

from pinotpy.errors import NotFoundError, RemoteError, UserError
from pinotpy.fs.file_system import UNFINISHED, FileSystem, WritesBeside
from pinotpy.fs.file_systems import file_system_for
from pinotpy.fs.settings import FileSystemSettings
from pinotpy.fs.uris import join


@dataclass(frozen=True, slots=True)
class Place:
    """An empty folder of some storage."""

    root: str
    files: FileSystem

    def uri(self, *names: str) -> str:
        return join(self.root, *names)


def at(root: str, settings: FileSystemSettings | None = None) -> Place:
    return Place(root, file_system_for(root, settings))


Put = Callable[[str, bytes], str]


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    if MISSING_S3:
        pytest.skip(MISSING_S3)
    server = S3Server(tmp_path_factory.mktemp("s3") / "log")
    yield server
    server.close()


@pytest.fixture(scope="session")
def gcs_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GcsServer]:
    if MISSING_GCS:
        pytest.skip(MISSING_GCS)
    server = GcsServer(tmp_path_factory.mktemp("gcs") / "log")
    yield server
    server.close()


@pytest.fixture(scope="session")
def azure_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzureServer]:
    if missing_azurite():
        pytest.skip(missing_azurite())
    server = AzureServer(tmp_path_factory.mktemp("azure") / "log")
    yield server
    server.close()


@pytest.fixture(scope="session")
def hdfs_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsServer]:
    if missing_hadoop():
        pytest.skip(missing_hadoop())
    server = HdfsServer(tmp_path_factory.mktemp("hdfs") / "data")
    yield server
    server.close()


def settings_of(scheme: str, configs: dict[str, str]) -> FileSystemSettings:
    return FileSystemSettings.from_specs([{"scheme": scheme, "configs": configs}])


PLACES = [
    "path",
    "file-uri",
    "memory",
    "s3",
    "gs",
    pytest.param("abfs", marks=pytest.mark.full),  # npm brings 186 MB
    # A JVM each for name node and data node, and their jars: too much for the fast tier.
    pytest.param("webhdfs", marks=pytest.mark.full),
    pytest.param("hdfs", marks=pytest.mark.full),
]


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    match request.param:
        case "s3":
            server = request.getfixturevalue("s3_server")
            return at(f"s3://{server.make_bucket()}/some folder", settings_of("s3", server.configs()))
        case "gs":
            google = request.getfixturevalue("gcs_server")
            return at(f"gs://{google.make_bucket()}/some folder", settings_of("gs", google.configs()))
        case "abfs":
            azure = request.getfixturevalue("azure_server")
            container = f"abfs://{azure.make_container()}@{azure.ACCOUNT}.dfs.core.windows.net"
            return at(f"{container}/some folder", settings_of("abfs", azure.configs()))
        case "webhdfs":
            hadoop = request.getfixturevalue("hdfs_server")
            return at(
                f"webhdfs://{hadoop.web}/{uuid.uuid4().hex}/some folder", settings_of("webhdfs", {"user": "root"})
            )
        case "hdfs":
            if importlib.util.find_spec("hdfs_native") is None:
                pytest.skip("no client of HDFS here: pip install -e '.[dev]' brings hdfs-native")
            hadoop = request.getfixturevalue("hdfs_server")
            hadoop.make_open("/open")
            return at(f"hdfs://{hadoop.rpc}/open/{uuid.uuid4().hex}/some folder")
        case "path":
            return at(str(tmp_path / "some folder"))
        case "file-uri":
            return at((tmp_path / "some folder").as_uri())
        case "memory":
            return at(f"memory://{uuid.uuid4().hex}/some folder")
    raise AssertionError(request.param)


@pytest.fixture
def put(place: Place, tmp_path: Path) -> Put:
    def put_bytes(name: str, content: bytes) -> str:
        source = tmp_path / f"source-{uuid.uuid4().hex}"
        source.write_bytes(content)
        uri = place.uri(*name.split("/"))
        entry = place.files.put(uri, source)
        assert (entry.uri, entry.size_bytes) == (uri, len(content))
        assert source.read_bytes() == content
        return uri

    return put_bytes


def read(place: Place, uri: str) -> bytes:
    with place.files.open(uri) as reader:
        return reader.read()


def names(place: Place, uri: str | None = None) -> list[str]:
    listed = [entry.uri for entry in place.files.list(place.root if uri is None else uri)]
    assert listed == sorted(listed)
    return [uri.removeprefix(place.root).lstrip("/") for uri in listed]


def test_what_was_put_can_be_opened_and_fetched(place: Place, put: Put, tmp_path: Path) -> None:
    content = random.Random(7).randbytes(3_000_001)
    uri = put("day=2026-01-01/part 0, copy=1.parquet", content)
    assert read(place, uri) == content
    got = place.files.fetch(uri, tmp_path / "target")
    assert (tmp_path / "target").read_bytes() == content
    assert got.size_bytes == place.files.stat(uri).size_bytes == 3_000_001
    assert got.modified_ms > 1_600_000_000_000
    assert place.files.exists(uri)


@pytest.mark.parametrize("size", [0, 1, 5 << 20, (10 << 20) + 1])
def test_every_length_comes_back(place: Place, put: Put, size: int, tmp_path: Path) -> None:
    content = random.Random(size).randbytes(size)
    uri = put("a.bin", content)
    assert read(place, uri) == content
    assert place.files.fetch(uri, tmp_path / "target").size_bytes == size
    assert (tmp_path / "target").read_bytes() == content


def test_an_open_file_can_be_read_anywhere(place: Place, put: Put) -> None:
    content = random.Random(3).randbytes(400_000)
    uri = put("a.bin", content)
    dice = random.Random(5)
    with place.files.open(uri) as reader:
        assert reader.seekable() and reader.readable()
        for _ in range(60):
            start, length = dice.randrange(len(content) + 10), dice.choice([0, 1, 10, 70_000])
            assert reader.seek(start) == start
            assert reader.read(length) == content[start : start + length]
            assert reader.tell() == max(start, min(start + length, len(content))) if start <= len(content) else True
        assert reader.seek(-7, 2) == len(content) - 7
        assert reader.read() == content[-7:]
        assert reader.read(1) == b""


def test_what_a_killed_writer_left_goes_once_it_is_old(place: Place, put: Put) -> None:
    whole = ["t/a.bin", "t/day/b.bin", "u/a.bin"]
    for name in whole:
        put(name, b"whole")
    left = [put(f"{folder}/{UNFINISHED}1", b"half") for folder in ("t", "t/day", "u")]
    now_ms = time.time_ns() // 1_000_000
    if not isinstance(place.files, WritesBeside):
        return  # what is being written has no name there
    is_staged = not place.root.startswith("gs:")
    assert place.files.drop_unfinished(place.uri("t") + "/", now_ms - 3_600_000) == 0
    assert place.files.drop_unfinished(place.uri("t") + "/", now_ms + 3_600_000) == (2 if is_staged else 0)
    assert [place.files.exists(uri) for uri in left] == ([False, False, True] if is_staged else [True] * 3)
    assert names(place) == whole
    assert place.files.drop_unfinished(place.uri("none") + "/", now_ms + 3_600_000) == 0


def test_what_was_opened_is_read_in_one_version_or_fails(place: Place, put: Put) -> None:
    """Ranges of an old and a new version would be a file that never was."""
    versions = [bytes([letter]) * (10 << 20) for letter in b"AB"]
    uri = put("a.bin", versions[0])
    with place.files.open(uri) as reader:
        start = reader.read(1 << 20)
        time.sleep(1.1)  # some storages date their files to the second
        put("a.bin", versions[1])
        try:
            content = start + reader.read()
        except RemoteError as error:
            assert "while it was read" in error.message
        else:
            assert content == versions[0]


@pytest.mark.parametrize(
    "name", ["ü ñ/日本 😀.csv", "50%/100%25.csv", "a+b=c&d#e?f;g", "q'uo\"te[br]{ack}$*|<>~,.", "x" * 200]
)
def test_names_are_names_whatever_characters_they_have(place: Place, put: Put, name: str, tmp_path: Path) -> None:
    uri = put(name, name.encode())
    assert [entry.uri for entry in place.files.list(place.root)] == [uri]
    assert read(place, uri) == name.encode()
    assert place.files.fetch(uri, tmp_path / "target").size_bytes == len(name.encode())
    moved = place.uri(*f"moved/{name}".split("/"))
    place.files.move(uri, moved)
    assert place.files.exists(moved) and not place.files.exists(uri)
    assert place.files.delete(moved) is True and names(place) == []


def test_readers_of_formats_read_from_it(place: Place, put: Put, tmp_path: Path) -> None:
    """Parquet reads the end first and columns anywhere: what an input file must bear."""
    import pyarrow as pa
    from pyarrow import parquet

    table = pa.table({"a": list(range(50_000)), "b": [f"text {i % 97}" for i in range(50_000)]})
    parquet.write_table(table, tmp_path / "t.parquet", row_group_size=10_000)
    uri = put("t.parquet", (tmp_path / "t.parquet").read_bytes())
    with place.files.open(uri) as reader:
        assert parquet.read_table(reader, columns=["b"]).equals(table.select(["b"]))


def test_put_replaces(place: Place, put: Put) -> None:
    uri = put("t/s", b"old" * 100_000)
    put("t/s", b"new")
    assert read(place, uri) == b"new"
    assert names(place) == ["t/s"]


def test_list_is_sorted_and_knows_folders_by_whole_names(place: Place, put: Put) -> None:
    for name in ("b/2", "b/1", "bb/1", "a", "b/c/3", "b-1/x"):
        put(name, b"x" * len(name))
    assert names(place) == ["a", "b-1/x", "b/1", "b/2", "b/c/3", "bb/1"]
    assert names(place, place.uri("b")) == names(place, place.uri("b") + "/") == ["b/1", "b/2", "b/c/3"]
    assert names(place, place.uri("a")) == ["a"]
    assert names(place, place.uri("none")) == []
    assert names(place, place.uri("b", "none")) == []
    assert [entry.size_bytes for entry in place.files.list(place.uri("b"))] == [3, 3, 5]


def test_a_long_list_is_whole(place: Place, put: Put) -> None:
    for number in reversed(range(30)):
        put(f"t/{number:04d}/{number % 3}", b"")
    assert names(place) == [f"t/{number:04d}/{number % 3}" for number in range(30)]


def test_move_and_delete(place: Place, put: Put) -> None:
    uri, other = put("t/s", b"one"), put("gone/t/s", b"zero")
    assert place.files.move(uri, other).size_bytes == 3
    assert read(place, other) == b"one"
    assert names(place) == ["gone/t/s"]
    assert place.files.delete(other) is True
    assert place.files.delete(other) is False
    assert names(place) == []
    put("t/s", b"again")
    assert read(place, uri) == b"again"


def test_a_file_that_is_moved_to_where_it_is_stays(place: Place, put: Put) -> None:
    uri = put("t/s", b"one")
    assert place.files.move(uri, uri).size_bytes == 3
    assert read(place, uri) == b"one" and names(place) == ["t/s"]


@pytest.mark.parametrize("operation", ["fetch", "open", "move", "stat"])
def test_a_file_that_is_not_there_is_not_found(place: Place, operation: str, tmp_path: Path) -> None:
    uri, files = place.uri("t", "s"), place.files
    calls: dict[str, Callable[[], object]] = {
        "fetch": lambda: files.fetch(uri, tmp_path / "target"),
        "open": lambda: files.open(uri),
        "move": lambda: files.move(uri, place.uri("t", "u")),
        "stat": lambda: files.stat(uri),
    }
    with pytest.raises(NotFoundError, match="t/s"):
        calls[operation]()
    assert not (tmp_path / "target").exists()
    assert not files.exists(uri)
    assert names(place) == []


def test_a_folder_is_no_file(place: Place, put: Put, tmp_path: Path) -> None:
    put("t/s", b"x")
    assert not place.files.exists(place.uri("t"))
    with pytest.raises(NotFoundError):
        place.files.stat(place.uri("t"))
    (tmp_path / "source").write_bytes(b"y")
    with pytest.raises(UserError):
        place.files.put(place.uri("t") + "/", tmp_path / "source")
    assert names(place) == ["t/s"]


def test_a_source_that_is_not_there_changes_nothing(place: Place, put: Put, tmp_path: Path) -> None:
    uri = put("t/s", b"old")
    with pytest.raises(NotFoundError):
        place.files.put(uri, tmp_path / "missing")
    assert read(place, uri) == b"old"


def test_a_fetch_replaces_its_target_and_leaves_nothing_else(place: Place, put: Put, tmp_path: Path) -> None:
    uri, folder = put("t/s", b"new"), tmp_path / "targets"
    folder.mkdir()
    (folder / "target").write_bytes(b"old" * 1000)
    place.files.fetch(uri, folder / "target")
    assert (folder / "target").read_bytes() == b"new"
    assert [path.name for path in folder.iterdir()] == ["target"]


def test_readers_and_writers_never_meet_a_half_file(place: Place, tmp_path: Path) -> None:
    contents = [bytes([digit]) * 200_000 for digit in range(4)]
    for digit, content in enumerate(contents):
        (tmp_path / f"source-{digit}").write_bytes(content)
    uri = place.uri("t", "s")
    place.files.put(uri, tmp_path / "source-0")
    wrong: list[object] = []

    def write(digit: int) -> None:
        for _ in range(5):
            place.files.put(uri, tmp_path / f"source-{digit}")

    whole = 0

    def fetch() -> None:
        nonlocal whole
        for turn in range(8):
            try:
                place.files.fetch(uri, tmp_path / f"target-{turn}")
            except RemoteError:
                # Storages that cannot keep a version for its readers say that it was replaced.
                assert not (tmp_path / f"target-{turn}").exists()
                continue
            content = (tmp_path / f"target-{turn}").read_bytes()
            whole += 1
            if content not in contents:
                wrong.append(len(content))

    threads = [
        *(threading.Thread(target=write, args=(digit,)) for digit in range(1, 4)),
        threading.Thread(target=fetch),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    fetch()
    assert wrong == [] and whole > 0
    assert names(place) == ["t/s"]
