"""Proves what is read from addresses: schemes, parts, names, and that nothing secret in them is shown."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from pinotpy.errors import InvalidConfigError, NotFoundError, UserError
from pinotpy.fs.file_systems import file_system_for
from pinotpy.fs.settings import FileSystemSettings, SchemeSettings
from pinotpy.fs.uris import authority_and_path, file_name, join, local_path, masked, scheme_of


@pytest.mark.parametrize(
    ("uri", "scheme"),
    [
        ("/a/b", ""),
        ("a/b", ""),
        ("a:b/c", ""),
        ("C:/x", ""),
        ("file:/a", "file"),
        ("S3://b/c", "s3"),
        ("abfss://c@a/x", "abfss"),
        ("x+y.z-1://a", "x+y.z-1"),
    ],
)
def test_schemes(uri: str, scheme: str) -> None:
    assert scheme_of(uri) == scheme


@pytest.mark.parametrize("uri", ["", "a\nb", "s3://b/\x00", "x" * 5000])
def test_what_is_no_address(uri: str) -> None:
    with pytest.raises(UserError):
        scheme_of(uri)


@pytest.mark.parametrize(
    ("uri", "authority", "path"),
    [
        ("s3://bucket", "bucket", ""),
        ("s3://bucket/", "bucket", ""),
        ("s3://bucket/a/b c%20d", "bucket", "a/b c%20d"),
        ("s3://bucket/a/", "bucket", "a/"),
        ("hdfs:///a/b", "", "a/b"),
        ("hdfs:/a/b", "", "a/b"),
        ("abfs://container@account.dfs.core.windows.net/a", "container@account.dfs.core.windows.net", "a"),
        ("https://host:1/a?x=//../y#z", "host:1", "a"),
    ],
)
def test_parts(uri: str, authority: str, path: str) -> None:
    assert authority_and_path(uri) == (authority, path)


@pytest.mark.parametrize(
    "uri", ["s3://b/../c", "s3://b/a/..", "s3://b/./a", "s3://b//a", "s3://b/a//c", "https://h/a/../b"]
)
def test_parts_that_could_lead_elsewhere_are_refused(uri: str) -> None:
    with pytest.raises(UserError):
        authority_and_path(uri)


@pytest.mark.parametrize(
    "uri",
    ["https://hunter2@host/a", "https://u:hunter2@host/a", "s3://key:hunter2@bucket/a", "webhdfs://u:hunter2@h:1/a"],
)
def test_credentials_in_addresses_are_refused_and_not_shown(uri: str) -> None:
    with pytest.raises(UserError) as told:
        authority_and_path(uri)
    assert "hunter2" not in str(told.value)


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("https://h/a?sig=x&b=y", "https://h/a?sig=*****&b=*****"),
        ("https://u:p@h/a", "https://*****@h/a"),
        ("s3://b/what?x=y", "s3://b/what?x=y"),
        ("abfs://c@a.dfs/x", "abfs://c@a.dfs/x"),
        ("abfs://c:p@a.dfs/x", "abfs://*****@a.dfs/x"),
    ],
)
def test_what_is_shown(uri: str, shown: str) -> None:
    assert masked(uri) == shown


def test_local_paths() -> None:
    assert local_path("/a b/%20") == Path("/a b/%20") and local_path("file:///a%20b") == local_path(
        "file:/a%20b"
    ) == Path("/a b")
    for wrong in ("file://host/a", "file:///a?b", "file:///a%00b"):
        with pytest.raises(UserError):
            local_path(wrong)


def test_names_are_joined_and_read_back() -> None:
    assert join("s3://b/a/", "c d", "e%") == "s3://b/a/c d/e%"
    assert join("file:///a", "c d") == "file:///a/c%20d" and join("/", "a") == "/a" and join("x", "y") == "x/y"
    for uri in (
        join("s3://b", "c d%"),
        join("file:///a", "c d%"),
        join("https://h", "c d%") + "?x=/y",
        join("a", "c d%"),
    ):
        assert file_name(uri) == "c d%"


def test_unknown_schemes_and_classes_are_told() -> None:
    with pytest.raises(UserError, match="s4"):
        file_system_for("s4://b/a")
    settings = FileSystemSettings((("s3", SchemeSettings("com.example.S3", ())),))
    with pytest.raises(InvalidConfigError, match="module:attribute"):
        file_system_for("s3://b/a", settings)


def test_an_operator_names_a_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_files.py").write_text(
        "from pinotpy.fs.memory_files import MemoryFiles\n"
        "class Own(MemoryFiles):\n    def __init__(self, authority, configs): super().__init__(); self.said = "
        "(authority, configs)\n"
        "half = lambda authority, configs: object()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    specs = [
        {"scheme": "tape", "className": "own_files:Own", "configs": {"speed": 3, "rewind": True}},
        {"scheme": "half", "className": "own_files:half"},
    ]
    settings = FileSystemSettings.from_specs(specs)
    opened = file_system_for("tape://library/a", settings)
    assert opened.said == ("library", {"speed": "3", "rewind": "true"})  # type: ignore[attr-defined]
    assert file_system_for("tape://library/b", settings) is opened, "one for all its files"
    with pytest.raises(InvalidConfigError, match="without list, stat"):
        file_system_for("half://x/a", settings)


def test_specs_of_jobs_are_checked_and_their_secrets_in_no_repr() -> None:
    with pytest.raises(InvalidConfigError) as told:
        FileSystemSettings.from_specs(
            [
                {"scheme": ""},
                {"scheme": "s3"},
                {"scheme": "S3"},
                {"scheme": "a", "className": 1},
                {"scheme": "b", "configs": [1]},
            ]
        )
    assert str(told.value).count("found") == 4
    settings = FileSystemSettings.from_specs([{"scheme": "s3", "configs": {"secretKey": "hunter2"}}])
    assert "hunter2" not in repr(settings) and settings.of("s3").config() == {"secretKey": "hunter2"}
    same = FileSystemSettings.from_properties({"s3.secretKey": "hunter2", "class.s3": ""})
    assert same == settings


@pytest.mark.parametrize(
    ("uri", "configs", "reason"),
    [
        ("s3://b/a", {"regoin": "x"}, "unknown key"),
        ("s3://b/a", {"accessKey": "x"}, "accessKey and secretKey"),
        ("s3://b/a", {"endpoint": "https://u:hunter2@h"}, "without credentials"),
        ("s3://b/a", {"requestTimeoutMs": "soon"}, "milliseconds"),
        ("s3:///a", {}, "no bucket"),
        ("gs://b/a", {"gcpKey": "/x"}, "GOOGLE_APPLICATION_CREDENTIALS"),
        ("abfs://c@a/x", {"fileSystemName": "other"}, "container of the URI"),
        ("webhdfs://h:1/a", {"hadoop.kerberos.principle": "x"}, "delegationToken"),
        ("hdfs://h:1/a", {"hadoop.kerberos.keytab": "x"}, "kinit"),
        ("hdfs://h:1/a", {"hadoop.conf.path": "/no/such"}, "core-site.xml"),
    ],
)
def test_configs_that_are_wrong_are_told(uri: str, configs: dict[str, str], reason: str) -> None:
    scheme = uri.partition(":")[0]
    if scheme == "hdfs":
        pytest.importorskip("hdfs_native", reason="files of hdfs: need pip install 'pinotpy[hdfs]'")
    with pytest.raises(InvalidConfigError, match=reason) as told:
        file_system_for(uri, FileSystemSettings.from_specs([{"scheme": scheme, "configs": configs}]))
    assert "hunter2" not in str(told.value)


def test_names_that_are_no_utf8_keep_their_bytes(tmp_path: Path) -> None:
    """What other machines wrote; lists of such a folder broke off with an error of Python's."""
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xe4.csv")).write_bytes(b"content")
    files = file_system_for(tmp_path.as_uri())
    (entry,) = files.list(tmp_path.as_uri())
    assert entry.uri == f"{tmp_path.as_uri()}/%FF%E4.csv"
    assert files.open(entry.uri).read() == b"content"
    assert join(tmp_path.as_uri(), file_name(entry.uri)) == entry.uri


def test_a_pipe_is_no_file_and_nobody_waits_for_its_end(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    files = file_system_for(str(tmp_path))
    outcome: list[object] = []

    def fetch() -> None:
        try:
            files.fetch(str(tmp_path / "pipe"), tmp_path / "target")
        except NotFoundError as error:
            outcome.append(error)

    thread = threading.Thread(target=fetch, daemon=True)
    thread.start()
    thread.join(60)
    assert outcome and "pipe" in str(outcome[0]) and list(files.list(str(tmp_path))) == []
