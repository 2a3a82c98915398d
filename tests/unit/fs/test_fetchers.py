"""Proves how segment fetchers behave: tries, waits and limits by protocol, redirects, fetchers of an operator, errors
without secrets. A real HTTP server on loopback answers.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import ModuleType

import pytest
from scripted_web import NoWaiting, Web, fails, gives, leads_to

from pinotpy.clock import SystemClock
from pinotpy.errors import AccessDeniedError, DataError, InvalidConfigError, NotFoundError, RemoteError, UserError
from pinotpy.fs.fetchers import SegmentFetchers, settings_of
from pinotpy.fs.file_system import TransferLimits
from pinotpy.fs.file_systems import file_system_for


@pytest.fixture
def web() -> Iterator[Web]:
    found = Web()
    yield found
    found.close()


def fetchers(
    *allowed: str,
    clock: SystemClock | None = None,
    bytes_max: int = 1 << 20,
    timeout_ms: int = 10_000,
    **protocols: str,
) -> SegmentFetchers:
    keys = {key.replace("__", "."): value for key, value in protocols.items()}
    return SegmentFetchers(
        settings_of(allowed, keys, {}, bytes_max=bytes_max, timeout_ms=timeout_ms), clock or NoWaiting()
    )


def test_what_fails_is_tried_again_as_often_as_the_protocols_setting_says(web: Web, tmp_path: Path) -> None:
    web.answers = [fails(500), fails(503), gives(b"archive")]
    fetchers(web.url, http__retry__count="2").fetch(f"{web.url}/a", tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == b"archive" and len(web.seen) == 3
    web.answers, clock = [fails(500)], NoWaiting()
    web.seen.clear()
    with pytest.raises(RemoteError, match=r"HTTP 500.*in 5 attempts"):
        fetchers(web.url, clock=clock, http__retry__count="4", http__retry__wait__ms="1000").fetch(
            f"{web.url}/a", tmp_path / "b"
        )
    assert len(web.seen) == 5 and not (tmp_path / "b").exists()
    for place, wait in enumerate(clock.waits):
        assert 0.5 * 2**place <= wait <= 1.5 * 2**place, clock.waits
    assert len(clock.waits) == 4


def test_what_no_try_mends_is_tried_once(web: Web, tmp_path: Path) -> None:
    for status, kind in ((404, NotFoundError), (403, DataError), (401, DataError)):
        web.answers = [fails(status)]
        web.seen.clear()
        with pytest.raises(kind, match=f"HTTP {status}"):
            fetchers(web.url).fetch(f"{web.url}/a", tmp_path / "a")
        assert len(web.seen) == 1


def test_a_file_that_breaks_off_is_tried_again_and_never_half_there(web: Web, tmp_path: Path) -> None:
    web.answers = [gives(b"x" * 500, length=1000), gives(b"y" * 1000)]
    fetchers(web.url).fetch(f"{web.url}/a", tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == b"y" * 1000
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_limits_of_bytes_and_time_hold(web: Web, tmp_path: Path) -> None:
    web.answers = [gives(b"x" * 2000)]
    with pytest.raises(DataError, match="1999 bytes"):
        fetchers(web.url, bytes_max=1999).fetch(f"{web.url}/a", tmp_path / "a")
    assert len(web.seen) == 1, "longer it will be next time, too"

    release = threading.Event()

    def drips(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("content-length", "10000")
        request.end_headers()
        for _ in range(2000):
            request.wfile.write(b"x")
            request.wfile.flush()
            if release.wait(0.05):
                return

    web.answers = [drips]
    with pytest.raises(RemoteError, match="longer than 1 s"):
        fetchers(web.url, timeout_ms=1000, http__retry__count="0").fetch(f"{web.url}/a", tmp_path / "a")
    release.set()
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_says_nothing_is_not_waited_for(web: Web, tmp_path: Path) -> None:
    release = threading.Event()
    web.answers = [lambda request: (release.wait(120), None)[1]]
    with pytest.raises(RemoteError, match="ReadTimeout"):
        fetchers(web.url, http__retry__count="0", http__requestTimeoutMs="200").fetch(f"{web.url}/a", tmp_path / "a")
    release.set()


def test_redirects_lead_to_listed_addresses_only(web: Web, tmp_path: Path) -> None:
    other = Web()
    try:
        other.answers = [gives(b"other")]
        web.answers = [leads_to("/segments/b"), gives(b"moved")]
        fetchers(f"{web.url}/segments/").fetch(f"{web.url}/segments/a", tmp_path / "a")
        assert (tmp_path / "a").read_bytes() == b"moved"
        for place in (
            f"{web.url}/private",
            f"{other.url}/x",
            "http://169.254.169.254/latest",
            "file:///etc/passwd",
            "http://localhost/",
        ):
            web.answers = [leads_to(place)]
            web.seen.clear()
            with pytest.raises(AccessDeniedError):
                fetchers(f"{web.url}/segments/").fetch(f"{web.url}/segments/a", tmp_path / "b")
            assert len(web.seen) == 1
        assert other.seen == []
        # The list may have storage of other kinds: no web server leads there.
        (tmp_path / "file").write_text("of this machine")
        for place, problem in (
            (f"{tmp_path.as_uri()}/file", AccessDeniedError),
            ("s3://bucket/x", AccessDeniedError),
            ("http://[bad/x", RemoteError),
        ):
            web.answers = [leads_to(place)]
            with pytest.raises(problem, match="leads to"):
                fetchers(web.url, f"{tmp_path.as_uri()}/", "s3://bucket/", http__retry__count="0").fetch(
                    f"{web.url}/a", tmp_path / "b"
                )
        web.answers = [leads_to(f"{other.url}/x")]
        fetchers(web.url, other.url, http__authorization="Bearer for-the-first").fetch(f"{web.url}/a", tmp_path / "c")
        assert web.seen[-1][1]["authorization"] == "Bearer for-the-first"
        assert "authorization" not in other.seen[0][1], "credentials are shown to the host that was named only"
        web.answers = [leads_to("/again")]
        with pytest.raises(RemoteError, match="redirects"):
            fetchers(web.url, http__retry__count="0").fetch(f"{web.url}/a", tmp_path / "d")
    finally:
        other.close()


def test_the_address_that_was_checked_is_asked_under_the_name(web: Web, tmp_path: Path) -> None:
    port = web.url.rpartition(":")[2]
    asked: list[str] = []

    def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["93.184.216.34"]

    web.answers = [gives(b"archive")]
    found = fetchers(f"http://files.example:{port}/", "127.0.0.0/8")
    found.allowed._resolve = resolve
    found.fetch(f"http://files.example:{port}/a?b=c", tmp_path / "a")
    assert asked == ["files.example"], "looked up once"
    path, headers = web.seen[0]
    assert path == "/a?b=c" and headers["host"] == f"files.example:{port}"


def test_signatures_of_addresses_are_in_no_message_and_no_log(
    web: Web, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "pinotpy")
    web.answers = [fails(500)]
    for uri in (
        f"{web.url}/a?X-Amz-Signature=topsecret",
        "http://127.0.0.1:1/a?sig=topsecret",
        f"{web.url}2/a?sig=topsecret",
        "http://other.example/a?sig=topsecret",
    ):
        with pytest.raises((RemoteError, AccessDeniedError, UserError)) as told:
            fetchers(web.url, "http://127.0.0.1:1/", http__retry__count="1").fetch(uri, tmp_path / "a")
        assert "topsecret" not in str(told.value) + caplog.text


def test_close_ends_waiting_tries(web: Web, tmp_path: Path) -> None:
    web.answers = [fails(500)]
    found = fetchers(web.url, clock=SystemClock(), http__retry__wait__ms="60000")
    timer = threading.Timer(0.2, found.close)
    timer.start()
    with pytest.raises(RemoteError, match="in 1 attempts"):
        found.fetch(f"{web.url}/a", tmp_path / "a")
    timer.join()


def test_other_protocols_go_through_their_file_systems(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"x" * 100)
    file_system_for("memory://fetchers/").put("memory://fetchers/a", tmp_path / "source")
    found = fetchers("memory://fetchers/", tmp_path.as_uri(), bytes_max=100)
    found.fetch("memory://fetchers/a", tmp_path / "target")
    assert (tmp_path / "target").read_bytes() == b"x" * 100
    found.fetch((tmp_path / "source").as_uri(), tmp_path / "target 2")
    with found.files("memory://fetchers/a").open("memory://fetchers/a") as reader:
        assert reader.read(3) == b"xxx"
    with pytest.raises(AccessDeniedError):
        found.files("memory://other/a")
    with pytest.raises(DataError, match="99 bytes"):
        fetchers("memory://fetchers/", bytes_max=99).fetch("memory://fetchers/a", tmp_path / "c")


class ForgetfulFetcher:
    def __init__(self, configs: dict[str, str]) -> None:
        pass

    def fetch(self, uri: str, target: Path, limits: TransferLimits) -> None:
        pass


class OwnFetcher:
    """What an operator might name."""

    def __init__(self, configs: dict[str, str]) -> None:
        self.prefix = configs["prefix"]

    def fetch(self, uri: str, target: Path, limits: TransferLimits) -> None:
        target.write_text(f"{self.prefix}{uri}")


def module_of(monkeypatch: pytest.MonkeyPatch, **content: object) -> str:
    module = ModuleType("own_plug_ins")
    module.__dict__.update(content)
    monkeypatch.setitem(sys.modules, "own_plug_ins", module)
    return "own_plug_ins"


def test_an_operator_names_a_fetcher_and_gives_it_configs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = module_of(
        monkeypatch, OwnFetcher=OwnFetcher, Forgetful=ForgetfulFetcher, nothing=object(), breaks=lambda configs: 1 // 0
    )
    found = fetchers("tape://library/", tape__class=f"{name}:OwnFetcher", tape__prefix="from ")
    found.fetch("tape://library/a", tmp_path / "a")
    assert (tmp_path / "a").read_text() == "from tape://library/a"
    with pytest.raises(DataError, match="wrote no file"):
        fetchers("tape://library/", tape__class=f"{name}:Forgetful").fetch("tape://library/a", tmp_path / "b")
    for wrong, reason in (
        (f"{name}:none", "AttributeError"),
        ("no_such_module:x", "ModuleNotFoundError"),
        (f"{name}:nothing", "expected a function"),
        (f"{name}:breaks", "ZeroDivision"),
    ):
        with pytest.raises(InvalidConfigError, match=reason):
            fetchers("tape://library/", tape__class=wrong).fetch("tape://library/a", tmp_path / "b")


def test_settings_that_mean_nothing_are_all_told() -> None:
    with pytest.raises(InvalidConfigError) as told:
        fetchers(http__retry__count="many", s3__retry__wait__ms="-1", s3__retry__delay__scale__factor="x")
    assert str(told.value).count("found") == 3
    with pytest.raises(InvalidConfigError, match="unknown key"):
        fetchers("http://127.0.0.1:1/", http__timeout="3").files("http://127.0.0.1:1/")
