"""Proves that every deep store behaves alike: whole files by key, nothing seen half, names that never become other
paths.
"""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from object_storage import MISSING_S3, S3Server

from pinotpy.errors import DataError, NotFoundError, RemoteError, UserError
from pinotpy.fs.deep_store import DeepStore
from pinotpy.fs.file_systems import deep_store_for, file_system_for
from pinotpy.fs.local import LocalDeepStore
from pinotpy.fs.memory import MemoryDeepStore
from pinotpy.fs.settings import FileSystemSettings

Put = Callable[[str, bytes], None]
KILLED_WHILE_WRITING = """
import os, signal, sys
from pathlib import Path
from pinotpy.fs.local import LocalDeepStore
os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
LocalDeepStore(Path(sys.argv[1])).put("t/s", Path(sys.argv[2]))
"""


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    if MISSING_S3:
        pytest.skip(MISSING_S3)
    server = S3Server(tmp_path_factory.mktemp("s3") / "log")
    yield server
    server.close()


@pytest.fixture(params=["local", "local-uri", "memory", "memory-files", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> DeepStore:
    match request.param:
        case "local":
            return LocalDeepStore(tmp_path / "deep")
        case "local-uri":
            return deep_store_for((tmp_path / "deep").as_uri())
        case "memory-files":
            return deep_store_for(f"memory://{uuid.uuid4().hex}/deep/store/")
        case "s3":
            server = request.getfixturevalue("s3_server")
            settings = FileSystemSettings.from_specs([{"scheme": "s3", "configs": server.configs()}])
            return deep_store_for(f"s3://{server.make_bucket()}/deep/store", settings)
    return MemoryDeepStore()


@pytest.fixture
def put(store: DeepStore, tmp_path: Path) -> Put:
    def put_bytes(key: str, content: bytes) -> None:
        source = tmp_path / f"source-{threading.get_ident()}"
        source.write_bytes(content)
        stored = store.put(key, source)
        assert (stored.key, stored.size_bytes) == (key, len(content))
        assert source.read_bytes() == content

    return put_bytes


def read(store: DeepStore, key: str) -> bytes:
    with store.open(key) as reader:
        return reader.read()


def keys(store: DeepStore, prefix: str = "") -> list[str]:
    return [stored.key for stored in store.list(prefix)]


def test_what_was_put_can_be_opened_and_got(store: DeepStore, put: Put, tmp_path: Path) -> None:
    put("flights/flights_0.tar.gz", b"abc" * 1000)
    assert read(store, "flights/flights_0.tar.gz") == b"abc" * 1000
    got = store.get("flights/flights_0.tar.gz", tmp_path / "target")
    assert (tmp_path / "target").read_bytes() == b"abc" * 1000
    assert got.size_bytes == 3000
    assert got.modified_ms > 1_600_000_000_000


def test_put_replaces_and_an_open_reader_keeps_its_version(store: DeepStore, put: Put) -> None:
    put("t/s", b"old" * 100_000)
    with store.open("t/s") as reader:
        first = reader.read(3)
        put("t/s", b"new")
        assert first + reader.read() == b"old" * 100_000
    assert read(store, "t/s") == b"new"
    assert keys(store) == ["t/s"]


def test_a_final_source_is_stored_as_any_other_and_may_go(store: DeepStore, tmp_path: Path) -> None:
    source = tmp_path / "final"
    for content in (b"first", b"second"):
        source.write_bytes(content)
        for _ in range(2):  # again: the same file under the same name
            stored = store.put("a/b.tar.gz", source, is_final=True)
            assert stored.size_bytes == len(content) and source.read_bytes() == content
        source.unlink()
        assert read(store, "a/b.tar.gz") == content
    assert [file.key for file in store.list()] == ["a/b.tar.gz"]
    with pytest.raises(NotFoundError):
        store.put("a/c.tar.gz", source, is_final=True)


def test_list_is_sorted_and_knows_folders_by_whole_names(store: DeepStore, put: Put) -> None:
    for key in ("b/2", "b/1", "bb/1", "a", "b/c/3"):
        put(key, b"x")
    assert keys(store) == ["a", "b/1", "b/2", "b/c/3", "bb/1"]
    assert keys(store, "b") == ["b/1", "b/2", "b/c/3"]
    assert keys(store, "b/") == ["b/1", "b/2", "b/c/3"]
    assert keys(store, "none") == []


def test_move_and_delete(store: DeepStore, put: Put) -> None:
    put("t/s", b"one")
    put("Deleted_Segments/t/s", b"zero")
    assert store.move("t/s", "Deleted_Segments/t/s").size_bytes == 3
    assert read(store, "Deleted_Segments/t/s") == b"one"
    assert keys(store) == ["Deleted_Segments/t/s"]
    assert store.delete("Deleted_Segments/t/s") is True
    assert store.delete("Deleted_Segments/t/s") is False
    assert keys(store) == []
    put("t/s", b"again")
    assert read(store, "t/s") == b"again"


@pytest.mark.parametrize("operation", ["get", "open", "move"])
def test_a_file_that_is_not_there_is_not_found(store: DeepStore, operation: str, tmp_path: Path) -> None:
    calls = {
        "get": lambda: store.get("t/s", tmp_path / "target"),
        "open": lambda: store.open("t/s"),
        "move": lambda: store.move("t/s", "t/u"),
    }
    with pytest.raises(NotFoundError, match="t/s"):
        calls[operation]()
    assert not (tmp_path / "target").exists()


BAD_KEYS = [
    "",
    "/",
    "/etc/passwd",
    "..",
    "../x",
    "a/../b",
    "a//b",
    "a/",
    "a/./b",
    ".hidden",
    "a/.b",
    "a\\b",
    "a\x00b",
    "a\nb",
    "t/s ",
    "t/..s",
    "x" * 401,
    "a/" * 8 + "b",
]


@pytest.mark.parametrize("key", BAD_KEYS, ids=repr)
def test_a_name_never_becomes_another_path(store: DeepStore, key: str, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"x")
    (tmp_path / "x").write_bytes(b"outside")
    for call in (
        lambda: store.put(key, source),
        lambda: store.get(key, tmp_path / "target"),
        lambda: store.open(key),
        lambda: store.delete(key),
        lambda: store.move(key, "a"),
    ):
        with pytest.raises(UserError):
            call()
    if key:
        put_source = store.put("a-file", source)
        with pytest.raises(UserError):
            store.move(put_source.key, key)
        assert keys(store) == ["a-file"]
    assert (tmp_path / "x").read_bytes() == b"outside"


@pytest.mark.parametrize("prefix", ["..", "../", "/", "a/../..", "."])
def test_a_prefix_never_leaves_the_store(store: DeepStore, prefix: str) -> None:
    with pytest.raises(UserError):
        list(store.list(prefix))


@pytest.mark.parametrize("store", ["local", "local-uri", "memory"], indirect=True)
def test_where_there_are_folders_a_file_is_none(store: DeepStore, put: Put, tmp_path: Path) -> None:
    put("t/s", b"x")
    source = tmp_path / "source"
    source.write_bytes(b"y")
    with pytest.raises(DataError):
        store.put("t/s/u", source)
    assert keys(store) == ["t/s"]


def test_a_source_that_is_not_there_changes_nothing(store: DeepStore, put: Put, tmp_path: Path) -> None:
    put("t/s", b"old")
    with pytest.raises(NotFoundError):
        store.put("t/s", tmp_path / "missing")
    assert read(store, "t/s") == b"old"


def test_readers_and_writers_never_meet_a_half_file(store: DeepStore, tmp_path: Path) -> None:
    contents = [bytes([digit]) * 200_000 for digit in range(4)]
    for digit, content in enumerate(contents):
        (tmp_path / f"source-{digit}").write_bytes(content)
    store.put("t/s", tmp_path / "source-0")
    wrong: list[int] = []

    def write(digit: int) -> None:
        for _ in range(10):
            try:
                store.put("t/s", tmp_path / f"source-{digit}")
            except RemoteError:
                continue  # a storage may be overloaded and say so; then it has the old file or the new one
            written.append(digit)

    written: list[int] = []
    writers = [threading.Thread(target=write, args=(digit,)) for digit in range(1, 4)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        try:
            content = read(store, "t/s")
        except RemoteError:
            continue  # storages that cannot keep a version for its readers say that it was replaced
        if content not in contents:
            wrong.append(len(content))
    for writer in writers:
        writer.join(timeout=60)
    assert wrong == [] and read(store, "t/s") in contents
    assert set(written) == {1, 2, 3}
    assert keys(store) == ["t/s"]


def test_folders_that_others_empty_meanwhile_are_no_error(store: DeepStore, tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"content")
    rounds = 200 if isinstance(store, LocalDeepStore) else 3  # which has folders, and deletes them

    def work(number: int) -> None:
        for _ in range(rounds):
            store.put(f"t/s/{number}", tmp_path / "source")
            store.move(f"t/s/{number}", f"deleted/t/{number}")
            assert store.delete(f"deleted/t/{number}")

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [None] * 4
    assert keys(store) == []


def test_others_are_told_where_they_can_read_a_file_themselves(store: DeepStore, put: Put, tmp_path: Path) -> None:
    put("t/s, a", b"content")
    uri = store.uri("t/s, a")
    if uri is not None and uri.startswith("memory:"):
        file_system_for(uri).fetch(uri, tmp_path / "target")
        assert (tmp_path / "target").read_bytes() == b"content"
    assert (uri is None) == isinstance(store, LocalDeepStore | MemoryDeepStore)
    if uri is not None:
        assert uri.endswith("/deep/store/t/s, a")


def test_what_a_killed_writer_left_goes_once_it_is_old(store: DeepStore, put: Put, tmp_path: Path) -> None:
    put("t/s/1", b"whole")
    put("u/s/1", b"whole")
    left = [tmp_path / "deep" / name for name in ("t/s/.unfinished-1", "t/gone/.unfinished-2", "u/s/.unfinished-3")]
    leaves = isinstance(store, LocalDeepStore)  # the other ones here have a better way
    if leaves:
        for path in left:
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(b"half")
            os.utime(path, (0, 0))  # as a second name of an old file, which was made just now
    now_ms = time.time_ns() // 1_000_000
    assert store.drop_unfinished("t", now_ms - 60_000) == 0 and keys(store) == ["t/s/1", "u/s/1"]
    assert store.drop_unfinished("t", now_ms + 60_000) == (2 if leaves else 0)
    assert keys(store) == ["t/s/1", "u/s/1"]
    assert [path.exists() for path in left] == [False, False, leaves] and not (
        tmp_path / "deep" / "t" / "gone"
    ).exists()
    assert store.drop_unfinished("none", now_ms + 60_000) == 0
    for prefix in ("..", "/", "a/../.."):
        with pytest.raises(UserError):
            store.drop_unfinished(prefix, now_ms)


def test_a_process_that_is_killed_while_it_writes_leaves_what_is_never_listed_and_can_be_dropped(
    tmp_path: Path,
) -> None:
    (tmp_path / "source").write_bytes(b"content")
    killed = subprocess.run(
        [sys.executable, "-c", KILLED_WHILE_WRITING, str(tmp_path / "deep"), str(tmp_path / "source")],
        check=False,
        capture_output=True,
        timeout=60,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    store = LocalDeepStore(tmp_path / "deep")
    assert [path.name[:12] for path in (tmp_path / "deep" / "t").iterdir()] == [".unfinished-"] and keys(store) == []
    assert store.drop_unfinished("", time.time_ns() // 1_000_000 + 60_000) == 1
    assert list((tmp_path / "deep").iterdir()) == []


def test_links_among_unfinished_files_lead_nowhere(tmp_path: Path) -> None:
    store, outside = LocalDeepStore(tmp_path / "deep"), tmp_path / "outside"
    outside.mkdir()
    (outside / ".unfinished-1").write_bytes(b"others'")
    (tmp_path / "deep" / "t").symlink_to(outside)
    (tmp_path / "deep" / "u").mkdir()
    (tmp_path / "deep" / "u" / ".unfinished-2").symlink_to(outside / ".unfinished-1")
    assert store.drop_unfinished("", time.time_ns() // 1_000_000 + 60_000) == 0
    with pytest.raises(UserError, match="link"):
        store.drop_unfinished("t", time.time_ns() // 1_000_000 + 60_000)
    assert (outside / ".unfinished-1").read_bytes() == b"others'"


@pytest.mark.parametrize("is_final", [False, True])
def test_an_unfinished_file_that_somebody_deletes_is_written_once_more_and_whole(
    is_final: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, source, replace, tries = LocalDeepStore(tmp_path / "deep"), tmp_path / "source", os.replace, []
    source.write_bytes(b"content" * 1000)

    def with_a_deletion_before(of: Path, name: Path) -> None:
        tries.append(of)
        if len(tries) == 1:
            of.unlink()
        replace(of, name)

    def refuse(*_: object) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    monkeypatch.setattr(os, "link", refuse)
    monkeypatch.setattr(os, "replace", with_a_deletion_before)
    assert store.put("a/b", source, is_final=is_final).size_bytes == 7000
    assert len(tries) == 2 and read(store, "a/b") == b"content" * 1000


def test_links_inside_the_folder_lead_nowhere(tmp_path: Path) -> None:
    store = LocalDeepStore(tmp_path / "deep")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    (tmp_path / "deep" / "link").symlink_to(outside)
    (tmp_path / "deep" / "file").symlink_to(outside / "secret")
    with pytest.raises(UserError):
        store.open("link/secret")
    with pytest.raises(NotFoundError):
        store.open("file")
    assert keys(store) == []
    assert store.delete("file") is False


def test_a_final_source_on_the_same_disk_is_not_copied(tmp_path: Path) -> None:
    store, source = LocalDeepStore(tmp_path / "deep"), tmp_path / "source"
    source.write_bytes(b"content")
    store.put("copied", source)
    store.put("linked", source, is_final=True)
    inodes = [(tmp_path / "deep" / name).stat().st_ino for name in ("copied", "linked")]
    assert inodes[0] != source.stat().st_ino == inodes[1]
    # What a link shows may change: its bytes are copied.
    (tmp_path / "link").symlink_to(source)
    store.put("from link", tmp_path / "link", is_final=True)
    assert read(store, "from link") == b"content" and not (tmp_path / "deep" / "from link").is_symlink()
    assert sorted(path.name for path in (tmp_path / "deep").iterdir()) == ["copied", "from link", "linked"]


def test_a_new_final_source_is_linked_in_one_step_so_that_a_kill_leaves_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, source, linked = LocalDeepStore(tmp_path / "deep"), tmp_path / "source", []
    source.write_bytes(b"content")
    link = os.link

    def watch(of: Path, name: Path) -> None:
        linked.append(name.name)
        link(of, name)

    monkeypatch.setattr(os, "link", watch)
    store.put("a/b", source, is_final=True)
    assert linked == ["b"] and read(store, "a/b") == b"content"


@pytest.mark.parametrize("number", [errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP])
def test_a_final_source_is_copied_where_it_cannot_be_linked(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", refuse)
    store, source = LocalDeepStore(tmp_path / "deep"), tmp_path / "source"
    source.write_bytes(b"content")
    store.put("a/b", source, is_final=True)
    assert read(store, "a/b") == b"content" and (tmp_path / "deep/a/b").stat().st_ino != source.stat().st_ino


def test_a_final_source_that_does_not_reach_the_disk_replaces_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, source = LocalDeepStore(tmp_path / "deep"), tmp_path / "source"
    source.write_bytes(b"old")
    store.put("a/b", source)
    source.write_bytes(b"new")

    def fail(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched, pytest.raises(DataError, match="input/output error"):
        patched.setattr(os, "fsync", fail)
        store.put("a/b", source, is_final=True)
    assert read(store, "a/b") == b"old" and [path.name for path in (tmp_path / "deep/a").iterdir()] == ["b"]


def test_the_memory_store_fails_on_order(tmp_path: Path) -> None:
    def full(operation: str, key: str) -> None:
        if operation == "put":
            raise DataError(f"deep store failed on '{key}': no space left on device")

    store = MemoryDeepStore(fault=full)
    (tmp_path / "source").write_bytes(b"x")
    with pytest.raises(DataError, match="no space"):
        store.put("t/s", tmp_path / "source")
    assert list(store.list()) == []
