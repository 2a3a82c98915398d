"""From files to an answer: sniff and build, create the table or add to it, upload, wait until queries see the rows."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pinotpy.client.controller import ControllerClient
from pinotpy.config.schema import Schema
from pinotpy.config.table import TableConfig
from pinotpy.errors import AlreadyExistsError, NotFoundError, PinotError, RemoteError, UserError
from pinotpy.fs.file_systems import file_system_for
from pinotpy.fs.uris import LOCAL_SCHEMES, file_name, local_path, masked, scheme_of
from pinotpy.ingest.readers.spec import InputFile
from pinotpy.ingest.sniffing.building import Reading, build_files
from pinotpy.ingest.sniffing.column_names import plain_name_of
from pinotpy.ingest.sniffing.guess import Wishes
from pinotpy.names import check_table_name

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from pinotpy.client.http_calls import Access

_UPLOADS: Final = 4
_LOOK_EVERY_S: Final = 0.05
# step, done, all
Tell = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """What is asked for. `files`: paths and URIs. `again`: load rows that the table has already once more."""

    files: Sequence[str]
    table: str
    wishes: Wishes
    allows_missing: bool = False
    reject_share: float = 0.0
    replication: int = 1
    again: bool = False


@dataclass(frozen=True, slots=True)
class Loaded:
    """What was done. `known_segments`: names that the table had already: they were replaced by equal ones.
    `unread_keys`: of the documents, which the controller keeps and nothing reads. `took_ms`: milliseconds until the
    segments were uploaded, and from then on until the first query counted all rows.
    """

    readings: list[Reading]
    is_new: bool
    known_segments: tuple[str, ...]
    query: str
    answer: dict[str, Any]
    unread_keys: tuple[str, ...] = ()
    took_ms: Mapping[str, int] = field(default_factory=dict)


def table_name_of(file: str) -> str:
    """A table's name made of a file's: `Flights 2013.csv.gz` → `Flights_2013`."""
    stem = file_name(file).split(".", 1)[0]
    name = plain_name_of(stem).replace("__", "_")
    return check_table_name(name or "data")


def with_streams_kept(files: Sequence[str], folder: Path) -> list[str]:
    """The files, with copies in a folder of those that can be read only once: pipes, and `-`, standard input."""
    kept: list[str] = []
    for number, uri in enumerate(files):
        is_input = uri == "-"
        path = Path("/dev/stdin") if is_input else local_path(uri) if scheme_of(uri) in LOCAL_SCHEMES else None
        if path is None or not (is_input or path.is_fifo() or path.is_char_device() or path.is_socket()):
            kept.append(uri)
            continue
        copy = folder / f"stream-{number}" / ("stdin" if is_input else path.name)
        copy.parent.mkdir(parents=True)
        with nullcontext(sys.stdin.buffer) if is_input else path.open("rb") as stream, copy.open("wb") as target:
            shutil.copyfileobj(stream, target)
        kept.append(str(copy))
    return kept


def local_files(files: Sequence[str], work_dir: Path) -> list[InputFile]:
    """The files on this machine: those that lie elsewhere are copied into `work_dir`.

    Raises:
        NotFoundError, UserError: there is none, or a folder is named.
    """
    found: list[InputFile] = []
    for number, uri in enumerate(files):
        if scheme_of(uri) in LOCAL_SCHEMES:
            path = local_path(uri)
            if path.is_dir():
                raise UserError(f"'{uri}' is a folder, expected files, such as {uri.rstrip('/')}/*.csv")
            if not path.exists():
                raise NotFoundError(f"no file '{uri}'", file=uri)
            found.append(InputFile(path))
        else:
            name = file_name(uri)
            if name in ("", ".", ".."):
                raise UserError(f"'{masked(uri)}' names no file, expected the address of one, such as …/data.csv")
            path = work_dir / f"input-{number}" / name
            path.parent.mkdir(parents=True)
            file_system_for(uri).fetch(uri, path)
            found.append(InputFile(path, shown=uri))
    return found


def existing_table(client: ControllerClient, table: str) -> tuple[Schema, TableConfig] | None:
    """Schema and offline config of a table, None where there is none. Raises UserError for one of streams alone."""
    if table not in client.tables():
        return None
    configs = client.table(table)
    if "OFFLINE" not in configs:
        raise UserError(f"table '{table}' is filled by a stream only: files need a table of type OFFLINE; name another "
                        "one by --table")  # fmt: skip
    return Schema.from_json(client.schema(table), is_stored=True), TableConfig.from_json(
        configs["OFFLINE"], is_stored=True
    )


def build(
    request: LoadRequest, work_dir: Path, existing: tuple[Schema, TableConfig] | None, tell: Tell
) -> list[Reading]:
    """Sniff and build; nothing is sent."""
    files = local_files(request.files, work_dir)
    return build_files(
        files,
        request.table,
        request.wishes,
        work_dir,
        existing=existing,
        allows_missing=request.allows_missing,
        reject_share=request.reject_share,
        replication=request.replication,
        again=request.again,
        progress=lambda job: tell(job.step, job.bytes_done, job.bytes_total),
    )


def load(
    client: ControllerClient,
    request: LoadRequest,
    access: Access,
    *,
    existing: tuple[Schema, TableConfig] | None,
    readings: list[Reading],
    broker_url: str | None,
    timeout_s: float,
    tell: Tell,
) -> Loaded:
    """Create the table where there is none, upload, wait, and ask the first query.

    Raises:
        AlreadyExistsError: somebody else made the table since `existing` was looked up; nothing was uploaded.
        PinotError: the controller refuses something, or the rows are not served within `timeout_s`.
    """
    table = request.table
    began = time.perf_counter()
    unread: set[str] = set()
    archives = [archive for reading in readings for archive in reading.archives]
    names = [archive.name.removesuffix(".tar.gz") for archive in archives]
    arrived: list[Path] = []

    def upload(archive: Path) -> None:
        client.upload_segment(archive, table)
        arrived.append(archive)

    with _told_what_is_in(request, arrived, len(archives)):
        if existing is None:
            if table in client.tables():
                raise AlreadyExistsError(f"table '{table}' was made meanwhile")
            unread |= set(_add_schema(client, readings[0].schema).get("unrecognizedProperties") or ())
            unread |= set(client.add_table(readings[0].table_config.to_json_dict()).get("unrecognizedProperties") or ())
        before = (
            {name for names in client.segments(table).values() for name in names} if existing is not None else set()
        )
        with ThreadPoolExecutor(_UPLOADS, "load-upload") as uploads:
            for done, _ in enumerate(uploads.map(upload, archives), 1):
                tell("uploading", done, len(archives))
        uploaded = time.perf_counter()
        deadline = time.monotonic() + timeout_s
        if names:
            client.wait_until_online(
                table, segments=names, timeout_s=timeout_s, progress=lambda online, every: tell("online", online, every)
            )
        records = client.segment_records(table)
    query = f'SELECT COUNT(*) AS num_rows FROM "{table}"' if not table.isidentifier() else (
        f"SELECT COUNT(*) AS num_rows FROM {table}"
    )  # fmt: skip
    num_rows = sum(int(record.get("segment.total.docs", 0)) for record in records.values())
    answer = _answer(client, table, query, num_rows, broker_url, access, deadline)
    known = tuple(sorted(before & set(names)))
    took_ms = {"push": _ms(uploaded - began), "queryable": _ms(time.perf_counter() - uploaded)}
    return Loaded(readings, existing is None, known, query, answer, tuple(sorted(unread)), took_ms)


def build_and_load(
    client: ControllerClient,
    request: LoadRequest,
    access: Access,
    work_dir: Path,
    *,
    broker_url: str | None,
    timeout_s: float,
    tell: Tell,
) -> Loaded:
    """Look the table up, `build` and `load`. Of two loads that make a table at the same time, one adds to what the
    other one made.
    """

    def tried(existing: tuple[Schema, TableConfig] | None, folder: Path) -> Loaded:
        folder.mkdir()
        readings = build(request, folder, existing, tell)
        return load(
            client,
            request,
            access,
            existing=existing,
            readings=readings,
            broker_url=broker_url,
            timeout_s=timeout_s,
            tell=tell,
        )

    existing = existing_table(client, request.table)
    try:
        return tried(existing, work_dir / "first")
    except AlreadyExistsError:
        if existing is not None:
            raise
    return tried(existing_table(client, request.table), work_dir / "second")


def _add_schema(client: ControllerClient, schema: Schema) -> dict[str, Any]:
    """Add the schema of a new table. Raises UserError where one of an earlier table is there that it does not fit."""
    try:
        return client.add_schema(schema.to_json_dict())
    except UserError as error:
        name = schema.schema_name
        _, found, details = error.message.partition("Incompatibility Details:\n")
        if not found:
            raise
        differences = [line.removeprefix("- ") for line in details.splitlines() if line.startswith("- ")]
        raise UserError(
            f"there is no table '{name}', but a schema of this name, which an earlier table may have left, and the "
            f"files do not fit it. {'; '.join(differences)}. Delete it by `pinotpy delete-schema {name}`, which "
            "is refused if a table uses it, and load again, or name another table by --table"
        ) from error


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


@contextmanager
def _told_what_is_in(request: LoadRequest, arrived: list[Path], num_archives: int) -> Iterator[None]:
    """A cluster that ends meanwhile keeps what it took, and the user learns what that is."""
    try:
        yield
    except RemoteError as error:
        if not arrived:
            kept = "no segment is known to be uploaded"
        elif len(arrived) == num_archives:
            kept = "all rows are uploaded and stay: queries see them once the cluster serves them"
        else:
            kept = f"{len(arrived)} of {num_archives} segments are known to be uploaded, and stay" + (
                "" if request.again else ": the same files loaded again add what is missing, and nothing twice"
            )
        raise RemoteError(
            f"{error.message.removesuffix('.')}. Of this load of table '{request.table}', {kept}", **error.context
        ) from error


def _answer(
    client: ControllerClient,
    table: str,
    query: str,
    wanted: int,
    broker_url: str | None,
    access: Access,
    deadline: float,
) -> dict[str, Any]:
    """The answer of a query as soon as it counts every row that the table's segments have."""
    from pinotpy.cli.asking import ask

    last = "no broker answered"
    while True:
        try:
            url = broker_url or broker_of(client, table)
            answer = ask(url, query, "sql", access, timeout_s=max(1.0, deadline - time.monotonic()))
        except PinotError as error:
            last = error.message
        else:
            rows = (answer.get("resultTable") or {}).get("rows") or []
            if not answer.get("exceptions") and rows and int(rows[0][0]) >= wanted:
                return answer
            last = str(answer.get("exceptions") or f"{rows[0][0] if rows else 'no'} of {wanted} rows are counted")
        if time.monotonic() > deadline:
            raise RemoteError(f"the rows of table '{table}' are uploaded, queries do not see them all yet: {last}")
        time.sleep(_LOOK_EVERY_S)


def broker_of(client: ControllerClient, table: str | None = None) -> str:
    """The URL of a broker. Raises RemoteError where there is none."""
    names = client.brokers(table)
    if not names:
        raise RemoteError("no broker serves the table; start one by start-broker, or name one by --broker-url")
    scheme = client.url.partition("://")[0]
    host, _, port = names[0].removeprefix("Broker_").rpartition("_")
    return f"{scheme}://{host}:{port}"


def told_by(bar: Progress) -> Tell:
    """Steps as tasks of a progress bar."""
    tasks: dict[str, TaskID] = {}

    def tell(step: str, done: int, total: int) -> None:
        if step not in tasks:
            tasks[step] = bar.add_task(step, total=None)
        bar.update(tasks[step], completed=done, total=total)

    return tell
