"""Readers by format, found by scanning this folder for modules `<format>_format`."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from pathlib import Path

from pinotpy.errors import UserError
from pinotpy.ingest.readers.spec import FileFormat, ReadFile

_COMPRESSED = (".gz", ".gzip", ".bz2", ".zst", ".zstd")
_OTHER_NAMES = {"jsonl": "json", "ndjson": "json", "tab": "tsv", "parq": "parquet"}


@cache
def _modules() -> dict[FileFormat, str]:
    modules: dict[FileFormat, str] = {}
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        if module.name.endswith("_format"):
            file_format = FileFormat(module.name.removesuffix("_format"))
            assert file_format not in modules, f"two readers of {file_format}"
            modules[file_format] = f"pinotpy.ingest.readers.{module.name}"
    return modules


def reader_for(file_format: FileFormat) -> ReadFile:
    """The reader of a format; its library is imported now."""
    reader: ReadFile = importlib.import_module(_modules()[file_format]).read
    return reader


def format_from_text(text: str) -> FileFormat:
    """`CSV`, `avro` → the format; raises UserError with what there is."""
    try:
        return FileFormat(text.strip().lower())
    except ValueError:
        raise UserError(f"'{text[:40]}' is no input format, expected one of " + ", ".join(FileFormat)) from None


def format_of(path: Path) -> FileFormat | None:
    """The format that a file's name tells (`.csv`, `.json.gz`, `.tsv.zst`, in any case), or None."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in _COMPRESSED:
        suffixes.pop()
    name = suffixes[-1].removeprefix(".") if suffixes else ""
    name = _OTHER_NAMES.get(name, name)
    return FileFormat(name) if name in set(FileFormat) else None
