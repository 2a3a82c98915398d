"""The end of `load` and `table infer`: what was guessed and done, as text or as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import typer
from rich.console import Console
from rich.markup import escape

from pinotpy.cli.load_report import document_of, no_rows_text, num_rows, print_documents, print_reading
from pinotpy.cli.loading import Loaded
from pinotpy.cli.result_table import answer_console, print_answer
from pinotpy.cli.showing import counted
from pinotpy.ingest.sniffing.building import Reading

_STEPS: Final = {
    "sniff": "looking into the file",
    "read": "reading",
    "build": "building",
    "push": "uploading",
    "queryable": "until queries see all rows",
}


def write_documents(folder: Path, reading: Reading) -> None:
    """`schema.json` and `table.json` in a folder, which is made if it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, document in (
        ("schema.json", reading.schema.to_json_dict()),
        ("table.json", reading.table_document),
    ):
        (folder / name).write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def show_dry_run(readings: list[Reading], table: str, out: Path | None, as_json: bool) -> dict[str, Any]:
    """What was guessed; without --json it is printed."""
    _warn_of_no_rows(readings)
    document = _documents(readings, table)
    if as_json:
        return document
    console = _shown(readings)
    rows = sum(num_rows(reading)[0] for reading in readings)
    fit = f"{counted(rows, 'row')} fit{'s' if rows == 1 else ''}"
    console.print(f"{fit} table {escape(table)}; nothing was sent", highlight=False)
    if out is not None:
        console.print(f"schema and table config are in {escape(str(out))}", soft_wrap=True, highlight=False)
    else:
        console.print("--out DIR writes schema.json and table.json", highlight=False)
    return document


def show_loaded(loaded: Loaded, table: str, broker_url: str, as_json: bool) -> dict[str, Any]:
    """What was guessed and done, and the first query with its answer."""
    _warn_of_no_rows(loaded.readings)
    post = f'pinotpy sql --broker-url {broker_url} "{_shell(loaded.query)}"'
    rows, rejected = (sum(counts) for counts in zip(*map(num_rows, loaded.readings), strict=True))
    document = _documents(loaded.readings, table) | {
        "created": loaded.is_new,
        "segments": [archive.name.removesuffix(".tar.gz") for one in loaded.readings for archive in one.archives],
        "replacedSegments": list(loaded.known_segments),
        "unrecognizedProperties": list(loaded.unread_keys),
        "query": loaded.query,
        "postQuery": post,
        "answer": loaded.answer,
        "tookMs": took_ms(loaded),
    }
    if as_json:
        return document
    console = _shown(loaded.readings, with_config=loaded.is_new)
    left_out = f", {rejected:,} left out" if rejected else ""
    what = "created, and" if loaded.is_new else "was there, and"
    console.print(
        f"table {escape(table)} {what} {counted(rows, 'row')} {'is' if rows == 1 else 'are'} loaded{left_out}",
        highlight=False,
    )
    steps = ", ".join(f"{_STEPS[step]} {ms / 1000:.1f} s" for step, ms in took_ms(loaded).items())
    console.print(f"it took: {steps}", highlight=False)
    if loaded.known_segments:
        console.print(
            "[yellow]note[/yellow] the table had these rows already, from a file of the same content: they were "
            "replaced, not added; --again adds them once more",
            soft_wrap=True,
        )
    if loaded.unread_keys:
        console.print(
            f"[yellow]note[/yellow] keys that nothing reads: {escape(', '.join(loaded.unread_keys))}", soft_wrap=True
        )
    console.print()
    console.print(f"[bold]{escape(loaded.query)}[/bold]", soft_wrap=True, highlight=False)
    print_answer(answer_console(), loaded.answer)
    console.print(f"ask it again: {escape(post)}", soft_wrap=True, highlight=False)
    return document


def _warn_of_no_rows(readings: list[Reading]) -> None:
    for told in filter(None, map(no_rows_text, readings)):
        typer.echo(f"warning: {told}", err=True)


def took_ms(loaded: Loaded) -> dict[str, int]:
    """Milliseconds by step, of all files together."""
    of_files = [reading.took_ms for reading in loaded.readings]
    return {step: sum(took[step] for took in of_files) for step in ("sniff", "read", "build")} | dict(loaded.took_ms)


def _shown(readings: list[Reading], *, with_config: bool = True) -> Console:
    console = answer_console()
    for reading in readings:
        print_reading(console, reading)
    if with_config:
        print_documents(console, readings[0])
    unread = unread_folders(readings)
    if unread:
        console.print(
            f"[yellow]note[/yellow] not read: what folders of the paths say of {escape(', '.join(unread))}, as the "
            "files have no such column; launch-data-ingestion-job makes columns of folders that the schema has",
            soft_wrap=True,
            highlight=False,
        )
    return console


def unread_folders(readings: list[Reading]) -> list[str]:
    """Names of folders such as `day=2026-01-31` that are no column of the file that lies there."""
    from pinotpy.ingest.folder_values import folder_texts

    names: dict[str, None] = {}
    for reading in readings:
        own = {column.source for column in reading.sniffed.columns} | {
            column.name for column in reading.sniffed.columns
        }
        below = reading.file.name.partition("?")[0]
        names |= {name: None for name, _ in folder_texts(below) if name not in own}
    return list(names)


def _documents(readings: list[Reading], table: str) -> dict[str, Any]:
    return {
        "table": table,
        "schema": readings[0].schema.to_json_dict(),
        "tableConfig": readings[0].table_document,
        "files": [document_of(reading) for reading in readings],
        "unreadFolders": unread_folders(readings),
    }


def _shell(query: str) -> str:
    return query.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$").replace("`", "\\`")
