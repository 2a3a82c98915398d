"""Proves which addresses a daemon may fetch from: what the operator lists and nothing else, whatever a name is made to
look like.
"""

from __future__ import annotations

import pathlib

import pytest

from pinotpy.errors import AccessDeniedError, InvalidConfigError, PinotError, RemoteError, UserError
from pinotpy.fs.allowed_uris import AllowedUris

LISTED = (
    "s3://bucket/pinot/",
    "https://files.example/segments",
    "http://files.example:8080/",
    "hdfs://nn:8020/deep",
    "webhdfs://nn:9870/deep/",
)


@pytest.mark.parametrize(
    "uri",
    [
        "s3://bucket/pinot/segments/t/s/1.tar.gz",
        "s3a://bucket/pinot/x",
        "S3://bucket/pinot/x",
        "https://files.example/segments/a",
        "https://FILES.example:443/segments/a%20b?version=2",
        "http://files.example:8080/anything",
        "hdfs://NN:8020/deep/x",
        "webhdfs://nn:9870/deep/x",
    ],
)
def test_what_lies_at_or_below_an_entry_is_allowed(uri: str) -> None:
    AllowedUris(LISTED).check(uri)


@pytest.mark.parametrize(
    "uri",
    [
        "s3://bucket/pinot-of-others/x",
        "s3://bucket2/pinot/x",
        "s3://bucket/other",
        "s3://bucket/pinot/../other",
        "gs://bucket/pinot/x",
        "http://files.example/segments/a",
        "https://files.example:8443/segments/a",
        "https://files.example.evil.example/segments/a",
        "https://files.example@evil.example/segments/a",
        "https://user:hunter2@files.example/segments/a",
        "https://evil.example/?https://files.example/segments/a",
        "https://evil.example/#https://files.example/segments/a",
        "https://files.example/segments/../private",
        "https://files.example/segments/%2e%2e/private",
        "https://files.example/segments/%252e%252e/private",
        "https://files.example/segments/..%2fprivate",
        "https://files.example/segments/..%5cprivate",
        "https://files.example\\@evil.example/segments/a",
        "https://files.example/segments\x00/a",
        "http://169.254.169.254/latest/meta-data/",
        "http://[::ffff:169.254.169.254]/latest",
        "file:///etc/passwd",
        "/etc/passwd",
        "etc/passwd",
        "hdfs://nn/deep/x",
        "hdfs://nn:8020/deeper",
        "jar:file:///x",
        "",
    ],
)
def test_everything_else_is_not(uri: str) -> None:
    allowed = AllowedUris(LISTED)
    assert not allowed.allows(uri)
    with pytest.raises((AccessDeniedError, UserError)) as told:
        allowed.check(uri)
    assert "hunter2" not in str(told.value)


def test_nothing_is_allowed_by_default() -> None:
    with pytest.raises(AccessDeniedError, match=r"pinotpy\.segment\.fetcher\.allowedUris"):
        AllowedUris().check("s3://bucket/x")


def test_links_lead_out_of_no_listed_folder(tmp_path: pathlib.Path) -> None:
    folder, outside = tmp_path / "listed", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (folder / "file").write_text("x")
    (folder / "link").symlink_to(outside)
    allowed = AllowedUris((folder.as_uri() + "/",))
    allowed.check((folder / "file").as_uri())
    for uri in (
        (folder / "link" / "secret").as_uri(),
        (outside / "secret").as_uri(),
        f"{folder.as_uri()}/../outside/secret",
        f"{folder.as_uri()}2/x",
    ):
        assert not allowed.allows(uri), uri
    # What is listed may itself be reached by a link: the place counts.
    (tmp_path / "alias").symlink_to(folder)
    assert allowed.allows((tmp_path / "alias" / "file").as_uri())


@pytest.mark.parametrize(
    ("address", "networks", "may"),
    [
        ("93.184.216.34", (), True),
        ("10.1.2.3", (), False),
        ("10.1.2.3", ("10.1.0.0/16",), True),
        ("10.2.2.3", ("10.1.0.0/16",), False),
        ("127.0.0.1", (), False),
        ("127.0.0.1", ("127.0.0.0/8",), True),
        ("192.168.1.1", (), False),
        ("172.16.0.1", (), False),
        ("100.64.0.1", (), False),
        ("169.254.169.254", (), False),
        ("169.254.169.254", ("0.0.0.0/0",), False),
        ("0.0.0.0", ("0.0.0.0/0",), False),
        ("::1", (), False),
        ("fe80::1", ("::/0",), False),
        ("fd00::1", (), False),
        ("fd00::1", ("fd00::/8",), True),
        ("::ffff:10.1.2.3", (), False),
        ("::ffff:169.254.169.254", ("0.0.0.0/0", "::/0"), False),
        ("2606:4700::1111", (), True),
        # IPv6 addresses that a network translates lead to the IPv4 address in them.
        ("64:ff9b::5db8:d822", (), True),
        ("64:ff9b::7f00:1", (), False),
        ("64:ff9b::a9fe:a9fe", ("::/0", "0.0.0.0/0"), False),
        ("64:ff9b::a01:203", ("10.1.0.0/16",), True),
        ("64:ff9b:1::7f00:1", (), False),
        ("64:ff9b:1::5db8:d822", (), False),
        ("2002:7f00:1::", (), False),
        ("2002:a9fe:a9fe::1", ("::/0",), False),
        ("::ffff:0:a9fe:a9fe", (), False),
        ("::127.0.0.1", (), False),
        ("::169.254.169.254", ("::/0",), False),
        ("fec0::1", (), False),
        ("3fff::1", (), False),
        # Metadata services that are not at link-local addresses.
        ("192.0.0.192", (), False),
        ("168.63.129.16", ("0.0.0.0/0",), False),
        ("100.100.100.200", ("100.64.0.0/10",), False),
        ("fd00:ec2::254", ("fd00::/8",), False),
    ],
)
def test_a_name_may_lead_to_public_and_listed_networks_only(address: str, networks: tuple[str, ...], may: bool) -> None:
    allowed = AllowedUris(("https://files.example/", *networks), resolve=lambda host, port: [address])
    if may:
        assert allowed.web_address("https://files.example/a") == address
    else:
        with pytest.raises(AccessDeniedError, match="not public"):
            allowed.web_address("https://files.example/a")


@pytest.mark.parametrize(
    "host", ["http://[bad/", "http://[::1/", "http://h:99999/", "http://h:abc/", "http://h:0/", "https://:443/"]
)
def test_a_web_address_without_a_host_is_none(host: str) -> None:
    with pytest.raises(InvalidConfigError, match="is not valid"):
        AllowedUris((host,))
    with pytest.raises(UserError):
        AllowedUris(("http://h/",)).check(host + "x")


@pytest.mark.parametrize("host", [".", "a" * 70, "xn--\x80"])
def test_a_host_that_cannot_be_a_name_is_not_known(host: str) -> None:
    with pytest.raises(RemoteError, match="is not known"):
        AllowedUris((f"http://{host}/",)).web_address(f"http://{host}/x")


def test_one_bad_address_among_good_ones_is_enough() -> None:
    allowed = AllowedUris(("https://files.example/",), resolve=lambda host, port: ["93.184.216.34", "127.0.0.1"])
    with pytest.raises(AccessDeniedError):
        allowed.web_address("https://files.example/a")


def test_an_address_that_the_operator_wrote_may_be_private() -> None:
    allowed = AllowedUris(("http://127.0.0.1:80/", "http://localhost/"), resolve=lambda host, port: ["127.0.0.1"])
    assert allowed.web_address("http://127.0.0.1/a") == allowed.web_address("http://localhost/a") == "127.0.0.1"


def test_a_name_that_leads_nowhere_may_be_tried_again() -> None:
    def unknown(host: str, port: int) -> list[str]:
        raise OSError("Name or service not known")

    with pytest.raises(RemoteError, match=r"files\.example"):
        AllowedUris(("https://files.example/",), resolve=unknown).web_address("https://files.example/a")


def test_every_entry_that_is_none_is_told() -> None:
    with pytest.raises(InvalidConfigError) as told:
        AllowedUris(("s3://bucket/", "bucket", "10.0.0.1/8", "https://u:p@h/", "file:///", "s3:///x"))
    assert isinstance(told.value, PinotError)
    text = str(told.value)
    assert text.count("found") == 5 and "u:p" not in text and "s3://bucket/:" not in text
