"""Columns of Hive-style folders that Spark's own readers find, as text: `007` stays `007` for a column of text, as in
jobs of one machine.

Where the files have such a column too, Spark takes the folder's value without looking at theirs; here they are compared
first.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pinotpy.config.schema import Schema
from pinotpy.errors import DecodeError
from pinotpy.ingest.folder_values import FolderValues, folder_texts
from pinotpy.ingest.pipeline import RowPipeline
from pinotpy.ingest.readers.spec import InputBatch, InputFile, ReaderColumn

_INFERENCE: Final = "spark.sql.sources.partitionColumnTypeInference.enabled"
_FILES_ALONE: Final = "recursiveFileLookup"  # with it Spark looks at no folder's name
_ESCAPE: Final = re.compile(r"%([0-9A-Fa-f]{2})")
_OF_FILES: Final = ("parquet", "orc", "csv", "json", "avro", "text")


def frame_of_folder(
    spark: Any, file_format: str | None, options: Mapping[str, str], uri: str, pipeline: RowPipeline
) -> Any:
    """What Spark reads below a folder.

    Raises DecodeError where a file has another value in a column than its folder says.
    """
    reader = spark.read.format(file_format).options(**options)
    before = spark.conf.get(_INFERENCE)
    spark.conf.set(_INFERENCE, "false")
    try:
        frame = reader.load(uri)
    finally:
        spark.conf.set(_INFERENCE, before)
    if str(file_format).lower() not in _OF_FILES or str(options.get(_FILES_ALONE, "")).lower() == "true":
        return frame
    known = {column.name: column for column in pipeline.flat_columns()}
    folders = {
        folder
        for file in frame.inputFiles()
        for folder in _below(file, uri).split("/")[:-1]
        if unquote(folder.partition("=")[0]) in known
    }
    named = {unquote(folder.partition("=")[0]) for folder in folders}
    if not named:
        return frame
    alone = spark.read.format(file_format).options(**{**options, _FILES_ALONE: "true"}).load(uri)
    both = [name for name in alone.columns if name in named]
    if both:
        rows = alone.select("_metadata.file_path", *(f"`{name}`" for name in both))
        check = partial(
            _contradictions, uri=uri, schema=pipeline.schema.to_json_dict(), columns=[known[name] for name in both]
        )
        faults = rows.mapInArrow(check, "message STRING").limit(1).collect()
        if faults:
            raise DecodeError(faults[0]["message"])
    return _with_texts_in_utf8(frame, folders)


def _with_texts_in_utf8(frame: Any, folders: Iterable[str]) -> Any:
    """Spark takes each escaped byte of a folder's name for a character: `Z%C3%BCrich` is no ü to it, as it is to those
    who write so.
    """
    right: dict[str, dict[str, str]] = {}
    for folder in folders:
        ((name, text),) = folder_texts(f"{folder}/")
        read_text = _ESCAPE.sub(lambda escape: chr(int(escape[1], 16)), folder.partition("=")[2])
        if text is not None and read_text != text:
            right.setdefault(name, {})[read_text] = text
    for name, texts in right.items():
        frame = frame.replace(texts, subset=[name])
    return frame


def _contradictions(
    batches: Iterable[pa.RecordBatch], uri: str, schema: Mapping[str, Any], columns: Sequence[ReaderColumn]
) -> Iterator[pa.RecordBatch]:
    """File path and columns of rows → messages of files whose folders say otherwise. Rows are numbered within the
    task.
    """
    parsed, first = Schema.from_json(schema), 1
    for batch in batches:
        numbers = np.arange(first, first + batch.num_rows, dtype=np.int64)
        first += batch.num_rows
        paths = batch.column(0).dictionary_encode()
        for index, path in enumerate(paths.dictionary.to_pylist()):
            mask = pc.equal(paths.indices, index)
            rows = InputBatch(batch.select(batch.schema.names[1:]).filter(mask), numbers[np.asarray(mask)])
            try:
                FolderValues(InputFile(Path(path)), folder_texts(_below(path, uri)), columns, parsed).filled(rows)
            except DecodeError as error:
                yield pa.RecordBatch.from_arrays([pa.array([error.message])], ["message"])


def _below(file: str, uri: str) -> str:
    """The path of a file below the folder that was read. Spark encodes the paths of files."""
    root = unquote(urlsplit(uri).path) if ":" in uri else os.path.abspath(uri)
    return unquote(urlsplit(file).path).removeprefix(root.rstrip("/") + "/")
