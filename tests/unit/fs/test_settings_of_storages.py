"""Proves that settings of a storage that cannot work are told as settings, without secrets and whatever the storage's
library raises; and that docs/file-systems.md lists the keys that are read, each of them.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pinotpy.errors import DataError, InvalidConfigError
from pinotpy.fs.allowed_uris import AllowedUris
from pinotpy.fs.file_systems import EXTRAS, deep_store_for, file_system_for
from pinotpy.fs.guarded_http import GuardedHttpFiles
from pinotpy.fs.settings import FileSystemSettings

DOCS = Path(__file__).resolve().parents[3] / "docs" / "file-systems.md"
ADDRESSES = {
    "s3": "s3://bucket/",
    "gs": "gs://bucket/",
    "abfs": "abfs://container@account.dfs.core.windows.net/",
    "webhdfs": "webhdfs://127.0.0.1:1/",
    "http": "http://127.0.0.1:1/",
}
# Known only to say what to use instead.
REFUSED = {"gcpKey", "hadoop.kerberos.principle"}


def settings_of(scheme: str, configs: dict[str, str]) -> FileSystemSettings:
    return FileSystemSettings.from_specs([{"scheme": scheme, "configs": configs}])


@pytest.mark.parametrize("scheme", ["s3", "gs", "abfs"])
@pytest.mark.parametrize(
    "endpoint", ["http://[", "http://host:99999", "ftp://host", "https://user:hunter2@host", "https://host/path", "//"]
)
def test_an_endpoint_that_is_no_address_is_told(scheme: str, endpoint: str) -> None:
    with pytest.raises(InvalidConfigError, match="endpoint: found") as told:
        file_system_for(ADDRESSES[scheme], settings_of(scheme, {"endpoint": endpoint}))
    assert "hunter2" not in str(told.value)


@pytest.mark.parametrize("scheme", ["s3", "webhdfs", "http"])
def test_a_file_of_certificates_that_is_none_is_told(scheme: str, tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("nothing")
    for path in (tmp_path / "missing.pem", tmp_path / "empty.pem"):
        with pytest.raises(InvalidConfigError, match="caFile: found"):
            file_system_for(ADDRESSES[scheme], settings_of(scheme, {"caFile": str(path)}))
    with pytest.raises(InvalidConfigError, match="caFile: found"):
        GuardedHttpFiles(AllowedUris(), {"caFile": str(tmp_path / "missing.pem")})


@pytest.mark.parametrize(
    ("uri", "configs", "reason"),
    [
        ("s3://bucket/", {"region": "not a region", "accessKey": "AKID", "secretKey": "hunter2"}, "not a region"),
        (
            "abfs://container@account.dfs.core.windows.net/",
            {"accessKey": "hunter2", "sasToken": "hunter2"},
            "account_key",
        ),
    ],
)
def test_what_a_library_says_of_settings_is_told_as_such(uri: str, configs: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidConfigError, match=reason) as told:
        file_system_for(uri, settings_of(uri.partition(":")[0], configs))
    assert "hunter2" not in str(told.value)


def test_a_role_needs_credentials_to_be_taken_with(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(InvalidConfigError, match="no credentials to take the role 'arn:aws:iam::1:role/reader'"):
        file_system_for("s3://bucket/", settings_of("s3", {"roleArn": "arn:aws:iam::1:role/reader"}))


def test_what_a_library_says_of_a_key_is_a_refusal_without_it() -> None:
    uri = "abfs://container@account.dfs.core.windows.net/a"
    files = file_system_for(uri, settings_of("abfs", {"accessKey": "no base64!", "endpoint": "http://127.0.0.1:1"}))
    with pytest.raises(DataError) as told:
        files.stat(uri)
    assert "no base64!" not in str(told.value)


def test_a_bucket_that_none_can_be_called_is_no_matter_of_another_try() -> None:
    files = file_system_for(
        "s3://B_!/", settings_of("s3", {"endpoint": "http://127.0.0.1:1", "accessKey": "AKID", "secretKey": "hunter2"})
    )
    with pytest.raises(DataError, match="Invalid bucket name"):
        files.stat("s3://B_!/a")


def test_a_deep_store_that_cannot_be_made_is_told_as_a_setting(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for uri in (str(tmp_path / "file"), (tmp_path / "file" / "below").as_uri()):
        with pytest.raises(InvalidConfigError, match="expected a folder"):
            deep_store_for(uri)


@pytest.mark.parametrize("scheme", list(ADDRESSES))
def test_the_page_lists_the_keys_that_are_read(scheme: str) -> None:
    with pytest.raises(InvalidConfigError) as told:
        file_system_for(ADDRESSES[scheme], settings_of(scheme, {"no.such.key": "1"}))
    known = re.search(r"no\.such\.key: found an unknown key, allowed: one of (.*)", str(told.value))
    row = re.search(rf"^\| `{scheme}`(?:, `\w+`)* \| (.*) \|$", DOCS.read_text(encoding="utf-8"), re.MULTILINE)
    assert known and row
    assert (
        set(re.findall(r"`([\w.]+)`", row[1])) - {"GOOGLE_APPLICATION_CREDENTIALS"}
        == set(known[1].split(", ")) - REFUSED
    )


def test_the_page_says_what_is_to_install_for_which_scheme() -> None:
    rows = [line for line in DOCS.read_text(encoding="utf-8").splitlines() if re.match(r"\| .*://", line)]
    told = {
        scheme: extra[1]
        for row in rows
        if (extra := re.search(r"pinotpy\[(\w+)\]", row))
        for scheme in re.findall(r"`(\w+)://", row)
    }
    assert told == EXTRAS
    for scheme in set(ADDRESSES) - set(EXTRAS):
        assert any(f"`{scheme}://" in row for row in rows), scheme
