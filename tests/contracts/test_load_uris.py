"""Proves that `load` and `table infer` read a file by whatever URI it lies at (a path, `file://`, a web server, S3)
into the same rows; and that what is not there is named by its URI.
"""

from __future__ import annotations

import gzip
import http.server
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import boto3
import pytest
from object_storage import MISSING_S3, S3Server
from sniffed_files import of_reading

from pinotpy.cli.loading import LoadRequest, build, table_name_of
from pinotpy.errors import PinotError, UserError
from pinotpy.ingest.sniffing.guess import Wishes

CONTENT = gzip.compress("id;Ort;Preis\n1;Köln;1,50\n2;Bonn;20,25\n".encode())
ROWS = [{"id": 1, "Ort": "Köln", "Preis": 1.5}, {"id": 2, "Ort": "Bonn", "Preis": 20.25}]
NAME = "orte 2024.csv.gz"


@dataclass(frozen=True)
class Door:
    """`uri` of a file that is there, by its name."""

    uri: Callable[[str], str]


@pytest.fixture(params=["path", "file", "http", "s3"])
def door(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Door]:
    folder = tmp_path / "there"
    folder.mkdir()
    (folder / NAME).write_bytes(CONTENT)
    if request.param == "path":
        yield Door(lambda name: str(folder / name))
    elif request.param == "file":
        yield Door(lambda name: (folder / name).as_uri())
    elif request.param == "http":
        handler = partial(_Quiet, directory=str(folder))
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            url = f"http://127.0.0.1:{server.server_address[1]}"
            yield Door(lambda name: f"{url}/{name.replace(' ', '%20')}?version=2")
            server.shutdown()
    else:
        yield from _s3(tmp_path, monkeypatch)


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def _s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Door]:
    if MISSING_S3:
        pytest.skip(MISSING_S3)
    server = S3Server(tmp_path / "s3.log")
    try:
        bucket, configs = server.make_bucket(), server.configs()
        for name, value in (
            ("AWS_ENDPOINT_URL", server.url),
            ("AWS_ACCESS_KEY_ID", configs["accessKey"]),
            ("AWS_SECRET_ACCESS_KEY", configs["secretKey"]),
            ("AWS_DEFAULT_REGION", configs["region"]),
        ):
            monkeypatch.setenv(name, value)
        boto3.client("s3").put_object(Bucket=bucket, Key=f"in/{NAME}", Body=CONTENT)
        yield Door(lambda name: f"s3://{bucket}/in/{name}")
    finally:
        server.close()


def test_a_file_is_read_from_where_it_lies(door: Door, tmp_path: Path) -> None:
    uri = door.uri(NAME)
    assert table_name_of(uri) == "orte_2024"
    (reading,) = build(LoadRequest([uri], "t", Wishes()), tmp_path, None, lambda step, done, total: None)
    assert of_reading(reading, tmp_path / "unpacked").rows == ROWS


def test_what_is_not_there_is_named(door: Door, tmp_path: Path) -> None:
    with pytest.raises(PinotError, match=r"none\.csv"):
        build(LoadRequest([door.uri("none.csv")], "t", Wishes()), tmp_path, None, lambda step, done, total: None)


@pytest.mark.parametrize("uri", ["http://127.0.0.1:9/", "http://127.0.0.1:9", "http://127.0.0.1:9/?x=1", "http://h/.."])
def test_an_address_without_a_file_is_told_by_itself(uri: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^'http.*' names no file, expected the address of one"):
        build(LoadRequest([uri], "t", Wishes()), tmp_path, None, lambda step, done, total: None)
