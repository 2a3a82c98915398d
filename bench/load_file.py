"""`pinotpy load` of messy files on a running cluster, from the start of its process to the first answer, as JSON.

    python -m bench.load_file --rows 500000 --out load.json

Files of one set of rows: CSV of windows-1252 with `;`, decimal commas, German dates, ja/nein, quotes and words for no
value; the same as UTF-8 with commas and with tabs, as JSON lines and a JSON array, as Parquet, Avro and ORC; the messy
CSV packed by gzip and Zstandard. Each is loaded by a process of its own, `--repeat` times into a new table; the fastest
run is reported with its steps (sniff, read, build, push, queryable; start: the process and its imports), and what of
all seconds stands beside the slowest. The cluster is ZooKeeper, a controller, a broker and a server on this machine,
compiled before.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from bench.daemons import start_one_of_each
from bench.machine import commit_name, machine
from pinotpy.cli.local_cluster import LocalCluster

CITIES: Final = ("Köln", "Bonn", "München", "Berlin; Mitte", "Düsseldorf", "NULL", "")
HEADER: Final = ("Nr.", "Ort", "Straße", "Preis (€)", "Menge", "Datum", "Geändert am", "bezahlt", "Bemerkung", "Rabatt")
FORMS: Final = (
    "messy.csv", "plain.csv", "plain.tsv", "lines.jsonl", "array.json",
    "columns.parquet", "records.avro", "columns.orc", "messy.csv.gz", "messy.csv.zst",
)  # fmt: skip
AVRO_TYPES: Final = {
    "id": "string", "city": "string", "street": "string", "price": "double", "amount": "int",
    "day": {"type": "int", "logicalType": "date"}, "changed": {"type": "long", "logicalType": "timestamp-millis"},
    "paid": ["null", "boolean"], "note": ["null", "string"], "discount": ["null", "double"],
}  # fmt: skip


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rows", type=int, default=500_000)
    arguments.add_argument("--repeat", type=int, default=3)
    arguments.add_argument("--files", default=",".join(FORMS), help="default: %(default)s")
    arguments.add_argument("--out", type=Path)
    asked = arguments.parse_args()
    shown: dict[str, Any] = {"commit": commit_name(), "machine": machine(), "rows": asked.rows, "files": {}}
    with tempfile.TemporaryDirectory(prefix="pinotpy-bench-load-") as scratch:
        folder = Path(scratch)
        files = written_files(folder, asked.rows, asked.files.split(","))
        with running_cluster(folder) as controller_url:
            for file in files:
                runs = [loaded(file, controller_url, f"t{number}") for number in range(asked.repeat)]
                best = min(runs, key=lambda run: run["seconds"])
                shown["files"][file.name] = {
                    "bytes": file.stat().st_size,
                    **best,
                    "all_seconds": [run["seconds"] for run in runs],
                }
                print(f"{file.name}: {best['seconds']} s: {best['steps_ms']}", file=sys.stderr)
    text = json.dumps(shown, indent=1, ensure_ascii=False)
    if asked.out is not None:
        asked.out.write_text(text + "\n")
    print(text)


def loaded(file: Path, controller_url: str, suffix: str) -> dict[str, Any]:
    """One run of `load`: seconds on the wall, of CPU of its processes, and its steps."""
    table = f"{file.name.replace('.', '_')}_{suffix}"
    command = [sys.executable, "-m", "pinotpy", "load", str(file), "--table", table, "--controller-url", controller_url]
    before, began = os.times(), time.perf_counter()
    ended = subprocess.run([*command, "--json"], capture_output=True, text=True, check=False)
    seconds, after = time.perf_counter() - began, os.times()
    if ended.returncode != 0:
        raise SystemExit(ended.stderr)
    document = json.loads(ended.stdout)
    steps = document["tookMs"]
    return {
        "seconds": round(seconds, 2),
        "cpu_seconds": round(
            after.children_user - before.children_user + after.children_system - before.children_system, 2
        ),
        "steps_ms": {"start": round(seconds * 1000) - sum(steps.values()), **steps},
        "segments": len(document["segments"]),
        "num_rows": document["answer"]["resultTable"]["rows"][0][0],
    }


@contextmanager
def running_cluster(folder: Path) -> Iterator[str]:
    """The controller's address of a cluster whose kernels are compiled."""
    cluster = LocalCluster(folder / "daemons")
    try:
        cluster.compile_kernels()
        yield start_one_of_each(cluster, folder)[0]
    finally:
        cluster.stop_all()


def written_files(folder: Path, num_rows: int, names: list[str]) -> list[Path]:
    """The files of these names, each of the same rows."""
    random = np.random.default_rng(7)
    columns = _columns(random, num_rows)
    files = []
    for name in names:
        path = folder / name
        match name:
            case "messy.csv" | "messy.csv.gz" | "messy.csv.zst":
                path.write_bytes(_packed(_messy(columns).encode("windows-1252"), path.suffix))
            case "plain.csv":
                path.write_text(_plain(columns, ","))
            case "plain.tsv":
                path.write_text(_plain(columns, "\t"))
            case "lines.jsonl":
                path.write_text("".join(f"{text}\n" for text in _objects(columns)))
            case "array.json":
                path.write_text(f"[{', '.join(_objects(columns))}]")
            case "columns.parquet":
                pq.write_table(pa.table(columns), path)
            case "columns.orc":
                orc.write_table(pa.table(columns), path)
            case "records.avro":
                _write_avro(path, columns)
            case _:
                raise SystemExit(f"no file '{name}', expected some of {', '.join(FORMS)}")
        files.append(path)
    return files


def _columns(random: np.random.Generator, num_rows: int) -> dict[str, list[Any]]:
    """Values as they are meant; None where a row has none."""
    days = np.datetime64("2019-01-01") + random.integers(0, 2000, num_rows)
    times = days.astype("datetime64[s]") + random.integers(0, 86_400, num_rows)
    paid, said = random.integers(0, 3, num_rows), random.integers(0, 100, num_rows)
    return {
        "id": [f"{number:07}" for number in range(num_rows)],
        "city": [CITIES[number] for number in random.integers(0, len(CITIES), num_rows)],
        "street": [f"Hauptstraße {number}" for number in random.integers(0, 20_000, num_rows)],
        "price": np.round(random.gamma(2, 700, num_rows), 2).tolist(),
        "amount": random.integers(1, 2000, num_rows).tolist(),
        "day": days.astype(object).tolist(),
        "changed": times.astype(object).tolist(),
        "paid": [(True, False, None)[number] for number in paid],
        "note": [
            'sagt "so"; gut' if number < 5 else None if number < 20 else f"Lieferung {row % 997}"
            for row, number in enumerate(said.tolist())
        ],
        "discount": [number / 4 if number > 10 else None for number in said.tolist()],
    }


def _messy(columns: dict[str, list[Any]]) -> str:
    lines = [";".join(HEADER)]
    for id_, city, street, price, amount, day, changed, paid, note, discount in zip(*columns.values(), strict=True):
        lines.append(
            f"{id_};{_quoted(city, ';')};{street};{_german(price)};{amount};{day:%d.%m.%Y};"
            f"{changed:%d.%m.%Y %H:%M:%S};{_word(paid)};{'n/a' if note is None else _quoted(note, ';')};"
            f"{'-' if discount is None else str(discount).replace('.', ',')}"
        )
    return "\n".join(lines) + "\n"


def _german(price: float) -> str:
    return f"{price:,.2f}".translate(str.maketrans(",.", ".,"))


def _word(paid: bool | None) -> str:
    return "" if paid is None else "ja" if paid else "nein"


def _plain(columns: dict[str, list[Any]], delimiter: str) -> str:
    lines = [delimiter.join(columns)]
    for values in zip(*columns.values(), strict=True):
        lines.append(delimiter.join("" if value is None else _quoted(str(value), delimiter) for value in values))
    return "\n".join(lines) + "\n"


def _objects(columns: dict[str, list[Any]]) -> Iterator[str]:
    for record in _records(columns):
        yield json.dumps(record, ensure_ascii=False, default=str)


def _records(columns: dict[str, list[Any]]) -> Iterator[dict[str, Any]]:
    for values in zip(*columns.values(), strict=True):
        yield dict(zip(columns, values, strict=True))


def _write_avro(path: Path, columns: dict[str, list[Any]]) -> None:
    fields = [{"name": name, "type": kind} for name, kind in AVRO_TYPES.items()]
    schema = fastavro.parse_schema({"type": "record", "name": "r", "fields": fields})
    with path.open("wb") as file:
        fastavro.writer(file, schema, _records(columns), codec="deflate")


def _quoted(text: str, delimiter: str) -> str:
    doubled = text.replace('"', '""')
    return f'"{doubled}"' if delimiter in text or '"' in text else text


def _packed(content: bytes, ending: str) -> bytes:
    if ending == ".gz":
        return gzip.compress(content, 6)
    packed: bytes = pa.compress(content, codec="zstd", asbytes=True) if ending == ".zst" else content
    return packed


if __name__ == "__main__":
    main()
